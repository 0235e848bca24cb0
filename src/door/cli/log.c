/* Owns `log`: reads what base/log.c writes, and for audit.c what store/audit.c writes.  Called by main.c.  The lines quote what guests and commands said, so each is
 * taken apart as untrusted text and nothing in it reaches a terminal unescaped. */
#include "base/log.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/home.h"
#include "base/str.h"
#include "door/cli/verb.h"

enum {
	/* a full log and one more line by each of many writers */
	FILE_MAX = LOG_MAX_BYTES + (4 << 20),
	/* a person reads along: no need for inotify, which also misses what another host writes */
	FOLLOW_MS = 200,
};

struct reader {
	struct buf text; /* read and not yet printed: at the end a part of a line */
	int fd;
	bool json;
};

/* The JSON value at s as a string without its quotes or as it stands; the end of it, or NULL when it is no plain value. */
static const char *value_at(const char *s, const char *end, const char **ret, size_t *n)
{
	const char *p = s;

	if (p < end && *p == '"') {
		for (p++; p < end && *p != '"'; p++)
			if (*p == '\\')
				p++;
		if (p >= end)
			return NULL;
		*ret = s + 1;
		*n = (size_t)(p - s - 1);
		return p + 1;
	}
	while (p < end && *p != ',' && *p != '}' && *p != '{' && *p != '[' && *p != '"')
		p++;
	*ret = s;
	*n = (size_t)(p - s);
	return p < end && p > s && (*p == ',' || *p == '}') ? p : NULL;
}

/* Prints "name=value", of the three fields that begin every line the value alone; in quotes, still escaped as in JSON, when
 * it would otherwise not be one word. */
static void add_field(struct buf *out, const char *name, size_t name_n, const char *value, size_t n,
	unsigned place)
{
	static const char *const first[] = { "time", "level", "event" };
	bool bare = n > 0;

	for (size_t i = 0; i < n; i++)
		bare = bare && value[i] > ' ' && value[i] < 0x7f && value[i] != '"' &&
			value[i] != '\\' && value[i] != '=';
	if (place)
		buf_puts(out, " ");
	if (place >= 3 || name_n != strlen(first[place]) ||
		memcmp(name, first[place], name_n) != 0) {
		cli_escape(out, name, name_n);
		buf_puts(out, "=");
	}
	if (!bare)
		buf_puts(out, "\"");
	cli_escape(out, value, n);
	if (!bare)
		buf_puts(out, "\"");
}

/* False when the line isn't one flat JSON object. */
static bool add_object(struct buf *out, const char *s, const char *end)
{
	for (unsigned place = 0;; place++) {
		const char *name, *value;
		size_t name_n, n;

		if (s >= end || *s != (place ? ',' : '{'))
			return place && s + 1 == end && *s == '}';
		s++;
		if (s >= end || *s != '"' || !(s = value_at(s, end, &name, &name_n)) || s >= end ||
			*s != ':')
			return false;
		s = value_at(s + 1, end, &value, &n);
		if (!s)
			return false;
		add_field(out, name, name_n, value, n, place);
	}
}

static void add_line(struct buf *out, const char *s, size_t n, bool json)
{
	size_t before = out->len;

	if (json) {
		buf_add(out, s, n);
	} else if (!add_object(out, s, s + n)) {
		/* not one of ours: shown as it is, so that nothing is hidden */
		if (out->data && !out->failed)
			out->data[out->len = before] = '\0';
		cli_escape(out, s, n);
	}
	buf_puts(out, "\n");
}

/* Prints the whole lines of what was read, keeps the rest. */
static int print_lines(struct reader *r, const char *from, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *end = r->text.data + r->text.len, *newline;

	while ((newline = memchr(from, '\n', (size_t)(end - from)))) {
		add_line(&out, from, (size_t)(newline - from), r->json);
		from = newline + 1;
	}
	r->text.len = (size_t)(end - from);
	memmove(r->text.data, from, r->text.len + 1);
	return out.len ? cli_write(&out, e) : 0;
}

static int open_log(const char *path, int *ret, struct err *e)
{
	*ret = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (*ret < 0 && errno != ENOENT && errno != ENOTDIR)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open log '%s'", path);
	return 0;
}

