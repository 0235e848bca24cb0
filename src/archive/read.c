/* Owns the reading of archives: from bytes in pieces of any size to entries and their data.  Called by the guest (files in), by
 * tree writers and by the fuzzer.  Must hold: every length is checked before it is used, a malformed archive is refused at the
 * first wrong byte and for good, and no archive has two readings. */
#include "archive/format.h"
#include "archive/reader.h"

static enum archive_event refuse(struct archive_reader *r, enum archive_cause c)
{
	r->state = READ_REFUSED;
	r->cause = c;
	return ARCHIVE_REFUSED;
}

/* What the extra headers said is for one entry. */
static void forget_extras(struct archive_reader *r)
{
	r->extras = 0;
	r->meta = (struct archive_meta){ .size = 0 };
	r->has_name = r->has_link = r->dropped = false;
	r->gnu_name = r->gnu_link = r->pax_seen = false;
	r->sparse_keys = 0;
	r->sparse_size = 0;
}

void archive_reader_init(struct archive_reader *r)
{
	r->entry = (struct archive_entry){ .name = r->name, .link = r->link };
	r->data = NULL;
	r->data_len = 0;
	r->offset = 0;
	r->cause = ARCHIVE_CAUSE_NONE;
	r->state = READ_HEADER;
	r->fill = 0;
	r->left = r->stored = 0;
	r->padding = 0;
	r->zeros = 0;
	r->any = false;
	r->defaults = (struct archive_meta){ .size = 0 };
	r->name[0] = r->link[0] = 0;
	r->n_ranges = r->range = 0;
	r->map_bytes = r->done = 0;
	forget_extras(r);
	archive_pax_begin(r, false);
}

/* --- a header --- */

static bool all_zero(const uint8_t *b)
{
	for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
		if (b[i])
			return false;
	return true;
}

static bool checksum_right(const uint8_t *b)
{
	uint64_t said;
	uint32_t sum = 0;

	for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
		sum += i >= F_SUM && i < F_TYPE ? ' ' : b[i];
	return !(b[F_SUM] & 0x80) && archive_field(b + F_SUM, W_SUM, &said) && said == sum;
}

/* Appends a field, which ends at a NUL or its width. */
static size_t take_field(char *to, size_t at, const uint8_t *from, size_t width)
{
	for (size_t i = 0; i < width && from[i]; i++)
		to[at++] = (char)from[i];
	to[at] = 0;
	return at;
}

static bool is_ustar(const uint8_t *b)
{
	static const char magic[] = "ustar";

	for (size_t i = 0; i < sizeof magic; i++)
		if (b[F_MAGIC + i] != (uint8_t)magic[i])
			return false;
	return true;
}

static void take_names(struct archive_reader *r)
{
	const uint8_t *b = r->block;
	size_t n = 0;

	if (!r->has_name) {
		/* old GNU keeps other things where ustar has the prefix */
		if (is_ustar(b) && b[F_PREFIX]) {
			n = take_field(r->name, n, b + F_PREFIX, W_PREFIX);
			r->name[n++] = '/';
		}
		(void)take_field(r->name, n, b + F_NAME, W_NAME);
	}
	if (!r->has_link)
		(void)take_field(r->link, 0, b + F_LINK, W_LINK);
}

