/* Says what the writable layers of a tree hold beside what lies below them, as records (docs/wire.md, CHANGES) or as an archive in
 * OCI layer format.  Called by engines, in a worker that the owner forked for it.
 *
 * Both sides are read as overlayfs reads them, by single names beneath held directories, never following: the workload made
 * every name, and may change them meanwhile.  Before the first one is looked at, worker_confine() has been called. */
#include "engine/changes.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/archive.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

enum {
	OUT_SIZE = 64 << 10,
	RECORD_HEAD = 15, /* u16 length, u8 kind, u32 mode, u64 size */
};

struct changes {
	const struct changes_how *how;
	char path[ARCHIVE_MAX_NAME + 1];
	size_t path_len;
	uint8_t *buf;
	size_t have;
	uint64_t left; /* bytes of data that the archive may still hold */
	struct archive_range ranges[ARCHIVE_MAX_RANGES];
	struct err *e;
};

/* --- output -------------------------------------------------------------------------------------------------------- */

static int flush(struct changes *c)
{
	size_t n = c->have;

	c->have = 0;
	if (write_all(c->how->out, c->buf, n) < 0)
		return err_set(c->e, R_OUTPUT_FAILED, errno, "write the changes");
	return 0;
}

static int put(struct changes *c, const void *p, size_t n)
{
	if (n > OUT_SIZE - c->have && flush(c) < 0)
		return -1;
	if (n > OUT_SIZE)
		return write_all(c->how->out, p, n) < 0
			? err_set(c->e, R_OUTPUT_FAILED, errno, "write the changes")
			: 0;
	memcpy(c->buf + c->have, p, n);
	c->have += n;
	return 0;
}

static int put_zeros(struct changes *c, uint64_t n)
{
	static const uint8_t zeros[4096];

	while (n) {
		size_t part = n < sizeof zeros ? (size_t)n : sizeof zeros;

		if (put(c, zeros, part) < 0)
			return -1;
		n -= part;
	}
	return 0;
}

static void put_number(uint8_t *p, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static int put_record(struct changes *c, char kind, uint32_t mode, uint64_t size)
{
	uint8_t head[RECORD_HEAD];

	put_number(head, RECORD_HEAD + c->path_len, 2);
	head[2] = (uint8_t)kind;
	put_number(head + 3, mode, 4);
	put_number(head + 7, size, 8);
	return put(c, head, sizeof head) < 0 ? -1 : put(c, c->path, c->path_len);
}

/* Extends the path by one name; the length before, or -1. */
static int enter(struct changes *c, const char *prefix, const char *name, size_t *ret_before)
{
	size_t n = strlen(prefix) + strlen(name), slash = c->path_len ? 1 : 0;

	*ret_before = c->path_len;
	if (c->path_len + slash + n > ARCHIVE_MAX_NAME)
		return err_set(c->e, R_OUT_OF_RANGE, 0,
			"list the changes: a path is longer than %d bytes", ARCHIVE_MAX_NAME);
	str_format(c->path + c->path_len, sizeof c->path - c->path_len, "%s%s%s", slash ? "/" : "",
		prefix, name);
	c->path_len += slash + n;
	return 0;
}

static void leave(struct changes *c, size_t before)
{
	c->path_len = before;
	c->path[before] = '\0';
}

/* --- the archive --------------------------------------------------------------------------------------------------- */

static int put_entry(struct changes *c, const struct archive_entry *entry, size_t n_ranges)
{
	size_t cap = ARCHIVE_HEADER_CAP(n_ranges), n;
	_cleanup_free_ uint8_t *head = xcalloc(1, cap);

	n = archive_put(head, cap, entry, n_ranges ? c->ranges : NULL, n_ranges);
	if (n == 0)
		return err_set(c->e, R_IO_FAILED, 0, "write an entry of the archive of changes");
	return put(c, head, n);
}

/* Where the data of a file lie.  More pieces than an archive takes: the last one holds the rest. */
static size_t find_ranges(struct changes *c, int fd, uint64_t size)
{
	uint64_t at = 0;
	size_t n = 0;

	while (at < size) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 || (uint64_t)data >= size)
			break;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || (uint64_t)hole > size)
			hole = (off_t)size;
		if (n == ARCHIVE_MAX_RANGES)
			c->ranges[n - 1].length = (uint64_t)hole - c->ranges[n - 1].offset;
		else
			c->ranges[n++] = (struct archive_range){ (uint64_t)data,
				(uint64_t)hole - (uint64_t)data };
		at = (uint64_t)hole;
	}
	return n;
}

