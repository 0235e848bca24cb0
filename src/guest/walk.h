/* A tree of files, one entry at a time.  Internal to list.c, search.c, remove.c and tar_out.c.  Follows no link, and what is
 * swapped for a link meanwhile is noticed; keeps few descriptors however deep it is. */
#pragma once
#include "guest/session.h"

enum {
	WALK_DEPTH = 512,
	WALK_LISTING = 16 << 10,
	WALK_HELD = 16, /* levels whose directory stays open; those below are found again by ".." */
};

struct walk_entry { /* as getdents64 gives it */
	uint64_t ino;
	int64_t off;
	uint16_t length;
	uint8_t type;
	char name[];
};

struct walk_level {
	uint64_t dev, ino;
	int64_t off;
	int fd; /* -1: not held */
	uint32_t path_len;
};

struct walk {
	int dir; /* -1: ended */
	uint32_t depth;
	int64_t off; /* behind the last entry */
	long at, end;
	uint64_t dev, ino; /* of dir */
	uint32_t path_len;
	char path
		[WIRE_MAX_PATH]; /* of dir, relative to the root, empty or with a slash at its end */
	struct walk_level above[WALK_DEPTH];
	uint8_t listing[WALK_LISTING] __attribute__((aligned(8)));
};

enum walk_step { WALK_ENTRY, WALK_LEFT, WALK_END, WALK_FAILED };

/* Takes a directory's descriptor; 0 or -errno (it is closed then). */
long walk_begin(struct walk *w, int dir);
/* The next entry but "." and ".."; *ret is valid until the next call.  WALK_LEFT: a directory is done, its parent goes on;
 * WALK_FAILED: *ret_error. */
enum walk_step walk_next(struct walk *w, const struct walk_entry **ret, uint32_t *ret_error);
/* Goes into a directory of the present one: 0 or -errno (-EXDEV: /proc and its like, -ELOOP: no directory). */
long walk_enter(struct walk *w, const char *name);
/* Reads the present directory again from its beginning. */
void walk_rewind(struct walk *w);
/* Writes the path of `name`; returns its length, or 0 when that is too long.  out has WIRE_MAX_PATH bytes. */
uint32_t walk_path(const struct walk *w, const char *name, char *out);
void walk_end(struct walk *w);
