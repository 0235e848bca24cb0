/* The owner process of one sandbox: what its files share.
 *
 * It alone holds the engine: it creates, starts, stops, pauses, forks and removes, and its death is the sandbox's.  It reads no
 * byte of the guest after a boot, and of the channel process only messages of a fixed form, none of which it trusts. */
#pragma once
#include "engine/engine.h"
#include "engine/pair.h"
#include "engine/record.h"
#include "engine/rundir.h"
#include "spec/pack.h"

enum {
	OWNER_JOBS = 8,
	OWNER_WAITERS = 64,
	OWNER_RESTARTS = 10, /* of the channel process, a minute */
	OWNER_BREAKS = 60,   /* of the guest channel, a minute */
	OWNER_LIES = 5,      /* of the guest, a minute */
	DRAIN_FORCED_MS = 1000,
	DRAIN_MS = 10000, /* that clients have to read the end of what they follow */
	FIRST_MS = 20000, /* that the first command has to start */
	WATCH_MS = 2000,
};

enum job_kind { JOB_NONE, JOB_FORK, JOB_CHANGES };

/* Work in a process of its own, whose outcome a client waits for. */
struct job {
	enum job_kind kind;
	uint64_t ref;
	int fd;    /* a pipe from it */
	pid_t pid; /* of JOB_CHANGES */
	bool snapshot, paused;
	char id[SPEC_ID_LEN], name[PACK_NAME];
};

/* How often something happened in the last minute. */
struct per_minute {
	uint64_t since;
	unsigned n;
};

/* What an end is for. */
enum ending { ENDING_NONE, ENDING_STOP, ENDING_REMOVE };

struct owner {
	const struct engine_ops *ops;
	struct engine_env env;
	struct engine *engine;
	struct sandbox *sb;
	char *guest; /* path of the guest's program */
	struct rundirs dirs;
	struct run_record record;
	int dir, listener, pair, signals;
	pid_t channel;
	uid_t uid;                    /* who may use it, besides root */
	struct pack_request *request; /* until its command has begun */
	bool has_first;

	int creator; /* who is owed the answer to the request; -1 when that was given */
	uint64_t creator_until;

	bool booted, sealed;
	uint64_t epoch;
	uint64_t deadline; /* CLOCK_BOOTTIME ms; 0: none */
	uint64_t watch_at; /* the same, of the engine's next look */
	uint64_t oom_seen;
	struct per_minute restarts, breaks, lies;

	enum ending ending;
	enum reason end_reason;          /* for those who wait for a command */
	uint64_t end_at;                 /* the grace is over then; 0: it is not running */
	uint64_t drain_at;               /* the removal goes on then; 0: not yet */
	uint64_t waiters[OWNER_WAITERS]; /* refs */
	unsigned n_waiters;

	struct job jobs[OWNER_JOBS];
};

/* Reads a request from sock, makes the sandbox, answers on answer (the same, or where a launcher's client waits), and stays.
 * Returns the exit status of the process. */
int owner_run(const struct engine_ops *ops, int sock, int answer);

/* --- owner.c --- */
_Noreturn void owner_loop(struct owner *o);
void owner_answer(struct owner *o, uint64_t ref, const struct err *e, const char *text, int fd);
void owner_event(struct owner *o, const char *kind, const char *rest);
bool per_minute_over(struct per_minute *p, unsigned max);
int owner_write(struct owner *o, struct err *e); /* the record */
uint64_t owner_now_ms(void);                     /* since the epoch */

/* --- owner_create.c --- */
void owner_created(struct owner *o, const struct err *e);
void owner_start(struct owner *o, const struct engine_ops *ops, int answer);
int owner_take_signals(struct owner *o, struct err *e);
int owner_open_engine(struct owner *o, struct err *e);

/* --- owner_adopt.c --- */
/* Writes runs/ID/kept, where the engine's sandboxes outlive their owner. */
int owner_keep(struct owner *o, struct err *e);

/* Becomes the owner of a sandbox whose owner has died, tells so on answer (-1: nobody waits) as owner_run() does, and stays.
 * Returns the exit status of the process when it can't, or when another has the sandbox. */
int owner_adopt(const struct engine_ops *ops, const char *id, int answer);
void owner_adopt_all(const struct engine_ops *ops, const struct rundirs *d);

/* --- owner_rights.c --- */
/* All capabilities but those that an owner needs go, from its bounding set too.  for_good: no program that it executes gets
 * more than it has; before, a normal user's owner may still have to ask the user's systemd for a cgroup. */
int owner_drop_rights(bool for_good, struct err *e);

/* --- owner_channel.c --- */
int channel_start(struct owner *o, struct err *e);
void channel_send(struct owner *o, const struct pair_message *m, int fd);
void channel_say(struct owner *o, enum pair_type type, uint64_t ref, uint32_t a);
void channel_connect(struct owner *o, bool new_guest);
void channel_ended(struct owner *o);
void channel_state(struct owner *o);
void channel_stop(struct owner *o);

/* --- owner_state.c --- */
int state_boot(struct owner *o, struct err *e);
void state_control(struct owner *o, const struct pair_message *m);
void state_end(struct owner *o, enum ending what, uint64_t grace_ms);
void state_end_now(struct owner *o);
void state_lost(struct owner *o, enum reason why);
void state_remove(struct owner *o);
_Noreturn void state_abandon(struct owner *o, enum reason why);
void state_inspect(struct owner *o, const struct pair_message *m);

/* --- owner_job.c --- */
void job_fork(struct owner *o, const struct pair_message *m);
void job_changes(struct owner *o, const struct pair_message *m);
void job_ready(struct owner *o, struct job *j);
bool jobs_copy(const struct owner *o); /* a copy of this sandbox is being made */
