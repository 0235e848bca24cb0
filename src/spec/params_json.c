/* Owns the JSON form of a command's words.  Called by params.c with what another party wrote.
 *
 * A strict reader of one array of strings, and nothing else.  What comes out is never longer than what went in. */
#include "spec/params_json.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "spec/params.h"

struct reader {
	const char *p;
	char *out;
};

static void skip_space(struct reader *r)
{
	r->p += strspn(r->p, " \t\r\n");
}

static int hex4(struct reader *r, uint32_t *ret)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++) {
		const char c = *r->p;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint32_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint32_t)(c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			v = v << 4 | (uint32_t)(c - 'A' + 10);
		else
			return -1;
		r->p++;
	}
	*ret = v;
	return 0;
}

static void put_utf8(struct reader *r, uint32_t c)
{
	if (c < 0x80) {
		*r->out++ = (char)c;
		return;
	}
	if (c < 0x800) {
		*r->out++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*r->out++ = (char)(0xe0 | c >> 12);
		} else {
			*r->out++ = (char)(0xf0 | c >> 18);
			*r->out++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*r->out++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*r->out++ = (char)(0x80 | (c & 0x3f));
}

/* Behind "\u". */
static int code_point(struct reader *r)
{
	uint32_t c, low;

	if (hex4(r, &c) < 0 || c == 0 || (c >= 0xdc00 && c < 0xe000))
		return -1;
	if (c >= 0xd800 && c < 0xdc00) {
		if (r->p[0] != '\\' || r->p[1] != 'u')
			return -1;
		r->p += 2;
		if (hex4(r, &low) < 0 || low < 0xdc00 || low > 0xdfff)
			return -1;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	put_utf8(r, c);
	return 0;
}

static int escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char c = *r->p;
	const char *at = c ? strchr(from, c) : NULL;

	if (!c)
		return -1;
	r->p++;
	if (c == 'u')
		return code_point(r);
	if (!at)
		return -1;
	*r->out++ = to[at - from];
	return 0;
}

/* From the opening quote to behind the closing one. */
static int string(struct reader *r)
{
	if (*r->p++ != '"')
		return -1;
	while (*r->p != '"') {
		if ((unsigned char)*r->p < 0x20)
			return -1; /* the end too */
		if (*r->p != '\\') {
			*r->out++ = *r->p++;
			continue;
		}
		r->p++;
		if (escape(r) < 0)
			return -1;
	}
	r->p++;
	*r->out++ = '\0';
	return 0;
}

static int array(struct reader *r, char **words, size_t *n)
{
	skip_space(r);
	if (*r->p++ != '[')
		return -1;
	skip_space(r);
	if (*r->p == ']')
		r->p++;
	else
		for (;;) {
			if (*n == PARAM_MAX_ARGS)
				return -1;
			words[(*n)++] = r->out;
			if (string(r) < 0)
				return -1;
			skip_space(r);
			if (*r->p == ']') {
				r->p++;
				break;
			}
			if (*r->p++ != ',')
				return -1;
			skip_space(r);
		}
	skip_space(r);
	return *r->p ? -1 : 0;
}

int param_get_words(const char *text, char ***ret, struct err *e)
{
	const size_t pointers = PARAM_MAX_ARGS + 1;
	char **words = xcalloc(1, pointers * sizeof *words + strlen(text) + 1);
	struct reader r = { .p = text, .out = (char *)(words + pointers) };
	size_t n = 0;

	if (array(&r, words, &n) < 0) {
		free(words);
		return err_set(e, R_BAD_VALUE, 0,
			"read a command: not a JSON array of up to %d strings", PARAM_MAX_ARGS);
	}
	words[n] = NULL;
	*ret = words;
	return 0;
}

void param_put_words(struct buf *out, const char *const *words)
{
	struct json j;

	json_init(&j, out);
	json_array_begin(&j, NULL);
	for (const char *const *w = words; *w; w++)
		json_string(&j, NULL, *w);
	json_array_end(&j);
}
