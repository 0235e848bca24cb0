/* Owns the guest channel: the one connection to the host that there is at a time, frames in and out, and what a new one takes
 * over from a broken one.  Called by the loop of session.c.
 *
 * Sending: streams say what they owe; a batch of frames is put together and sent in one call, data straight from the rings.
 * What the socket didn't take of a batch is copied aside and goes first.  Receiving: whole frames are served from a buffer; a
 * malformed one ends the connection and nothing else.
 *
 * Must hold: no byte of a lane is forgotten before the host acknowledged it, and none is sent above the host's limit. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "guest/session.h"

enum {
	IN_SIZE = 256 << 10,
	BATCH_BYTES = 256 << 10,
	CONTROL_SIZE = 64 << 10,
	CONTROL_PER_STREAM = 8
		<< 10, /* what one stream may need: STATED with a link's target, a note, and small frames */
	MAX_PARTS = 96,
	PARTS_PER_STREAM = 8,
	PENDING_SIZE = CONTROL_SIZE + BATCH_BYTES + 2 * WIRE_MAX_BODY,
	MAX_REFUSED = 64,
	FRAMES_PER_TURN = 256,
	KEEP = 64 << 10, /* of a buffer, while there is no stream */
};

enum link_state { LINK_DOWN, LINK_GREETING, LINK_RESUMING, LINK_UP };

static struct {
	int fd;
	enum link_state state;
	uint64_t epoch;
	bool met;     /* an earlier connection got as far as RESUMED */
	bool writing; /* epoll was asked for room */
	bool more;    /* frames wait in `in` */
	size_t have;
	size_t pending_at, pending_len;
	/* the batch */
	size_t control_len, batch_len;
	unsigned n_parts;
	struct iovec parts[MAX_PARTS];
	struct {
		uint32_t number, error;
		bool run;
	} refused[MAX_REFUSED];
	unsigned n_refused;
	size_t high; /* most bytes that `in` or `pending` held since they were given back */
	uint8_t in[IN_SIZE] __attribute__((aligned(4096)));
	uint8_t pending[PENDING_SIZE] __attribute__((aligned(4096)));
	uint8_t control[CONTROL_SIZE];
} l; /* all zero at first, so that it takes no room in the file: fd counts while the state isn't LINK_DOWN */

static bool link_is_open(void)
{
	return l.state != LINK_DOWN;
}

bool link_wants_turn(void)
{
	return l.more;
}

/* --- a batch --- */

static void add_part(const uint8_t *p, size_t n)
{
	struct iovec *last = l.n_parts ? &l.parts[l.n_parts - 1] : NULL;
	union {
		const uint8_t *in;
		void *out;
	} base = { .in = p };

	l.batch_len += n;
	if (last && (const uint8_t *)last->iov_base + last->iov_len == p)
		last->iov_len += n;
	else
		l.parts[l.n_parts++] = (struct iovec){ .iov_base = base.out, .iov_len = n };
}

static uint8_t *control_at(void)
{
	return l.control + l.control_len;
}

static void add_control(size_t n)
{
	add_part(control_at(), n);
	l.control_len += n;
}

