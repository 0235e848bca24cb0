/* What every engine is: a const struct of functions.
 *
 * Contract: create is atomic (on failure nothing is left), kill and remove are idempotent, outputs are untouched on failure,
 * an engine never logs, never exits and reads no configuration but engine_env.  A limit that can't be enforced is refused
 * with R_LIMITS_UNENFORCED, never silently weaker.  One process drives an engine, without threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "spec/spec.h"

enum { ENGINE_ABI = 2 };

/* What an engine can do beyond what every engine must. */
enum engine_can {
	ENGINE_CAN_SESSION = 1 << 0, /* the functions for sandboxes that live are there */
};

struct engine;
struct sandbox;

/* Everything an engine is told besides the spec.  Strings are borrowed: guest and layers while it
 * opens, the others as long as it lives. */
struct engine_env {
	const char *guest;         /* path of bailey-guest */
	const char *cgroup_parent; /* a delegated subtree, or NULL: found by itself */
	const char *
		runs; /* directory of the run directories: a session's lies in runs/ID and exists; NULL: no sessions */
	char home_hash[9];
	uint32_t ids_base, ids_count;
	const char *layers;      /* what sessions' layers lie in: "tmpfs", "loop"; NULL: tmpfs */
	const char *layer_store; /* directory of "loop"; NULL: "layers" below the home */
	char *const
		*shown; /* the first command, for an engine that shows one to others; NULL: none */
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

/* How a pause holds the processes. */
enum engine_pause {
	ENGINE_PAUSE_NONE,    /* is not paused */
	ENGINE_PAUSE_CGROUP,  /* cgroup v2 cgroup.freeze: holds new processes too */
	ENGINE_PAUSE_FREEZER, /* the freezer hierarchy of cgroup v1: as strong */
	ENGINE_PAUSE_SIGNALS, /* SIGSTOP to each process until none runs; the workload can see that it happened */
};

/* A sandbox that lives, right now.  has_* false: this host does not count it (a stopped one has no processes). */
struct engine_stats {
	uint64_t cpu_us; /* since it was started last */
	uint64_t memory_bytes, memory_peak_bytes;
	uint64_t pids;                 /* Bailey's own among them */
	uint64_t disk_used, disk_size; /* bytes of the writable layer; 0 and 0: there is none */
	uint64_t oom_kills, pids_refused;
	unsigned layers; /* sealed ones below the writable layer */
	enum engine_pause pause;
	bool ids_shared; /* with the sandbox it was forked from: this kernel can't map its layers */
	bool has_cpu, has_memory, has_memory_peak, has_pids, has_oom, has_pids_refused;
};

/* Bits of changes(). */
enum engine_changes {
	ENGINE_CHANGES_CONTENT = 1, /* an archive in OCI layer format instead of records */
	ENGINE_CHANGES_COW = 2,     /* of the copy-on-write workspace alone, paths relative to it */
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

	/* --- for spec.session; NULL where an engine has none.  Called by the owner process alone. -------------------------
	 *
	 * create() prepares files and mounts, and no process (io is not read; start, channel, next and signal are not for
	 * sessions).  It leaves the calling process in a mount namespace of its own, as a normal user in a user namespace
	 * too, and may be called once per process.  pidfd() is that of a booted guest, else -1. */

	/* New processes over the files that are there; returns when the guest said HELLO (10 s at most). */
	int (*boot)(struct sandbox *, struct err *e);

	/* A new guest channel: *ret_fd is the host's end, the caller's to close. */
	int (*connect)(struct sandbox *, uint64_t epoch, int *ret_fd, struct err *e);

	/* Kills, reaps, reads the counters, removes the cgroup; files stay.  Nothing to do when not booted: facts are 0. */
	int (*halt)(struct sandbox *, struct engine_facts *ret, struct err *e);

	/* pidfd() is readable: is the guest gone for good?  false: it comes back, connect() may be called.  NULL: it always is. */
	bool (*gone)(struct sandbox *);

	/* Every two seconds while it is booted, for what no kernel bounds; -1 with R_DISK_FULL: it is to be stopped.  NULL: there
	 * is nothing to look at. */
	int (*watch)(struct sandbox *, struct err *e);

	/* Idempotent.  A paused sandbox can be halted and removed. */
	int (*pause)(struct sandbox *, bool on, struct err *e);
	int (*stats)(struct sandbox *, struct engine_stats *ret, struct err *e);

	/* Stopped only: the writable layer becomes a shared read-only one, the next boot writes to a new one above it.
	 * Where layers can't be shared (R_LAYER_UNSUPPORTED): copy() in the forked process instead. */
	int (*seal)(struct sandbox *, struct err *e);

	/* In a process forked from the owner, before adopt(): the writable layer is replaced, for this process alone, by a
	 * copy.  A running sandbox is paused meanwhile and resumed if this call paused it; should this process die in
	 * between, the owner resumes it.  progress(arg, bytes so far) is called now and then; NULL: not wanted. */
	int (*copy)(struct sandbox *, void (*progress)(void *arg, uint64_t bytes), void *arg,
		struct err *e);

	/* In a process forked from the owner of a sandbox that was just sealed, or after copy(): become the owner of a new,
	 * stopped sandbox over the same layers, with ids, cgroup and identity of its own.  runs/NEW_ID exists.  Nothing of
	 * the old sandbox can be reached through *sb afterwards. */
	int (*adopt)(struct sandbox *, const char *new_id, const char *hostname, struct err *e);

	/* In a worker process forked from the owner: writes to out_fd (blocking) what the writable layers hold beside the
	 * image, in the form that docs/wire.md gives for CHANGES; ENGINE_CHANGES_* in flags.  Gives up all rights of the
	 * process on the way: the caller exits afterwards. */
	int (*changes)(struct sandbox *, int out_fd, uint32_t flags, struct err *e);

	/* Whom the channel process becomes; (uid_t)-1: the caller's own. */
	uid_t (*channel_uid)(const struct sandbox *);

	/* --- for engines whose sandboxes go on without their owner; NULL, all three, where none does. */

	/* What it was made from, as it is now, and its first command as shown; the sandbox's. */
	const struct sandbox_spec *(*spec)(const struct sandbox *, char *const **ret_shown);

	/* Appends what resume() needs besides; a secret. */
	void (*keep)(const struct sandbox *, struct buf *out);

	/* The sandbox of an owner that died.  R_SANDBOX_NOT_FOUND: it has gone for good. */
	int (*resume)(struct engine *, const struct sandbox_spec *spec, char *const *shown,
		const void *kept, size_t n, struct sandbox **ret, struct err *e);

	/* --- for all ------------------------------------------------------------------------------------------------ */

	/* Whether a sandbox was ever made in the home of those run directories; a sweep of one where none was does nothing, and the
	 * engine is not opened.  NULL: always. */
	bool (*used)(const char *runs);

	/* A sweep could not be begun, since open() failed.  NULL: nobody need know. */
	void (*unreachable)(void);

	/* Removes what dead owners of this home left behind; *ret_removed counts. */
	int (*sweep)(struct engine *, unsigned *ret_removed, struct err *e);

	/* Ends a sandbox by its id alone, after its owner was killed; NULL where nothing outlives an owner. */
	int (*end)(struct engine *, const char *id, struct err *e);

	/* Calls each() with the id of every sandbox of this home that the host knows, and whether its owner lives. */
	int (*list)(struct engine *, void (*each)(void *arg, const char *id, bool alive), void *arg,
		struct err *e);
};

extern const struct engine_ops engine_native;
