/* A sandbox that lives (profile `create`), as it is asked of a launcher: what `bailey create` can say, but no spec.  Both sides
 * use this; what the launcher gets it admits and builds anew. */
#pragma once
#include "launcher/launch.h"
#include "spec/pack.h"
#include "spec/profile.h"

/* The client: the request that it filled, with name, image, workspace, keep, spool_max, host name and command of *rest.
 * Descriptors are borrowed.  Refused where a launcher could not do it: without limits. */
int launch_create_put(struct launch_out *o, const struct run_request *r,
	const struct pack_request *rest, const char *engine, struct err *e);

/* The launcher: what came, checked.  Strings are those of the message. */
struct launch_create {
	struct run_request request;                               /* its descriptors are owned */
	const char *name, *image, *workspace, *hostname, *engine; /* NULL: not given */
	bool keep;
	uint64_t spool_max;
	char *env[LAUNCH_MAX_STRINGS], *command[LAUNCH_MAX_STRINGS];
	unsigned n_env, n_command;
	uint8_t print[SPEC_PRINT_LEN];
};
void launch_create_done(struct launch_create *c);

/* Admits the message's descriptors with uid as the one who asks.  After a failure launch_create_done() is needed too. */
int launch_create_get(struct launch_create *c, const struct launch_in *m, uid_t uid, struct err *e);

/* By the profile; on success pack_done() is the caller's, and *c may go. The strings stay the message's. */
int launch_create_build(struct launch_create *c, struct pack_request *ret, struct err *e);
