/* Owns the table of streams: which there are, what each has under way, which have something to send and which have work.
 * Called by everything in a session.  Must hold: a stream is found by its number until it is forgotten, and a descriptor that
 * nobody wants to hear of is not in the epoll set, since the end of its other side can't be masked there. */
#include "guest/session.h"

enum { HASH = 4096, NONE = 0xffff };

static struct {
	struct stream table[MAX_TABLE];
	uint16_t hash[HASH]; /* index + 1 */
	uint16_t free,
		used;  /* free: index + 1 of a list through next_live; used: how many ever were */
	uint16_t live; /* index + 1 */
	uint16_t dirty_head, dirty_tail, job_head, job_tail; /* index + 1 */
	uint32_t of_host, of_guest;
} t;

static uint16_t ref(const struct stream *s)
{
	return s ? (uint16_t)(s - t.table + 1) : 0;
}

static struct stream *deref(uint16_t r)
{
	return r ? &t.table[r - 1] : NULL;
}

static uint16_t *bucket(uint32_t number)
{
	return &t.hash[(number ^ number >> 18) & (HASH - 1)];
}

struct stream *stream_find(uint32_t number)
{
	struct stream *s = deref(*bucket(number));

	while (s && s->number != number)
		s = deref(s->hash_next);
	return s;
}

struct stream *stream_first(void)
{
	return deref(t.live);
}

struct stream *stream_after(const struct stream *s)
{
	return deref(s->next_live);
}

static struct stream *take_free(void)
{
	struct stream *s = deref(t.free);

	if (s)
		t.free = s->next_live;
	else if (t.used < MAX_TABLE)
		s = &t.table[t.used++];
	return s;
}

struct stream *stream_new(uint32_t number, const struct stream_ops *ops)
{
	bool guest = number & WIRE_GUEST_STREAM;
	uint32_t *count = guest ? &t.of_guest : &t.of_host;
	struct stream *s;

	if (*count >= (guest ? (uint32_t)GUEST_STREAMS : session.max_streams) || !(s = take_free()))
		return NULL;
	++*count;
	memset(s, 0, sizeof *s);
	s->number = number;
	s->ops = ops;
	s->source[0] = s->source[1] = s->sink = -1;
	s->out[0].limit = s->out[1].limit = s->in.limit = WIRE_WINDOW;
	s->hash_next = *bucket(number);
	*bucket(number) = ref(s);
	s->next_live = t.live;
	if (t.live)
		deref(t.live)->prev_live = ref(s);
	t.live = ref(s);
	return s;
}

uint64_t stream_event(const struct stream *s, unsigned slot)
{
	return EVENT_STREAM + (uint64_t)(s - t.table) * 4 + slot;
}

struct stream *stream_of_event(uint64_t data, unsigned *ret_slot)
{
	struct stream *s = &t.table[(data - EVENT_STREAM) / 4];

	*ret_slot = (unsigned)(data - EVENT_STREAM) & 3;
	return s->ops ? s : NULL;
}

/* A queue through one member of the streams. */
static void enqueue(uint16_t *head, uint16_t *tail, uint16_t *link, struct stream *s, size_t member)
{
	*link = 0;
	if (*tail)
		*(uint16_t *)(void *)((char *)deref(*tail) + member) = ref(s);
	else
		*head = ref(s);
	*tail = ref(s);
}

static void unqueue(uint16_t *head, uint16_t *tail, const struct stream *s, size_t member)
{
	uint16_t *at = head, last = 0;

	while (*at && deref(*at) != s) {
		last = *at;
		at = (uint16_t *)(void *)((char *)deref(*at) + member);
	}
	if (!*at)
		return;
	*at = *(const uint16_t *)(const void *)((const char *)s + member);
	if (*tail == ref(s))
		*tail = last;
}

static void unhash(const struct stream *s)
{
	uint16_t *at = bucket(s->number);

	while (*at != ref(s))
		at = &deref(*at)->hash_next;
	*at = s->hash_next;
}

static void unlist(struct stream *s)
{
	if (s->prev_live)
		deref(s->prev_live)->next_live = s->next_live;
	else
		t.live = s->next_live;
	if (s->next_live)
		deref(s->next_live)->prev_live = s->prev_live;
}

