/* Both sides in one process: the native engine by its interface, and bailey-floor kept alive and asked for one sandbox at a
 * time, so that no program's start is measured.  Called by bench.c. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "door/cli/bench.h"
#include "spec/profile.h"

/* The built-in values of the profile `run`, whatever the configuration says: the floor has them built in. */
static const struct spec_limits limits = {
	.memory_bytes = 2 * OPT_GIB, .cpu_millis = 1000, .pids = 256
};

int bench_engine_open(struct bench *b, struct err *e)
{
	struct engine_env env = { .guest = b->guest,
		.cgroup_parent = b->o->cgroup_parent,
		.ids_base = (uint32_t)b->o->ids_base,
		.ids_count = (uint32_t)b->o->ids_count };

	for (int i = GROUP_NOP; i <= GROUP_TRUE; i++)
		spec_init(&b->sandboxes[i].spec);
	if (home_hash(env.home_hash, e) < 0 || engine_native.open(&b->engine, &env, e) < 0)
		return -1;
	/* where the engine makes its cgroups the floor makes its own */
	return cgroup_find(&b->tree, &env, b->root, e);
}

void bench_engine_close(struct bench *b)
{
	cgroup_tree_done(&b->tree);
	engine_native.close(b->engine);
}

int bench_engine_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	struct bench_sandbox *s = &b->sandboxes[row->group];
	struct run_request req = { .argv = s->argv,
		.image_fd = -1,
		.limits = limits,
		.tmp_size = 64 * OPT_MIB,
		.uid = 1000,
		.gid = 1000 };

	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		req.binds[i].fd = -1;
	s->argv[0] = xstrdup(row->group == GROUP_NOP ? b->nop_inside : "/usr/bin/true");
	if (row->group == GROUP_NOP && b->needs_mount) {
		struct spec_bind *bind = &req.binds[req.n_binds++];

		/* not mapped to the workload's ids: what lies there is for everyone to read, and the floor doesn't either */
		bind->fd = open(b->libexec, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (bind->fd < 0)
			return err_set(e, R_SETUP_FAILED, errno, "open '%s'", b->libexec);
		(void)FMT(bind->target, "%s", BENCH_MOUNT_TARGET);
	}
	if (profile_run(&s->spec, &req, &s->env, e) < 0) {
		(void)close_fd(req.binds[0].fd);
		return -1;
	}
	return 0;
}

void bench_engine_end(struct bench *b, struct bench_row *row)
{
	struct bench_sandbox *s = &b->sandboxes[row->group];

	if (s->env)
		spec_done(&s->spec);
	free(s->env);
	free(s->argv[0]);
	s->env = NULL;
	s->argv[0] = NULL;
}

/* The events are read once the first process has ended: for one command they tell nothing earlier that matters. */
static int await_end(struct sandbox *sandbox, struct err *e)
{
	struct pollfd p = { .fd = engine_native.pidfd(sandbox), .events = POLLIN };
	struct engine_event ev = { ENGINE_NOTHING, 0 };

	while (poll(&p, 1, -1) < 0)
		if (bench_stop)
			return bench_interrupted(e);
	do {
		if (engine_native.next(sandbox, &ev, e) < 0)
			return -1;
		if (ev.kind == ENGINE_EXITED && ev.value == 0)
			return 0;
	} while (ev.kind == ENGINE_STARTED);
	return err_set(e, R_GUEST_LOST, 0, "measure the engine: event '%d', value '%d'",
		(int)ev.kind, ev.value);
}

static int one_sandbox(struct bench *b, struct bench_sandbox *s, struct err *e)
{
	_cleanup_close_ int out = -1, err = -1;
	struct engine_io io = { .fd = { -1, -1, -1 } };
	struct sandbox *sandbox = NULL;
	struct engine_facts facts;
	int p[2], result;

	if (spec_new_id(s->spec.id, e) < 0)
		return -1;
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	out = p[0];
	io.fd[1] = p[1];
	if (pipe2(p, O_CLOEXEC) < 0) {
		io.fd[1] = close_fd(io.fd[1]);
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	}
	err = p[0];
	io.fd[2] = p[1];
	result = engine_native.create(b->engine, &s->spec, &io, &sandbox, e);
	io.fd[1] = close_fd(io.fd[1]);
	io.fd[2] = close_fd(io.fd[2]);
	if (result < 0)
		return -1;
	if (engine_native.start(sandbox, e) < 0 || await_end(sandbox, e) < 0 ||
		engine_native.remove(sandbox, &facts, e) < 0)
		result = -1;
	engine_native.free(sandbox);
	return result;
}

int bench_engine_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	if (one_sandbox(b, &b->sandboxes[row->group], e) < 0)
		return -1;
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	return 0;
}

/* --- the floor ----------------------------------------------------------------------------------------------------- */

int bench_floor_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	struct bench_server *s = &b->servers[row->group];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int to[2], from[2], r;

	bench_floor_args(b, &row->args, row->group == GROUP_NOP && b->needs_mount);
	bench_arg(&row->args, "--serve");
	bench_arg(&row->args, "%s", row->group == GROUP_NOP ? b->nop_inside : "/usr/bin/true");
	if (pipe2(to, O_CLOEXEC) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	if (pipe2(from, O_CLOEXEC) < 0) {
		(void)close_fd(to[0]);
		(void)close_fd(to[1]);
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	}
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, to[0], 0);
	(void)posix_spawn_file_actions_adddup2(&actions, from[1], 1);
	(void)posix_spawn_file_actions_adddup2(&actions, b->messages, 2);
	(void)posix_spawnattr_init(&attr);
	/* a terminal's interrupt must not end it between its cgroup's creation and removal */
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	r = posix_spawn(&s->pid, b->floor, &actions, &attr, row->args.v, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close_fd(to[0]);
	(void)close_fd(from[1]);
	s->to = to[1];
	s->from = from[0];
	if (r == 0)
		return 0;
	s->pid = 0;
	(void)close_fd(s->to);
	(void)close_fd(s->from);
	return err_set(e, R_SETUP_FAILED, r, "start '%s'", b->floor);
}

int bench_floor_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	struct bench_server *s = &b->servers[row->group];
	char line[64], said[256];
	size_t have = 0;
	ssize_t n;

	if (write(s->to, "\n", 1) != 1)
		have = sizeof line;
	while (have < sizeof line - 1) {
		n = read(s->from, line + have, sizeof line - 1 - have);
		if (n < 0 && errno == EINTR && !bench_stop)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
		if (line[have - 1] == '\n') {
			line[have - 1] = '\0';
			return parse_u64(line, 1, UINT64_MAX, "answer of the floor", ret, e);
		}
	}
	if (bench_stop)
		return bench_interrupted(e);
	n = pread(b->messages, said, sizeof said - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	return err_set(e, R_SETUP_FAILED, 0, "measure the floor: it ended: %s", said);
}

void bench_floor_end(struct bench *b, struct bench_row *row)
{
	struct bench_server *s = &b->servers[row->group];

	if (s->pid > 0) {
		s->to = close_fd(s->to);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
		s->from = close_fd(s->from);
		bench_floor_sweep(b, s->pid);
		s->pid = 0;
	}
	bench_args_done(&row->args);
}
