/* Owns the reading of a tree as an archive.  Called by `cp`.
 *
 * Must hold, whoever writes in the tree meanwhile: directories are opened one part at a time and never through a link; a file's
 * type is what its descriptor says, its size is fixed when its header is made (then padded with zeros or cut); nothing that could
 * block or act on being opened stays open; memory doesn't grow with the number of files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "tree/inside.h"

enum {
	DEFAULT_ENTRIES = 4000000,
	MAX_LINKED = 65536,         /* files with several names that are remembered */
	MAX_LINKED_NAMES = 8 << 20, /* bytes of their names */
	COPY_BUFFER = 256 << 10,
	SECOND = 1000000000,
};

struct linked {
	ino_t ino;
	dev_t dev;
	uint32_t name; /* where in linked_names; 0: a free slot */
};

struct tree_reader {
	struct tree_read_options o;
	struct tree_counts counts;
	struct tree_walk walk;
	int start_fd; /* until the walk began */
	char start_name[ARCHIVE_MAX_PART + 1];
	bool started, ended;
	uint64_t entries;
	char path[ARCHIVE_MAX_NAME + 1]; /* of the present entry in the archive */
	char target[ARCHIVE_MAX_NAME + 1];
	/* the file whose data are under way */
	int fd;
	uint64_t at, left; /* in the present range */
	uint32_t range, n_ranges;
	bool short_of; /* it became shorter: zeros from here on */
	size_t zeros;  /* padding or the end mark */
	/* what stands before the data */
	uint8_t *head;
	size_t head_len, head_at;
	/* hard links */
	struct linked *linked; /* MAX_LINKED * 2 slots, allocated at the first */
	char *linked_names;
	uint32_t n_linked, names_len;
	struct archive_range ranges[ARCHIVE_MAX_RANGES];
};

/* --- hard links --- */

static int want_links(struct tree_reader *r, struct err *e)
{
	if (r->linked)
		return 0;
	r->linked = calloc((size_t)2 * MAX_LINKED, sizeof *r->linked);
	r->linked_names = malloc(MAX_LINKED_NAMES);
	r->names_len = 1;
	return r->linked && r->linked_names
		? 0
		: err_set(e, R_NO_MEMORY, ENOMEM, "can't remember hard links");
}

/* The name under which this file was written already, or NULL; it is remembered when there is room. */
static const char *linked_before(struct tree_reader *r, const struct stat *st)
{
	const size_t mask = 2 * (size_t)MAX_LINKED - 1, n = strlen(r->path) + 1;
	size_t i = (size_t)(st->st_ino * 0x9e3779b97f4a7c15u >> 40) & mask;

	for (; r->linked[i].name; i = (i + 1) & mask)
		if (r->linked[i].ino == st->st_ino && r->linked[i].dev == st->st_dev)
			return r->linked_names + r->linked[i].name;
	if (r->n_linked == MAX_LINKED || r->names_len + n > MAX_LINKED_NAMES) {
		r->counts.unlinked++;
		return NULL;
	}
	memcpy(r->linked_names + r->names_len, r->path, n);
	r->linked[i] = (struct linked){ st->st_ino, st->st_dev, r->names_len };
	r->names_len += (uint32_t)n;
	r->n_linked++;
	return NULL;
}

/* --- headers --- */

static int64_t time_of(const struct stat *st)
{
	int64_t s = st->st_mtim.tv_sec, most = INT64_MAX / SECOND - 1;

	s = s > most ? most : s < -most ? -most : s;
	return s * SECOND + st->st_mtim.tv_nsec;
}

static int count_entry(struct tree_reader *r, struct err *e)
{
	if (++r->entries > r->o.max_entries)
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0, "the tree has more than %llu entries",
			(unsigned long long)r->o.max_entries);
	return 0;
}

