/* Owns bytes on their way through a socket.  Called by the channel process for clients and for the guest.  Must hold: nothing
 * here waits, nothing grows beyond its maximum, and an idle connection keeps no memory. */
#include "engine/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/cleanup.h"

enum {
	FIRST_CAP = 4096,
	SEND_MAX = 1 << 20,
	SEND_BUFFER = 208 << 10,
	LENT_FRAMES = 32,
	LENT_MIN = 4096, /* below, a copy is cheaper */
};

/* What is to be sent behind `out` of one socket and lies elsewhere. */
static struct {
	struct sock *to; /* NULL: nothing */
	size_t bytes;
	unsigned n;
	uint8_t heads[LENT_FRAMES][WIRE_HEADER];
	struct iovec parts[1 + 2 * LENT_FRAMES]; /* the first is for `out` */
} lent;

/* Twice the usual room: half as many turns for the same bytes. */
static void widen(int fd)
{
	const int bytes = SEND_BUFFER;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void sock_init(struct sock *s, int fd)
{
	if (fd >= 0)
		widen(fd);
	*s = (struct sock){ .fd = fd, .pass_fd = -1 };
}

void sock_done(struct sock *s)
{
	if (lent.to == s)
		lent.to = NULL;
	s->fd = close_fd(s->fd);
	s->pass_fd = close_fd(s->pass_fd);
	free(s->held);
	free(s->out);
	sock_init(s, -1);
}

size_t sock_waiting(const struct sock *s)
{
	return s->end - s->start + (lent.to == s ? lent.bytes : 0);
}

int sock_read(struct sock *s, uint8_t *in, size_t *ret_n)
{
	ssize_t n;

	if (s->held_len)
		memcpy(in, s->held, s->held_len);
	do
		n = recv(s->fd, in + s->held_len, SOCK_IN, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -1;
	*ret_n = s->held_len + (size_t)n;
	s->held_len = 0;
	return 1;
}

bool sock_hold(struct sock *s, const uint8_t *p, size_t n)
{
	if (n) {
		uint8_t *grown = realloc(s->held, n);

		if (!grown)
			return false;
		s->held = grown;
		memcpy(s->held, p, n);
	}
	s->held_len = n;
	return true;
}

/* Room in `out`. */
static uint8_t *reserve(struct sock *s, size_t n)
{
	const size_t waiting = s->end - s->start;
	size_t cap = s->cap ? s->cap : FIRST_CAP;
	uint8_t *grown;

	if (s->failed || s->fd < 0)
		return NULL;
	if (s->cap - s->end >= n)
		return s->out + s->end;
	if (s->start && s->cap - waiting >= n) {
		memmove(s->out, s->out + s->start, waiting);
		if (s->pass_fd >= 0)
			s->pass_at -= s->start;
		s->start = 0;
		s->end = waiting;
		return s->out + s->end;
	}
	if (waiting + n <= SOCK_OUT_MAX) {
		while (cap - s->end < n)
			cap *= 2;
		grown = realloc(s->out, cap);
		if (grown) {
			s->out = grown;
			s->cap = cap;
			return s->out + s->end;
		}
	}
	s->failed = true;
	return NULL;
}

uint8_t *sock_reserve(struct sock *s, size_t n)
{
	/* what comes now comes behind it */
	if (lent.to == s)
		sock_settle();
	return reserve(s, n);
}

void sock_commit(struct sock *s, size_t n)
{
	s->end += n;
}

bool sock_pass(struct sock *s, int fd)
{
	if (s->pass_fd >= 0)
		return false;
	s->pass_fd = fd;
	s->pass_at = s->end;
	return true;
}

void sock_put_frame(struct sock *s, uint32_t type, uint32_t stream, const uint8_t *body, size_t n)
{
	uint8_t *out = sock_reserve(s, WIRE_HEADER + n);

	if (!out)
		return;
	wire_put_header(out, type, stream, (uint32_t)n);
	if (n)
		memcpy(out + WIRE_HEADER, body, n);
	sock_commit(s, WIRE_HEADER + n);
}

/* Copies what is left behind the first `sent` bytes of `out` and the lent ones together. */
static void keep_lent(struct sock *s, size_t sent)
{
	size_t waiting = s->end - s->start, skip;

	s->start += sent < waiting ? sent : waiting;
	skip = sent < waiting ? 0 : sent - waiting;
	for (unsigned i = 1; i <= 2 * lent.n; i++) {
		const struct iovec *v = &lent.parts[i];
		const size_t over = skip < v->iov_len ? skip : v->iov_len;
		uint8_t *out;

		skip -= over;
		if (over == v->iov_len)
			continue;
		out = reserve(s, v->iov_len - over);
		if (!out)
			return;
		memcpy(out, (const uint8_t *)v->iov_base + over, v->iov_len - over);
		sock_commit(s, v->iov_len - over);
	}
}

void sock_settle(void)
{
	struct sock *s = lent.to;
	struct msghdr m = { .msg_iov = lent.parts + 1, .msg_iovlen = 2 * (size_t)lent.n };
	ssize_t n;

	if (!s)
		return;
	lent.to = NULL;
	if (s->failed)
		return;
	if (s->end > s->start) {
		lent.parts[0] = (struct iovec){ s->out + s->start, s->end - s->start };
		m.msg_iov = lent.parts;
		m.msg_iovlen++;
	}
	do
		n = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		s->failed = true;
	else
		keep_lent(s, n < 0 ? 0 : (size_t)n);
}

void sock_lend_frame(struct sock *s, uint32_t type, uint32_t stream, const uint8_t *body, size_t n)
{
	union {
		const uint8_t *in;
		void *out;
	} p = { .in = body };
	struct iovec *v;

	if (lent.to && (lent.to != s || lent.n == LENT_FRAMES))
		sock_settle();
	/* a descriptor goes with a byte of `out` */
	if (n < LENT_MIN || s->pass_fd >= 0 || s->fd < 0 || s->failed) {
		sock_put_frame(s, type, stream, body, n);
		return;
	}
	if (!lent.to) {
		lent.to = s;
		lent.n = 0;
		lent.bytes = 0;
	}
	wire_put_header(lent.heads[lent.n], type, stream, (uint32_t)n);
	v = &lent.parts[1 + 2 * lent.n];
	v[0] = (struct iovec){ lent.heads[lent.n], WIRE_HEADER };
	v[1] = (struct iovec){ p.out, n };
	lent.n++;
	lent.bytes += WIRE_HEADER + n;
}

/* A descriptor goes with the first byte of its frame: what stands before is sent by itself. */
static ssize_t send_some(struct sock *s)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	size_t n = sock_waiting(s) < SEND_MAX ? sock_waiting(s) : SEND_MAX;
	struct iovec iov = { s->out + s->start, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	if (s->pass_fd < 0 || s->pass_at >= s->start + n)
		return send(s->fd, s->out + s->start, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (s->pass_at > s->start)
		return send(s->fd, s->out + s->start, s->pass_at - s->start,
			MSG_NOSIGNAL | MSG_DONTWAIT);
	m.msg_control = control.bytes;
	m.msg_controllen = sizeof control.bytes;
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof s->pass_fd);
	memcpy(CMSG_DATA(&control.align), &s->pass_fd, sizeof s->pass_fd);
	r = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (r > 0)
		s->pass_fd = close_fd(s->pass_fd);
	return r;
}

bool sock_flush(struct sock *s)
{
	if (lent.to == s)
		sock_settle();
	while (!s->failed && sock_waiting(s)) {
		ssize_t n = send_some(s);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			s->failed = true;
			break;
		}
		s->start += (size_t)n;
	}
	if (!sock_waiting(s)) {
		s->start = s->end = 0;
		if (s->cap > 2 * (size_t)SOCK_IN) {
			free(s->out);
			s->out = NULL;
			s->cap = 0;
		}
	}
	return !s->failed;
}

void sock_shrink(struct sock *s)
{
	if (!sock_waiting(s)) {
		free(s->out);
		s->out = NULL;
		s->start = s->end = s->cap = 0;
	}
	if (!s->held_len) {
		free(s->held);
		s->held = NULL;
	}
}
