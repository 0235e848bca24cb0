/* Owns the client's side of a command while it is served: signals, the terminal, what is typed.  Called by exec and attach.
 *
 * Must hold: the terminal is put back on every way out; what ends here is the client alone, since a command goes on without
 * one.  A reader that has gone ends the client at the first byte that it refuses. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum {
	AGAIN_MS = 10000, /* a second signal within this time kills */
	KEY_HOLD = 0x10,  /* ctrl-p */
	KEY_LEAVE = 0x11, /* ctrl-q */
	GOES_ON = 0,
};

int serve_open(struct serve *ret, struct bailey_sandbox *s, bool terminal, struct output *captured,
	struct err *e)
{
	*ret = (struct serve)SERVE_INIT;
	ret->s = s;
	ret->terminal = terminal;
	ret->captured = captured;
	ret->signals = cli_open_signals(e);
	return ret->signals < 0 ? -1 : 0;
}

static void take_end(void *arg, const struct bailey_result *result)
{
	struct serve *s = arg;

	s->ended = true;
	s->result = *result;
}

static void take_captured(void *arg, int stream, const void *data, size_t n)
{
	const struct serve *s = arg;

	output_take(s->captured, stream, data, n);
}

void serve_streams(struct serve *s, bool input, struct bailey_streams *ret)
{
	*ret = (struct bailey_streams)BAILEY_STREAMS_INIT;
	ret->arg = s;
	ret->on_ended = take_end;
	s->input_over = !input;
	if (s->captured) {
		ret->on_output = take_captured;
	} else {
		ret->out = STDOUT_FILENO;
		ret->err = STDERR_FILENO;
	}
	/* what is typed at a terminal is looked at for the keys that let go */
	if (input && !s->terminal)
		ret->in = STDIN_FILENO;
}

void serve_size(uint16_t *ret_rows, uint16_t *ret_columns)
{
	struct winsize size;

	*ret_rows = *ret_columns = 0;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 &&
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		return;
	*ret_rows = size.ws_row;
	*ret_columns = size.ws_col;
}

static void make_raw(struct serve *s)
{
	struct termios raw;

	if (!s->terminal || s->input_over || tcgetattr(STDIN_FILENO, &s->saved) < 0)
		return;
	raw = s->saved;
	cfmakeraw(&raw);
	s->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void put_back(struct serve *s)
{
	if (s->raw)
		/* flush: what the terminal answered to the command must not be typed into the shell */
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &s->saved);
	s->raw = false;
}

void serve_done(struct serve *s)
{
	put_back(s);
	s->signals = close_fd(s->signals);
	bailey_command_free(s->c);
	s->c = NULL;
}

/* --- what is typed --- */

/* Takes the keys out of n bytes that were typed; true when they let go of the command. */
static bool take_keys(struct serve *s, const char *typed, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s->held && typed[i] == KEY_LEAVE)
			return true;
		if (s->held)
			s->typed[s->end++] = KEY_HOLD;
		s->held = typed[i] == KEY_HOLD;
		if (!s->held)
			s->typed[s->end++] = typed[i];
	}
	return false;
}

static void read_typed(struct serve *s)
{
	char typed[sizeof s->typed / 2]; /* a key that was held makes two of one */
	ssize_t n = read(STDIN_FILENO, typed, sizeof typed);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	s->start = s->end = 0;
	if (n <= 0)
		s->input_over = true;
	else
		s->let_go = take_keys(s, typed, (size_t)n);
}

static int pass_typed(struct serve *s, struct err *e)
{
	struct bailey_error failure;

	while (s->start < s->end) {
		ssize_t n = bailey_command_write(
			s->c, s->typed + s->start, s->end - s->start, &failure);

		if (n < 0)
			return live_give(-1, &failure, e);
		if (n == 0)
			return 0;
		s->start += (size_t)n;
	}
	if (s->input_over && s->terminal)
		return live_give(bailey_command_close_input(s->c, &failure), &failure, e);
	return 0;
}

/* --- signals --- */

static void kill_tree(struct serve *s)
{
	const uint32_t id = bailey_command_id(s->c);
	struct bailey_error ignored;

	if (id)
		(void)bailey_kill(s->s, id, SIGKILL, 1, NULL, &ignored);
}

/* First time: passed on.  Again within ten seconds: the whole tree is killed.  A third: only an output that nobody takes can
 * still be waited for, and the client ends. */
