/* Sends a tree as an archive.  Called by the link; goes on in pieces while the host takes them.  Must hold: no link is followed
 * but, where that is asked, the one that the path itself is; a file that changes meanwhile gets the length that its header
 * says.  Devices and sockets are left out.  A file of several names is sent under the first of them, and the others as hard links
 * to it, as far as they are remembered; else as files of their own. */
#include <errno.h>
#include <fcntl.h>

#include "archive/archive.h"
#include "guest/walk.h"

enum {
	MAX_PIECES = 256, /* of data in a file with holes; what lies behind counts as one */
	HEADER_SIZE = 16384 + 44 * MAX_PIECES,
	LINKED_MAX = 16384, /* files of several names that are remembered */
	LINKED_SLOTS = 2 * LINKED_MAX,
	LINKED_NAMES = 2 << 20, /* bytes of their names */
};

/* Mapped at the first such file; its pages are touched as they are needed. */
struct linked {
	struct {
		uint64_t dev, ino;
		uint32_t name; /* where in names; 0: free */
	} slots[LINKED_SLOTS];
	uint32_t n, names_at;
	char names[LINKED_NAMES];
};

struct packing {
	struct walk walk;
	bool walking, follow;
	bool last; /* the end mark is on its way */
	uint64_t entries;
	char top[256]; /* first part of every name; empty: the root itself is sent */
	/* bytes that come first: a header, padding */
	size_t at, len;
	/* the file whose data follow; -1: none */
	int fd;
	uint64_t size;
	struct archive_range ranges[MAX_PIECES];
	uint32_t n_ranges, range;
	uint64_t done; /* of the range */
	struct linked *linked;
	char path[WIRE_MAX_PATH], name[WIRE_MAX_PATH], target[WIRE_MAX_PATH];
	uint8_t bytes[HEADER_SIZE];
};

static bool step(struct stream *s);
static void work(struct stream *s);
static void give_up(struct stream *s);

static const struct stream_ops tar_out_ops = {
	.lanes = 1, .step = step, .room = work, .close = give_up
};

static void work(struct stream *s)
{
	stream_work(s);
}

static void close_file(struct packing *k)
{
	if (k->fd >= 0)
		close_quietly(k->fd);
	k->fd = -1;
}

static void give_up(struct stream *s)
{
	struct packing *k = s->memory;

	/* the result may have put a note in its place */
	if (!k || s->has & ANSWER_RESULT)
		return;
	close_file(k);
	if (k->walking)
		walk_end(&k->walk);
	k->walking = false;
	if (k->linked)
		unmap_memory(k->linked, sizeof *k->linked);
	k->linked = NULL;
}

static bool fail(struct stream *s, uint32_t error, const char *what)
{
	give_up(s);
	stream_result_note(s, error, what, "");
	return false;
}

/* --- hard links --- */

static uint32_t linked_slot(const struct linked *l, const struct stat *st)
{
	uint32_t i = (uint32_t)(st->st_ino * 0x9e3779b97f4a7c15u >> 40) % LINKED_SLOTS;

	while (l->slots[i].name && (l->slots[i].ino != st->st_ino || l->slots[i].dev != st->st_dev))
		i = (i + 1) % LINKED_SLOTS;
	return i;
}

/* The name under which the file was sent; NULL: it was not. */
static const char *linked_name(const struct packing *k, const struct stat *st)
{
	const struct linked *l = k->linked;
	uint32_t name = l && st->st_nlink > 1 ? l->slots[linked_slot(l, st)].name : 0;

	return name ? l->names + name : NULL;
}

static void remember_linked(struct packing *k, const struct stat *st, const char *name)
{
	uint32_t n = (uint32_t)text_len(name) + 1, i;
	struct linked *l = k->linked;

	if (st->st_nlink < 2)
		return;
	if (!l) {
		l = k->linked = map_memory(sizeof *l);
		if (!l)
			return;
		l->names_at = 1;
	}
	if (l->n == LINKED_MAX || n > LINKED_NAMES - l->names_at)
		return;
	i = linked_slot(l, st);
	l->slots[i].dev = st->st_dev;
	l->slots[i].ino = st->st_ino;
	l->slots[i].name = l->names_at;
	memcpy(l->names + l->names_at, name, n);
	l->names_at += n;
	l->n++;
}

/* --- a header --- */

static bool archive_type(uint32_t mode, enum archive_type *ret)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		*ret = ARCHIVE_FILE;
		return true;
	case S_IFDIR:
		*ret = ARCHIVE_DIR;
		return true;
	case S_IFLNK:
		*ret = ARCHIVE_SYMLINK;
		return true;
	case S_IFIFO:
		*ret = ARCHIVE_FIFO;
		return true;
	default:
		return false;
	}
}

static void add_range(struct packing *k, uint64_t from, uint64_t to)
{
	k->ranges[k->n_ranges++] = (struct archive_range){ from, to - from };
}

