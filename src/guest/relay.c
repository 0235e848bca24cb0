/* The relay: bytes between 127.0.0.1:4000 and the model's socket, so that unmodified agent CLIs, which only speak TCP,
 * work with a base URL.  It reads nothing of what it carries.
 *
 * Lives in PID 1's loop and not in a process of its own, since the workload could kill that where both share a uid.  A
 * connection holds two fixed buffers; a reader that stops only stops its own connection. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "guest/guest.h"
#include "guest/sys.h"

enum {
	SOCK_FLAGS = SOCK_CLOEXEC | SOCK_NONBLOCK,
	LOOPBACK_BE = 0x0100007f, /* 127.0.0.1 in network byte order */
};

/* One direction: bytes read from one side and not yet written to the other. */
struct flow {
	size_t start, end;
	bool read_eof, sent_eof;
	uint8_t data[RELAY_BUFFER];
};

struct pair {
	int tcp, unix_fd; /* tcp -1: free; unix_fd -1: waiting for the socket to have room */
	struct flow up, down;
};

static struct {
	int listener;
	struct relay_ids ids;
	struct pair pairs[RELAY_MAX];
	/* which pair and side each polled entry belongs to */
	struct {
		struct pair *pair;
		bool is_tcp;
	} polled[RELAY_MAX_POLL];
} r;

static const struct sockaddr_un socket_address = { .sun_family = AF_UNIX,
	.sun_path = RELAY_SOCKET };

long relay_open(struct relay_ids ids)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = (RELAY_PORT & 0xff) << 8 | RELAY_PORT >> 8,
		.sin_addr.s_addr = LOOPBACK_BE,
	};
	int one = 1;
	long e;

	r.ids = ids;
	for (size_t i = 0; i < RELAY_MAX; i++)
		r.pairs[i].tcp = r.pairs[i].unix_fd = -1;
	r.listener = (int)sys3(SYS_socket, AF_INET, SOCK_STREAM | SOCK_FLAGS, 0);
	if (r.listener < 0)
		return r.listener;
	(void)sys5(SYS_setsockopt, r.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	e = sys3(SYS_bind, r.listener, &a, sizeof a);
	return e < 0 ? e : sys2(SYS_listen, r.listener, RELAY_MAX);
}

/* Dials as the workload: the socket's permissions are judged for it, not for the guest's uid. */
static int dial(void)
{
	int fd = (int)sys3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_FLAGS, 0);
	long e;

	if (fd < 0)
		return fd;
	if (!r.ids.standing) {
		(void)sys1(SYS_setfsgid, r.ids.gid);
		(void)sys1(SYS_setfsuid, r.ids.uid);
	}
	e = sys3(SYS_connect, fd, &socket_address, sizeof socket_address);
	if (!r.ids.standing) {
		(void)sys1(SYS_setfsuid, 0);
		(void)sys1(SYS_setfsgid, 0);
		guest_arm_parent_death();
	}
	if (e < 0) {
		(void)sys1(SYS_close, fd);
		return (int)e;
	}
	return fd;
}

static void end_pair(struct pair *p)
{
	if (p->tcp >= 0)
		(void)sys1(SYS_close, p->tcp);
	if (p->unix_fd >= 0)
		(void)sys1(SYS_close, p->unix_fd);
	p->tcp = p->unix_fd = -1;
}

/* EAGAIN: the listener's backlog is full, try again at the next turn. */
static void connect_pair(struct pair *p)
{
	int fd = dial();

	if (fd >= 0)
		p->unix_fd = fd;
	else if (fd != -EAGAIN)
		end_pair(p);
}

static struct pair *free_pair(void)
{
	for (size_t i = 0; i < RELAY_MAX; i++)
		if (r.pairs[i].tcp < 0)
			return &r.pairs[i];
	return NULL;
}

