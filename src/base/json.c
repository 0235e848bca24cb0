/* Owns JSON output: escaping, commas, UTF-8 repair.  Pure; the buffer carries the failure. */
#include "base/json.h"

#include <string.h>

void json_init(struct json *j, struct buf *out)
{
	memset(j, 0, sizeof *j);
	j->out = out;
	j->first[0] = true;
}

/* Length of the well-formed sequence at s (1 to 4), or 0. */
static size_t utf8_sequence(const unsigned char *s, size_t n)
{
	static const struct {
		unsigned char lo, hi, second_lo, second_hi, len;
	} rows[] = {
		{ 0x00, 0x7f, 0x00, 0x00, 1 },
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (s[0] < rows[i].lo || s[0] > rows[i].hi)
			continue;
		if (rows[i].len > n)
			return 0;
		if (rows[i].len > 1 && (s[1] < rows[i].second_lo || s[1] > rows[i].second_hi))
			return 0;
		for (size_t k = 2; k < rows[i].len; k++)
			if (s[k] < 0x80 || s[k] > 0xbf)
				return 0;
		return rows[i].len;
	}
	return 0;
}

bool utf8_valid(const char *s, size_t n)
{
	for (size_t i = 0, step; i < n; i += step) {
		step = utf8_sequence((const unsigned char *)s + i, n - i);
		if (!step)
			return false;
	}
	return true;
}

static void put_escaped(struct buf *b, const char *s, size_t n)
{
	buf_puts(b, "\"");
	for (size_t i = 0, step; i < n; i += step) {
		unsigned char c = (unsigned char)s[i];

		step = utf8_sequence((const unsigned char *)s + i, n - i);
		if (!step) {
			buf_puts(b, "\\ufffd");
			step = 1;
		} else if (c == '"' || c == '\\') {
			buf_printf(b, "\\%c", c);
		} else if (c == '\n') {
			buf_puts(b, "\\n");
		} else if (c < 0x20 || c == 0x7f) {
			buf_printf(b, "\\u%04x", c);
		} else {
			buf_add(b, s + i, step);
		}
	}
	buf_puts(b, "\"");
}

static void lead(struct json *j, const char *key)
{
	if (!j->first[j->depth])
		buf_puts(j->out, ",");
	j->first[j->depth] = false;
	if (key) {
		put_escaped(j->out, key, strlen(key));
		buf_puts(j->out, ":");
	}
}

static void begin(struct json *j, const char *key, const char *open)
{
	lead(j, key);
	buf_puts(j->out, open);
	if (j->depth + 1 >= JSON_MAX_DEPTH) {
		j->out->failed = true;
		return;
	}
	j->first[++j->depth] = true;
}

static void end(struct json *j, const char *close)
{
	if (j->depth)
		j->depth--;
	buf_puts(j->out, close);
}

void json_object_begin(struct json *j, const char *key)
{
	begin(j, key, "{");
}

void json_object_end(struct json *j)
{
	end(j, "}");
}

void json_array_begin(struct json *j, const char *key)
{
	begin(j, key, "[");
}

void json_array_end(struct json *j)
{
	end(j, "]");
}

void json_bytes(struct json *j, const char *key, const char *value, size_t n)
{
	lead(j, key);
	put_escaped(j->out, value, n);
}

void json_string(struct json *j, const char *key, const char *value)
{
	if (value)
		json_bytes(j, key, value, strlen(value));
	else
		json_null(j, key);
}

void json_int(struct json *j, const char *key, int64_t value)
{
	lead(j, key);
	buf_printf(j->out, "%lld", (long long)value);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	lead(j, key);
	buf_printf(j->out, "%llu", (unsigned long long)value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	lead(j, key);
	buf_puts(j->out, value ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
	lead(j, key);
	buf_puts(j->out, "null");
}

void json_add_err(struct buf *out, const struct err *e)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_object_begin(&j, "error");
	json_string(&j, "reason", reason_name(e->reason));
	json_string(&j, "message", e->message);
	json_string(&j, "remedy", err_get_remedy(e));
	json_string(&j, "retry", reason_retry(e->reason) == RETRY_LATER ? "later" : "never");
	json_object_end(&j);
	json_object_end(&j);
	(void)buf_puts(out, "\n");
}
