/* The error object: a stable reason, the errno behind it, a message and a remedy.
 *
 * Convention: `int f(..., struct err *e)` returns 0, or -1 with *e set exactly once.  On success *e is untouched.
 * Callers add context with err_wrap() on the way up; the reason never changes once set.
 * Message: what was being done, the object in single quotes, the cause.  Remedy: one imperative sentence. */
#pragma once
#include "base/cleanup.h"

enum reason {
	REASON_NONE = 0,
#define REASON(id, name, http, exit, retry, remedy) R_##id,
#include "base/reasons.def"
#undef REASON
	REASON_MAX
};

enum retry {
	RETRY_NEVER, /* the same request fails again */
	RETRY_LATER, /* the same request may succeed when the host has changed */
};

/* Owned by the caller of the failing function; release with err_done() (NULL members are fine). */
struct err {
	enum reason reason;
	int sys_errno;
	char *message;
	char *remedy; /* NULL: the reason's default remedy applies */
};

#define ERR_INIT { .reason = REASON_NONE }

void err_done(struct err *e);
#define _cleanup_err_ _cleanup_(err_done)

/* Sets *e and returns -1; R_STATE_UNWRITABLE for want of room (ENOSPC, EDQUOT) becomes R_DISK_FULL.  sys_errno 0 means no errno stands behind the failure; otherwise strerror is appended. */
int err_set(struct err *e, enum reason r, int sys_errno, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Puts "context: " in front of the message; returns -1 so that `return err_wrap(...)` reads well. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Replaces the remedy when the call site knows better than the table; returns -1. */
int err_remedy(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Moves the error from *from to *to; *from is empty afterwards.  Returns -1. */
int err_move(struct err *to, struct err *from);

/* The analyzer sees one file at a time: without this it follows each `return err_set(...)` as if it were a success. */
#ifdef __clang_analyzer__
static inline int err_failed(int r)
{
	(void)r;
	return -1;
}
#define err_set(...) err_failed(err_set(__VA_ARGS__))
#define err_wrap(...) err_failed(err_wrap(__VA_ARGS__))
#define err_remedy(...) err_failed(err_remedy(__VA_ARGS__))
#define err_move(...) err_failed(err_move(__VA_ARGS__))
#endif

const char *err_get_remedy(const struct err *e);
const char *reason_name(enum reason r);
int reason_exit(enum reason r);
int reason_http(enum reason r);
enum retry reason_retry(enum reason r);

/* The reason with this stable name, or REASON_NONE. */
enum reason reason_by_name(const char *name);
