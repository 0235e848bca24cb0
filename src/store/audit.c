/* Owns the audit log's files.  Called by whoever does what must be on record.
 *
 * Every line is written under a lock on the file and flushed before the writer returns.  Must hold: a failed write leaves the
 * file as it was; one that was killed in the middle leaves a line that the next writer owns up to (audit_recovered); a
 * full file is renamed under the lock, so that the chain goes on in the next. */
#include "store/audit.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "store/chain.h"
#include "store/files.h"

off_t audit_file_bytes = AUDIT_FILE_BYTES;

enum { LOCK_MS = 5000, LOCK_STEP_MS = 10 };

struct writer {
	int dir, fd;
	off_t size;      /* of the file before anything was added */
	uint64_t torn;   /* bytes behind its last newline */
	bool continued;  /* the file is new, but not the first */
	char before[64]; /* the full one then */
	struct audit_place last;
	struct buf out;
};

static void writer_done(struct writer *w)
{
	w->fd = close_fd(w->fd);
	w->dir = close_fd(w->dir);
	buf_done(&w->out);
}
#define _cleanup_writer_ _cleanup_(writer_done)

static int unwritable(const char *what, struct err *e)
{
	const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;

	return err_set(
		e, full ? R_DISK_FULL : R_STATE_UNWRITABLE, errno, "%s '" AUDIT_NAME "'", what);
}

/* --- the file --- */

/* Whoever holds it writes one line; one that is stopped in the middle must not stop us for ever. */
static int lock(int fd, struct err *e)
{
	const uint64_t until = boottime_ms() + LOCK_MS;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return unwritable("lock", e);
		if (boottime_ms() >= until)
			return err_set(e, R_BUSY, 0,
				"lock '" AUDIT_NAME "': another process holds it for %d ms",
				LOCK_MS);
		(void)usleep(LOCK_STEP_MS * 1000);
	}
	return 0;
}

