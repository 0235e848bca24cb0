/* Owns the maps of files with holes: where their data belong.  Called by the reader. */
#include "archive/format.h"
#include "archive/reader.h"

enum { MAX_DIGITS = 19, W_HALF = W_SPARSE / 2 };

static enum archive_cause add(struct archive_reader *r, uint64_t offset, uint64_t bytes)
{
	uint64_t end = 0;

	if (r->n_ranges) {
		const struct archive_range *last = &r->ranges[r->n_ranges - 1];

		end = last->offset + last->length;
	}
	/* both are below 2^62 */
	if (offset < end || offset + bytes > r->entry.size)
		return ARCHIVE_BAD_SPARSE;
	if (!bytes) /* GNU tar marks the end of the file so */
		return ARCHIVE_CAUSE_NONE;
	if (r->n_ranges == ARCHIVE_MAX_RANGES)
		return ARCHIVE_TOO_MANY;
	r->ranges[r->n_ranges++] = (struct archive_range){ offset, bytes };
	return ARCHIVE_CAUSE_NONE;
}

enum archive_cause archive_old_map(struct archive_reader *r, const uint8_t *at, unsigned pieces)
{
	for (unsigned i = 0; i < pieces; i++, at += W_SPARSE) {
		uint64_t offset, bytes;
		enum archive_cause c;

		if (!at[0] || !at[W_HALF]) /* an unused place */
			continue;
		if (!archive_field(at, W_HALF, &offset) ||
			!archive_field(at + W_HALF, W_HALF, &bytes))
			return ARCHIVE_BAD_NUMBER;
		if ((c = add(r, offset, bytes)))
			return c;
	}
	return ARCHIVE_CAUSE_NONE;
}

/* The map of 1.0 is text: how many pieces, then the offset and length of each, a newline behind every number.  map_numbers is
 * how many numbers are still to come, plus one before the first. */
static enum archive_cause number(struct archive_reader *r)
{
	if (!r->sparse_ready) {
		if (r->number > ARCHIVE_MAX_RANGES + 1)
			return ARCHIVE_TOO_MANY;
		r->map_numbers = 2 * (uint32_t)r->number;
		r->sparse_ready = true;
		return ARCHIVE_CAUSE_NONE;
	}
	if (--r->map_numbers & 1) {
		r->sparse_size = r->number;
		return ARCHIVE_CAUSE_NONE;
	}
	return add(r, r->sparse_size, r->number);
}

static enum archive_cause map_byte(struct archive_reader *r, uint8_t c)
{
	enum archive_cause cause;

	if (c == '\n' && r->map_digits) {
		cause = number(r);
		r->number = 0;
		r->map_digits = 0;
		return cause;
	}
	if (c < '0' || c > '9' || r->map_digits == MAX_DIGITS || r->number >= 1ull << 58)
		return ARCHIVE_BAD_SPARSE;
	r->number = r->number * 10 + (uint64_t)(c - '0');
	r->map_digits++;
	return ARCHIVE_CAUSE_NONE;
}

enum archive_cause archive_map_feed(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	enum archive_cause c = ARCHIVE_CAUSE_NONE;

	while (*n && !c && !(r->sparse_ready && !r->map_numbers)) {
		if (!r->left)
			return ARCHIVE_BAD_SPARSE;
		c = map_byte(r, **p);
		(*p)++;
		(*n)--;
		r->map_bytes++;
		r->left--;
	}
	return c;
}

enum archive_cause archive_map_check(const struct archive_reader *r)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->n_ranges; i++)
		sum += r->ranges[i].length; /* apart and below 2^62: no overflow */
	return sum == r->left ? ARCHIVE_CAUSE_NONE : ARCHIVE_BAD_SPARSE;
}
