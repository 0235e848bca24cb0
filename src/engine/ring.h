/* Bytes of a stream that the other side may still ask for again: [base, base + len). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_MAX = 8 << 20 };

struct ring {
	uint8_t *mem;
	size_t cap, start, len; /* cap: a power of two, or 0 */
	uint64_t base;          /* bytes that were dropped before */
};

void ring_done(struct ring *r);
/* false: over RING_MAX, or no memory. */
bool ring_put(struct ring *r, const uint8_t *p, size_t n);
/* The bytes from `from` (base at least) that lie in one piece. */
size_t ring_peek(const struct ring *r, uint64_t from, const uint8_t **ret);
/* Forgets all before `end`, base + len at most; an empty ring has no memory. */
void ring_drop(struct ring *r, uint64_t end);
