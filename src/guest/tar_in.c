/* Extracts an archive into a directory.  Called by the link with the archive's bytes as they arrive.  Must hold: whatever the
 * archive says, nothing outside the directory is touched: names are cleaned, and opened part by part without following a
 * link, also one that this archive made.  No set-id bit, no device; a file never takes the place of a directory. */
#include <errno.h>
#include <fcntl.h>

#include "archive/archive.h"
#include "guest/session.h"

enum {
	DIRS_MEMORY = 8 << 20, /* names, modes and times of directories, which are set last */
	PATH = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

struct late {
	struct archive_entry of; /* mode and time */
	uint32_t name_len;
	uint32_t before; /* where the one before begins */
	char name[];
};

struct unpacking {
	struct archive_reader reader;
	int root, parent, file;
	bool owners, ended;
	const char *name; /* of the entry in its directory */
	uint64_t entries;
	char parent_path[WIRE_MAX_PATH]; /* what `parent` is; its files mostly come in a row */
	char *dirs;
	uint32_t dirs_at, last_dir;
	char path[WIRE_MAX_PATH], link[WIRE_MAX_PATH];
};

static size_t take(struct stream *s, const uint8_t *p, size_t n);
static void take_end(struct stream *s);
static bool step(struct stream *s);
static void give_up(struct stream *s);

static const struct stream_ops tar_in_ops = {
	.lanes = 0, .take = take, .take_end = take_end, .step = step, .close = give_up
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close_quietly(*fd);
	*fd = -1;
}

static void give_up(struct stream *s)
{
	struct unpacking *u = s->memory;

	if (!u || s->has & ANSWER_RESULT)
		return;
	if (u->file >= 0)
		(void)sys3(SYS_unlinkat, u->parent, u->name, 0);
	close_fd(&u->file);
	close_fd(&u->parent);
	close_fd(&u->root);
	if (u->dirs)
		unmap_memory(u->dirs, DIRS_MEMORY);
	u->dirs = NULL;
}

static void fail(struct stream *s, uint32_t error, const char *why)
{
	const struct unpacking *u = s->memory;

	give_up(s);
	stream_result_note(s, error, u->reader.entry.name, why);
}

/* --- places --- */

/* One part of a path: opened, made if missing. */
static long open_part(int dir, const char *name, bool make)
{
	long fd = sys4(SYS_openat, dir, name, PATH, 0);

	if (fd != -ENOENT || !make)
		return fd;
	fd = sys3(SYS_mkdirat, dir, name, 0755);
	return fd < 0 && fd != -EEXIST ? fd : sys4(SYS_openat, dir, name, PATH, 0);
}

/* The directory of a cleaned path beneath the root; *ret_name is its last part.  The path is changed and restored. */
static long open_parent(const struct unpacking *u, char *path, bool make, const char **ret_name)
{
	long dir = sys3(SYS_fcntl, u->root, F_DUPFD_CLOEXEC, 0), fd;
	char *part = path;

	for (char *p = path; *p && dir >= 0; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		fd = open_part((int)dir, part, make);
		*p = '/';
		close_quietly((int)dir);
		dir = fd;
		part = p + 1;
	}
	*ret_name = part;
	return dir == -ELOOP ? -ENOTDIR : dir;
}

static size_t parent_len(const char *path)
{
	size_t n = 0;

	for (size_t i = 0; path[i]; i++)
		if (path[i] == '/')
			n = i;
	return n;
}

static bool is_parent(const struct unpacking *u, const char *path, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (u->parent_path[i] != path[i])
			return false;
	return !u->parent_path[n];
}

/* Makes u->parent the directory of u->path. */
static long go_to_parent(struct unpacking *u)
{
	size_t n = parent_len(u->path);
	long dir;

	if (u->parent >= 0 && is_parent(u, u->path, n)) {
		u->name = u->path + (n ? n + 1 : 0);
		return 0;
	}
	close_fd(&u->parent);
	dir = open_parent(u, u->path, true, &u->name);
	if (dir < 0)
		return dir;
	u->parent = (int)dir;
	memcpy(u->parent_path, u->path, n);
	u->parent_path[n] = 0;
	return 0;
}

/* Takes away what an entry replaces: anything but a directory. */
static long make_room(const struct unpacking *u)
{
	long r = sys3(SYS_unlinkat, u->parent, u->name, 0);

	if (r == -EPERM) {
		struct stat st;

		if (stat_at(u->parent, u->name, &st) == 0 && S_ISDIR(st.st_mode))
			r = -EISDIR;
	}
	return r == -ENOENT ? 0 : r;
}

/* --- entries --- */

static uint32_t mode_of(const struct archive_entry *e)
{
	return e->mode & (e->type == ARCHIVE_DIR ? 01777u : 0777u);
}

static void set_times(const struct unpacking *u, const struct archive_entry *e)
{
	int64_t sec = e->mtime_ns / 1000000000, nsec = e->mtime_ns % 1000000000;
	struct {
		int64_t sec, nsec;
	} t[2] = { { 0, UTIME_OMIT },
		{ nsec < 0 ? sec - 1 : sec, nsec < 0 ? nsec + 1000000000 : nsec } };

	(void)sys4(SYS_utimensat, u->parent, u->name, t, AT_SYMLINK_NOFOLLOW);
}

/* Where the guest may: it mostly has no right to give files away. */
static void set_owner(const struct unpacking *u, const struct archive_entry *e)
{
	if (u->owners)
		(void)sys5(SYS_fchownat, u->parent, u->name, e->uid, e->gid, AT_SYMLINK_NOFOLLOW);
}

static long make_file(struct unpacking *u)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	long fd = sys4(SYS_openat, u->parent, u->name, flags, 0600);

