/* Owns the judgement of an answer's head, line by line; http.c and the relay call it.
 * Must hold: nothing of a line is believed that this file has not read itself, and the length of a body is said once. */
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "engine/docker/http_inner.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *status_line(struct http_head *h, const char *p, size_t n, bool upgrade)
{
	if (n < 12 || memcmp(p, "HTTP/1.", 7) || (p[7] != '0' && p[7] != '1') || p[8] != ' ' ||
		!is_digit(p[9]) || !is_digit(p[10]) || !is_digit(p[11]) || (n > 12 && p[12] != ' '))
		return "it does not begin as HTTP/1.1 does";
	h->status = (unsigned)((p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0'));
	h->done = h->has_length = h->chunked = false;
	h->type[0] = '\0';
	if (h->status == 101)
		return upgrade ? NULL : "it switches protocols, which nobody asked for";
	if (h->status < 200)
		return h->status == 100 ? NULL : "its status is none that is known";
	if (h->status >= 300 && h->status < 400 && h->status != 304)
		return "it leads elsewhere, and redirects are not followed";
	return h->status >= 600 ? "its status is none that is known" : NULL;
}

static const char *take_type(struct http_head *h, const char *value, size_t n)
{
	size_t i;

	for (i = 0; i < n && value[i] != ';' && value[i] != ' '; i++) {
		if (i + 1 >= sizeof h->type)
			return "its content type is too long";
		h->type[i] = value[i];
		if (value[i] >= 'A' && value[i] <= 'Z')
			h->type[i] |= 0x20;
	}
	h->type[i] = '\0';
	return str_has_control(h->type) ? "its content type holds control bytes" : NULL;
}

static const char *take_length(struct http_head *h, const char *value, size_t n)
{
	uint64_t length = 0;

	if (h->has_length || h->chunked)
		return "it gives its length twice";
	if (n == 0 || n > 18)
		return "its length is not a number";
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(value[i]))
			return "its length is not a number";
		length = length * 10 + (uint64_t)(value[i] - '0');
	}
	h->has_length = true;
	h->length = length;
	return NULL;
}

static const char *take_field(
	struct http_head *h, const char *name, size_t name_n, const char *value, size_t n)
{
#define IS(text) (name_n == sizeof text - 1 && strncasecmp(name, text, name_n) == 0)
#define VALUE(text) (n == sizeof text - 1 && strncasecmp(value, text, n) == 0)
	if (IS("Content-Type"))
		return take_type(h, value, n);
	if (IS("Content-Length"))
		return take_length(h, value, n);
	if (IS("Content-Encoding"))
		return VALUE("identity") ? NULL : "it is compressed, which nobody asked for";
	if (IS("Transfer-Encoding")) {
		if (h->has_length || h->chunked)
			return "it gives its length twice";
		h->chunked = true;
		return VALUE("chunked") ? NULL : "it is encoded in a way that nobody asked for";
	}
	if (IS("Libpod-API-Version"))
		h->libpod = true;
	return NULL;
#undef IS
#undef VALUE
}

static const char *field_line(struct http_head *h, const char *p, size_t n)
{
	const char *colon = memchr(p, ':', n);
	size_t name_n, value_n;

	if (!colon || colon == p || memchr(p, '\0', n))
		return "a line of its head is none";
	name_n = (size_t)(colon - p);
	p = colon + 1;
	value_n = n - name_n - 1;
	while (value_n > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		value_n--;
	}
	while (value_n > 0 && (p[value_n - 1] == ' ' || p[value_n - 1] == '\t'))
		value_n--;
	/* trailers come behind the empty line: they say nothing about the body any more */
	return h->done ? NULL : take_field(h, colon - name_n, name_n, p, value_n);
}

const char *http_head_line(struct http_head *h, const char *p, size_t n, bool upgrade)
{
	h->bytes += n;
	h->lines++;
	if (h->bytes > HTTP_HEAD_BYTES || h->lines > HTTP_HEAD_LINES)
		return "its head is too long";
	while (n > 0 && (p[n - 1] == '\n' || p[n - 1] == '\r'))
		n--;
	if (n == 0) {
		h->done = true;
		return NULL;
	}
	if (h->status == 0 || (h->done && h->status == 100))
		return status_line(h, p, n, upgrade);
	return field_line(h, p, n);
}
