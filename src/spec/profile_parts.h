/* Steps that the profiles share.  Internal to the room. */
#pragma once
#include "base/buf.h"
#include "spec/profile.h"

#define PROFILE_HOME "/home/agent"
#define PROFILE_VENV "/opt/venv"
#define PROFILE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Adds a tmpfs that the workload owns. */
void profile_tmpfs(struct sandbox_spec *s, const char *target, uint64_t size, uint32_t mode);

/* Begins *s with everything but tmpfs and mounts; *ret_env is the caller's to free. */
int profile_fill(struct sandbox_spec *s, struct run_request *r, const char *workdir,
	char ***ret_env, struct err *e);

/* Moves the descriptors in and checks the whole; on failure *s is empty and *ret_env freed. */
int profile_finish(struct sandbox_spec *s, struct run_request *r, char ***ret_env, struct err *e);

/* --- for tasks --- */

/* Lists that become the request's own: strings are copied. */
struct profile_lists {
	struct buf env, command; /* each string with its NUL */
	unsigned n_env, n_command;
};
#define _cleanup_lists_ _cleanup_(profile_lists_done)
void profile_lists_done(struct profile_lists *l);

void profile_env(struct profile_lists *l, const char *name, const char *value);
void profile_argument(struct profile_lists *l, const char *argument);

/* The variables of a task, its virtual environment's too. */
int profile_task_env_put(struct profile_lists *l, const struct profile_env *env, unsigned n,
	bool with_models, bool has_venv, struct err *e);

/* Begins *p: a session that is read-only and has an end.  what: of which kind, for messages. */
int profile_begin(struct pack_request *p, const struct profile_base *b, enum spec_profile profile,
	uint64_t timeout_ms, uint64_t max_ms, struct err *e);

/* Labels are copied and checked. */
int profile_labels(struct sandbox_spec *s, const char *tid, const char *model, struct err *e);

/* Directories of the request; its descriptor stays where it is until profile_end(). */
int profile_bind(struct sandbox_spec *s, int fd, const char *target, bool writable, bool idmap,
	const char *what, struct err *e);

/* Checks the whole, moves the lists in, and makes the descriptors the spec's: fds are the request's own, each bind's in
 * order.  After a failure *p is empty and the descriptors are the request's still. */
int profile_end(struct pack_request *p, struct profile_base *b, struct profile_lists *l,
	int *const *fds, struct err *e);

/* Empties *p after a failure; the descriptors are the request's still. */
void profile_forget(struct pack_request *p);

/* How an agent finds the relay to its model. */
void profile_model_env(struct profile_lists *l);

/* The walls that an agent and its checks share. */
void profile_task_walls(struct sandbox_spec *s, const struct profile_base *b);
