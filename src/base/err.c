/* Owns the error object and the reason table.  Called by every room; does no I/O. */
#include "base/err.h"

#include <stdarg.h>
#include <string.h>

#undef err_set
#undef err_wrap
#undef err_remedy
#undef err_move

static const struct {
	const char *name;
	int http, exit;
	enum retry retry;
	const char *remedy;
} reasons[REASON_MAX] = {
	[REASON_NONE] = { "none", 200, 0, RETRY_NEVER, "" },
#define REASON(id, name, http, exit, retry, remedy) \
	[R_##id] = { name, http, exit, RETRY_##retry, remedy },
#include "base/reasons.def"
#undef REASON
};

void err_done(struct err *e)
{
	free(e->message);
	free(e->remedy);
	*e = (struct err)ERR_INIT;
}

int err_set(struct err *e, enum reason r, int sys_errno, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	err_done(e);
	/* what can't be written for want of room is another's to mend */
	if (r == R_STATE_UNWRITABLE && (sys_errno == ENOSPC || sys_errno == EDQUOT))
		r = R_DISK_FULL;
	e->reason = r;
	e->sys_errno = sys_errno;
	if (!text)
		return -1;
	if (!sys_errno)
		e->message = move_ptr(text);
	else if (asprintf(&e->message, "%s: %s", text,
			 strerrordesc_np(sys_errno) ?: "unknown error") < 0)
		e->message = NULL;
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	char *whole = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text && asprintf(&whole, "%s: %s", text, e->message ?: reason_name(e->reason)) >= 0) {
		free(e->message);
		e->message = whole;
	}
	return -1;
}

int err_remedy(struct err *e, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	free(e->remedy);
	e->remedy = text;
	return -1;
}

int err_move(struct err *to, struct err *from)
{
	err_done(to);
	*to = *from;
	*from = (struct err)ERR_INIT;
	return -1;
}

const char *err_get_remedy(const struct err *e)
{
	return e->remedy ? e->remedy : reasons[e->reason].remedy;
}

const char *reason_name(enum reason r)
{
	return reasons[r].name;
}

int reason_exit(enum reason r)
{
	return reasons[r].exit;
}

int reason_http(enum reason r)
{
	return reasons[r].http;
}

enum retry reason_retry(enum reason r)
{
	return reasons[r].retry;
}

enum reason reason_by_name(const char *name)
{
	for (unsigned r = REASON_NONE + 1; r < REASON_MAX; r++)
		if (!strcmp(reasons[r].name, name))
			return (enum reason)r;
	return REASON_NONE;
}
