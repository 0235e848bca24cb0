/* Copies the files of a layer: for a fork of a running sandbox, and to make one layer of many.  Called by layers.c.
 *
 * As `cp -a` does, with hard links, extended attributes (overlayfs's own among them), access lists, holes and special files;
 * owners are moved from one range of ids to another.  Nobody changes source or target meanwhile: what runs is paused, and
 * nobody else sees either.  Still nothing is looked up but by single names that are never followed.
 *
 * Merging, the target already holds older layers, and the result must be to overlayfs what the layers were one above the
 * other: a file takes the place of whatever is there, a directory that hides what is below it empties what is there, and one
 * that takes the place of something else than a directory hides what is below from then on. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/str.h"
#include "engine/native/native.h"

enum {
	XATTR_MAX = 64 << 10,
	COPY_CHUNK = 8 << 20, /* bytes between two calls of progress */
};

/* --- attributes ---------------------------------------------------------------------------------------------------- */

static uid_t move_id(const struct layer_copy *c, uid_t id)
{
	if (id >= c->from && id - c->from < NATIVE_ID_MAPPED)
		return c->to + (id - c->from);
	return id;
}

/* The numbers in an access list are raw ids. */
static void move_acl(const struct layer_copy *c, uint8_t *value, size_t n)
{
	enum { HEAD = 4, ENTRY = 8, TAG_USER = 2, TAG_GROUP = 8 };

	for (size_t i = HEAD; i + ENTRY <= n; i += ENTRY) {
		uint16_t tag;
		uint32_t id;

		memcpy(&tag, value + i, sizeof tag);
		if (tag != TAG_USER && tag != TAG_GROUP)
			continue;
		memcpy(&id, value + i + 4, sizeof id);
		id = move_id(c, id);
		memcpy(value + i + 4, &id, sizeof id);
	}
}

static bool is_wanted(const char *name)
{
	return str_after(name, "user.") || str_after(name, "trusted.overlay.") ||
		str_after(name, "system.posix_acl_");
}

static int copy_xattrs(const struct layer_copy *c, int from, int to)
{
	ssize_t n = flistxattr(from, c->names, XATTR_MAX);

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -1;
	for (const char *p = c->names; p < c->names + n; p += strlen(p) + 1) {
		ssize_t len;

		if (!is_wanted(p))
			continue;
		len = fgetxattr(from, p, c->value, XATTR_MAX);
		if (len < 0)
			return -1;
		if (c->own && str_after(p, "system."))
			move_acl(c, (uint8_t *)c->value, (size_t)len);
		if (fsetxattr(to, p, c->value, (size_t)len, 0) < 0)
			return -1;
	}
	return 0;
}

/* What an older layer said of a directory, and the newer one doesn't.  What is hidden below stays hidden. */
static int drop_old_xattrs(const struct layer_copy *c, int from, int to)
{
	ssize_t n = flistxattr(to, c->names, XATTR_MAX);

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -1;
	for (const char *p = c->names; p < c->names + n; p += strlen(p) + 1) {
		if (!is_wanted(p) || streq(p, layer_opaque_name(c->marks)) ||
			fgetxattr(from, p, NULL, 0) >= 0)
			continue;
		if (errno != ENODATA || (fremovexattr(to, p) < 0 && errno != ENODATA))
			return -1;
	}
	return 0;
}

/* Owner first: changing it takes set-id bits away. */
static int copy_attributes(const struct layer_copy *c, int from, int to, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (c->own && fchown(to, move_id(c, st->st_uid), move_id(c, st->st_gid)) < 0)
		return -1;
	if (fchmod(to, st->st_mode & 07777) < 0 || (c->merge && drop_old_xattrs(c, from, to) < 0) ||
		copy_xattrs(c, from, to) < 0)
		return -1;
	return futimens(to, times);
}

/* --- files --------------------------------------------------------------------------------------------------------- */

