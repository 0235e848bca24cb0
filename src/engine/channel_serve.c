/* Owns what is done with each frame of a client, and with the owner's answers to what clients asked of it.  Called by the
 * clients' connections and by the channel's loop.  Must hold: a frame that no honest client sends ends its connection and
 * changes nothing else; every request is answered once, by its end or by why not. */
#include <stdlib.h>
#include <string.h>

#include "engine/channel.h"

enum { CONTROL_TEXT = 256 };

void refuse(struct client *l, uint32_t number, const struct err *e)
{
	char text[4096];
	const uint32_t n = pair_put_error(text, sizeof text, e);

	sock_put_rest(&l->sock, result, n, .stream = number,
		.error = e->sys_errno ? (uint32_t)e->sys_errno : EIO, .flags = WIRE_RESULT_REASON,
		.rest = (const uint8_t *)text, .rest_len = n);
}

static bool too_many(struct channel *c, struct client *l, uint32_t number)
{
	_cleanup_err_ struct err e = ERR_INIT;

	err_set(&e, R_BUSY, 0, "use sandbox '%s': too many requests and commands are open", c->id);
	refuse(l, number, &e);
	return true;
}

/* What needs the guest is refused while there is none, with the reason. */
static bool runs(struct channel *c, struct client *l, uint32_t number)
{
	static const struct {
		enum pair_state state;
		enum reason reason;
		const char *how, *remedy;
	} rows[] = {
		{ PAIR_PAUSED, R_SANDBOX_NOT_RUNNING, "it is paused",
			"Resume it with 'bailey resume'." },
		{ PAIR_STOPPING, R_SANDBOX_NOT_RUNNING, "it is being stopped", NULL },
		{ PAIR_STOPPED, R_SANDBOX_NOT_RUNNING, "it is stopped", NULL },
		{ PAIR_LOST, R_SANDBOX_LOST, "its first process has gone",
			"Remove it with 'bailey rm', or fork an earlier snapshot." },
		{ PAIR_SNAPSHOT, R_SNAPSHOT_ONLY, "it is a snapshot", NULL },
		{ PAIR_REMOVING, R_SANDBOX_NOT_RUNNING, "it is being removed", NULL },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		_cleanup_err_ struct err e = ERR_INIT;

		if (rows[i].state != c->state)
			continue;
		err_set(&e, rows[i].reason, 0, "use sandbox '%s': %s", c->id, rows[i].how);
		if (rows[i].remedy)
			(void)err_remedy(&e, "%s", rows[i].remedy);
		refuse(l, number, &e);
		return false;
	}
	return true;
}

static bool no_such_command(struct channel *c, struct client *l, uint32_t number, uint32_t id,
	const char *what, const char *why)
{
	_cleanup_err_ struct err e = ERR_INIT;

	err_set(&e, R_NO_SUCH_COMMAND, 0, "%s command '%u' of sandbox '%s'%s", what, id, c->id,
		why);
	refuse(l, number, &e);
	return true;
}

/* --- commands --- */

static bool take_args(struct client *l, struct ask *a, const struct wire_frame *f)
{
	const size_t n = WIRE_HEADER + f->length;
	uint8_t *grown;

	if (!a)
		a = ask_new(l, f->stream, ASK_ARGS);
	if (!a || a->kind != ASK_ARGS || a->frames_len + n > WIRE_MAX_ARGS + 2 * WIRE_MAX_BODY ||
		l->args_bytes + n > CLIENT_ARGS_MAX)
		return false;
	grown = realloc(a->frames, a->frames_len + n);
	if (!grown)
		return false;
	a->frames = grown;
	memcpy(grown + a->frames_len, f->body - WIRE_HEADER, n);
	a->frames_len += n;
	l->args_bytes += n;
	return true;
}

static bool serve_run(
	struct channel *c, struct client *l, struct ask *a, const struct wire_frame *f)
{
	struct command *k;
	struct wire_run m;
	uint8_t *frames;

