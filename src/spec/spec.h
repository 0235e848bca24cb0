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
	SPEC_VERSION = 2,
	SPEC_MAX_BINDS = 32,
	SPEC_MAX_TMPFS = 8,
	SPEC_MAX_TARGET = 256,   /* bytes with the NUL: a mount target inside the sandbox */
	SPEC_MAX_ARGV = 1 << 20, /* execve's own limit is on bytes */
	SPEC_MAX_ENV = 16384,    /* entries; execve's own limit is on bytes */
	SPEC_ID_LEN = 24,        /* a sandbox id with its NUL */
	SPEC_PRINT_LEN = 32,     /* bytes of a directory's fingerprint */
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
	char id[SPEC_ID_LEN];
	char hostname[64];

	int image_fd;      /* O_PATH of a root directory, owned; -1: the host's own /usr ("host") */
	int image_lock_fd; /* open, it keeps an image of the store from removal; owned; -1: none */
	struct spec_limits limits;
	struct spec_bind binds[SPEC_MAX_BINDS];
	unsigned n_binds;
	struct spec_tmpfs tmpfs[SPEC_MAX_TMPFS];
	unsigned n_tmpfs;

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

/* Fresh random id "b" + 16 hex digits. */
int spec_new_id(char ret[static SPEC_ID_LEN], struct err *e);
