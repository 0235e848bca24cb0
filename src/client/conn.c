/* Owns a connection to the engine of one sandbox: its socket, what is to be sent, what has come, and the one place where
 * the library waits.  Called by everything that asks something of a sandbox.
 *
 * Must hold: nothing the engine says is trusted (wire_parse() and wire_get_*() first, then every number against its own
 * maximum); no callback finds a stream that was freed (stream_end() only unlinks while conn_turn() runs); nothing here
 * blocks but epoll_wait() and a sink that is a file. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"

int conn_new(struct bailey_sandbox **ret, int fd, const char *id, struct err *e)
{
	struct bailey_sandbox *c = calloc(1, sizeof *c);

	if (c) {
		c->sock.fd = fd;
		c->poll_fd = epoll_create1(EPOLL_CLOEXEC);
		c->in = malloc(CLIENT_IN_BYTES);
	}
	if (!c || !c->in || c->poll_fd < 0) {
		err_set(e, R_NO_MEMORY, c && c->poll_fd < 0 ? errno : ENOMEM, "connect to '%s'",
			id);
		(void)close_fd(fd);
		if (c) {
			c->sock.fd = -1;
			conn_free(c);
		}
		return -1;
	}
	str_format(c->id, sizeof c->id, "%.*s", BAILEY_ID_SIZE - 1, id);
	c->next_number = 1;
	c->timeout_ms = CLIENT_TIMEOUT_MS;
	if (fd >= 0)
		source_want(c, &c->sock, EPOLLIN);
	*ret = c;
	return 0;
}

static void free_dropped(struct bailey_sandbox *c)
{
	struct stream *st;

	while ((st = c->dropped)) {
		c->dropped = st->next;
		if (st->ops->free)
			st->ops->free(st);
	}
}

void conn_free(struct bailey_sandbox *c)
{
	if (!c)
		return;
	while (c->streams)
		stream_end(c->streams);
	free_dropped(c);
	source_close(c, &c->sock);
	(void)close_fd(c->poll_fd);
	for (unsigned i = 0; i < c->n_fds; i++)
		(void)close_fd(c->fds[i]);
	err_done(&c->broken);
	free(c->in);
	free(c->out);
	free(c);
}

void source_want(struct bailey_sandbox *c, struct source *s, uint32_t want)
{
	struct epoll_event ev = { .events = want, .data.ptr = s };
	int op = s->want ? want ? EPOLL_CTL_MOD : EPOLL_CTL_DEL : EPOLL_CTL_ADD;

	if (s->fd < 0 || s->want == want || s->always)
		return;
	if (epoll_ctl(c->poll_fd, op, s->fd, &ev) < 0 && op == EPOLL_CTL_ADD) {
		/* EPERM: a file that is always ready; anything else shows when it is read or written */
		s->always = true;
		return;
	}
	s->want = want;
}

void source_close(struct bailey_sandbox *c, struct source *s)
{
	if (s->fd < 0)
		return;
	source_want(c, s, 0);
	s->fd = close_fd(s->fd);
	s->always = false;
}

int conn_check(struct bailey_sandbox *c, struct err *e)
{
	if (c->depth)
		return err_set(e, R_BUSY, 0,
			"use the connection to '%s': a callback of it is running", c->id);
	if (c->broken.reason != REASON_NONE)
		return err_set(e, c->broken.reason, c->broken.sys_errno,
			"use the connection to '%s'", c->id);
	return 0;
}

static struct stream *first_open(const struct bailey_sandbox *c)
{
	struct stream *st = c->streams;

	while (st && st->over)
		st = st->next;
	return st;
}

/* The first cause stays; every stream hears of it once. */
int conn_break(struct bailey_sandbox *c, struct err *e)
{
	struct stream *st;

	if (c->broken.reason != REASON_NONE)
		return -1;
	err_set(&c->broken, e->reason, e->sys_errno, "use the connection to '%s'", c->id);
	source_close(c, &c->sock);
	c->depth++;
	/* done() may unlink any stream: begin again after each */
	while ((st = first_open(c))) {
		st->over = true;
		if (st->ops->done)
			st->ops->done(st);
	}
	if (--c->depth == 0)
		free_dropped(c);
	return -1;
}

