/* Owns the walk through a tree.  Called by the requests that read or remove trees, a few entries at a time. */
#include "guest/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK };

static long take(struct walk *w, int dir, const struct stat *st)
{
	w->dir = dir;
	w->dev = st->st_dev;
	w->ino = st->st_ino;
	w->off = 0;
	w->at = w->end = 0;
	return 0;
}

long walk_begin(struct walk *w, int dir)
{
	struct stat st = { .st_dev = 0 };
	long r = sys2(SYS_fstat, dir, &st);

	w->depth = w->path_len = 0;
	w->dir = -1;
	if (r == 0)
		return take(w, dir, &st);
	close_quietly(dir);
	return r;
}

void walk_end(struct walk *w)
{
	if (w->dir < 0)
		return;
	close_quietly(w->dir);
	w->dir = -1;
	while (w->depth)
		if (w->above[--w->depth].fd >= 0)
			close_quietly(w->above[w->depth].fd);
}

void walk_rewind(struct walk *w)
{
	(void)sys3(SYS_lseek, w->dir, 0, SEEK_SET);
	w->at = w->end = 0;
}

/* Back in the directory above, behind the entry that was entered. */
static long leave(struct walk *w)
{
	const struct walk_level *up = &w->above[w->depth - 1];
	struct stat st = { .st_dev = 0 };
	long fd = up->fd, r;

	if (fd < 0)
		fd = sys4(SYS_openat, w->dir, "..", DIRECTORY, 0);
	if (fd < 0)
		return fd;
	r = sys2(SYS_fstat, fd, &st);
	/* somebody moved the directory that we were in */
	if (r == 0 && (st.st_dev != up->dev || st.st_ino != up->ino))
		r = -ESTALE;
	if (r < 0) {
		if (fd != up->fd)
			close_quietly((int)fd);
		return r;
	}
	close_quietly(w->dir);
	w->depth--;
	w->path_len = up->path_len;
	(void)take(w, (int)fd, &st);
	w->off = up->off;
	(void)sys3(SYS_lseek, fd, up->off, SEEK_SET);
	return 0;
}

enum walk_step walk_next(struct walk *w, const struct walk_entry **ret, uint32_t *ret_error)
{
	for (;;) {
		const struct walk_entry *e;

		if (w->at == w->end) {
			long n = sys3(SYS_getdents64, w->dir, w->listing, sizeof w->listing);

			/* a directory that was removed meanwhile */
			if (n == -ENOENT)
				n = 0;
			w->at = 0;
			w->end = n > 0 ? n : 0;
			if (n < 0) {
				*ret_error = (uint32_t)-n;
				return WALK_FAILED;
			}
			if (n == 0 && w->depth == 0)
				return WALK_END;
			if (n == 0) {
				n = leave(w);
				*ret_error = (uint32_t)-n;
				return n < 0 ? WALK_FAILED : WALK_LEFT;
			}
		}
		e = (const void *)(w->listing + w->at);
		w->at += e->length;
		w->off = e->off;
		*ret = e;
		if (!text_is_dots(e->name))
			return WALK_ENTRY;
	}
}

/* What the kernel makes up has no end and no sense elsewhere. */
static bool is_made_up(int fd)
{
	struct statfs f;

	return sys2(SYS_fstatfs, fd, &f) == 0 &&
		(f.f_type == PROC_SUPER_MAGIC || f.f_type == SYSFS_MAGIC);
}

long walk_enter(struct walk *w, const char *name)
{
	struct walk_level *up = &w->above[w->depth];
	size_t n = text_len(name);
	struct stat st = { .st_dev = 0 };
	long fd, r;

	if (w->depth == WALK_DEPTH || w->path_len + n + 2 > sizeof w->path)
		return -ENAMETOOLONG;
	fd = sys4(SYS_openat, w->dir, name, DIRECTORY, 0);
	if (fd < 0)
		return fd;
	r = sys2(SYS_fstat, fd, &st);
	if (r == 0 && st.st_dev != w->dev && is_made_up((int)fd))
		r = -EXDEV;
	if (r < 0) {
		close_quietly((int)fd);
		return r;
	}
	*up = (struct walk_level){ w->dev, w->ino, w->off, -1, w->path_len };
	if (w->depth < WALK_HELD)
		up->fd = w->dir;
	else
		close_quietly(w->dir);
	memcpy(w->path + w->path_len, name, n);
	w->path[w->path_len + n] = '/';
	w->path_len += (uint32_t)n + 1;
	w->depth++;
	return take(w, (int)fd, &st);
}

uint32_t walk_path(const struct walk *w, const char *name, char *out)
{
	size_t n = text_len(name);

	if (w->path_len + n >= WIRE_MAX_PATH)
		return 0;
	memcpy(out, w->path, w->path_len);
	memcpy(out + w->path_len, name, n + 1);
	return w->path_len + (uint32_t)n;
}
