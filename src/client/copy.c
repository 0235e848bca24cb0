/* Owns copying trees between host and sandbox: src/tree/ reads and writes the host's side, the guest its own, and an archive
 * goes between them.  Called by users of the library.
 *
 * What comes out is an archive that somebody hostile may have made: tree_writer_*() refuses or contains it, beneath a
 * directory that this process opened. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "client/client.h"
#include "client/file.h"
#include "tree/tree.h"

enum { LISTEN_BYTES = 256 << 10 };

/* Where something is copied to: a directory that is there, and the name in it. */
struct place {
	char *dir, *name; /* owned */
};

static void place_done(struct place *p)
{
	free(p->dir);
	free(p->name);
}

/* "dir/name"; trailing slashes don't count.  The root has no name: "." */
static void split_path(const char *path, struct place *ret)
{
	size_t n = strlen(path), base;

	while (n > 1 && path[n - 1] == '/')
		n--;
	base = n;
	while (base && path[base - 1] != '/')
		base--;
	ret->name = n == 1 && *path == '/' ? xstrdup(".") : strndup(path + base, n - base);
	while (base > 1 && path[base - 1] == '/')
		base--;
	ret->dir = base ? strndup(path, base) : xstrdup(".");
}

static bool names_nothing(const char *name)
{
	return !name || !*name || streq(name, ".") || streq(name, "..");
}

static void count(struct bailey_copied *ret, const struct tree_counts *c)
{
	if (!ret)
		return;
	memset(ret, 0, sizeof *ret);
	ret->entries = c->files + c->dirs + c->symlinks + c->hardlinks;
	ret->bytes = c->bytes;
	ret->skipped = c->skipped;
	ret->changed = c->changed;
}

void bailey_on_progress(struct bailey_sandbox *s, bailey_progress_fn *fn, void *arg)
{
	s->progress = fn;
	s->progress_arg = arg;
}

static void tell(const struct bailey_sandbox *s, uint64_t bytes)
{
	if (s->progress)
		s->progress(s->progress_arg, bytes);
}

/* --- in --- */

/* Reads to where it is sent from. */
static int pump_reader(struct tree_reader *r, struct stream *st, const char *path, struct err *e)
{
	uint64_t listened = 0;
	uint8_t *to;
	size_t n;

	while (!st->over) {
		if (stream_space(st, &to, &n, e) < 0)
			return -1;
		if (!n) {
			if (stream_wait_room(st, "copy to", path, e) < 0)
				return -1;
			continue;
		}
		if (tree_reader_read(r, to, n, &n, e) < 0)
			return -1;
		if (!n) {
			tell(st->conn, st->feed.sent);
			return stream_send_eof(st, e);
		}
		if (stream_filled(st, n, e) < 0)
			return -1;
		if (st->feed.sent - listened < LISTEN_BYTES)
			continue;
		listened = st->feed.sent;
		tell(st->conn, listened);
		/* an early refusal is heard as soon as it is there */
		if (conn_turn(st->conn, 0, e) < 0)
			return -1;
	}
	return 0;
}

static const struct stream_ops plain_ops = { .data = NULL };

static int send_tree(
	struct bailey_sandbox *s, struct tree_reader *reader, const char *dir, struct err *e)
{
	struct stream st = { .number = 0 };
	int r = -1;

	if (file_begin(s, &st, &plain_ops, dir, e) < 0)
		return -1;
	if (put_tar(&st, true, dir, 0, e) == 0 && pump_reader(reader, &st, dir, e) == 0)
		r = stream_wait(&st, false, "copy to", dir, e);
	stream_end(&st);
	return r;
}

/* A directory takes the source under its own name; else the path is the new name. */
static int inside_place(struct bailey_sandbox *s, const char *path, const char *own_name,
	struct place *ret, struct err *e)
{
	_cleanup_err_ struct err missing = ERR_INIT;
	struct bailey_stat st;
	int r = file_stat(s, path, BAILEY_FOLLOW, &st, &missing);

	if (r < 0 && missing.reason != R_PATH_NOT_FOUND)
		return err_move(e, &missing);
	if (r == 0 && S_ISDIR(st.mode)) {
		ret->dir = xstrdup(path);
		ret->name = xstrdup(own_name);
	} else if (r < 0 && path[strlen(path) - 1] == '/') {
		return err_move(e, &missing);
	} else {
		split_path(path, ret);
	}
	if (names_nothing(ret->name))
		return err_set(e, R_BAD_VALUE, 0, "copy to '%.256s': no name is left for it", path);
	return 0;
}

static int copy_in(struct bailey_sandbox *s, const char *host, const char *path, unsigned flags,
	struct bailey_copied *ret, struct err *e)
{
	const bool contents = flags & BAILEY_COPY_CONTENTS;
	_cleanup_tree_reader_ struct tree_reader *reader = NULL;
	_cleanup_(place_done) struct place from = { NULL, NULL }, to = { NULL, NULL };
	_cleanup_close_ int dir = -1;
	struct tree_read_options o = { .max_entries = 0 };
	_cleanup_free_ char *real = flags & BAILEY_COPY_FOLLOW ? realpath(host, NULL) : NULL;
	const char *name;