	if (fd == -EEXIST) {
		fd = make_room(u);
		if (fd == 0)
			fd = sys4(SYS_openat, u->parent, u->name, flags, 0600);
	}
	if (fd < 0)
		return fd;
	u->file = (int)fd;
	return 0;
}

static void remember_dir(struct unpacking *u, const struct archive_entry *e)
{
	size_t n = text_len(u->path), size = (sizeof(struct late) + n + 1 + 7) & ~7ul;
	struct late *d;

	if (!u->dirs)
		u->dirs = map_memory(DIRS_MEMORY);
	/* more directories than that keep the mode and time they were made with */
	if (!u->dirs || u->dirs_at + size > DIRS_MEMORY)
		return;
	d = (void *)(u->dirs + u->dirs_at);
	d->of = *e;
	d->name_len = (uint32_t)n;
	d->before = u->last_dir;
	memcpy(d->name, u->path, n + 1);
	u->last_dir = u->dirs_at + 1;
	u->dirs_at += (uint32_t)size;
}

static long make_dir(struct unpacking *u, const struct archive_entry *e)
{
	struct stat st;
	long r;

	r = sys3(SYS_mkdirat, u->parent, u->name, mode_of(e) | 0700);
	if (r == -EEXIST) {
		r = stat_at(u->parent, u->name, &st);
		if (r == 0 && !S_ISDIR(st.st_mode))
			r = -ENOTDIR;
	}
	if (r == 0)
		remember_dir(u, e);
	return r;
}

static long make_hardlink(struct unpacking *u, const struct archive_entry *e)
{
	const char *name;
	long dir, r;

	memcpy(u->link, e->link, text_len(e->link) + 1);
	if (archive_clean_name(u->link) != ARCHIVE_CAUSE_NONE)
		return -EBADMSG;
	dir = open_parent(u, u->link, false, &name);
	if (dir < 0)
		return dir;
	r = sys5(SYS_linkat, dir, name, u->parent, u->name, 0);
	close_quietly((int)dir);
	return r;
}

static long make_other(struct unpacking *u, const struct archive_entry *e)
{
	long r = make_room(u);

	if (r < 0)
		return r;
	if (e->type == ARCHIVE_HARDLINK)
		return make_hardlink(u, e);
	if (e->type == ARCHIVE_SYMLINK)
		r = sys3(SYS_symlinkat, e->link, u->parent, u->name);
	else
		r = sys4(SYS_mknodat, u->parent, u->name, S_IFIFO | mode_of(e), 0);
	if (r == 0) {
		set_owner(u, e);
		set_times(u, e);
	}
	return r;
}

static bool is_device(const struct archive_entry *e)
{
	return e->type == ARCHIVE_CHAR || e->type == ARCHIVE_BLOCK_DEVICE;
}

static long begin_entry(struct unpacking *u)
{
	const struct archive_entry *e = &u->reader.entry;
	long r;

	if (is_device(e))
		return 0;
	memcpy(u->path, e->name, text_len(e->name) + 1);
	if (archive_clean_name(u->path) != ARCHIVE_CAUSE_NONE)
		return -EBADMSG;
	/* the root is there, and keeps its mode */
	if (text_same(u->path, "."))
		return e->type == ARCHIVE_DIR ? 0 : -EISDIR;
	r = go_to_parent(u);
	if (r < 0)
		return r;
	u->entries++;
	switch (e->type) {
	case ARCHIVE_FILE:
		return make_file(u);
	case ARCHIVE_DIR:
		return make_dir(u, e);
	case ARCHIVE_SYMLINK:
	case ARCHIVE_HARDLINK:
	case ARCHIVE_FIFO:
		return make_other(u, e);
	case ARCHIVE_CHAR:
	case ARCHIVE_BLOCK_DEVICE:
		break;
	}
	return 0;
}

