/* Profiles: pure functions from a small typed request to a complete sandbox_spec.  No I/O; what a caller may choose is a
 * field of the request. */
#pragma once
#include "spec/spec.h"

enum { PROFILE_MAX_EXTRA_ENV = SPEC_MAX_ENV - 32 };

/* `bailey run`.  Descriptors move into the spec on success. */
struct run_request {
	char *const *argv;
	char *const
		*env; /* K=V, n_env of them, in order; a later one of a name wins; may be NULL */
	unsigned n_env;
	char *term;   /* "TERM=..." with a terminal, else NULL */
	int image_fd; /* -1: host */
	struct spec_bind binds[SPEC_MAX_BINDS];
	unsigned n_binds;
	bool has_workspace;  /* binds[0] is it */
	const char *workdir; /* NULL: /workspace with a workspace, else the home directory */
	struct spec_limits limits;
	uint64_t tmp_size; /* bytes of /tmp, of /dev/shm and of the home directory, each */
	uid_t uid;
	gid_t gid;
	bool allow_setgid, terminal, model_relay;

	/* `bailey create` only; argv is not used there: its commands come later */
	bool read_only;
	uint64_t disk_bytes;            /* not read with read_only, unless a bind is cow */
	uint64_t ttl_ms;                /* 0: none */
	int image_lock_fd;              /* moves into the spec; 0 and -1: none */
	const uint8_t *workspace_print; /* SPEC_PRINT_LEN bytes, or NULL; only of a cow workspace */
};

/* Fills *s.  *ret_env is the environment that s->env points to: one allocation, the caller frees it after the spec. */
int profile_run(struct sandbox_spec *s, struct run_request *r, char ***ret_env, struct err *e);

/* `bailey create`: the same walls around a sandbox that lives; its root is writable unless read_only is set. */
int profile_create(struct sandbox_spec *s, struct run_request *r, char ***ret_env, struct err *e);
