/* A layer's entries laid over a tree. */
#pragma once
#include <stdbool.h>

#include "image/import/stream.h"

/* What was left out, of one layer or of a chain of them. */
struct layer_facts {
	uint64_t special, setid, xattrs;
};

/* Lays the rest of the stream's entries over the tree root_fd, which nobody else writes to.  Names stay beneath it, no
 * link is followed, files of the tree are replaced and never written to (they are shared by hard links).
 * R_ARCHIVE_REFUSED, R_ARCHIVE_TOO_LARGE, R_DISK_FULL, R_STATE_UNWRITABLE; the tree is then of no use. */
int layer_apply(struct stream *s, int root_fd, struct limits *limits, struct layer_facts *facts,
	struct err *e);

/* Fills the empty directory `to` with the tree `from`: directories are made anew, the rest is linked.  Takes both.
 * *entries grows by how many that were. */
int tree_clone(int from, int to, uint64_t *entries, struct err *e);

/* Counts what is in a tree; takes root_fd. */
int tree_measure(int root_fd, uint64_t *ret_bytes, uint64_t *ret_entries, struct err *e);
