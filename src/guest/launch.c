/* Owns the processes of commands before and after these run: each command's runner, the streams made for it, and the one that is
 * prepared.  Called by exec.c and the loop.
 *
 * A runner whose command and all that it started are gone is used again: it makes the next command's process at once, which
 * waits for its arguments.  So a short command costs one exec and no fork while somebody waits for it.  Must hold: what is
 * prepared has nothing of an earlier command: its streams are new, and the rest of it is read when the command is known. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>

#include "guest/exec.h"

enum { MAX_SPARE = 4 };
#define MARKS (1ull << 62)

static struct command *spare; /* memory alone */
static unsigned n_spare;
static struct command *prepared; /* its runner has a child, which waits */
static struct command *resting;  /* an idle runner, to be prepared when there is time */
static struct command *leaving;  /* on their way out, to be reaped */
static uint64_t n_marks;

static void clear(struct command *c)
{
	memset(c, 0, offsetof(struct command, small_text));
	c->source[0] = c->source[1] = -1;
	for (int i = 0; i < 3; i++)
		c->own_fd[i] = -1;
}

static struct command *alloc_command(void)
{
	struct command *c = spare;

	if (c) {
		spare = c->next;
		n_spare--;
	} else {
		c = map_memory(sizeof *c);
	}
	if (c)
		clear(c);
	return c;
}

void launch_close_own(struct command *c)
{
	for (int i = 0; i < 3; i++) {
		if (c->own_fd[i] >= 0)
			close_quietly(c->own_fd[i]);
		c->own_fd[i] = -1;
	}
}

void launch_free(struct command *c)
{
	args_done(c);
	for (int i = 0; i < 2; i++)
		if (c->source[i] >= 0)
			close_quietly(c->source[i]);
	launch_close_own(c);
	if (n_spare == MAX_SPARE) {
		unmap_memory(c, sizeof *c);
		return;
	}
	c->next = spare;
	spare = c;
	n_spare++;
}

/* --- streams --- */

/* One end for us, without waiting, one for the command. */
static long make_pipe(int *ours, int *theirs, bool we_write)
{
	int ends[2] = { -1, -1 };
	long r = sys2(SYS_pipe2, ends, O_CLOEXEC);

	if (r < 0)
		return r;
	*ours = ends[we_write];
	*theirs = ends[!we_write];
	return sys3(SYS_fcntl, *ours, F_SETFL, O_NONBLOCK);
}

static long make_outputs(struct command *c, int source[2])
{
	long r = make_pipe(&source[0], &c->own_fd[1], false);

	if (r >= 0)
		r = make_pipe(&source[1], &c->own_fd[2], false);
	for (int i = 1; i < 3; i++)
		c->place.fd[i] = c->own_fd[i];
	c->place.fd[0] = session.null;
	return r;
}

static long make_pipes(struct stream *s, struct command *c, bool input)
{
	long r = make_outputs(c, s->source);

	if (r >= 0 && input) {
		r = make_pipe(&s->sink, &c->own_fd[0], true);
		c->place.fd[0] = c->own_fd[0];
	}
	return r;
}

static long make_streams(struct stream *s, struct command *c, const struct wire_run *m)
{
	long r;

	session_act_as(c->exec.uid, c->exec.gid);
	if (m->flags & WIRE_RUN_TERMINAL)
		r = terminal_make(s, c, m);
	else
		r = make_pipes(s, c, m->flags & WIRE_RUN_STDIN);
	session_act_as(session.uid, session.gid);
	return r;
}

/* --- starting --- */

static void set_start(struct command *c)
{
	c->place.umask = session.umask;
	c->place.mark = c->mark = guest_adopts ? 0 : MARKS + ++n_marks;
	c->place.pid = &c->pid;
	c->start.exec = &c->exec;
	c->start.place = &c->place;
	c->start.tid = -1;
}

static long run_runner(struct command *c)
{
	long r = guest_clone(c->runner_stack + sizeof c->runner_stack,
		CLONE_VM | CLONE_FILES | SIGCHLD, runner_main, c, NULL);

	if (r > 0)
		c->runner = (int)r;
	return r;
}

static void take_ids(struct command *c, const struct wire_run *m)
{
	c->exec.uid = m->uid == (uint32_t)WIRE_SAME_ID ? session.uid : m->uid;
	c->exec.gid = m->gid == (uint32_t)WIRE_SAME_ID ? session.gid : m->gid;
	c->exec.flags = m->flags & WIRE_RUN_TERMINAL ? WIRE_EXEC_TERMINAL : 0;
}

static bool is_same(uint32_t asked, uint32_t own)
{
	return asked == (uint32_t)WIRE_SAME_ID || asked == own;
}

/* One is ready for what most commands are: the session's user, no input, no terminal. */
static bool prepared_fits(const struct wire_run *m)
{
	return prepared && !(m->flags & (WIRE_RUN_TERMINAL | WIRE_RUN_STDIN)) &&
		is_same(m->uid, session.uid) && is_same(m->gid, session.gid) &&
		!__atomic_load_n(&prepared->idle, __ATOMIC_ACQUIRE);
}

