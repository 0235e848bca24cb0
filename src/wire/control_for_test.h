/* For test programs that play a guest: reading what the owner says.  Not part of any program that is installed. */
#pragma once
#include <string.h>
#include <sys/socket.h>

#include "wire/wire.h"

/* One frame of the owner's (of at most 512 bytes) and the descriptor that came with it, if any; false at the end.  The
 * frame's body is valid until the next call. */
static inline bool control_frame(int fd, struct wire_frame *f, int *ret_fd)
{
	static uint8_t in[512];
	static size_t have, used;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;

	memmove(in, in + used, have - used);
	have -= used;
	used = 0;
	while (wire_parse(in, have, WIRE_FROM_HOST, f, &used) != WIRE_OK) {
		struct iovec iov = { in + have, sizeof in - have };
		struct msghdr m = { .msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof control.bytes };
		const ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);

		if (n <= 0)
			return false;
		have += (size_t)n;
		if (m.msg_controllen)
			memcpy(ret_fd, CMSG_DATA(&control.align), sizeof *ret_fd);
	}
	return true;
}