	if (!wire_get_run(f, &m) || !take_args(l, a, f))
		return false;
	a = ask_find(l, f->stream);
	if (!runs(c, l, f->stream)) {
		ask_free(c, a);
		return true;
	}
	frames = move_ptr(a->frames);
	k = command_run(c, frames, a->frames_len, &m);
	l->args_bytes -= a->frames_len;
	a->frames_len = 0;
	if (!k) {
		ask_free(c, a);
		return too_many(c, l, f->stream);
	}
	a->kind = ASK_FOLLOW;
	a->run = a->follow = true;
	a->detached = m.flags & WIRE_RUN_DETACHED;
	follow_add(c, a, k);
	if (!a->detached)
		k->starter = a;
	if (m.flags & WIRE_RUN_STDIN)
		k->writer = a;
	return true;
}

static bool serve_attach(struct channel *c, struct client *l, const struct wire_frame *f)
{
	struct command *k;
	struct wire_attach m;
	struct ask *a;

	if (!wire_get_attach(f, &m))
		return false;
	k = command_find(c, m.command);
	if (!k)
		return no_such_command(c, l, f->stream, m.command, "attach to", "");
	if (m.flags & WIRE_ATTACH_STDIN && k->line.ring.len > WIRE_WINDOW)
		return too_many(c, l, f->stream);
	a = ask_new(l, f->stream, ASK_FOLLOW);
	if (!a)
		return false;
	a->follow = m.flags & WIRE_ATTACH_FOLLOW;
	a->silent = m.flags & WIRE_ATTACH_NO_OUTPUT;
	follow_add(c, a, k);
	if (m.flags & WIRE_ATTACH_STDIN && !k->record.closed) {
		k->writer = a;
		a->input_base = k->line.ring.base + k->line.ring.len;
	}
	return true;
}

static bool serve_ps(struct channel *c, struct client *l, const struct wire_frame *f)
{
	for (struct command *k = c->oldest; k; k = k->next)
		command_info(c, k, l, f->stream);
	sock_put_rest(&l->sock, result, 0, .stream = f->stream);
	return true;
}

static bool pass(struct channel *c, struct client *l, const struct wire_frame *f)
{
	struct line *line;
	struct ask *a;

	if (!runs(c, l, f->stream))
		return true;
	a = ask_new(l, f->stream, ASK_PASS);
	if (!a)
		return false;
	line = line_request(c, LINE_PASS, f->type, f->body, f->length);
	if (!line) {
		ask_free(c, a);
		return too_many(c, l, f->stream);
	}
	line->ask = a;
	a->line = line;
	return true;
}

static bool serve_kill(struct channel *c, struct client *l, const struct wire_frame *f)
{
	const struct command *k;
	struct wire_kill m;

	if (!wire_get_kill(f, &m))
		return false;
	k = command_find(c, m.command);
	if (!k)
		return no_such_command(c, l, f->stream, m.command, "kill", "");
	if (k->record.closed)
		return no_such_command(c, l, f->stream, m.command, "kill", ": it has ended");
	return pass(c, l, f);
}

/* --- files and connections: checked, and passed on --- */

static bool is_valid(const struct wire_frame *f)
{
#define CHECK(id, name) \
	case WIRE_##id: { \
		struct wire_##name m; \
\
		return wire_get_##name(f, &m); \
	}
	switch (f->type) {
		CHECK(STAT, stat)
		CHECK(LIST, list)
		CHECK(READ, read)
		CHECK(WRITE, write)
		CHECK(MKDIR, mkdir)
		CHECK(REMOVE, remove)
		CHECK(RENAME, rename)
		CHECK(SEARCH, search)
		CHECK(TAR_OUT, tar_out)
		CHECK(TAR_IN, tar_in)
		CHECK(DIAL, dial)
		CHECK(LISTEN, listen)
	default:
		return false;
	}
#undef CHECK
}

/* --- what the owner does --- */

static bool ask_owner(struct channel *c, struct client *l, uint32_t number, struct pair_message *m)
{
	struct ask *a = ask_new(l, number, ASK_OWNER);

	if (!a)
		return false;
	m->type = PAIR_ASK;
	m->ref = a->ref = ++c->next_ref;
	if (pair_send(c->owner, m, -1) == 0)
		return true;
	ask_free(c, a);
	return too_many(c, l, number);
}

