/* Owns the connection to the guest: how it begins, what comes over it, and what a new one takes over from a broken one.
 * Called by the channel's loop.
 *
 * The guest runs beside a hostile workload and may be its own: every number it says is held against what this side knows.
 * One that can't be ends the connection, and the owner is told; it decides how often a new one is worth it. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "engine/channel.h"

static struct command *command_of(struct line *l)
{
	return (struct command *)l;
}

/* --- beginning and end --- */

void guest_connect(struct channel *c, int fd, uint64_t epoch, bool new_guest)
{
	sock_done(&c->guest);
	sock_init(&c->guest, fd);
	c->guest_state = GUEST_GREETING;
	c->epoch = epoch;
	c->fresh = c->fresh || new_guest;
	c->recovered = c->recovered && !new_guest;
	channel_watch(c, &c->guest, EVENT_GUEST, EPOLLIN);
	sock_put(&c->guest, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = epoch,
		.flags = c->fresh ? WIRE_HELLO_FRESH : 0);
	for (struct line *l = c->lines; l; l = l->next) {
		for (unsigned i = 0; i < l->n_lanes; i++)
			sock_put(&c->guest, resume, .stream = line_lane(l, i),
				.received = l->lanes[i].received, .limit = l->lanes[i].granted);
		/* what the guest doesn't say about this direction: it has all that it ever acknowledged */
		l->sent = l->ring.base;
		l->resumed = l->begun_again = l->lanes[0].eof_again = l->lanes[1].eof_again = false;
	}
	sock_put(&c->guest, resumed, .stream = 0);
	if (!sock_flush(&c->guest))
		guest_break(c, false);
}

void guest_break(struct channel *c, bool lie)
{
	struct pair_message m = { .type = PAIR_BROKEN, .a = lie };

	if (c->guest.fd < 0)
		return;
	sock_done(&c->guest);
	c->guest_state = GUEST_DOWN;
	c->stuck_at = 0;
	channel_tell(c, &m);
}

void guest_gone(struct channel *c, enum reason why)
{
	struct line *l, *next;

	sock_done(&c->guest);
	c->guest_state = GUEST_DOWN;
	c->fresh = c->recovered = false;
	c->n_closes = 0;
	for (l = c->lines; l; l = next) {
		_cleanup_err_ struct err e = ERR_INIT;

		next = l->next;
		if (l->kind == LINE_COMMAND) {
			command_gone(c, command_of(l), why);
			continue;
		}
		if (l->ask) {
			err_set(&e, why, 0, "use sandbox '%s': it %s", c->id,
				why == R_SANDBOX_NOT_RUNNING ? "was stopped" : "ended");
			refuse(l->ask->client, l->ask->number, &e);
			l->ask->line = NULL;
			ask_free(c, l->ask);
		}
		line_free(c, l, false);
	}
}

static bool take_hello(struct channel *c, const struct wire_frame *f)
{
	struct wire_hello m;

	if (!wire_get_hello(f, &m) || m.version != WIRE_VERSION || m.epoch != c->epoch)
		return false;
	/* it can't have forgotten what it spoke of */
	for (const struct line *l = c->lines; l && m.flags & WIRE_HELLO_FRESH; l = l->next)
		if (l->known)
			return false;
	c->guest_state = GUEST_RESUMING;
	return true;
}

/* A command that began when the process before this one had not written so yet. */
static bool adopt(struct channel *c, uint32_t number)
{
	if (number >= c->next_id + WIRE_MAX_STREAMS || command_find(c, number))
		return command_find(c, number) && line_close_number(c, number);
	if (command_new(c, number, true))
		return true;
	return line_close_number(c, number);
}

/* The guest names every stream that it has. */
static bool take_resume(struct channel *c, const struct wire_frame *f)
{
	struct wire_resume m;
	struct line *l;

	if (!wire_get_resume(f, &m))
		return false;
	l = line_find(c, m.stream);
	if (!l && m.stream < FIRST_PASS && c->recovered) {
		if (!adopt(c, m.stream))
			return false;
		l = line_find(c, m.stream);
	}
	if (!l)
		return line_close_number(c, m.stream);
	if (m.received < l->ring.base || m.received > l->ring.base + l->ring.len ||
		m.limit > m.received + WIRE_WINDOW)
		return false;
	ring_drop(&l->ring, m.received);
	l->sent = m.received;
	l->limit = m.limit;
	l->resumed = true;
	return true;
}

/* What waits for a stream that the guest has forgotten waits in vain. */
static void line_lost(struct channel *c, struct line *l)
{
	_cleanup_err_ struct err e = ERR_INIT;

	if (l->kind == LINE_COMMAND) {
		command_gone(c, command_of(l), R_GUEST_LOST);
		return;
	}
	if (l->ask) {
		err_set(&e, R_GUEST_LOST, 0, "use sandbox '%s': its guest forgot the request",
			c->id);
		refuse(l->ask->client, l->ask->number, &e);
		l->ask->line = NULL;
		ask_free(c, l->ask);
	}
	line_free(c, l, false);
}