static int put(struct tree_reader *r, enum archive_type type, const struct stat *st,
	const char *link, uint32_t n_ranges, struct err *e)
{
	const struct archive_entry a = { .type = type,
		.mode = st->st_mode & 07777,
		.size = type == ARCHIVE_FILE ? (uint64_t)st->st_size : 0,
		.mtime_ns = time_of(st),
		.name = r->path,
		.link = link };

	if (count_entry(r, e) < 0)
		return -1;
	r->head_at = 0;
	r->head_len = archive_put(r->head, ARCHIVE_HEADER_CAP(ARCHIVE_MAX_RANGES), &a,
		n_ranges ? r->ranges : NULL, n_ranges);
	return r->head_len ? 0 : tree_failed(e, ENAMETOOLONG, "write to an archive", r->path);
}

/* --- files --- */

/* Where the data lie; 0 when there are no holes.  The last range takes the rest when there are too many. */
static uint32_t find_ranges(struct tree_reader *r, const struct stat *st)
{
	off_t size = st->st_size, at = 0;
	uint32_t n = 0;

	if (st->st_blocks * 512 >= size)
		return 0;
	while (at < size && n < ARCHIVE_MAX_RANGES - 1) {
		off_t from = lseek(r->fd, at, SEEK_DATA), to;

		if (from < 0 && errno == ENXIO)
			break;
		to = from < 0 ? -1 : lseek(r->fd, from, SEEK_HOLE);
		if (to < 0)
			return 0;
		if (from >= size)
			break;
		to = to > size ? size : to;
		r->ranges[n++] = (struct archive_range){ (uint64_t)from, (uint64_t)(to - from) };
		at = to;
		if (n == ARCHIVE_MAX_RANGES - 1)
			r->ranges[n - 1].length = (uint64_t)(size - from);
	}
	if (n == 1 && r->ranges[0].length == (uint64_t)size)
		return 0;
	/* where the file ends, as GNU tar says it */
	r->ranges[n++] = (struct archive_range){ (uint64_t)size, 0 };
	return n;
}

static void begin_data(struct tree_reader *r, uint64_t size, uint32_t n_ranges)
{
	if (!n_ranges)
		r->ranges[0] = (struct archive_range){ 0, size };
	r->n_ranges = n_ranges ? n_ranges : 1;
	r->range = 0;
	r->at = r->ranges[0].offset;
	r->left = r->ranges[0].length;
	r->short_of = false;
	r->zeros = 0;
	for (uint32_t i = 0; i < r->n_ranges; i++)
		r->zeros += r->ranges[i].length & (ARCHIVE_BLOCK - 1);
	r->zeros = archive_padding(r->zeros);
}

/* It vanished or became something else since its name was read: 0, or the error that it is. */
static int lost(struct tree_reader *r, const char *what, struct err *e)
{
	if (errno != ENOENT && errno != ELOOP && errno != ENOTDIR && errno != ENXIO &&
		errno != EINVAL)
		return tree_failed(e, errno, what, r->path);
	r->counts.changed++;
	return 0;
}

static int read_file(struct tree_reader *r, int dirfd, const char *name, struct err *e)
{
	const char *before = NULL;
	uint32_t n_ranges;
	struct stat st;

	/* O_NONBLOCK, O_NOCTTY: by now it may be a FIFO or a terminal */
	r->fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (r->fd < 0)
		return lost(r, "open", e);
	if (fstat(r->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		r->fd = close_fd(r->fd);
		r->counts.changed++;
		return 0;
	}
	if (st.st_nlink > 1) {
		if (want_links(r, e) < 0)
			return -1;
		before = linked_before(r, &st);
	}
	if (before) {
		r->fd = close_fd(r->fd);
		r->counts.hardlinks++;
		return put(r, ARCHIVE_HARDLINK, &st, before, 0, e);
	}
	n_ranges = find_ranges(r, &st);
	if (put(r, ARCHIVE_FILE, &st, NULL, n_ranges, e) < 0)
		return -1;
	begin_data(r, (uint64_t)st.st_size, n_ranges);
	r->counts.files++;
	return 0;
}

/* --- other entries --- */

static int read_link(struct tree_reader *r, int dirfd, const char *name, struct err *e)
{
	struct stat st;
	ssize_t n;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		(n = readlinkat(dirfd, name, r->target, sizeof r->target)) < 0)
		return lost(r, "read the link", e);
	if (n == 0 || (size_t)n == sizeof r->target)
		return tree_failed(e, ENAMETOOLONG, "read the link", r->path);
	r->target[n] = 0;
	r->counts.symlinks++;
	return put(r, ARCHIVE_SYMLINK, &st, r->target, 0, e);
}

