/* bailey-launcher: two processes.
 *
 * The spawner is forked first and keeps this program's rights; it reads fixed messages of the launcher, and starts engines.  The
 * launcher then gives up nearly everything and reads what clients write.  Each holds the ceiling that it read by itself. */
#pragma once
#include "launcher/ceiling.h"
#include "launcher/launch.h"
#include "spec/params.h"

enum {
	DAEMON_MAX_UIDS = 64, /* that --allow-uid names */
	DAEMON_MAX_CLIENTS = 256,
	DAEMON_MAX_PER_UID = 32, /* connections */
	DAEMON_MAX_STRANGER = 2, /* of one whom it does not serve, until he was told so */
	DAEMON_SWEEP_MS = 600000,
	DAEMON_LATE_MS = 5000, /* that an owner has to see to its deadline itself */
};

struct daemon_options {
	const char *socket;  /* NULL: the usual place */
	const char *ceiling; /* NULL: the usual file, which may be missing */
	uid_t uids[DAEMON_MAX_UIDS];
	unsigned n_uids;
};

/* The program's own uid and those of --allow-uid. */
bool daemon_allows(const struct daemon_options *o, uid_t uid);

/* The home of a caller's sandboxes: the program's own for its own user and, below it, one for each other.  The caller's to
 * free. */
char *daemon_home(const char *home, uid_t uid);

/* The agents' uid or gid by this variable, checked at the start; 64000 without it. */
uint32_t daemon_agent_id(const char *variable);

/* Whether a directory was handed over to the agents by this user: it is the agents', and lies in a directory of his.  The root of
 * a mount lies in whatever its mounter chose, and is none. */
bool daemon_is_handed_over(int fd, uid_t uid);

/* --- between launcher and spawner: one fixed message, behind SPAWN_RUN a packed request --- */

enum { SPAWN_MAGIC = 0x4e504253 };
enum spawn_op { SPAWN_RUN = 1, SPAWN_KILL, SPAWN_SWEEP };
enum spawn_engine { SPAWN_NATIVE, SPAWN_DOCKER, SPAWN_N_ENGINES };

struct spawn_message {
	uint32_t magic, op, engine;
	uint32_t uid, gid;    /* whose */
	char id[SPEC_ID_LEN]; /* KILL */
};

/* With SPAWN_RUN comes a descriptor: where the client waits for the answer.  Blocks; -1 with errno. */
int spawn_send(int sock, const struct spawn_message *m, int answer);

/* 1, 0 at the end, -1 malformed.  *ret_answer is the caller's, -1: none. */
int spawn_receive(int sock, struct spawn_message *m, int *ret_answer);

/* The spawner's life.  Ends with the launcher. */
_Noreturn void spawner_run(int sock, const struct daemon_options *o, const char *home);

/* --- the launcher --- */

/* One sandbox that was made, or found when the launcher started. */
struct known {
	char id[SPEC_ID_LEN];
	uid_t uid;
	enum spawn_engine engine;
	uint64_t memory_bytes, cpu_millis;
	uint64_t deadline_ms; /* since the epoch; 0: none */
	uint64_t since;       /* CLOCK_BOOTTIME ms when it was noted */
	uint64_t killed;      /* when its end was last asked for; 0: never */
	bool seen;            /* its record was there */
};

struct launcher {
	const struct daemon_options *options;
	const char *home;
	struct ceiling ceiling;
	int spawner, listener;
	struct known *known;
	unsigned n_known;
	uint64_t malformed, created, refused, killed, swept_at, looked_at;
	struct {
		uid_t uid;
		uint64_t minute;
		unsigned n;
	} rates[DAEMON_MAX_UIDS];
};

_Noreturn void serve_run(struct launcher *l);

/* Gives up rights, network, files and system calls; from then on nothing is started here. */
int guard(const char *home, struct err *e);

/* --- create.c --- */
struct peer {
	uid_t uid;
	gid_t gid;
};

/* What a CREATE asks for, made by the profile and inside the ceiling.  Frees with pack_done(). */
int create_build(const struct launcher *l, const struct peer *p, struct launch_in *m,
	struct pack_request *ret, enum spawn_engine *ret_engine, struct err *e);

/* --- table.c --- */

/* Whether one more may be made now: counts, sums and rate. */
int table_admit(
	struct launcher *l, const struct peer *p, const struct pack_request *r, struct err *e);
void table_add(struct launcher *l, const struct peer *p, const struct pack_request *r,
	enum spawn_engine engine);
void table_load(struct launcher *l);

/* Looks which are gone, ends those past their deadline, sweeps now and then. */
void table_turn(struct launcher *l);
unsigned table_count(const struct launcher *l, uid_t uid);
