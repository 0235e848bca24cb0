/* Owns the requests about files inside: each is a stream that lives for one call.  Called by users of the library and by
 * copy.c. */
#include "client/file.h"

#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "client/client.h"

enum { DEFAULT_MAX = 1000000, DEFAULT_MATCHES = 10000, DEFAULT_MAX_SIZE = 16 << 20 };
enum { LIST_FIXED = 32 };

int file_path(const char *path, struct err *e)
{
	if (!path || *path != '/' || strlen(path) >= WIRE_MAX_PATH)
		return err_set(e, R_BAD_VALUE, 0, "use path '%.128s': not an absolute one%s",
			path ? path : "", path && *path == '/' ? ", too long" : "");
	return 0;
}

uint32_t file_flags(unsigned flags)
{
	return (flags & BAILEY_PARENTS ? WIRE_FILE_PARENTS : 0u) |
		(flags & BAILEY_RECURSIVE ? WIRE_FILE_RECURSIVE : 0u) |
		(flags & BAILEY_FOLLOW ? WIRE_FILE_FOLLOW : 0u) |
		(flags & BAILEY_EXCLUSIVE ? WIRE_FILE_EXCLUSIVE : 0u) |
		(flags & BAILEY_OWNERS ? WIRE_FILE_OWNERS : 0u);
}

int file_begin(struct bailey_sandbox *s, struct stream *st, const struct stream_ops *ops,
	const char *path, struct err *e)
{
	if (file_path(path, e) < 0 || conn_check(s, e) < 0)
		return -1;
	stream_begin(s, st, ops);
	return 0;
}

#define REST(text) .rest = (const uint8_t *)(text), .rest_len = (uint32_t)strlen(text)

static const struct stream_ops plain_ops = { .data = NULL };

/* --- stat --- */

struct stat_request {
	struct stream st;
	struct bailey_stat *ret;
	bool stated;
};

static int stat_frame(struct stream *st, const struct wire_frame *f, struct err *e)
{
	struct stat_request *r = (struct stat_request *)st;
	struct wire_stated m;

	if (f->type != WIRE_STATED || !wire_get_stated(f, &m) || r->stated ||
		m.rest_len >= sizeof r->ret->target)
		return err_set(e, R_WIRE_MALFORMED, 0, "read what the engine of '%s' says: %s",
			st->conn->id, wire_type_name(f->type));
	r->stated = true;
	r->ret->mode = m.mode;
	r->ret->uid = m.uid;
	r->ret->gid = m.gid;
	r->ret->links = m.links;
	r->ret->size = m.size;
	r->ret->mtime_ns = (int64_t)m.mtime_ns;
	r->ret->inode = m.inode;
	if (m.rest_len)
		memcpy(r->ret->target, m.rest, m.rest_len);
	r->ret->target[m.rest_len] = '\0';
	return 0;
}

static const struct stream_ops stat_ops = { .frame = stat_frame };

int file_stat(struct bailey_sandbox *s, const char *path, unsigned flags, struct bailey_stat *ret,
	struct err *e)
{
	struct stat_request r = { .ret = ret };
	struct wire_stat m = { .flags = file_flags(flags) & WIRE_FILE_FOLLOW };
	int failed;

	if (file_begin(s, &r.st, &stat_ops, path, e) < 0)
		return -1;
	m.stream = r.st.number;
	m.rest = (const uint8_t *)path;
	m.rest_len = (uint32_t)strlen(path);
	failed = conn_put(s, stat, &m, e) < 0 || stream_wait(&r.st, false, "stat", path, e) < 0;
	if (!failed && !r.stated)
		failed = err_set(e, R_WIRE_MALFORMED, 0, "stat '%.256s': no answer", path) < 0;
	stream_end(&r.st);
	return failed ? -1 : 0;
}

int bailey_stat(struct bailey_sandbox *s, const char *path, unsigned flags, struct bailey_stat *ret,
	struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(file_stat(s, path, flags, ret, &err), e, &err);
}

