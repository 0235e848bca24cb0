/* Profiles: pure functions from a small typed request to a complete sandbox_spec.  No I/O; what a caller may choose is a
 * field of the request. */
#pragma once
#include "spec/pack.h"
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

/* --- for tasks ------------------------------------------------------------------------------------------------------
 *
 * Each makes a sandbox that lives for one command, whose root is read-only, and which has an end.  What a request says is
 * checked; everything else is built in.  Descriptors are O_PATH of directories, -1 where there is none; they move into the
 * spec on success, and stay the request's after a failure.  Strings are borrowed for the call. */

#define PROFILE_AGENT_IMAGE "bailey/agent:v" BAILEY_VERSION
enum { PROFILE_AGENT_ID = 64000 }; /* unless the operator says otherwise */

/* What the operator sets, not whoever asks. */
struct profile_base {
	int image_fd, image_lock_fd; /* move into the spec */
	const char *image_ref;       /* for an engine with images of its own; NULL: none */
	const char *runtime;         /* NULL: the engine's own choice */
	uid_t uid;                   /* inside */
	gid_t gid;
	uint64_t
		now_ms; /* since the epoch, to know the deadline; 0: the owner of the sandbox will */
};
#define PROFILE_BASE_INIT { .image_fd = -1, .image_lock_fd = -1 }

struct profile_env {
	const char *name, *value;
};

/* The variables that a task may be given, as agent_env[] lists them, are fewer than this. */
enum { PROFILE_MAX_TASK_ENV = 16 };

#define PROFILE_AGENT_MAX_MS (4 * 3600000ull)
#define PROFILE_CHECK_MAX_MS (1 * 3600000ull)
#define PROFILE_HELPER_MAX_MS (10 * 60000ull)
#define PROFILE_SCRIPT_MAX_MS (600 * 1000ull)

/* An agent's command line program on a worktree, with a model behind 127.0.0.1:4000. */
struct agent_request {
	struct profile_base base;
	const char *tid, *model;
	char *const *command; /* begins with claude, codex, agy or grok */
	struct profile_env env[PROFILE_MAX_TASK_ENV];
	unsigned n_env;
	uint64_t timeout_ms; /* 1 to PROFILE_AGENT_MAX_MS */
	int worktree, sockets, venv;
};

/* `bash -c` on a worktree, without a model. */
struct check_request {
	struct profile_base base;
	const char *tid, *command;
	const char *model; /* a label; NULL: none */
	struct profile_env env[PROFILE_MAX_TASK_ENV];
	unsigned n_env;
	uint64_t timeout_ms; /* 1 to PROFILE_CHECK_MAX_MS */
	int worktree, venv;
};

enum git_operation {
	GIT_PROBE,         /* what the folder is */
	GIT_SNAPSHOT,      /* a commit into the empty shadow directory */
	GIT_DELIVER,       /* a branch agent/ID from the shadow directory */
	GIT_DELETE_BRANCH, /* such a branch, and nothing else */
	GIT_VENV,          /* whether a directory is a virtual environment */
};
enum { GIT_N_OPERATIONS = GIT_VENV + 1 };

/* One fixed script on the caller's repository, with the caller's ids. */
struct git_helper_request {
	struct profile_base base;
	enum git_operation operation;
	const char *tid;    /* NULL: none */
	const char *ref;    /* SNAPSHOT: HEAD, a name or an object's id; NULL: HEAD */
	const char *branch; /* DELIVER, DELETE_BRANCH: agent/ID */
	uint64_t timeout_ms;
	int repo;    /* all but VENV */
	int git_dir; /* the common directory of a worktree; -1: it lies in the repository */
	int shadow;  /* SNAPSHOT, DELIVER */
	int venv;    /* VENV */
};

/* Gives a workspace to a user, by root with three capabilities. */
struct handoff_request {
	struct profile_base base; /* its ids are not read */
	const char *tid;          /* NULL: none */
	uint64_t timeout_ms;
	int workspace;
	uint64_t dev, ino; /* of what was checked; nothing else is touched */
	uid_t to_uid;
	gid_t to_gid;
	bool same_user; /* the engine can give files to nobody: the command says so and does nothing */
};

enum script_language { SCRIPT_PYTHON, SCRIPT_BASH };

/* script.py or script.sh of a directory. */
struct script_request {
	struct profile_base base;
	const char *tid; /* NULL: none */
	enum script_language language;
	uint64_t timeout_ms; /* 1 to PROFILE_SCRIPT_MAX_MS */
	int script;
};

/* Each fills *p, which pack_done() releases; on failure *p is empty.  The caller adds a name, what the image and workspace
 * are called, and keep. */
int profile_agent(struct pack_request *p, struct agent_request *r, struct err *e);
int profile_check(struct pack_request *p, struct check_request *r, struct err *e);
int profile_git_helper(struct pack_request *p, struct git_helper_request *r, struct err *e);
int profile_handoff(struct pack_request *p, struct handoff_request *r, struct err *e);
int profile_script(struct pack_request *p, struct script_request *r, struct err *e);

/* The variables that a request of agent or check may set: the first four are for check too. */
extern const char *const profile_task_env[];
extern const unsigned n_profile_task_env;

/* Whether a task may have this variable; with_models: the ids of models too. */
int profile_env_check(const char *name, const char *value, bool with_models, struct err *e);

/* Fills dev and ino from the workspace's descriptor: what is there now is what was checked. */
int handoff_object(struct handoff_request *r, struct err *e);
