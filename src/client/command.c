/* Owns commands: starting one, attaching to one, its streams and its end.  Called by users of the library.
 *
 * A command handle is a stream.  What the engine says of it may come in any order that wire.h allows and is checked; the
 * end is told once, after all output before it was delivered. */
#include "client/command.h"

#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"
#include "client/request.h"

enum { EXIT_TIMEOUT = 124, EXIT_OURS = 125, EXIT_NOT_EXEC = 126, EXIT_NOT_FOUND = 127 };

struct bailey_command {
	struct stream st;
	struct bailey_streams streams;
	struct bailey_result result;
	char *name; /* argv[0], or the id: for messages; owned */
	bool begun, ended, detached, attached;
	bool told_ended;  /* its end is known to be on its way */
	int signal_waits; /* to be sent once the id is known */
};

static struct bailey_command *command_of(struct stream *st)
{
	return (struct bailey_command *)st;
}

static void put_reason(struct bailey_result *r, enum reason reason)
{
	str_format(r->reason, sizeof r->reason, "%s", reason_name(reason));
}

static enum reason not_started_reason(int error, int *ret_status)
{
	static const struct {
		int error;
		enum reason reason;
		int status;
	} table[] = {
		{ ENOENT, R_COMMAND_NOT_FOUND, EXIT_NOT_FOUND },
		{ EAGAIN, R_PIDS_EXHAUSTED, EXIT_OURS },
		{ ENOMEM, R_OOM, EXIT_OURS },
		{ E2BIG, R_OUT_OF_RANGE, EXIT_OURS },
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (table[i].error == error) {
			*ret_status = table[i].status;
			return table[i].reason;
		}
	}
	*ret_status = EXIT_NOT_EXEC;
	return R_COMMAND_NOT_EXEC;
}

void result_set(struct bailey_result *r, uint32_t how, uint32_t status, uint32_t flags)
{
	r->exit_code = -1;
	r->signal = r->sys_errno = 0;
	r->flags = flags & WIRE_ENDED_ALL;
	switch (how) {
	case WIRE_HOW_EXITED:
		r->how = BAILEY_EXITED;
		r->status = r->exit_code = (int)status;
		break;
	case WIRE_HOW_SIGNALLED:
		r->how = BAILEY_SIGNALLED;
		r->signal = (int)status;
		r->status = 128 + r->signal;
		break;
	case WIRE_HOW_NOT_STARTED:
		r->how = BAILEY_NOT_STARTED;
		r->sys_errno = (int)status;
		put_reason(r, not_started_reason(r->sys_errno, &r->status));
		return;
	default: /* WIRE_HOW_DEADLINE */
		r->how = BAILEY_SIGNALLED;
		r->signal = 9;
		r->flags |= BAILEY_TIMED_OUT;
		break;
	}
	if (r->flags & BAILEY_TIMED_OUT) {
		r->status = EXIT_TIMEOUT;
		put_reason(r, R_TIMEOUT);
	} else if (r->flags & BAILEY_OOM) {
		put_reason(r, R_OOM);
	}
}

/* What is known now. */
static void copy_result(const struct bailey_command *c, struct bailey_result *ret)
{
	*ret = c->result;
	ret->output_error = c->st.lanes[0].error ? c->st.lanes[0].error : c->st.lanes[1].error;
}

static void lost(struct bailey_result *r, enum reason reason)
{
	r->how = BAILEY_LOST;
	r->exit_code = -1;
	r->status = EXIT_OURS;
	put_reason(r, reason);
}

/* --- what the engine says --- */

static int take_output(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e)
{
	struct bailey_command *c = command_of(st);

	(void)e;
	if (c->streams.on_output)
		c->streams.on_output(c->streams.arg, lane ? 2 : 1, p, n);
	return 0;
}

static int nonsense(struct bailey_command *c, const struct wire_frame *f, struct err *e)
{
	return err_set(e, R_WIRE_MALFORMED, 0, "read what the engine of '%s' says of '%s': %s",
		c->st.conn->id, c->name, wire_type_name(f->type));
}

