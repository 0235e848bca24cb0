/* Owns the descriptors of streams: reads what commands and connections write, writes what the host sends for them, and tells
 * epoll what is wanted.  Called by exec.c, forward.c and the link. */
#include <errno.h>
#include <sys/epoll.h>

#include "guest/session.h"

enum { SLOT_SINK = 2 };

static uint32_t wanted_source(const struct stream *s, unsigned lane)
{
	return s->source[lane] >= 0 && lane_room(&s->out[lane]) ? EPOLLIN : 0;
}

static uint32_t wanted_sink(const struct stream *s)
{
	return s->sink >= 0 && (s->connecting || s->in.ring.len) ? EPOLLOUT : 0;
}

static void watch(struct stream *s, unsigned slot, int fd, uint32_t wanted)
{
	if (wanted == s->watched[slot])
		return;
	if (epoll_set(fd, s->watched[slot], wanted, stream_event(s, slot)) == 0)
		s->watched[slot] = wanted;
}

void stream_watch(struct stream *s)
{
	bool shared = s->sink >= 0 && s->sink == s->source[0];

	if (s->source[0] >= 0)
		watch(s, 0, s->source[0], wanted_source(s, 0) | (shared ? wanted_sink(s) : 0));
	if (s->source[1] >= 0)
		watch(s, 1, s->source[1], wanted_source(s, 1));
	if (s->sink >= 0 && !shared)
		watch(s, SLOT_SINK, s->sink, wanted_sink(s));
}

static void unwatch(struct stream *s, unsigned slot, int fd)
{
	if (s->watched[slot])
		(void)epoll_set(fd, s->watched[slot], 0, 0);
	s->watched[slot] = 0;
}

void stream_close_source(struct stream *s, unsigned lane)
{
	int fd = s->source[lane];

	if (fd < 0)
		return;
	s->source[lane] = -1;
	unwatch(s, lane, fd);
	if (fd != s->sink)
		close_quietly(fd);
}

void stream_close_sink(struct stream *s)
{
	int fd = s->sink;

	if (fd < 0)
		return;
	s->sink = -1;
	s->in.discard = true;
	if (s->in.ring.len) {
		ring_drop(&s->in.ring, s->in.ring.len);
		stream_taken(s);
	}
	if (fd == s->source[0]) {
		stream_watch(s);
		return;
	}
	unwatch(s, SLOT_SINK, fd);
	close_quietly(fd);
}

/* Into the ring; a first piece by way of a buffer, since most lanes end without a byte and need no ring. */
static long read_some(struct stream *s, unsigned lane)
{
	static uint8_t first[4096];
	struct lane *l = &s->out[lane];
	uint8_t *to;
	uint32_t n;
	long r;

	if (!l->ring.mem) {
		r = sys3(SYS_read, s->source[lane], first, sizeof first);
		return r > 0 && !lane_put(s, lane, first, (uint32_t)r) ? -ENOMEM : r;
	}
	n = min_u32(lane_space(l, &to), STEP_BYTES);
	r = sys3(SYS_read, s->source[lane], to, n);
	if (r > 0)
		lane_filled(s, lane, (uint32_t)r);
	return r;
}

bool stream_pump(struct stream *s, unsigned lane, uint32_t *ret_error)
{
	struct lane *l = &s->out[lane];
	long r;

	if (s->source[lane] < 0 || !lane_room(l))
		return false;
	r = read_some(s, lane);
	if (r > 0)
		return true;
	if (r == -EAGAIN || r == -EINTR)
		return false;
	/* EIO: a terminal whose other side nobody has open */
	*ret_error = r < 0 && r != -EIO ? (uint32_t)-r : 0;
	l->ended = l->eof = true;
	stream_close_source(s, lane);
	stream_touch(s, false);
	return false;
}

void stream_taken(struct stream *s)
{
	struct intake *in = &s->in;
	uint64_t taken = in->received - in->ring.len;

	if (taken + WIRE_WINDOW - in->limit >= ACK_EVERY || in->received - in->acked >= ACK_EVERY) {
		s->owes |= ANSWER_ACK;
		stream_touch(s, true);
	}
}

size_t stream_take_sink(struct stream *s, const uint8_t *p, size_t n)
{
	long r;

	if (s->connecting)
		return 0;
	if (s->sink < 0)
		return n;
	r = sys3(SYS_write, s->sink, p, n);
	if (r >= 0)
		return (size_t)r;
	if (r == -EAGAIN || r == -EINTR)
		return 0;
	stream_close_sink(s); /* nobody reads any more */
	return n;
}

void stream_offer(struct stream *s)
{
	const uint8_t *p;
	uint32_t n;

	while ((n = ring_peek(&s->in.ring, 0, &p))) {
		size_t k = s->ops->take(s, p, n);

		/* the ring is empty when the sink was closed meanwhile */
		if (!k || !s->in.ring.len)
			break;
		ring_drop(&s->in.ring, (uint32_t)k);
		if (k < n)
			break;
	}
	stream_taken(s);
	if (!s->in.ring.len && s->in.ended && !s->in.delivered) {
		s->in.delivered = true;
		if (s->ops->take_end)
			s->ops->take_end(s);
	}
	stream_watch(s);
}
