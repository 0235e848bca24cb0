/* Owns the byte buffer.  No caller ever computes a size by hand. */
#include "base/buf.h"

#include <string.h>

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = b->too_large = false;
	if (b->data)
		b->data[0] = '\0';
}

bool buf_reserve(struct buf *b, size_t more)
{
	size_t max = b->max ? b->max : BUF_MAX_DEFAULT;
	size_t cap = b->cap ? b->cap : 64;
	char *p;

	if (b->failed)
		return false;
	if (more > max || b->len > max - more) {
		b->failed = b->too_large = true;
		return false;
	}
	if (b->data && b->cap - b->len > more)
		return true;
	while (cap - b->len <= more)
		cap *= 2;
	p = realloc(b->data, cap);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->data = p;
	b->cap = cap;
	return true;
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
	if (!buf_reserve(b, n))
		return false;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
	return true;
}

bool buf_puts(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		b->failed = true;
		return false;
	}
	return buf_add(b, text, (size_t)n);
}
