/* Owns lines: which there are, what of each waits for the guest, and which streams the guest may forget.  Called by the other
 * files of the channel.  Must hold: a number is never used twice while a guest lives; a request is sent again after a break
 * until the guest spoke of it; nothing is written above the guest's credit. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "engine/channel.h"

static uint32_t hash(uint32_t number)
{
	return (number ^ number >> 24) % CHANNEL_HASH;
}

struct line *line_find(const struct channel *c, uint32_t number)
{
	struct line *l = c->line_hash[hash(number)];

	while (l && l->number != number)
		l = l->next_hash;
	return l;
}

void line_add(struct channel *c, struct line *l, uint32_t number, enum line_kind kind)
{
	struct line **at = &c->line_hash[hash(number)];

	l->number = number;
	l->kind = (uint8_t)kind;
	l->n_lanes = kind == LINE_COMMAND ? 2 : 1;
	l->lanes[0].granted = l->lanes[1].granted = l->limit = WIRE_WINDOW;
	l->next_hash = *at;
	*at = l;
	l->prev = NULL;
	l->next = c->lines;
	if (c->lines)
		c->lines->prev = l;
	c->lines = l;
	c->n_lines++;
	c->n_incoming += kind == LINE_INCOMING;
}

struct line *line_request(
	struct channel *c, enum line_kind kind, uint32_t type, const uint8_t *body, size_t n)
{
	struct line *l;

	if (c->n_lines >= CHANNEL_LINES)
		return NULL;
	l = calloc(1, sizeof *l);
	if (l)
		l->request = malloc(WIRE_HEADER + n);
	if (!l || !l->request) {
		free(l);
		return NULL;
	}
	line_add(c, l, c->next_pass, kind);
	if (++c->next_pass >= WIRE_GUEST_STREAM)
		c->next_pass = FIRST_PASS;
	l->type = type;
	wire_put_header(l->request, type, l->number, (uint32_t)n);
	if (n)
		memcpy(l->request + WIRE_HEADER, body, n);
	l->request_len = WIRE_HEADER + n;
	line_touch(c, l);
	return l;
}

void line_touch(struct channel *c, struct line *l)
{
	if (l->dirty)
		return;
	l->dirty = true;
	l->next_dirty = NULL;
	if (c->dirty_tail)
		c->dirty_tail->next_dirty = l;
	else
		c->dirty_head = l;
	c->dirty_tail = l;
}

static void undirty(struct channel *c, struct line *l)
{
	struct line *last = NULL;

	if (!l->dirty)
		return;
	for (struct line **at = &c->dirty_head; *at; at = &(*at)->next_dirty) {
		if (*at == l) {
			*at = l->next_dirty;
			break;
		}
		last = *at;
	}
	if (c->dirty_tail == l)
		c->dirty_tail = last;
	l->dirty = false;
}

bool line_close_number(struct channel *c, uint32_t number)
{
	if (!c->closes)
		c->closes = calloc(CHANNEL_CLOSES, sizeof *c->closes);
	if (!c->closes || c->n_closes == CHANNEL_CLOSES)
		return false;
	c->closes[c->n_closes++] = number;
	return true;
}

void line_remove(struct channel *c, struct line *l, bool tell)
{
	struct line **at = &c->line_hash[hash(l->number)];

	while (*at && *at != l)
		at = &(*at)->next_hash;
	if (!*at)
		return;
	*at = l->next_hash;
	if (l->prev)
		l->prev->next = l->next;
	else
		c->lines = l->next;
	if (l->next)
		l->next->prev = l->prev;
	c->n_lines--;
	c->n_incoming -= l->kind == LINE_INCOMING;
	undirty(c, l);
	if (tell && (l->asked || l->known))
		(void)line_close_number(c, l->number);
	ring_done(&l->ring);
	free(l->request);
	l->request = NULL;
	l->request_len = 0;
}

void line_free(struct channel *c, struct line *l, bool tell)
{
	line_remove(c, l, tell);
	free(l);
}

static bool guest_has_room(const struct channel *c)
{
	return sock_waiting(&c->guest) < OUT_HIGH;
}

uint32_t line_lane(const struct line *l, unsigned lane)
{
	return lane ? l->number | (uint32_t)WIRE_STDERR : l->number;
}

/* true while more could be sent at once. */
static bool pump_bytes(struct channel *c, struct line *l)
{
	const uint64_t end = l->ring.base + l->ring.len;

	while (l->sent < end && l->sent < l->limit) {
		const uint8_t *p = NULL;
		size_t n;

		if (!guest_has_room(c))
			return true;
		n = ring_peek(&l->ring, l->sent, &p);
		if (n > WIRE_MAX_BODY)
			n = WIRE_MAX_BODY;
		if (n > l->limit - l->sent)
			n = (size_t)(l->limit - l->sent);
		sock_lend_frame(&c->guest, WIRE_DATA, l->number, p, n);
		l->sent += n;
	}
	if (l->eof && !l->eof_sent && l->sent == end) {
		sock_put(&c->guest, eof, .stream = l->number, .total = end);
		l->eof_sent = true;
	}
	return false;
}

static bool pump_line(struct channel *c, struct line *l)
{
	if (!l->asked && !l->known && l->request) {
		uint8_t *out = sock_reserve(&c->guest, l->request_len);

		if (!out)
			return false;
		memcpy(out, l->request, l->request_len);
		sock_commit(&c->guest, l->request_len);
		l->asked = true;
	}
	for (unsigned i = 0; i < l->n_lanes; i++) {
		struct line_lane *lane = &l->lanes[i];

		if (!lane->ack_due)
			continue;
		lane->ack_due = false;
		lane->told = lane->received;
		sock_put(&c->guest, ack, .stream = line_lane(l, i), .received = lane->received,
			.limit = lane->granted);
	}
	if (l->resize_due) {
		l->resize_due = false;
		sock_put(&c->guest, resize, .stream = l->number, .rows = l->rows,
			.columns = l->columns);
	}
	return pump_bytes(c, l);
}

/* They can wait for company: each wakes the guest for nothing. */
static void pump_closes(struct channel *c)
{
	for (unsigned i = 0; i < c->n_closes; i++)
		sock_put(&c->guest, close, .stream = c->closes[i]);
	c->n_closes = 0;
}

void lines_pump(struct channel *c)
{
	struct line *l;

	if (c->guest_state == GUEST_UP) {
		if (c->dirty_head || sock_waiting(&c->guest) || c->quiet ||
			c->n_closes >= CLOSES_AT_ONCE)
			pump_closes(c);
		while (guest_has_room(c) && (l = c->dirty_head)) {
			undirty(c, l);
			if (pump_line(c, l))
				line_touch(c, l);
		}
	}
	if (c->guest.fd < 0)
		return;
	if (!sock_flush(&c->guest))
		guest_break(c, false);
	else
		channel_watch(c, &c->guest, EVENT_GUEST,
			sock_waiting(&c->guest) ? EPOLLIN | EPOLLOUT : EPOLLIN);
}