static void tell(struct layer_copy *c, uint64_t n)
{
	uint64_t before = c->bytes / COPY_CHUNK;

	c->bytes += n;
	if (c->progress && c->bytes / COPY_CHUNK != before)
		c->progress(c->arg, c->bytes);
}

static int copy_range(struct layer_copy *c, int from, int to, off_t at, off_t end)
{
	if (lseek(to, at, SEEK_SET) < 0)
		return -1;
	while (at < end) {
		off_t left = end - at;
		ssize_t n =
			sendfile(to, from, &at, (size_t)(left < COPY_CHUNK ? left : COPY_CHUNK));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break; /* shorter than it said: what is missing reads as zeros */
		tell(c, (uint64_t)n);
	}
	return 0;
}

static int copy_data(struct layer_copy *c, int from, int to, off_t size)
{
	off_t at = 0;

	if (size == 0)
		return 0;
	if (!c->no_clone && ioctl(to, FICLONE, from) == 0)
		return 0;
	c->no_clone = true; /* not this file system: one try is enough */
	if (ftruncate(to, size) < 0)
		return -1;
	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0)
			return errno == ENXIO ? 0 : -1;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || copy_range(c, from, to, data, hole < size ? hole : size) < 0)
			return -1;
		at = hole;
	}
	return 0;
}

static int copy_file(
	struct layer_copy *c, int from, int to, const char *name, const struct stat *st)
{
	_cleanup_close_ int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_close_ int out = -1;

	if (in < 0)
		return -1;
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0 || copy_data(c, in, out, st->st_size) < 0)
		return -1;
	return copy_attributes(c, in, out, st);
}

static int copy_link(int from, int to, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof target - 1);

	if (n < 0)
		return -1;
	target[n] = '\0';
	return symlinkat(target, to, name);
}

/* Everything that can't be opened without doing something: link, FIFO, socket, whiteout. */
static int copy_node(
	struct layer_copy *c, int from, int to, const char *name, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (S_ISLNK(st->st_mode)) {
		if (copy_link(from, to, name) < 0)
			return -1;
	} else if (mknodat(to, name, (st->st_mode & S_IFMT) | 0600, st->st_rdev) < 0) {
		return -1;
	}
	if (c->own &&
		fchownat(to, name, move_id(c, st->st_uid), move_id(c, st->st_gid),
			AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!S_ISLNK(st->st_mode) && fchmodat(to, name, st->st_mode & 07777, 0) < 0)
		return -1;
	return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW);
}

/* The first name of a file that has more is kept a second time, under its number, for the others to be linked to. */
static int copy_linked(
	struct layer_copy *c, int from, int to, const char *name, const struct stat *st)
{
	char number[32];
	int r;

	FMT(number, "%llu", (unsigned long long)st->st_ino);
	if (linkat(c->links, number, to, name, 0) == 0)
		return 0;
	if (errno != ENOENT)
		return -1;
	r = S_ISREG(st->st_mode) ? copy_file(c, from, to, name, st)
				 : copy_node(c, from, to, name, st);
	return r < 0 ? -1 : linkat(to, name, c->links, number, 0);
}

/* --- directories --------------------------------------------------------------------------------------------------- */

static DIR *read_dir(int fd)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (!d)
		again = close_fd(again);
	return d;
}

/* NOLINTBEGIN(misc-no-recursion): at most OVERLAY_MAX_DEPTH deep */
static int remove_tree(int dir, const char *name, unsigned depth);

static int empty_dir(int fd, unsigned depth)
{
	_cleanup_closedir_ DIR *d = read_dir(fd);
	struct dirent *entry;

	if (!d)
		return -1;
	while ((entry = readdir(d)))
		if (!layer_is_dot(entry->d_name) && remove_tree(fd, entry->d_name, depth + 1) < 0)
			return -1;
	return 0;
}

static int remove_tree(int dir, const char *name, unsigned depth)
{
	_cleanup_close_ int fd = -1;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return errno == ENOENT ? 0 : -1;
	if (depth > OVERLAY_MAX_DEPTH) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || empty_dir(fd, depth) < 0)
		return -1;
	return unlinkat(dir, name, AT_REMOVEDIR);
}

