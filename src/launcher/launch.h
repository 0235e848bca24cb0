/* What is asked of a launcher, over its socket (SOCK_SEQPACKET: one message is one request).
 *
 * A message is a head and strings, with descriptors beside it (SCM_RIGHTS).  There are four requests and no others; whatever
 * is malformed ends the connection.
 *
 *   CREATE  strings: the profile, then name and value of each parameter.  A parameter whose name begins with '@' takes the next
 *           descriptor.  The last descriptor is a stream socket on which the answer comes: one RESULT frame of wire.h, as
 *           from an engine (spec/pack.h); the launcher itself says nothing.
 *   HOME    no strings.  Answer: a descriptor of the directory in which the caller's sandboxes lie, as $BAILEY_HOME/sandbox.
 *   STATUS  no strings.  Answer: names and values.
 *
 * An answer is LAUNCH_DONE with strings, or LAUNCH_REFUSED with reason, message and remedy. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	LAUNCH_VERSION = 1,
	LAUNCH_MAX = 128 << 10, /* bytes of a message */
	LAUNCH_MAX_STRINGS = 2048,
	LAUNCH_MAX_FDS = 40,
};

#define LAUNCH_SOCKET "launcher.sock"
#define LAUNCH_ROOT_DIR "/run/bailey"

enum launch_op {
	LAUNCH_CREATE = 1,
	LAUNCH_HOME,
	LAUNCH_STATUS,
	LAUNCH_DONE = 64,
	LAUNCH_REFUSED,
};

/* A message to be sent: strings are added, descriptors are borrowed. */
struct launch_out {
	struct buf body;
	uint32_t n;
	int fds[LAUNCH_MAX_FDS];
	unsigned n_fds;
	bool failed; /* sticky: over one of the bounds */
};
#define LAUNCH_OUT_INIT \
	{ \
		.body = {.max = LAUNCH_MAX } \
	}
#define _cleanup_launch_out_ _cleanup_(launch_out_done)
void launch_out_done(struct launch_out *o);

void launch_put(struct launch_out *o, const char *text);
void launch_put_fd(struct launch_out *o, int fd);

/* -1 with errno; E2BIG when it is over a bound. */
int launch_send(int sock, enum launch_op op, const struct launch_out *o);

/* A message that came.  Strings lie in memory, which launch_in_done() frees with whatever descriptors are left. */
struct launch_in {
	enum launch_op op;
	const char *v[LAUNCH_MAX_STRINGS];
	uint32_t n;
	int fds[LAUNCH_MAX_FDS];
	unsigned n_fds;
	char *memory;
};
#define _cleanup_launch_in_ _cleanup_(launch_in_done)
void launch_in_done(struct launch_in *m);

/* 1: a message; 0: the end of the connection; -1: none now (errno EAGAIN), or malformed (EPROTO), or broken.  *m is empty then. */
int launch_receive(int sock, struct launch_in *m);

/* The path of the launcher's socket for this process: $BAILEY_LAUNCHER, else the one of root's or of this user's launcher when
 * it exists.  *ret NULL: there is none, or BAILEY_LAUNCHER is "none".  The caller's to free. */
int launch_path(char **ret, struct err *e);

/* Connected, or -1 with R_LAUNCHER_UNREACHABLE. */
int launch_connect(const char *path, int *ret, struct err *e);

/* Sends a request and waits for its answer, at most LAUNCH_WAIT_MS; a refusal becomes *e. */
enum { LAUNCH_WAIT_MS = 10000 };
int launch_ask(int sock, enum launch_op op, struct launch_in *ret, struct err *e);
