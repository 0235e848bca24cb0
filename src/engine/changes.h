/* What the writable layers of a tree hold beside what lies below them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/overlay.h"

enum {
	CHANGES_WRITABLE = 24,
	CHANGES_LOWER = 160, /* Docker's images have up to 127 layers */
	CHANGES_FDS = CHANGES_WRITABLE + CHANGES_LOWER + 1,
	CHANGES_GROWTH = 4, /* bytes of an archive for each byte that the layers can hold */
};

/* One directory of one layer; ids: what is taken off an owner to have the id inside. */
struct changes_side {
	int fd;
	uid_t ids;
};

/* The same directory in every layer that has it, the uppermost first.  Owns its descriptors. */
struct changes_place {
	struct changes_side writable[CHANGES_WRITABLE], lower[CHANGES_LOWER];
	unsigned n_writable, n_lower;
	bool opaque; /* nothing of `lower` is seen here */
};

struct changes_how {
	int out;      /* borrowed; written to the end */
	bool content; /* an archive; else records */
	bool own;     /* owners differ; else all is uid's and gid's */
	uid_t uid;
	gid_t gid;
	uint32_t ids; /* how many ids there are inside */
	enum layer_marks marks;
	uint64_t left; /* bytes of data that an archive may hold: R_ARCHIVE_TOO_LARGE above */
	/* paths that were not the workload's doing; what lies below one may be.  NULL: none */
	bool (*hidden)(const void *arg, const char *path);
	const void *arg;
};

/* Writes a whole list, or one that ends with the failure, which *e has then.  top stays the caller's. */
int changes_write(struct changes_place *top, const struct changes_how *how, struct err *e);
/* What worker_confine() has to leave open for it: how many are in keep, which has room for CHANGES_FDS. */
unsigned changes_fds(const struct changes_place *top, int out, int *keep);
void changes_place_done(struct changes_place *p);
