/* Owns copies of trees by hard links, and counting them.  Called for each layer on top of another. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "image/import/layer.h"
#include "image/walk.h"

struct clone {
	struct walk walk;
	int to[WALK_MAX_DEPTH + 2]; /* by depth, beside the walk's own, which ends one deeper */
	bool own_ids;
	uint64_t entries;
};

/* Where a file has as many names as its file system allows, and where it can't have more than one. */
static int copy_file(struct clone *c, int to, struct err *e)
{
	const struct walk *w = &c->walk;
	struct timespec times[2] = { w->st.st_mtim, w->st.st_mtim };
	_cleanup_close_ int in = openat(w->dirfd, w->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int out = -1;
	ssize_t n;

	if (in < 0)
		return store_failed(e, errno, "open '%.256s' to copy it", w->path.data);
	out = openat(to, w->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return store_failed(e, errno, "make '%.256s'", w->path.data);
	while ((n = copy_file_range(in, NULL, out, NULL, 1 << 30, 0)) > 0)
		;
	if (n < 0 || (c->own_ids && fchown(out, w->st.st_uid, w->st.st_gid) < 0) ||
		fchmod(out, w->st.st_mode & 0777) < 0 || futimens(out, times) < 0)
		return store_failed(e, errno, "copy '%.256s'", w->path.data);
	return 0;
}

static int clone_file(struct clone *c, struct err *e)
{
	const struct walk *w = &c->walk;
	int to = c->to[w->depth - 1];

	if (linkat(w->dirfd, w->name, to, w->name, 0) == 0)
		return 0;
	if (errno == EMLINK && S_ISREG(w->st.st_mode))
		return copy_file(c, to, e);
	return store_failed(e, errno, "link '%.256s'", w->path.data);
}

static int clone_enter(struct clone *c, struct err *e)
{
	const struct walk *w = &c->walk;
	int to = c->to[w->depth - 1], fd;

	if (mkdirat(to, w->name, 0700) < 0)
		return store_failed(e, errno, "make the directory '%.256s'", w->path.data);
	fd = openat(to, w->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return store_failed(e, errno, "open the directory '%.256s'", w->path.data);
	c->to[w->depth] = fd;
	return 0;
}

/* Owner, mode and times last: what was put in would change the times. */
static int finish_dir(struct clone *c, int fd, const struct stat *st, struct err *e)
{
	struct timespec times[2] = { st->st_mtim, st->st_mtim };

	if ((c->own_ids && fchown(fd, st->st_uid, st->st_gid) < 0) ||
		fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return store_failed(e, errno, "finish the directory '%.256s'", c->walk.path.data);
	return 0;
}

static int clone_all(struct clone *c, struct err *e)
{
	struct walk *w = &c->walk;
	int r = 0;

	while (r == 0 && (r = walk_next(w, e)) == 0) {
		if (w->event == WALK_END)
			return 0;
		c->entries += w->event != WALK_LEAVE;
		if (w->event == WALK_FILE) {
			r = clone_file(c, e);
		} else if (w->event == WALK_ENTER) {
			r = clone_enter(c, e);
		} else {
			r = finish_dir(c, c->to[w->depth], &w->st, e);
			c->to[w->depth] = close_fd(c->to[w->depth]);
		}
	}
	return r;
}

int tree_clone(int from, int to, uint64_t *entries, struct err *e)
{
	_cleanup_free_ struct clone *c = xcalloc(1, sizeof *c);
	struct stat st;
	int r;

	for (size_t i = 0; i < sizeof c->to / sizeof *c->to; i++)
		c->to[i] = -1;
	c->to[0] = to;
	c->own_ids = geteuid() == 0;
	r = walk_open(&c->walk, from, e);
	if (r == 0 && fstat(from, &st) < 0)
		r = store_failed(e, errno, "look at a tree");
	if (r == 0)
		r = clone_all(c, e);
	if (r == 0)
		r = finish_dir(c, to, &st, e);
	*entries += c->entries;
	for (size_t i = 0; i < sizeof c->to / sizeof *c->to; i++)
		(void)close_fd(c->to[i]);
	walk_done(&c->walk);
	return r;
}

int tree_measure(int root_fd, uint64_t *ret_bytes, uint64_t *ret_entries, struct err *e)
{
	_cleanup_free_ struct walk *w = xcalloc(1, sizeof *w);
	uint64_t bytes = 0, entries = 0;
	int r = walk_open(w, root_fd, e);

	while (r == 0 && (r = walk_next(w, e)) == 0 && w->event != WALK_END) {
		entries += w->event != WALK_LEAVE;
		if (w->event == WALK_FILE && S_ISREG(w->st.st_mode))
			bytes += (uint64_t)w->st.st_size;
	}
	walk_done(w);
	if (r == 0) {
		*ret_bytes = bytes;
		*ret_entries = entries;
	}
	return r;
}
