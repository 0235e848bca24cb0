/* Owns the records of pax headers: "LENGTH KEY=VALUE\n", one after the other, fed in pieces of any size.  Called by the reader.
 * Only known keys are kept; the lengths of all must be right, since a reader that guesses can be made to see another archive
 * than the next reader does. */
#include "archive/reader.h"

enum pax_state { PAX_LENGTH, PAX_KEY, PAX_VALUE, PAX_NEWLINE };

enum pax_key {
	KEY_OTHER,
	KEY_PATH,
	KEY_LINK,
	KEY_SIZE,
	KEY_UID,
	KEY_GID,
	KEY_MTIME,
	KEY_SPARSE_MAJOR,
	KEY_SPARSE_MINOR,
	KEY_SPARSE_NAME,
	KEY_SPARSE_SIZE,
	KEY_SPARSE_OLD, /* 0.0 and 0.1 */
	KEY_DROPPED,
	KEY_FAILED,
};

enum {
	MAX_LENGTH_DIGITS = 8,
	KEY_TOO_LONG = 255,
};

static const struct {
	const char *text;
	bool prefix;
	enum pax_key key;
} keys[] = {
	{ "path", false, KEY_PATH },
	{ "linkpath", false, KEY_LINK },
	{ "size", false, KEY_SIZE },
	{ "uid", false, KEY_UID },
	{ "gid", false, KEY_GID },
	{ "mtime", false, KEY_MTIME },
	{ "GNU.sparse.major", false, KEY_SPARSE_MAJOR },
	{ "GNU.sparse.minor", false, KEY_SPARSE_MINOR },
	{ "GNU.sparse.name", false, KEY_SPARSE_NAME },
	{ "GNU.sparse.realsize", false, KEY_SPARSE_SIZE },
	{ "GNU.sparse.", true, KEY_SPARSE_OLD },
	{ "SCHILY.xattr.", true, KEY_DROPPED },
	{ "SCHILY.acl.", true, KEY_DROPPED },
	{ "LIBARCHIVE.xattr.", true, KEY_DROPPED },
	{ "RHT.security.selinux", false, KEY_DROPPED },
	{ ARCHIVE_FAILED_KEY, false, KEY_FAILED },
};

static bool key_is(const char *key, size_t n, const char *text, bool prefix)
{
	size_t i = 0;

	while (i < n && text[i] && text[i] == key[i])
		i++;
	return !text[i] && (prefix || i == n);
}

/* Of a key that is longer than r->key, its beginning: enough for the prefixes. */
static enum pax_key find_key(const struct archive_reader *r)
{
	size_t n = r->key_len < sizeof r->key ? r->key_len : sizeof r->key;

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (key_is(r->key, n, keys[i].text, keys[i].prefix))
			return keys[i].key;
	return KEY_OTHER;
}

void archive_pax_begin(struct archive_reader *r, bool global)
{
	r->pax_state = PAX_LENGTH;
	r->record_left = r->value_len = 0;
	r->key_len = 0;
	r->global = global;
}

/* --- one record --- */

/* Names go to the reader's buffers: the value is there already, NUL-terminated. */
static enum archive_cause set_name(
	char *to, const char *value, uint32_t n, enum archive_cause empty)
{
	if (!n)
		return empty;
	for (uint32_t i = 0; i < n; i++) {
		if (!value[i])
			return ARCHIVE_BAD_PAX;
		to[i] = value[i];
	}
	to[n] = 0;
	return ARCHIVE_CAUSE_NONE;
}

static enum archive_cause set_path(struct archive_reader *r, bool sparse)
{
	/* the other name of a sparse file only looks well in old readers */
	if (!sparse && r->sparse_keys & SPARSE_NAME)
		return ARCHIVE_CAUSE_NONE;
	if (r->gnu_name)
		return ARCHIVE_AMBIGUOUS;
	r->has_name = true;
	return set_name(r->name, r->value, r->value_len, ARCHIVE_NAME_EMPTY);
}

