/* A stream socket with frames on it, as the channel process keeps one for each client and for the guest. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/wire.h"

enum {
	SOCK_IN = 512 << 10,       /* bytes read at once, of all sockets in turn */
	SOCK_KEEP = 128 << 10,     /* memory kept between two batches while there is traffic */
	SOCK_FIELDS_MAX = 128,     /* header and fields of any frame */
	SOCK_OUT_MAX = 128u << 20, /* a batch that grows beyond ends the connection */
};

struct sock {
	int fd;        /* -1: none; owned */
	uint8_t *held; /* the beginning of a frame */
	size_t held_len;
	uint8_t *out;
	size_t start, end, cap;
	int pass_fd; /* goes with the byte at pass_at of out; owned; -1: none */
	size_t pass_at;
	uint32_t events; /* that epoll was told */
	bool failed;     /* nothing can be sent any more */
};

void sock_init(struct sock *s, int fd);
void sock_done(struct sock *s);

/* Bytes that wait to be sent. */
size_t sock_waiting(const struct sock *s);

/* Reads once behind what is held: *ret are *ret_n bytes in `in` (SOCK_IN + WIRE_MAX_BODY bytes).  1; 0 nothing now; -1 the
 * end. */
int sock_read(struct sock *s, uint8_t *in, size_t *ret_n);

/* Keeps the n bytes for the next read. */
bool sock_hold(struct sock *s, const uint8_t *p, size_t n);

/* Room for n bytes, or NULL (s->failed is then set). */
uint8_t *sock_reserve(struct sock *s, size_t n);
void sock_commit(struct sock *s, size_t n);

/* A descriptor for the frame that is reserved next; false when one waits already. */
bool sock_pass(struct sock *s, int fd);

/* Sends what goes without waiting; false when the connection is broken. */
bool sock_flush(struct sock *s);

/* Gives memory back that isn't in use. */
void sock_shrink(struct sock *s);

/* A frame whose body lies there already: copied. */
void sock_put_frame(struct sock *s, uint32_t type, uint32_t stream, const uint8_t *body, size_t n);

/* The same without a copy: the body stays as it is until sock_flush() of this socket, or of any other to which something was
 * lent after it; what didn't go by then is copied.  sock_settle() does that for whoever it is. */
void sock_lend_frame(struct sock *s, uint32_t type, uint32_t stream, const uint8_t *body, size_t n);
void sock_settle(void);

/* Encodes a frame at the end of what is to be sent; rest_n: bytes of its rest. */
#define sock_put_rest(s, name, rest_n, ...) \
	do { \
		const struct wire_##name put_m_ = { __VA_ARGS__ }; \
		const size_t put_max_ = SOCK_FIELDS_MAX + (rest_n); \
		uint8_t *put_out_ = sock_reserve((s), put_max_); \
\
		if (put_out_) \
			sock_commit((s), wire_put_##name(put_out_, put_max_, &put_m_)); \
	} while (0)
#define sock_put(s, name, ...) sock_put_rest(s, name, 0, __VA_ARGS__)
