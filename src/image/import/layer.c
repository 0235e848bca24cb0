/* Owns laying a layer over a tree.  The entries come from an archive that nobody vouches for; the tree is private to this
 * process, so there are no races, but every name is resolved beneath the tree's descriptor and without links all the same:
 * a link that an earlier entry planted is the usual way out (CVE-2019-14271 and its kind). */
#include "image/import/layer.h"

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"
#include "image/import/names.h"
#include "image/walk.h"

enum { MAX_ID = 65534 };

struct late_dir {
	char *name;
	struct timespec mtime;
};

struct layer {
	struct stream *stream;
	int root;
	bool own_ids; /* root: owners are kept */
	struct limits *limits;
	struct layer_facts *facts;
	struct seen seen;
	/* the directory that the last entry was in */
	int dir;
	char dir_name[NAME_MAX_PATH];
	/* directories get their times when nothing is put into them any more */
	struct late_dir *late;
	size_t n_late, cap_late;
	/* of the entry at hand */
	struct archive_entry *entry;
	char name[NAME_MAX_PATH];
	const char *last;
};

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

static int refuse(const char *name, const char *why, struct err *e)
{
	return err_set(e, R_ARCHIVE_REFUSED, 0, "unpack '%.256s': %s", name, why);
}

static void forget_dir(struct layer *l)
{
	l->dir = close_fd(l->dir);
}

