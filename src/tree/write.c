/* Owns the writing of an archive beneath a directory.  Called by `cp`, `apply` and whoever lays layers.
 *
 * Must hold, whatever the archive says and whoever else writes there: names are cleaned and resolved beneath the held descriptor
 * through no link; a file is made anew (O_EXCL) or as a temporary file that takes the old one's place, never written through what
 * is there; links are data; hard links lead only to files that this archive brought, by descriptor; an error removes the file
 * under way.  A kill leaves at most one file ".bailey-XXXXXXXXXXXXXXXX" or one unfinished file that was not there before. */
#include "tree/write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/str.h"

enum {
	DEFAULT_ENTRIES = 4000000,
	ROOM_FIRST = 16 << 20, /* bytes before the first look at the file system's free room */
	ROOM_LEAST = 64 << 10, /* less than that between two looks is none */
	ROOM_KEPT = 256 << 20,
	ROOM_SHARE = 20,   /* a 20th of the file system, if that is less */
	ROOM_INODES = 100, /* one of so many stays free */
	ROOM_ENTRY = 4096, /* bytes that an entry counts for itself */
	TMP_TRIES = 8,
	FEED_BUFFER = 256 << 10,
	PIPE_SIZE = 1 << 20,
	PROC_PATH = 40,
};

#define DEFAULT_BYTES (1ull << 40)

static int refused(struct tree_writer *w, enum archive_cause c, struct err *e)
{
	char quoted[TREE_QUOTED];

	if (c == ARCHIVE_GIVEN_UP && w->o.flags & TREE_BELIEVED)
		return tree_given_up(archive_failure(&w->reader), e);
	if (c >= ARCHIVE_NAME_EMPTY && c <= ARCHIVE_LINK_EMPTY)
		return err_set(e, R_ARCHIVE_REFUSED, 0, "the archive is refused at '%s': %s",
			tree_quote(quoted, w->reader.entry.name), archive_cause_text(c));
	return err_set(
		e, R_ARCHIVE_REFUSED, 0, "the archive is refused: %s", archive_cause_text(c));
}

static int refused_entry(struct tree_writer *w, const char *why, struct err *e)
{
	char quoted[TREE_QUOTED];

	return err_set(e, R_ARCHIVE_REFUSED, 0, "the archive is refused at '%s': %s",
		tree_quote(quoted, w->reader.entry.name), why);
}

/* --- names --- */

/* With `top`: its first part is what all the others have. */
static bool same_first(struct tree_writer *w, const char *name, const char **ret_rest)
{
	const char *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : strlen(name);

	if (!w->first[0]) {
		memcpy(w->first, name, n);
		w->first[n] = 0;
	}
	if (streq(w->first, ".")) { /* everything in the archive lies below `top` */
		*ret_rest = streq(name, ".") ? "" : name;
		return true;
	}
	*ret_rest = slash ? slash + 1 : "";
	return strlen(w->first) == n && memcmp(w->first, name, n) == 0;
}

/* Cleans a name of the archive into a path beneath the directory. */
static int take_name(struct tree_writer *w, const char *name, char *out, struct err *e)
{
	char *clean = w->o.top ? w->remove.path : out; /* scratch that is long enough */
	const char *rest;
	enum archive_cause c;

	memcpy(clean, name, strlen(name) + 1);
	if ((c = archive_clean_name(clean)))
		return refused(w, c, e);
	if (!w->o.top)
		return 0;
	if (!same_first(w, clean, &rest))
		return refused_entry(w, "it lies outside of what was asked for", e);
	(void)snprintf(out, WRITE_PATH, "%s%s%s", w->o.top, *rest ? "/" : "", rest);
	return 0;
}

static bool lies_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return streq(dir, ".") || (strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/'));
}

static bool is_chosen(struct tree_writer *w, const char *path)
{
	bool chosen = !w->o.n_paths;

	for (size_t i = 0; i < w->o.n_paths; i++) {
		if (!lies_in(path, w->o.paths[i]))
			continue;
		chosen = w->matched[i] = true;
	}
	return chosen;
}