static bool take_id(const uint8_t *field, bool has, uint32_t said, bool has_default, uint32_t dflt,
	uint32_t *ret)
{
	uint64_t v;

	if (has || has_default) {
		*ret = has ? said : dflt;
		return true;
	}
	if (!archive_field(field, W_ID, &v) || v > ARCHIVE_MAX_ID)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool take_device(const uint8_t *b, struct archive_entry *e)
{
	uint64_t major, minor;

	if (!archive_field(b + F_MAJOR, W_ID, &major) ||
		!archive_field(b + F_MINOR, W_ID, &minor) || major >> 31 || minor >> 31)
		return false;
	e->major = (uint32_t)major;
	e->minor = (uint32_t)minor;
	return true;
}

/* Everything but names and type. */
static bool take_numbers(struct archive_reader *r)
{
	const struct archive_meta *m = &r->meta, *d = &r->defaults;
	struct archive_entry *e = &r->entry;
	const uint8_t *b = r->block;
	uint64_t mode;

	if (!archive_field(b + F_MODE, W_ID, &mode) ||
		!take_id(b + F_UID, m->has_uid, m->uid, d->has_uid, d->uid, &e->uid) ||
		!take_id(b + F_GID, m->has_gid, m->gid, d->has_gid, d->gid, &e->gid))
		return false;
	e->mode = (uint32_t)mode & 07777; /* some archivers add the type's bits */
	if (m->has_mtime)
		e->mtime_ns = m->mtime_ns;
	else if (d->has_mtime)
		e->mtime_ns = d->mtime_ns;
	else if (!archive_time_field(b + F_MTIME, W_SIZE, &e->mtime_ns))
		return false;
	e->major = e->minor = 0;
	if (e->type == ARCHIVE_CHAR || e->type == ARCHIVE_BLOCK_DEVICE)
		return take_device(b, e);
	return true;
}

static bool ends_with_slash(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n && s[n - 1] == '/';
}

/* A file whose name ends in a slash is a directory of before 1988. */
static bool take_type(struct archive_reader *r)
{
	enum archive_type *t = &r->entry.type;

	switch (r->block[F_TYPE]) {
	case 0:
	case '0':
	case '7':
		*t = ends_with_slash(r->name) ? ARCHIVE_DIR : ARCHIVE_FILE;
		return true;
	case 'S':
		*t = ARCHIVE_FILE;
		return !is_ustar(r->block);
	case '1':
		*t = ARCHIVE_HARDLINK;
		return true;
	case '2':
		*t = ARCHIVE_SYMLINK;
		return true;
	case '3':
		*t = ARCHIVE_CHAR;
		return true;
	case '4':
		*t = ARCHIVE_BLOCK_DEVICE;
		return true;
	case '5':
		*t = ARCHIVE_DIR;
		return true;
	case '6':
		*t = ARCHIVE_FIFO;
		return true;
	default:
		return false;
	}
}

static enum archive_cause take_size(struct archive_reader *r)
{
	if (r->meta.has_size)
		r->stored = r->meta.size;
	else if (!archive_field(r->block + F_SIZE, W_SIZE, &r->stored))
		return ARCHIVE_BAD_NUMBER;
	if (r->entry.type != ARCHIVE_FILE && r->stored)
		return ARCHIVE_BAD_SIZE;
	r->left = r->stored;
	r->padding = (uint32_t)archive_padding(r->stored);
	r->entry.size = r->stored;
	r->entry.sparse = false;
	r->n_ranges = r->range = 0;
	r->done = 0;
	if (r->stored)
		r->ranges[r->n_ranges++] = (struct archive_range){ 0, r->stored };
	return ARCHIVE_CAUSE_NONE;
}

/* An old GNU header has the size and the first pieces of the map in it. */
static enum archive_cause begin_old_map(struct archive_reader *r)
{
	r->entry.sparse = true;
	r->n_ranges = 0;
	if (r->sparse_keys || !archive_field(r->block + F_REAL_SIZE, W_SIZE, &r->entry.size))
		return ARCHIVE_BAD_NUMBER;
	r->state = r->block[F_SPARSE_MORE] ? READ_OLD_MAP : READ_DATA;
	return archive_old_map(r, r->block + F_SPARSE, N_SPARSE);
}

static enum archive_cause begin_map(struct archive_reader *r)
{
	if (r->entry.type != ARCHIVE_FILE || (r->sparse_keys & SPARSE_NEEDED) != SPARSE_NEEDED)
		return ARCHIVE_BAD_SPARSE;
	r->entry.sparse = true;
	r->entry.size = r->sparse_size;
	r->n_ranges = 0;
	r->map_bytes = 0;
	r->number = 0;
	r->map_digits = r->map_numbers = 0;
	r->sparse_ready = false;
	r->state = READ_MAP;
	return ARCHIVE_CAUSE_NONE;
}

static enum archive_cause take_entry(struct archive_reader *r)
{
	struct archive_entry *e = &r->entry;
	enum archive_cause c;

	take_names(r);
	if (!take_type(r))
		return ARCHIVE_BAD_TYPE;
	if (!take_numbers(r))
		return ARCHIVE_BAD_NUMBER;
	if ((c = take_size(r)))
		return c;
	if (e->type != ARCHIVE_SYMLINK && e->type != ARCHIVE_HARDLINK)
		r->link[0] = 0;
	else if (!r->link[0])
		return ARCHIVE_LINK_EMPTY;
	if (!r->name[0])
		return ARCHIVE_NAME_EMPTY;
	e->dropped = r->dropped;
	r->state = READ_DATA;
	if (r->block[F_TYPE] == 'S')
		c = begin_old_map(r);
	else if (r->sparse_keys)
		c = begin_map(r);
	if (!c && r->state == READ_DATA && e->sparse)
		c = archive_map_check(r);
	forget_extras(r);
	return c;
}

/* --- extra headers --- */

static enum archive_cause begin_extra(struct archive_reader *r, uint8_t type)
{
	uint64_t size;

	if (++r->extras > ARCHIVE_MAX_EXTRAS)
		return ARCHIVE_TOO_MANY;
	if (!archive_field(r->block + F_SIZE, W_SIZE, &size))
		return ARCHIVE_BAD_NUMBER;
	if (size > ARCHIVE_MAX_EXTRA)
		return ARCHIVE_TOO_LONG;
	r->left = size;
	r->padding = (uint32_t)archive_padding(size);
	if (type == 'x' || type == 'g') {
		if (type == 'x' && r->pax_seen)
			return ARCHIVE_AMBIGUOUS;
		r->pax_seen = r->pax_seen || type == 'x';
		archive_pax_begin(r, type == 'g');
		r->state = READ_PAX;
		return ARCHIVE_CAUSE_NONE;
	}
	if (type == 'L' ? r->has_name : r->has_link)
		return ARCHIVE_AMBIGUOUS;
	if (size > ARCHIVE_MAX_NAME + 1)
		return ARCHIVE_TOO_LONG;
	r->value_len = 0;
	r->state = READ_LONG;
	return ARCHIVE_CAUSE_NONE;
}

/* A string and NULs behind it, nothing else. */
static enum archive_cause end_long(struct archive_reader *r)
{
	bool name = r->block[F_TYPE] == 'L';
	char *to = name ? r->name : r->link;
	uint32_t n = 0;

	while (n < r->value_len && r->value[n])
		n++;
	for (uint32_t i = n; i < r->value_len; i++)
		if (r->value[i])
			return ARCHIVE_BAD_LONG_NAME;
	if (!n || n > ARCHIVE_MAX_NAME)
		return n ? ARCHIVE_TOO_LONG : ARCHIVE_BAD_LONG_NAME;
	for (uint32_t i = 0; i < n; i++)
		to[i] = r->value[i];
	to[n] = 0;
	if (name)
		r->has_name = r->gnu_name = true;
	else
		r->has_link = r->gnu_link = true;
	return ARCHIVE_CAUSE_NONE;
}

/* --- states: each takes from the window; ARCHIVE_MORE means that the loop goes on --- */

static enum archive_event header(struct archive_reader *r)
{
	enum archive_cause c;

	if (all_zero(r->block)) {
		if (r->extras)
			return refuse(r, ARCHIVE_TRUNCATED);
		if (++r->zeros < 2)
			return ARCHIVE_MORE;
		r->state = READ_ENDED;
		return ARCHIVE_END;
	}
	if (!checksum_right(r->block))
		return refuse(r, r->any ? ARCHIVE_BAD_CHECKSUM : ARCHIVE_NOT_TAR);
	if (r->zeros)
		return refuse(r, ARCHIVE_LONE_ZERO);
	r->any = true;
	switch (r->block[F_TYPE]) {
	case 'x':
	case 'g':
	case 'L':
	case 'K':
		c = begin_extra(r, r->block[F_TYPE]);
		break;
	case 'V': /* a label of GNU tar: no entry */
		c = r->extras ? ARCHIVE_AMBIGUOUS : ARCHIVE_CAUSE_NONE;
		return c ? refuse(r, c) : ARCHIVE_MORE;
	default:
		c = take_entry(r);
		if (!c && r->state == READ_DATA)
			return ARCHIVE_ENTRY;
	}
	return c ? refuse(r, c) : ARCHIVE_MORE;
}

/* Fills the block; true when it is whole. */
static bool fill_block(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	while (*n && r->fill < ARCHIVE_BLOCK) {
		r->block[r->fill++] = *(*p)++;
		--*n;
	}
	if (r->fill < ARCHIVE_BLOCK)
		return false;
	r->fill = 0;
	return true;
}

static uint64_t take(uint64_t want, const uint8_t **p, size_t *n)
{
	size_t k = want < *n ? (size_t)want : *n;

	*p += k;
	*n -= k;
	return k;
}

static enum archive_event extra(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	enum archive_cause c = ARCHIVE_CAUSE_NONE;

	if (r->state == READ_PAX) {
		c = archive_pax_feed(r, p, n);
	} else {
		for (; *n && r->left; (*p)++, --*n, r->left--)
			r->value[r->value_len++] = (char)**p;
	}
	if (!c && !r->left) {
		c = r->state == READ_PAX ? archive_pax_end(r) : end_long(r);
		r->state = READ_EXTRA_PAD;
	}
	return c ? refuse(r, c) : ARCHIVE_MORE;
}

static enum archive_event old_map(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	enum archive_cause c;

	if (!fill_block(r, p, n))
		return ARCHIVE_MORE;
	if ((c = archive_old_map(r, r->block, N_SPARSE_MORE)))
		return refuse(r, c);
	if (r->block[F_MORE_MORE]) {
		/* each block may add nothing: the number of blocks is what must end */
		return ++r->extras > ARCHIVE_MAX_RANGES / N_SPARSE_MORE + 1
			? refuse(r, ARCHIVE_TOO_MANY)
			: ARCHIVE_MORE;
	}
	r->extras = 0;
	if ((c = archive_map_check(r)))
		return refuse(r, c);
	r->state = READ_DATA;
	return ARCHIVE_ENTRY;
}

static enum archive_event map(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	enum archive_cause c = archive_map_feed(r, p, n);

	if (c)
		return refuse(r, c);
	if (r->sparse_ready && !r->map_numbers) {
		r->map_bytes = archive_padding(r->map_bytes);
		if (r->map_bytes > r->left)
			return refuse(r, ARCHIVE_BAD_SPARSE);
		r->left -= r->map_bytes;
		r->state = READ_MAP_PAD;
	}
	return ARCHIVE_MORE;
}

static enum archive_event map_padding(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	enum archive_cause c;

	r->map_bytes -= take(r->map_bytes, p, n);
	if (r->map_bytes)
		return ARCHIVE_MORE;
	if ((c = archive_map_check(r)))
		return refuse(r, c);
	r->state = READ_DATA;
	return ARCHIVE_ENTRY;
}

uint64_t archive_pending(const struct archive_reader *r, uint64_t *ret_offset)
{
	const struct archive_range *at = &r->ranges[r->range];

	if (r->state != READ_DATA || r->range == r->n_ranges)
		return 0;
	*ret_offset = at->offset + r->done;
	return at->length - r->done;
}

void archive_skip(struct archive_reader *r, uint64_t n)
{
	r->done += n;
	if (r->done == r->ranges[r->range].length) {
		r->range++;
		r->done = 0;
	}
}

static enum archive_event data(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	uint64_t next = archive_pending(r, &r->offset);

	if (!next) {
		r->state = READ_PADDING;
		return ARCHIVE_ENTRY_END;
	}
	if (!*n)
		return ARCHIVE_MORE;
	r->data = *p;
	r->data_len = (size_t)take(next, p, n);
	archive_skip(r, r->data_len);
	return ARCHIVE_DATA;
}

static enum archive_event padding(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	r->padding -= (uint32_t)take(r->padding, p, n);
	if (!r->padding)
		r->state = READ_HEADER;
	return ARCHIVE_MORE;
}

static enum archive_event step(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	switch ((enum reader_state)r->state) {
	case READ_HEADER:
		return fill_block(r, p, n) ? header(r) : ARCHIVE_MORE;
	case READ_PAX:
	case READ_LONG:
		return extra(r, p, n);
	case READ_EXTRA_PAD:
	case READ_PADDING:
		return padding(r, p, n);
	case READ_OLD_MAP:
		return old_map(r, p, n);
	case READ_MAP:
		return map(r, p, n);
	case READ_MAP_PAD:
		return map_padding(r, p, n);
	case READ_DATA:
		return data(r, p, n);
	case READ_ENDED:
		(void)take(*n, p, n);
		return ARCHIVE_MORE;
	case READ_REFUSED:
		break;
	}
	return ARCHIVE_REFUSED;
}

/* States that need no byte go on with an empty window: the end of an entry isn't kept back until more arrives. */
static bool goes_on(const struct archive_reader *r, int before)
{
	return r->state != before && r->state != READ_ENDED;
}

enum archive_event archive_next(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	enum archive_event e;
	int before;

	do {
		before = r->state;
		e = step(r, p, n);
	} while (e == ARCHIVE_MORE && (*n || goes_on(r, before)));
	return e;
}

const char *archive_failure(const struct archive_reader *r)
{
	return r->cause == ARCHIVE_GIVEN_UP ? r->value : "";
}

bool archive_finish(struct archive_reader *r)
{
	if (r->state == READ_REFUSED)
		return false;
	/* one zero block is what some archivers write */
	if (r->state == READ_ENDED ||
		(r->state == READ_HEADER && !r->fill && !r->extras && r->zeros))
		return true;
	(void)refuse(r, ARCHIVE_TRUNCATED);
	return false;
}
