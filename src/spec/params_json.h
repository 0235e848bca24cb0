/* The words of a command as a JSON array of strings.  Internal to the room, but for param_put_words() of params.h. */
#pragma once
#include "base/err.h"

/* *ret: one allocation, NULL-terminated, the caller's to free. */
int param_get_words(const char *text, char ***ret, struct err *e);
