/* Owns the process: descriptor 3, one connection at a time, and the choice between truth and lie.
 * Started by an engine in bailey-guest's place; it ends with descriptor 3. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "hostile.h"

enum { CONTROL = WIRE_CONTROL_FD, BUFFER = 256 << 10 };

const struct lie *the_lie;
static uint8_t control_in[4096], peer_in[BUFFER];
static size_t control_have, peer_have;
static struct peer peer = { .fd = -1 };

static const struct lie *find_lie(const char *name)
{
	const struct lie *tables[] = { wire_lies, command_lies, file_lies, tar_lies };

	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct lie *l = tables[t]; l->name; l++)
			if (strcmp(l->name, name) == 0)
				return l;
	return NULL;
}

static int list_lies(void)
{
	const struct lie *tables[] = { wire_lies, command_lies, file_lies, tar_lies };

	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct lie *l = tables[t]; l->name; l++)
			(void)printf("%s\n", l->name);
	return 0;
}

void hang_up(struct peer *p)
{
	if (p->fd >= 0)
		(void)close(p->fd);
	p->fd = -1;
	peer_have = 0;
}

/* A connection that comes with a CONNECT takes the place of the one before. */
static void take_connection(int fd, uint64_t epoch)
{
	struct timeval patience = { .tv_sec = 5 };

	hang_up(&peer);
	peer = (struct peer){ .fd = fd, .epoch = epoch };
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static void obey_owner(const struct wire_frame *f, int fd)
{
	struct wire_hello hello;
	struct wire_connect m;
	struct peer owner = { .fd = CONTROL, .epoch = 1 };

	if (f->type == WIRE_HELLO && wire_get_hello(f, &hello)) {
		owner.epoch = hello.epoch;
		if (the_lie && the_lie->on == WIRE_NONE)
			the_lie->tell(&owner, f);
		else
			answer_hello(&owner);
	} else if (f->type == WIRE_CONNECT && wire_get_connect(f, &m) && fd >= 0) {
		take_connection(fd, m.epoch);
	}
}

/* Takes `used` bytes off the front of a buffer. */
static void consume(uint8_t *buffer, size_t *have, size_t used)
{
	memmove(buffer, buffer + used, *have - used);
	*have -= used;
}

static void read_owner(void)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} c = { .space = "" };
	struct iovec v = { control_in + control_have, sizeof control_in - control_have };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c
	};
	ssize_t n = recvmsg(CONTROL, &m, MSG_CMSG_CLOEXEC);
	struct wire_frame f;
	size_t used;
	int fd = -1;

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0)
		_exit(125); /* the owner is dead */
	if (m.msg_controllen >= sizeof c.header && c.header.cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(&c.header), sizeof fd);
	control_have += (size_t)n;
	while (wire_parse(control_in, control_have, WIRE_FROM_HOST, &f, &used) == WIRE_OK) {
		obey_owner(&f, fd);
		if (f.type == WIRE_CONNECT)
			fd = -1;
		consume(control_in, &control_have, used);
	}
	if (fd >= 0)
		(void)close(fd);
}

static void obey_channel(struct wire_frame *f)
{
	if (the_lie && the_lie->on == f->type)
		the_lie->tell(&peer, f);
	else
		answer(&peer, f);
}

static void read_peer(void)
{
	static uint8_t copy[WIRE_HEADER + WIRE_MAX_BODY];
	ssize_t n = read(peer.fd, peer_in + peer_have, sizeof peer_in - peer_have);
	enum wire_parsed r;
	struct wire_frame f;
	size_t used;

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		hang_up(&peer);
		return;
	}
	peer_have += (size_t)n;
	while ((r = wire_parse(peer_in, peer_have, WIRE_FROM_HOST, &f, &used)) == WIRE_OK) {
		/* what answers may end the connection, and with it the buffer */
		memcpy(copy, peer_in, used);
		f.body = copy + WIRE_HEADER;
		consume(peer_in, &peer_have, used);
		obey_channel(&f);
		if (peer.fd < 0)
			return;
	}
	if (r == WIRE_REFUSED)
		hang_up(&peer);
}

static void loop(void)
{
	for (;;) {
		struct pollfd fds[2] = { { .fd = CONTROL, .events = POLLIN },
			{ .fd = peer.fd, .events = POLLIN } };

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents)
			read_owner();
		else if (fds[1].revents)
			read_peer();
	}
}

int main(int argc, char **argv)
{
	const char *name = getenv("LIE");

	if (argc > 1 && strcmp(argv[1], "--list") == 0)
		return list_lies();
	(void)signal(SIGPIPE, SIG_IGN);
	if (name && *name && strcmp(name, "none") != 0) {
		the_lie = find_lie(name);
		if (!the_lie)
			return 3;
	}
	loop();
	return 0;
}