static void take_resumed(struct channel *c)
{
	struct line *l, *next;

	c->guest_state = GUEST_UP;
	c->fresh = c->recovered = false;
	for (l = c->lines; l; l = next) {
		next = l->next;
		if (!l->resumed && (l->known || !l->request)) {
			line_lost(c, l);
			continue;
		}
		l->known = l->asked = l->resumed;
		l->eof_sent = false;
		l->resize_due = l->rows || l->columns;
		line_touch(c, l);
	}
}

/* --- traffic --- */

/* A number that this side never gave is a lie; one that it gave up may still be spoken of. */
static bool take_stray(struct channel *c, const struct wire_frame *f)
{
	const uint32_t number = f->stream & ~(uint32_t)WIRE_STDERR;

	if (!(number & WIRE_GUEST_STREAM) &&
		number >= (number < FIRST_PASS ? c->next_id : c->next_pass))
		return false;
	if (f->type == WIRE_DATA || f->type == WIRE_EOF || f->type == WIRE_ACK)
		return true;
	return line_close_number(c, number);
}

static bool take_data(struct channel *c, struct line *l, unsigned lane, const struct wire_frame *f)
{
	struct line_lane *in = &l->lanes[lane];
	struct ask *a = l->ask;

	if (in->eof || f->length > in->granted - in->received)
		return false;
	in->received += f->length;
	l->known = true;
	if (l->kind == LINE_COMMAND) {
		command_data(c, command_of(l), lane, f->body, f->length);
	} else if (a) {
		sock_lend_frame(&a->client->sock, WIRE_DATA, a->number, f->body, f->length);
		a->passed += f->length;
	}
	return true;
}

static bool take_eof(struct channel *c, struct line *l, unsigned lane, const struct wire_frame *f)
{
	struct line_lane *in = &l->lanes[lane];
	struct wire_eof m;

	if (!wire_get_eof(f, &m) || m.total != in->received)
		return false;
	if (in->eof_again)
		return false;
	in->eof_again = true;
	if (in->eof)
		return true;
	in->eof = l->known = true;
	if (l->kind == LINE_COMMAND)
		command_eof(c, command_of(l), lane);
	else if (l->ask)
		sock_put(&l->ask->client->sock, eof, .stream = l->ask->number, .total = m.total);
	return true;
}

static void pass_ack(struct line *l, const struct wire_ack *m)
{
	struct ask *a = l->kind == LINE_COMMAND ? command_of(l)->writer : l->ask;
	const uint64_t base = l->kind == LINE_COMMAND && a ? a->input_base : 0;

	if (!a || m->received < base || m->limit - base <= a->in_limit)
		return;
	a->in_limit = m->limit - base;
	sock_put(&a->client->sock, ack, .stream = a->number, .received = m->received - base,
		.limit = a->in_limit);
}

static bool take_ack(struct channel *c, struct line *l, const struct wire_frame *f)
{
	struct wire_ack m;

	if (!wire_get_ack(f, &m) || m.received < l->ring.base || m.received > l->sent ||
		m.limit < l->limit || m.limit > m.received + WIRE_WINDOW)
		return false;
	l->known = true;
	ring_drop(&l->ring, m.received);
	l->limit = m.limit;
	pass_ack(l, &m);
	line_touch(c, l);
	return true;
}

static bool take_begun(struct channel *c, struct line *l, const struct wire_frame *f)
{
	struct wire_begun m;

	if (!wire_get_begun(f, &m) || l->begun_again)
		return false;
	l->begun_again = true;
	if (l->kind == LINE_COMMAND) {
		struct command *k = command_of(l);

		if (l->begun)
			return m.pid == k->record.pid;
		if (!m.pid || k->ending || k->record.state == WIRE_STATE_ENDED)
			return false;
		command_begun(c, k, m.pid);
		return true;
	}
	if ((l->type != WIRE_DIAL && l->type != WIRE_LISTEN) || l->kind != LINE_PASS ||
		m.pid > 65535)
		return false;
	if (!l->begun && l->ask)
		sock_put(&l->ask->client->sock, begun, .stream = l->ask->number, .pid = m.pid);
	l->begun = true;
	return true;
}

static bool take_stated(struct line *l, const struct wire_frame *f)
{
	struct wire_stated m;

	if (!wire_get_stated(f, &m) || l->type != WIRE_STAT)
		return false;
	if (!l->stated && l->ask)
		sock_put_frame(&l->ask->client->sock, f->type, l->ask->number, f->body, f->length);
	l->stated = true;
	return true;
}

