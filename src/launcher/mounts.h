/* The mounts of this mount namespace: what lies below a directory, and where else a mounted object lies. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "launcher/chain.h"
#include "launcher/forbidden.h"

struct mount {
	uint64_t id;
	const char *device; /* "8:1" */
	const char *root;   /* of the mount, as a path of its own file system */
	const char *point;
	const char *type;
};

/* The strings lie in text. */
struct mounts {
	struct buf text;
	struct mount *v;
	size_t n;
};

#define MOUNTS_INIT { .v = NULL }
void mounts_done(struct mounts *m);
#define _cleanup_mounts_ _cleanup_(mounts_done)

/* Reads /proc/self/mountinfo, or fails. */
int mounts_load(struct mounts *m, struct err *e);

/* The same from a text, which is taken over; malformed lines fail. */
int mounts_parse(struct mounts *m, struct err *e);

/* Adds to a chain what lies above its objects where their file systems are mounted as a whole: a bind mount of /etc/ssl has
 * /etc above it.  True and *ret set when a mount in the chain may not be shown, whatever lies above it. */
bool mounts_add_aliases(const struct mounts *m, struct chain *c, struct refusal *ret);

/* What of path lies below dir, without a slash in front; NULL when it doesn't, "" when it is dir. */
const char *below(const char *path, const char *dir);