	if (real)
		host = real;
	if (file_path(path, e) < 0)
		return -1;
	split_path(host, &from);
	/* the directory of the source is opened by path, with the caller's own rights; what is in it by descriptor alone */
	name = contents || names_nothing(from.name) ? NULL : from.name;
	dir = open(name ? from.dir : host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(e,
			errno == ENOENT ? R_PATH_NOT_FOUND : client_reason((uint32_t)errno), errno,
			"open '%.512s'", name ? from.dir : host);
	if (contents) {
		to.dir = xstrdup(path);
		to.name = xstrdup(".");
	} else if (inside_place(s, path, name ? name : "", &to, e) < 0) {
		return -1;
	}
	if (tree_reader_open(&reader, dir, name, contents ? NULL : to.name, &o, e) < 0 ||
		send_tree(s, reader, to.dir, e) < 0)
		return -1;
	count(ret, tree_reader_counts(reader));
	return 0;
}

int bailey_copy_in(struct bailey_sandbox *s, const char *host_path, const char *path,
	unsigned flags, struct bailey_copied *ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(copy_in(s, host_path, path, flags, ret, &err), e, &err);
}

/* --- out --- */

struct copy_out {
	struct stream st;
	struct tree_writer *writer;
	struct err *failed; /* of the host's side: the connection itself is well */
};

/* A failure here ends the copy, not the connection. */
static int write_data(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e)
{
	struct copy_out *o = (struct copy_out *)st;

	(void)lane;
	(void)e;
	tell(st->conn, st->lanes[0].received);
	if (o->failed->reason == REASON_NONE && tree_writer_feed(o->writer, p, n, o->failed) < 0)
		st->paused = true;
	return 0;
}

static const struct stream_ops out_ops = { .data = write_data };

static bool out_over(const struct stream *st)
{
	return st->over || ((const struct copy_out *)st)->failed->reason != REASON_NONE;
}

static int receive_tree(struct bailey_sandbox *s, const char *path, unsigned flags,
	struct tree_writer *writer, struct err *e)
{
	_cleanup_err_ struct err failed = ERR_INIT;
	struct copy_out o = { .writer = writer, .failed = &failed };
	int r = -1;

	if (file_begin(s, &o.st, &out_ops, path, e) < 0)
		return -1;
	if (put_tar(&o.st, false, path, flags & BAILEY_COPY_FOLLOW ? BAILEY_FOLLOW : 0, e) == 0)
		r = stream_wait_for(&o.st, out_over, s->timeout_ms, "copy from", path, e);
	if (r == 0 && failed.reason != REASON_NONE)
		r = err_move(e, &failed);
	else if (r == 0)
		r = stream_wait(&o.st, false, "copy from", path, e);
	if (r == 0 && !o.st.lanes[0].eof)
		r = err_set(e, R_WIRE_MALFORMED, 0, "copy from '%.256s': its end is missing", path);
	stream_end(&o.st);
	return r;
}

static int outside_place(
	const char *host, const char *own_name, struct place *ret, int *ret_dir, struct err *e)
{
	struct stat st;
	int r = stat(host, &st);

	if (r < 0 && errno != ENOENT)
		return err_set(e, client_reason((uint32_t)errno), errno, "stat '%.512s'", host);
	if (r == 0 && S_ISDIR(st.st_mode)) {
		ret->dir = xstrdup(host);
		ret->name = xstrdup(own_name);
	} else if (r < 0 && *host && host[strlen(host) - 1] == '/') {
		return err_set(e, R_PATH_NOT_FOUND, ENOENT, "copy to '%.512s'", host);
	} else {
		split_path(host, ret);
	}
	if (names_nothing(ret->name))
		return err_set(e, R_BAD_VALUE, 0, "copy to '%.256s': no name is left for it", host);
	*ret_dir = open(ret->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dir < 0)
		return err_set(e, client_reason((uint32_t)errno), errno, "open '%.512s'", ret->dir);
	return 0;
}

static int copy_out(struct bailey_sandbox *s, const char *path, const char *host, unsigned flags,
	struct bailey_copied *ret, struct err *e)
{
	_cleanup_tree_writer_ struct tree_writer *writer = NULL;
	_cleanup_(place_done) struct place from = { NULL, NULL }, to = { NULL, NULL };
	struct tree_write_options o = { .flags = 0 };
	struct tree_counts counts = { .files = 0 };
	_cleanup_close_ int dir = -1;

	if (file_path(path, e) < 0)
		return -1;
	split_path(path, &from);
	if (flags & BAILEY_COPY_CONTENTS) {
		dir = open(host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			return err_set(
				e, client_reason((uint32_t)errno), errno, "open '%.512s'", host);
		/* the root of the archive has to be "." then: asked for by the path's own "." */
		free(from.dir);
		from.dir = xasprintf("%s/.", path);
		path = from.dir;
	} else if (outside_place(host, from.name, &to, &dir, e) < 0) {
		return -1;
	} else {
		o.top = to.name;
	}
	if (tree_writer_open(&writer, dir, &o, e) < 0 ||
		receive_tree(s, path, flags, writer, e) < 0 ||
		tree_writer_finish(writer, &counts, e) < 0)
		return -1;
	count(ret, &counts);
	return 0;
}

int bailey_copy_out(struct bailey_sandbox *s, const char *path, const char *host_path,
	unsigned flags, struct bailey_copied *ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(copy_out(s, path, host_path, flags, ret, &err), e, &err);
}
