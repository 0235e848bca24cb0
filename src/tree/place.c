/* Owns the directories of the writer: the one that the present entry goes to, those made on the way, and what is set on them at
 * the end (a directory without the right to write must take its entries first).  Called by write.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tree/write.h"

enum { LATE_MAX = 256 << 20 };

int tree_note(struct tree_writer *w, const struct stat *st, struct err *e)
{
	return tree_set_add(&w->touched, tree_inode_key(st), e);
}

static int count_entry(struct tree_writer *w, struct err *e)
{
	if (++w->entries > w->o.max_entries)
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0,
			"the archive makes more than %llu entries",
			(unsigned long long)w->o.max_entries);
	return 0;
}

/* --- what is there --- */

static uint64_t hash_on(uint64_t h, char c)
{
	return (h ^ (unsigned char)c) * 0x100000001b3u;
}

/* Dry run: a path is gone when it or a directory above it would have been removed. */
static bool is_gone(const struct tree_writer *w)
{
	uint64_t h = w->seed;

	for (const char *p = w->path;; p++) {
		if ((!*p || *p == '/') && tree_set_has(&w->gone, h | 1))
			return true;
		if (!*p)
			return false;
		h = hash_on(h, *p);
	}
}

static int note_gone(struct tree_writer *w, struct err *e)
{
	uint64_t h = w->seed;

	for (const char *p = w->path; *p; p++)
		h = hash_on(h, *p);
	return tree_set_add(&w->gone, h | 1, e);
}

