/* Walks a tree by held descriptors: no link is followed and no mount entered.  What appears or goes meanwhile may be
 * missed; what is exchanged for something else ends the walk with R_BUSY.  Names come sorted by byte, so that what is made
 * from a walk is the same each time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

enum { WALK_MAX_DEPTH = 200, WALK_MAX_PATH = 4096 };

enum walk_event {
	WALK_FILE,  /* anything but a directory */
	WALK_ENTER, /* a directory, before it is opened */
	WALK_LEAVE, /* the same, after all that is in it; st is as it was at WALK_ENTER */
	WALK_END,
};

struct walk_level {
	int fd;
	char *names; /* NUL-terminated ones behind each other */
	char **sorted;
	size_t n, next, path_len;
	struct stat st;
};

struct walk {
	struct walk_level levels[WALK_MAX_DEPTH + 1];
	unsigned depth;
	bool enter; /* the last event was WALK_ENTER */
	struct buf path;
	/* of the last event */
	enum walk_event event;
	int dirfd;        /* borrowed: the directory that holds it */
	const char *name; /* in dirfd */
	struct stat st;
};

/* Takes root_fd, also on failure. */
int walk_open(struct walk *w, int root_fd, struct err *e);
int walk_next(struct walk *w, struct err *e);

/* Behind WALK_ENTER: what is in the directory is left out, and so is its WALK_LEAVE. */
void walk_skip(struct walk *w);
void walk_done(struct walk *w);
#define _cleanup_walk_ _cleanup_(walk_done)

/* Opens the file of the last WALK_FILE for reading; *ret_fd is -1 when something is mounted there.  R_BUSY when it is not
 * the one any more that w->st is of. */
int walk_open_file(const struct walk *w, int *ret_fd, struct err *e);

/* R_BUSY: what was read was exchanged or cut meanwhile; -1. */
int walk_changed(const struct walk *w, struct err *e);

/* Removes what `name` is, with all in it; 0 when there is nothing.  Mounts below it are an error. */
int remove_at(int dirfd, const char *name, struct err *e);

/* R_DISK_FULL for a full disk, else R_STATE_UNWRITABLE; -1. */
int store_failed(struct err *e, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