/* --- list and search --- */

struct entries {
	struct pieces_stream p;
	bailey_entry_fn *fn;
	void *arg;
	uint32_t left; /* entries that may come */
	bool search, text;
};

static int bad_record(struct err *e)
{
	return err_set(e, R_WIRE_MALFORMED, 0, "read an answer: a record is wrong");
}

/* u16 length, mode, uid, gid, u64 size, mtime, u16 name length, name, target */
int entry_parse(const uint8_t *p, size_t n, bool path, struct entry_text *text,
	struct bailey_entry *ret, struct err *e)
{
	size_t name_len = n < LIST_FIXED ? 0 : get_le16(p + 30), more_len;

	if (!name_len || name_len > n - LIST_FIXED)
		return bad_record(e);
	more_len = n - LIST_FIXED - name_len;
	if (name_len >= sizeof text->name || more_len >= sizeof text->more ||
		memchr(p + LIST_FIXED, '\0', name_len))
		return bad_record(e);
	memcpy(text->name, p + LIST_FIXED, name_len);
	text->name[name_len] = '\0';
	if (leads_out(text->name, path))
		return bad_record(e);
	memcpy(text->more, p + LIST_FIXED + name_len, more_len);
	text->more[more_len] = '\0';
	*ret = (struct bailey_entry){ .size_of = sizeof *ret,
		.name = text->name,
		.mode = get_le32(p + 2),
		.uid = get_le32(p + 6),
		.gid = get_le32(p + 10),
		.size = get_le64(p + 14),
		.mtime_ns = (int64_t)get_le64(p + 22),
		.target = text->more,
		.text = "",
		.text_size = more_len };
	return 0;
}

static int take_entry(void *arg, uint8_t *p, size_t n, struct err *e)
{
	struct entries *l = arg;
	struct entry_text text;
	struct bailey_entry entry;

	if (!l->left--)
		return err_set(e, R_WIRE_MALFORMED, 0, "read an answer: more than was asked for");
	if (entry_parse(p, n, l->search, &text, &entry, e) < 0)
		return -1;
	if (l->text) {
		/* a matching line: its number stands in the place of the size */
		entry.line = entry.size;
		entry.size = 0;
		entry.text = text.more;
		entry.target = "";
	} else {
		entry.text_size = 0;
	}
	return l->fn(l->arg, &entry) != 0;
}

static int entries_wait(
	struct entries *l, bool slow, const char *what, const char *path, struct err *e)
{
	if (stream_wait(&l->p.st, slow, what, path, e) < 0 || pieces_end(&l->p.pieces, e) < 0)
		return -1;
	return l->p.pieces.ended || l->p.st.result.flags & WIRE_RESULT_TRUNCATED;
}

static void entries_end(struct entries *l)
{
	stream_end(&l->p.st);
	pieces_done(&l->p.pieces);
}

static struct pieces entry_pieces(struct entries *l)
{
	return (struct pieces){ .kind = PIECES_RECORDS, .each = take_entry, .arg = l };
}

int bailey_list(struct bailey_sandbox *s, const char *path, uint32_t max, bailey_entry_fn *fn,
	void *arg, struct bailey_error *e)
{
	struct entries l = { .fn = fn, .arg = arg };
	struct wire_list m = { .max = max ? max : DEFAULT_MAX };
	struct err err = ERR_INIT;
	int r = -1;

	l.p.pieces = entry_pieces(&l);
	if (file_begin(s, &l.p.st, &pieces_ops, path, &err) < 0)
		return client_fail(e, &err);
	l.left = m.max;
	m.stream = l.p.st.number;
	m.rest = (const uint8_t *)path;
	m.rest_len = (uint32_t)strlen(path);
	if (conn_put(s, list, &m, &err) == 0)
		r = entries_wait(&l, false, "list", path, &err);
	entries_end(&l);
	return client_give(r, e, &err);
}