/* Where the data lie.  False: no holes, or the file system doesn't say. */
static bool find_holes(struct packing *k)
{
	uint64_t at = 0;

	k->n_ranges = 0;
	while (at < k->size && k->n_ranges < MAX_PIECES - 1) {
		long data = sys3(SYS_lseek, k->fd, at, SEEK_DATA), hole;

		if (data == -ENXIO)
			break;
		hole = data < 0 ? data : sys3(SYS_lseek, k->fd, data, SEEK_HOLE);
		if (hole < 0 || (at == 0 && data == 0 && (uint64_t)hole >= k->size))
			return false;
		add_range(k, (uint64_t)data, min_u64((uint64_t)hole, k->size));
		at = (uint64_t)hole;
	}
	if (k->n_ranges == MAX_PIECES - 1 && at < k->size)
		add_range(k, at, k->size);
	else
		add_range(k, k->size, k->size); /* what says how long the file is */
	return true;
}

static uint32_t open_data(
	struct packing *k, int dir, const char *name, struct archive_entry *e, struct stat *ret)
{
	long fd = sys4(SYS_openat, dir, name,
		O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (k->follow ? 0 : O_NOFOLLOW), 0);

	if (fd < 0)
		return (uint32_t)-fd;
	k->fd = (int)fd;
	if (sys2(SYS_fstat, fd, ret) < 0 || !S_ISREG(ret->st_mode))
		return ENOENT;
	e->link = linked_name(k, ret);
	if (e->link) {
		e->type = ARCHIVE_HARDLINK;
		close_file(k);
		return 0;
	}
	e->size = k->size = (uint64_t)ret->st_size;
	k->range = 0;
	k->done = 0;
	return 0;
}

static uint32_t read_target(struct packing *k, int dir, const char *name, struct archive_entry *e)
{
	long n = sys4(SYS_readlinkat, dir, name, k->target, sizeof k->target - 1);

	if (n < 0)
		return (uint32_t)-n;
	k->target[n] = 0;
	e->link = k->target;
	return 0;
}

static uint32_t put_entry(struct packing *k, int dir, const char *name, const struct stat *st,
	struct archive_entry *e)
{
	struct stat opened = { .st_nlink = 0 };
	uint32_t error = 0;
	bool holes = false;

	if (e->type == ARCHIVE_FILE)
		error = open_data(k, dir, name, e, &opened);
	else if (e->type == ARCHIVE_SYMLINK)
		error = read_target(k, dir, name, e);
	if (!error && e->type == ARCHIVE_FILE && (uint64_t)st->st_blocks * 512 < e->size)
		holes = find_holes(k);
	if (e->type == ARCHIVE_FILE && !holes) {
		k->n_ranges = 0;
		add_range(k, 0, e->size);
	}
	if (!error) {
		k->at = 0;
		k->len = archive_put(k->bytes, sizeof k->bytes, e, holes ? k->ranges : NULL,
			holes ? k->n_ranges : 0);
		error = k->len ? 0 : ENAMETOOLONG;
	}
	if (error) {
		close_file(k);
		return error;
	}
	if (e->type == ARCHIVE_FILE)
		remember_linked(k, &opened, e->name);
	k->entries++;
	return 0;
}

/* `name` in dir as the entry `as`.  What vanished and what can't be archived is passed over. */
static uint32_t pack(
	struct packing *k, int dir, const char *name, const char *as, const struct stat *st)
{
	struct archive_entry e = { .mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_ns = (int64_t)stat_mtime(st),
		.name = as };
	uint32_t error;

	if (!archive_type(st->st_mode, &e.type))
		return 0;
	error = put_entry(k, dir, name, st, &e);
	return error == ENOENT || error == ELOOP ? 0 : error;
}

/* --- in pieces --- */

static bool put_bytes(struct stream *s, struct packing *k)
{
	uint32_t n = (uint32_t)min_u64(lane_room(&s->out[0]), k->len - k->at);

	if (n && !lane_put(s, 0, k->bytes + k->at, n))
		return false;
	k->at += n;
	return k->at == k->len;
}

/* Data of the file, zeros where it became shorter; false: no room. */
static bool put_data(struct stream *s, struct packing *k, uint32_t *moved)
{
	const struct archive_range *r = &k->ranges[k->range];
	uint8_t *to;
	uint32_t n = min_u32(lane_space(&s->out[0], &to), STEP_BYTES);
	long got;

	n = (uint32_t)min_u64(n, r->length - k->done);
	if (!n)
		return r->length == k->done;
	got = sys4(SYS_pread64, k->fd, to, n, r->offset + k->done);
	if (got <= 0) {
		memset(to, 0, n);
		got = n;
	}
	lane_filled(s, 0, (uint32_t)got);
	k->done += (uint64_t)got;
	*moved += (uint32_t)got;
	return true;
}

