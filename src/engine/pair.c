/* Owns the pair of sockets between owner and channel.  Called by both.  Must hold: neither waits for the other, and a message
 * of the wrong size ends the pair: the channel reads what guests and clients say, so the owner trusts it with nothing. */
#include "engine/pair.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/str.h"

enum { HEAD = offsetof(struct pair_message, text) };

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int pair_make(int ret[2], struct err *e)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a pair of sockets");
	return 0;
}

int pair_send(int sock, const struct pair_message *m, int fd)
{
	union {
		const struct pair_message *in;
		void *out;
	} p = { .in = m };
	union control control = { .bytes = { 0 } };
	struct iovec iov = { p.out, HEAD + m->text_len };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		h.msg_control = control.bytes;
		h.msg_controllen = sizeof control.bytes;
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
	}
	do
		n = sendmsg(sock, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

static void take_fds(struct msghdr *h, int *ret_fd)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		int fd;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof fd; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (*ret_fd < 0)
				*ret_fd = fd;
			else
				(void)close_fd(fd);
		}
	}
}

int pair_receive(int sock, struct pair_message *m, int *ret_fd)
{
	union control control;
	struct iovec iov = { m, sizeof *m };
	struct msghdr h = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	ssize_t n;

	*ret_fd = -1;
	do
		n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (n == 0)
		return -1;
	take_fds(&h, ret_fd);
	if (n < HEAD || m->text_len > PAIR_TEXT || (size_t)n != HEAD + m->text_len ||
		h.msg_flags & MSG_TRUNC) {
		*ret_fd = close_fd(*ret_fd);
		return -1;
	}
	return 1;
}

static uint32_t put_text(char *out, uint32_t cap, const char *text, uint32_t most)
{
	size_t n = text ? strnlen(text, most) : 0;

	if (n + 1 > cap)
		n = cap ? cap - 1 : 0;
	if (n)
		memcpy(out, text, n);
	if (cap)
		out[n] = '\0';
	return cap ? (uint32_t)n + 1 : 0;
}

uint32_t pair_put_error(char *out, uint32_t cap, const struct err *e)
{
	uint32_t n = put_text(out, cap, reason_name(e->reason), 64);

	n += put_text(out + n, cap - n, e->message, 2048);
	return n + put_text(out + n, cap - n, err_get_remedy(e), 1024);
}
