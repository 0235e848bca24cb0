/* Processes that read what strangers wrote, behind the walls of guard.c: one that unpacks, one that packs a directory. */
#pragma once
#include <sys/types.h>

#include "base/buf.h"
#include "image/import/guard.h"

struct worker {
	pid_t pid; /* 0: none */
	int reply_fd;
};

#define WORKER_NONE { 0, -1 }

/* What it is to do, in the new process; what it appends to reply comes back. */
typedef int worker_fn(void *arg, struct buf *reply, struct err *e);

/* Starts fn(arg) in a process of its own, behind the walls; that process dies with ours. */
int worker_start(struct worker *w, const struct guard *g, worker_fn *fn, void *arg, struct err *e);

/* Waits for its end and takes its reply, which is as little to be trusted as the image.  Its error is *e afterwards; its
 * death by a signal is R_IO_FAILED.  With e set already it is killed, and its error not looked at. */
int worker_finish(struct worker *w, struct buf *reply, struct err *e);