static int take_info(struct bailey_command *c, const struct wire_frame *f, struct err *e)
{
	struct wire_command_info m;

	if (!wire_get_command_info(f, &m) || (c->result.id && c->result.id != m.command))
		return nonsense(c, f, e);
	c->result.id = m.command;
	if (c->attached) {
		c->begun = m.state != WIRE_STATE_STARTING;
		c->told_ended = m.state == WIRE_STATE_ENDED;
		c->result.dropped = m.dropped;
	}
	if (c->signal_waits)
		return bailey_command_signal(c, c->signal_waits, NULL) < 0 ? nonsense(c, f, e) : 0;
	return 0;
}

static int take_ended(struct bailey_command *c, const struct wire_frame *f, struct err *e)
{
	struct wire_ended m;

	if (c->ended || !wire_get_ended(f, &m))
		return nonsense(c, f, e);
	c->ended = true;
	c->result.left = m.left;
	result_set(&c->result, m.how, m.status, m.flags);
	return 0;
}

static int command_frame(struct stream *st, const struct wire_frame *f, struct err *e)
{
	struct bailey_command *c = command_of(st);
	struct wire_begun begun;

	switch (f->type) {
	case WIRE_COMMAND_INFO:
		return take_info(c, f, e);
	case WIRE_BEGUN:
		if (!wire_get_begun(f, &begun))
			return nonsense(c, f, e);
		c->begun = true;
		return 0;
	case WIRE_ENDED:
		return take_ended(c, f, e);
	default:
		return nonsense(c, f, e);
	}
}

static void command_over(struct stream *st)
{
	struct bailey_command *c = command_of(st);
	_cleanup_err_ struct err cause = ERR_INIT;
	struct bailey_result copy;

	if (!st->answered) {
		if (!c->ended)
			lost(&c->result, st->conn->broken.reason);
	} else if (st->result.error || st->result.flags & WIRE_RESULT_REASON) {
		if (!c->ended) {
			client_result_error(&st->result, "run", c->name, &cause);
			lost(&c->result, cause.reason);
		}
	} else if (c->attached && st->result.value > c->result.dropped) {
		c->result.dropped = st->result.value;
	} else if (c->detached && !c->result.id) {
		c->result.id = (uint32_t)st->result.value;
	}
	copy_result(c, &copy);
	if (c->streams.on_ended)
		c->streams.on_ended(c->streams.arg, &copy);
}

static void command_released(struct stream *st)
{
	struct bailey_command *c = command_of(st);

	free(c->name);
	free(c);
}

static const struct stream_ops command_ops = { .two_lanes = true,
	.data = take_output,
	.frame = command_frame,
	.done = command_over,
	.free = command_released };

/* --- starting --- */

static struct bailey_command *new_command(
	struct bailey_sandbox *s, const struct bailey_streams *streams, const char *name)
{
	struct bailey_command *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->name = strdup(name);
	if (!c->name) {
		free(c);
		return NULL;
	}
	c->streams = *streams;
	c->result.exit_code = -1;
	c->result.how = BAILEY_RUNNING;
	stream_begin(s, &c->st, &command_ops);
	return c;
}

static int open_streams(struct bailey_command *c, bool input, struct err *e)
{
	const struct bailey_streams *s = &c->streams;

	c->st.feed.open = input;
	if (s->out >= 0 && stream_sink(&c->st, 0, s->out, e) < 0)
		return -1;
	if (s->err >= 0 && stream_sink(&c->st, 1, s->err, e) < 0)
		return -1;
	if (input && s->in >= 0 && stream_source(&c->st, s->in, e) < 0)
		return -1;
	return 0;
}

