/* Owns walking and removing trees.  Called by everything in this room that goes through a tree; the trees are the store's
 * own, the user's, or in the making from a hostile archive. */
#include "image/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"

enum { MAX_NAMES = 64 << 20 }; /* bytes of names in one directory */

int store_failed(struct err *e, int error, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(e, error == ENOSPC || error == EDQUOT ? R_DISK_FULL : R_STATE_UNWRITABLE,
		error, "%s", text);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int sort_names(struct walk_level *l, size_t n, struct buf *names)
{
	l->sorted = calloc(n + 1, sizeof *l->sorted);
	if (!l->sorted)
		return -1;
	l->names = names->data;
	names->data = NULL;
	l->n = n;
	for (size_t i = 0, at = 0; i < n; i++) {
		l->sorted[i] = l->names + at;
		at += strlen(l->names + at) + 1;
	}
	if (n)
		qsort(l->sorted, n, sizeof *l->sorted, compare);
	return 0;
}

/* All names at once: the callers remove and add while they walk. */
static int read_names(struct walk_level *l, struct err *e)
{
	_cleanup_close_ int copy = fcntl(l->fd, F_DUPFD_CLOEXEC, 3);
	_cleanup_closedir_ DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	_cleanup_buf_ struct buf names = { .max = MAX_NAMES };
	struct dirent *entry;
	size_t n = 0;

	if (!d)
		return store_failed(e, errno, "read a directory");
	(void)move_fd(&copy);
	rewinddir(d); /* a duplicate stands where the last reader of the directory left it */
	for (;;) {
		errno = 0;
		entry = readdir(d);
		if (!entry)
			break;
		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		if (!buf_add(&names, entry->d_name, strlen(entry->d_name) + 1))
			return err_set(e, R_ARCHIVE_TOO_LARGE, 0,
				"read a directory: over %d bytes of names", MAX_NAMES);
		n++;
	}
	if (errno)
		return store_failed(e, errno, "read a directory");
	return sort_names(l, n, &names) < 0 ? err_set(e, R_NO_MEMORY, errno, "sort names") : 0;
}

int walk_open(struct walk *w, int root_fd, struct err *e)
{
	memset(w, 0, sizeof *w);
	w->path.max = WALK_MAX_PATH;
	w->levels[0].fd = root_fd;
	w->depth = 1;
	if (root_fd < 0 || !buf_puts(&w->path, ""))
		return store_failed(e, errno, "open a tree");
	return read_names(&w->levels[0], e);
}

static void level_done(struct walk_level *l)
{
	l->fd = close_fd(l->fd);
	free(l->names);
	free(l->sorted);
	l->names = NULL;
	l->sorted = NULL;
}

void walk_done(struct walk *w)
{
	while (w->depth)
		level_done(&w->levels[--w->depth]);
	buf_done(&w->path);
}

void walk_skip(struct walk *w)
{
	w->enter = false;
}

static void cut_path(struct walk *w, size_t len)
{
	w->path.len = len;
	w->path.data[len] = '\0';
}

int walk_changed(const struct walk *w, struct err *e)
{
	(void)err_set(
		e, R_BUSY, 0, "read '%.256s': it was changed while it was read", w->path.data);
	return err_remedy(e, "Do it again when nothing changes the directory.");
}

/* What fstatat saw is not to be had any more. */
static int not_opened(const struct walk *w, int error, struct err *e)
{
	if (error == ELOOP || error == ENOTDIR || error == ENOENT)
		return walk_changed(w, e);
	if (error != EACCES)
		return store_failed(e, error, "read '%.256s'", w->path.data);
	/* what is moved out of the tree at this moment is out of the process's walls too */
	if (faccessat(w->dirfd, w->name, R_OK, 0) == 0)
		return walk_changed(w, e);
	return err_set(e, R_PERMISSION_DENIED, error, "read '%.256s'", w->path.data);
}

/* What fstatat saw a moment ago, by the name that it had then; *ret_fd is -1 where a mount is. */
static int open_same(const struct walk *w, uint64_t flags, int *ret_fd, struct err *e)
{
	_cleanup_close_ int fd = sys_openat2(w->dirfd, w->name, flags | O_RDONLY | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
	struct stat st;

	*ret_fd = -1;
	if (fd < 0)
		return errno == EXDEV ? 0 : not_opened(w, errno, e);
	if (fstat(fd, &st) < 0)
		return store_failed(e, errno, "read '%.256s'", w->path.data);
	/* the number alone may be given again at once */
	if (st.st_ino != w->st.st_ino || st.st_dev != w->st.st_dev ||
		(st.st_mode & S_IFMT) != (w->st.st_mode & S_IFMT))
		return walk_changed(w, e);
	*ret_fd = move_fd(&fd);
	return 0;
}

int walk_open_file(const struct walk *w, int *ret_fd, struct err *e)
{
	/* a FIFO that took its place must not make us wait */
	return open_same(w, O_NONBLOCK, ret_fd, e);
}

/* Into the directory of the last WALK_ENTER. */
static int descend(struct walk *w, struct err *e)
{
	struct walk_level *l = &w->levels[w->depth];

	if (w->depth > WALK_MAX_DEPTH)
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0,
			"enter '%.256s': over %d directories deep", w->path.data, WALK_MAX_DEPTH);
	*l = (struct walk_level){ .path_len = w->path.len, .st = w->st };
	if (open_same(w, O_DIRECTORY, &l->fd, e) < 0)
		return -1;
	w->depth++;
	return l->fd < 0 ? 0 : read_names(l, e);
}

static int leave(struct walk *w)
{
	struct walk_level *l = &w->levels[w->depth - 1];

	cut_path(w, l->path_len);
	w->st = l->st;
	level_done(l);
	w->depth--;
	if (!w->depth) {
		w->event = WALK_END;
		return 0;
	}
	l--;
	w->event = WALK_LEAVE;
	w->dirfd = l->fd;
	w->name = l->sorted[l->next - 1];
	return 0;
}

int walk_next(struct walk *w, struct err *e)
{
	struct walk_level *l;

	if (w->enter && descend(w, e) < 0)
		return -1;
	w->enter = false;
	for (;;) {
		l = &w->levels[w->depth - 1];
		if (l->next == l->n)
			return leave(w);
		w->dirfd = l->fd;
		w->name = l->sorted[l->next++];
		if (fstatat(l->fd, w->name, &w->st, AT_SYMLINK_NOFOLLOW) == 0)
			break;
		if (errno != ENOENT)
			return store_failed(e, errno, "look at '%.256s'", w->name);
	}
	cut_path(w, l->path_len);
	if ((l->path_len && !buf_puts(&w->path, "/")) || !buf_puts(&w->path, w->name))
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0, "walk '%.256s...': a path over %d bytes",
			w->path.data, WALK_MAX_PATH);
	w->enter = S_ISDIR(w->st.st_mode);
	w->event = w->enter ? WALK_ENTER : WALK_FILE;
	return 0;
}

static int remove_one(struct walk *w, struct err *e)
{
	if (w->event == WALK_ENTER) {
		/* what an archive made unreadable to us must go too */
		if ((w->st.st_mode & 0700) != 0700 && fchmodat(w->dirfd, w->name, 0700, 0) < 0)
			return store_failed(e, errno, "open '%.256s' to remove it", w->path.data);
		return 0;
	}
	if (unlinkat(w->dirfd, w->name, w->event == WALK_LEAVE ? AT_REMOVEDIR : 0) < 0 &&
		errno != ENOENT)
		return store_failed(e, errno, "remove '%.256s'", w->path.data);
	return 0;
}

int remove_at(int dirfd, const char *name, struct err *e)
{
	_cleanup_free_ struct walk *w = NULL;
	int fd, r;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return store_failed(e, errno, "remove '%.256s'", name);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
		return 0;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0)
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return store_failed(e, errno, "open '%.256s' to remove it", name);
	w = xcalloc(1, sizeof *w);
	r = walk_open(w, fd, e);
	while (r == 0 && (r = walk_next(w, e)) == 0 && w->event != WALK_END)
		r = remove_one(w, e);
	walk_done(w);
	if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
		r = store_failed(e, errno, "remove '%.256s'", name);
	return r;
}
