/* Owns the commands of a session: starting, standard streams, terminals, time-outs, signals, ends.  Called by the link with
 * requests and by the loop with what happened.  Must hold: a command's ENDED goes out only behind all that it had written;
 * a command lives on when its connection breaks; no call here waits for a command or its runner. */
#include "guest/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

enum {
	MAX_SPARE = 4,
	PUMP_ROUNDS = 4,
	ARGS_MEMORY = WIRE_MAX_ARGS + 4096,
};

struct args {
	size_t len;
	bool too_large;
	uint8_t bytes[];
};

static struct command *commands, *spare;
static unsigned n_spare;

static void ready(struct stream *s, unsigned slot, uint32_t events);
static void take_end(struct stream *s);
static void close_command(struct stream *s);
static void room(struct stream *s);

static const struct stream_ops args_ops = { .lanes = 0 };
static const struct stream_ops command_ops = { .lanes = 2,
	.ready = ready,
	.take = stream_take_sink,
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

static struct command *new_command(uint32_t number)
{
	struct command *c = spare;

	if (c) {
		spare = c->next;
		n_spare--;
		memset(c, 0, offsetof(struct command, small_text));
	} else {
		c = map_memory(sizeof *c);
	}
	if (!c)
		return NULL;
	c->number = number;
	for (int i = 0; i < 3; i++)
		c->own_fd[i] = -1;
	c->next = commands;
	commands = c;
	return c;
}

static void close_own(struct command *c)
{
	for (int i = 0; i < 3; i++) {
		if (c->own_fd[i] >= 0)
			close_quietly(c->own_fd[i]);
		c->own_fd[i] = -1;
	}
}

static void free_command(struct command *c)
{
	struct command **at = &commands;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	args_done(c);
	close_own(c);
	if (n_spare == MAX_SPARE) {
		unmap_memory(c, sizeof *c);
		return;
	}
	c->next = spare;
	spare = c;
	n_spare++;
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

static long make_pipes(struct stream *s, struct command *c, bool input)
{
	long r = make_pipe(&s->source[0], &c->own_fd[1], false);

	if (r >= 0)
		r = make_pipe(&s->source[1], &c->own_fd[2], false);
	if (r >= 0 && input)
		r = make_pipe(&s->sink, &c->own_fd[0], true);
	for (int i = 0; i < 3; i++)
		c->place.fd[i] = c->own_fd[i];
	if (!input)
		c->place.fd[0] = session.null;
	return r;
}

static void set_size(int fd, uint32_t rows, uint32_t columns)
{
	struct winsize w = { .ws_row = (uint16_t)rows, .ws_col = (uint16_t)columns };

	(void)sys3(SYS_ioctl, fd, TIOCSWINSZ, &w);
}

static long make_terminal(struct stream *s, struct command *c, const struct wire_run *m)
{
	const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
	int unlock = 0;
	long fd = sys4(SYS_openat, AT_FDCWD, "/dev/ptmx", flags | O_NONBLOCK, 0), peer;

	if (fd < 0)
		return fd;
	s->source[0] = s->sink = (int)fd;
	s->out[1].ended = s->out[1].eof = true;
	peer = sys3(SYS_ioctl, fd, TIOCSPTLCK, &unlock);
	if (peer >= 0)
		peer = sys3(SYS_ioctl, fd, TIOCGPTPEER, flags);
	if (peer < 0)
		return peer;
	if (m->rows || m->columns)
		set_size((int)fd, m->rows, m->columns);
	c->own_fd[0] = (int)peer;
	for (int i = 0; i < 3; i++)
		c->place.fd[i] = (int)peer;
	return 0;
}

static long make_streams(struct stream *s, struct command *c, const struct wire_run *m)
{
	long r;

	session_act_as(c->exec.uid, c->exec.gid);
	if (m->flags & WIRE_RUN_TERMINAL)
		r = make_terminal(s, c, m);
	else
		r = make_pipes(s, c, m->flags & WIRE_RUN_STDIN);
	session_act_as(session.uid, session.gid);
	return r;
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

static uint32_t start(struct stream *s, struct command *c, const struct wire_run *m)
{
	const struct args *a = s->memory;
	uint32_t error;
	long r;

	if (a && a->too_large)
		return E2BIG;
	c->exec =
		(struct wire_exec){ .uid = m->uid == (uint32_t)WIRE_SAME_ID ? session.uid : m->uid,
			.gid = m->gid == (uint32_t)WIRE_SAME_ID ? session.gid : m->gid,
			.flags = m->flags & WIRE_RUN_TERMINAL ? WIRE_EXEC_TERMINAL : 0 };
	error = args_build(c, a ? a->bytes : NULL, a ? a->len : 0, m->rest, m->rest_len);
	if (error)
		return error;
	c->place.dir = c->text.dir;
	c->place.umask = session.umask;
	c->place.pid = &c->pid;
	r = make_streams(s, c, m);
	if (r < 0)
		return (uint32_t)-r;
	r = guest_clone(c->runner_stack + sizeof c->runner_stack, CLONE_VM | CLONE_FILES | SIGCHLD,
		runner_main, c);
	if (r < 0)
		return (uint32_t)-r;
	c->runner = (int)r;
	c->running = true;
	session.starting++;
	return 0;
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
	c = new_command(f->stream);
	if (!c) {
		not_started(s, ENOMEM);
		return true;
	}
	error = start(s, c, &m);
	if (s->memory) {
		unmap_memory(s->memory, s->memory_size);
		s->memory = NULL;
	}
	if (error) {
		free_command(c);
		not_started(s, error);
		return true;
	}
	s->command = c;
	if (m.timeout_ms) {
		c->deadline_ms = boottime_ms() + m.timeout_ms;
		set_timer();
	}
	stream_watch(s);
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
	struct {
		uint32_t iflag, oflag, cflag, lflag;
		uint8_t line, cc[19];
	} t;

	if (s->sink < 0)
		return;
	if (s->sink != s->source[0]) {
		stream_close_sink(s);
		return;
	}
	if (sys3(SYS_ioctl, s->sink, TCGETS, &t) == 0 && t.lflag & 2 /* ICANON */)
		(void)sys3(SYS_write, s->sink, &t.cc[4] /* VEOF */, 1);
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
	for (const struct stream *s = stream_first(); s; s = stream_after(s)) {
		if (!is_waiting_kill(s, c))
			continue;
		if (s->ask == (ASK_TREE | SIGKILL) && !c->ended)
			c->end_flags |= WIRE_ENDED_KILLED;
		ask(c, s->ask, s->number);
		return;
	}
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

bool exec_resize(const struct wire_frame *f)
{
	const struct stream *s = stream_find(f->stream);
	struct wire_resize m;

	if (!wire_get_resize(f, &m))
		return false;
	if (s && exec_is_command(s) && s->source[0] >= 0 && s->sink == s->source[0])
		set_size(s->sink, m.rows, m.columns);
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

	if (!c->wake)
		session.starting--;
	args_done(c);
	if (!s)
		return;
	s->value_begun = (uint32_t)c->pid;
	s->has |= ANSWER_BEGUN;
	s->owes |= ANSWER_BEGUN;
	stream_touch(s, false);
}

static void take_news(struct command *c)
{
	uint32_t news = __atomic_load_n(&c->said, __ATOMIC_ACQUIRE) & ~c->heard;

	c->heard |= news;
	if (news & SAID_STARTED)
		command_began(c);
	if (news & SAID_ENDED)
		command_ended(c, c->status, c->left);
	if (c->asking && !__atomic_load_n(&c->ask, __ATOMIC_ACQUIRE))
		answered(c);
}

void exec_notified(void)
{
	uint64_t count;

	(void)sys3(SYS_read, session.notify, &count, sizeof count);
	for (struct command *c = commands, *next; c; c = next) {
		next = c->next;
		take_news(c);
	}
}

/* A short command's start is told together with its end: no need to be woken for it. */
void exec_look(bool timed_out)
{
	for (struct command *c = commands; c && session.starting; c = c->next) {
		if (c->heard & SAID_STARTED || c->wake || !c->running)
			continue;
		take_news(c);
		if (c->heard & SAID_STARTED || !timed_out)
			continue;
		__atomic_store_n(&c->wake, true, __ATOMIC_SEQ_CST);
		session.starting--;
		take_news(c);
	}
}

static void retire(struct command *c)
{
	struct stream *s = stream_of(c);

	if (s)
		s->command = NULL;
	free_command(c);
}

/* The runner's end: after the command's and all its children's, or, when somebody killed it, before. */
static void runner_ended(struct command *c)
{
	struct stream *s;

	take_news(c);
	c->running = false;
	close_own(c);
	if (!(c->heard & SAID_STARTED) && !c->error && c->pid) {
		c->heard |= SAID_STARTED;
		command_began(c);
	} else if (!(c->heard & SAID_STARTED)) {
		s = stream_of(c);
		if (s)
			not_started(s, c->error ? c->error : EINTR);
		c->ended = true;
		if (!c->wake)
			session.starting--;
	}
	c->orphan = !c->ended;
	answer_all(c);
	if (c->orphan && (c->timed_out || c->doomed))
		(void)sys2(SYS_kill, -c->pid, SIGKILL);
	if (!c->orphan)
		retire(c);
}

bool exec_reaped(int pid, int status)
{
	for (struct command *c = commands; c; c = c->next) {
		if (c->running && c->runner == pid) {
			runner_ended(c);
			return true;
		}
		if (c->orphan && c->pid == pid) {
			command_ended(c, status, 0);
			retire(c);
			return true;
		}
	}
	return false;
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