/* A file that became shorter is filled up with zeros: its header is written. */
static int put_range(struct changes *c, int fd, const struct archive_range *r)
{
	uint64_t at = r->offset, end = r->offset + r->length;

	while (at < end) {
		uint64_t left = end - at;
		ssize_t n;

		if (c->have == OUT_SIZE && flush(c) < 0)
			return -1;
		if (left > OUT_SIZE - c->have)
			left = OUT_SIZE - c->have;
		n = pread(fd, c->buf + c->have, left, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return put_zeros(c, end - at);
		c->have += (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* A file of many names is written out under each, and holes between more pieces than an archive takes are written out too: with
 * both, a small layer would fill any disk. */
static int take_room(struct changes *c, uint64_t bytes)
{
	if (bytes <= c->left) {
		c->left -= bytes;
		return 0;
	}
	(void)err_set(c->e, R_ARCHIVE_TOO_LARGE, 0,
		"write the changes: over %d times what the sandbox's disk holds", CHANGES_GROWTH);
	return err_remedy(c->e,
		"Remove hard links and files with many holes inside, or give the sandbox a larger --disk.");
}

static int put_file(struct changes *c, int dir, const char *name, struct archive_entry *entry)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint64_t stored = 0;
	struct stat st;
	size_t n;
	bool sparse;

	if (fd < 0 && errno != ENOENT && errno != ELOOP && errno != ENXIO)
		return err_set(c->e, R_IO_FAILED, errno, "open a changed file");
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0; /* gone, or another thing by now */
	entry->size = (uint64_t)st.st_size;
	n = find_ranges(c, fd, entry->size);
	sparse = entry->size > 0 &&
		(n != 1 || c->ranges[0].offset != 0 || c->ranges[0].length != entry->size);
	if (sparse && n == 0)
		c->ranges[n++] = (struct archive_range){ entry->size, 0 };
	for (size_t i = 0; i < n; i++)
		stored += c->ranges[i].length;
	if (take_room(c, stored) < 0 || put_entry(c, entry, sparse ? n : 0) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (put_range(c, fd, &c->ranges[i]) < 0)
			return -1;
	return put_zeros(c, archive_padding(stored));
}

/* Times and ids are the workload's to choose: no sum of them may overflow. */
static int64_t whole_ns(const struct timespec *t)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)t->tv_sec, 1000000000, &ns) ||
		__builtin_add_overflow(ns, (int64_t)t->tv_nsec, &ns))
		return t->tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

static uint32_t inside_id(const struct changes *c, uid_t id, uid_t base, uid_t own)
{
	if (!c->how->own)
		return own;
	return id - base < c->how->ids ? id - base : 65534;
}

static int put_content(
	struct changes *c, const struct changes_side *s, const char *name, const struct stat *st)
{
	struct archive_entry entry = { .mode = st->st_mode & 07777,
		.uid = inside_id(c, st->st_uid, s->ids, c->how->uid),
		.gid = inside_id(c, st->st_gid, s->ids, c->how->gid),
		.mtime_ns = whole_ns(&st->st_mtim),
		.name = c->path };
	char target[ARCHIVE_MAX_NAME + 1];
	ssize_t n;

	if (S_ISREG(st->st_mode)) {
		entry.type = ARCHIVE_FILE;
		return put_file(c, s->fd, name, &entry);
	}
	if (S_ISDIR(st->st_mode)) {
		entry.type = ARCHIVE_DIR;
	} else if (S_ISLNK(st->st_mode)) {
		n = readlinkat(s->fd, name, target, sizeof target - 1);
		if (n < 0)
			return 0;
		target[n] = '\0';
		entry.type = ARCHIVE_SYMLINK;
		entry.link = target;
	} else if (S_ISFIFO(st->st_mode)) {
		entry.type = ARCHIVE_FIFO;
	} else {
		return 0; /* a socket: an archive has no such thing */
	}
	return put_entry(c, &entry, 0);
}

/* ".wh.NAME" for what is gone, ".wh..wh..opq" in a directory that hides all below. */
static int put_whiteout(struct changes *c, const char *name)
{
	struct archive_entry entry = { .type = ARCHIVE_FILE, .mode = 0600, .name = c->path };
	size_t before;
	int r;

	if (enter(c, ".wh.", name, &before) < 0)
		return -1;
	r = put_entry(c, &entry, 0);
	leave(c, before);
	return r;
}

/* --- two sides ----------------------------------------------------------------------------------------------------- */

/* What the lower layers have at a name, hidden or not: the side's number, or -1. */
static int lower_has(const struct changes_place *p, const char *name, struct stat *ret)
{
	for (unsigned i = 0; i < p->n_lower; i++)
		if (fstatat(p->lower[i].fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0)
			return layer_is_whiteout(ret) ? -1 : (int)i;
	return -1;
}

/* What they show there. */
static int find_lower(const struct changes_place *p, const char *name, struct stat *ret)
{
	return p->opaque ? -1 : lower_has(p, name, ret);
}

static bool is_above(const struct changes_place *p, unsigned layer, const char *name)
{
	struct stat st;

	for (unsigned i = 0; i < layer; i++)
		if (fstatat(p->writable[i].fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

unsigned changes_fds(const struct changes_place *top, int out, int *keep)
{
	unsigned n = 0;

	for (unsigned i = 0; i < top->n_writable; i++)
		keep[n++] = top->writable[i].fd;
	for (unsigned i = 0; i < top->n_lower; i++)
		keep[n++] = top->lower[i].fd;
	keep[n++] = out;
	return n;
}

void changes_place_done(struct changes_place *p)
{
	for (unsigned i = 0; i < p->n_writable; i++)
		close_fd(p->writable[i].fd);
	for (unsigned i = 0; i < p->n_lower; i++)
		close_fd(p->lower[i].fd);
}

/* Opens a directory of one side into *to: 1, or 0 when it is none, which ends what is seen. */
static int open_side(const struct changes_side *from, const char *name, struct changes_side *to)
{
	to->fd = openat(from->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	to->ids = from->ids;
	if (to->fd >= 0)
		return 1;
	return errno == ENOTDIR || errno == ELOOP || errno == ENOENT ? 0 : -1;
}

/* The lower layers' versions of it, down to one that hides the rest. */
static int open_lower(struct changes *c, const struct changes_place *from, const char *name,
	struct changes_place *to)
{
	struct stat st;

	for (unsigned i = 0; i < from->n_lower; i++) {
		int opaque;

		if (fstatat(from->lower[i].fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (open_side(&from->lower[i], name, &to->lower[to->n_lower]) <= 0)
			return 0;
		opaque = layer_is_opaque(to->lower[to->n_lower++].fd, c->how->marks);
		if (opaque)
			return opaque < 0 ? -1 : 0;
	}
	return 0;
}

/* The directory `name`, whose uppermost version is layer `layer`'s. */
static int open_place(struct changes *c, const struct changes_place *from, unsigned layer,
	const char *name, struct changes_place *to)
{
	struct stat st;

	*to = (struct changes_place){ .opaque = from->opaque };
	for (unsigned i = layer; i < from->n_writable; i++) {
		int r, opaque;

		if (fstatat(from->writable[i].fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = open_side(&from->writable[i], name, &to->writable[to->n_writable]);
		if (r < 0)
			return -1;
		if (r == 0) {
			to->opaque = true;
			return 0;
		}
		opaque = layer_is_opaque(to->writable[to->n_writable++].fd, c->how->marks);
		if (opaque < 0)
			return -1;
		if (opaque) {
			to->opaque = true;
			break;
		}
	}
	/* also beneath an opaque one: its names are what is gone */
	return from->opaque ? 0 : open_lower(c, from, name, to);
}

/* --- the walk ------------------------------------------------------------------------------------------------------ */

/* NOLINTBEGIN(misc-no-recursion): at most OVERLAY_MAX_DEPTH deep */
static int walk(struct changes *c, const struct changes_place *p, unsigned depth);

static int emit(struct changes *c, char kind, const struct changes_side *s, const char *name,
	const struct stat *st)
{
	bool sized = S_ISREG(st->st_mode);

	if (c->how->hidden && c->how->hidden(c->how->arg, c->path))
		return 0;
	if (c->how->content)
		return put_content(c, s, name, st);
	return put_record(c, kind, st->st_mode, sized ? (uint64_t)st->st_size : 0);
}

static bool same_directory(const struct changes *c, const struct changes_side *a,
	const struct stat *sa, const struct changes_side *b, const struct stat *sb)
{
	if (!S_ISDIR(sb->st_mode) || sa->st_mode != sb->st_mode)
		return false;
	return !c->how->own ||
		(sa->st_uid - a->ids == sb->st_uid - b->ids &&
			sa->st_gid - a->ids == sb->st_gid - b->ids);
}

static int visit_directory(struct changes *c, const struct changes_place *p, unsigned layer,
	const char *name, const struct stat *st, unsigned depth)
{
	struct changes_place below = { .n_writable = 0 };
	struct stat lower_st;
	int lower = find_lower(p, name, &lower_st), r = 0;

	if (depth == OVERLAY_MAX_DEPTH)
		return err_set(c->e, R_OUT_OF_RANGE, 0,
			"list the changes: directories lie over %d deep in each other",
			OVERLAY_MAX_DEPTH);
	if (lower < 0 || !same_directory(c, &p->writable[layer], st, &p->lower[lower], &lower_st))
		r = emit(c, lower < 0 ? 'A' : 'M', &p->writable[layer], name, st);
	if (r == 0 && open_place(c, p, layer, name, &below) < 0)
		r = err_set(c->e, R_IO_FAILED, errno, "open a changed directory");
	if (r == 0)
		r = walk(c, &below, depth + 1);
	changes_place_done(&below);
	return r;
}

static int visit_entered(struct changes *c, const struct changes_place *p, unsigned layer,
	const char *name, const struct stat *st, unsigned depth)
{
	struct stat lower_st;
	int lower;

	if (S_ISDIR(st->st_mode))
		return visit_directory(c, p, layer, name, st, depth);
	lower = find_lower(p, name, &lower_st);
	if (!layer_is_whiteout(st))
		return emit(c, lower < 0 ? 'A' : 'M', &p->writable[layer], name, st);
	return lower < 0 ? 0 : put_record(c, 'D', lower_st.st_mode, 0);
}

static int visit(struct changes *c, const struct changes_place *p, unsigned layer, const char *name,
	unsigned depth)
{
	struct stat st, lower_st;
	size_t before;
	int r;

	if (fstatat(p->writable[layer].fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* gone meanwhile */
	if (is_above(p, layer, name))
		return 0;
	if (c->how->content && layer_is_whiteout(&st))
		return find_lower(p, name, &lower_st) < 0 ? 0 : put_whiteout(c, name);
	if (enter(c, "", name, &before) < 0)
		return -1;
	r = visit_entered(c, p, layer, name, &st, depth);
	leave(c, before);
	return r;
}

static DIR *list(struct changes *c, int fd)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (!d) {
		(void)err_set(c->e, R_IO_FAILED, errno, "list a changed directory");
		again = close_fd(again);
	}
	return d;
}

/* An opaque directory: what the lower layers have there is gone, but for what was made again. */
static int list_hidden(struct changes *c, const struct changes_place *p)
{
	for (unsigned i = 0; i < p->n_lower; i++) {
		_cleanup_closedir_ DIR *d = list(c, p->lower[i].fd);
		struct dirent *entry;

		if (!d)
			return -1;
		while ((entry = readdir(d))) {
			struct stat st;
			size_t before;
			int r;

			if (layer_is_dot(entry->d_name) ||
				is_above(p, p->n_writable, entry->d_name) ||
				lower_has(p, entry->d_name, &st) != (int)i)
				continue;
			if (enter(c, "", entry->d_name, &before) < 0)
				return -1;
			r = put_record(c, 'D', st.st_mode, 0);
			leave(c, before);
			if (r < 0)
				return -1;
		}
	}
	return 0;
}

static int walk(struct changes *c, const struct changes_place *p, unsigned depth)
{
	if (p->opaque && p->n_lower) {
		int r = c->how->content ? put_whiteout(c, ".wh..opq") : list_hidden(c, p);

		if (r < 0)
			return -1;
	}
	for (unsigned i = 0; i < p->n_writable; i++) {
		_cleanup_closedir_ DIR *d = list(c, p->writable[i].fd);
		struct dirent *entry;

		if (!d)
			return -1;
		while ((entry = readdir(d)))
			if (!layer_is_dot(entry->d_name) &&
				visit(c, p, i, entry->d_name, depth) < 0)
				return -1;
	}
	return 0;
}

/* NOLINTEND(misc-no-recursion) */

/* What ends a list of records: 'Z' when it is whole, 'E' and a text when not. */
static int put_last(struct changes *c, char kind, const char *text, size_t n)
{
	uint8_t head[RECORD_HEAD] = { 0 };

	put_number(head, RECORD_HEAD + n, 2);
	head[2] = (uint8_t)kind;
	return put(c, head, sizeof head) < 0 ? -1 : put(c, text, n);
}

/* Why it ends here, in place of the end: "REASON\nREMEDY\nMESSAGE".  All that fails does so between two entries. */
static void say_failure(struct changes *c)
{
	_cleanup_buf_ struct buf text = { .max = ARCHIVE_MAX_FAILURE };
	struct err ignored = ERR_INIT, *failure = c->e;
	uint8_t out[ARCHIVE_FAILURE_CAP];

	if (failure->reason == R_OUTPUT_FAILED ||
		!buf_printf(&text, "%s\n%s\n%s", reason_name(failure->reason),
			err_get_remedy(failure), failure->message ?: ""))
		return;
	c->e = &ignored;
	if (c->how->content)
		(void)put(c, out, archive_put_failure(out, sizeof out, text.data, text.len));
	else
		(void)put_last(c, 'E', text.data, text.len);
	(void)flush(c);
	err_done(&ignored);
	c->e = failure;
}

static int list_changes(struct changes *c, struct changes_place *top)
{
	static const uint8_t end[ARCHIVE_END_SIZE];

	if (walk(c, top, 0) < 0) {
		say_failure(c);
		return -1;
	}
	if ((c->how->content ? put(c, end, sizeof end) : put_last(c, 'Z', "", 0)) < 0)
		return -1;
	return flush(c);
}

int changes_write(struct changes_place *top, const struct changes_how *how, struct err *e)
{
	struct changes *c = xcalloc(1, sizeof *c);
	int r;

	c->how = how;
	c->buf = xcalloc(1, OUT_SIZE);
	c->left = how->left;
	c->e = e;
	r = list_changes(c, top);
	free(c->buf);
	free(c);
	return r;
}
