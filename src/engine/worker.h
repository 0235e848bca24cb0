/* The walls of a process that reads a workload's files. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct worker_walls {
	int empty; /* an empty directory, its root from then on; borrowed */
	bool root; /* of a sandbox made by root: becomes uid, with the right to read any file */
	uid_t uid;
	bool trusted; /* has to read trusted.* attributes */
};

/* For good.  Closes all descriptors above 2 but the n in fds, which must be roots of detached, read-only mounts: from any other
 * directory ".." leads on up to the host's root. */
int worker_confine(const struct worker_walls *w, const int *fds, unsigned n, struct err *e);
