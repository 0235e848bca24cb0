/* Owns the bytes that were sent and not acknowledged.  Called by the channel's streams. */
#include "engine/ring.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 16 << 10, KEEP = 512 << 10 };

void ring_done(struct ring *r)
{
	free(r->mem);
	*r = (struct ring){ .base = r->base };
}

static bool grow(struct ring *r, size_t need)
{
	size_t cap = r->cap ? r->cap : FIRST_CAP, tail;
	uint8_t *mem;

	while (cap < need)
		cap *= 2;
	if (cap == r->cap)
		return true;
	mem = malloc(cap);
	if (!mem)
		return false;
	tail = r->cap - r->start;
	if (r->len <= tail) {
		if (r->len)
			memcpy(mem, r->mem + r->start, r->len);
	} else {
		memcpy(mem, r->mem + r->start, tail);
		memcpy(mem + tail, r->mem, r->len - tail);
	}
	free(r->mem);
	r->mem = mem;
	r->cap = cap;
	r->start = 0;
	return true;
}

bool ring_put(struct ring *r, const uint8_t *p, size_t n)
{
	size_t at, part;

	if (!n)
		return true;
	if (n > RING_MAX - r->len || !grow(r, r->len + n))
		return false;
	at = (r->start + r->len) & (r->cap - 1);
	part = r->cap - at < n ? r->cap - at : n;
	memcpy(r->mem + at, p, part);
	memcpy(r->mem, p + part, n - part);
	r->len += n;
	return true;
}

size_t ring_peek(const struct ring *r, uint64_t from, const uint8_t **ret)
{
	const size_t skip = (size_t)(from - r->base);
	size_t at, n;

	if (skip >= r->len)
		return 0;
	at = (r->start + skip) & (r->cap - 1);
	n = r->len - skip;
	*ret = r->mem + at;
	return n < r->cap - at ? n : r->cap - at;
}

void ring_drop(struct ring *r, uint64_t end)
{
	const size_t n = (size_t)(end - r->base);

	r->base = end;
	r->len -= n;
	if (r->len) {
		r->start = (r->start + n) & (r->cap - 1);
		return;
	}
	r->start = 0;
	if (r->cap > KEEP)
		ring_done(r);
}