static void accept_one(void)
{
	struct pair *p = free_pair();
	int fd;

	if (!p)
		return;
	fd = (int)sys4(SYS_accept4, r.listener, 0, 0, SOCK_FLAGS);
	if (fd < 0)
		return;
	p->tcp = fd;
	p->unix_fd = -1;
	p->up.start = p->up.end = p->down.start = p->down.end = 0;
	p->up.read_eof = p->up.sent_eof = p->down.read_eof = p->down.sent_eof = false;
	connect_pair(p);
}

static short wanted(const struct flow *in, const struct flow *out)
{
	short events = 0;

	if (!in->read_eof && in->end < RELAY_BUFFER)
		events |= POLLIN;
	if (out->start < out->end)
		events |= POLLOUT;
	return events;
}

size_t relay_poll(struct pollfd *fds)
{
	size_t n = 0;

	if (free_pair()) {
		r.polled[n].pair = NULL;
		fds[n++] = (struct pollfd){ .fd = r.listener, .events = POLLIN };
	}
	for (struct pair *p = r.pairs; p < r.pairs + RELAY_MAX; p++) {
		if (p->tcp < 0)
			continue;
		if (p->unix_fd < 0)
			connect_pair(p);
		if (p->unix_fd < 0)
			continue;
		r.polled[n].pair = p;
		r.polled[n].is_tcp = true;
		fds[n++] = (struct pollfd){ .fd = p->tcp, .events = wanted(&p->up, &p->down) };
		r.polled[n].pair = p;
		r.polled[n].is_tcp = false;
		fds[n++] = (struct pollfd){ .fd = p->unix_fd, .events = wanted(&p->down, &p->up) };
	}
	return n;
}

bool relay_waiting(void)
{
	for (const struct pair *p = r.pairs; p < r.pairs + RELAY_MAX; p++)
		if (p->tcp >= 0 && p->unix_fd < 0)
			return true;
	return false;
}

/* Reads once from `from` and writes what there is to `to`; false ends the pair. */
static bool pump(struct flow *f, int from, int to, bool readable, bool writable)
{
	long n;

	if (readable && !f->read_eof && f->end < RELAY_BUFFER) {
		n = sys3(SYS_read, from, f->data + f->end, RELAY_BUFFER - f->end);
		if (n == 0)
			f->read_eof = true;
		else if (n > 0)
			f->end += (size_t)n;
		else if (n != -EAGAIN && n != -EINTR)
			return false;
	}
	if ((writable || readable) && f->start < f->end) {
		n = sys6(SYS_sendto, to, SYS_ARG(f->data + f->start), SYS_ARG(f->end - f->start),
			MSG_NOSIGNAL, 0, 0);
		if (n > 0)
			f->start += (size_t)n;
		else if (n != -EAGAIN && n != -EINTR)
			return false;
	}
	if (f->start == f->end)
		f->start = f->end = 0;
	if (f->read_eof && f->end == 0 && !f->sent_eof) {
		(void)sys2(SYS_shutdown, to, SHUT_WR);
		f->sent_eof = true;
	}
	return true;
}

void relay_serve(const struct pollfd *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pair *p = r.polled[i].pair;
		short got = fds[i].revents;
		bool in = got & (POLLIN | POLLHUP | POLLERR), out = got & (POLLOUT | POLLERR),
		     alive;

		if (!got)
			continue;
		if (!p) {
			accept_one();
			continue;
		}
		if (p->tcp < 0)
			continue; /* ended earlier in this turn */
		if (r.polled[i].is_tcp)
			alive = pump(&p->up, p->tcp, p->unix_fd, in, false) &&
				pump(&p->down, p->unix_fd, p->tcp, false, out);
		else
			alive = pump(&p->down, p->unix_fd, p->tcp, in, false) &&
				pump(&p->up, p->tcp, p->unix_fd, false, out);
		if (!alive || (p->up.sent_eof && p->down.sent_eof))
			end_pair(p);
	}
}