/* Working directory, count, arguments, environment: a NUL behind each. */
static int pack_args(const struct bailey_exec_options *o, struct buf *out, struct err *e)
{
	unsigned n = 0;

	if (!o->argv || !o->argv[0] || !*o->argv[0])
		return err_set(e, R_BAD_VALUE, 0, "run a command: none is given");
	if (o->workdir && (*o->workdir != '/' || strlen(o->workdir) >= WIRE_MAX_PATH))
		return err_set(e, R_BAD_VALUE, 0, "run '%.64s' in '%.64s': no absolute path",
			o->argv[0], o->workdir);
	while (o->argv[n])
		n++;
	(void)buf_add(out, o->workdir ? o->workdir : "", o->workdir ? strlen(o->workdir) + 1 : 1);
	(void)buf_printf(out, "%u", n);
	(void)buf_add(out, "", 1);
	for (unsigned i = 0; i < n; i++)
		(void)buf_add(out, o->argv[i], strlen(o->argv[i]) + 1);
	for (const char *const *p = o->env; p && *p; p++) {
		if (**p == '=' || !strchr(*p, '='))
			return err_set(e, R_BAD_VALUE, 0,
				"run '%.64s' with variable '%.64s': not NAME=VALUE", o->argv[0],
				*p);
		(void)buf_add(out, *p, strlen(*p) + 1);
	}
	if (out->failed)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"run '%.64s': arguments and environment over %d bytes", o->argv[0],
			WIRE_MAX_ARGS);
	return 0;
}

static int send_run(struct bailey_command *c, const struct bailey_exec_options *o,
	const struct buf *args, struct wire_run *m, struct err *e)
{
	const uint32_t most = WIRE_MAX_BODY - 64;
	const uint8_t *p = (const uint8_t *)args->data;
	size_t left = args->len;

	while (left > most) {
		const struct wire_args part = {
			.stream = c->st.number, .rest = p, .rest_len = most
		};

		if (conn_put(c->st.conn, args, &part, e) < 0)
			return -1;
		p += most;
		left -= most;
	}
	m->stream = c->st.number;
	m->flags = (o->flags & BAILEY_TERMINAL ? WIRE_RUN_TERMINAL : 0u) |
		(o->flags & BAILEY_STDIN ? WIRE_RUN_STDIN : 0u) |
		(o->flags & BAILEY_DETACHED ? WIRE_RUN_DETACHED : 0u);
	m->rows = o->rows;
	m->columns = o->columns;
	m->timeout_ms = o->timeout_ms;
	m->rest = p;
	m->rest_len = (uint32_t)left;
	return conn_put(c->st.conn, run, m, e);
}

static bool is_over(const struct stream *st)
{
	return st->over;
}

/* Detached: the answer is that it started. */
static int wait_detached(struct bailey_command *c, struct err *e)
{
	int status;

	if (stream_wait_for(&c->st, is_over, c->st.conn->timeout_ms, "start", c->name, e) < 0)
		return -1;
	if (c->result.how == BAILEY_NOT_STARTED)
		return err_set(e, not_started_reason(c->result.sys_errno, &status),
			c->result.sys_errno, "start '%.256s'", c->name);
	if (!c->st.answered)
		return err_set(e, c->st.conn->broken.reason, 0, "start '%.256s'", c->name);
	if (c->st.result.error || c->st.result.flags & WIRE_RESULT_REASON)
		return client_result_error(&c->st.result, "start", c->name, e);
	return 0;
}

int command_exec(struct bailey_sandbox *s, const struct bailey_exec_options *given,
	struct bailey_command **ret, struct err *e)
{
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	_cleanup_buf_ struct buf args = { .max = WIRE_MAX_ARGS };
	struct bailey_command *c;
	struct wire_run m = { .uid = (uint32_t)WIRE_SAME_ID, .gid = (uint32_t)WIRE_SAME_ID };

	if (client_options(&o, sizeof o, given, "exec", e) < 0 || conn_check(s, e) < 0 ||
		(o.user && user_parse(o.user, &m.uid, &m.gid, e) < 0) ||
		pack_args(&o, &args, e) < 0)
		return -1;
	if (!ret && !(o.flags & BAILEY_DETACHED))
		return err_set(
			e, R_BAD_VALUE, 0, "run '%.64s': nowhere to give the handle to", o.argv[0]);
	c = new_command(s, &o.streams, o.argv[0]);
	if (!c)
		return err_set(e, R_NO_MEMORY, ENOMEM, "run '%.64s'", o.argv[0]);
	c->detached = o.flags & BAILEY_DETACHED;
	if (open_streams(c, o.flags & BAILEY_STDIN, e) < 0 || send_run(c, &o, &args, &m, e) < 0 ||
		stream_pump(&c->st, e) < 0 || conn_flush(s, e) < 0 ||
		(c->detached && wait_detached(c, e) < 0)) {
		stream_end(&c->st);
		return -1;
	}
	if (ret)
		*ret = c;
	else
		stream_end(&c->st);
	return 0;
}

