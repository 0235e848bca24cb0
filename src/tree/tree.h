/* Trees of files on the host: an archive written beneath a directory, a directory read as an archive, the fingerprint of a
 * directory.  Archive and tree are both somebody else's: every name is refused or looked up beneath a held descriptor, no
 * link is ever followed, and a process that swaps names for links meanwhile gains nothing.  Linux 5.6 (openat2).
 *
 * Errors of all: archive_refused (the archive is malformed or names what it may not), archive_too_large (a limit),
 * is_a_directory, not_a_directory, path_not_found, permission_denied, disk_full, io_failed.  Messages name the path, odd bytes
 * escaped. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "archive/archive.h"
#include "base/err.h"

enum {
	TREE_MAX_FINGERPRINT = 200000, /* entries that tree_fingerprint() looks at */
	TREE_READ_MIN = 64 << 10,      /* bytes that a buffer for tree_reader_read() has at least */
};

/* What was done, or in a dry run would be.  Entries that already are as the archive says count too. */
struct tree_counts {
	uint64_t files, dirs, symlinks, hardlinks;
	uint64_t
		removed; /* entries, by whiteouts and by --replace rules; a directory with all in it counts as its entries */
	uint64_t bytes;    /* of file data, holes not counted */
	uint64_t skipped;  /* devices, sockets, FIFOs */
	uint64_t stripped; /* set-id bits (and sticky bits of files) that were taken off */
	uint64_t
		changed; /* reading: files that became shorter or unreadable meanwhile, filled with zeros; or vanished */
	uint64_t
		unlinked; /* reading: hard links written as files of their own, since the table was full */
};

/* --- an archive, written beneath a directory: as the caller's own files, without set-id bits --- */

enum tree_write_flags {
	TREE_WHITEOUTS =
		1, /* ".wh.NAME" removes NAME, ".wh..wh..opq" all that this archive didn't bring (OCI layers) */
	TREE_REPLACE =
		2, /* a file may take the place of a directory, and the reverse; else that is refused */
	TREE_DRY_RUN = 4, /* change nothing: only refuse, count and call action() */
	TREE_BELIEVED =
		8, /* when its maker could not finish the archive, his reason is the error: he is no stranger */
};

struct tree_action {
	char kind;              /* 'A' is new, 'M' changes what is there, 'D' is removed */
	enum archive_type type; /* of the new; not for 'D' */
	const char *path;       /* relative to the directory; borrowed */
	uint32_t mode;
	uint64_t size;
};

/* Zeros and NULLs are good defaults. */
struct tree_write_options {
	unsigned flags;
	/* Limits; 0: the default.  Besides, what comes behind the first 16 MiB (an entry counts 4 KiB) must leave free 5 % of the file
	 * system, or 256 MiB if that is less, and 1 % of its inodes: else disk_full. */
	uint64_t max_bytes;   /* of data, holes not counted (1 TiB) */
	uint64_t max_size;    /* of one file, holes counted (1 TiB) */
	uint64_t max_entries; /* also the directories made on the way (4,000,000) */
	/* The first part of every name is replaced by this one (no slash in it): copying "a" to "b".  All entries must then
	 * have the same first part, or be the root, which then is `top` too. */
	const char *top;
	/* Only these, and what lies beneath them: cleaned names relative to the directory.  Kept until the writer is freed. */
	const char *const *paths;
	size_t n_paths;
	void (*action)(void *arg, const struct tree_action *a); /* before each change */
	void *arg;
};

/* Takes a copy of dirfd.  Free with tree_writer_free(), also after an error. */
struct tree_writer;
int tree_writer_open(
	struct tree_writer **ret, int dirfd, const struct tree_write_options *o, struct err *e);

/* The archive's bytes, in pieces of any size.  After an error only tree_writer_free() may follow; what was written up to then
 * stays, the file under way is removed. */
int tree_writer_feed(struct tree_writer *w, const void *p, size_t n, struct err *e);

/* The end of the archive: refuses a truncated one, sets times and modes of directories.  path_not_found when one of `paths`
 * matched nothing (the others are then written). */
int tree_writer_finish(struct tree_writer *w, struct tree_counts *ret, struct err *e);

/* Feeds all that a descriptor has, up to its end. */
int tree_writer_feed_fd(struct tree_writer *w, int fd, struct err *e);
void tree_writer_free(struct tree_writer *w); /* NULL is fine */

static inline void cleanup_tree_writer(struct tree_writer **w)
{
	tree_writer_free(*w);
}
#define _cleanup_tree_writer_ _cleanup_(cleanup_tree_writer)

/* --- a tree, read as an archive --- */

struct tree_read_options {
	uint64_t max_entries; /* 0: 4,000,000 */
};

/* Reads `name` beneath dirfd (one part; a link is read as a link), or with NULL the directory itself, as an archive whose first
 * entry is called `as` ("." for NULL).  Takes a copy of dirfd.  Special files are skipped and counted; a file that changes
 * meanwhile keeps the size it had when its turn came. */
struct tree_reader;
int tree_reader_open(struct tree_reader **ret, int dirfd, const char *name, const char *as,
	const struct tree_read_options *o, struct err *e);

/* The next bytes of the archive: at most cap (at least TREE_READ_MIN); *ret_n 0 is the end.  -1: no more may follow. */
int tree_reader_read(struct tree_reader *r, void *buf, size_t cap, size_t *ret_n, struct err *e);

const struct tree_counts *tree_reader_counts(const struct tree_reader *r);
void tree_reader_free(struct tree_reader *r); /* NULL is fine */

static inline void cleanup_tree_reader(struct tree_reader **r)
{
	tree_reader_free(*r);
}
#define _cleanup_tree_reader_ _cleanup_(cleanup_tree_reader)

/* The error that text of archive_failure() describes: "REASON\nREMEDY\nMESSAGE".  Returns -1. */
int tree_given_up(const char *text, struct err *e);

/* --- a tree --- */

/* Removes `name` (one part) beneath dirfd with all in it, following nothing, leaving other file systems alone.  Adds to
 * *count.  0 when nothing is there. */
int tree_remove(int dirfd, const char *name, uint64_t *count, struct err *e);

/* To notice that somebody changed a directory: names, inodes, modes, sizes and both times of what is in it, in no order.  No
 * cryptographic hash: ctime is what can't be forged. */
struct tree_fingerprint {
	uint8_t sum[32];
	uint64_t entries;
	bool partial; /* more than TREE_MAX_FINGERPRINT entries: only the top level counts */
};
int tree_fingerprint(int dirfd, struct tree_fingerprint *ret, struct err *e);