static int send_search(struct bailey_sandbox *s, uint32_t stream,
	const struct bailey_search_options *o, struct err *e)
{
	_cleanup_buf_ struct buf rest = { .max = WIRE_MAX_BODY - 64 };
	struct wire_search m = { .stream = stream,
		.flags = (o->ignore_case ? WIRE_SEARCH_IGNORE_CASE : 0u) |
			(o->hidden ? WIRE_SEARCH_HIDDEN : 0u),
		.max = o->max ? o->max : DEFAULT_MATCHES,
		.max_size = o->max_size ? o->max_size : DEFAULT_MAX_SIZE };

	(void)buf_add(&rest, o->path, strlen(o->path) + 1);
	if (o->pattern)
		(void)buf_puts(&rest, o->pattern);
	(void)buf_add(&rest, "", 1);
	if (o->text)
		(void)buf_puts(&rest, o->text);
	if (rest.failed)
		return err_set(
			e, R_OUT_OF_RANGE, 0, "search '%.256s': the pattern is too long", o->path);
	m.rest = (const uint8_t *)rest.data;
	m.rest_len = (uint32_t)rest.len;
	return conn_put(s, search, &m, e);
}

int bailey_search(struct bailey_sandbox *s, const struct bailey_search_options *given,
	bailey_entry_fn *fn, void *arg, struct bailey_error *e)
{
	struct bailey_search_options o = BAILEY_SEARCH_OPTIONS_INIT;
	struct entries l = { .fn = fn, .arg = arg, .search = true };
	struct err err = ERR_INIT;
	int r = -1;

	if (client_options(&o, sizeof o, given, "search", &err) < 0)
		return client_fail(e, &err);
	l.p.pieces = entry_pieces(&l);
	l.text = o.text && *o.text;
	l.left = o.max ? o.max : DEFAULT_MATCHES;
	if (file_begin(s, &l.p.st, &pieces_ops, o.path, &err) < 0)
		return client_fail(e, &err);
	if (send_search(s, l.p.st.number, &o, &err) == 0)
		r = entries_wait(&l, true, "search", o.path, &err);
	entries_end(&l);
	return client_give(r, e, &err);
}

/* --- read --- */

/* An error of a descriptor of the caller's comes before what the sandbox made of it. */
static int sink_failed(const struct stream *st, const char *path, struct err *e)
{
	const int error = st->lanes[0].error;

	if (!error)
		return 0;
	return err_set(e, error == ENOSPC || error == EDQUOT ? R_DISK_FULL : R_OUTPUT_FAILED, error,
		"write what was read of '%.256s'", path);
}

static int bytes_missing(const struct stream *st, const char *path, struct err *e)
{
	if (st->lanes[0].eof)
		return 0;
	return err_set(e, R_WIRE_MALFORMED, 0, "read '%.256s': its end is missing", path);
}

static int put_read(
	struct stream *st, const char *path, uint64_t offset, uint64_t length, struct err *e)
{
	const struct wire_read m = {
		.stream = st->number, .offset = offset, .length = length, REST(path)
	};

	return conn_put(st->conn, read, &m, e);
}

int bailey_read_to(struct bailey_sandbox *s, const char *path, uint64_t offset, uint64_t length,
	int fd, uint64_t *ret, struct bailey_error *e)
{
	struct stream st = { .number = 0 };
	struct err err = ERR_INIT;
	int r = -1;

	if (file_begin(s, &st, &plain_ops, path, &err) < 0)
		return client_fail(e, &err);
	st.most = length;
	if (stream_sink(&st, 0, fd, &err) == 0 && put_read(&st, path, offset, length, &err) == 0 &&
		stream_wait(&st, false, "read", path, &err) == 0 &&
		sink_failed(&st, path, &err) == 0 && bytes_missing(&st, path, &err) == 0)
		r = 0;
	if (ret)
		*ret = st.lanes[0].received;
	stream_end(&st);
	return client_give(r, e, &err);
}