static int read_dir(struct tree_reader *r, int dirfd, const char *name, struct err *e)
{
	size_t len = streq(r->path, ".") ? 0 : strlen(r->path);
	int fd = tree_open_dir(dirfd, name, false);
	struct stat st;

	if (fd < 0)
		return lost(r, "open", e);
	if (fstat(fd, &st) < 0) {
		(void)close_fd(fd);
		return tree_failed(e, errno, "look at", r->path);
	}
	if (tree_walk_push(&r->walk, fd) < 0)
		return errno == ELOOP
			? err_set(e, R_ARCHIVE_TOO_LARGE, 0,
				  "the tree is deeper than %d directories", ARCHIVE_MAX_DEPTH)
			: tree_failed(e, errno, "open", r->path);
	tree_walk_top(&r->walk)->len = len;
	r->counts.dirs++;
	return put(r, ARCHIVE_DIR, &st, NULL, 0, e);
}

static unsigned char type_of(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_REG; /* its opening says why */
	return (unsigned char)(IFTODT(st.st_mode));
}

/* Makes the header of one name; none when it is skipped. */
static int read_entry(
	struct tree_reader *r, int dirfd, const char *name, unsigned char type, struct err *e)
{
	if (type == DT_UNKNOWN)
		type = type_of(dirfd, name);
	switch (type) {
	case DT_REG:
		return read_file(r, dirfd, name, e);
	case DT_DIR:
		return read_dir(r, dirfd, name, e);
	case DT_LNK:
		return read_link(r, dirfd, name, e);
	default:
		r->counts.skipped++;
		return 0;
	}
}

/* --- the walk --- */

static int name_entry(struct tree_reader *r, const char *name, struct err *e)
{
	size_t len = tree_walk_top(&r->walk)->len, n = strlen(name), at = len ? len + 1 : 0;

	r->path[len] = 0;
	if (at + n + 1 > ARCHIVE_MAX_NAME) /* room for a directory's slash */
		return tree_failed(e, ENAMETOOLONG, "write to an archive what is below", r->path);
	if (len)
		r->path[len] = '/';
	memcpy(r->path + at, name, n + 1);
	return 0;
}

/* The next name of the walk: at most one header comes of it, and perhaps none. */
static int next_entry(struct tree_reader *r, struct err *e)
{
	struct dirent *d;

	if (!r->started) {
		r->started = true;
		return read_entry(r, r->start_fd, r->start_name, DT_UNKNOWN, e);
	}
	if (!r->walk.depth) {
		r->ended = true;
		r->zeros = ARCHIVE_END_SIZE;
		return 0;
	}
	d = tree_walk_next(&r->walk);
	if (!d) {
		if (errno && errno != ENOENT)
			return tree_failed(e, errno, "list", r->path);
		tree_walk_pop(&r->walk);
		return 0;
	}
	if (name_entry(r, d->d_name, e) < 0)
		return -1;
	return read_entry(r, tree_walk_fd(&r->walk), d->d_name, d->d_type, e);
}

/* --- bytes --- */

static size_t take_head(struct tree_reader *r, uint8_t *out, size_t cap)
{
	size_t n = r->head_len - r->head_at;

	n = n < cap ? n : cap;
	memcpy(out, r->head + r->head_at, n);
	r->head_at += n;
	return n;
}