/* --- sending --- */

size_t conn_waiting(const struct bailey_sandbox *c)
{
	return c->out_end - c->out_start;
}

uint8_t *conn_reserve(struct bailey_sandbox *c, size_t n, struct err *e)
{
	const size_t need = WIRE_HEADER + n, waiting = conn_waiting(c);
	size_t cap = c->out_cap ? c->out_cap : 128 << 10;
	uint8_t *grown;

	if (c->out_cap - c->out_end >= need)
		return c->out + c->out_end;
	if (c->out_start && c->out_cap - waiting >= need) {
		memmove(c->out, c->out + c->out_start, waiting);
		c->out_start = 0;
		c->out_end = waiting;
		return c->out + waiting;
	}
	if (waiting + need > CLIENT_OUT_MAX) {
		err_set(e, R_BUSY, 0, "send to '%s': %zu bytes wait already", c->id, waiting);
		return NULL;
	}
	while (cap - c->out_end < need)
		cap *= 2;
	grown = realloc(c->out, cap);
	if (!grown) {
		err_set(e, R_NO_MEMORY, ENOMEM, "send to '%s'", c->id);
		return NULL;
	}
	c->out = grown;
	c->out_cap = cap;
	return c->out + c->out_end;
}

void conn_commit(struct bailey_sandbox *c, size_t n)
{
	c->out_end += n;
}

struct conn_space conn_space(struct bailey_sandbox *c)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	uint8_t *out = conn_reserve(c, WIRE_MAX_BODY, &ignored);

	/* nothing is written where no byte may be */
	return out ? (struct conn_space){ out, WIRE_HEADER + WIRE_MAX_BODY }
		   : (struct conn_space){ c->in, 0 };
}

int conn_put_done(struct bailey_sandbox *c, size_t n, struct err *e)
{
	if (!n && !conn_reserve(c, WIRE_MAX_BODY, e))
		return -1;
	if (!n)
		return err_set(
			e, R_OUT_OF_RANGE, 0, "send to '%s': the request is too long", c->id);
	conn_commit(c, n);
	return 0;
}

int conn_flush(struct bailey_sandbox *c, struct err *e)
{
	while (conn_waiting(c) && c->sock.fd >= 0) {
		ssize_t n = send(c->sock.fd, c->out + c->out_start, conn_waiting(c),
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			/* what it said last may still lie there, and says more than this */
			c->out_start = c->out_end = 0;
			if (errno == EPIPE || errno == ECONNRESET)
				return 0;
			err_set(e, R_ENGINE_LOST, errno, "send to '%s'", c->id);
			return conn_break(c, e);
		}
		c->out_start += (size_t)n;
	}
	if (!conn_waiting(c))
		c->out_start = c->out_end = 0;
	source_want(c, &c->sock, conn_waiting(c) ? EPOLLIN | EPOLLOUT : EPOLLIN);
	return 0;
}

/* --- receiving --- */

static int malformed(struct bailey_sandbox *c, uint32_t type, struct err *e)
{
	return err_set(e, R_WIRE_MALFORMED, 0, "read what the engine of '%s' says: %s", c->id,
		type ? wire_type_name(type) : "no frame");
}

static int take_result(
	struct bailey_sandbox *c, struct stream *st, const struct wire_frame *f, struct err *e)
{
	struct wire_result m;

	if (st->answered || !wire_get_result(f, &m))
		return malformed(c, f->type, e);
	if (m.flags & WIRE_RESULT_FD) {
		if (!c->n_fds)
			return malformed(c, f->type, e);
		st->result_fd = c->fds[0];
		c->n_fds--;
		memmove(c->fds, c->fds + 1, c->n_fds * sizeof *c->fds);
	}
	if (m.rest_len) {
		st->rest = malloc(m.rest_len);
		if (!st->rest)
			return err_set(e, R_NO_MEMORY, ENOMEM, "read an answer of '%s'", c->id);
		memcpy(st->rest, m.rest, m.rest_len);
	}
	st->result = m;
	st->result.rest = st->rest;
	st->answered = true;
	stream_settle(st);
	return 0;
}

