/* The parts of `bailey bench`.  Internal to the verb. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "config/options.h"
#include "engine/native/native.h"
#include "spec/spec.h"

enum {
	BENCH_MAX_ARGS = 96,
	BENCH_WHY = 512,
	BENCH_MAX_IN_PROCESS = 1500, /* thousandths of the floor */
	BENCH_MAX_COMMAND = 2000,
	BENCH_COMMAND_EXTRA_NS = 1500000,
	BENCH_MIN_RUNC = 5000,
	BENCH_MIN_STREAM_MIB = 1024, /* MiB/s */
	BENCH_LIVE_ROUNDS = 5,
	BENCH_EXEC_NS = 250000,
	BENCH_EXEC_P99_NS = 1000000,
	BENCH_EXEC_COMMAND_NS = 2000000,
	BENCH_FORK_NS = 5000000,
	BENCH_DIFF_NS = 200000000,
	BENCH_MAX_TAR = 1500, /* thousandths of tar | tar */
	BENCH_IDLE = 1000,
	BENCH_IDLE_MS = 4000,
	BENCH_IDLE_KIB = 1331, /* 1.3 MiB */
};

/* What is compared within one group is told as a ratio to that group's first row. */
enum bench_group {
	GROUP_NOP,
	GROUP_TRUE,
	GROUP_COMMAND,
	GROUP_EXEC_NOP,
	GROUP_EXEC,
	GROUP_FORK,
	GROUP_COPY,
	GROUP_STREAM,
	GROUP_MAX
};

enum bench_state { BENCH_READY, BENCH_ABSENT, BENCH_FAILED };

/* A command line; strings are owned. */
struct bench_args {
	char *v[BENCH_MAX_ARGS + 1];
	unsigned n;
};

struct bench;

struct bench_row {
	const char *name, *what; /* as --only names it; as the table shows it */
	enum bench_group group;
	bool peer, only_named; /* only_named: not run unless --only names it */
	/* once() measures one sample: nanoseconds, or MiB/s in GROUP_STREAM.  setup() may set state and why instead. */
	int (*setup)(struct bench *b, struct bench_row *row, struct err *e);
	int (*once)(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
	void (*end)(struct bench *b, struct bench_row *row);

	bool wanted;
	enum bench_state state;
	char why[BENCH_WHY];
	struct bench_args args;
	char *program; /* found in PATH, owned */
	uint64_t *samples;
	unsigned n_samples;
	void *data; /* of the row's own functions */
};

/* Of the row that makes many sandboxes. */
struct bench_idle {
	unsigned n;
	uint64_t create_ns, remove_ns, kib_each;
};

struct bench_sandbox {
	struct sandbox_spec spec;
	char **env;
	char *argv[2];
};

struct bench_server {
	pid_t pid;
	int to, from;
};

struct bench {
	const struct options *o;
	bool root, needs_mount; /* needs_mount: libexec is not visible inside by itself */
	char *bailey, *libexec, *floor, *nop, *nop_inside;
	const char *
		command; /* of GROUP_COMMAND: bailey-nop where it is visible without a mount, else true(1) */
	char home_hash[9], guest[4096];
	struct cgroup_tree tree;
	struct engine *engine;
	struct bench_sandbox sandboxes[GROUP_TRUE + 1];
	struct bench_server servers[GROUP_TRUE + 1];
	char *dir;    /* temporary, owned; removed at the end */
	int messages; /* a file in memory: what the commands wrote to standard error */
	unsigned serial;
	uint64_t load_before; /* hundredths */
};

#define BENCH_MOUNT_TARGET "/bench"

/* Set by SIGINT, SIGTERM and SIGHUP; every wait looks at it. */
extern volatile sig_atomic_t bench_stop;

/* --- bench.c ----------------------------------------------------------------------------------------------------- */

int bench_interrupted(struct err *e);
__attribute__((format(printf, 3, 4))) int bench_leave_out(
	struct bench_row *row, enum bench_state state, const char *fmt, ...);

/* --- bench_sandbox.c: both sides in one process ------------------------------------------------------------------- */

int bench_engine_open(struct bench *b, struct err *e);
void bench_engine_close(struct bench *b);
int bench_engine_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_engine_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
void bench_engine_end(struct bench *b, struct bench_row *row);
int bench_floor_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_floor_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
void bench_floor_end(struct bench *b, struct bench_row *row);

/* --- bench_command.c: from posix_spawn to wait -------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) void bench_arg(struct bench_args *a, const char *fmt, ...);
void bench_args_add(struct bench_args *a, const char *const *words);
void bench_args_done(struct bench_args *a);
void bench_floor_args(const struct bench *b, struct bench_args *a, bool mount);
void bench_floor_sweep(const struct bench *b, pid_t pid);

/* Starts program with the given standard output (-1: /dev/null), in a process group of its own. */
int bench_spawn(const struct bench *b, char *const *argv, int out, pid_t *ret, struct err *e);
/* Waits; an interruption is passed on as SIGTERM.  The status as waitpid gives it. */
int bench_wait(pid_t pid, struct err *e);
/* Both, and an error unless it exits with 0. */
int bench_run(const struct bench *b, char *const *argv, struct err *e);
char *bench_find(const char *program);
int bench_command_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
void bench_command_end(struct bench *b, struct bench_row *row);
int bench_floor_command_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_floor_command_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_run_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_bwrap_setup(struct bench *b, struct bench_row *row, struct err *e);

/* --- bench_oci.c: container runtimes ------------------------------------------------------------------------------ */

int bench_oci_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_oci_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_docker_setup(struct bench *b, struct bench_row *row, struct err *e);
void bench_docker_end(struct bench *b, struct bench_row *row);

/* --- bench_stream.c: a command's output to the caller ------------------------------------------------------------- */

int bench_stream_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_stream_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);

/* --- bench_live.c, bench_idle.c: sandboxes that live -------------------------------------------------------------- */

struct bailey;
struct bailey_error;
extern struct bench_idle bench_idle;

int bench_live_open(const struct bench *b, struct err *e);
void bench_live_close(void);
struct bailey *bench_live_home(void);
int bench_live_failed(const struct bailey_error *b, struct err *e);
void bench_live_end(struct bench *b, struct bench_row *row);
uint64_t bench_available_kib(void);
int bench_bare_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_bare_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_exec_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_exec_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_create_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_create_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_fork_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_fork_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_copy_bare_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_diff_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_diff_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_tar_bare_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_tar_bare_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_cp_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_cp_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);
int bench_idle_setup(struct bench *b, struct bench_row *row, struct err *e);
int bench_idle_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e);

/* --- bench_report.c ----------------------------------------------------------------------------------------------- */

void bench_report_text(const struct bench *b, struct bench_row *rows, unsigned n, struct buf *out);
void bench_report_json(const struct bench *b, struct bench_row *rows, unsigned n, struct buf *out);