struct read_request {
	struct stream st;
	uint8_t *data;
	size_t n, cap;
};

static int read_data(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e)
{
	struct read_request *r = (struct read_request *)st;

	(void)lane;
	if (n > r->cap - r->n)
		return err_set(e, R_WIRE_MALFORMED, 0, "read an answer: more than was asked for");
	memcpy(r->data + r->n, p, n);
	r->n += n;
	return 0;
}

static const struct stream_ops read_ops = { .data = read_data };

ssize_t bailey_read(struct bailey_sandbox *s, const char *path, uint64_t offset, void *data,
	size_t n, struct bailey_error *e)
{
	struct read_request r = { .data = data, .cap = n };
	struct err err = ERR_INIT;
	ssize_t got = -1;

	if (n == 0)
		return 0;
	if (file_begin(s, &r.st, &read_ops, path, &err) < 0)
		return client_fail(e, &err);
	if (put_read(&r.st, path, offset, n, &err) == 0 &&
		stream_wait(&r.st, false, "read", path, &err) == 0 &&
		bytes_missing(&r.st, path, &err) == 0)
		got = (ssize_t)r.n;
	stream_end(&r.st);
	return got < 0 ? client_fail(e, &err) : got;
}

/* --- write --- */

static int put_write(
	struct stream *st, const char *path, uint32_t mode, unsigned flags, struct err *e)
{
	const struct wire_write m = { .stream = st->number,
		.flags = file_flags(flags) & (WIRE_FILE_PARENTS | WIRE_FILE_EXCLUSIVE),
		.mode = mode ? mode : 0644,
		REST(path) };

	if (mode & ~0777u)
		return err_set(e, R_BAD_VALUE, 0, "write '%.256s': mode %o", path, mode);
	st->feed.open = st->feed.whole = true;
	return conn_put(st->conn, write, &m, e);
}

/* What is read from a descriptor: a file's bytes, or with tar an archive. */
struct upload {
	bool tar;
	uint32_t mode;
	unsigned flags;
	const char *what;
};

static int upload(struct bailey_sandbox *s, const char *path, int fd, const struct upload *u,
	struct bailey_error *e)
{
	struct stream st = { .number = 0 };
	struct err err = ERR_INIT;
	int r;

	if (file_begin(s, &st, &plain_ops, path, &err) < 0)
		return client_fail(e, &err);
	r = u->tar ? put_tar(&st, true, path, u->flags, &err)
		   : put_write(&st, path, u->mode, u->flags, &err);
	if (r == 0)
		r = stream_source(&st, fd, &err);
	if (r == 0)
		r = stream_wait(&st, false, u->what, path, &err);
	stream_end(&st);
	return client_give(r, e, &err);
}

int bailey_write_from(struct bailey_sandbox *s, const char *path, int fd, uint32_t mode,
	unsigned flags, struct bailey_error *e)
{
	const struct upload u = { .mode = mode, .flags = flags, .what = "write" };

	return upload(s, path, fd, &u, e);
}

int stream_send_all(struct stream *st, const void *data, size_t n, const char *what,
	const char *path, struct err *e)
{
	const uint8_t *p = data;

	while (n && !st->over) {
		size_t taken = 0;

		if (stream_send(st, p, n, &taken, e) < 0)
			return -1;
		p += taken;
		n -= taken;
		if (n && !taken && stream_wait_room(st, what, path, e) < 0)
			return -1;
	}
	return 0;
}

