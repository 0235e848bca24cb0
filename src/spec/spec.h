/* sandbox_spec: everything an engine must know to make one sandbox, and nothing a caller could pass through unread.
 *
 * Filled by a profile (profile_*.c) from a small typed request; checked again by the engine.  Fixed size: strings that a
 * caller controls live outside (argv, environment) or in bounded arrays.  Bytes, milliseconds, thousandths of a CPU. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
	SPEC_VERSION = 3,
	SPEC_MAX_BINDS = 32,
	SPEC_MAX_TMPFS = 8,
	SPEC_MAX_TARGET = 256,   /* bytes with the NUL: a mount target inside the sandbox */
	SPEC_MAX_ARGV = 1 << 20, /* execve's own limit is on bytes */
	SPEC_MAX_ENV = 16384,    /* entries; execve's own limit is on bytes */
	SPEC_ID_LEN = 24,        /* a sandbox id with its NUL */
	SPEC_PRINT_LEN = 32,     /* bytes of a directory's fingerprint */
	SPEC_IMAGE_REF = 256,    /* these four with their NUL */
	SPEC_RUNTIME = 64,
	SPEC_TID = 65,
	SPEC_MODEL = 128,
};

/* Who filled it; also the role under which a sandbox is found. */
enum spec_profile {
	SPEC_RUN, /* one command; every other is a session */
	SPEC_CREATE,
	SPEC_AGENT,
	SPEC_CHECK,
	SPEC_GIT_HELPER,
	SPEC_HANDOFF,
	SPEC_SCRIPT,
};
#define SPEC_N_PROFILES ((unsigned)SPEC_SCRIPT + 1)

/* The capabilities that add_caps may hold, by their numbers in linux/capability.h. */
enum {
	SPEC_CAP_CHOWN = 1u << 0,
	SPEC_CAP_DAC_OVERRIDE = 1u << 1,
	SPEC_CAP_FOWNER = 1u << 3,
	SPEC_HANDOFF_CAPS = SPEC_CAP_CHOWN | SPEC_CAP_DAC_OVERRIDE | SPEC_CAP_FOWNER,
};

/* Limits that hold for every engine.  0 is 'not set' only for the fields that say so. */
struct spec_limits {
	uint64_t memory_bytes; /* swap is always 0 beside it */
	uint32_t cpu_millis;
	uint32_t pids;       /* processes of the workload; Bailey's own come on top */
	uint64_t timeout_ms; /* 0: none */
	bool unlimited;      /* the named escape hatch: no cgroup is required */
};

enum spec_bind_kind {
	BIND_DIR,
	BIND_SOCKET, /* a Unix socket of the host, mounted alone */
};

/* A host object shown inside.  fd is O_PATH, opened once by the caller with the caller's rights; owned by the spec. */
struct spec_bind {
	int fd;
	enum spec_bind_kind kind;
	bool writable;
	bool cow;   /* session only, one directory: writes go to the layer; not with writable */
	bool idmap; /* map the caller's uid and gid to the workload's (only meaningful as root) */
	char target[SPEC_MAX_TARGET];
	bool has_object; /* what is mounted must be exactly this object, whatever became of its path */
	uint64_t dev, ino; /* st_dev and st_ino on the host */
};

struct spec_tmpfs {
	char target[SPEC_MAX_TARGET];
	uint64_t size;
	uint64_t inodes;
	uint32_t mode;
	bool owned; /* by the workload's uid and gid, else by the sandbox's root */
};

struct sandbox_spec {
	uint32_t version;
	enum spec_profile profile;
	char id[SPEC_ID_LEN];
	char hostname[64];

	int image_fd;      /* O_PATH of a root directory, owned; -1: the host's own /usr ("host") */
	int image_lock_fd; /* open, it keeps an image of the store from removal; owned; -1: none */
	char image_ref
		[SPEC_IMAGE_REF]; /* for an engine with images of its own; empty: image_fd counts */
	char runtime[SPEC_RUNTIME]; /* name of an OCI runtime; empty: the engine's own choice */
	struct spec_limits limits;
	struct spec_bind binds[SPEC_MAX_BINDS];
	unsigned n_binds;
	struct spec_tmpfs tmpfs[SPEC_MAX_TMPFS];
	unsigned n_tmpfs;

	/* on the host: whose sandbox it is, where a launcher makes it for somebody else.  He alone may use it, writable
	 * directories are his, and files made in them become his. */
	bool has_caller;
	uid_t caller_uid;
	gid_t caller_gid;

	uid_t uid; /* inside */
	gid_t gid;
	char home[SPEC_MAX_TARGET];
	char workdir[SPEC_MAX_TARGET];

	/* a sandbox that lives: many commands, stop and start; argv is then NULL */
	bool session;
	bool read_only; /* session: no writable root; what is writable is tmpfs and lost at a stop */
	uint64_t
		disk_bytes; /* session: size of each writable layer; 0 with read_only and no cow bind */
	uint64_t ttl_ms; /* session: removed this long after its creation; 0: never */
	int workspace;   /* index of the bind that is the workspace; -1: none */
	bool has_workspace_print;
	uint8_t workspace_print
		[SPEC_PRINT_LEN]; /* of a cow workspace's directory when it was first seen */

	bool allow_setgid;
	bool terminal;    /* the command gets a pty as its controlling terminal */
	bool model_relay; /* 127.0.0.1:4000 is relayed to /run/gw/llm.sock */

	uint32_t nofile;   /* RLIMIT_NOFILE, soft and hard; 0: the engine's usual */
	uint32_t add_caps; /* SPEC_HANDOFF only: of SPEC_HANDOFF_CAPS; else 0 */
	bool init;         /* a process of the engine's own in front of the guest (docker's Init) */
	uint64_t
		log_bytes; /* rotation of the engine's own log (docker's json-file); both 0: usual */
	uint32_t log_files;
	char tid[SPEC_TID];     /* of a task; ^[0-9a-z][0-9a-z-]{0,63}$ or empty */
	char model[SPEC_MODEL]; /* a label only; printable, without spaces; empty: none */
	uint64_t deadline_ms;   /* since the epoch: the creation and ttl_ms; 0: none */

	/* borrowed from the caller, NULL-terminated; must outlive the spec */
	char *const *argv;
	char *const *env;
};

#define SPEC_MAX_TTL_MS (366ull * 86400000)
#define SPEC_MODEL_SOCKET "/run/gw/llm.sock"
enum { SPEC_MODEL_PORT = 4000 };

/* An empty spec with every descriptor -1. */
void spec_init(struct sandbox_spec *s);

/* Closes what the spec owns. */
void spec_done(struct sandbox_spec *s);
#define _cleanup_spec_ _cleanup_(spec_done)

/* Checks every field against its hard range and every target for form; the engine calls it again before it acts. */
int spec_check(const struct sandbox_spec *s, struct err *e);

/* A mount target: absolute, canonical (no '.', '..', '//' or trailing '/'), no control bytes, and not one of the places
 * the sandbox makes itself (/proc, /sys, /dev and below). */
int spec_check_target(const char *target, struct err *e);

/* ^[0-9a-z][0-9a-z-]{0,63}$ */
bool spec_tid_is_valid(const char *tid);

/* Stable names: "run", "create", "agent", "check", "git-helper", "handoff", "script". */
const char *spec_profile_name(enum spec_profile p);

/* The profile of that name, or -1. */
int spec_profile_find(const char *name);

/* Fresh random id "b" + 16 hex digits. */
int spec_new_id(char ret[static SPEC_ID_LEN], struct err *e);