static bool serve_control(struct channel *c, struct client *l, const struct wire_frame *f)
{
	struct pair_message m = { .type = PAIR_ASK };
	struct wire_control w;

	if (!wire_get_control(f, &w) || w.rest_len > CONTROL_TEXT)
		return false;
	m.a = w.verb;
	m.b = w.flags;
	m.value = w.grace_ms;
	m.text_len = w.rest_len;
	if (w.rest_len)
		memcpy(m.text, w.rest, w.rest_len);
	return ask_owner(c, l, f->stream, &m);
}

static bool serve_inspect(struct channel *c, struct client *l, const struct wire_frame *f)
{
	struct pair_message m = {
		.a = PAIR_ASK_INSPECT, .b = c->n_running, .value = c->spool.kept
	};

	return ask_owner(c, l, f->stream, &m);
}

static bool serve_changes(struct channel *c, struct client *l, const struct wire_frame *f)
{
	struct pair_message m = { .a = PAIR_ASK_CHANGES };
	struct wire_changes w;

	if (!wire_get_changes(f, &w))
		return false;
	m.b = w.flags;
	return ask_owner(c, l, f->stream, &m);
}

static struct ask *find_ref(const struct channel *c, uint64_t ref)
{
	for (struct client *l = c->clients; l; l = l->next)
		for (struct ask *a = l->asks; a; a = a->next)
			if (a->kind == ASK_OWNER && a->ref == ref)
				return a;
	return NULL;
}

void serve_answer(struct channel *c, const struct pair_message *m, int fd)
{
	struct ask *a = find_ref(c, m->ref);
	uint32_t flags = m->b ? WIRE_RESULT_REASON : 0;

	if (!a) {
		(void)close_fd(fd);
		return;
	}
	if (fd >= 0) {
		if (sock_pass(&a->client->sock, fd)) {
			flags |= WIRE_RESULT_FD;
		} else {
			/* another one is on its way, and nobody reads it */
			(void)close_fd(fd);
			(void)too_many(c, a->client, a->number);
			ask_free(c, a);
			return;
		}
	}
	sock_put_rest(&a->client->sock, result, m->text_len, .stream = a->number, .error = m->a,
		.flags = flags, .value = m->value, .rest = (const uint8_t *)m->text,
		.rest_len = m->text_len);
	ask_free(c, a);
}

void serve_lines(struct channel *c, const struct pair_message *m)
{
	struct ask *a = find_ref(c, m->ref);

	if (a)
		sock_put_frame(&a->client->sock, WIRE_DATA, a->number, (const uint8_t *)m->text,
			m->text_len);
}

void serve_told(struct channel *c, const struct pair_message *m)
{
	for (struct client *l = c->clients; l; l = l->next)
		for (struct ask *a = l->asks; a; a = a->next) {
			/* whoever doesn't take events misses some */
			if (a->kind != ASK_EVENTS || a->limit[0] - a->sent[0] < m->text_len)
				continue;
			a->sent[0] += m->text_len;
			sock_put_frame(&l->sock, WIRE_DATA, a->number, (const uint8_t *)m->text,
				m->text_len);
		}
}

static bool serve_events(struct client *l, const struct wire_frame *f)
{
	struct wire_events m;
	struct ask *a;

	if (!wire_get_events(f, &m))
		return false;
	a = ask_new(l, f->stream, ASK_EVENTS);
	if (a)
		a->limit[0] = WIRE_WINDOW;
	return a != NULL;
}

/* --- what flows for a request that is open --- */

/* Bytes that nobody wants: the client goes on. */
static void swallow(struct ask *a)
{
	if (a->in_limit - a->in_received >= WIRE_WINDOW / 2)
		return;
	a->in_limit = a->in_received + WIRE_WINDOW;
	sock_put(&a->client->sock, ack, .stream = a->number, .received = a->in_received,
		.limit = a->in_limit);
}

static struct line *input_of(struct ask *a)
{
	if (a->kind == ASK_PASS)
		return a->line;
	if (a->kind == ASK_FOLLOW && a->command->writer == a && !a->command->record.closed)
		return &a->command->line;
	return NULL;
}

static bool take_data(struct channel *c, struct ask *a, const struct wire_frame *f)
{
	struct line *line = input_of(a);

	if ((a->kind != ASK_PASS && a->kind != ASK_FOLLOW) ||
		f->length > a->in_limit - a->in_received)
		return false;
	a->in_received += f->length;
	if (!line || line->eof) {
		swallow(a);
		return true;
	}
	if (!ring_put(&line->ring, f->body, f->length))
		return false;
	line_touch(c, line);
	return true;
}