static int open_file(struct writer *w, struct err *e)
{
	struct stat st, now;

	for (;;) {
		/* O_NONBLOCK: a pipe in its place is refused below, not waited for */
		w->fd = openat(w->dir, AUDIT_NAME,
			O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
		if (w->fd < 0 || fstat(w->fd, &st) < 0)
			return unwritable("open", e);
		if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1)
			return err_set(e, R_AUDIT_BROKEN, 0,
				"open '" AUDIT_NAME "': not a file of ours with one name");
		if (lock(w->fd, e) < 0)
			return -1;
		if (fstatat(w->dir, AUDIT_NAME, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
			now.st_ino == st.st_ino && now.st_dev == st.st_dev)
			break;
		w->fd = close_fd(w->fd);
	}
	if (fstat(w->fd, &st) < 0)
		return unwritable("look at", e);
	w->size = st.st_size;
	return 0;
}

/* The last line that has an end; *ret_torn counts what is behind it.  1: there is one, 0: none. */
static int read_last(int fd, off_t size, const char *name, struct audit_place *ret,
	uint64_t *ret_torn, struct err *e)
{
	char text[2 * AUDIT_LINE];
	const off_t from = size > (off_t)sizeof text ? size - (off_t)sizeof text : 0;
	const ssize_t n = pread(fd, text, sizeof text, from);
	const char *end, *start, *wrong;

	if (n < 0 || n != size - from)
		return err_set(e, R_STATE_UNWRITABLE, n < 0 ? errno : 0, "read '%s'", name);
	end = memrchr(text, '\n', (size_t)n);
	*ret_torn = (uint64_t)(text + n - (end ? end + 1 : text));
	if (*ret_torn >= AUDIT_LINE || (!end && from))
		return err_set(
			e, R_AUDIT_BROKEN, 0, "read '%s': its last line is none of ours", name);
	if (!end)
		return 0;
	start = memrchr(text, '\n', (size_t)(end - text));
	start = start ? start + 1 : text;
	wrong = start == text && from ? "it is too long"
				      : audit_read_line(start, (size_t)(end - start), ret);
	return wrong ? err_set(e, R_AUDIT_BROKEN, 0, "read the last line of '%s': %s", name, wrong)
		     : 1;
}

/* A file with nothing in it goes on where the newest full one ended. */
static int find_place(struct writer *w, struct err *e)
{
	const int r = read_last(w->fd, w->size, AUDIT_NAME, &w->last, &w->torn, e);
	struct audit_files files = { .n = 0 };
	_cleanup_close_ int fd = -1;
	uint64_t torn = 0;
	struct stat st;

	if (r != 0)
		return r < 0 ? -1 : 0;
	w->last = (struct audit_place){ .seq = 0 };
	memcpy(w->last.hash, audit_no_hash, sizeof w->last.hash);
	if (audit_list_files(w->dir, &files, e) < 0)
		return -1;
	if (!files.n)
		return 0;
	FMT(w->before, AUDIT_FULL, files.number[files.n - 1]);
	fd = openat(w->dir, w->before, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open '%s'", w->before);
	w->continued = true;
	if (read_last(fd, st.st_size, w->before, &w->last, &torn, e) == 1 && !torn)
		return 0;
	return e->reason
		? -1
		: err_set(e, R_AUDIT_BROKEN, 0, "read '%s': it has no last line", w->before);
}

static int begin(struct writer *w, struct err *e)
{
	_cleanup_free_ char *home = NULL;
	struct stat st;

	if (home_path(&home, e) < 0 || make_dirs(home, e) < 0)
		return -1;
	w->dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->dir < 0 || fstat(w->dir, &st) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open '%s'", home);
	if (st.st_uid != geteuid())
		return err_set(e, R_STATE_UNWRITABLE, 0,
			"write the audit log in '%s': it belongs to uid '%u', not '%u'", home,
			st.st_uid, geteuid());
	if (open_file(w, e) < 0)
		return -1;
	return find_place(w, e);
}

/* Renamed while it is locked: whoever waited for the lock looks for the name again.  Should it fail the file grows. */
static void begin_next(const struct writer *w)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct audit_files files = { .n = 0 };
	char full[64];

	if (audit_list_files(w->dir, &files, &ignored) < 0 || files.n == AUDIT_MAX_FILES)
		return;
	FMT(full, AUDIT_FULL, files.n ? files.number[files.n - 1] + 1 : 1);
	(void)renameat2(w->dir, AUDIT_NAME, w->dir, full, RENAME_NOREPLACE);
	(void)fsync(w->dir);
}

static int end(struct writer *w, struct err *e)
{
	if (w->out.failed || write_all(w->fd, w->out.data, w->out.len) < 0 ||
		fdatasync(w->fd) < 0) {
		unwritable("write", e);
		(void)!ftruncate(w->fd, w->size);
		return -1;
	}
	if (!w->size)
		(void)fsync(w->dir);
	if (w->size + (off_t)w->out.len >= audit_file_bytes)
		begin_next(w);
	return 0;
}

/* --- a line --- */

static const char *const severities[] = { "info", "warning" };
enum severity { INFO, WARNING };

/* Of a text, cut at AUDIT_TEXT. */
static size_t text_length(const char *text)
{
	size_t n = 0;

	while (n < AUDIT_TEXT && text[n])
		n++;
	return n;
}

static void line_begin(const struct writer *w, struct json *j, struct buf *line,
	enum severity severity, const char *event, const char *agent)
{
	json_init(j, line);
	json_object_begin(j, NULL);
	json_uint(j, "seq", w->last.seq + 1);
	json_time(j, "time");
	json_string(j, "severity", severities[severity]);
	json_string(j, "event", event);
	if (agent)
		json_bytes(j, "agent_id", agent, text_length(agent));
	json_object_begin(j, "details");
}

static void line_end(struct writer *w, struct json *j, struct buf *line)
{
	json_object_end(j);
	json_string(j, "prev", w->last.hash);
	memcpy(w->last.prev, w->last.hash, sizeof w->last.prev);
	audit_digest(line->data, line->len, w->last.hash);
	buf_printf(line, ",\"hash\":\"%s\"}\n", w->last.hash);
	w->last.seq++;
	if (line->failed || line->len >= AUDIT_LINE)
		w->out.failed = true;
	else
		buf_add(&w->out, line->data, line->len);
}

static void put_TEXT(struct json *j, const char *name, const char *value)
{
	if (value)
		json_bytes(j, name, value, text_length(value));
}

static void put_NUMBER(struct json *j, const char *name, uint64_t value)
{
	json_uint(j, name, value);
}

#define PUT(type, member) put_##type(&j, #member, p->member);
#define EVENT(name, severity, fields, doc) \
	static void add_##name(struct writer *w, const char *agent, const struct audit_##name *p) \
	{ \
		_cleanup_buf_ struct buf line = BUF_INIT; \
		struct json j; \
\
		line_begin(w, &j, &line, severity, #name, agent); \
		fields(PUT) line_end(w, &j, &line); \
	}
#include "store/events.def"
#undef EVENT

/* What has to be said before anything else. */
static void add_first(struct writer *w)
{
	if (w->torn) {
		buf_puts(&w->out, "\n");
		add_audit_recovered(w, NULL, &(struct audit_audit_recovered){ .bytes = w->torn });
	}
	if (w->continued)
		add_audit_continued(w, NULL, &(struct audit_audit_continued){ .file = w->before });
}

#define EVENT(name, severity, fields, doc) \
	int audit_##name(const char *agent, const struct audit_##name *p, struct err *e) \
	{ \
		_cleanup_writer_ struct writer w = { .dir = -1, .fd = -1 }; \
\
		if (begin(&w, e) < 0) \
			return -1; \
		add_first(&w); \
		add_##name(&w, agent, p); \
		return end(&w, e); \
	}
#include "store/events.def"
#undef EVENT
