/* Owns commands: which ran and run, their records in the index, their output in the spool, their ends.  Called by the other files
 * of the channel.  Must hold: an id is never given twice; nobody is told of a command, or of its end, before the index says
 * so; the guest forgets a command only after that. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine/channel.h"

enum { HEAD_TEXT = WIRE_MAX_PATH + 64 + SPOOL_ARGS, ENDED_SHIFT = 16, EXIT_KILLED = 128 + SIGKILL };

static struct command **bucket(struct channel *c, uint32_t id)
{
	return &c->command_hash[id % CHANNEL_HASH];
}

struct command *command_find(const struct channel *c, uint32_t id)
{
	struct command *k = c->command_hash[id % CHANNEL_HASH];

	while (k && k->record.id != id)
		k = k->next_hash;
	return k;
}

static bool has_ended(const struct command *k)
{
	return k->record.state == WIRE_STATE_ENDED;
}

/* --- the list --- */

static void slot_mark(struct channel *c, unsigned slot, bool used)
{
	if (used)
		c->slots[slot / 8] |= (uint8_t)(1u << slot % 8);
	else
		c->slots[slot / 8] &= (uint8_t)~(1u << slot % 8);
}

static int slot_free(const struct channel *c)
{
	for (unsigned i = 0; i < SPOOL_SLOTS; i++)
		if (!(c->slots[i / 8] & 1u << i % 8))
			return (int)i;
	return -1;
}

static void link_command(struct channel *c, struct command *k)
{
	struct command **at = bucket(c, k->record.id);

	k->next_hash = *at;
	*at = k;
	k->prev = c->newest;
	if (c->newest)
		c->newest->next = k;
	else
		c->oldest = k;
	c->newest = k;
	slot_mark(c, k->slot, true);
	if (has_ended(k))
		c->n_ended++;
	else
		c->n_running++;
	if (k->record.id >= c->next_id)
		c->next_id = k->record.id + 1;
}

static void forget(struct channel *c, struct command *k)
{
	struct command **at = bucket(c, k->record.id);

	while (*at != k)
		at = &(*at)->next_hash;
	*at = k->next_hash;
	if (k->prev)
		k->prev->next = k->next;
	else
		c->oldest = k->next;
	if (k->next)
		k->next->prev = k->prev;
	else
		c->newest = k->prev;
	slot_mark(c, k->slot, false);
	c->n_ended--;
	if (output_pos(&k->output) || k->record.bytes[0] || k->record.bytes[1])
		output_remove(&c->spool, &k->output);
	free(k->args);
	free(k);
}

/* Its slot is used again by the next one: so the index never holds one too many. */
static int forget_oldest(struct channel *c)
{
	for (struct command *k = c->oldest; k; k = k->next) {
		const int slot = (int)k->slot;

		if (!k->record.closed || k->followers || k->slot_dirty)
			continue;
		forget(c, k);
		return slot;
	}
	return -1;
}

struct command *command_new(struct channel *c, uint32_t id, bool known)
{
	struct command *k;
	int slot = -1;

	if (c->n_lines >= CHANNEL_LINES || id >= FIRST_PASS)
		return NULL;
	if (c->n_ended >= CHANNEL_ENDED)
		slot = forget_oldest(c);
	if (slot < 0)
		slot = slot_free(c);
	k = slot < 0 ? NULL : calloc(1, sizeof *k);
	if (!k)
		return NULL;
	k->slot = (unsigned)slot;
	k->record.id = id;
	k->record.state = WIRE_STATE_STARTING;
	output_init(&k->output, id);
	k->output.loaded = true;
	line_add(c, &k->line, id, LINE_COMMAND);
	k->line.known = k->line.asked = known;
	link_command(c, k);
	return k;
}

/* --- the index --- */

static void write_later(struct channel *c, struct command *k)
{
	if (k->slot_dirty)
		return;
	k->slot_dirty = true;
	k->next_write = c->to_write;
	c->to_write = k;
}