static long write_data(const struct unpacking *u)
{
	const struct archive_reader *r = &u->reader;

	for (size_t at = 0; at < r->data_len;) {
		long n =
			sys4(SYS_pwrite64, u->file, r->data + at, r->data_len - at, r->offset + at);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n ? n : -EIO;
		at += (size_t)n;
	}
	return 0;
}

static long end_entry(struct unpacking *u)
{
	const struct archive_entry *e = &u->reader.entry;
	long r = 0;

	if (u->file < 0)
		return 0;
	if (e->sparse)
		r = sys2(SYS_ftruncate, u->file, e->size);
	set_owner(u, e);
	(void)sys2(SYS_fchmod, u->file, mode_of(e));
	set_times(u, e);
	close_fd(&u->file);
	return r;
}

/* --- the stream --- */

static size_t take(struct stream *s, const uint8_t *p, size_t n)
{
	struct unpacking *u = s->memory;
	size_t whole = n;
	long r = 0;

	for (;;) {
		switch (archive_next(&u->reader, &p, &n)) {
		case ARCHIVE_MORE:
			return whole;
		case ARCHIVE_ENTRY:
			r = begin_entry(u);
			break;
		case ARCHIVE_DATA:
			r = u->file >= 0 ? write_data(u) : 0;
			break;
		case ARCHIVE_ENTRY_END:
			r = end_entry(u);
			break;
		case ARCHIVE_END:
			break;
		case ARCHIVE_REFUSED:
			fail(s, EBADMSG, archive_cause_text(u->reader.cause));
			return whole;
		}
		if (r < 0) {
			fail(s, (uint32_t)-r, "");
			return whole;
		}
	}
}

static void take_end(struct stream *s)
{
	struct unpacking *u = s->memory;

	if (!archive_finish(&u->reader)) {
		fail(s, EBADMSG, archive_cause_text(u->reader.cause));
		return;
	}
	u->ended = true;
	stream_work(s);
}

/* Directories last first, so that what lies in one is done before it may lose the right to be written to. */
static void set_late(struct unpacking *u)
{
	struct late *d = (void *)(u->dirs + u->last_dir - 1);
	struct stat st;

	u->last_dir = d->before;
	memcpy(u->path, d->name, d->name_len + 1u);
	if (go_to_parent(u) < 0 || stat_at(u->parent, u->name, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	set_owner(u, &d->of);
	if ((st.st_mode & 07777) != mode_of(&d->of))
		(void)sys3(SYS_fchmodat, u->parent, u->name, mode_of(&d->of));
	set_times(u, &d->of);
}

static bool step(struct stream *s)
{
	struct unpacking *u = s->memory;

	for (int i = 0; i < STEP_ENTRIES && u->last_dir; i++)
		set_late(u);
	if (u->last_dir)
		return true;
	give_up(s);
	stream_result(s, 0, u->entries);
	return false;
}

/* --- the request --- */

static long begin(struct unpacking *u, char *path, uint32_t flags)
{
	const int how = O_PATH | O_DIRECTORY | O_CLOEXEC;
	long fd = sys4(SYS_openat, AT_FDCWD, path, how, 0);

	if (fd == -ENOENT && flags & WIRE_FILE_PARENTS) {
		fd = path_make(path);
		if (fd == 0)
			fd = sys4(SYS_openat, AT_FDCWD, path, how, 0);
	}
	if (fd < 0)
		return fd;
	u->root = (int)fd;
	u->owners = flags & WIRE_FILE_OWNERS;
	return 0;
}

bool files_tar_in(const struct wire_frame *f)
{
	char path[WIRE_MAX_PATH];
	struct wire_tar_in m;
	struct unpacking *u;
	struct stream *s;
	long r;

	if (!wire_get_tar_in(f, &m))
		return false;
	if (!(s = request_new(f, &tar_in_ops)))
		return true;
	u = stream_memory(s, sizeof *u);
	if (!u) {
		stream_result(s, ENOMEM, 0);
		return true;
	}
	archive_reader_init(&u->reader);
	u->root = u->parent = u->file = -1;
	path_copy(path, m.rest, m.rest_len);
	r = begin(u, path, m.flags);
	if (r < 0)
		stream_result(s, (uint32_t)-r, 0);
	return true;
}