/* --- the file under way --- */

static uint64_t random_number(void)
{
	uint64_t r;

	return getrandom(&r, sizeof r, 0) == (ssize_t)sizeof r ? r : clock_ns(CLOCK_MONOTONIC);
}

/* A name that nobody has, for something that takes another's place.  Not secret: O_EXCL is what holds. */
static void make_tmp_name(struct tree_writer *w)
{
	FMT(w->tmp, ".bailey-%016llx", (unsigned long long)random_number());
}

static void drop_file(struct tree_writer *w)
{
	if (w->fd < 0)
		return;
	(void)unlinkat(w->dir_fd, w->tmp[0] ? w->tmp : w->base, 0);
	w->fd = close_fd(w->fd);
	w->tmp[0] = 0;
}

/* What is there may be replaced, or the reason why not. */
static int check_replace(struct tree_writer *w, const struct stat *st, struct err *e)
{
	if (S_ISDIR(st->st_mode) && !(w->o.flags & TREE_REPLACE))
		return tree_failed(e, EISDIR, "put a file in the place of", w->path);
	return 0;
}

/* Gives what lies at w->tmp the entry's own name. */
static int take_place(struct tree_writer *w, struct err *e)
{
	struct tree_remove *r = &w->remove;

	for (int i = 0; i < TMP_TRIES; i++) {
		if (renameat(w->dir_fd, w->tmp, w->dir_fd, w->base) == 0) {
			/* two names of one file: the rename did nothing */
			(void)unlinkat(w->dir_fd, w->tmp, 0);
			w->tmp[0] = 0;
			return 0;
		}
		if (errno != EISDIR || !(w->o.flags & TREE_REPLACE))
			break;
		r->keep = NULL;
		r->removed = 0;
		if (tree_remove_name(r, w->dir_fd, w->base) < 0)
			return tree_failed(e, errno, "replace", w->path);
		w->counts.removed += r->removed;
	}
	return tree_failed(e, errno, "replace", w->path);
}

static int open_new(struct tree_writer *w, const char *name)
{
	return openat(w->dir_fd, name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
}

static int begin_file(struct tree_writer *w, struct err *e)
{
	struct stat st;
	int there = 0;

	if (w->reader.entry.size > w->o.max_size)
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0,
			"a file of the archive is larger than %llu bytes",
			(unsigned long long)w->o.max_size);
	if (w->o.action || w->o.flags & TREE_DRY_RUN)
		there = tree_there(w, &st, e);
	if (there < 0 || (there && check_replace(w, &st, e) < 0))
		return -1;
	tree_tell(w, there);
	w->counts.files++;
	if (w->o.flags & TREE_DRY_RUN)
		return 0;
	w->tmp[0] = 0;
	w->fd = there ? -1 : open_new(w, w->base);
	if (w->fd < 0 && (there || errno == EEXIST)) {
		if (!there &&
			((there = tree_there(w, &st, e)) < 0 ||
				(there && check_replace(w, &st, e) < 0)))
			return -1;
		for (int i = 0; i < TMP_TRIES && w->fd < 0; i++) {
			make_tmp_name(w);
			w->fd = open_new(w, w->tmp);
		}
	}
	return w->fd < 0 ? tree_failed(e, errno, "create", w->path) : 0;
}

static int set_attributes(struct tree_writer *w, struct err *e)
{
	const struct archive_entry *a = &w->reader.entry;
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, tree_timespec(a->mtime_ns) };
	struct stat st;

	if (w->end < a->size && ftruncate(w->fd, (off_t)a->size) < 0)
		return tree_failed(e, errno, "write", w->path);
	if (fchmod(w->fd, a->mode & 0777) < 0 || futimens(w->fd, times) < 0 ||
		fstat(w->fd, &st) < 0)
		return tree_failed(e, errno, "set the mode of", w->path);
	return tree_note(w, &st, e);
}