void commands_write(struct channel *c)
{
	struct command *k;

	while ((k = c->to_write)) {
		c->to_write = k->next_write;
		k->slot_dirty = false;
		if (k->output.loaded) {
			k->record.bytes[0] = k->output.total[0];
			k->record.bytes[1] = k->output.total[1];
			k->record.dropped = output_dropped(&k->output);
		}
		/* a full disk: the command is known as long as this process lives */
		if (spool_write_slot(&c->spool, k->slot, &k->record, k->args) == 0) {
			free(k->args);
			k->args = NULL;
		}
		if (k->record.closed && !k->followers)
			output_release(&k->output);
	}
}

static int by_id(const void *a, const void *b)
{
	const struct command *x = *(struct command *const *)a, *y = *(struct command *const *)b;

	return x->record.id < y->record.id ? -1 : x->record.id > y->record.id;
}

static void load_open(struct channel *c, struct command *k)
{
	output_load(&c->spool, &k->output, k->record.bytes);
	line_add(c, &k->line, k->record.id, LINE_COMMAND);
	k->line.asked = true;
	k->line.begun = true;
	for (unsigned i = 0; i < 2; i++) {
		k->line.lanes[i].received = k->line.lanes[i].told = k->output.total[i];
		k->line.lanes[i].granted = k->output.total[i] + WIRE_WINDOW;
	}
	k->end_pos = output_pos(&k->output);
}

static void count_files(struct channel *c, uint32_t id)
{
	struct stat st;
	char name[24];

	for (unsigned i = 0; i < 2; i++)
		if (fstatat(c->spool.dir, FMT(name, "%u.%u", id, i), &st, AT_SYMLINK_NOFOLLOW) == 0)
			c->spool.kept += (uint64_t)st.st_size;
}

int commands_load(struct channel *c)
{
	struct command *all[SPOOL_SLOTS];
	const unsigned slots = spool_slots(&c->spool);
	size_t n = 0;

	for (unsigned i = 0; i < slots; i++) {
		struct spool_slot slot;

		if (!spool_read_slot(&c->spool, i, &slot) || slot.id >= FIRST_PASS ||
			slot.state > WIRE_STATE_LAST || slot.how > WIRE_HOW_LAST)
			continue;
		all[n] = calloc(1, sizeof **all);
		if (!all[n])
			return -1;
		all[n]->record = slot;
		all[n]->slot = i;
		output_init(&all[n]->output, slot.id);
		n++;
	}
	if (n)
		qsort(all, n, sizeof *all, by_id);
	for (size_t i = 0; i < n; i++) {
		struct command *k = all[i];

		if (command_find(c, k->record.id)) {
			free(k);
			continue;
		}
		count_files(c, k->record.id);
		link_command(c, k);
		/* whoever attaches is answered behind what stood in the spool */
		k->end_pos = k->record.bytes[0] + k->record.bytes[1];
		if (!k->record.closed)
			load_open(c, k);
	}
	c->fresh = c->recovered = true;
	return 0;
}

/* --- starting --- */

/* Of working directory, count, arguments, environment: as many arguments as are kept. */
static char *take_args(const char *text, size_t n, uint32_t *ret_len)
{
	const char *end = text + n, *p = memchr(text, '\0', n);
	char *args = calloc(1, SPOOL_ARGS);
	size_t count = 0, len = 0;

	if (!args)
		return NULL;
	for (p = p ? p + 1 : end; p < end && *p >= '0' && *p <= '9'; p++)
		count = count * 10 + (size_t)(*p - '0');
	for (p = p < end ? p + 1 : end; count && p < end && len < SPOOL_ARGS - 1; count--) {
		const size_t whole = strnlen(p, (size_t)(end - p));
		const size_t room = SPOOL_ARGS - 1 - len;

		memcpy(args + len, p, whole < room ? whole : room);
		len += (whole < room ? whole : room) + 1;
		p += whole + 1;
	}
	*ret_len = (uint32_t)len;
	return args;
}

