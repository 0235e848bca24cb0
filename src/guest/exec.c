/* Owns the commands of a session: starting, standard streams, terminals, time-outs, signals, ends.  Called by the link with
 * requests and by the loop with what happened.  Must hold: a command's ENDED goes out only behind all that it had written;
 * a command lives on when its connection breaks; no call here waits for a command or its runner. */
#include "guest/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

enum {
	PUMP_ROUNDS = 4,
	ARGS_MEMORY = WIRE_MAX_ARGS + 4096,
};

static struct command *commands;

static void ready(struct stream *s, unsigned slot, uint32_t events);
static size_t take(struct stream *s, const uint8_t *p, size_t n);
static void take_end(struct stream *s);
static void close_command(struct stream *s);
static void room(struct stream *s);

static const struct stream_ops args_ops = { .lanes = 0 };
static const struct stream_ops command_ops = { .lanes = 2,
	.ready = ready,
	.take = take,
	.take_end = take_end,
	.room = room,
	.close = close_command };
static const struct stream_ops kill_ops = { .lanes = 0 };

bool exec_is_command(const struct stream *s)
{
	return s->ops == &command_ops;
}

bool exec_is_args(const struct stream *s)
{
	return s->ops == &args_ops;
}

/* --- commands --- */

static void link_command(struct command *c, uint32_t number)
{
	c->number = number;
	c->next = commands;
	commands = c;
}

