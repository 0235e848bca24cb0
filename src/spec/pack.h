/* What a new sandbox is made from, as one buffer with descriptors beside it: from whoever asks to the engine's process.
 *
 * On the socket: u32 length of what follows, then the packed request; the descriptors come with its first bytes
 * (SCM_RIGHTS).  The answer is one RESULT frame of wire.h on stream 1: error 0 and the id as its rest, or
 * WIRE_RESULT_REASON. */
#pragma once
#include "base/buf.h"
#include "spec/spec.h"

enum {
	PACK_MAX = 4 << 20,
	PACK_MAX_FDS = SPEC_MAX_BINDS + 2,
	PACK_NAME = 64,   /* a sandbox name with its NUL */
	PACK_TEXT = 1024, /* how the image was named */
	PACK_PATH = 4096,
	PACK_MAX_STRINGS = 65536, /* of a command, and of an environment */
};

#define PACK_MAX_SPOOL (1ull << 40)

/* Of the strings none is used as a path: they are told to whoever inspects the sandbox. */
struct pack_request {
	struct sandbox_spec spec; /* argv is not packed; env is */
	char name[PACK_NAME];     /* empty: none */
	char image[PACK_TEXT];
	char workspace[PACK_PATH]; /* empty: none */
	bool keep;                 /* does not end with its command */
	uint64_t spool_max;        /* bytes of output kept of each command; 0: the default */
	char *const *command;      /* NULL-terminated; NULL: none */
	void *memory;              /* what env and command lie in after unpacking; owned */
};

#define _cleanup_pack_ _cleanup_(pack_done)

/* Closes and frees what it owns. */
void pack_done(struct pack_request *r);

/* Appends to out, and gives the descriptors in order; they stay the request's. */
int pack_put(const struct pack_request *r, struct buf *out, int ret_fds[static PACK_MAX_FDS],
	unsigned *ret_n, struct err *e);

/* Checks everything that was packed, the spec itself too.  The descriptors are taken over, on failure closed. */
int pack_get(
	const void *p, size_t n, int *fds, unsigned n_fds, struct pack_request *ret, struct err *e);

/* Over a blocking stream socket. */
int pack_send(int sock, const struct pack_request *r, struct err *e);
int pack_receive(int sock, struct pack_request *ret, struct err *e);

/* Sandbox names: [a-z0-9][a-z0-9._-]{0,62} */
bool pack_name_is_valid(const char *name);