/* Opens one directory that must be there, or makes it. */
static int enter(int parent, const char *part, struct err *e)
{
	int fd;

	if (mkdirat(parent, part, 0755) < 0 && errno != EEXIST)
		return store_failed(e, errno, "make the directory '%.256s'", part);
	fd = openat(parent, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return refuse(part, "a part of its path is no directory but a file or a link", e);
	return fd;
}

/* Parents that no layer named: as a directory of root's that all may enter. */
static int make_parents(struct layer *l, char *name, struct err *e)
{
	_cleanup_close_ int at = fcntl(l->root, F_DUPFD_CLOEXEC, 3);
	char *save = NULL;

	for (char *part = strtok_r(name, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
		int next = enter(at, part, e);

		if (next < 0)
			return -1;
		(void)close_fd(at);
		at = next;
	}
	return move_fd(&at);
}

/* The directory that holds `name`, borrowed, and the name in it. */
static int parent_of(
	struct layer *l, const char *name, bool make, const char **ret_last, struct err *e)
{
	char dir[NAME_MAX_PATH];
	size_t n;

	*ret_last = name_last(name, &n);
	memcpy(dir, name, n);
	dir[n] = '\0';
	if (l->dir >= 0 && streq(dir, l->dir_name))
		return l->dir;
	forget_dir(l);
	l->dir = sys_openat2(l->root, n ? dir : ".", O_PATH | O_DIRECTORY, 0, BENEATH);
	memcpy(l->dir_name, dir, n + 1);
	if (l->dir >= 0)
		return l->dir;
	if (errno == ELOOP || errno == ENOTDIR)
		return refuse(name, "a part of its path is no directory but a file or a link", e);
	if (errno != ENOENT)
		return store_failed(e, errno, "open the directory of '%.256s'", name);
	if (!make)
		return refuse(name, "there is no such directory", e);
	l->dir = make_parents(l, dir, e);
	return l->dir;
}

/* Removes whatever stands where the entry will be; l->dir is then its directory. */
static int clear_way(struct layer *l, struct err *e)
{
	int dir = parent_of(l, l->name, true, &l->last, e);

	return dir < 0 ? -1 : remove_at(dir, l->last, e);
}

static int check_ids(struct layer *l, struct err *e)
{
	int64_t uid = archive_entry_uid(l->entry), gid = archive_entry_gid(l->entry);

	if (l->own_ids && (uid < 0 || uid > MAX_ID || gid < 0 || gid > MAX_ID))
		return refuse(l->name, "its owner or group is not within 0 and 65534", e);
	return 0;
}

static void count_dropped(struct layer *l)
{
	if (archive_entry_xattr_count(l->entry) ||
		archive_entry_acl_count(
			l->entry, ARCHIVE_ENTRY_ACL_TYPE_ACCESS | ARCHIVE_ENTRY_ACL_TYPE_DEFAULT))
		l->facts->xattrs++;
}

static struct timespec mtime_of(const struct layer *l)
{
	struct timespec t = { .tv_sec = archive_entry_mtime(l->entry),
		.tv_nsec = archive_entry_mtime_nsec(l->entry) };

	if (t.tv_nsec < 0 || t.tv_nsec > 999999999)
		t.tv_nsec = 0;
	return t;
}

/* Owner, then mode: the first would take bits of the second away. */
static int set_owner_and_mode(struct layer *l, int fd, bool is_dir, struct err *e)
{
	mode_t mode = archive_entry_perm(l->entry), keep = is_dir ? 01777 : 0777;

	if (mode & 07777 & ~keep)
		l->facts->setid++;
	mode &= keep;
	if (!l->own_ids)
		mode |= is_dir ? 0700 : 0400; /* the store must read what it keeps */
	if (l->own_ids &&
		fchown(fd, (uid_t)archive_entry_uid(l->entry), (gid_t)archive_entry_gid(l->entry)) <
			0)
		return store_failed(e, errno, "give '%.256s' its owner", l->name);
	if (fchmod(fd, mode) < 0)
		return store_failed(e, errno, "set the mode of '%.256s'", l->name);
	return 0;
}

static int pwrite_all(int fd, const char *p, size_t n, uint64_t at)
{
	while (n) {
		ssize_t w = pwrite(fd, p, n, (off_t)at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -1;
		p += w;
		n -= (size_t)w;
		at += (uint64_t)w;
	}
	return 0;
}

static int write_data(struct layer *l, int fd, uint64_t size, struct err *e)
{
	for (;;) {
		const void *p;
		uint64_t at = 0;
		size_t n;

		if (stream_data(l->stream, &p, &n, &at, e) < 0)
			return -1;
		if (!n)
			break;
		if (at > size || n > size - at)
			return refuse(l->name, "it has more data than it says", e);
		if (pwrite_all(fd, p, n, at) < 0)
			return store_failed(e, errno, "write '%.256s'", l->name);
	}
	if (ftruncate(fd, (off_t)size) < 0)
		return store_failed(e, errno, "write '%.256s'", l->name);
	return 0;
}

static int add_file(struct layer *l, int dir, struct err *e)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	uint64_t size = (uint64_t)archive_entry_size(l->entry);
	struct timespec times[2] = { mtime_of(l), mtime_of(l) };
	_cleanup_close_ int fd = -1;

	if (size > l->limits->max_bytes || l->limits->bytes > l->limits->max_bytes - size)
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0,
			"unpack '%.256s': the files are over %llu bytes", l->name,
			(unsigned long long)l->limits->max_bytes);
	l->limits->bytes += size;
	fd = openat(dir, l->last, flags, 0600);
	if (fd < 0 && errno == EEXIST) {
		if (clear_way(l, e) < 0)
			return -1;
		fd = openat(l->dir, l->last, flags, 0600);
	}
	if (fd < 0)
		return store_failed(e, errno, "make the file '%.256s'", l->name);
	if (write_data(l, fd, size, e) < 0 || set_owner_and_mode(l, fd, false, e) < 0)
		return -1;
	return futimens(fd, times) < 0 ? store_failed(e, errno, "date '%.256s'", l->name) : 0;
}

static int add_link(struct layer *l, int dir, struct err *e)
{
	const char *target = archive_entry_symlink(l->entry);
	struct timespec times[2] = { mtime_of(l), mtime_of(l) };

	if (!target || !*target || strlen(target) >= NAME_MAX_PATH)
		return refuse(l->name, "a link to nothing, or to a name that is too long", e);
	if (symlinkat(target, dir, l->last) < 0) {
		if (errno != EEXIST)
			return store_failed(e, errno, "make the link '%.256s'", l->name);
		if (clear_way(l, e) < 0)
			return -1;
		dir = l->dir;
		if (symlinkat(target, dir, l->last) < 0)
			return store_failed(e, errno, "make the link '%.256s'", l->name);
	}
	if (l->own_ids &&
		fchownat(dir, l->last, (uid_t)archive_entry_uid(l->entry),
			(gid_t)archive_entry_gid(l->entry), AT_SYMLINK_NOFOLLOW) < 0)
		return store_failed(e, errno, "give '%.256s' its owner", l->name);
	(void)utimensat(dir, l->last, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

/* A second name for a file that is there already.  Its data and mode are left as they are: the file may be shared. */
static int add_hardlink(struct layer *l, struct err *e)
{
	char target[NAME_MAX_PATH];
	const char *last;
	struct stat st;
	_cleanup_close_ int from = -1;
	int dir;

	if (name_clean(archive_entry_hardlink(l->entry), target, e) < 0)
		return err_wrap(e, "link '%.128s'", l->name);
	dir = parent_of(l, target, false, &last, e);
	if (dir < 0)
		return -1;
	from = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	if (from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return refuse(l->name, "a hard link to what is not there", e);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return refuse(l->name, "a hard link to what is no file", e);
	if (streq(target, l->name))
		return 0;
	if (clear_way(l, e) < 0)
		return -1;
	/* clearing may have taken a directory with the target in it */
	if (linkat(from, last, l->dir, l->last, 0) < 0)
		return errno == ENOENT || errno == EMLINK
			? refuse(l->name, "its link can't be made", e)
			: store_failed(e, errno, "make the link '%.256s'", l->name);
	return 0;
}

static int keep_for_late(struct layer *l, struct err *e)
{
	struct late_dir *grown;

	if (l->n_late == l->cap_late) {
		l->cap_late = l->cap_late ? l->cap_late * 2 : 256;
		grown = reallocarray(l->late, l->cap_late, sizeof *grown);
		if (!grown)
			return err_set(e, R_NO_MEMORY, errno, "remember a directory");
		l->late = grown;
	}
	l->late[l->n_late++] = (struct late_dir){ xstrdup(l->name), mtime_of(l) };
	return 0;
}

static int add_dir(struct layer *l, int dir, struct err *e)
{
	_cleanup_close_ int fd = -1;
	const char *last = *l->name ? l->last : ".";
	struct stat st;

	if (mkdirat(dir, last, 0700) < 0) {
		if (errno != EEXIST)
			return store_failed(e, errno, "make the directory '%.256s'", l->name);
		if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return store_failed(e, errno, "look at '%.256s'", l->name);
		if (!S_ISDIR(st.st_mode)) {
			if (clear_way(l, e) < 0)
				return -1;
			dir = l->dir;
			if (mkdirat(dir, last, 0700) < 0)
				return store_failed(
					e, errno, "make the directory '%.256s'", l->name);
		}
	}
	fd = openat(dir, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return store_failed(e, errno, "open the directory '%.256s'", l->name);
	return set_owner_and_mode(l, fd, true, e) < 0 ? -1 : keep_for_late(l, e);
}

/* Removes from the directory `name` all that this layer did not put there. */
static int make_opaque(struct layer *l, const char *name, struct err *e)
{
	_cleanup_free_ struct walk *w = xcalloc(1, sizeof *w);
	char path[NAME_MAX_PATH * 2];
	int fd = sys_openat2(l->root, *name ? name : ".", O_RDONLY | O_DIRECTORY, 0, BENEATH), r;

	if (fd < 0)
		return errno == ENOENT ? 0 : refuse(name, "it is no directory", e);
	forget_dir(l);
	r = walk_open(w, fd, e);
	while (r == 0 && (r = walk_next(w, e)) == 0 && w->event != WALK_END) {
		FMT(path, "%s%s%s", name, *name ? "/" : "", w->path.data);
		if (w->event == WALK_LEAVE || seen_has(&l->seen, path))
			continue;
		if (w->event == WALK_ENTER)
			walk_skip(w);
		r = remove_at(w->dirfd, w->name, e);
	}
	walk_done(w);
	return r;
}

/* ".wh.NAME": what the layers below have under NAME is gone; what this layer has stays, whichever came first. */
static int whiteout(struct layer *l, const char *hidden, struct err *e)
{
	char name[NAME_MAX_PATH];
	const char *last;
	struct stat st;
	size_t n;
	int dir;

	if (!*hidden || streq(hidden, ".") || streq(hidden, ".."))
		return refuse(l->name, "a whiteout that names no entry", e);
	(void)name_last(l->name, &n);
	FMT(name, "%.*s%s%s", (int)n, l->name, n ? "/" : "", hidden);
	dir = parent_of(l, name, true, &last, e);
	if (dir < 0)
		return -1;
	if (!seen_has(&l->seen, name)) {
		_cleanup_close_ int held = fcntl(dir, F_DUPFD_CLOEXEC, 3);

		forget_dir(l);
		return remove_at(held, last, e);
	}
	if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return make_opaque(l, name, e);
	return 0;
}

/* 1: the entry was one of the marks that layers use and is done with. */
static int take_mark(struct layer *l, struct err *e)
{
	char dir[NAME_MAX_PATH];
	const char *hidden;
	size_t n;
	int r;

	/* what old storage drivers left at the top of their layers; nothing reads it */
	if (str_after(l->name, ".wh..wh.") && !streq(l->name, ".wh..wh..opq"))
		return 1;
	for (const char *p = strstr(l->name, ".wh."); p; p = strstr(p + 1, ".wh."))
		if ((p == l->name || p[-1] == '/') && strchr(p, '/'))
			return refuse(l->name, "a whiteout as a directory", e);
	hidden = str_after(l->last, ".wh.");
	if (!hidden)
		return 0;
	if (archive_entry_filetype(l->entry) != AE_IFREG || archive_entry_hardlink(l->entry))
		return refuse(l->name, "a whiteout that is no file", e);
	if (streq(hidden, ".wh..opq")) {
		(void)name_last(l->name, &n);
		memcpy(dir, l->name, n);
		dir[n] = '\0';
		r = make_opaque(l, dir, e);
	} else if (str_after(hidden, ".wh.")) {
		r = refuse(l->name, "a mark of layers that is not known", e);
	} else {
		r = whiteout(l, hidden, e);
	}
	return r < 0 ? -1 : 1;
}

static int add_entry(struct layer *l, struct err *e)
{
	mode_t type = archive_entry_filetype(l->entry);
	bool hard = archive_entry_hardlink(l->entry) != NULL;
	int dir;

	if (!hard && type != AE_IFREG && type != AE_IFLNK && type != AE_IFDIR) {
		if (type != AE_IFCHR && type != AE_IFBLK && type != AE_IFIFO && type != AE_IFSOCK)
			return refuse(l->name, "a kind of entry that is not known", e);
		l->facts->special++;
		return 0;
	}
	if (!*l->name && (hard || type != AE_IFDIR))
		return refuse(".", "the root must be a directory", e);
	if (check_ids(l, e) < 0)
		return -1;
	dir = parent_of(l, l->name, true, &l->last, e);
	if (dir < 0 || seen_add(&l->seen, l->name, e) < 0)
		return -1;
	count_dropped(l);
	if (hard)
		return add_hardlink(l, e);
	return type == AE_IFREG    ? add_file(l, dir, e)
		: type == AE_IFLNK ? add_link(l, dir, e)
				   : add_dir(l, dir, e);
}

/* In the order they came, so that the last of several entries for one directory wins. */
static int date_dirs(struct layer *l, struct err *e)
{
	for (size_t i = 0; i < l->n_late; i++) {
		const struct late_dir *d = &l->late[i];
		struct timespec times[2] = { d->mtime, d->mtime };
		_cleanup_close_ int fd = sys_openat2(
			l->root, *d->name ? d->name : ".", O_RDONLY | O_DIRECTORY, 0, BENEATH);

		/* gone or no directory any more: a later entry took its place */
		if (fd >= 0 && futimens(fd, times) < 0)
			return store_failed(e, errno, "date '%.256s'", d->name);
	}
	return 0;
}

static int apply(struct layer *l, struct err *e)
{
	size_t n;
	int r;

	for (;;) {
		if (stream_next(l->stream, &l->entry, e) < 0)
			return -1;
		if (!l->entry)
			return date_dirs(l, e);
		if (++l->limits->entries > LIMIT_ENTRIES)
			return err_set(e, R_ARCHIVE_TOO_LARGE, 0,
				"unpack the archive: over %d entries", LIMIT_ENTRIES);
		if (name_clean(archive_entry_pathname(l->entry), l->name, e) < 0)
			return -1;
		l->last = name_last(l->name, &n);
		r = take_mark(l, e);
		if (r < 0 || (r == 0 && add_entry(l, e) < 0))
			return -1;
	}
}

int layer_apply(struct stream *s, int root_fd, struct limits *limits, struct layer_facts *facts,
	struct err *e)
{
	_cleanup_free_ struct layer *l = xcalloc(1, sizeof *l);
	int r;

	l->stream = s;
	l->root = root_fd;
	l->own_ids = geteuid() == 0;
	l->limits = limits;
	l->facts = facts;
	l->dir = -1;
	r = apply(l, e);
	forget_dir(l);
	for (size_t i = 0; i < l->n_late; i++)
		free(l->late[i].name);
	free(l->late);
	seen_done(&l->seen);
	return r;
}