/* Gives the frames the command's number; finds its arguments. */
static void adopt_frames(struct command *k, uint8_t *frames, size_t n)
{
	char text[HEAD_TEXT];
	size_t have = 0, at = 0, used;
	struct wire_frame f;

	while (wire_parse(frames + at, n - at, WIRE_FROM_CLIENT, &f, &used) == WIRE_OK) {
		uint8_t *body = frames + at + WIRE_HEADER;
		struct wire_run run;
		size_t skip = 0, part;

		wire_put_header(frames + at, f.type, k->record.id, f.length);
		if (f.type == WIRE_RUN && wire_get_run(&f, &run)) {
			skip = (size_t)(run.rest - f.body);
			/* what is between client and engine alone */
			body[0] &= (uint8_t)~WIRE_RUN_DETACHED;
		}
		part = f.length - skip;
		if (part > sizeof text - have)
			part = sizeof text - have;
		memcpy(text + have, body + skip, part);
		have += part;
		at += used;
	}
	k->args = take_args(text, have, &k->record.args_len);
	if (!k->args)
		k->record.args_len = 0;
}

struct command *command_run(
	struct channel *c, uint8_t *frames, size_t n, const struct wire_run *run)
{
	struct command *k = command_new(c, c->next_id, false);

	if (!k) {
		free(frames);
		return NULL;
	}
	k->record.flags = run->flags;
	k->timeout_ms = run->timeout_ms;
	k->line.type = WIRE_RUN;
	k->line.request = frames;
	k->line.request_len = n;
	adopt_frames(k, frames, n);
	line_touch(c, &k->line);
	return k;
}

static void is_settled(struct channel *c, struct command *k)
{
	free(k->line.request);
	k->line.request = NULL;
	k->line.request_len = 0;
	write_later(c, k);
	follow_touch_all(c, k);
}

static void tell_first(struct channel *c, const struct command *k, enum pair_type what)
{
	if (c->has_first && k->record.id == 1)
		channel_tell_only(
			c, what, k->record.how == WIRE_HOW_NOT_STARTED ? k->record.status : 0);
}

void command_begun(struct channel *c, struct command *k, uint32_t pid)
{
	k->line.begun = k->line.known = true;
	k->record.state = WIRE_STATE_RUNNING;
	k->record.pid = pid;
	k->record.started_ms = channel_now_ms();
	if (k->timeout_ms && k->timeout_ms < UINT64_MAX / 2) {
		k->deadline = boottime_ms() + k->timeout_ms + LATE_MS;
		if (!c->next_deadline || k->deadline < c->next_deadline)
			c->next_deadline = k->deadline;
	}
	is_settled(c, k);
	channel_happened(c, k, false);
	tell_first(c, k, PAIR_FIRST_BEGUN);
}

/* --- ends --- */

static void close_command(struct channel *c, struct command *k, bool tell)
{
	if (k->record.closed)
		return;
	k->record.closed = 1;
	line_remove(c, &k->line, tell);
	k->writer = NULL;
	write_later(c, k);
}

/* Background children may still write: it is closed when they can't any more. */
static void maybe_close(struct channel *c, struct command *k)
{
	if (has_ended(k) &&
		(k->record.how == WIRE_HOW_NOT_STARTED ||
			(k->line.lanes[0].eof && k->line.lanes[1].eof)))
		close_command(c, k, true);
}

static void none_runs(struct channel *c)
{
	if (!c->end_all || c->n_running)
		return;
	c->end_all = false;
	channel_tell_only(c, PAIR_ALL_ENDED, 0);
}

static void finish(struct channel *c, struct command *k)
{
	const bool begun = k->line.begun;

	k->ending = false;
	k->record.state = WIRE_STATE_ENDED;
	k->record.ended_ms = channel_now_ms();
	if (!k->record.started_ms)
		k->record.started_ms = k->record.ended_ms;
	c->n_running--;
	c->n_ended++;
	is_settled(c, k);
	channel_happened(c, k, true);
	if (!begun)
		tell_first(c, k, PAIR_FIRST_BEGUN);
	tell_first(c, k, PAIR_FIRST_ENDED);
	maybe_close(c, k);
	none_runs(c);
}