static size_t take_zeros(struct tree_reader *r, uint8_t *out, size_t cap)
{
	size_t n = r->zeros < cap ? r->zeros : cap;

	memset(out, 0, n);
	r->zeros -= n;
	return n;
}

/* Some of the data; what the file no longer has is zero. */
static int take_data(struct tree_reader *r, uint8_t *out, size_t cap, size_t *ret, struct err *e)
{
	size_t want = r->left < cap ? (size_t)r->left : cap;
	ssize_t n = 0;

	if (!r->short_of) {
		do
			n = pread(r->fd, out, want, (off_t)r->at);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return tree_failed(e, errno, "read", r->path);
		if (n == 0) {
			r->short_of = true;
			r->counts.changed++;
		}
	}
	if (r->short_of) {
		memset(out, 0, want);
		n = (ssize_t)want;
	}
	r->at += (size_t)n;
	r->left -= (size_t)n;
	r->counts.bytes += (size_t)n;
	*ret = (size_t)n;
	return 0;
}

static void next_range(struct tree_reader *r)
{
	if (++r->range < r->n_ranges) {
		r->at = r->ranges[r->range].offset;
		r->left = r->ranges[r->range].length;
	} else {
		r->fd = close_fd(r->fd);
	}
}

int tree_reader_read(struct tree_reader *r, void *buf, size_t cap, size_t *ret_n, struct err *e)
{
	uint8_t *out = buf;
	size_t n = 0;

	while (n < cap) {
		size_t k = 0;

		if (r->head_at < r->head_len) {
			n += take_head(r, out + n, cap - n);
		} else if (r->fd >= 0 && r->left) {
			if (take_data(r, out + n, cap - n, &k, e) < 0)
				return -1;
			n += k;
		} else if (r->fd >= 0) {
			next_range(r);
		} else if (r->zeros) {
			n += take_zeros(r, out + n, cap - n);
		} else if (r->ended) {
			break;
		} else if (next_entry(r, e) < 0) {
			return -1;
		}
	}
	*ret_n = n;
	return 0;
}

/* --- the interface --- */

int tree_reader_open(struct tree_reader **ret, int dirfd, const char *name, const char *as,
	const struct tree_read_options *o, struct err *e)
{
	_cleanup_tree_reader_ struct tree_reader *r = xcalloc(1, sizeof *r);
	const char *start = name ? name : ".";
	struct stat st;

	r->fd = r->start_fd = -1;
	r->o = *o;
	r->o.max_entries = o->max_entries ? o->max_entries : DEFAULT_ENTRIES;
	r->head = xcalloc(1, ARCHIVE_HEADER_CAP(ARCHIVE_MAX_RANGES));
	as = as ? as : start;
	if (!*start || strlen(start) > ARCHIVE_MAX_PART || strchr(start, '/') ||
		streq(start, "..") || strlen(as) >= ARCHIVE_MAX_NAME)
		return tree_failed(e, EINVAL, "read the name", start);
	memcpy(r->start_name, start, strlen(start) + 1);
	memcpy(r->path, as, strlen(as) + 1);
	if (archive_clean_name(r->path))
		return tree_failed(e, EINVAL, "use in an archive the name", as);
	r->start_fd = tree_open_beneath(dirfd, ".", O_PATH | O_DIRECTORY);
	if (r->start_fd < 0)
		return tree_failed(e, errno, "open", ".");
	if (fstatat(r->start_fd, start, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return tree_failed(e, errno, "open", start);
	*ret = move_ptr(r);
	return 0;
}

const struct tree_counts *tree_reader_counts(const struct tree_reader *r)
{
	return &r->counts;
}

void tree_reader_free(struct tree_reader *r)
{
	if (!r)
		return;
	tree_walk_done(&r->walk);
	r->fd = close_fd(r->fd);
	r->start_fd = close_fd(r->start_fd);
	free(r->head);
	free(r->linked);
	free(r->linked_names);
	free(r);
}