static void next_range(struct packing *k)
{
	uint64_t stored = 0;

	if (k->done < k->ranges[k->range].length)
		return;
	k->done = 0;
	if (++k->range < k->n_ranges)
		return;
	close_file(k);
	for (uint32_t i = 0; i < k->n_ranges; i++)
		stored += k->ranges[i].length;
	k->at = 0;
	k->len = archive_padding(stored);
	memset(k->bytes, 0, k->len);
}

static void put_end(struct packing *k)
{
	memset(k->bytes, 0, ARCHIVE_END_SIZE);
	k->at = 0;
	k->len = ARCHIVE_END_SIZE;
	k->last = true;
}

/* 0 or an errno; *ret_name is what failed. */
static uint32_t next_entry(struct packing *k)
{
	const struct walk_entry *e;
	uint32_t error = 0, n, top = (uint32_t)text_len(k->top);
	enum walk_step what = k->walking ? walk_next(&k->walk, &e, &error) : WALK_END;
	struct stat st;

	switch (what) {
	case WALK_LEFT:
		return 0;
	case WALK_FAILED:
		return error;
	case WALK_END:
		put_end(k);
		return 0;
	case WALK_ENTRY:
		break;
	}
	n = walk_path(&k->walk, e->name, k->path);
	if (!n || n + top + 2 > sizeof k->name)
		return ENAMETOOLONG;
	memcpy(k->name, k->top, top);
	memcpy(k->name + top, "/", 1);
	memcpy(k->name + (top ? top + 1 : 0), k->path, n + 1);
	if (stat_at(k->walk.dir, e->name, &st) < 0)
		return 0;
	error = pack(k, k->walk.dir, e->name, k->name, &st);
	if (!error && S_ISDIR(st.st_mode)) {
		long r = walk_enter(&k->walk, e->name);

		/* /proc stays an empty directory */
		if (r < 0 && r != -EXDEV && r != -ENOENT && r != -ELOOP && r != -ENOTDIR)
			error = (uint32_t)-r;
	}
	return error;
}

static bool step(struct stream *s)
{
	struct packing *k = s->memory;
	uint32_t moved = 0, error;

	for (int i = 0; i < STEP_ENTRIES && moved < STEP_BYTES;) {
		if (k->at < k->len && !put_bytes(s, k))
			return false;
		if (k->fd >= 0) {
			if (!put_data(s, k, &moved))
				return false;
			next_range(k);
			continue;
		}
		if (k->last) {
			give_up(s);
			stream_result(s, 0, k->entries);
			return false;
		}
		i++;
		k->path[0] = 0;
		error = next_entry(k);
		if (error)
			return fail(s, error, k->path);
	}
	return true;
}

/* --- the request --- */

static long open_top(struct packing *k, const char *path, bool follow)
{
	struct stat st;
	long r = sys4(SYS_newfstatat, AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW), fd;
	const char *as = k->top[0] ? k->top : ".";
	enum archive_type type;
	uint32_t error;

	if (r < 0)
		return r;
	if (!archive_type(st.st_mode, &type))
		return -EINVAL;
	if (S_ISDIR(st.st_mode)) {
		fd = sys4(SYS_openat, AT_FDCWD, path,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
		if (fd < 0)
			return fd;
		r = walk_begin(&k->walk, (int)fd);
		if (r < 0)
			return r;
		k->walking = true;
		error = pack(k, k->walk.dir, ".", as, &st);
		return -(long)error;
	}
	k->follow = follow;
	error = pack(k, AT_FDCWD, path, as, &st);
	k->follow = false;
	return error ? -(long)error : k->len ? 0 : -ENOENT;
}

/* The name of the top is the path's last part; none for the root and for a path that ends in "." or "..". */
static void take_top(struct packing *k, const char *path)
{
	size_t end = text_len(path), at;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (at = end; at && path[at - 1] != '/';)
		at--;
	if (end - at > 255)
		return;
	memcpy(k->top, path + at, end - at);
	if (text_is_dots(k->top))
		k->top[0] = 0;
}

bool files_tar_out(const struct wire_frame *f)
{
	char path[WIRE_MAX_PATH];
	struct wire_tar_out m;
	struct packing *k;
	struct stream *s;
	long r;

	if (!wire_get_tar_out(f, &m))
		return false;
	if (!(s = request_new(f, &tar_out_ops)))
		return true;
	k = stream_memory(s, sizeof *k);
	if (!k) {
		stream_result(s, ENOMEM, 0);
		return true;
	}
	k->fd = -1;
	path_copy(path, m.rest, m.rest_len);
	take_top(k, path);
	r = open_top(k, path, m.flags & WIRE_FILE_FOLLOW);
	if (r < 0)
		(void)fail(s, (uint32_t)-r, path);
	else
		stream_work(s);
	return true;
}