int bailey_exec(struct bailey_sandbox *s, const struct bailey_exec_options *o,
	struct bailey_command **ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(command_exec(s, o, ret, &err), e, &err);
}

int command_attach(struct bailey_sandbox *s, uint32_t id, unsigned flags,
	const struct bailey_streams *streams, struct bailey_command **ret, struct err *e)
{
	static const struct bailey_streams nowhere = BAILEY_STREAMS_INIT;
	struct bailey_command *c;
	struct wire_attach m = { .command = id };
	char name[32];

	if (conn_check(s, e) < 0)
		return -1;
	if (!id)
		return err_set(e, R_NO_SUCH_COMMAND, 0, "attach to command '0'");
	c = new_command(s, streams ? streams : &nowhere, FMT(name, "%u", id));
	if (!c)
		return err_set(e, R_NO_MEMORY, ENOMEM, "attach to command '%u'", id);
	c->attached = true;
	c->result.id = id;
	m.stream = c->st.number;
	m.flags = (flags & BAILEY_ATTACH_NO_FOLLOW ? 0u : WIRE_ATTACH_FOLLOW) |
		(flags & BAILEY_ATTACH_INPUT ? WIRE_ATTACH_STDIN : 0u) |
		(flags & BAILEY_ATTACH_NO_OUTPUT ? WIRE_ATTACH_NO_OUTPUT : 0u);
	if (open_streams(c, flags & BAILEY_ATTACH_INPUT, e) < 0 || conn_put(s, attach, &m, e) < 0 ||
		stream_pump(&c->st, e) < 0 || conn_flush(s, e) < 0) {
		stream_end(&c->st);
		return -1;
	}
	*ret = c;
	return 0;
}

int bailey_attach(struct bailey_sandbox *s, uint32_t id, unsigned flags,
	const struct bailey_streams *streams, struct bailey_command **ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(command_attach(s, id, flags, streams, ret, &err), e, &err);
}

/* --- waiting --- */

static bool is_started(const struct stream *st)
{
	return ((const struct bailey_command *)st)->begun || st->over;
}

static int command_started(struct bailey_command *c, struct err *e)
{
	if (stream_wait_for(&c->st, is_started, c->st.conn->timeout_ms, "start", c->name, e) < 0)
		return -1;
	return c->st.over;
}

int bailey_command_started(struct bailey_command *c, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(command_started(c, &err), e, &err);
}

/* An end that is no end of the command: an error of the request, or of the connection. */
static int command_failed(struct bailey_command *c, struct err *e)
{
	if (c->ended)
		return 0;
	if (!c->st.answered)
		return err_set(e, c->st.conn->broken.reason, c->st.conn->broken.sys_errno,
			"run '%.256s'", c->name);
	if (c->st.result.error || c->st.result.flags & WIRE_RESULT_REASON)
		return client_result_error(
			&c->st.result, c->attached ? "attach to command" : "run", c->name, e);
	return 0;
}

int command_wait(struct bailey_command *c, int timeout_ms, struct bailey_result *ret, struct err *e)
{
	uint64_t until = boottime_ms() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0);

	/* the start has a time-out, a running command has none; a command by its id may have ended long ago, and even who
	 * doesn't want to wait is told so */
	if (!c->begun && !c->st.over && (timeout_ms < 0 || c->attached) &&
		command_started(c, e) < 0)
		return -1;
	if (c->told_ended && timeout_ms >= 0)
		until += c->st.conn->timeout_ms;
	while (!c->st.over) {
		const uint64_t now = boottime_ms();

		if (timeout_ms >= 0 && now >= until) {
			if (conn_turn(c->st.conn, 0, e) < 0 && !c->st.over)
				return -1;
			if (!c->st.over)
				return 1;
			break;
		}
		if (conn_turn(c->st.conn, timeout_ms < 0 ? -1 : (int)(until - now), e) < 0) {
			/* a broken connection is told below, with the command's name */
			if (!c->st.over)
				return -1;
			err_done(e);
		}
	}
	if (ret)
		copy_result(c, ret);
	return command_failed(c, e);
}