static bool take_ended(struct channel *c, struct line *l, const struct wire_frame *f)
{
	struct wire_ended m;
	struct command *k;

	if (!wire_get_ended(f, &m) || l->kind != LINE_COMMAND || m.how == WIRE_HOW_DEADLINE ||
		m.flags & WIRE_ENDED_OOM)
		return false;
	k = command_of(l);
	if (k->ending || k->record.state == WIRE_STATE_ENDED)
		return true;
	if ((m.how == WIRE_HOW_NOT_STARTED) == l->begun)
		return false;
	command_ended(c, k, &m);
	return true;
}

static bool take_result(struct channel *c, struct line *l, const struct wire_frame *f)
{
	struct wire_result m;
	struct ask *a = l->ask;

	if (!wire_get_result(f, &m) || l->kind == LINE_COMMAND ||
		m.flags & ~(uint32_t)WIRE_RESULT_TRUNCATED)
		return false;
	if (a) {
		sock_put_frame(&a->client->sock, f->type, a->number, f->body, f->length);
		a->line = NULL;
		ask_free(c, a);
	}
	line_free(c, l, true);
	return true;
}

static bool take_incoming(struct channel *c, const struct wire_frame *f)
{
	struct line *listener, *l;
	struct wire_incoming m;
	struct ask *a;

	if (!wire_get_incoming(f, &m))
		return false;
	if (line_find(c, m.stream))
		return true;
	listener = line_find(c, m.listener);
	if (!listener || !listener->ask)
		return m.listener < c->next_pass && line_close_number(c, m.stream);
	if (listener->type != WIRE_LISTEN || !listener->begun || c->n_incoming >= CHANNEL_INCOMING)
		return false;
	a = ask_new(listener->ask->client, m.stream, ASK_PASS);
	l = a ? calloc(1, sizeof *l) : NULL;
	if (!l) {
		if (a)
			ask_free(c, a);
		return line_close_number(c, m.stream);
	}
	line_add(c, l, m.stream, LINE_INCOMING);
	l->asked = l->known = true;
	l->ask = a;
	a->line = l;
	sock_put(&a->client->sock, incoming, .stream = m.stream, .listener = listener->ask->number);
	return true;
}

static bool take_for(struct channel *c, struct line *l, const struct wire_frame *f)
{
	const unsigned lane = f->stream & (uint32_t)WIRE_STDERR ? 1u : 0u;

	if (lane && (lane >= l->n_lanes || (f->type != WIRE_DATA && f->type != WIRE_EOF)))
		return false;
	/* a request that never went out has no answer */
	if (!l->asked && !l->known)
		return false;
	switch (f->type) {
	case WIRE_DATA:
		return take_data(c, l, lane, f);
	case WIRE_EOF:
		return take_eof(c, l, lane, f);
	case WIRE_ACK:
		return take_ack(c, l, f);
	case WIRE_BEGUN:
		l->known = true;
		return take_begun(c, l, f);
	case WIRE_STATED:
		l->known = true;
		return take_stated(l, f);
	case WIRE_ENDED:
		l->known = true;
		return take_ended(c, l, f);
	case WIRE_RESULT:
		return take_result(c, l, f);
	default:
		return false;
	}
}

static bool take_frame(struct channel *c, const struct wire_frame *f)
{
	struct line *l;

	if (c->guest_state == GUEST_GREETING)
		return f->type == WIRE_HELLO && take_hello(c, f);
	if (c->guest_state == GUEST_RESUMING) {
		if (f->type == WIRE_RESUMED)
			take_resumed(c);
		return f->type == WIRE_RESUMED || (f->type == WIRE_RESUME && take_resume(c, f));
	}
	if (!f->stream)
		return false;
	if (f->type == WIRE_INCOMING)
		return take_incoming(c, f);
	l = line_find(c, f->stream & ~(uint32_t)WIRE_STDERR);
	return l ? take_for(c, l, f) : take_stray(c, f);
}

void guest_ready(struct channel *c)
{
	size_t n, at = 0, used;
	struct wire_frame f;
	const int r = sock_read(&c->guest, c->in, &n);

	if (r < 0)
		guest_break(c, false);
	if (r <= 0)
		return;
	for (;;) {
		const enum wire_parsed parsed =
			wire_parse(c->in + at, n - at, WIRE_FROM_GUEST, &f, &used);

		if (parsed == WIRE_SHORT)
			break;
		if (parsed == WIRE_REFUSED || !take_frame(c, &f)) {
			sock_settle();
			guest_break(c, true);
			return;
		}
		at += used;
	}
	/* what was lent lies where the next bytes are read to */
	sock_settle();
	if (!sock_hold(&c->guest, c->in + at, n - at))
		guest_break(c, false);
	c->stuck_at = n == at ? 0 : boottime_ms() + STUCK_MS;
}
