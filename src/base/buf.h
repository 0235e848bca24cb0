/* A growing byte buffer with a hard maximum, for whatever another party controls the size of. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* Owned by its declarer; buf_done() releases it.  `failed` is sticky: set when the maximum or memory was hit;
 * `too_large` says that it was the maximum. */
struct buf {
	char *data; /* NUL-terminated whenever it is not NULL */
	size_t len, cap;
	size_t max; /* 0: BUF_MAX_DEFAULT */
	bool failed, too_large;
};

enum { BUF_MAX_DEFAULT = 64 << 20 }; /* bytes */

#define BUF_INIT { .data = NULL }
#define _cleanup_buf_ _cleanup_(buf_done)

void buf_done(struct buf *b);
void buf_clear(struct buf *b);

/* Makes room for `more` bytes behind the content; false when that passes the maximum (b->failed is then set). */
bool buf_reserve(struct buf *b, size_t more);
bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_puts(struct buf *b, const char *s);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