int bailey_command_wait(
	struct bailey_command *c, int timeout_ms, struct bailey_result *ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(command_wait(c, timeout_ms, ret, &err), e, &err);
}

uint32_t bailey_command_id(const struct bailey_command *c)
{
	return c->result.id;
}

void bailey_command_result(const struct bailey_command *c, struct bailey_result *ret)
{
	copy_result(c, ret);
}

void bailey_command_free(struct bailey_command *c)
{
	if (c)
		stream_end(&c->st);
}

/* --- acting on it --- */

static int command_write(
	struct bailey_command *c, const void *data, size_t n, size_t *ret, struct err *e)
{
	if (c->st.conn->broken.reason != REASON_NONE)
		return err_set(e, c->st.conn->broken.reason, 0, "write to '%.256s'", c->name);
	/* nobody reads any more: as with a program that reads a part of its input and is content */
	if (c->ended || c->st.over) {
		*ret = n;
		return 0;
	}
	if (!c->st.feed.open || c->st.feed.source.fd >= 0)
		return err_set(e, R_BAD_VALUE, 0,
			"write to '%.256s': it has no standard input of this program's", c->name);
	if (stream_send(&c->st, data, n, ret, e) < 0)
		return -1;
	return conn_flush(c->st.conn, e);
}

ssize_t bailey_command_write(
	struct bailey_command *c, const void *data, size_t n, struct bailey_error *e)
{
	struct err err = ERR_INIT;
	size_t taken = 0;

	if (command_write(c, data, n, &taken, &err) < 0)
		return client_fail(e, &err);
	return (ssize_t)taken;
}

int bailey_command_close_input(struct bailey_command *c, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	if (stream_send_eof(&c->st, &err) < 0 || conn_flush(c->st.conn, &err) < 0)
		return client_fail(e, &err);
	return 0;
}

/* A request whose answer nobody waits for. */
static void free_stream(struct stream *st)
{
	free(st);
}

static void end_stream(struct stream *st)
{
	stream_end(st);
}

static const struct stream_ops forget_ops = { .done = end_stream, .free = free_stream };

static int command_signal(struct bailey_command *c, int sig, struct err *e)
{
	struct bailey_sandbox *s = c->st.conn;
	struct wire_kill m = { .command = c->result.id, .signal = (uint32_t)sig };
	struct stream *st;

	if (sig < 1 || sig > 64)
		return err_set(e, R_BAD_VALUE, 0, "send signal '%d': not from 1 to 64", sig);
	if (s->broken.reason != REASON_NONE)
		return err_set(e, s->broken.reason, 0, "send a signal to '%.256s'", c->name);
	if (c->ended)
		return 0;
	if (!c->result.id) {
		c->signal_waits = sig;
		return 0;
	}
	c->signal_waits = 0;
	st = calloc(1, sizeof *st);
	if (!st)
		return err_set(e, R_NO_MEMORY, ENOMEM, "send a signal to '%.256s'", c->name);
	stream_begin(s, st, &forget_ops);
	m.stream = st->number;
	if (conn_put(s, kill, &m, e) < 0) {
		stream_end(st);
		return -1;
	}
	return conn_flush(s, e);
}

int bailey_command_signal(struct bailey_command *c, int sig, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(command_signal(c, sig, &err), e, &err);
}

int bailey_command_resize(
	struct bailey_command *c, uint16_t rows, uint16_t columns, struct bailey_error *e)
{
	const struct wire_resize m = { .stream = c->st.number, .rows = rows, .columns = columns };
	struct err err = ERR_INIT;

	if (c->st.over)
		return 0;
	if (conn_put(c->st.conn, resize, &m, &err) < 0 || conn_flush(c->st.conn, &err) < 0)
		return client_fail(e, &err);
	return 0;
}

int bailey_exec_run(struct bailey_sandbox *s, const struct bailey_exec_options *o,
	struct bailey_result *ret, struct bailey_error *e)
{
	struct bailey_command *c = NULL;
	struct err err = ERR_INIT;
	int r = command_exec(s, o, &c, &err);

	if (r == 0)
		r = command_wait(c, -1, ret, &err);
	bailey_command_free(c);
	return client_give(r, e, &err);
}
