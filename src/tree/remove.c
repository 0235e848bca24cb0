/* Owns removal of trees.  Called for whiteouts, for what a new entry replaces, and by whoever removes a directory that somebody
 * else could write to.  Must hold: only names in directories that were opened without following are unlinked. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/str.h"
#include "tree/inside.h"

enum { ROUNDS = 3 }; /* of a directory into which somebody puts things meanwhile */

struct removal {
	struct tree_remove *r;
	struct tree_walk walk;
};

static void removal_done(struct removal *x)
{
	int saved = errno;

	tree_walk_done(&x->walk);
	errno = saved;
}

static bool kept(const struct tree_remove *r, const struct stat *st)
{
	return r->keep && tree_set_has(r->keep, tree_inode_key(st));
}

static void name_push(struct tree_remove *r, const char *name)
{
	size_t n = strlen(name);

	if (r->path_len)
		r->path[r->path_len++] = '/';
	memcpy(r->path + r->path_len, name, n + 1);
	r->path_len += n;
}

static void name_pop(struct tree_remove *r, size_t len)
{
	r->path_len = len;
	r->path[len] = 0;
}

static int unlink_name(struct tree_remove *r, int dirfd, const char *name, int flags)
{
	if (unlinkat(dirfd, name, flags) < 0)
		return errno == ENOENT ? 0 : -1;
	r->removed++;
	return 0;
}

/* Something that is no directory; 1 when it is one. */
static int remove_file(struct tree_remove *r, int dirfd, const char *name)
{
	struct stat st;

	if (r->keep) {
		if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : -1;
		if (S_ISDIR(st.st_mode))
			return 1;
		if (kept(r, &st))
			return 0;
	}
	if (unlink_name(r, dirfd, name, 0) == 0)
		return 0;
	return errno == EISDIR ? 1 : -1;
}

/* Goes into a directory; what vanished or became something else is left to the next round. */
static int enter(struct removal *x, int dirfd, const char *name)
{
	size_t len = x->r->path_len;
	struct stat st;
	int fd;

	name_push(x->r, name);
	fd = tree_open_dir(dirfd, name, true);
	if (fd < 0) {
		if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EAGAIN)
			return -1;
		name_pop(x->r, len);
		return 0;
	}
	if (fstat(fd, &st) < 0 || tree_walk_push(&x->walk, fd) < 0)
		return -1;
	tree_walk_top(&x->walk)->len = len;
	tree_walk_top(&x->walk)->flag = kept(x->r, &st);
	return 0;
}

/* The deepest directory was read: removes it, or reads it again when something is left in it. */
static int leave(struct removal *x, int outer_fd)
{
	struct tree_level *top = tree_walk_top(&x->walk);
	int above = x->walk.depth > 1 ? dirfd(top[-1].dir) : outer_fd;
	const char *name = x->r->path + top->len + (top->len ? 1 : 0);

	/* above is -1 for the directory that is to be emptied only */
	if (!top->flag && above >= 0 && unlink_name(x->r, above, name, AT_REMOVEDIR) < 0) {
		if (errno == ENOTEMPTY && x->r->keep)
			; /* something in it is kept */
		else if (errno == ENOTEMPTY && top->tag++ < ROUNDS) {
			rewinddir(top->dir);
			return 0;
		} else if (errno != ENOTDIR) {
			return -1;
		}
	}
	name_pop(x->r, top->len);
	tree_walk_pop(&x->walk);
	return 0;
}

static int one_step(struct removal *x, int outer_fd)
{
	struct dirent *d = tree_walk_next(&x->walk);
	int fd, is;

	if (!d)
		return errno ? -1 : leave(x, outer_fd);
	fd = tree_walk_fd(&x->walk);
	is = d->d_type == DT_DIR ? 1 : remove_file(x->r, fd, d->d_name);
	if (is < 0)
		name_push(x->r, d->d_name);
	if (is > 0)
		return enter(x, fd, d->d_name);
	return is;
}

static int run(struct removal *x, int outer_fd)
{
	while (x->walk.depth)
		if (one_step(x, outer_fd) < 0)
			return -1;
	return 0;
}

int tree_remove_name(struct tree_remove *r, int dirfd, const char *name)
{
	_cleanup_(removal_done) struct removal x = { .r = r };
	int is;

	name_pop(r, 0);
	is = remove_file(r, dirfd, name);
	if (is < 0)
		name_push(r, name);
	if (is <= 0)
		return is;
	return enter(&x, dirfd, name) < 0 ? -1 : run(&x, dirfd);
}

int tree_remove_content(struct tree_remove *r, int dir_fd)
{
	_cleanup_(removal_done) struct removal x = { .r = r };

	name_pop(r, 0);
	return tree_walk_push(&x.walk, dir_fd) < 0 ? -1 : run(&x, -1);
}

int tree_remove(int dirfd, const char *name, uint64_t *count, struct err *e)
{
	struct tree_remove r = { .keep = NULL };
	int ret = tree_remove_name(&r, dirfd, name);

	*count += r.removed;
	return ret < 0 ? tree_failed(e, errno, "remove", r.path) : 0;
}
