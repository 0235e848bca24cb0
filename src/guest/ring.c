/* Owns the bytes of streams that are under way.  Called by streams.c alone.  Must hold: never more than WIRE_WINDOW bytes, and
 * an empty ring keeps no more memory than a little. */
#include <sys/mman.h>

#include "guest/session.h"

enum {
	KEEP = 256 << 10,
	SPARES = 4, /* rings that are kept for the next stream, if little of them was touched */
	SPARE_KEEP = 8 << 10,
};

static uint8_t *spare[SPARES];
static unsigned n_spare;

static uint8_t *new_ring(void)
{
	return n_spare ? spare[--n_spare] : map_memory(WIRE_WINDOW);
}

static uint32_t at(const struct ring *r, uint32_t skip)
{
	return (r->start + skip) & (WIRE_WINDOW - 1);
}

uint32_t ring_free_bytes(const struct ring *r)
{
	return WIRE_WINDOW - r->len;
}

uint32_t ring_space(struct ring *r, uint8_t **ret)
{
	uint32_t end = at(r, r->len);

	if (!r->mem && !(r->mem = new_ring()))
		return 0;
	*ret = r->mem + end;
	return min_u32(ring_free_bytes(r), WIRE_WINDOW - end);
}

void ring_filled(struct ring *r, uint32_t n)
{
	uint32_t end = at(r, r->len) + n;

	r->len += n;
	if (end > r->high)
		r->high = end;
}

bool ring_put(struct ring *r, const void *p, uint32_t n)
{
	const uint8_t *from = p;
	uint8_t *to;

	while (n) {
		uint32_t k = min_u32(ring_space(r, &to), n);

		if (!k)
			return false;
		memcpy(to, from, k);
		ring_filled(r, k);
		from += k;
		n -= k;
	}
	return true;
}

uint32_t ring_peek(const struct ring *r, uint32_t skip, const uint8_t **ret)
{
	uint32_t start = at(r, skip);

	if (skip >= r->len)
		return 0;
	*ret = r->mem + start;
	return min_u32(r->len - skip, WIRE_WINDOW - start);
}

void ring_drop(struct ring *r, uint32_t n)
{
	r->start = at(r, n);
	r->len -= n;
	if (r->len)
		return;
	r->start = 0;
	if (r->high > KEEP) {
		(void)sys3(SYS_madvise, r->mem, r->high, MADV_DONTNEED);
		r->high = 0;
	}
}

void ring_done(struct ring *r)
{
	if (r->mem && r->high <= SPARE_KEEP && n_spare < SPARES)
		spare[n_spare++] = r->mem;
	else if (r->mem)
		unmap_memory(r->mem, WIRE_WINDOW);
	*r = (struct ring){ .mem = NULL };
}