/* Takes in what fd has left, at most FILE_MAX more: whoever writes without end is read the next time round. */
static int take(int fd, struct buf *text, struct err *e)
{
	for (size_t got = 0; got < FILE_MAX;) {
		ssize_t n;

		if (!buf_reserve(text, 65536))
			return err_set(e, R_BAD_VALUE, 0, "read the log: a line passes %zu bytes",
				text->max);
		n = read(fd, text->data + text->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, R_STATE_UNWRITABLE, errno, "read the log");
		if (!n)
			break;
		text->len += (size_t)n;
		text->data[text->len] = '\0';
		got += (size_t)n;
	}
	return 0;
}

static bool same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino &&
		sa.st_dev == sb.st_dev;
}

/* The start of the last `lines` whole lines. */
static const char *last_lines(const struct buf *text, uint64_t lines)
{
	const char *p = text->data + text->len;

	while (p > text->data && p[-1] != '\n')
		p--;
	for (; p > text->data; p--)
		if (p[-1] == '\n' && lines-- == 0)
			break;
	return p;
}

/* The older file first.  It is opened last: when the log is rotated in between, both names mean the same file, while the
 * other order would miss a whole one. */
static int print_tail(struct reader *r, const char *path, uint64_t lines, struct err *e)
{
	_cleanup_free_ char *old_path = xasprintf("%s.1", path);
	_cleanup_close_ int old = -1;

	if (open_log(path, &r->fd, e) < 0 || open_log(old_path, &old, e) < 0)
		return -1;
	if (old >= 0 && !(r->fd >= 0 && same_file(old, r->fd)) && take(old, &r->text, e) < 0)
		return -1;
	if (r->fd >= 0 && take(r->fd, &r->text, e) < 0)
		return -1;
	if (!r->text.len)
		return 0;
	return print_lines(r, last_lines(&r->text, lines), e);
}

static int drain(struct reader *r, struct err *e)
{
	if (r->fd < 0)
		return 0;
	if (take(r->fd, &r->text, e) < 0)
		return -1;
	return r->text.len ? print_lines(r, r->text.data, e) : 0;
}

/* Goes on with the file that now has the name; what was between, when the log was rotated twice, is read first. */
static int follow_rotation(struct reader *r, const char *path, struct err *e)
{
	_cleanup_free_ char *old_path = xasprintf("%s.1", path);
	_cleanup_close_ int now = -1, old = -1;

	if (open_log(path, &now, e) < 0)
		return -1;
	if (now < 0 || (r->fd >= 0 && same_file(now, r->fd)))
		return 0;
	if (open_log(old_path, &old, e) < 0 || drain(r, e) < 0)
		return -1;
	if (r->fd >= 0 && old >= 0 && !same_file(old, r->fd) && !same_file(old, now)) {
		(void)close_fd(r->fd);
		r->fd = move_fd(&old);
		if (drain(r, e) < 0)
			return -1;
	}
	(void)close_fd(r->fd);
	r->fd = move_fd(&now);
	return drain(r, e);
}

static int follow(struct reader *r, const char *path, struct err *e)
{
	for (;;) {
		struct stat st;

		if (cli_wait(FOLLOW_MS, e) < 0)
			return -1;
		/* someone emptied the file */
		if (r->fd >= 0 && fstat(r->fd, &st) == 0 && st.st_size < lseek(r->fd, 0, SEEK_CUR))
			(void)lseek(r->fd, 0, SEEK_SET);
		if (drain(r, e) < 0 || follow_rotation(r, path, e) < 0)
			return -1;
	}
}

int cli_tail(const struct options *o, const char *path, struct err *e)
{
	struct reader r = { .fd = -1, .json = o->json, .text = { .max = 4ul * FILE_MAX } };
	int status = print_tail(&r, path, o->lines, e);

	if (status == 0 && o->follow)
		status = follow(&r, path, e);
	(void)close_fd(r.fd);
	buf_done(&r.text);
	return status;
}

int verb_log(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_free_ char *home = NULL, *path = NULL;

	(void)argc;
	(void)argv;
	if (home_path(&home, e) < 0)
		return -1;
	path = xasprintf("%s/log/bailey.jsonl", home);
	return cli_tail(o, path, e);
}
