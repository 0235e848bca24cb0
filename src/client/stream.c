/* Owns streams: their numbers, the credit of both directions, and the descriptors that bytes come from and go to.  Called
 * by conn.c for what comes, and by the requests (command.c, file.c, forward.c ...).
 *
 * Must hold: no more than one window of a lane is ever kept, whatever the engine sends; a descriptor of the caller's is
 * never made non-blocking, since it shares that with whoever else holds it. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "client/client.h"

enum {
	SAFE_WRITE = 4096, /* what a pipe that poll() calls writable takes without blocking */
	LAST_NUMBER = WIRE_GUEST_STREAM - 1,
};

static void link_stream(struct bailey_sandbox *c, struct stream *st, const struct stream_ops *ops)
{
	st->ops = ops;
	st->conn = c;
	st->result_fd = -1;
	for (int i = 0; i < 2; i++) {
		st->lanes[i].sink.fd = -1;
		st->lanes[i].sink.stream = st;
		st->lanes[i].limit = WIRE_WINDOW;
	}
	st->feed.source.fd = -1;
	st->feed.source.stream = st;
	st->feed.limit = WIRE_WINDOW;
	st->next = c->streams;
	c->streams = st;
	st->linked = true;
}

struct stream *stream_find(const struct bailey_sandbox *c, uint32_t number)
{
	struct stream *st = c->streams;

	while (st && st->number != number)
		st = st->next;
	return st;
}

void stream_begin(struct bailey_sandbox *c, struct stream *st, const struct stream_ops *ops)
{
	do {
		st->number = c->next_number;
		if (c->next_number == LAST_NUMBER) {
			c->next_number = 1;
			c->wrapped = true;
		} else {
			c->next_number++;
		}
	} while (c->wrapped && stream_find(c, st->number));
	link_stream(c, st, ops);
}

void stream_adopt(
	struct bailey_sandbox *c, struct stream *st, const struct stream_ops *ops, uint32_t number)
{
	st->number = number;
	link_stream(c, st, ops);
}

static void unlink_stream(struct bailey_sandbox *c, struct stream *st)
{
	for (struct stream **p = &c->streams; *p; p = &(*p)->next) {
		if (*p == st) {
			*p = st->next;
			break;
		}
	}
	st->linked = false;
	st->next = NULL;
}

void stream_end(struct stream *st)
{
	struct bailey_sandbox *c = st->conn;
	_cleanup_err_ struct err ignored = ERR_INIT;
	const struct wire_close m = { .stream = st->number };

	if (!st->linked)
		return;
	unlink_stream(c, st);
	/* an answered request is closed along with whatever is sent next: that saves a wake-up of the engine */
	if (c->sock.fd >= 0 && conn_put(c, close, &m, &ignored) == 0 && !st->answered)
		(void)conn_flush(c, &ignored);
	for (int i = 0; i < 2; i++) {
		source_close(c, &st->lanes[i].sink);
		free(st->lanes[i].queue);
		st->lanes[i].queue = NULL;
		st->lanes[i].start = st->lanes[i].end = st->lanes[i].cap = 0;
	}
	source_close(c, &st->feed.source);
	st->feed.open = false;
	st->result_fd = close_fd(st->result_fd);
	free(st->rest);
	st->rest = NULL;
	if (!st->ops->free)
		return;
	if (c->depth) {
		st->next = c->dropped;
		c->dropped = st;
	} else {
		st->ops->free(st);
	}
}

/* --- from the engine --- */

int stream_sink(struct stream *st, unsigned lane, int fd, struct err *e)
{
	struct lane *l = &st->lanes[lane];
	struct stat info;

	l->sink.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (l->sink.fd < 0 || fstat(fd, &info) < 0)
		return err_set(e, R_BAD_VALUE, errno, "use descriptor '%d' for output", fd);
	l->type = info.st_mode & S_IFMT;
	/* /dev/null and its like never make a writer wait, terminals do */
	if (l->type == S_IFCHR && !isatty(fd))
		l->type = S_IFREG;
	l->no_wait = l->type == S_IFIFO;
	return 0;
}