static bool take_eof(struct channel *c, struct ask *a, const struct wire_frame *f)
{
	struct line *line = input_of(a);
	struct wire_eof m;

	if (!wire_get_eof(f, &m) || m.total != a->in_received)
		return false;
	if (line) {
		line->eof = true;
		line_touch(c, line);
	}
	return true;
}

static bool take_ack(struct channel *c, struct ask *a, unsigned lane, const struct wire_frame *f)
{
	struct wire_ack m;
	uint64_t most;

	if (!wire_get_ack(f, &m))
		return false;
	if (a->kind == ASK_PASS && a->line && !lane) {
		struct line_lane *in = &a->line->lanes[0];

		if (m.received > a->passed)
			return false;
		most = m.received + WIRE_WINDOW < m.limit ? m.received + WIRE_WINDOW : m.limit;
		if (most > in->granted) {
			in->granted = most;
			in->ack_due = true;
			line_touch(c, a->line);
		}
		return true;
	}
	if (a->kind != ASK_FOLLOW && a->kind != ASK_EVENTS)
		return true;
	if (m.received > a->sent[lane])
		return false;
	if (m.limit > a->limit[lane])
		a->limit[lane] = m.limit;
	if (a->command)
		follow_touch(c, a);
	return true;
}

static bool take_resize(struct channel *c, struct ask *a, const struct wire_frame *f)
{
	struct wire_resize m;
	struct line *line;

	if (!wire_get_resize(f, &m))
		return false;
	if (a->kind != ASK_FOLLOW || a->command->record.closed ||
		!(a->command->record.flags & WIRE_RUN_TERMINAL))
		return true;
	line = &a->command->line;
	line->rows = m.rows;
	line->columns = m.columns;
	line->resize_due = true;
	line_touch(c, line);
	return true;
}

/* Of a request that is no more it may still be spoken. */
static bool serve_open(struct channel *c, struct client *l, const struct wire_frame *f)
{
	const unsigned lane = f->stream & (uint32_t)WIRE_STDERR ? 1u : 0u;
	struct ask *a = ask_find(l, f->stream & ~(uint32_t)WIRE_STDERR);

	if (lane && f->type != WIRE_ACK)
		return false;
	if (!a)
		return true;
	switch (f->type) {
	case WIRE_DATA:
		return take_data(c, a, f);
	case WIRE_EOF:
		return take_eof(c, a, f);
	case WIRE_ACK:
		return take_ack(c, a, lane, f);
	case WIRE_RESIZE:
		return take_resize(c, a, f);
	default:
		ask_free(c, a);
		return true;
	}
}

bool serve_client(struct channel *c, struct client *l, const struct wire_frame *f)
{
	struct ask *a;

	if (f->type == WIRE_DATA || f->type == WIRE_EOF || f->type == WIRE_ACK ||
		f->type == WIRE_CLOSE || f->type == WIRE_RESIZE)
		return serve_open(c, l, f);
	if (f->stream & (uint32_t)(WIRE_STDERR | WIRE_GUEST_STREAM))
		return false;
	a = ask_find(l, f->stream);
	if (f->type == WIRE_ARGS)
		return take_args(l, a, f);
	if (a && (f->type != WIRE_RUN || a->kind != ASK_ARGS))
		return false;
	if (!a && l->n_asks >= CHANNEL_LINES)
		return too_many(c, l, f->stream);
	switch (f->type) {
	case WIRE_RUN:
		return serve_run(c, l, a, f);
	case WIRE_KILL:
		return serve_kill(c, l, f);
	case WIRE_PS:
		return serve_ps(c, l, f);
	case WIRE_ATTACH:
		return serve_attach(c, l, f);
	case WIRE_INSPECT:
		return serve_inspect(c, l, f);
	case WIRE_CONTROL:
		return serve_control(c, l, f);
	case WIRE_CHANGES:
		return serve_changes(c, l, f);
	case WIRE_EVENTS:
		return serve_events(l, f);
	default:
		return is_valid(f) && pass(c, l, f);
	}
}