/* Only the kernel's counters know whether it killed for memory. */
static bool ask_for_memory(struct channel *c, const struct command *k)
{
	struct pair_message m = { .type = PAIR_OOM_ASK, .ref = k->record.id };

	return pair_send(c->owner, &m, -1) == 0;
}

static bool was_killed(const struct command *k)
{
	const uint32_t ours = WIRE_ENDED_KILLED | WIRE_ENDED_TIMEOUT;

	if (k->record.flags >> ENDED_SHIFT & ours)
		return false;
	return (k->record.how == WIRE_HOW_SIGNALLED && k->record.status == SIGKILL) ||
		(k->record.how == WIRE_HOW_EXITED && k->record.status == EXIT_KILLED);
}

void command_ended(struct channel *c, struct command *k, const struct wire_ended *m)
{
	k->record.how = m->how;
	k->record.status = m->status;
	k->record.left = m->left;
	k->record.flags |= m->flags << ENDED_SHIFT;
	k->end_pos = output_pos(&k->output);
	k->ending = true;
	if (!was_killed(k) || !ask_for_memory(c, k))
		finish(c, k);
}

void command_oom(struct channel *c, struct command *k, bool oom)
{
	if (!k->ending)
		return;
	if (oom)
		k->record.flags |= (uint32_t)WIRE_ENDED_OOM << ENDED_SHIFT;
	finish(c, k);
}

void command_gone(struct channel *c, struct command *k, enum reason why)
{
	if (!has_ended(k) && !k->ending) {
		k->record.how = WIRE_HOW_SIGNALLED;
		k->record.status = SIGKILL;
		k->record.flags |= (uint32_t)WIRE_ENDED_KILLED << ENDED_SHIFT;
		k->end_pos = output_pos(&k->output);
		for (struct ask *a = k->followers; a; a = a->next_follower)
			a->lost = a->follow ? why : REASON_NONE;
	}
	if (!has_ended(k))
		finish(c, k);
	close_command(c, k, false);
}

/* The guest should have ended it long ago. */
static void time_out(struct channel *c, struct command *k)
{
	k->record.how = WIRE_HOW_SIGNALLED;
	k->record.status = SIGKILL;
	k->record.flags |= (uint32_t)WIRE_ENDED_TIMEOUT << ENDED_SHIFT;
	k->end_pos = output_pos(&k->output);
	finish(c, k);
	/* which ends what is left of it */
	close_command(c, k, true);
}

void commands_check_time(struct channel *c, uint64_t now)
{
	uint64_t first = 0;

	if (!c->next_deadline || now < c->next_deadline)
		return;
	for (struct command *k = c->oldest; k; k = k->next) {
		if (!k->deadline || has_ended(k) || k->ending)
			continue;
		if (k->deadline <= now && c->state == PAIR_RUNNING)
			time_out(c, k);
		else if (!first || k->deadline < first)
			first = k->deadline;
	}
	c->next_deadline = first;
}

void commands_end_all(struct channel *c)
{
	c->end_all = true;
	for (const struct command *k = c->oldest; k; k = k->next) {
		const struct wire_kill m = {
			.command = k->record.id, .signal = SIGTERM, .flags = WIRE_KILL_TREE
		};
		uint8_t frame[SOCK_FIELDS_MAX];
		size_t n;

		if (has_ended(k))
			continue;
		n = wire_put_kill(frame, sizeof frame, &m);
		(void)line_request(c, LINE_END, WIRE_KILL, frame + WIRE_HEADER, n - WIRE_HEADER);
	}
	none_runs(c);
}

/* --- output --- */

/* Of a client that started the command and reads what it writes nothing is dropped: it has to come before the newest segment
 * grows further. */
static bool starter_is_behind(const struct command *k)
{
	const struct spool_segment *newest = &k->output.segments[k->output.current];
	const struct spool_segment *other = &k->output.segments[!k->output.current];

	if (!k->starter || newest->fd < 0 || other->fd < 0)
		return false;
	if (k->starter->cursor.seq != newest->seq)
		return true;
	/* the disk is full: the one in memory has to be read before it is begun anew */
	return newest->memory && !other->memory && k->starter->cursor.at < newest->size;
}

