/* Internal to search.c, and its tests. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the whole of `name` match? */
bool glob_match(const char *pattern, const char *name, bool ignore_case);

/* Where the text begins in n bytes; -1: nowhere.  len is not 0. */
long text_find(const uint8_t *p, size_t n, const char *what, size_t len, bool ignore_case);