static int copy_dir(struct layer_copy *c, int from, int to, unsigned depth);

/* The directory to copy into; a new one hides what is below it when it took the place of something. */
static int open_target(struct layer_copy *c, int to, const char *name, int from)
{
	_cleanup_close_ int fd = -1;
	bool hides = false;
	struct stat st;
	int opaque;

	if (mkdirat(to, name, 0700) < 0) {
		if (errno != EEXIST || !c->merge || fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -1;
		if (!S_ISDIR(st.st_mode)) {
			if (unlinkat(to, name, 0) < 0 || mkdirat(to, name, 0700) < 0)
				return -1;
			hides = true;
		}
	}
	fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	opaque = c->merge ? layer_is_opaque(from, c->marks) : 0;
	if (fd < 0 || opaque < 0 || (opaque && empty_dir(fd, 0) < 0) ||
		(hides && layer_set_opaque(fd, c->marks) < 0))
		return -1;
	return move_fd(&fd);
}

static int copy_subdir(struct layer_copy *c, int from, int to, const char *name, unsigned depth)
{
	_cleanup_close_ int in =
		openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int out = -1;

	if (in < 0)
		return -1;
	out = open_target(c, to, name, in);
	return out < 0 ? -1 : copy_dir(c, in, out, depth);
}

static int copy_entry(struct layer_copy *c, int from, int to, const char *name, unsigned depth)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return copy_subdir(c, from, to, name, depth + 1);
	/* no other device can be made inside; were there one, it would not be carried on */
	if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !layer_is_whiteout(&st)))
		return 0;
	if (c->merge && remove_tree(to, name, 0) < 0)
		return -1;
	if (st.st_nlink > 1)
		return copy_linked(c, from, to, name, &st);
	return S_ISREG(st.st_mode) ? copy_file(c, from, to, name, &st)
				   : copy_node(c, from, to, name, &st);
}

static int copy_dir(struct layer_copy *c, int from, int to, unsigned depth)
{
	_cleanup_closedir_ DIR *d = read_dir(from);
	struct dirent *entry;
	struct stat st;

	if (depth > OVERLAY_MAX_DEPTH) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (!d || fstat(from, &st) < 0)
		return -1;
	while ((entry = readdir(d)))
		if (!layer_is_dot(entry->d_name) &&
			copy_entry(c, from, to, entry->d_name, depth) < 0)
			return -1;
	return copy_attributes(c, from, to, &st);
}

/* NOLINTEND(misc-no-recursion) */

int layer_copy(struct layer_copy *c, int from, int to, struct err *e)
{
	struct rlimit before = { 0, 0 }, files;
	int r, error;

	/* each level of directories holds three */
	if (getrlimit(RLIMIT_NOFILE, &before) == 0) {
		files = (struct rlimit){ before.rlim_max, before.rlim_max };
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	c->names = xcalloc(1, XATTR_MAX);
	c->value = xcalloc(1, XATTR_MAX);
	r = copy_dir(c, from, to, 0);
	error = errno;
	free(c->names);
	free(c->value);
	c->names = c->value = NULL;
	if (empty_dir(c->links, 0) < 0 && r == 0) {
		r = -1;
		error = errno;
	}
	if (before.rlim_max)
		(void)setrlimit(RLIMIT_NOFILE, &before);
	if (r == 0)
		return 0;
	if (error == ENOSPC) {
		(void)err_set(e, R_DISK_FULL, error, "copy a writable layer");
		return err_remedy(
			e, "Remove files inside, or create the sandbox with a larger --disk.");
	}
	if (error == ENAMETOOLONG)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"copy a writable layer: directories lie over %d deep in each other",
			OVERLAY_MAX_DEPTH);
	return err_set(e, R_SETUP_FAILED, error, "copy a writable layer");
}
