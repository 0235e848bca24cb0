/* Connections between the host and what listens inside, in both directions.  Called by the link with requests, by the loop
 * with what happened.  Only 127.0.0.1 (or ::1, where nothing listens on the former) and Unix sockets; the workload's rights
 * decide about the latter. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "guest/session.h"

enum {
	SOCK_FLAGS = SOCK_CLOEXEC | SOCK_NONBLOCK,
	LOOPBACK_BE = 0x0100007f,
	BACKLOG = 128,
	ACCEPT_PER_TURN = 16,
	PUMP_PER_TURN = 4,
};

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} a;
	uint32_t len;
};

static void ready(struct stream *s, unsigned slot, uint32_t events);
static size_t take(struct stream *s, const uint8_t *p, size_t n);
static void take_end(struct stream *s);
static void room(struct stream *s);
static void listener_ready(struct stream *s, unsigned slot, uint32_t events);
static void close_listener(struct stream *s);

static const struct stream_ops dial_ops = {
	.lanes = 1, .ready = ready, .take = take, .take_end = take_end, .room = room
};
static const struct stream_ops listen_ops = {
	.lanes = 0, .ready = listener_ready, .close = close_listener
};

static uint32_t next_number;

static uint16_t big_endian(uint32_t port)
{
	return (uint16_t)((port & 0xff) << 8 | port >> 8);
}

static void set_address(
	struct address *to, uint32_t kind, uint32_t port, const uint8_t *path, uint32_t n)
{
	memset(to, 0, sizeof *to);
	if (kind == WIRE_NET_UNIX) {
		to->a.un.sun_family = AF_UNIX;
		memcpy(to->a.un.sun_path, path, n);
		to->len = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
		return;
	}
	to->a.in.sin_family = AF_INET;
	to->a.in.sin_port = big_endian(port);
	to->a.in.sin_addr.s_addr = LOOPBACK_BE;
	to->len = sizeof to->a.in;
}

static void set_loopback6(struct address *to, uint32_t port)
{
	memset(to, 0, sizeof *to);
	to->a.in6.sin6_family = AF_INET6;
	to->a.in6.sin6_port = big_endian(port);
	to->a.in6.sin6_addr.s6_addr[15] = 1;
	to->len = sizeof to->a.in6;
}

/* --- connections --- */

/* 0: connected; -EINPROGRESS: under way. */
static long dial(struct stream *s, const struct address *to)
{
	long fd = sys3(SYS_socket, to->a.any.sa_family, SOCK_STREAM | SOCK_FLAGS, 0), r;

	if (fd < 0)
		return fd;
	r = sys3(SYS_connect, fd, &to->a, to->len);
	if (r < 0 && r != -EINPROGRESS) {
		close_quietly((int)fd);
		return r;
	}
	s->source[0] = s->sink = (int)fd;
	s->connecting = r < 0;
	return r;
}

static void hang_up(struct stream *s, uint32_t error)
{
	stream_close_sink(s);
	stream_close_source(s, 0);
	if (!(s->has & ANSWER_RESULT))
		stream_result(s, error, 0);
}

static void connected(struct stream *s)
{
	s->connecting = false;
	stream_answer(s, ANSWER_BEGUN);
	stream_offer(s);
}

/* Both directions ended: the request did too. */
static void check_end(struct stream *s)
{
	if (!(s->has & ANSWER_RESULT) && s->source[0] < 0 && (s->sink < 0 || s->in.delivered))
		hang_up(s, 0);
}

static void finish_connecting(struct stream *s)
{
	uint32_t len = sizeof(int), port = s->parent;
	struct address other;
	int error = 0;
	long r;

	(void)sys5(SYS_getsockopt, s->sink, SOL_SOCKET, SO_ERROR, &error, &len);
	if (!error) {
		connected(s);
		return;
	}
	/* a server may listen on ::1 alone: parent is the port while that wasn't tried */
	if (error == ECONNREFUSED && port) {
		s->connecting = false;
		s->sink = -1;
		stream_close_source(s, 0);
		s->parent = 0;
		set_loopback6(&other, port);
		r = dial(s, &other);
		if (r == 0)
			connected(s);
		if (r == 0 || r == -EINPROGRESS)
			return;
	}
	hang_up(s, (uint32_t)error);
}