static int end_file(struct tree_writer *w, struct err *e)
{
	const char *name;
	int fd;

	if (w->fd < 0)
		return 0;
	if (set_attributes(w, e) < 0 || (w->tmp[0] && take_place(w, e) < 0)) {
		drop_file(w);
		return -1;
	}
	name = w->base;
	fd = w->fd;
	w->fd = -1;
	if (close(fd) < 0 &&
		errno != EINTR) { /* a network's file system says late that it is full */
		tree_failed(e, errno, "write", w->path);
		(void)unlinkat(w->dir_fd, name, 0);
		return -1;
	}
	return 0;
}

/* How much of what is free may be taken before the next look: half of what is above the share that stays. */
static uint64_t half_above(uint64_t available, uint64_t kept)
{
	return available < kept ? 0 : (available - kept) / 2;
}

/* A sandbox may send more than the host has room for: the rest of the host shall not stand still for it. */
static int count_room(struct tree_writer *w, uint64_t n, struct err *e)
{
	uint64_t kept, bytes, inodes = ROOM_FIRST;
	char quoted[TREE_QUOTED];
	struct statvfs f;

	w->unlooked += n;
	if (w->unlooked < w->next_look || fstatvfs(w->root, &f) < 0)
		return 0;
	kept = f.f_blocks * f.f_frsize / ROOM_SHARE;
	kept = kept < ROOM_KEPT ? kept : ROOM_KEPT;
	bytes = half_above(f.f_bavail * f.f_frsize, kept);
	if (f.f_files)
		inodes = half_above(f.f_favail, f.f_files / ROOM_INODES) * ROOM_ENTRY;
	w->unlooked = 0;
	w->next_look = bytes < inodes ? bytes : inodes;
	if (w->next_look > ROOM_FIRST)
		w->next_look = ROOM_FIRST;
	if (w->next_look >= ROOM_LEAST)
		return 0;
	drop_file(w);
	(void)err_set(e, R_DISK_FULL, 0,
		"can't write '%s': too little would stay free on its file system",
		tree_quote(quoted, w->path));
	return err_remedy(e, "Copy less, or make room: %llu MiB and one of %d inodes stay free.",
		(unsigned long long)kept >> 20, ROOM_INODES);
}

int tree_count_bytes(struct tree_writer *w, uint64_t n, struct err *e)
{
	if (n > w->o.max_bytes - w->counts.bytes) {
		drop_file(w);
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0, "the archive holds more than %llu bytes",
			(unsigned long long)w->o.max_bytes);
	}
	w->counts.bytes += n;
	return 0;
}

static int write_data(
	struct tree_writer *w, const uint8_t *p, size_t n, uint64_t offset, struct err *e)
{
	if (w->ignore)
		return 0;
	if (tree_count_bytes(w, n, e) < 0)
		return -1;
	if (w->o.flags & TREE_DRY_RUN)
		return 0;
	if (count_room(w, n, e) < 0)
		return -1;
	w->end = offset + n;
	while (n) {
		ssize_t k = pwrite(w->fd, p, n, (off_t)offset);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			tree_failed(e, k ? errno : EIO, "write", w->path);
			drop_file(w);
			return -1;
		}
		p += k;
		n -= (size_t)k;
		offset += (uint64_t)k;
	}
	return 0;
}

/* --- links: made under a temporary name when the name is taken --- */

static int make_special(struct tree_writer *w, int target_fd, const char *name)
{
	const struct archive_entry *a = &w->reader.entry;
	char proc[PROC_PATH];

	switch (a->type) {
	case ARCHIVE_SYMLINK:
		return symlinkat(a->link, w->dir_fd, name);
	case ARCHIVE_HARDLINK:
		if (linkat(target_fd, "", w->dir_fd, name, AT_EMPTY_PATH) == 0)
			return 0;
		/* without CAP_DAC_READ_SEARCH, before Linux 6.10 */
		if (errno != ENOENT && errno != EPERM)
			return -1;
		FMT(proc, "/proc/self/fd/%d", target_fd);
		return linkat(AT_FDCWD, proc, w->dir_fd, name, AT_SYMLINK_FOLLOW);
	case ARCHIVE_FILE:
	case ARCHIVE_DIR:
	case ARCHIVE_FIFO:
	case ARCHIVE_CHAR:
	case ARCHIVE_BLOCK_DEVICE:
		break;
	}
	errno = EINVAL;
	return -1;
}