/* write(2) to a pipe without the SIGPIPE that would end a host that never asked for it. */
static ssize_t write_quietly(struct lane *l, const uint8_t *p, size_t n)
{
	/* only read */
	const union {
		const uint8_t *from;
		void *base;
	} data = { p };
	const struct iovec iov = { data.base, n };
	const struct timespec now = { 0, 0 };
	sigset_t pipe_set, before, pending;
	ssize_t r;
	int saved;

	(void)sigemptyset(&pipe_set);
	(void)sigaddset(&pipe_set, SIGPIPE);
	(void)pthread_sigmask(SIG_BLOCK, &pipe_set, &before);
	(void)sigpending(&pending);
	r = l->no_wait ? pwritev2(l->sink.fd, &iov, 1, -1, RWF_NOWAIT) : write(l->sink.fd, p, n);
	saved = errno;
	if (r < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE))
		(void)sigtimedwait(&pipe_set, NULL, &now);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved;
	return r;
}

static bool writable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}

/* As much as the sink takes without blocking; -1 with errno EAGAIN when that is nothing. */
static ssize_t write_some(struct lane *l, const uint8_t *p, size_t n)
{
	ssize_t r;

	if (l->type == S_IFSOCK)
		return send(l->sink.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (l->type == S_IFREG || l->type == S_IFBLK)
		return write(l->sink.fd, p, n);
	if (l->no_wait) {
		r = write_quietly(l, p, n);
		if (r >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
			return r;
		l->no_wait = false;
	}
	if (!writable(l->sink.fd)) {
		errno = EAGAIN;
		return -1;
	}
	return write_quietly(l, p, n < SAFE_WRITE ? n : SAFE_WRITE);
}

/* The sink refuses.  What still comes is dropped, so that the command isn't held up by a reader that has gone. */
static void close_lane(struct stream *st, struct lane *l, int error)
{
	l->error = error;
	l->closed = true;
	source_close(st->conn, &l->sink);
	l->start = l->end = 0;
}

/* Writes what the sink takes; *p and *n are moved. */
static void write_out(struct stream *st, struct lane *l, const uint8_t **p, size_t *n)
{
	while (*n && !l->closed) {
		ssize_t r = write_some(l, *p, *n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			return;
		if (r < 0) {
			close_lane(st, l, errno);
			return;
		}
		*p += r;
		*n -= (size_t)r;
	}
}

static int enqueue(struct stream *st, struct lane *l, const uint8_t *p, size_t n, struct err *e)
{
	size_t cap = l->cap ? l->cap : 64 << 10;
	uint8_t *grown;

	if (l->start && l->cap - l->end < n) {
		memmove(l->queue, l->queue + l->start, l->end - l->start);
		l->end -= l->start;
		l->start = 0;
	}
	while (cap - l->end < n)
		cap *= 2;
	if (cap != l->cap) {
		grown = realloc(l->queue, cap);
		if (!grown)
			return err_set(e, R_NO_MEMORY, ENOMEM, "keep output of '%s'", st->conn->id);
		l->queue = grown;
		l->cap = cap;
	}
	memcpy(l->queue + l->end, p, n);
	l->end += n;
	return 0;
}

/* n bytes were taken for good: the engine may send as many more. */
static int credit(struct stream *st, unsigned lane, uint64_t n, struct err *e)
{
	struct lane *l = &st->lanes[lane];
	struct wire_ack m = { .stream = st->number | (lane ? (uint32_t)WIRE_STDERR : 0) };

	l->taken += n;
	if (l->eof || st->answered || l->taken + WIRE_WINDOW - l->limit < CLIENT_ACK_BYTES)
		return 0;
	l->limit = l->taken + WIRE_WINDOW;
	m.received = l->received;
	m.limit = l->limit;
	return conn_put(st->conn, ack, &m, e);
}

int stream_data(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e)
{
	struct lane *l = &st->lanes[lane];
	const size_t all = n;

	if (l->eof || n > l->limit - l->received)
		return err_set(e, R_WIRE_MALFORMED, 0, "read what the engine of '%s' says: data %s",
			st->conn->id, l->eof ? "behind their end" : "beyond what was allowed");
	if (st->most && n > st->most - l->received)
		return err_set(e, R_WIRE_MALFORMED, 0,
			"read what the engine of '%s' says: more than was asked for", st->conn->id);
	l->received += n;
	if (l->closed || st->paused || (l->sink.fd < 0 && !st->ops->data))
		return credit(st, lane, all, e);
	if (l->sink.fd < 0) {
		if (n && st->ops->data(st, lane, p, n, e) < 0)
			return -1;
		return st->linked ? credit(st, lane, all, e) : 0;
	}
	if (l->start == l->end)
		write_out(st, l, &p, &n);
	if (l->closed)
		n = 0;
	if (n && enqueue(st, l, p, n, e) < 0)
		return -1;
	if (n)
		source_want(st->conn, &l->sink, EPOLLOUT);
	return credit(st, lane, all - n, e);
}

static void finish_lane(struct stream *st, struct lane *l)
{
	if (!l->eof || l->start < l->end || l->sink.fd < 0)
		return;
	if (l->half_close)
		(void)shutdown(l->sink.fd, SHUT_WR);
	source_close(st->conn, &l->sink);
}

void stream_eof(struct stream *st, unsigned lane)
{
	st->lanes[lane].eof = true;
	finish_lane(st, &st->lanes[lane]);
	stream_settle(st);
}

static int sink_ready(struct stream *st, unsigned lane, struct err *e)
{
	struct lane *l = &st->lanes[lane];
	const uint8_t *p = l->queue + l->start;
	const size_t before = l->end - l->start;
	size_t n = before;

	write_out(st, l, &p, &n);
	if (l->closed)
		n = 0;
	st->progress += before != n;
	l->start = l->closed ? 0 : l->end - n;
	if (!n) {
		l->start = l->end = 0;
		source_want(st->conn, &l->sink, 0);
		free(l->queue);
		l->queue = NULL;
		l->cap = 0;
	}
	if (credit(st, lane, before - n, e) < 0)
		return -1;
	finish_lane(st, l);
	stream_settle(st);
	return 0;
}

bool stream_drained(const struct stream *st)
{
	return st->lanes[0].start == st->lanes[0].end && st->lanes[1].start == st->lanes[1].end;
}

void stream_settle(struct stream *st)
{
	if (!st->linked || st->over || !st->answered || !stream_drained(st))
		return;
	st->over = true;
	source_close(st->conn, &st->feed.source);
	st->feed.open = false;
	if (st->ops->done)
		st->ops->done(st);
}

/* --- to the engine --- */

int stream_source(struct stream *st, int fd, struct err *e)
{
	st->feed.source.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (st->feed.source.fd < 0)
		return err_set(e, R_BAD_VALUE, errno, "use descriptor '%d' for input", fd);
	return 0;
}

static size_t feed_room(const struct stream *st)
{
	const size_t waiting = conn_waiting(st->conn);
	uint64_t credit_left = st->feed.limit - st->feed.sent;

	if (!st->feed.open || waiting >= CLIENT_OUT_HIGH)
		return 0;
	return credit_left < WIRE_MAX_BODY ? (size_t)credit_left : WIRE_MAX_BODY;
}

int stream_send_eof(struct stream *st, struct err *e)
{
	const struct wire_eof m = { .stream = st->number, .total = st->feed.sent };

	if (!st->feed.open)
		return 0;
	st->feed.open = false;
	st->feed.eof = true;
	source_close(st->conn, &st->feed.source);
	return st->answered ? 0 : conn_put(st->conn, eof, &m, e);
}

/* One read of the source into a frame: 1 when there may be more, 0 not now, -1 with *e. */
static int pump_once(struct stream *st, size_t room, struct err *e)
{
	struct feed *f = &st->feed;
	uint8_t *out = conn_reserve(st->conn, room, e);
	ssize_t n;

	if (!out)
		return -1;
	n = read(f->source.fd, out + WIRE_HEADER, room);
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		/* EIO: a terminal that has gone; a socket may be reset by its other side */
		f->error = n < 0 && errno != EIO && errno != ECONNRESET ? errno : 0;
		if (!f->error || !f->whole)
			return stream_send_eof(st, e);
		f->open = false;
		source_close(st->conn, &f->source);
		return 0;
	}
	wire_put_header(out, WIRE_DATA, st->number, (uint32_t)n);
	conn_commit(st->conn, WIRE_HEADER + (size_t)n);
	f->sent += (uint64_t)n;
	st->progress++;
	return f->source.always;
}

int stream_pump(struct stream *st, struct err *e)
{
	size_t room;
	int more = 1;

	if (st->feed.source.fd < 0)
		return 0;
	source_want(st->conn, &st->feed.source, feed_room(st) ? EPOLLIN : 0);
	while (more && st->feed.source.always && (room = feed_room(st))) {
		more = pump_once(st, room, e);
		if (more < 0)
			return -1;
		if (conn_waiting(st->conn) >= CLIENT_OUT_HIGH && conn_flush(st->conn, e) < 0)
			return -1;
	}
	return 0;
}

static int source_ready(struct stream *st, struct err *e)
{
	size_t room = feed_room(st);

	if (room && pump_once(st, room, e) < 0)
		return -1;
	return stream_pump(st, e);
}

int stream_ready(struct stream *st, struct source *s, struct err *e)
{
	if (s == &st->feed.source)
		return source_ready(st, e);
	return sink_ready(st, s == &st->lanes[1].sink, e);
}

int stream_space(struct stream *st, uint8_t **ret, size_t *ret_n, struct err *e)
{
	uint8_t *out;

	*ret_n = feed_room(st);
	if (!*ret_n)
		return 0;
	out = conn_reserve(st->conn, *ret_n, e);
	if (!out)
		return -1;
	*ret = out + WIRE_HEADER;
	return 0;
}

int stream_filled(struct stream *st, size_t n, struct err *e)
{
	struct bailey_sandbox *c = st->conn;

	wire_put_header(c->out + c->out_end, WIRE_DATA, st->number, (uint32_t)n);
	conn_commit(c, WIRE_HEADER + n);
	st->feed.sent += n;
	return conn_waiting(c) >= CLIENT_OUT_HIGH ? conn_flush(c, e) : 0;
}

int stream_send(struct stream *st, const void *p, size_t n, size_t *ret_taken, struct err *e)
{
	const uint8_t *from = p;
	size_t taken = 0, room;
	uint8_t *to;

	while (taken < n) {
		if (stream_space(st, &to, &room, e) < 0)
			return -1;
		if (!room)
			break;
		if (room > n - taken)
			room = n - taken;
		memcpy(to, from + taken, room);
		if (stream_filled(st, room, e) < 0)
			return -1;
		taken += room;
	}
	*ret_taken = taken;
	return 0;
}

/* --- waiting --- */

/* Its own sink or source is what it waits for: no fault of the sandbox, and no time-out. */
static bool waits_for_us(const struct stream *st)
{
	return !stream_drained(st) || (st->feed.source.fd >= 0 && feed_room(st));
}

/* What ends a wait that isn't over. */
static int wait_failed(const struct stream *st, const char *what, const char *object, struct err *e)
{
	const struct err *broken = &st->conn->broken;

	if (st->feed.error && st->feed.whole)
		return err_set(e, st->feed.error == EISDIR ? R_IS_A_DIRECTORY : R_IO_FAILED,
			st->feed.error, "%s '%s': read its input", what, object);
	if (!st->over)
		return 0;
	return err_set(e, broken->reason == REASON_NONE ? R_WIRE_MALFORMED : broken->reason,
		broken->sys_errno, "%s '%s'", what, object);
}

int stream_wait_for(struct stream *st, bool (*cond)(const struct stream *), uint64_t timeout_ms,
	const char *what, const char *object, struct err *e)
{
	uint64_t seen = st->progress, until = boottime_ms() + timeout_ms;

	if (stream_pump(st, e) < 0)
		return -1;
	while (!cond(st)) {
		const uint64_t now = boottime_ms();
		const uint64_t left = until > now ? until - now : 0;

		if (wait_failed(st, what, object, e) < 0)
			return -1;
		if (seen != st->progress || waits_for_us(st)) {
			seen = st->progress;
			until = now + timeout_ms;
		} else if (timeout_ms && !left) {
			return err_set(e, R_TIMEOUT, 0, "%s '%s': no answer for %llu ms", what,
				object, (unsigned long long)timeout_ms);
		}
		/* looked at now and then: what it waits for may be our own reader */
		if (conn_turn(st->conn, !timeout_ms ? -1 : left < 1000 ? (int)left : 1000, e) < 0)
			return err_wrap(e, "%s '%s'", what, object);
	}
	return 0;
}

static bool is_over(const struct stream *st)
{
	return st->over;
}

static bool has_room(const struct stream *st)
{
	return st->over || feed_room(st);
}

int stream_wait_room(struct stream *st, const char *what, const char *object, struct err *e)
{
	return stream_wait_for(st, has_room, st->conn->timeout_ms, what, object, e);
}

int stream_wait(struct stream *st, bool slow, const char *what, const char *object, struct err *e)
{
	struct bailey_sandbox *c = st->conn;
	uint64_t timeout = c->timeout_ms * (slow ? CLIENT_SLOW_FACTOR : 1);

	if (stream_wait_for(st, is_over, timeout, what, object, e) < 0)
		return -1;
	if (!st->answered)
		return err_set(e, c->broken.reason, c->broken.sys_errno, "%s '%s'", what, object);
	if (st->result.error || st->result.flags & WIRE_RESULT_REASON)
		return client_result_error(&st->result, what, object, e);
	if (st->feed.whole && !st->feed.eof)
		return err_set(e, R_WIRE_MALFORMED, 0, "%s '%s': answered before all was sent",
			what, object);
	return 0;
}