/* Where it has the workload's uid, that may have stopped it. */
static void wake_stopped(const struct command *c)
{
	if (sys0(SYS_geteuid) != (long)session.uid)
		return;
	(void)sys2(SYS_kill, c->runner, SIGCONT);
	if (c->pid)
		(void)sys2(SYS_kill, c->pid, SIGCONT);
}

static void use_prepared(struct stream *s, struct command *c)
{
	prepared = NULL;
	c->waited = true;
	for (int i = 0; i < 2; i++) {
		s->source[i] = c->source[i];
		c->source[i] = -1;
	}
	__atomic_store_n(&c->start.go, 1, __ATOMIC_RELEASE);
	(void)sys3(SYS_futex, &c->start.go, FUTEX_WAKE_PRIVATE, 1);
	wake_stopped(c);
}

uint32_t launch(
	struct stream *s, const struct wire_run *m, const struct args *a, struct command **ret)
{
	struct command *c = prepared_fits(m) ? prepared : alloc_command();
	uint32_t error;
	long r = 0;

	if (!c)
		return ENOMEM;
	error = a && a->too_large
		? E2BIG
		: args_build(c, a ? a->bytes : NULL, a ? a->len : 0, m->rest, m->rest_len);
	c->place.dir = c->text.dir;
	c->start.argv = c->text.argv;
	c->start.env = c->text.env;
	if (error) {
		args_done(c);
	} else if (c == prepared) {
		use_prepared(s, c);
	} else {
		take_ids(c, m);
		set_start(c);
		c->start.go = 1;
		r = make_streams(s, c, m);
		if (r >= 0)
			r = run_runner(c);
		error = r < 0 ? (uint32_t)-r : 0;
	}
	if (error && c != prepared)
		launch_free(c);
	*ret = c;
	return error;
}

bool launch_is_open(const struct command *c)
{
	return c->waited && !c->start.reached &&
		__atomic_load_n(&c->start.tid, __ATOMIC_ACQUIRE) > 0;
}

bool launch_failed(const struct command *c)
{
	/* -1: it was never made; more: it lives */
	return c->waited && __atomic_load_n(&c->start.tid, __ATOMIC_ACQUIRE) <= 0 &&
		!c->start.reached && !c->start.error && !c->error;
}

/* --- runners without a command --- */

static void say(struct command *c, enum word word)
{
	__atomic_store_n(&c->word, word, __ATOMIC_RELEASE);
	wake_stopped(c);
	(void)sys2(SYS_kill, c->runner, SIGUSR1);
}

static void leave(struct command *c)
{
	c->next = leaving;
	leaving = c;
	say(c, WORD_LEAVE);
}

uint32_t launch_again(struct stream *s, struct command *c, bool runner_lives)
{
	long r;

	c->waited = c->over = c->idle = c->gone = false;
	c->pid = 0;
	c->word = 0; /* a dead runner may not have heard it */
	for (unsigned i = 0; i < 2; i++)
		stream_close_source(s, i);
	launch_close_own(c);
	r = make_outputs(c, s->source);
	set_start(c);
	if (r >= 0 && runner_lives)
		say(c, WORD_NEXT);
	else if (r >= 0)
		r = run_runner(c);
	return r < 0 ? (uint32_t)-r : 0;
}

void launch_rest(struct command *c)
{
	/* one that leads a session is of no use for what has no terminal */
	if (prepared || resting || c->pts)
		leave(c);
	else
		resting = c;
}

/* Behind all that somebody waits for. */
void exec_prepare(void)
{
	struct command *c = resting;
	const int runner = c ? c->runner : 0;

	if (!c)
		return;
	resting = NULL;
	args_done(c);
	clear(c);
	c->runner = runner;
	c->exec = (struct wire_exec){ .uid = session.uid, .gid = session.gid };
	if (make_outputs(c, c->source) < 0) {
		leave(c);
		return;
	}
	set_start(c);
	prepared = c;
	say(c, WORD_NEXT);
}

/* Somebody killed what waited.  No other takes its place before the next command: that could go on for ever. */
void launch_notified(void)
{
	struct command *c = prepared;

	if (!c || !__atomic_load_n(&c->idle, __ATOMIC_ACQUIRE))
		return;
	prepared = NULL;
	leave(c);
}

void launch_find_child(struct command *c)
{
	const int tid = __atomic_load_n(&c->start.tid, __ATOMIC_ACQUIRE);

	if (!c->pid && tid > 0)
		c->pid = tid;
}

/* A child that waited is ours now. */
static void runner_gone(struct command *c)
{
	c->runner = 0;
	launch_find_child(c);
	if (c->idle || c->gone || !c->pid) {
		launch_free(c);
		return;
	}
	(void)sys2(SYS_kill, c->pid, SIGKILL);
	c->next = leaving;
	leaving = c;
}

bool launch_reaped(int pid)
{
	struct command *c, **one[] = { &prepared, &resting };

	for (unsigned i = 0; i < 2; i++) {
		c = *one[i];
		if (!c || c->runner != pid)
			continue;
		*one[i] = NULL;
		runner_gone(c);
		return true;
	}
	for (struct command **at = &leaving; (c = *at); at = &c->next) {
		if (c->runner != pid && (c->runner || c->pid != pid))
			continue;
		*at = c->next;
		launch_free(c);
		return true;
	}
	return false;
}
