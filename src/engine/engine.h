/* What every engine is: a const struct of functions.
 *
 * Contract: create is atomic (on failure nothing is left), kill and remove are idempotent, outputs are untouched on failure,
 * an engine never logs, never exits and reads no configuration but engine_env.  A limit that can't be enforced is refused
 * with R_LIMITS_UNENFORCED, never silently weaker.  One process drives an engine, without threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "spec/spec.h"

enum { ENGINE_ABI = 1 };

/* What an engine can do; probe() says what this host lets it do. */
enum engine_can {
	ENGINE_CAN_LIMITS = 1 << 0,
	ENGINE_CAN_TERMINAL = 1 << 1,
	ENGINE_CAN_IDMAP = 1 << 2,
	ENGINE_CAN_MODEL_SOCKET = 1 << 3,
};

struct engine;
struct sandbox;

/* Everything an engine is told besides the spec.  Strings are borrowed: guest while it opens,
 * cgroup_parent as long as it lives. */
struct engine_env {
	const char *guest;         /* path of bailey-guest */
	const char *cgroup_parent; /* a delegated subtree, or NULL: found by itself */
	char home_hash[9];
	uint32_t ids_base, ids_count;
};

/* The command's ends of its standard streams; borrowed.  fd[0] -1: /dev/null.  Made for this sandbox: they are given to
 * the workload's user, so a descriptor of the caller's own must not be passed. */
struct engine_io {
	int fd[3];
};

enum engine_event_kind {
	ENGINE_NOTHING,     /* nothing to read yet */
	ENGINE_STARTED,     /* the command runs */
	ENGINE_EXITED,      /* value: exit code */
	ENGINE_SIGNALLED,   /* value: signal */
	ENGINE_NOT_STARTED, /* value: errno of fork or exec */
	ENGINE_DEADLINE,    /* the guest's own timer fired */
	ENGINE_CLOSED,      /* the channel ended */
};

struct engine_event {
	enum engine_event_kind kind;
	int value;
};

/* What the kernel counted.  has_* false: this host does not count it. */
struct engine_facts {
	uint64_t cpu_us;
	uint64_t memory_peak_bytes;
	uint64_t pids_peak;
	uint64_t oom_kills;
	uint64_t pids_refused; /* forks that the process limit refused */
	bool has_memory_peak, has_pids_peak, has_oom, has_pids_refused;
};

enum engine_verdict { VERDICT_OK, VERDICT_WEAKER, VERDICT_FAIL };

enum { ENGINE_MAX_CHECKS = 40, ENGINE_TEXT = 384 };

/* One line of `bailey doctor`. */
struct engine_check {
	const char *name; /* static */
	enum engine_verdict verdict;
	char result[ENGINE_TEXT];      /* what the operation gave */
	char consequence[ENGINE_TEXT]; /* what that means for sandboxes; empty when all is well */
	char remedy[ENGINE_TEXT];
};

struct engine_report {
	struct engine_check checks[ENGINE_MAX_CHECKS];
	unsigned n_checks;
	bool usable; /* the default profile can run with its limits enforced */
};

struct engine_ops {
	const char *name;
	unsigned abi;
	uint64_t can;

	int (*open)(struct engine **ret, const struct engine_env *env, struct err *e);
	void (*close)(struct engine *);

	/* Tries each thing a sandbox needs by doing it. */
	int (*probe)(struct engine *, struct engine_report *ret, struct err *e);

	/* Builds the sandbox up to the point where its guest waits for start(). */
	int (*create)(struct engine *, const struct sandbox_spec *spec, const struct engine_io *io,
		struct sandbox **ret, struct err *e);
	int (*start)(struct sandbox *, struct err *e);

	/* Pollable descriptors, owned by the sandbox: frames to read with next(), and the death of its first process. */
	int (*channel)(const struct sandbox *);
	int (*pidfd)(const struct sandbox *);

	/* Reads one event without waiting.  An error is final for the sandbox: kill it. */
	int (*next)(struct sandbox *, struct engine_event *ret, struct err *e);

	/* Sends a signal to the command's process group. */
	int (*signal)(struct sandbox *, int sig, struct err *e);
	void (*kill)(struct sandbox *);

	/* Waits for the end, reads the counters, removes what the host holds for it.  Facts are valid even on failure. */
	int (*remove)(struct sandbox *, struct engine_facts *ret, struct err *e);

	/* Kills if need be, removes, frees; NULL is fine. */
	void (*free)(struct sandbox *);

	/* Removes what dead owners of this home left behind; *ret_removed counts. */
	int (*sweep)(struct engine *, unsigned *ret_removed, struct err *e);

	/* Calls each() with the id of every sandbox of this home that the host knows, and whether its owner lives. */
	int (*list)(struct engine *, void (*each)(void *arg, const char *id, bool alive), void *arg,
		struct err *e);
};

extern const struct engine_ops engine_native;
