/* Owns the form in which Bailey writes archives: ustar, with a pax header in front where ustar can't say it.  Called by the
 * guest (files out), by tree readers and by the worker that lists changes.  Holes are GNU sparse 1.0, which GNU tar, libarchive
 * and Python read. */
#include "archive/archive.h"
#include "archive/format.h"
#include "archive/reader.h"

enum {
	SECOND = 1000000000,
	MAP_NUMBER = 21, /* a decimal number and its newline */
};

struct writer {
	uint8_t *out;
	size_t len;
	const struct archive_entry *e;
	size_t name_len, link_len;
	bool slash; /* goes behind the name */
	const struct archive_range *ranges;
	size_t n_ranges;
	uint64_t stored;
};

static size_t length(const char *s)
{
	size_t n = 0;

	while (s && s[n] && n <= ARCHIVE_MAX_NAME)
		n++;
	return n;
}

static void copy(uint8_t *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)from[i];
}

static void put_octal(uint8_t *field, size_t width, uint64_t v)
{
	field[width - 1] = 0;
	for (size_t i = width - 1; i-- > 0; v >>= 3)
		field[i] = (uint8_t)('0' + (v & 7));
}

/* Octal, or base 256 as GNU has it, which all readers know. */
static void put_number(uint8_t *field, size_t width, uint64_t v)
{
	if (!(v >> (3 * (width - 1)))) {
		put_octal(field, width, v);
		return;
	}
	for (size_t i = width; i-- > 1; v >>= 8)
		field[i] = (uint8_t)v;
	field[0] = 0x80;
}

static unsigned decimal(char *to, uint64_t v)
{
	char back[20];
	unsigned n = 0;

	do
		back[n++] = (char)('0' + v % 10);
	while (v /= 10);
	for (unsigned i = 0; i < n; i++)
		to[i] = back[n - 1 - i];
	return n;
}

