/* An object of the host by its identity, and everything above it up to the root. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHAIN_MAX = 256 }; /* objects: a path's depth and what its mounts add */

struct object {
	dev_t dev;
	ino_t ino;
	mode_t mode;
	uint64_t mount;  /* the id of the mount through which it was seen */
	bool mount_root; /* it is that mount's root */
};

/* at[0] is the object itself, the rest is above it in no promised order; `root` is the index of the name space's root. */
struct chain {
	struct object at[CHAIN_MAX];
	unsigned n, root;
};

static inline bool same_object(const struct object *a, const struct object *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

/* `name` below dirfd, links not followed; "" is dirfd itself.  -1 with errno. */
int object_at(int dirfd, const char *name, struct object *ret);

/* The object that fd is of and what lies above it.  -1 with errno: at[0] is set when c->n isn't 0. */
int chain_of(int fd, struct chain *c);

/* Adds the directory and what lies above it, to the root or, with a mount's id, no further than that mount's root. */
int chain_add(struct chain *c, int dir, uint64_t only_mount);

/* The name by which the kernel knows the object, "" when it has none that can be reached. */
void path_of(int fd, char out[static PATH_MAX]);

/* The directory in which a path's last component lies, opened O_PATH; the path is cut there.  -1 with errno. */
int open_parent(char *path);