void stream_forget(struct stream *s)
{
	if (s->ops->close)
		s->ops->close(s);
	stream_close_sink(s);
	stream_close_source(s, 0);
	stream_close_source(s, 1);
	ring_done(&s->out[0].ring);
	ring_done(&s->out[1].ring);
	ring_done(&s->in.ring);
	if (s->memory)
		unmap_memory(s->memory, s->memory_size);
	if (s->dirty)
		unqueue(&t.dirty_head, &t.dirty_tail, s, offsetof(struct stream, next_dirty));
	if (s->job)
		unqueue(&t.job_head, &t.job_tail, s, offsetof(struct stream, next_job));
	unhash(s);
	unlist(s);
	--*(s->number & WIRE_GUEST_STREAM ? &t.of_guest : &t.of_host);
	s->ops = NULL;
	s->next_live = t.free;
	t.free = ref(s);
}

void *stream_memory(struct stream *s, size_t size)
{
	s->memory = map_memory(size);
	s->memory_size = size;
	return s->memory;
}

/* --- what is due --- */

void stream_touch(struct stream *s, bool urgent)
{
	if (urgent)
		session.urgent = true;
	else
		session.lazy = true;
	if (s->dirty)
		return;
	s->dirty = true;
	enqueue(&t.dirty_head, &t.dirty_tail, &s->next_dirty, s,
		offsetof(struct stream, next_dirty));
}

struct stream *stream_next_dirty(void)
{
	struct stream *s = deref(t.dirty_head);

	if (!s)
		return NULL;
	t.dirty_head = s->next_dirty;
	if (!t.dirty_head)
		t.dirty_tail = 0;
	s->dirty = false;
	return s;
}

void stream_work(struct stream *s)
{
	if (s->job || s->has & ANSWER_RESULT)
		return;
	s->job = true;
	enqueue(&t.job_head, &t.job_tail, &s->next_job, s, offsetof(struct stream, next_job));
}

bool streams_work(void)
{
	uint16_t last = t.job_tail;
	struct stream *s;

	while ((s = deref(t.job_head))) {
		bool was_last = ref(s) == last;

		t.job_head = s->next_job;
		if (!t.job_head)
			t.job_tail = 0;
		s->job = false;
		if (s->ops->step(s))
			stream_work(s);
		if (was_last)
			break;
	}
	return t.job_head != 0;
}

void stream_answer(struct stream *s, enum answer a)
{
	s->has |= (uint8_t)a;
	s->owes |= (uint8_t)a;
	stream_touch(s, true);
}

void stream_result(struct stream *s, uint32_t error, uint64_t value)
{
	for (unsigned i = 0; i < s->ops->lanes; i++) {
		s->out[i].ended = true;
		s->out[i].eof = s->out[i].eof || !error;
	}
	s->error = error;
	s->value = value;
	s->in.discard = true;
	if (s->in.ring.len) {
		ring_drop(&s->in.ring, s->in.ring.len);
		stream_taken(s);
	}
	stream_answer(s, ANSWER_RESULT);
}

void stream_result_note(struct stream *s, uint32_t error, const char *what, const char *why)
{
	size_t a = min_u64(text_len(what), NOTE_MAX), b = text_len(why), size = a + b + 2;
	char *note = map_memory(size);

	if (note) {
		memcpy(note, what, a);
		memcpy(note + a + 1, why, b);
		s->note = note;
		s->note_len = (uint32_t)size;
	}
	/* `what` may have been there */
	if (s->memory)
		unmap_memory(s->memory, s->memory_size);
	s->memory = note;
	s->memory_size = size;
	stream_result(s, error, 0);
}

/* --- lanes --- */

uint64_t lane_written(const struct lane *l)
{
	return l->acked + l->ring.len;
}

uint32_t lane_room(const struct lane *l)
{
	return l->ended ? 0 : ring_free_bytes(&l->ring);
}

uint32_t lane_space(struct lane *l, uint8_t **ret)
{
	return l->ended ? 0 : ring_space(&l->ring, ret);
}

void lane_filled(struct stream *s, unsigned lane, uint32_t n)
{
	ring_filled(&s->out[lane].ring, n);
	stream_touch(s, true);
}

bool lane_put(struct stream *s, unsigned lane, const void *p, uint32_t n)
{
	if (!ring_put(&s->out[lane].ring, p, n))
		return false;
	stream_touch(s, true);
	return true;
}