static void put_text(struct writer *w, const char *s, size_t n)
{
	copy(w->out + w->len, s, n);
	w->len += n;
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static void put_record(struct writer *w, const char *key, const char *value, size_t n, bool slash)
{
	size_t body = length(key) + n + (slash ? 1 : 0) + 3, total = body;
	char digits[20];
	unsigned k;

	do {
		k = decimal(digits, total);
		total = body + k;
	} while (decimal(digits, total) != k);
	put_text(w, digits, k);
	put_text(w, " ", 1);
	put_text(w, key, length(key));
	put_text(w, "=", 1);
	put_text(w, value, n);
	if (slash)
		put_text(w, "/", 1);
	put_text(w, "\n", 1);
}

static void put_number_record(struct writer *w, const char *key, uint64_t v)
{
	char digits[20];

	put_record(w, key, digits, decimal(digits, v), false);
}

static void put_time_record(struct writer *w)
{
	bool negative = w->e->mtime_ns < 0;
	uint64_t v = negative ? -(uint64_t)w->e->mtime_ns : (uint64_t)w->e->mtime_ns;
	uint64_t fraction = v % SECOND;
	char text[40];
	unsigned n = 0, digits = 9;

	if (negative)
		text[n++] = '-';
	n += decimal(text + n, v / SECOND);
	if (fraction) {
		text[n++] = '.';
		for (uint64_t unit = SECOND / 10; digits; unit /= 10, digits--)
			text[n++] = (char)('0' + fraction / unit % 10);
		while (text[n - 1] == '0')
			n--;
	}
	put_record(w, "mtime", text, n, false);
}

static bool is_continuation(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

/* Good enough to say hdrcharset=BINARY: overlong forms and surrogates pass. */
static bool is_utf8(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint8_t c = (uint8_t)s[i++];
		unsigned more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;

		if ((c >= 0x80 && c < 0xc2) || c > 0xf4)
			return false;
		for (; more; more--, i++)
			if (i == n || !is_continuation((uint8_t)s[i]))
				return false;
	}
	return true;
}

/* Where ustar's prefix ends: 0 when the name fits without one, -1 when it doesn't fit. */
static long split_name(const struct writer *w)
{
	size_t n = w->name_len + (w->slash ? 1 : 0);

	if (n <= W_NAME)
		return 0;
	if (n > W_PREFIX + 1 + W_NAME)
		return -1;
	for (size_t i = n - W_NAME - 1; i <= W_PREFIX && i + 1 < w->name_len; i++)
		if (i && w->e->name[i] == '/')
			return (long)i;
	return -1;
}

static void finish_block(uint8_t *b)
{
	uint32_t sum = 0;

	copy(b + F_MAGIC, "ustar\00000", W_MAGIC);
	for (size_t i = 0; i < W_SUM; i++)
		b[F_SUM + i] = ' ';
	for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
		sum += b[i];
	put_octal(b + F_SUM, W_SUM - 1, sum);
}

static void zero(struct writer *w, size_t n)
{
	while (n--)
		w->out[w->len++] = 0;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool time_fits(int64_t ns)
{
	return ns >= 0 && ns % SECOND == 0 && ns / SECOND < 1LL << 33;
}

static void put_pax_records(struct writer *w, bool name_fits)
{
	const struct archive_entry *e = w->e;
	bool long_name = !name_fits || w->ranges, long_link = w->link_len > W_LINK;

	if ((long_name && !is_utf8(e->name, w->name_len)) ||
		(long_link && !is_utf8(e->link, w->link_len)))
		put_record(w, "hdrcharset", "BINARY", 6, false);
	if (w->ranges) {
		put_record(w, "GNU.sparse.major", "1", 1, false);
		put_record(w, "GNU.sparse.minor", "0", 1, false);
		put_record(w, "GNU.sparse.name", e->name, w->name_len, false);
		put_number_record(w, "GNU.sparse.realsize", e->size);
	} else if (long_name) {
		put_record(w, "path", e->name, w->name_len, w->slash);
	}
	if (long_link)
		put_record(w, "linkpath", e->link, w->link_len, false);
	if (w->stored >> 33)
		put_number_record(w, "size", w->stored);
	if (e->uid >> 21)
		put_number_record(w, "uid", e->uid);
	if (e->gid >> 21)
		put_number_record(w, "gid", e->gid);
	if (!time_fits(e->mtime_ns))
		put_time_record(w);
}

static void finish_pax(uint8_t *b, size_t body, char type)
{
	put_octal(b + F_MODE, W_ID, 0644);
	put_octal(b + F_UID, W_ID, 0);
	put_octal(b + F_GID, W_ID, 0);
	put_octal(b + F_SIZE, W_SIZE, body);
	put_octal(b + F_MTIME, W_SIZE, 0);
	b[F_TYPE] = (uint8_t)type;
	finish_block(b);
}

/* Room for the pax header is left first, since its length is known last. */
static void put_pax(struct writer *w, bool name_fits)
{
	size_t start = w->len, body;
	uint8_t *b;

	zero(w, ARCHIVE_BLOCK);
	put_pax_records(w, name_fits);
	body = w->len - start - ARCHIVE_BLOCK;
	if (!body) {
		w->len = start;
		return;
	}
	zero(w, archive_padding(body));
	b = w->out + start;
	copy(b + F_NAME, "PaxHeaders/", 11);
	copy(b + F_NAME + 11, w->e->name, min_size(w->name_len, W_NAME - 11));
	finish_pax(b, body, 'x');
}

static void put_name(uint8_t *b, const struct writer *w, long split)
{
	const char *name = w->e->name;
	size_t n = w->name_len;

	if (w->ranges) {
		copy(b + F_NAME, "GNUSparseFile.0/", 16);
		copy(b + F_NAME + 16, name, min_size(n, W_NAME - 16));
		return;
	}
	if (split > 0) {
		copy(b + F_PREFIX, name, (size_t)split);
		name += split + 1;
		n -= (size_t)split + 1;
	}
	copy(b + F_NAME, name, min_size(n, W_NAME));
	if (w->slash && n < W_NAME)
		b[F_NAME + n] = '/';
}

static void put_header(struct writer *w, long split)
{
	static const char types[] = { [ARCHIVE_FILE] = '0',
		[ARCHIVE_DIR] = '5',
		[ARCHIVE_SYMLINK] = '2',
		[ARCHIVE_HARDLINK] = '1',
		[ARCHIVE_FIFO] = '6',
		[ARCHIVE_CHAR] = '3',
		[ARCHIVE_BLOCK_DEVICE] = '4' };
	const struct archive_entry *e = w->e;
	uint8_t *b = w->out + w->len;
	bool device = e->type == ARCHIVE_CHAR || e->type == ARCHIVE_BLOCK_DEVICE;

	zero(w, ARCHIVE_BLOCK);
	put_name(b, w, split);
	put_octal(b + F_MODE, W_ID, e->mode & 07777);
	put_number(b + F_UID, W_ID, e->uid);
	put_number(b + F_GID, W_ID, e->gid);
	put_number(b + F_SIZE, W_SIZE, w->stored);
	put_octal(b + F_MTIME, W_SIZE, e->mtime_ns > 0 ? (uint64_t)e->mtime_ns / SECOND : 0);
	b[F_TYPE] = (uint8_t)types[e->type];
	copy(b + F_LINK, e->link, min_size(w->link_len, W_LINK));
	put_octal(b + F_MAJOR, W_ID, device ? e->major : 0);
	put_octal(b + F_MINOR, W_ID, device ? e->minor : 0);
	finish_block(b);
}

static size_t map_size(const struct writer *w)
{
	char digits[20];
	size_t n = decimal(digits, w->n_ranges) + 1u;

	for (size_t i = 0; i < w->n_ranges; i++)
		n += decimal(digits, w->ranges[i].offset) + 1u +
			decimal(digits, w->ranges[i].length) + 1u;
	return n + archive_padding(n);
}

static void put_map(struct writer *w)
{
	size_t start = w->len;
	char line[MAP_NUMBER];
	unsigned n;

	n = decimal(line, w->n_ranges);
	line[n++] = '\n';
	put_text(w, line, n);
	for (size_t i = 0; i < 2 * w->n_ranges; i++) {
		const struct archive_range *r = &w->ranges[i / 2];

		n = decimal(line, i & 1 ? r->length : r->offset);
		line[n++] = '\n';
		put_text(w, line, n);
	}
	zero(w, archive_padding(w->len - start));
}

/* Sums what will be stored; false when the ranges overlap or lie outside. */
static bool measure(struct writer *w)
{
	uint64_t end = 0;

	if (!w->ranges) {
		w->stored = w->e->size;
		return true;
	}
	if (w->e->type != ARCHIVE_FILE || w->n_ranges > ARCHIVE_MAX_RANGES)
		return false;
	for (size_t i = 0; i < w->n_ranges; i++) {
		const struct archive_range *r = &w->ranges[i];

		if (r->offset < end || r->offset > w->e->size || r->length > w->e->size - r->offset)
			return false;
		end = r->offset + r->length;
		w->stored += r->length;
	}
	w->stored += map_size(w);
	return true;
}

static bool valid_entry(const struct writer *w)
{
	const struct archive_entry *e = w->e;
	bool link = e->type == ARCHIVE_SYMLINK || e->type == ARCHIVE_HARDLINK;

	return (unsigned)e->type <= ARCHIVE_BLOCK_DEVICE && w->name_len &&
		w->name_len + (w->slash ? 1 : 0) <= ARCHIVE_MAX_NAME &&
		w->link_len <= ARCHIVE_MAX_NAME && link == (w->link_len > 0) &&
		e->uid <= ARCHIVE_MAX_ID && e->gid <= ARCHIVE_MAX_ID && e->major < 1u << 21 &&
		e->minor < 1u << 21 && e->size < 1ull << 62 &&
		(e->type == ARCHIVE_FILE || e->size == 0);
}

size_t archive_put(uint8_t *out, size_t cap, const struct archive_entry *e,
	const struct archive_range *ranges, size_t n_ranges)
{
	struct writer w = { .out = out, .e = e, .ranges = ranges, .n_ranges = n_ranges };
	long split;

	w.name_len = length(e->name);
	w.link_len = length(e->link);
	w.slash = e->type == ARCHIVE_DIR && w.name_len && e->name[w.name_len - 1] != '/';
	if (!valid_entry(&w) || !measure(&w) || cap < ARCHIVE_HEADER_CAP(ranges ? n_ranges : 0))
		return 0;
	split = split_name(&w);
	put_pax(&w, split >= 0);
	put_header(&w, split);
	if (ranges)
		put_map(&w);
	return w.len;
}

size_t archive_put_failure(uint8_t *out, size_t cap, const char *text, size_t n)
{
	struct writer w = { .out = out };
	size_t body;

	if (cap < ARCHIVE_FAILURE_CAP || n > ARCHIVE_MAX_FAILURE)
		return 0;
	zero(&w, ARCHIVE_BLOCK);
	put_record(&w, ARCHIVE_FAILED_KEY, text, n, false);
	body = w.len - ARCHIVE_BLOCK;
	zero(&w, archive_padding(body));
	copy(out + F_NAME, "PaxHeaders/failed", 17);
	finish_pax(out, body, 'g');
	return w.len;
}