static void ready(struct stream *s, unsigned slot, uint32_t events)
{
	uint32_t error = 0;

	(void)slot;
	if (s->connecting) {
		finish_connecting(s);
		stream_watch(s);
		return;
	}
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		stream_offer(s);
	for (int i = 0; i < PUMP_PER_TURN && stream_pump(s, 0, &error); i++)
		;
	if (error)
		hang_up(s, error);
	else
		check_end(s);
	stream_watch(s);
}

static void room(struct stream *s)
{
	stream_watch(s);
}

static size_t take(struct stream *s, const uint8_t *p, size_t n)
{
	size_t taken = stream_take_sink(s, p, n);

	check_end(s);
	return taken;
}

static void take_end(struct stream *s)
{
	if (s->sink >= 0)
		(void)sys2(SYS_shutdown, s->sink, SHUT_WR);
	check_end(s);
}

bool forward_dial(const struct wire_frame *f)
{
	struct address to;
	struct wire_dial m;
	struct stream *s;
	long r;

	if (!wire_get_dial(f, &m))
		return false;
	if (!(s = request_new(f, &dial_ops)))
		return true;
	set_address(&to, m.kind, m.port, m.rest, m.rest_len);
	s->parent = m.port;
	r = dial(s, &to);
	if (r == 0)
		connected(s);
	else if (r != -EINPROGRESS)
		hang_up(s, (uint32_t)-r);
	stream_watch(s);
	return true;
}

/* --- listeners --- */

static void accept_one(struct stream *listener, int fd)
{
	struct stream *s;

	do
		next_number = (next_number + 1) & (WIRE_GUEST_STREAM - 1);
	while (stream_find(next_number | WIRE_GUEST_STREAM));
	s = stream_new(next_number | WIRE_GUEST_STREAM, &dial_ops);
	if (!s) {
		close_quietly(fd);
		return;
	}
	s->source[0] = s->sink = fd;
	s->parent = listener->number;
	stream_answer(s, ANSWER_INCOMING);
	stream_watch(s);
}

static void listener_ready(struct stream *s, unsigned slot, uint32_t events)
{
	(void)slot;
	(void)events;
	for (int i = 0; i < ACCEPT_PER_TURN; i++) {
		long fd = sys4(SYS_accept4, s->source[0], 0, 0, SOCK_FLAGS);

		if (fd < 0)
			return;
		accept_one(s, (int)fd);
	}
}

/* A socket's name outlives it: the one that we made goes, if it is there still. */
static void close_listener(struct stream *s)
{
	const struct address *a = s->memory;
	struct stat st;

	if (a && s->source[0] >= 0 && stat_at(AT_FDCWD, a->a.un.sun_path, &st) == 0 &&
		st.st_ino == s->position && st.st_dev == s->left)
		(void)sys3(SYS_unlinkat, AT_FDCWD, a->a.un.sun_path, 0);
}

static long open_listener(struct stream *s, const struct wire_listen *m)
{
	struct address at;
	struct stat st;
	long fd, r;
	int one = 1;

	set_address(&at, m->kind, m->port, m->rest, m->rest_len);
	fd = sys3(SYS_socket, at.a.any.sa_family, SOCK_STREAM | SOCK_FLAGS, 0);
	if (fd < 0)
		return fd;
	if (m->kind == WIRE_NET_TCP)
		(void)sys5(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	r = sys3(SYS_bind, fd, &at.a, at.len);
	if (r == 0)
		r = sys2(SYS_listen, fd, BACKLOG);
	if (r < 0) {
		close_quietly((int)fd);
		return r;
	}
	s->source[0] = (int)fd;
	if (m->kind == WIRE_NET_UNIX && stat_at(AT_FDCWD, at.a.un.sun_path, &st) == 0 &&
		stream_memory(s, sizeof at)) {
		memcpy(s->memory, &at, sizeof at);
		s->position = st.st_ino;
		s->left = st.st_dev;
	}
	at.len = sizeof at.a;
	if (m->kind == WIRE_NET_TCP && sys3(SYS_getsockname, fd, &at.a, &at.len) == 0)
		s->value_begun = big_endian(at.a.in.sin_port);
	return 0;
}

bool forward_listen(const struct wire_frame *f)
{
	struct wire_listen m;
	struct stream *s;
	long r;

	if (!wire_get_listen(f, &m))
		return false;
	if (!(s = request_new(f, &listen_ops)))
		return true;
	r = open_listener(s, &m);
	if (r < 0) {
		stream_result(s, (uint32_t)-r, 0);
		return true;
	}
	stream_answer(s, ANSWER_BEGUN);
	stream_watch(s);
	return true;
}