static int take_ack(struct stream *st, const struct wire_frame *f, struct err *e)
{
	struct wire_ack m;

	if (!wire_get_ack(f, &m) || m.received > st->feed.sent)
		return malformed(st->conn, f->type, e);
	/* more than anybody would grant: sums stay small */
	if (m.limit > st->feed.limit)
		st->feed.limit = m.limit;
	return stream_pump(st, e);
}

static int take_for(
	struct bailey_sandbox *c, struct stream *st, const struct wire_frame *f, struct err *e)
{
	const unsigned lane = f->stream & (uint32_t)WIRE_STDERR ? 1u : 0u;
	struct wire_eof end;

	if (lane && !st->ops->two_lanes)
		return malformed(c, f->type, e);
	st->progress++;
	switch (f->type) {
	case WIRE_DATA:
		return stream_data(st, lane, f->body, f->length, e);
	case WIRE_EOF:
		if (!wire_get_eof(f, &end) || end.total != st->lanes[lane].received)
			return malformed(c, f->type, e);
		stream_eof(st, lane);
		return 0;
	case WIRE_ACK:
		return take_ack(st, f, e);
	case WIRE_RESULT:
		return take_result(c, st, f, e);
	default:
		if (st->answered || !st->ops->frame)
			return malformed(c, f->type, e);
		return st->ops->frame(st, f, e);
	}
}

static int take_hello(struct bailey_sandbox *c, const struct wire_frame *f, struct err *e)
{
	struct wire_hello m;

	if (c->hello || !wire_get_hello(f, &m))
		return malformed(c, f->type, e);
	if (m.version != WIRE_VERSION)
		return err_set(e, R_WIRE_MALFORMED, 0,
			"connect to '%s': its engine speaks version %u, this library version %d",
			c->id, m.version, WIRE_VERSION);
	c->hello = true;
	return 0;
}

/* A stream that we let go of may still be spoken of; one that nobody asked for may not.  The engine numbers connections
 * to listeners itself, and a descriptor that comes with a RESULT nobody waits for has to go with it. */
static int take_stray(struct bailey_sandbox *c, const struct wire_frame *f, struct err *e)
{
	const uint32_t number = f->stream & ~(uint32_t)WIRE_STDERR;
	struct wire_result m;

	if (!(number & WIRE_GUEST_STREAM) && number >= c->next_number && !c->wrapped)
		return malformed(c, f->type, e);
	if (f->type == WIRE_RESULT && wire_get_result(f, &m) && m.flags & WIRE_RESULT_FD &&
		c->n_fds) {
		(void)close_fd(c->fds[0]);
		c->n_fds--;
		memmove(c->fds, c->fds + 1, c->n_fds * sizeof *c->fds);
	}
	return 0;
}

static int take_incoming(struct bailey_sandbox *c, const struct wire_frame *f, struct err *e)
{
	struct wire_incoming m;
	struct stream *listener;

	if (!wire_get_incoming(f, &m) || stream_find(c, f->stream))
		return malformed(c, f->type, e);
	listener = stream_find(c, m.listener);
	if (!listener || !listener->ops->frame)
		return take_stray(c, f, e);
	return listener->ops->frame(listener, f, e);
}

static int take_frame(struct bailey_sandbox *c, const struct wire_frame *f, struct err *e)
{
	struct stream *st;

	if (f->type == WIRE_HELLO)
		return take_hello(c, f, e);
	if (!c->hello || !f->stream)
		return malformed(c, f->type, e);
	if (f->type == WIRE_INCOMING)
		return take_incoming(c, f, e);
	st = stream_find(c, f->stream & ~(uint32_t)WIRE_STDERR);
	return st ? take_for(c, st, f, e) : take_stray(c, f, e);
}

