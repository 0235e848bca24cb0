/* Trees for a chain of layers, each on top of the one below. */
#pragma once
#include "image/import/config.h"

enum {
	CHAIN_KEEP_BYTES = 16 << 20, /* of files laid before another tree is begun */
	CHAIN_MAX_CLONED = 4000000,  /* entries that one import links for the sake of sharing */
};

struct chain_tree {
	char work[16], hex[IMAGE_HEX]; /* its name in the work directory, and in the store */
	struct tree_info info;
};

/* What has been laid so far.  All zero: nothing. */
struct chain {
	char hex[IMAGE_HEX]; /* "": nothing */
	struct layer_facts facts;
	uint64_t since; /* bytes in the tree that is open */
	uint64_t cloned;
	struct chain_tree made[MANIFEST_MAX_LAYERS]; /* new ones, from the bottom up */
	unsigned n_made;
};

/* Lays the layers of an image from the highest tree on that the store has.  R_DIGEST_MISMATCH and what layer_apply()
 * gives. */
int chain_lay(struct chain *c, struct store *store, const struct source *s,
	const struct manifest *m, const struct diff_ids *ids, struct limits *limits, struct err *e);

/* Lays one tar that nothing is known of; its digest is then the chain. */
int chain_lay_tar(
	struct chain *c, struct store *store, int fd, struct limits *limits, struct err *e);

/* The topmost tree, for reading. */
int chain_open(const struct chain *c, const struct store *store, int *ret_fd, struct err *e);

/* Writes the new trees to the disk and moves them to where they can be seen. */
int chain_publish(struct chain *c, struct store *store, struct err *e);