/* Its times; then it is noted as ours.  By name, not followed: at worst it is another's in this directory. */
static int dress_special(struct tree_writer *w, const char *name, struct err *e)
{
	const struct archive_entry *a = &w->reader.entry;
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, tree_timespec(a->mtime_ns) };
	struct stat st;

	if (a->type == ARCHIVE_HARDLINK)
		return 0;
	if (utimensat(w->dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
		fstatat(w->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : tree_failed(e, errno, "set the time of", w->path);
	return tree_note(w, &st, e);
}

/* The file system can't, or not from there. */
static bool has_no_links(int sys_errno)
{
	return sys_errno == EPERM || sys_errno == EXDEV || sys_errno == EMLINK ||
		sys_errno == EOPNOTSUPP || sys_errno == ENOSYS;
}

static int put_special(struct tree_writer *w, int target_fd, struct err *e)
{
	struct stat st;
	int there = tree_there(w, &st, e), r;

	if (there < 0 || (there && check_replace(w, &st, e) < 0))
		return -1;
	tree_tell(w, there);
	if (w->o.flags & TREE_DRY_RUN)
		return 0;
	w->tmp[0] = 0;
	r = there ? -1 : make_special(w, target_fd, w->base);
	for (int i = 0; r < 0 && (there || errno == EEXIST) && i < TMP_TRIES; i++) {
		there = 0;
		make_tmp_name(w);
		r = make_special(w, target_fd, w->tmp);
	}
	if (r < 0 && target_fd >= 0 && has_no_links(errno)) {
		make_tmp_name(w);
		if (tree_copy_file(w, target_fd, w->tmp, e) < 0)
			return -1;
	} else if (r < 0) {
		return tree_failed(e, errno, "create", w->path);
	}
	if (dress_special(w, w->tmp[0] ? w->tmp : w->base, e) < 0 ||
		(w->tmp[0] && take_place(w, e) < 0)) {
		if (w->tmp[0])
			(void)unlinkat(w->dir_fd, w->tmp, 0);
		return -1;
	}
	return 0;
}

/* A hard link leads to what this archive brought: never to a file of somebody else that happens to lie there. */
static int put_hardlink(struct tree_writer *w, struct err *e)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (take_name(w, w->reader.entry.link, w->link, e) < 0)
		return -1;
	w->counts.hardlinks++;
	if (w->o.flags & TREE_DRY_RUN)
		return put_special(w, -1, e);
	fd = tree_open_beneath(w->root, w->link, O_PATH | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) ||
		!tree_set_has(&w->touched, tree_inode_key(&st)))
		return refused_entry(w, "it is a hard link to what the archive did not bring", e);
	return put_special(w, fd, e);
}

/* --- entries --- */

/* Removes what w->path names, or (content_only) what is in it; with a choice, what of that was chosen. */
static int clear_chosen(struct tree_writer *w, bool content_only, struct err *e)
{
	char *dir = w->link; /* scratch: a whiteout has no link */

	if (is_chosen(w, w->path))
		return tree_place(w, false, e) < 0 ? -1 : tree_clear(w, content_only, e);
	memcpy(dir, w->path, strlen(w->path) + 1);
	for (size_t i = 0; i < w->o.n_paths; i++) {
		struct stat st;
		int there;

		if (!lies_in(w->o.paths[i], dir))
			continue;
		(void)snprintf(w->path, sizeof w->path, "%s", w->o.paths[i]);
		if (tree_place(w, false, e) < 0 || (there = tree_there(w, &st, e)) < 0)
			return -1;
		if (there)
			w->matched[i] = true;
		if (there && tree_clear(w, false, e) < 0)
			return -1;
	}
	return 0;
}