void command_grant(struct channel *c, struct command *k)
{
	const bool held = starter_is_behind(k) && output_full(&c->spool, &k->output);

	if (k->record.closed)
		return;
	for (unsigned i = 0; i < 2; i++) {
		struct line_lane *lane = &k->line.lanes[i];
		const uint64_t want = held ? lane->granted : lane->received + WIRE_WINDOW;

		if (lane->eof ||
			(want - lane->granted < ACK_BYTES &&
				lane->received - lane->told < ACK_BYTES))
			continue;
		lane->granted = want;
		lane->ack_due = true;
		line_touch(c, &k->line);
		if (output_in_memory(&k->output))
			write_later(c, k);
	}
}

void command_data(struct channel *c, struct command *k, unsigned lane, const uint8_t *p, size_t n)
{
	if (n)
		output_append(&c->spool, &k->output, lane, p, n, !starter_is_behind(k));
	command_grant(c, k);
	follow_touch_all(c, k);
}

void command_eof(struct channel *c, struct command *k, unsigned lane)
{
	(void)lane;
	follow_touch_all(c, k);
	maybe_close(c, k);
}

/* --- telling --- */

void command_info(struct channel *c, struct command *k, struct client *to, uint32_t number)
{
	char args[SPOOL_ARGS];
	const struct spool_slot *r = &k->record;
	const bool loaded = k->output.loaded;
	size_t n = r->args_len;

	if (k->args)
		memcpy(args, k->args, n);
	else
		n = spool_read_args(&c->spool, k->slot, r, args);
	sock_put_rest(&to->sock, command_info, n, .stream = number, .command = r->id,
		.state = r->state, .how = r->how, .status = r->status, .flags = r->flags,
		.pid = r->pid, .started_ms = r->started_ms, .ended_ms = r->ended_ms,
		.out_bytes = loaded ? k->output.total[0] : r->bytes[0],
		.err_bytes = loaded ? k->output.total[1] : r->bytes[1],
		.dropped = loaded ? output_dropped(&k->output) : r->dropped,
		.rest = (const uint8_t *)args, .rest_len = (uint32_t)n);
}

/* --- the command of the creation --- */

static int put_text(struct buf *text, char *const *argv)
{
	unsigned n = 0;

	while (argv[n])
		n++;
	(void)buf_add(text, "", 1);
	(void)buf_printf(text, "%u", n);
	(void)buf_add(text, "", 1);
	for (unsigned i = 0; i < n; i++)
		(void)buf_add(text, argv[i], strlen(argv[i]) + 1);
	return text->failed ? -1 : 0;
}

int command_first(struct channel *c)
{
	const struct wire_run run = { .stream = 1,
		.flags = WIRE_RUN_DETACHED,
		.uid = (uint32_t)WIRE_SAME_ID,
		.gid = (uint32_t)WIRE_SAME_ID };
	_cleanup_buf_ struct buf text = { .max = WIRE_MAX_ARGS }, out = BUF_INIT;
	const uint32_t most = WIRE_MAX_BODY - SOCK_FIELDS_MAX;
	struct wire_run last = run;
	uint8_t head[WIRE_HEADER];
	size_t at = 0;

	if (!c->first || put_text(&text, c->first) < 0)
		return -1;
	for (; text.len - at > most; at += most) {
		wire_put_header(head, WIRE_ARGS, 1, most);
		(void)buf_add(&out, head, sizeof head);
		(void)buf_add(&out, text.data + at, most);
	}
	last.rest = (const uint8_t *)text.data + at;
	last.rest_len = (uint32_t)(text.len - at);
	if (!buf_reserve(&out, SOCK_FIELDS_MAX + last.rest_len))
		return -1;
	out.len += wire_put_run((uint8_t *)out.data + out.len, out.cap - out.len, &last);
	return command_run(c, (uint8_t *)move_ptr(out.data), out.len, &run) ? 0 : -1;
}