int conn_take(struct bailey_sandbox *c, const uint8_t *p, size_t n, size_t *ret_used, struct err *e)
{
	struct wire_frame f;
	size_t done = 0, used;

	for (;;) {
		switch (wire_parse(p + done, n - done, WIRE_FROM_ENGINE, &f, &used)) {
		case WIRE_SHORT:
			*ret_used = done;
			return 0;
		case WIRE_REFUSED:
			return malformed(c, WIRE_NONE, e);
		case WIRE_OK:
			if (take_frame(c, &f, e) < 0)
				return -1;
			/* a callback may have ended it */
			if (c->broken.reason != REASON_NONE)
				return err_set(e, c->broken.reason, 0, "use the connection to '%s'",
					c->id);
			done += used;
		}
	}
}

static void keep_fds(struct bailey_sandbox *c, struct msghdr *msg)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
			if (c->n_fds < CLIENT_MAX_FDS)
				c->fds[c->n_fds++] = fd;
			else
				(void)close_fd(fd);
		}
	}
}

static ssize_t receive(struct bailey_sandbox *c)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(CLIENT_MAX_FDS * sizeof(int))];
	struct iovec iov = { c->in + c->in_end, CLIENT_IN_BYTES - c->in_end };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control };
	ssize_t n;

	do
		n = recvmsg(c->sock.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		keep_fds(c, &msg);
	return n;
}

/* One read: the rest makes epoll say so again, and others get their turn. */
static int read_socket(struct bailey_sandbox *c, struct err *e)
{
	size_t used = 0;
	ssize_t n = receive(c);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		err_set(e, R_ENGINE_LOST, n < 0 ? errno : 0,
			"use the connection to '%s': its engine ended it", c->id);
		return conn_break(c, e);
	}
	c->in_end += (size_t)n;
	if (conn_take(c, c->in + c->in_start, c->in_end - c->in_start, &used, e) < 0)
		return conn_break(c, e);
	c->in_start += used;
	if (c->in_start == c->in_end) {
		c->in_start = c->in_end = 0;
	} else if (c->in_end == CLIENT_IN_BYTES || c->in_start > CLIENT_IN_BYTES / 2) {
		/* a whole frame always fits behind it */
		memmove(c->in, c->in + c->in_start, c->in_end - c->in_start);
		c->in_end -= c->in_start;
		c->in_start = 0;
	}
	return 1;
}

/* The socket first: it may end a stream whose descriptor stands behind it in the same list. */
static int serve(struct bailey_sandbox *c, struct epoll_event *ev, int n, struct err *e)
{
	for (int i = 0; i < n; i++) {
		if (ev[i].data.ptr != &c->sock)
			continue;
		if (ev[i].events & EPOLLOUT && conn_flush(c, e) < 0)
			return -1;
		if (ev[i].events & ~(uint32_t)EPOLLOUT && read_socket(c, e) < 0)
			return -1;
		/* room again: what waited for it goes on */
		for (struct stream *st = c->streams; st; st = st->next)
			if (st->feed.source.fd >= 0 && stream_pump(st, e) < 0)
				return conn_break(c, e);
	}
	for (int i = 0; i < n; i++) {
		struct source *s = ev[i].data.ptr;

		if (s == &c->sock || s->fd < 0 || !s->want)
			continue;
		if (stream_ready(s->stream, s, e) < 0)
			return conn_break(c, e);
	}
	return 0;
}

int conn_turn(struct bailey_sandbox *c, int timeout_ms, struct err *e)
{
	struct epoll_event ev[CLIENT_EVENTS];
	int n, r;

	if (conn_check(c, e) < 0)
		return -1;
	if (conn_flush(c, e) < 0)
		return -1;
	n = epoll_wait(c->poll_fd, ev, CLIENT_EVENTS, timeout_ms);
	if (n < 0 && errno != EINTR)
		return err_set(e, R_IO_FAILED, errno, "wait for '%s'", c->id);
	if (n <= 0)
		return 0;
	c->depth++;
	r = serve(c, ev, n, e);
	c->depth--;
	free_dropped(c);
	if (r < 0)
		return -1;
	return conn_flush(c, e) < 0 ? -1 : 1;
}
