/* Owns the captured output of commands and how bytes stand in JSON.  Called by the verbs that capture. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"

void output_init(struct output *o, uint64_t max)
{
	memset(o, 0, sizeof *o);
	o->max = max;
	for (int i = 0; i < OUTPUTS; i++)
		o->stream[i].max = (size_t)max + 1;
}

void output_done(struct output *o)
{
	for (int i = 0; i < OUTPUTS; i++)
		buf_done(&o->stream[i]);
}

void output_take(void *arg, int stream, const void *data, size_t n)
{
	struct output *o = arg;
	struct buf *b = &o->stream[stream == 2 ? OUTPUT_ERR : OUTPUT_OUT];
	const size_t room = o->max > b->len ? (size_t)o->max - b->len : 0;

	if (n > room) {
		o->truncated = true;
		n = room;
	}
	(void)buf_add(b, data, n);
}

static void put_base64(struct buf *out, const char *data, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char four[5] = "";

	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)data[i] << 16;

		v |= i + 1 < n ? (unsigned)(unsigned char)data[i + 1] << 8 : 0u;
		v |= i + 2 < n ? (unsigned)(unsigned char)data[i + 2] : 0u;
		for (int k = 0; k < 4; k++)
			four[k] = digits[v >> (18 - 6 * k) & 63];
		if (i + 2 >= n)
			four[3] = '=';
		if (i + 1 >= n)
			four[2] = '=';
		(void)buf_add(out, four, 4);
	}
}

void output_put_bytes(struct json *j, const char *name, const char *data, size_t n)
{
	_cleanup_buf_ struct buf encoded = { .max = n * 2 + 8 };
	const bool text = utf8_valid(data, n);
	char flag[64];

	if (text) {
		json_bytes(j, name, data, n);
	} else {
		put_base64(&encoded, data, n);
		json_string(j, name, encoded.data);
	}
	json_bool(j, str_format(flag, sizeof flag, "%s_base64", name), !text);
}

void output_put(struct json *j, const struct output *o)
{
	static const char *const names[OUTPUTS] = { "stdout", "stderr" };

	for (int i = 0; i < OUTPUTS; i++)
		output_put_bytes(
			j, names[i], o->stream[i].data ? o->stream[i].data : "", o->stream[i].len);
	json_bool(j, "truncated", o->truncated);
}
