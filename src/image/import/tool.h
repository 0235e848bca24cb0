/* Other programs that bailey-image runs: skopeo and mmdebstrap.  Only when a verb needs one. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct tool {
	const char *package;     /* for the remedy when it is missing */
	const char *const *argv; /* argv[0] is looked for in PATH */
	const char *tmpdir;      /* TMPDIR for it, or NULL */
	int death_signal;        /* what it gets when we die */
	int lock_fd;             /* stays open in it: nobody sweeps what it works on.  Borrowed */
	bool mounts;             /* it mounts: as root in a mount namespace of its own */
	int out_fd;              /* its standard output; -1: /dev/null.  Borrowed */
};

/* A tool at work; what it says on its standard error is kept aside and logged when it fails. */
struct running_tool {
	pid_t pid; /* 0: none */
	int err_fd;
	const char *name;
};

/* R_TOOL_MISSING when there is no such program. */
int tool_start(const struct tool *t, struct running_tool *ret, struct err *e);

/* Waits for its end.  R_TOOL_FAILED with its status, unless e is set already: then it is killed first and only
 * reaped. */
int tool_finish(struct running_tool *t, struct err *e);