int bailey_write(struct bailey_sandbox *s, const char *path, const void *data, size_t n,
	uint32_t mode, unsigned flags, struct bailey_error *e)
{
	struct stream st = { .number = 0 };
	struct err err = ERR_INIT;
	int r = -1;

	if (file_begin(s, &st, &plain_ops, path, &err) < 0)
		return client_fail(e, &err);
	if (put_write(&st, path, mode, flags, &err) == 0 &&
		stream_send_all(&st, data, n, "write", path, &err) == 0 &&
		stream_send_eof(&st, &err) == 0)
		r = stream_wait(&st, false, "write", path, &err);
	stream_end(&st);
	return client_give(r, e, &err);
}

/* --- one question, one answer --- */

#define SIMPLE(name, slow, what, path, ...) \
	struct stream st = { .number = 0 }; \
	struct err err = ERR_INIT; \
	int r = -1; \
\
	if (file_begin(s, &st, &plain_ops, path, &err) < 0) \
		return client_fail(e, &err); \
	{ \
		const struct wire_##name m = { .stream = st.number, __VA_ARGS__ }; \
\
		if (conn_put(s, name, &m, &err) == 0) \
			r = stream_wait(&st, slow, what, path, &err); \
	} \
	stream_end(&st); \
	return client_give(r, e, &err)

int bailey_mkdir(struct bailey_sandbox *s, const char *path, uint32_t mode, unsigned flags,
	struct bailey_error *e)
{
	SIMPLE(mkdir, false, "make directory", path, .flags = file_flags(flags) & WIRE_FILE_PARENTS,
		.mode = mode ? mode & 0777 : 0755, REST(path));
}

int bailey_unlink(
	struct bailey_sandbox *s, const char *path, unsigned flags, struct bailey_error *e)
{
	SIMPLE(remove, true, "remove", path, .flags = file_flags(flags) & WIRE_FILE_RECURSIVE,
		REST(path));
}

int bailey_rename(
	struct bailey_sandbox *s, const char *from, const char *to, struct bailey_error *e)
{
	_cleanup_buf_ struct buf both = { .max = 2 * WIRE_MAX_PATH };
	struct err bad = ERR_INIT;

	if (file_path(from, &bad) < 0 || file_path(to, &bad) < 0)
		return client_fail(e, &bad);
	(void)buf_add(&both, from, strlen(from) + 1);
	(void)buf_puts(&both, to);
	SIMPLE(rename, false, "rename", from, .rest = (const uint8_t *)both.data,
		.rest_len = (uint32_t)both.len);
}

/* --- archives --- */

int put_tar(struct stream *st, bool in, const char *path, unsigned flags, struct err *e)
{
	const struct wire_tar_in m = { .stream = st->number,
		.flags = file_flags(flags) & (WIRE_FILE_PARENTS | WIRE_FILE_OWNERS),
		REST(path) };
	const struct wire_tar_out o = {
		.stream = st->number, .flags = file_flags(flags) & WIRE_FILE_FOLLOW, REST(path)
	};

	st->feed.open = st->feed.whole = in;
	return in ? conn_put(st->conn, tar_in, &m, e) : conn_put(st->conn, tar_out, &o, e);
}

int bailey_tar_out(
	struct bailey_sandbox *s, const char *path, unsigned flags, int fd, struct bailey_error *e)
{
	struct stream st = { .number = 0 };
	struct err err = ERR_INIT;
	int r = -1;

	if (file_begin(s, &st, &plain_ops, path, &err) < 0)
		return client_fail(e, &err);
	if (stream_sink(&st, 0, fd, &err) == 0 && put_tar(&st, false, path, flags, &err) == 0 &&
		stream_wait(&st, false, "archive", path, &err) == 0 &&
		sink_failed(&st, path, &err) == 0 && bytes_missing(&st, path, &err) == 0)
		r = 0;
	stream_end(&st);
	return client_give(r, e, &err);
}

int bailey_tar_in(
	struct bailey_sandbox *s, const char *path, unsigned flags, int fd, struct bailey_error *e)
{
	const struct upload u = { .tar = true, .flags = flags, .what = "extract in" };

	return upload(s, path, fd, &u, e);
}
