/* Owns the way from errors inside to those of the library's caller, and from an engine's or guest's errno to a reason.
 * Called at the end of every public function; keeps no state. */
#include <string.h>

#include "base/str.h"
#include "client/client.h"

/* Cut at a byte: what is that long is a path, and its end matters least. */
static void put_text(char *out, size_t cap, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (n >= cap)
		n = cap - 1;
	if (n)
		memcpy(out, text, n);
	out[n] = '\0';
}

int client_fail(struct bailey_error *e, struct err *err)
{
	if (e) {
		memset(e, 0, sizeof *e);
		put_text(e->reason, sizeof e->reason, reason_name(err->reason));
		put_text(e->message, sizeof e->message, err->message);
		put_text(e->remedy, sizeof e->remedy, err_get_remedy(err));
		e->sys_errno = err->sys_errno;
		e->exit = reason_exit(err->reason);
		e->later = reason_retry(err->reason) == RETRY_LATER;
	}
	err_done(err);
	return -1;
}

int client_give(int r, struct bailey_error *e, struct err *err)
{
	return r < 0 ? client_fail(e, err) : r;
}

enum reason client_reason(uint32_t error)
{
	static const struct {
		int error;
		enum reason reason;
	} table[] = {
		{ ENOENT, R_PATH_NOT_FOUND },
		{ EEXIST, R_PATH_EXISTS },
		{ ENOTEMPTY, R_PATH_EXISTS },
		{ ENOTDIR, R_NOT_A_DIRECTORY },
		{ ELOOP, R_NOT_A_DIRECTORY },
		{ EISDIR, R_IS_A_DIRECTORY },
		{ EACCES, R_PERMISSION_DENIED },
		{ EPERM, R_PERMISSION_DENIED },
		{ EROFS, R_PERMISSION_DENIED },
		{ ENOSPC, R_DISK_FULL },
		{ EDQUOT, R_DISK_FULL },
		{ ESRCH, R_NO_SUCH_COMMAND },
		{ EBUSY, R_BUSY },
		{ EAGAIN, R_BUSY },
		{ EMFILE, R_BUSY },
		{ ETIMEDOUT, R_TIMEOUT },
		{ ENOMEM, R_NO_MEMORY },
		{ EINVAL, R_BAD_VALUE },
		{ ENAMETOOLONG, R_BAD_VALUE },
		{ EBADMSG, R_ARCHIVE_REFUSED },
		{ EFBIG, R_ARCHIVE_TOO_LARGE },
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if ((uint32_t)table[i].error == error)
			return table[i].reason;
	return R_IO_FAILED;
}

/* The next string of reason, message and remedy; NULL when the engine left its NUL away. */
static const char *next_text(const uint8_t **p, uint32_t *n)
{
	const char *text = (const char *)*p;
	const size_t len = *n ? strnlen(text, *n) : 0;

	if (len == *n)
		return NULL;
	*p += len + 1;
	*n -= (uint32_t)len + 1;
	return text;
}

/* Text from inside: what is no plain character becomes \xNN. */
static void put_escaped(char *out, size_t cap, const char *text)
{
	size_t n = 0;

	for (const char *p = text; *p && n + 5 < cap; p++) {
		if ((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f && *p != '\\')
			out[n++] = *p;
		else
			n += strlen(str_format(
				out + n, cap - n, "\\x%02x", (unsigned)(unsigned char)*p));
	}
	out[n] = '\0';
}

/* An errno of the guest, and a note with it: the path at fault, a NUL, why, a NUL. */
static int guest_error(
	const struct wire_result *m, const char *what, const char *object, struct err *e)
{
	const enum reason r = client_reason(m->error);
	const uint8_t *p = m->rest;
	uint32_t n = m->rest_len;
	const char *path = next_text(&p, &n), *why = path ? next_text(&p, &n) : NULL;
	char shown[512], cause[256];

	put_escaped(shown, sizeof shown, path ?: "");
	put_escaped(cause, sizeof cause, path && why ? why : "");
	if (!*shown)
		err_set(e, r, (int)m->error, "%s '%s'", what, object);
	else
		err_set(e, r, (int)m->error, "%s '%s': '%s'%s%s", what, object, shown,
			*cause ? ": " : "", cause);
	if (r != R_DISK_FULL)
		return -1;
	return err_remedy(e,
		"Remove files inside, or make a sandbox with a larger --disk; a writable workspace has the host's room.");
}

int client_result_error(
	const struct wire_result *m, const char *what, const char *object, struct err *e)
{
	const uint8_t *p = m->rest;
	uint32_t n = m->rest_len;
	const char *reason, *message, *remedy;
	enum reason r;

	if (!(m->flags & WIRE_RESULT_REASON))
		return guest_error(m, what, object, e);
	reason = next_text(&p, &n);
	message = reason ? next_text(&p, &n) : NULL;
	remedy = message ? next_text(&p, &n) : NULL;
	if (!remedy)
		return err_set(e, R_WIRE_MALFORMED, 0, "%s '%s': the engine's error is not one",
			what, object);
	r = reason_by_name(reason);
	/* an engine of a later version may know more reasons */
	err_set(e, r == REASON_NONE ? R_IO_FAILED : r, 0, "%s", message);
	e->sys_errno = (int)m->error;
	if (*remedy)
		err_remedy(e, "%s", remedy);
	return -1;
}

int client_options(void *ours, size_t size, const void *theirs, const char *what, struct err *e)
{
	const uint8_t *p = theirs;
	size_t given;

	if (!theirs)
		return 0;
	memcpy(&given, theirs, sizeof given);
	if (given < sizeof given || given > 65536)
		return err_set(
			e, R_BAD_VALUE, 0, "read the options of '%s': its size is not set", what);
	/* a newer program: what this library doesn't know must not have been asked for */
	for (size_t i = size; i < given; i++)
		if (p[i])
			return err_set(e, R_BAD_VALUE, 0,
				"read the options of '%s': a member that this library doesn't know",
				what);
	memcpy(ours, theirs, given < size ? given : size);
	return 0;
}