/* PUT(eof, .stream = 1, .total = 5) */
#define PUT(name, ...) \
	do { \
		const struct wire_##name put_ = { __VA_ARGS__ }; \
		add_control(wire_put_##name(control_at(), CONTROL_SIZE - l.control_len, &put_)); \
	} while (0)

static bool batch_has_room(void)
{
	return l.batch_len < BATCH_BYTES && l.n_parts + PARTS_PER_STREAM <= MAX_PARTS &&
		l.control_len + CONTROL_PER_STREAM <= CONTROL_SIZE;
}

static void want_room(bool on)
{
	if (on == l.writing)
		return;
	(void)epoll_set(l.fd, l.writing ? EPOLLIN | EPOLLOUT : EPOLLIN,
		on ? EPOLLIN | EPOLLOUT : EPOLLIN, EVENT_LINK);
	l.writing = on;
}

static void note_use(size_t n)
{
	if (n > l.high)
		l.high = n;
}

static void set_aside(size_t sent)
{
	for (unsigned i = 0; i < l.n_parts; i++) {
		const uint8_t *p = l.parts[i].iov_base;
		size_t n = l.parts[i].iov_len;

		if (sent >= n) {
			sent -= n;
			continue;
		}
		memcpy(l.pending + l.pending_len, p + sent, n - sent);
		l.pending_len += n - sent;
		sent = 0;
	}
	note_use(l.pending_len);
}

/* Sends the batch or sets it aside; false when the connection broke. */
static bool send_batch(void)
{
	struct msghdr m = { .msg_iov = l.parts, .msg_iovlen = l.n_parts };
	long r = 0;

	if (l.pending_len) {
		set_aside(0);
	} else if (l.batch_len) {
		r = sys3(SYS_sendmsg, l.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (r == -EAGAIN || r == -EINTR)
			r = 0;
		if (r < 0)
			link_end();
		else if ((size_t)r < l.batch_len)
			set_aside((size_t)r);
	}
	l.batch_len = l.control_len = 0;
	l.n_parts = 0;
	return r >= 0;
}

static void send_pending(void)
{
	while (l.pending_at < l.pending_len) {
		long r = sys6(SYS_sendto, l.fd, SYS_ARG(l.pending + l.pending_at),
			SYS_ARG(l.pending_len - l.pending_at), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);

		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0) {
			link_end();
			return;
		}
		l.pending_at += (size_t)r;
	}
	l.pending_at = l.pending_len = 0;
}

/* --- what a stream owes --- */

static uint32_t lane_number(const struct stream *s, unsigned lane)
{
	return lane ? s->number | (uint32_t)WIRE_STDERR : s->number;
}

/* One frame of data and the end; true while more could be sent at once. */
static bool put_lane(struct stream *s, unsigned lane)
{
	struct lane *o = &s->out[lane];
	uint64_t written = lane_written(o);
	const uint8_t *p;

	if (o->sent < written && o->sent < o->limit) {
		uint32_t n = ring_peek(&o->ring, (uint32_t)(o->sent - o->acked), &p);

		n = (uint32_t)min_u64(n, min_u64(o->limit - o->sent, WIRE_MAX_BODY));
		wire_put_header(control_at(), WIRE_DATA, lane_number(s, lane), n);
		add_control(WIRE_HEADER);
		add_part(p, n);
		o->sent += n;
	}
	if (o->sent == written && o->ended && o->eof && !o->eof_sent) {
		PUT(eof, .stream = lane_number(s, lane), .total = written);
		o->eof_sent = true;
	}
	return o->sent < written && o->sent < o->limit;
}

static void put_ack(const struct stream *s, struct intake *in)
{
	in->acked = in->received;
	in->limit = in->received - in->ring.len + WIRE_WINDOW;
	PUT(ack, .stream = s->number, .received = in->received, .limit = in->limit);
}

static void put_stated(const struct stream *s)
{
	const struct wire_stated *m = s->memory;

	add_control(wire_put_stated(control_at(), CONTROL_SIZE - l.control_len, m));
}

static bool may_end(const struct stream *s)
{
	for (unsigned i = 0; i < s->ops->lanes; i++)
		if (s->out[i].sent < s->out[i].mark)
			return false;
	return true;
}

static bool all_sent(const struct stream *s)
{
	for (unsigned i = 0; i < s->ops->lanes; i++) {
		const struct lane *o = &s->out[i];

		if (o->sent < lane_written(o) || (o->eof && !o->eof_sent))
			return false;
	}
	return true;
}

/* Puts what may go out now; true while the stream could send more at once. */
static bool put_stream(struct stream *s)
{
	uint8_t owes = s->owes;
	bool more = false;

	s->owes &= ANSWER_ENDED | ANSWER_RESULT;
	if (owes & ANSWER_INCOMING)
		PUT(incoming, .stream = s->number, .listener = s->parent);
	if (owes & ANSWER_ACK)
		put_ack(s, &s->in);
	if (owes & ANSWER_BEGUN)
		PUT(begun, .stream = s->number, .pid = s->value_begun);
	if (owes & ANSWER_STATED)
		put_stated(s);
	for (unsigned i = 0; i < s->ops->lanes; i++)
		more = put_lane(s, i) || more;
	if (owes & ANSWER_ENDED && may_end(s)) {
		s->end.stream = s->number;
		add_control(wire_put_ended(control_at(), CONTROL_SIZE - l.control_len, &s->end));
		s->owes &= (uint8_t)~ANSWER_ENDED;
	}
	if (owes & ANSWER_RESULT && all_sent(s)) {
		PUT(result, .stream = s->number, .error = s->error, .flags = s->flags,
			.value = s->value, .rest = (const uint8_t *)s->note,
			.rest_len = s->note_len);
		s->owes &= (uint8_t)~ANSWER_RESULT;
	}
	return more;
}

static void put_refused(void)
{
	for (unsigned i = 0; i < l.n_refused; i++) {
		if (l.refused[i].run)
			PUT(ended, .stream = l.refused[i].number, .how = WIRE_HOW_NOT_STARTED,
				.status = l.refused[i].error);
		else
			PUT(result, .stream = l.refused[i].number, .error = l.refused[i].error);
	}
	l.n_refused = 0;
}

void link_refuse(uint32_t number, bool run, uint32_t error)
{
	l.refused[l.n_refused].number = number;
	l.refused[l.n_refused].run = run;
	l.refused[l.n_refused++].error = error;
	session.urgent = true;
}

static bool put_streams(void)
{
	struct stream *s;

	while (batch_has_room() && (s = stream_next_dirty()))
		if (put_stream(s))
			stream_touch(s, true);
	return l.batch_len > 0;
}

void link_flush(void)
{
	if (l.state == LINK_UP && l.pending_len == 0) {
		put_refused();
		while (put_streams() && send_batch() && l.pending_len == 0)
			;
	}
	if (l.state != LINK_DOWN)
		want_room(l.pending_len > 0);
	session.urgent = session.lazy = false;
}

void link_rest(void)
{
	if (l.high <= KEEP || l.have || l.pending_len || stream_first())
		return;
	(void)sys3(SYS_madvise, l.in, sizeof l.in & ~4095ul, MADV_DONTNEED);
	(void)sys3(SYS_madvise, l.pending, sizeof l.pending & ~4095ul, MADV_DONTNEED);
	l.high = 0;
}

/* --- the beginning of a connection --- */

static void greet(void)
{
	PUT(hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION,
		.flags = l.met ? 0 : WIRE_HELLO_FRESH, .epoch = l.epoch);
	(void)send_batch();
}

void link_open(int fd, uint64_t epoch)
{
	link_end();
	if (epoll_set(fd, 0, EPOLLIN, EVENT_LINK) < 0) {
		close_quietly(fd);
		return;
	}
	l.fd = fd;
	l.epoch = epoch;
	l.state = LINK_GREETING;
	greet();
}

void link_end(void)
{
	if (l.state == LINK_DOWN)
		return;
	(void)epoll_set(l.fd, EPOLLIN, 0, 0);
	close_quietly(l.fd);
	l.state = LINK_DOWN;
	l.writing = l.more = false;
	l.have = l.pending_at = l.pending_len = 0;
	l.n_refused = 0;
}

/* Streams that only the host's side of the old connection knew the sense of. */
static bool is_given_up(const struct stream *s, bool fresh)
{
	return exec_is_args(s) || (fresh && !exec_is_command(s));
}

static void announce(bool fresh)
{
	for (struct stream *s = stream_first(), *after; s; s = after) {
		after = stream_after(s);
		s->out[0].resumed = s->out[1].resumed = false;
		if (is_given_up(s, fresh)) {
			stream_forget(s);
			continue;
		}
		s->in.acked = s->in.received;
		s->in.limit = s->in.received - s->in.ring.len + WIRE_WINDOW;
		PUT(resume, .stream = s->number, .received = s->in.received, .limit = s->in.limit);
	}
	PUT(resumed, .stream = 0);
	(void)send_batch();
}

static bool serve_hello(const struct wire_frame *f)
{
	struct wire_hello m;

	if (!wire_get_hello(f, &m) || m.epoch != l.epoch)
		return false;
	l.state = LINK_RESUMING;
	announce(m.flags & WIRE_HELLO_FRESH);
	return true;
}

/* What the host doesn't say about a lane: it has all that it ever acknowledged, and nothing since. */
static void resume_lane(struct lane *o)
{
	if (!o->resumed) {
		o->sent = o->acked;
		o->limit = o->acked + WIRE_WINDOW;
	}
	o->eof_sent = false;
}

static void serve_resumed(void)
{
	l.state = LINK_UP;
	l.met = true;
	for (struct stream *s = stream_first(); s; s = stream_after(s)) {
		resume_lane(&s->out[0]);
		resume_lane(&s->out[1]);
		s->owes = s->has;
		stream_touch(s, true);
	}
}

static struct lane *find_lane(uint32_t number, struct stream **ret)
{
	unsigned lane = number & (uint32_t)WIRE_STDERR ? 1u : 0u;
	struct stream *s = stream_find(number & ~(uint32_t)WIRE_STDERR);

	*ret = s;
	return s && lane < s->ops->lanes ? &s->out[lane] : NULL;
}

/* Takes note of what the host has; false when it can't have that. */
static bool acknowledge(
	struct stream *s, struct lane *o, uint64_t received, uint64_t limit, uint64_t highest)
{
	if (received < o->acked || received > highest)
		return false;
	ring_drop(&o->ring, (uint32_t)(received - o->acked));
	o->acked = received;
	o->limit = limit;
	if (s->ops->room)
		s->ops->room(s);
	stream_watch(s);
	return true;
}

static bool serve_resume(const struct wire_frame *f)
{
	struct wire_resume m;
	struct stream *s;
	struct lane *o;

	if (!wire_get_resume(f, &m))
		return false;
	o = find_lane(m.stream, &s);
	if (!o)
		return true;
	if (o->resumed || !acknowledge(s, o, m.received, m.limit, lane_written(o)))
		return false;
	o->sent = m.received;
	o->resumed = true;
	return true;
}

/* --- traffic --- */

static bool serve_ack(const struct wire_frame *f)
{
	struct wire_ack m;
	struct stream *s;
	struct lane *o;

	if (!wire_get_ack(f, &m))
		return false;
	o = find_lane(m.stream, &s);
	if (!o)
		return true;
	if (m.limit < o->limit || !acknowledge(s, o, m.received, m.limit, o->sent))
		return false;
	stream_touch(s, true);
	return true;
}

static bool serve_data(const struct wire_frame *f)
{
	struct stream *s = stream_find(f->stream);
	struct intake *in = s ? &s->in : NULL;
	size_t taken = 0;

	if (!s)
		return !(f->stream & (uint32_t)WIRE_STDERR);
	if (in->ended || f->length > in->limit - in->received)
		return false;
	in->received += f->length;
	if (in->discard || !s->ops->take)
		taken = f->length;
	else if (!in->ring.len)
		taken = s->ops->take(s, f->body, f->length);
	/* it may have found out that it wants no more */
	if (taken < f->length && !in->discard) {
		if (!ring_put(&in->ring, f->body + taken, (uint32_t)(f->length - taken)))
			return false;
		stream_watch(s);
	}
	stream_taken(s);
	return true;
}

static bool serve_eof(const struct wire_frame *f)
{
	struct stream *s = stream_find(f->stream);
	struct wire_eof m;

	if (!wire_get_eof(f, &m) || f->stream & (uint32_t)WIRE_STDERR)
		return false;
	if (!s)
		return true;
	if (m.total != s->in.received)
		return false;
	s->in.ended = true;
	if (!s->in.ring.len && !s->in.delivered) {
		s->in.delivered = true;
		if (s->ops->take_end && !s->in.discard)
			s->ops->take_end(s);
	}
	return true;
}

static bool serve_close(const struct wire_frame *f)
{
	struct stream *s = stream_find(f->stream);

	if (s)
		stream_forget(s);
	return !(f->stream & (uint32_t)WIRE_STDERR);
}

static const struct {
	uint32_t type;
	bool (*serve)(const struct wire_frame *f);
} requests[] = { { WIRE_STAT, files_stat }, { WIRE_LIST, files_list },
	{ WIRE_REMOVE, files_remove }, { WIRE_SEARCH, files_search },
	{ WIRE_TAR_OUT, files_tar_out }, { WIRE_TAR_IN, files_tar_in }, { WIRE_READ, files_read },
	{ WIRE_WRITE, files_write }, { WIRE_MKDIR, files_mkdir }, { WIRE_RENAME, files_rename },
	{ WIRE_DIAL, forward_dial }, { WIRE_LISTEN, forward_listen }, { WIRE_KILL, exec_kill } };

/* A request on a stream that is known was asked before the connection broke. */
static bool serve_request(const struct wire_frame *f)
{
	const struct stream *s = stream_find(f->stream);

	if (f->stream & (uint32_t)(WIRE_STDERR | WIRE_GUEST_STREAM))
		return false;
	if (f->type == WIRE_ARGS)
		return (s && !exec_is_args(s)) || exec_args(f);
	if (f->type == WIRE_RUN)
		return (s && !exec_is_args(s)) || exec_run(f);
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
		if (requests[i].type == f->type)
			return s || requests[i].serve(f);
	return false;
}

static bool serve(const struct wire_frame *f)
{
	if (l.state == LINK_GREETING)
		return f->type == WIRE_HELLO && serve_hello(f);
	if (l.state == LINK_RESUMING) {
		if (f->type == WIRE_RESUMED)
			serve_resumed();
		return f->type == WIRE_RESUMED || (f->type == WIRE_RESUME && serve_resume(f));
	}
	switch (f->type) {
	case WIRE_DATA:
		return serve_data(f);
	case WIRE_EOF:
		return serve_eof(f);
	case WIRE_ACK:
		return serve_ack(f);
	case WIRE_CLOSE:
		return serve_close(f);
	case WIRE_RESIZE:
		return exec_resize(f);
	default:
		return serve_request(f);
	}
}

/* Serves whole frames of the buffer, as many as a turn may; what is left moves to its front. */
static void serve_frames(void)
{
	size_t at = 0;

	l.more = false;
	for (unsigned i = 0; link_is_open(); i++) {
		struct wire_frame f;
		enum wire_parsed r;
		size_t used;

		if (i == FRAMES_PER_TURN || l.n_refused == MAX_REFUSED) {
			l.more = true;
			break;
		}
		r = wire_parse(l.in + at, l.have - at, WIRE_FROM_HOST, &f, &used);
		if (r == WIRE_SHORT)
			break;
		if (r == WIRE_REFUSED || !serve(&f)) {
			link_end();
			return;
		}
		at += used;
	}
	if (!link_is_open())
		return;
	l.have -= at;
	if (at && l.have)
		memmove(l.in, l.in + at, l.have);
}

void link_ready(uint32_t events)
{
	long r;

	if (!link_is_open())
		return;
	if (events & EPOLLOUT) {
		send_pending();
		session.urgent = true; /* what waited behind it */
	}
	if (link_is_open() && !l.more && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		r = sys6(SYS_recvfrom, l.fd, SYS_ARG(l.in + l.have), SYS_ARG(IN_SIZE - l.have),
			MSG_DONTWAIT, 0, 0);
		if (r == 0 || (r < 0 && r != -EAGAIN && r != -EINTR)) {
			link_end();
			return;
		}
		if (r > 0)
			l.have += (size_t)r;
		note_use(l.have);
	}
	if (link_is_open())
		serve_frames();
}
