/* The framing of an attached stream without a terminal: {u8 stream, u8 0, u8 0, u8 0, u32 big-endian length}, then so many
 * bytes.  Docker's documentation calls it multiplexed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	MULTIPLEX_HEAD = 8,
	MULTIPLEX_FRAME = 16 << 20, /* longest: a daemon sends what one read gave it, some 32 KiB */
};

/* Zeroed at the beginning of a stream. */
struct multiplex {
	uint8_t head[MULTIPLEX_HEAD];
	size_t head_n;
	uint32_t left; /* of the frame that is under way */
	bool bad;      /* sticky */
};

/* Decodes n bytes in place: the payload of standard output is moved to the front of p, everything else is dropped.
 * Returns how much there is.  What is not this framing sets m->bad and is dropped with all that follows. */
size_t multiplex_decode(struct multiplex *m, uint8_t *p, size_t n);

/* True where a stream may end: between two frames. */
bool multiplex_whole(const struct multiplex *m);
