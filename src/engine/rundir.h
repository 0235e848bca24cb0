/* The files of sandboxes below $BAILEY_HOME/sandbox: runs/ID (meta, sock, spool/), names/NAME, events. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "spec/pack.h"

/* Held as descriptors, since a mount namespace or a renamed home must not lead elsewhere. */
struct rundirs {
	int top, runs, names;
	bool for_other; /* what is made may be read, and connected to, by all whom the home's directory lets in */
	char *path; /* of runs; owned */
};

#define RUNDIRS_INIT { .top = -1, .runs = -1, .names = -1 }

/* Makes what is missing. */
int rundirs_open(struct rundirs *d, struct err *e);
void rundirs_done(struct rundirs *d);

/* Makes runs/ID with its spool, and names/NAME (name empty: none); R_SANDBOX_EXISTS when the name is taken.  Nothing is left
 * after a failure. */
int rundir_make(const struct rundirs *d, const char *id, const char *name, struct err *e);

/* runs/ID as a descriptor. */
int rundir_open(const struct rundirs *d, const char *id, int *ret, struct err *e);

/* Removes runs/ID and the name that leads to it: the files that a sandbox has, and nothing else. */
void rundir_remove(const struct rundirs *d, const char *id, const char *name);

/* The socket of the sandbox, listening. */
int rundir_listen(int dir, int *ret, struct err *e);
int rundir_spool(int dir, uid_t owner, int *ret, struct err *e);

/* Replaces a file in one step. */
int rundir_write(int dir, const char *name, const struct buf *text, struct err *e);

int rundir_write_secret(int dir, const char *name, const struct buf *text, struct err *e);

/* The next sandbox, from *at = 0 on, of which something is kept for a new owner; false: there is none. */
bool rundirs_next_kept(const struct rundirs *d, unsigned *at, char ret_id[static SPEC_ID_LEN]);

/* What a record says, for a process that is not the sandbox's owner. */
struct rundir_facts {
	char engine[16];
	uint64_t memory_bytes, cpu_millis;
	uint64_t deadline_ms; /* since the epoch; 0: none */
	pid_t owner;          /* 0: none lives */
};

/* False when there is no such sandbox, or its record can't be read. */
bool rundir_read_facts(int runs, const char *id, struct rundir_facts *ret);

/* Kills the owner of a sandbox, and waits until it is gone, KILL_MS at most; none lives: nothing to do. */
int rundir_kill_owner(const struct rundirs *d, const char *id, struct err *e);

/* Whether it has the form of an id: what a directory in runs must have to count. */
bool rundir_id_is_plain(const char *id);

/* Marks as lost what has no living owner, and removes what was marked an hour ago or longer.  *ret counts the removed. */
int rundirs_sweep(const struct rundirs *d, unsigned *ret, struct err *e);

/* The last sweep was long ago: then that is noted as now, and true. */
bool rundirs_sweep_due(const struct rundirs *d);

/* When a process started, in ticks since boot; 0: there is none. */
uint64_t process_start(pid_t pid);