static void take_ending_signal(struct serve *s, int sig)
{
	const uint64_t now = boottime_ms();

	if (s->times_signalled && now - s->signalled_ms > AGAIN_MS)
		s->times_signalled = 0;
	s->signalled_ms = now;
	s->times_signalled++;
	if (s->times_signalled == 1)
		(void)bailey_command_signal(s->c, sig, NULL);
	else if (s->times_signalled == 2)
		kill_tree(s);
}

/* Returns GOES_ON, or the status with which the client ends plus one. */
static int take_signals(struct serve *s)
{
	struct signalfd_siginfo info;
	uint16_t rows, columns;

	while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
		const int sig = (int)info.ssi_signo;

		if (sig == SIGWINCH) {
			serve_size(&rows, &columns);
			if (s->terminal && rows)
				(void)bailey_command_resize(s->c, rows, columns, NULL);
		} else if (sig == SIGHUP) {
			return 1 + 128 + SIGHUP;
		} else if (sig == SIGUSR1 || sig == SIGUSR2) {
			(void)bailey_command_signal(s->c, sig, NULL);
		} else {
			take_ending_signal(s, sig);
			if (s->times_signalled > 2)
				return 1 + 128 + sig;
		}
	}
	return GOES_ON;
}

/* --- the loop --- */

/* A replay that does not begin at the first byte: said before what comes. */
static void say_dropped(struct serve *s, const struct bailey_result *r)
{
	if (!r->dropped || s->said_dropped)
		return;
	s->said_dropped = true;
	(void)fprintf(stderr, "bailey: %llu bytes of output are no longer kept\n",
		(unsigned long long)r->dropped);
}

/* As take_signals(), for what refuses output; or -1. */
static int check_output(struct serve *s, const struct bailey_result *now, struct err *e)
{
	if (s->captured)
		return GOES_ON;
	say_dropped(s, now);
	if (!now->output_error)
		return GOES_ON;
	if (now->output_error == EPIPE)
		return 1 + 128 + SIGPIPE;
	return err_set(e,
		now->output_error == ENOSPC || now->output_error == EDQUOT ? R_DISK_FULL
									   : R_OUTPUT_FAILED,
		now->output_error, "write the command's output");
}

static int serve_once(struct serve *s, int timeout_ms, struct err *e)
{
	const bool reads = s->terminal && !s->input_over && s->start == s->end;
	struct pollfd fds[] = { { .fd = bailey_fd(s->s), .events = POLLIN },
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = reads ? STDIN_FILENO : -1, .events = POLLIN } };
	struct bailey_error failure;
	struct bailey_result now;
	int r;

	if (poll(fds, sizeof fds / sizeof *fds, timeout_ms) < 0 && errno != EINTR)
		return err_set(e, R_IO_FAILED, errno, "wait for the command");
	if (fds[2].revents)
		read_typed(s);
	if (s->let_go)
		return 1;
	/* a connection that broke is told by the command's end */
	if (bailey_dispatch(s->s, 0, &failure) < 0 && !s->ended)
		return live_give(-1, &failure, e);
	r = fds[1].revents ? take_signals(s) : GOES_ON;
	if (r == GOES_ON && !s->ended && pass_typed(s, e) < 0)
		return -1;
	bailey_command_result(s->c, &now);
	return r == GOES_ON ? check_output(s, &now, e) : r;
}

/* The connection ended, not the command. */
static int name_way_back(const struct serve *s, struct err *e)
{
	const uint32_t id = bailey_command_id(s->c);

	if (e->reason != R_ENGINE_LOST || !id)
		return -1;
	return err_remedy(e, "Run 'bailey attach %s %u': it shows the output from its first byte.",
		bailey_sandbox_id(s->s), id);
}

int serve_run(struct serve *s, struct bailey_command *c, struct err *e)
{
	struct bailey_error failure;
	int r = GOES_ON;

	s->c = c;
	make_raw(s);
	/* the start has a time-out, what runs has none */
	if (live_give(bailey_command_started(c, &failure), &failure, e) < 0)
		return -1;
	for (int wait = 0; !s->ended && r == GOES_ON; wait = -1)
		r = serve_once(s, wait, e);
	put_back(s);
	if (s->let_go)
		(void)fprintf(stderr, "bailey: let go of command %u, which goes on\n",
			bailey_command_id(c));
	if (r != GOES_ON)
		return r;
	if (live_give(bailey_command_wait(c, 0, &s->result, &failure), &failure, e) < 0)
		return name_way_back(s, e);
	/* a short command is over before the loop begins */
	return check_output(s, &s->result, e);
}
