/* Steps that the profiles share.  Internal to the room. */
#pragma once
#include "spec/profile.h"

#define PROFILE_HOME "/home/agent"

/* Adds a tmpfs that the workload owns. */
void profile_tmpfs(struct sandbox_spec *s, const char *target, uint64_t size, uint32_t mode);

/* Begins *s with everything but tmpfs and mounts; *ret_env is the caller's to free. */
int profile_fill(struct sandbox_spec *s, struct run_request *r, const char *workdir,
	char ***ret_env, struct err *e);

/* Moves the descriptors in and checks the whole; on failure *s is empty and *ret_env freed. */
int profile_finish(struct sandbox_spec *s, struct run_request *r, char ***ret_env, struct err *e);