static void unlink_command(struct command *c)
{
	struct command **at = &commands;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

static struct command *find_command(uint32_t number)
{
	struct command *c = commands;

	while (c && c->number != number)
		c = c->next;
	return c;
}

/* NULL when nobody asks for its streams and end any more. */
static struct stream *stream_of(const struct command *c)
{
	struct stream *s = stream_find(c->number);

	return s && s->command == c ? s : NULL;
}

/* --- a request --- */

bool exec_args(const struct wire_frame *f)
{
	struct stream *s = stream_find(f->stream);
	struct args *a;

	if (!s) {
		s = stream_new(f->stream, &args_ops);
		if (!s)
			return true; /* said when the RUN comes */
		(void)stream_memory(s, ARGS_MEMORY);
	}
	a = s->memory;
	if (!a)
		return true;
	if (f->length > WIRE_MAX_ARGS - a->len) {
		a->too_large = true;
		return true;
	}
	memcpy(a->bytes + a->len, f->body, f->length);
	a->len += f->length;
	return true;
}

static void not_started(struct stream *s, uint32_t error)
{
	s->end = (struct wire_ended){ .how = WIRE_HOW_NOT_STARTED, .status = error };
	for (int i = 0; i < 2; i++) {
		stream_close_source(s, (unsigned)i);
		s->out[i].ended = s->out[i].eof = true;
	}
	stream_close_sink(s);
	s->in.discard = true;
	stream_answer(s, ANSWER_ENDED);
}

static void set_timer(void)
{
	uint64_t first = 0;

	for (const struct command *c = commands; c; c = c->next)
		if (c->deadline_ms && !c->ended && !c->timed_out &&
			(!first || c->deadline_ms < first))
			first = c->deadline_ms;
	session_set_timer(first);
}

static uint64_t now_ns(void)
{
	struct {
		int64_t sec, nsec;
	} t = { 0, 0 };

	(void)sys2(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.sec * 1000000000 + (uint64_t)t.nsec;
}

static void started(struct stream *s, struct command *c, const struct wire_run *m)
{
	link_command(c, s->number);
	s->command = c;
	c->running = c->starting = true;
	session.starting++;
	c->look_at = now_ns() + LOOK_NS;
	if (m->timeout_ms) {
		c->deadline_ms = boottime_ms() + m->timeout_ms;
		set_timer();
	}
}

bool exec_run(const struct wire_frame *f)
{
	struct stream *s = stream_find(f->stream);
	struct command *c;
	struct wire_run m;
	uint32_t error;

	if (!wire_get_run(f, &m))
		return false;
	if (!s && !(s = stream_new(f->stream, &command_ops))) {
		link_refuse(f->stream, true, EMFILE);
		return true;
	}
	s->ops = &command_ops;
	error = launch(s, &m, s->memory, &c);
	if (s->memory) {
		unmap_memory(s->memory, s->memory_size);
		s->memory = NULL;
	}
	if (!error) {
		started(s, c, &m);
		return true;
	}
	not_started(s, error);
	return true;
}

/* --- streams --- */

static void ready(struct stream *s, unsigned slot, uint32_t events)
{
	uint32_t error;

	(void)events;
	if (slot == 2 || s->sink == s->source[slot])
		stream_offer(s);
	if (slot < 2)
		(void)stream_pump(s, slot, &error);
	stream_watch(s);
}

static void room(struct stream *s)
{
	stream_watch(s);
}

/* The end of input of a terminal is a character, where its reader wants one. */
static void take_end(struct stream *s)
{
	if (s->sink < 0)
		return;
	if (s->sink != s->source[0])
		stream_close_sink(s);
	else
		terminal_end_input(s);
}

/* --- asking the runner --- */

static void ask(struct command *c, uint32_t what, uint32_t by)
{
	c->asking = true;
	c->asked_by = by;
	__atomic_store_n(&c->ask, what, __ATOMIC_RELEASE);
	/* where it has the workload's uid, that may have stopped it */
	(void)sys2(SYS_kill, c->runner, SIGCONT);
	(void)sys2(SYS_kill, c->runner, SIGUSR1);
}

static bool is_waiting_kill(const struct stream *s, const struct command *c)
{
	return s->ops == &kill_ops && s->parent == c->number && !(s->has & ANSWER_RESULT);
}

static void ask_next(struct command *c)
{
	if (c->asking || !c->running)
		return;
	if (c->doomed) {
		c->doomed = false;
		ask(c, ASK_TREE | SIGKILL, 0);
		return;
	}
	if (c->tty_signals) {
		const int sig = __builtin_ctz(c->tty_signals);

		c->tty_signals &= c->tty_signals - 1;
		ask(c, ASK_FOREGROUND | (uint32_t)sig, 0);
		return;
	}
	for (const struct stream *s = stream_first(); s; s = stream_after(s)) {
		if (!is_waiting_kill(s, c))
			continue;
		if (s->ask == (ASK_TREE | SIGKILL) && !c->ended)
			c->end_flags |= WIRE_ENDED_KILLED;
		ask(c, s->ask, s->number);
		return;
	}
}

static void tty_signal(struct command *c, int sig)
{
	c->tty_signals |= 1u << sig;
	ask_next(c);
}

/* What is typed. */
static size_t take(struct stream *s, const uint8_t *p, size_t n)
{
	struct command *c = s->command;
	size_t taken;
	int sig;

	if (!c || !c->pts)
		return stream_take_sink(s, p, n);
	taken = terminal_take(s, p, n, &sig);
	if (sig)
		tty_signal(c, sig);
	return taken;
}

static void doom(struct command *c)
{
	c->doomed = true;
	ask_next(c);
}

static void answered(struct command *c)
{
	struct stream *s = c->asked_by ? stream_find(c->asked_by) : NULL;

	c->asking = false;
	if (s && is_waiting_kill(s, c)) {
		if (s->ask & ASK_TREE)
			stream_result(s, 0, c->answer);
		else
			stream_result(s, c->answer, 0);
	}
	ask_next(c);
}

/* The runner is gone: with it every process of the command, or it was killed and nobody else can find them. */
static void answer_all(struct command *c)
{
	for (struct stream *s = stream_first(); s; s = stream_after(s)) {
		if (!is_waiting_kill(s, c))
			continue;
		if (c->orphan)
			(void)sys2(SYS_kill, -c->pid, (int)(s->ask & 0xff));
		if (s->ask & ASK_TREE)
			stream_result(s, 0, 0);
		else
			stream_result(s, c->orphan ? 0 : ESRCH, 0);
	}
	c->asking = false;
}

bool exec_kill(const struct wire_frame *f)
{
	struct command *c;
	struct wire_kill m;
	struct stream *s;

	if (!wire_get_kill(f, &m))
		return false;
	s = stream_new(f->stream, &kill_ops);
	if (!s) {
		link_refuse(f->stream, false, EMFILE);
		return true;
	}
	s->parent = m.command;
	s->ask = m.signal | (m.flags & WIRE_KILL_TREE ? ASK_TREE : 0);
	c = find_command(m.command);
	if (c && c->running) {
		ask_next(c);
	} else if (c && c->orphan) {
		answer_all(c);
	} else {
		const struct stream *known = stream_find(m.command);
		bool nothing_left = known && exec_is_command(known) && m.flags & WIRE_KILL_TREE;

		stream_result(s, nothing_left ? 0 : ESRCH, 0);
	}
	return true;
}

static void set_size(const struct stream *s, const struct wire_resize *m)
{
	terminal_set_size(s->sink, m->rows, m->columns);
	if (s->command && s->command->pts)
		tty_signal(s->command, SIGWINCH);
}

bool exec_resize(const struct wire_frame *f)
{
	const struct stream *s = stream_find(f->stream);
	struct wire_resize m;

	if (!wire_get_resize(f, &m))
		return false;
	if (s && exec_is_command(s) && s->source[0] >= 0 && s->sink == s->source[0])
		set_size(s, &m);
	return true;
}

/* --- ends --- */

static void close_command(struct stream *s)
{
	struct command *c = s->command;

	s->command = NULL;
	if (c && !c->ended)
		doom(c);
}

static void looked(struct command *c)
{
	session.starting -= c->starting;
	c->starting = false;
}

/* How much of a lane must go out before the command's end is told: what it had written, not what its children add. */
static void set_mark(struct stream *s, unsigned lane)
{
	struct lane *o = &s->out[lane];
	uint32_t error;
	int n = 0;

	for (int i = 0; i < PUMP_ROUNDS && stream_pump(s, lane, &error); i++)
		;
	if (s->source[lane] >= 0)
		(void)sys3(SYS_ioctl, s->source[lane], FIONREAD, &n);
	o->mark = lane_written(o) + (n > 0 ? (uint64_t)n : 0);
}

static void command_ended(struct command *c, int status, uint32_t left)
{
	struct stream *s = stream_of(c);
	bool by_signal = status & 0x7f;

	c->ended = true;
	looked(c);
	if (c->deadline_ms)
		set_timer();
	if (!s)
		return;
	s->end = (struct wire_ended){ .how = by_signal ? WIRE_HOW_SIGNALLED : WIRE_HOW_EXITED,
		.status = (uint32_t)(by_signal ? status & 0x7f : status >> 8 & 0xff),
		.left = left,
		.flags = by_signal ? c->end_flags : 0 };
	set_mark(s, 0);
	set_mark(s, 1);
	stream_answer(s, ANSWER_ENDED);
	stream_watch(s);
}

static void command_began(struct command *c)
{
	struct stream *s = stream_of(c);

	c->began = true;
	args_done(c);
	if (!s)
		return;
	s->value_begun = (uint32_t)c->pid;
	stream_answer(s, ANSWER_BEGUN);
}

static bool has_executed(const struct command *c)
{
	return !__atomic_load_n(&c->start.tid, __ATOMIC_ACQUIRE) && c->start.reached &&
		!c->start.error;
}

static void take_news(struct command *c)
{
	const bool over = __atomic_load_n(&c->over, __ATOMIC_ACQUIRE);

	if (launch_failed(c))
		return;
	if (!c->began && (over || has_executed(c)))
		command_began(c);
	if (over && !c->ended)
		command_ended(c, c->status, c->left);
	if (c->asking && !__atomic_load_n(&c->ask, __ATOMIC_ACQUIRE))
		answered(c);
}

static void retire(struct command *c, bool runner_lives)
{
	struct stream *s = stream_of(c);

	if (s)
		s->command = NULL;
	unlink_command(c);
	if (runner_lives)
		launch_rest(c);
	else
		launch_free(c);
}

/* Somebody killed its process while that waited to become it: another is made. */
static bool failed_waiting(struct command *c, bool runner_lives)
{
	struct stream *s = stream_of(c);

	if (!launch_failed(c))
		return false;
	c->orphan = false;
	c->running = true;
	c->error = s ? launch_again(s, c, runner_lives) : EINTR;
	return !c->error;
}

static void tell_start(struct command *c)
{
	struct stream *s = stream_of(c);

	looked(c);
	if (c->began)
		return;
	if (!c->error && c->pid) {
		command_began(c);
		return;
	}
	if (s)
		not_started(s, c->error ? c->error : EINTR);
	c->ended = true;
}

/* The runner has nothing left to do: after the command's end and that of all its children, or, when somebody killed the
 * runner, before. */
static void runner_done(struct command *c, bool runner_lives)
{
	struct stream *s;

	if (failed_waiting(c, runner_lives))
		return;
	take_news(c);
	launch_find_child(c);
	c->running = false;
	launch_close_own(c);
	if (!launch_is_open(c))
		tell_start(c);
	c->orphan = !c->ended;
	s = c->orphan ? stream_of(c) : NULL;
	if (s)
		stream_watch(s);
	answer_all(c);
	if (c->orphan && (c->timed_out || c->doomed))
		(void)sys2(SYS_kill, -c->pid, SIGKILL);
	if (!c->orphan)
		retire(c, runner_lives);
}

void exec_notified(void)
{
	uint64_t count;

	(void)sys3(SYS_read, session.notify, &count, sizeof count);
	for (struct command *c = commands, *next; c; c = next) {
		next = c->next;
		if (__atomic_load_n(&c->idle, __ATOMIC_ACQUIRE))
			runner_done(c, true);
		else
			take_news(c);
	}
	launch_notified();
}

/* A short command's start is told together with its end, and its output is read then: no need to be woken for either.  What
 * runs on is another matter. */
void exec_look(void)
{
	const uint64_t now = now_ns();

	for (struct command *c = commands; c && session.starting; c = c->next) {
		struct stream *s;

		if (!c->starting || now < c->look_at)
			continue;
		looked(c);
		__atomic_store_n(&c->wake, true, __ATOMIC_SEQ_CST);
		if (c->running)
			(void)sys2(SYS_kill, c->runner, SIGUSR1);
		take_news(c);
		s = stream_of(c);
		if (s)
			stream_watch(s);
	}
}

bool exec_reaped(int pid, int status)
{
	for (struct command *c = commands; c; c = c->next) {
		if (c->running && c->runner == pid) {
			runner_done(c, false);
			return true;
		}
		if (c->orphan && c->pid == pid) {
			if (launch_failed(c)) {
				runner_done(c, false);
				return true;
			}
			take_news(c);
			command_ended(c, status, 0);
			retire(c, false);
			return true;
		}
	}
	return launch_reaped(pid);
}

static void time_out(struct command *c)
{
	c->timed_out = true;
	c->end_flags |= WIRE_ENDED_TIMEOUT;
	if (c->orphan)
		(void)sys2(SYS_kill, -c->pid, SIGKILL);
	else
		doom(c);
}

void exec_timer(void)
{
	uint64_t now = boottime_ms();

	for (struct command *c = commands; c; c = c->next)
		if (c->deadline_ms && c->deadline_ms <= now && !c->ended && !c->timed_out)
			time_out(c);
	set_timer();
}