int tree_there(struct tree_writer *w, struct stat *ret, struct err *e)
{
	if (w->dir_fd < 0 || (w->gone.n && is_gone(w)))
		return 0;
	if (fstatat(w->dir_fd, w->base, ret, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : tree_failed(e, errno, "look at", w->path);
}

void tree_tell(struct tree_writer *w, int there)
{
	const struct archive_entry *a = &w->reader.entry;

	if (w->o.action)
		w->o.action(w->o.arg,
			&(struct tree_action){ .kind = there ? 'M' : 'A',
				.type = a->type,
				.path = w->path,
				.mode = a->mode,
				.size = a->size });
}

static void tell_removed(struct tree_writer *w, const char *path)
{
	if (w->o.action)
		w->o.action(w->o.arg, &(struct tree_action){ .kind = 'D', .path = path });
}

/* Dry run of an opaque mark: each name at the top of the directory. */
static int tell_content(struct tree_writer *w, int fd, struct err *e)
{
	_cleanup_(tree_walk_done) struct tree_walk walk = { .depth = 0 };
	size_t len = streq(w->path, ".") ? 0 : strlen(w->path);
	struct dirent *d;
	int r = 0;

	if (tree_walk_push(&walk, fd) < 0)
		return tree_failed(e, errno, "list", w->path);
	while (r == 0 && (d = tree_walk_next(&walk))) {
		size_t n = strlen(d->d_name), at = len ? len + 1 : 0;

		if (at + n >= sizeof w->path) {
			r = tree_failed(e, ENAMETOOLONG, "list", w->path);
			break;
		}
		if (len)
			w->path[len] = '/';
		memcpy(w->path + at, d->d_name, n + 1);
		tell_removed(w, w->path);
		w->counts.removed++;
		r = note_gone(w, e);
	}
	memcpy(w->path + len, len ? "" : ".", len ? 1 : 2);
	return r;
}

static int clear_content(struct tree_writer *w, struct err *e)
{
	int fd = tree_open_dir(w->dir_fd, w->base, false);

	if (fd < 0)
		return errno == ENOENT ? 0 : tree_failed(e, errno, "open", w->path);
	if (w->o.flags & TREE_DRY_RUN)
		return tell_content(w, fd, e);
	return tree_remove_content(&w->remove, fd) < 0 ? tree_failed(e, errno, "remove in", w->path)
						       : 0;
}

int tree_clear(struct tree_writer *w, bool content_only, struct err *e)
{
	struct stat st;
	int there = tree_there(w, &st, e);

	if (there <= 0)
		return there;
	w->remove.removed = 0;
	w->remove.keep = &w->touched;
	if (content_only) {
		if (S_ISDIR(st.st_mode) && clear_content(w, e) < 0)
			return -1;
	} else {
		if (!tree_set_has(&w->touched, tree_inode_key(&st)))
			tell_removed(w, w->path);
		if (w->o.flags & TREE_DRY_RUN) {
			w->counts.removed++;
			return note_gone(w, e);
		}
		if (tree_remove_name(&w->remove, w->dir_fd, w->base) < 0)
			return tree_failed(e, errno, "remove", w->path);
	}
	w->counts.removed += w->remove.removed;
	return 0;
}

/* --- the directory of an entry --- */

static void forget_dir(struct tree_writer *w)
{
	if (w->dir_fd != w->root)
		w->dir_fd = close_fd(w->dir_fd);
	w->dir_fd = -1;
	w->dir_known = false;
}

/* One part: opened, or made.  -1 with *e; -2 when it is missing in a dry run. */
static int step_into(struct tree_writer *w, int at, const char *part, struct err *e)
{
	struct tree_remove *r = &w->remove;
	int fd = tree_open_beneath(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	bool missing = fd < 0 && errno == ENOENT;
	bool wrong = fd < 0 && (errno == ENOTDIR || errno == ELOOP);
	struct stat st;

	if (fd >= 0)
		return fd;
	if (!missing && !(wrong && w->o.flags & TREE_REPLACE))
		return tree_failed(e, errno, "write through", w->path);
	if (w->o.flags & TREE_DRY_RUN)
		return -2;
	r->keep = NULL;
	r->removed = 0;
	if (wrong && tree_remove_name(r, at, part) < 0)
		return tree_failed(e, errno, "replace a part of", w->path);
	w->counts.removed += r->removed;
	if (count_entry(w, e) < 0)
		return -1;
	if (mkdirat(at, part, 0755) < 0 && errno != EEXIST)
		return tree_failed(e, errno, "make a directory of", w->path);
	w->counts.dirs++;
	fd = tree_open_beneath(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || tree_note(w, &st, e) < 0) {
		if (!e->reason)
			tree_failed(e, errno, "open a directory of", w->path);
		(void)close_fd(fd);
		return -1;
	}
	return fd;
}

/* Part by part: some are missing. */
static int make_path(struct tree_writer *w, size_t len, struct err *e)
{
	int at = w->root;

	for (size_t i = 0; i < len;) {
		char part[ARCHIVE_MAX_PART + 1];
		size_t n = 0;
		int next;

		while (i + n < len && w->path[i + n] != '/')
			n++;
		memcpy(part, w->path + i, n);
		part[n] = 0;
		i += n + 1;
		next = step_into(w, at, part, e);
		if (at != w->root)
			(void)close_fd(at);
		if (next < 0)
			return next;
		at = next;
	}
	return at;
}

int tree_place(struct tree_writer *w, bool make, struct err *e)
{
	char *slash = strrchr(w->path, '/');
	size_t len = slash ? (size_t)(slash - w->path) : 0;
	int fd;

	w->base = slash ? slash + 1 : w->path;
	if (w->dir_known && strlen(w->dir_path) == len && memcmp(w->dir_path, w->path, len) == 0)
		return 0;
	forget_dir(w);
	memcpy(w->dir_path, w->path, len);
	w->dir_path[len] = 0;
	fd = len ? tree_open_beneath(w->root, w->dir_path, O_PATH | O_DIRECTORY | O_NOFOLLOW)
		 : w->root;
	if (fd < 0 && !make) /* nothing is there, or it would have to be reached through a link */
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
			? 0
			: tree_failed(e, errno, "open the directory of", w->path);
	if (fd < 0)
		fd = make_path(w, len, e);
	if (fd == -1)
		return -1;
	w->dir_fd = fd < 0 ? -1 : fd;
	w->dir_known = true;
	return 0;
}

/* --- a directory as an entry --- */

/* The record that begins there; records are aligned. */
static struct late_dir *late_at(const struct tree_writer *w, size_t at)
{
	void *p = w->late + at;

	return p;
}

static int add_late(struct tree_writer *w, const struct stat *st, bool merged, struct err *e)
{
	const struct archive_entry *a = &w->reader.entry;
	size_t n = strlen(w->path) + 1, size = (sizeof(struct late_dir) + n + 7) & ~(size_t)7;
	struct late_dir *d;

	if (w->late_len + size > w->late_cap) {
		size_t cap = w->late_cap ? 2 * w->late_cap : 1 << 16;
		char *p = cap <= LATE_MAX ? realloc(w->late, cap) : NULL;

		if (!p)
			return err_set(e, cap <= LATE_MAX ? R_NO_MEMORY : R_ARCHIVE_TOO_LARGE, 0,
				"the archive has too many directories to remember");
		w->late = p;
		w->late_cap = cap;
	}
	d = late_at(w, w->late_len);
	*d = (struct late_dir){ .key = tree_inode_key(st),
		.mtime_ns = a->mtime_ns,
		.mode = a->mode,
		.size = (uint32_t)size,
		.merged = merged };
	memcpy(d->path, w->path, n);
	w->late_len += size;
	return 0;
}

/* The next entries are most likely in it. */
static int enter_dir(struct tree_writer *w, bool merged, struct err *e)
{
	_cleanup_close_ int fd =
		tree_open_beneath(w->dir_fd, w->base, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return tree_failed(e, errno, "open", w->path);
	if (tree_note(w, &st, e) < 0 || add_late(w, &st, merged, e) < 0)
		return -1;
	forget_dir(w);
	w->dir_fd = move_fd(&fd);
	w->dir_known = true;
	memcpy(w->dir_path, w->path, strlen(w->path) + 1);
	return 0;
}

int tree_put_dir(struct tree_writer *w, struct err *e)
{
	struct stat st;
	int there = tree_there(w, &st, e);
	bool merged = there > 0 && S_ISDIR(st.st_mode);

	if (there < 0)
		return -1;
	if (there && !merged && !(w->o.flags & TREE_REPLACE))
		return tree_failed(e, ENOTDIR, "put a directory in the place of", w->path);
	tree_tell(w, there);
	w->counts.dirs++;
	if (w->o.flags & TREE_DRY_RUN)
		return there && !merged ? note_gone(w, e) : 0;
	if (there && !merged && unlinkat(w->dir_fd, w->base, 0) < 0 && errno != ENOENT)
		return tree_failed(e, errno, "replace", w->path);
	if (!merged && mkdirat(w->dir_fd, w->base, 0700) < 0)
		return tree_failed(e, errno, "make the directory", w->path);
	return enter_dir(w, merged, e);
}

/* A directory that was there may be somebody else's: it then stays as it is. */
static bool may_stay(const struct late_dir *d)
{
	return d->merged && (errno == EPERM || errno == EACCES || errno == EROFS);
}

static int finish_dir(struct tree_writer *w, const struct late_dir *d, struct err *e)
{
	_cleanup_close_ int fd =
		tree_open_beneath(w->root, d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, tree_timespec(d->mtime_ns) };
	struct stat st;
	mode_t mode;

	/* removed or exchanged since: not ours any more */
	if (fd < 0 ? errno == ENOENT || errno == ENOTDIR || errno == ELOOP
		   : fstat(fd, &st) == 0 && tree_inode_key(&st) != d->key)
		return 0;
	if (fd < 0)
		return may_stay(d) ? 0 : tree_failed(e, errno, "open", d->path);
	/* a set-group-id bit that the directory above handed down stays */
	mode = (d->mode & 01777) | (st.st_mode & S_ISGID);
	if ((fchmod(fd, mode) < 0 || futimens(fd, times) < 0) && !may_stay(d))
		return tree_failed(e, errno, "set the mode of", d->path);
	return 0;
}

/* The last first: a directory lies behind the one that it is in. */
int tree_finish_dirs(struct tree_writer *w, struct err *e)
{
	size_t n = 0;
	_cleanup_free_ size_t *at = NULL;
	_cleanup_(tree_set_done) struct tree_set done = { .n = 0 };

	for (size_t i = 0; i < w->late_len; n++)
		i += late_at(w, i)->size;
	at = n ? calloc(n, sizeof *at) : NULL;
	if (n && !at)
		return err_set(e, R_NO_MEMORY, ENOMEM, "can't remember %zu directories", n);
	n = 0;
	for (size_t i = 0; i < w->late_len;) {
		at[n++] = i;
		i += late_at(w, i)->size;
	}
	while (n--) {
		const struct late_dir *d = late_at(w, at[n]);

		/* named twice: the last word counts */
		if (tree_set_has(&done, d->key))
			continue;
		if (tree_set_add(&done, d->key, e) < 0 || finish_dir(w, d, e) < 0)
			return -1;
	}
	return 0;
}
