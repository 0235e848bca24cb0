/* Owns what clients hear of commands: the replay of what was written, what comes, the end.  Called by the other files of the
 * channel, which touch a follower when something may be due to it.
 *
 * Each follower has a place in the spool and reads from there when its socket and its credit have room: however many there
 * are and however slow, they cost no memory, and the command doesn't wait for them (but for the one that started it). */
#include <string.h>

#include "engine/channel.h"

enum { READ_BYTES = 128 << 10 };

void follow_add(struct channel *c, struct ask *a, struct command *k)
{
	if (!k->output.loaded)
		output_load(&c->spool, &k->output, k->record.bytes);
	a->command = k;
	a->limit[0] = a->limit[1] = WIRE_WINDOW;
	a->mark = output_pos(&k->output);
	cursor_begin(&k->output, &a->cursor);
	a->next_follower = k->followers;
	k->followers = a;
	follow_touch(c, a);
}

void follow_remove(struct channel *c, struct ask *a)
{
	struct command *k = a->command;
	struct ask **at = &k->followers;

	while (*at != a)
		at = &(*at)->next_follower;
	*at = a->next_follower;
	a->command = NULL;
	if (k->writer == a)
		k->writer = NULL;
	if (k->starter == a) {
		k->starter = NULL;
		command_grant(c, k);
	}
	if (k->record.closed && !k->followers && !k->slot_dirty)
		output_release(&k->output);
	for (at = &c->dirty_asks; a->dirty && *at; at = &(*at)->next_dirty) {
		if (*at == a) {
			*at = a->next_dirty;
			a->dirty = false;
			break;
		}
	}
}

void follow_touch(struct channel *c, struct ask *a)
{
	if (a->dirty)
		return;
	a->dirty = true;
	a->next_dirty = c->dirty_asks;
	c->dirty_asks = a;
}

void follow_touch_all(struct channel *c, struct command *k)
{
	for (struct ask *a = k->followers; a; a = a->next_follower)
		follow_touch(c, a);
}

/* Where the follower has all that it asked for. */
static uint64_t target(const struct ask *a)
{
	if (!a->follow)
		return a->mark;
	return a->command->record.state == WIRE_STATE_ENDED ? a->command->end_pos : UINT64_MAX;
}

/* Sends records of c->in; false when credit or the target stops it. */
static bool send_records(struct channel *c, struct ask *a, size_t n)
{
	struct sock *s = &a->client->sock;
	size_t at = 0, left;
	const uint8_t *p;
	unsigned lane;

	while (record_next(&a->cursor, c->in, n, &at, &lane, &p, &left)) {
		const uint64_t credit = a->limit[lane] - a->sent[lane];
		const size_t take = credit < left ? (size_t)credit : left;

		if (!take || a->cursor.pos >= target(a))
			return false;
		sock_lend_frame(s, WIRE_DATA, lane ? a->number | (uint32_t)WIRE_STDERR : a->number,
			p, take);
		a->sent[lane] += take;
		cursor_used(&a->cursor, take, left - take);
		if (take < left)
			return false;
	}
	/* what is no record was damaged on disk */
	if (!at)
		cursor_skip(&a->command->output, &a->cursor);
	return true;
}

static void send_output(struct channel *c, struct ask *a)
{
	const struct command *k = a->command;
	bool more;
	size_t n;

	for (;;) {
		if (sock_waiting(&a->client->sock) >= OUT_HIGH) {
			/* touched again when its socket takes more */
			return;
		}
		n = cursor_read(&k->output, &a->cursor, c->in, READ_BYTES);
		more = n && send_records(c, a, n);
		sock_settle(); /* what was lent lies in c->in */
		if (!more)
			break;
	}
	if (a->cursor.pos < output_pos(&k->output))
		return;
	for (unsigned i = 0; i < 2; i++) {
		if (!k->line.lanes[i].eof || a->eof_sent[i])
			continue;
		a->eof_sent[i] = true;
		sock_put(&a->client->sock, eof,
			.stream = i ? a->number | (uint32_t)WIRE_STDERR : a->number,
			.total = a->sent[i]);
	}
}

static void tell_lost(struct channel *c, struct ask *a)
{
	_cleanup_err_ struct err e = ERR_INIT;

	err_set(&e, a->lost, 0, "wait for command '%u' of sandbox '%s': %s", a->command->record.id,
		c->id,
		a->lost == R_SANDBOX_NOT_RUNNING ? "the sandbox was stopped"
			: a->lost == R_TIMEOUT   ? "the sandbox's time to live is over"
						 : "the sandbox ended");
	if (a->lost == R_TIMEOUT)
		(void)err_remedy(&e, "Give sandboxes more time with --ttl.");
	refuse(a->client, a->number, &e);
}

/* The last words of a follower, which is no more behind them. */
static void finish(struct channel *c, struct ask *a)
{
	const struct command *k = a->command;
	const struct spool_slot *r = &k->record;
	struct sock *s = &a->client->sock;

	if (a->lost) {
		tell_lost(c, a);
	} else {
		if (r->state == WIRE_STATE_ENDED)
			sock_put(s, ended, .stream = a->number, .how = r->how, .status = r->status,
				.left = r->left, .flags = r->flags >> 16);
		sock_put_rest(s, result, 0, .stream = a->number,
			.value = a->detached ? r->id
				: a->run     ? 0
					     : a->cursor.dropped);
	}
	ask_free(c, a);
}

static void pump(struct channel *c, struct ask *a)
{
	struct command *k = a->command;
	const bool ended = k->record.state == WIRE_STATE_ENDED;
	bool done;

	if (a->client->dead)
		return;
	if (a->run && k->record.state == WIRE_STATE_STARTING)
		return;
	if (!a->info_sent) {
		a->info_sent = true;
		command_info(c, k, a->client, a->number);
	}
	if (a->run && k->line.begun && !a->begun_sent) {
		a->begun_sent = true;
		sock_put(&a->client->sock, begun, .stream = a->number, .pid = k->record.pid);
	}
	if (a->detached) {
		finish(c, a);
		return;
	}
	if (a->silent) {
		done = ended || !a->follow;
	} else {
		send_output(c, a);
		done = a->cursor.pos >= target(a);
	}
	if (a == k->starter)
		command_grant(c, k);
	if (done)
		finish(c, a);
}

void follows_pump(struct channel *c)
{
	struct ask *a;

	while ((a = c->dirty_asks)) {
		c->dirty_asks = a->next_dirty;
		a->dirty = false;
		pump(c, a);
	}
}