/* ".wh." names are orders, not files. */
static int whiteout(struct tree_writer *w, struct err *e)
{
	char *base = strrchr(w->path, '/');
	const char *name;

	base = base ? base + 1 : w->path;
	name = base + 4;
	w->ignore = true;
	if (w->reader.entry.type != ARCHIVE_FILE)
		return refused_entry(w, "a whiteout that is no file", e);
	if (streq(name, ".wh..opq")) {
		if (base == w->path)
			memcpy(w->path, ".", 2);
		else
			base[-1] = 0;
		return clear_chosen(w, true, e);
	}
	if (strncmp(name, ".wh.", 4) == 0) { /* of AUFS, for itself */
		w->counts.skipped++;
		return 0;
	}
	if (!*name || streq(name, ".") || streq(name, ".."))
		return refused_entry(w, "a whiteout of no name", e);
	memmove(base, name, strlen(name) + 1);
	return clear_chosen(w, false, e);
}

static bool has_whiteout_dir(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (strncmp(p, ".wh.", 4) == 0 && strchr(p, '/'))
			return true;
	}
	return false;
}

static void count_stripped(struct tree_writer *w)
{
	const struct archive_entry *a = &w->reader.entry;
	uint32_t off = a->type == ARCHIVE_DIR ? 06000 : 07000;

	if (a->mode & off && (a->type == ARCHIVE_FILE || a->type == ARCHIVE_DIR))
		w->counts.stripped++;
}

static int put_entry(struct tree_writer *w, struct err *e)
{
	const struct archive_entry *a = &w->reader.entry;

	if (!(w->o.flags & TREE_DRY_RUN) && count_room(w, ROOM_ENTRY, e) < 0)
		return -1;
	if (tree_place(w, true, e) < 0)
		return -1;
	count_stripped(w);
	w->ignore = a->type != ARCHIVE_FILE;
	switch (a->type) {
	case ARCHIVE_FILE:
		return begin_file(w, e);
	case ARCHIVE_DIR:
		return tree_put_dir(w, e);
	case ARCHIVE_SYMLINK:
		w->counts.symlinks++;
		return put_special(w, -1, e);
	case ARCHIVE_HARDLINK:
		return put_hardlink(w, e);
	case ARCHIVE_FIFO:
	case ARCHIVE_CHAR:
	case ARCHIVE_BLOCK_DEVICE:
		break;
	}
	return 0;
}

static int begin_entry(struct tree_writer *w, struct err *e)
{
	const struct archive_entry *a = &w->reader.entry;
	const char *base;

	w->ignore = false;
	w->end = 0;
	if (++w->entries > w->o.max_entries)
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0, "the archive has more than %llu entries",
			(unsigned long long)w->o.max_entries);
	if (take_name(w, a->name, w->path, e) < 0)
		return -1;
	if (w->o.flags & TREE_WHITEOUTS) {
		base = strrchr(w->path, '/');
		if (has_whiteout_dir(w->path))
			return refused_entry(w, "a directory with the name of a whiteout", e);
		if (strncmp(base ? base + 1 : w->path, ".wh.", 4) == 0)
			return whiteout(w, e);
	}
	if (streq(w->path, ".") || !is_chosen(w, w->path)) {
		/* the directory itself is the caller's business */
		w->ignore = true;
		return streq(w->path, ".") && a->type != ARCHIVE_DIR
			? refused_entry(w, "the root of the tree is no directory", e)
			: 0;
	}
	if (a->type == ARCHIVE_CHAR || a->type == ARCHIVE_BLOCK_DEVICE || a->type == ARCHIVE_FIFO) {
		w->ignore = true;
		w->counts.skipped++;
		return 0;
	}
	return put_entry(w, e);
}

/* --- the interface --- */