static enum archive_cause set_link(struct archive_reader *r)
{
	if (r->gnu_link)
		return ARCHIVE_AMBIGUOUS;
	r->has_link = true;
	return set_name(r->link, r->value, r->value_len, ARCHIVE_LINK_EMPTY);
}

static enum archive_cause set_id(const struct archive_reader *r, uint32_t *id, bool *has)
{
	uint64_t v;

	if (!archive_decimal(r->value, r->value_len, &v) || v > ARCHIVE_MAX_ID)
		return ARCHIVE_BAD_NUMBER;
	*id = (uint32_t)v;
	*has = true;
	return ARCHIVE_CAUSE_NONE;
}

static enum archive_cause set_sparse(struct archive_reader *r)
{
	uint64_t v;

	if (r->pax_key == KEY_SPARSE_NAME) {
		r->sparse_keys |= SPARSE_NAME;
		return set_path(r, true);
	}
	if (!archive_decimal(r->value, r->value_len, &v))
		return ARCHIVE_BAD_NUMBER;
	if (r->pax_key == KEY_SPARSE_SIZE) {
		r->sparse_keys |= SPARSE_SIZE;
		r->sparse_size = v;
	} else if (r->pax_key == KEY_SPARSE_MAJOR) {
		r->sparse_keys |= SPARSE_MAJOR;
		return v == 1 ? ARCHIVE_CAUSE_NONE : ARCHIVE_OLD_SPARSE;
	} else {
		r->sparse_keys |= SPARSE_MINOR;
		return v == 0 ? ARCHIVE_CAUSE_NONE : ARCHIVE_OLD_SPARSE;
	}
	return ARCHIVE_CAUSE_NONE;
}

static enum archive_cause set_size(struct archive_reader *r)
{
	r->meta.has_size = true;
	return archive_decimal(r->value, r->value_len, &r->meta.size) ? ARCHIVE_CAUSE_NONE
								      : ARCHIVE_BAD_NUMBER;
}

static enum archive_cause set_time(const struct archive_reader *r, struct archive_meta *m)
{
	m->has_mtime = true;
	return archive_decimal_time(r->value, r->value_len, &m->mtime_ns) ? ARCHIVE_CAUSE_NONE
									  : ARCHIVE_BAD_NUMBER;
}

static enum archive_cause apply(struct archive_reader *r)
{
	struct archive_meta *m = r->global ? &r->defaults : &r->meta;

	switch ((enum pax_key)r->pax_key) {
	case KEY_UID:
		return set_id(r, &m->uid, &m->has_uid);
	case KEY_GID:
		return set_id(r, &m->gid, &m->has_gid);
	case KEY_MTIME:
		return set_time(r, m);
	case KEY_OTHER:
		return ARCHIVE_CAUSE_NONE;
	case KEY_DROPPED:
		r->dropped = true;
		return ARCHIVE_CAUSE_NONE;
	case KEY_SPARSE_OLD:
		return ARCHIVE_OLD_SPARSE;
	case KEY_FAILED:
		return ARCHIVE_GIVEN_UP;
	case KEY_PATH:
	case KEY_LINK:
	case KEY_SIZE:
	case KEY_SPARSE_MAJOR:
	case KEY_SPARSE_MINOR:
	case KEY_SPARSE_NAME:
	case KEY_SPARSE_SIZE:
		break;
	}
	if (r->global) /* one name or size for all that follows: nobody means that */
		return ARCHIVE_BAD_PAX;
	if (r->pax_key == KEY_PATH)
		return set_path(r, false);
	if (r->pax_key == KEY_LINK)
		return set_link(r);
	return r->pax_key == KEY_SIZE ? set_size(r) : set_sparse(r);
}

/* --- bytes --- */

