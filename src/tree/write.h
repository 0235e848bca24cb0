/* What the two files of the writer share.  Internal to the room. */
#pragma once
#include "tree/inside.h"

enum {
	WRITE_PATH = 2 * ARCHIVE_MAX_NAME + 2, /* a name of the archive, and `top` in front */
	WRITE_TMP = 32,
};

/* The directories whose times and modes come at the end: records of this head and a path. */
struct late_dir {
	uint64_t key;
	int64_t mtime_ns;
	uint32_t mode;
	uint32_t size; /* of the record, a multiple of 8 */
	bool merged;   /* was there before */
	char path[];
};

struct tree_writer {
	struct tree_write_options o;
	struct tree_counts counts;
	int root;
	uint64_t entries;
	uint64_t unlooked,
		next_look; /* bytes since the last look at the free room, and up to the next */
	struct tree_set touched; /* inodes that this archive brought */
	struct tree_set gone;    /* dry run: hashes of paths that would be removed */
	uint64_t
		seed; /* of those: an archive made for it must not show a change as something new */
	bool *matched;                    /* one of each of o.paths */
	char first[ARCHIVE_MAX_PART + 1]; /* with `top`: the first part of all names, or "." */
	/* the directory of the entry, kept for the next one; -1: missing (dry run) or none yet (dir_known is false) */
	int dir_fd;
	bool dir_known;
	char dir_path[WRITE_PATH]; /* "" is the root */
	/* the entry */
	char path[WRITE_PATH], link[WRITE_PATH];
	const char *base;    /* the last part of path */
	bool ignore;         /* data go nowhere */
	int fd;              /* of the file under way */
	char tmp[WRITE_TMP]; /* its temporary name, or "" when it has its own already */
	uint64_t end;        /* where its data ended */
	/* late directories */
	char *late;
	size_t late_len, late_cap;
	struct tree_remove remove; /* scratch */
	struct archive_reader reader;
};

/* --- write.c --- */

/* n more bytes of data are to be written: archive_too_large. */
int tree_count_bytes(struct tree_writer *w, uint64_t n, struct err *e);

/* --- copy.c --- */

/* A copy of the file `file` (any descriptor of it) as the new `name` in the present directory. */
int tree_copy_file(struct tree_writer *w, int file, const char *name, struct err *e);

/* --- place.c --- */

/* Opens the directory of w->path, made when it is missing and `make`; sets w->base. */
int tree_place(struct tree_writer *w, bool make, struct err *e);

/* What stands at w->base: 0 nothing, 1 something (*ret), -1. */
int tree_there(struct tree_writer *w, struct stat *ret, struct err *e);

/* Calls action() when there is one; `there` as tree_there() says. */
void tree_tell(struct tree_writer *w, int there);

/* Removes what w->base names, with all in it; what the archive itself brought stays. */
int tree_clear(struct tree_writer *w, bool content_only, struct err *e);

/* The entry is a directory. */
int tree_put_dir(struct tree_writer *w, struct err *e);
int tree_finish_dirs(struct tree_writer *w, struct err *e);
int tree_note(struct tree_writer *w, const struct stat *st, struct err *e);
