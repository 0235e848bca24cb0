/* Names in archives, and which of them a layer has used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { NAME_MAX_PATH = 4096, NAME_MAX_PART = 255, NAME_MAX_DEPTH = 128 };

/* Brings a name into one form: no leading or trailing '/', no '.', no '//'; "" is the root itself.  An absolute name, one
 * with '..', and one that is too long or too deep is R_ARCHIVE_REFUSED. */
int name_clean(const char *raw, char ret[static NAME_MAX_PATH], struct err *e);

/* The part behind the last '/'; what is before it is *ret_dir_len bytes. */
const char *name_last(const char *name, size_t *ret_dir_len);

/* Where a link's text leads, seen from the file `name`, within the archive: the directory of name, '..' and all, as one
 * clean name.  Only for archives of images, whose own files may stand for each other. */
int name_resolve(const char *name, const char *link, char ret[static NAME_MAX_PATH], struct err *e);

/* A set of names, by hash: two names that collide are at worst mixed up within one image. */
struct seen {
	uint64_t *slots;
	size_t cap, n;
};

void seen_done(struct seen *s);
/* Adds a name and every directory above it. */
int seen_add(struct seen *s, const char *name, struct err *e);
bool seen_has(const struct seen *s, const char *name);