static bool valid_options(const struct tree_write_options *o)
{
	return !o->top ||
		(*o->top && strlen(o->top) <= ARCHIVE_MAX_PART && !strchr(o->top, '/') &&
			!streq(o->top, ".") && !streq(o->top, ".."));
}

int tree_writer_open(
	struct tree_writer **ret, int dirfd, const struct tree_write_options *o, struct err *e)
{
	_cleanup_tree_writer_ struct tree_writer *w = xcalloc(1, sizeof *w);

	w->fd = w->dir_fd = w->root = -1;
	w->o = *o;
	w->seed = random_number();
	w->next_look = ROOM_FIRST;
	w->o.max_bytes = o->max_bytes ? o->max_bytes : DEFAULT_BYTES;
	w->o.max_size = o->max_size ? o->max_size : DEFAULT_BYTES;
	w->o.max_entries = o->max_entries ? o->max_entries : DEFAULT_ENTRIES;
	w->matched = xcalloc(o->n_paths + 1, sizeof *w->matched);
	archive_reader_init(&w->reader);
	if (!valid_options(o))
		return tree_failed(e, EINVAL, "write to the name", o->top);
	w->root = tree_open_beneath(dirfd, ".", O_PATH | O_DIRECTORY);
	if (w->root < 0)
		return tree_failed(e, errno, "open", ".");
	*ret = move_ptr(w);
	return 0;
}

int tree_writer_feed(struct tree_writer *w, const void *p, size_t n, struct err *e)
{
	struct archive_reader *r = &w->reader;
	const uint8_t *at = p;
	enum archive_event ev;

	while ((ev = archive_next(r, &at, &n)) != ARCHIVE_MORE) {
		int ret = 0;

		if (ev == ARCHIVE_ENTRY)
			ret = begin_entry(w, e);
		else if (ev == ARCHIVE_DATA)
			ret = write_data(w, r->data, r->data_len, r->offset, e);
		else if (ev == ARCHIVE_ENTRY_END)
			ret = end_file(w, e);
		else if (ev == ARCHIVE_REFUSED)
			ret = refused(w, r->cause, e);
		if (ret < 0) {
			drop_file(w);
			return -1;
		}
	}
	return 0;
}

/* Reads and writes, where splice would spare a copy: page by page into a file it measured half as quick. */
int tree_writer_feed_fd(struct tree_writer *w, int fd, struct err *e)
{
	_cleanup_free_ uint8_t *buf = tree_pages(FEED_BUFFER);
	ssize_t n;

	(void)fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE); /* fails on what is no pipe */
	while ((n = read(fd, buf, FEED_BUFFER)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			drop_file(w);
			return err_set(e, R_IO_FAILED, errno, "can't read the archive");
		}
		if (tree_writer_feed(w, buf, (size_t)n, e) < 0)
			return -1;
	}
	return 0;
}

static int check_matched(const struct tree_writer *w, struct err *e)
{
	char quoted[TREE_QUOTED];

	for (size_t i = 0; i < w->o.n_paths; i++)
		if (!w->matched[i])
			return err_set(e, R_PATH_NOT_FOUND, 0,
				"no change of '%s' is in the archive",
				tree_quote(quoted, w->o.paths[i]));
	return 0;
}

int tree_writer_finish(struct tree_writer *w, struct tree_counts *ret, struct err *e)
{
	if (!archive_finish(&w->reader)) {
		drop_file(w);
		return refused(w, w->reader.cause, e);
	}
	if (tree_finish_dirs(w, e) < 0)
		return -1;
	if (ret)
		*ret = w->counts;
	return check_matched(w, e);
}

void tree_writer_free(struct tree_writer *w)
{
	if (!w)
		return;
	drop_file(w);
	if (w->dir_fd != w->root)
		w->dir_fd = close_fd(w->dir_fd);
	w->root = close_fd(w->root);
	tree_set_done(&w->touched);
	tree_set_done(&w->gone);
	free(w->matched);
	free(w->late);
	free(w);
}