/* Digits up to a space.  record_left is the number itself until then, key_len how many digits there were. */
static enum archive_cause length_byte(struct archive_reader *r, uint8_t c)
{
	if (c == ' ' && r->key_len) {
		/* "5 a=\n": the digits, the space, a key, '=' and the newline */
		if (r->record_left < r->key_len + 4u || r->record_left - r->key_len - 1 > r->left)
			return ARCHIVE_BAD_PAX;
		r->record_left -= r->key_len + 1u;
		r->key_len = 0;
		r->pax_state = PAX_KEY;
		return ARCHIVE_CAUSE_NONE;
	}
	if (c < '0' || c > '9' || r->key_len >= MAX_LENGTH_DIGITS)
		return ARCHIVE_BAD_PAX;
	r->record_left = r->record_left * 10 + (uint32_t)(c - '0');
	r->key_len++;
	return ARCHIVE_CAUSE_NONE;
}

static enum archive_cause key_byte(struct archive_reader *r, uint8_t c)
{
	r->record_left--;
	if (!c || c == '\n' || !r->record_left)
		return ARCHIVE_BAD_PAX;
	if (c != '=') {
		if (r->key_len < sizeof r->key)
			r->key[r->key_len] = (char)c;
		if (r->key_len < KEY_TOO_LONG)
			r->key_len++;
		return ARCHIVE_CAUSE_NONE;
	}
	if (!r->key_len)
		return ARCHIVE_BAD_PAX;
	r->pax_key = (uint8_t)find_key(r);
	r->value_len = 0;
	r->pax_state = r->record_left > 1 ? PAX_VALUE : PAX_NEWLINE;
	return ARCHIVE_CAUSE_NONE;
}

/* Takes as much of a value as the window has. */
static enum archive_cause value_bytes(struct archive_reader *r, const uint8_t *p, size_t n)
{
	if (r->pax_key == KEY_OTHER || r->pax_key == KEY_DROPPED || r->pax_key == KEY_SPARSE_OLD)
		return ARCHIVE_CAUSE_NONE;
	if (n > ARCHIVE_MAX_NAME - r->value_len)
		return ARCHIVE_TOO_LONG;
	for (size_t i = 0; i < n; i++)
		r->value[r->value_len++] = (char)p[i];
	return ARCHIVE_CAUSE_NONE;
}

static enum archive_cause newline_byte(struct archive_reader *r, uint8_t c)
{
	enum archive_cause cause;

	if (c != '\n')
		return ARCHIVE_BAD_PAX;
	r->value[r->value_len] = 0;
	cause = apply(r);
	r->pax_state = PAX_LENGTH;
	r->record_left = 0;
	r->key_len = 0;
	return cause;
}

static enum archive_cause feed_byte(struct archive_reader *r, uint8_t c)
{
	switch ((enum pax_state)r->pax_state) {
	case PAX_LENGTH:
		return length_byte(r, c);
	case PAX_KEY:
		return key_byte(r, c);
	case PAX_NEWLINE:
		return newline_byte(r, c);
	case PAX_VALUE:
		break;
	}
	return ARCHIVE_BAD_PAX;
}

enum archive_cause archive_pax_feed(struct archive_reader *r, const uint8_t **p, size_t *n)
{
	enum archive_cause c = ARCHIVE_CAUSE_NONE;

	while (*n && r->left && !c) {
		size_t k = 1;

		if (r->pax_state == PAX_VALUE) {
			k = r->record_left - 1;
			k = k < *n ? k : *n;
			c = value_bytes(r, *p, k);
			r->record_left -= (uint32_t)k;
			if (r->record_left == 1)
				r->pax_state = PAX_NEWLINE;
		} else {
			r->left--; /* before the byte: a length counts what is left behind it */
			c = feed_byte(r, **p);
			r->left++;
		}
		*p += k;
		*n -= k;
		r->left -= k;
	}
	return c;
}

enum archive_cause archive_pax_end(const struct archive_reader *r)
{
	return r->pax_state == PAX_LENGTH && !r->key_len ? ARCHIVE_CAUSE_NONE : ARCHIVE_BAD_PAX;
}
