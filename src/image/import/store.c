/* Owns the store's layout and its locks.  Called by every verb of bailey-image; several of them may run at once, and each
 * may be killed anywhere.
 *
 * images/lock   shared: a maker at work, who may count on trees that are there.  alone: trees may be freed.
 * tmp/X/lock    held by the maker; a directory whose lock can be had belongs to a dead one.
 * trees/X/lock  shared: a sandbox uses the tree.  A remover takes it alone, moves the tree away, then removes it. */
#include "image/import/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "base/sys.h"
#include "image/walk.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

void store_init(struct store *s)
{
	memset(s, 0, sizeof *s);
	s->dir = s->refs = s->trees = s->tmp = s->lock = s->work = s->work_lock = -1;
}

static int open_dir(int at, const char *name, bool make, int *ret, struct err *e)
{
	if (make && mkdirat(at, name, 0700) < 0 && errno != EEXIST)
		return store_failed(e, errno, "make '%s' in the image store", name);
	*ret = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret < 0 ? store_failed(e, errno, "open '%s' in the image store", name) : 0;
}

static int open_lock(int at, int how, int *ret)
{
	int fd = openat(at, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -1;
	if (flock(fd, how) < 0) {
		(void)close_fd(fd);
		return -1;
	}
	*ret = fd;
	return 0;
}

/* A directory in tmp/ whose maker is dead.  The lock of tmp/ is held, so none is just being made. */
static bool is_dead(int tmp, const char *name)
{
	_cleanup_close_ int dir =
		openat(tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int lock =
		dir < 0 ? -1 : openat(dir, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	return lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0;
}

/* What can't be removed is left for the next time: it must not keep anybody from working. */
static int sweep(struct store *s, struct err *e)
{
	_cleanup_free_ struct walk *w = xcalloc(1, sizeof *w);
	int r = walk_open(w, fcntl(s->tmp, F_DUPFD_CLOEXEC, 3), e);

	while (r == 0 && (r = walk_next(w, e)) == 0 && w->event != WALK_END) {
		_cleanup_err_ struct err ignored = ERR_INIT;

		if (w->event != WALK_ENTER)
			continue;
		walk_skip(w);
		if (is_dead(s->tmp, w->name))
			(void)remove_at(s->tmp, w->name, &ignored);
	}
	walk_done(w);
	return r;
}

static int make_work(struct store *s, struct err *e)
{
	uint64_t random;

	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		return err_set(e, R_STATE_UNWRITABLE, errno, "get random bytes");
	FMT(s->work_name, "%016llx", (unsigned long long)random);
	if (open_dir(s->tmp, s->work_name, true, &s->work, e) < 0)
		return -1;
	if (open_lock(s->work, LOCK_EX | LOCK_NB, &s->work_lock) < 0)
		return store_failed(e, errno, "lock a work directory of the image store");
	return 0;
}

static int open_work(struct store *s, struct err *e)
{
	int r;

	if (flock(s->tmp, LOCK_EX) < 0)
		return store_failed(e, errno, "lock the image store '%.256s'", s->path);
	r = sweep(s, e) < 0 ? -1 : make_work(s, e);
	(void)flock(s->tmp, LOCK_UN);
	return r;
}

int store_open(struct store *s, bool write, struct err *e)
{
	if (home_subdir("images", &s->path, e) < 0)
		return -1;
	s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return store_failed(e, errno, "open the image store '%.256s'", s->path);
	if (open_dir(s->dir, "refs", true, &s->refs, e) < 0 ||
		open_dir(s->dir, "trees", true, &s->trees, e) < 0 ||
		open_dir(s->dir, "tmp", true, &s->tmp, e) < 0)
		return -1;
	if (!write)
		return 0;
	if (open_lock(s->dir, LOCK_SH, &s->lock) < 0)
		return store_failed(e, errno, "lock the image store '%.256s'", s->path);
	return open_work(s, e);
}

char *store_work_path(const struct store *s, const char *name)
{
	return xasprintf("%s/tmp/%s/%s", s->path, s->work_name, name);
}

int store_new_tree(struct store *s, const char *name, int *ret_fd, struct err *e)
{
	_cleanup_close_ int dir = -1, lock = -1;

	if (open_dir(s->work, name, true, &dir, e) < 0)
		return -1;
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (lock < 0 || mkdirat(dir, "root", 0755) < 0)
		return store_failed(e, errno, "make a tree in the image store");
	return open_dir(dir, "root", false, ret_fd, e);
}

bool store_has_tree(const struct store *s, const char *hex)
{
	struct stat st;

	return fstatat(s->trees, hex, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int store_open_tree(const struct store *s, const char *hex, int *ret_fd, struct err *e)
{
	char path[IMAGE_HEX + 8];

	*ret_fd = sys_openat2(
		s->trees, FMT(path, "%s/root", hex), O_RDONLY | O_DIRECTORY, 0, BENEATH);
	return *ret_fd < 0 ? store_failed(e, errno, "open the tree '%s'", hex) : 0;
}

int store_read_info(const struct store *s, const char *hex, struct tree_info *ret, struct err *e)
{
	static const char *const keys[] = { "special ", "setid ", "xattrs " };
	struct tree_info info = { .parent = "" };
	uint64_t *const numbers[] = { &info.facts.special, &info.facts.setid, &info.facts.xattrs };
	char path[IMAGE_HEX + 8], text[512], *save = NULL;

	if (read_file_at(s->trees, FMT(path, "%s/info", hex), text, sizeof text) < 0)
		return store_failed(e, errno, "read about the tree '%s'", hex);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *parent = str_after(line, "parent ");

		for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
			if (str_after(line, keys[i]) &&
				parse_u64(str_after(line, keys[i]), 0, UINT64_MAX, keys[i],
					numbers[i], e) < 0)
				return err_wrap(e, "read about the tree '%s'", hex);
		if (parent && strlen(parent) == IMAGE_HEX - 1)
			FMT(info.parent, "%s", parent);
	}
	*ret = info;
	return 0;
}

static int write_new(int at, const char *name, const char *text, size_t n, struct err *e)
{
	_cleanup_close_ int fd =
		openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || write_all(fd, text, n) < 0 || fsync(fd) < 0)
		return store_failed(e, errno, "write '%.128s' in the image store", name);
	return 0;
}

int store_write_info(
	const struct store *s, const char *work_name, const struct tree_info *info, struct err *e)
{
	char path[64], text[512];
	const struct layer_facts *f = &info->facts;

	FMT(text, "special %llu\nsetid %llu\nxattrs %llu\nparent %s\n",
		(unsigned long long)f->special, (unsigned long long)f->setid,
		(unsigned long long)f->xattrs, info->parent);
	return write_new(s->work, FMT(path, "%s/info", work_name), text, strlen(text), e);
}

int store_publish(struct store *s, const char *work_name, const char *hex, struct err *e)
{
	if (renameat2(s->work, work_name, s->trees, hex, RENAME_NOREPLACE) == 0)
		return fsync(s->trees) < 0 ? store_failed(e, errno, "write the image store") : 0;
	if (errno == EEXIST)
		return remove_at(s->work, work_name, e);
	return store_failed(e, errno, "move a tree into the image store");
}

static int name_taken(struct store *s, const struct image *i, struct err *e)
{
	_cleanup_image_ struct image there;

	image_init(&there);
	if (image_read(s->refs, i->name, &there, e) < 0)
		return -1;
	if (streq(there.id, i->id) && streq(there.chain, i->chain))
		return 0;
	(void)err_set(
		e, R_IMAGE_EXISTS, 0, "name the image '%s': another image has that name", i->name);
	return err_remedy(e,
		"Give another name with --name, or --replace to take this one from '%.19s'.",
		there.id);
}

int store_write_ref(struct store *s, const struct image *i, bool replace, struct err *e)
{
	_cleanup_buf_ struct buf text = { .max = IMAGE_MAX_RECORD };
	char file[IMAGE_MAX_NAME];

	image_ref_file(i->name, file);
	image_format(i, &text);
	if (text.failed)
		return err_set(e, R_IMAGE_INVALID, 0,
			"keep what image '%s' says of itself: over %d bytes", i->name,
			IMAGE_MAX_RECORD);
	if (write_new(s->work, "ref", text.data, text.len, e) < 0)
		return -1;
	if (renameat2(s->work, "ref", s->refs, file, replace ? 0 : RENAME_NOREPLACE) < 0) {
		if (errno == EEXIST)
			return name_taken(s, i, e);
		return store_failed(e, errno, "write the record of image '%s'", i->name);
	}
	return fsync(s->refs) < 0 ? store_failed(e, errno, "write the image store") : 0;
}

int store_names(const struct store *s, struct image_list *ret, struct err *e)
{
	_cleanup_free_ struct walk *w = xcalloc(1, sizeof *w);
	_cleanup_err_ struct err ignored = ERR_INIT;
	int r = walk_open(w, fcntl(s->refs, F_DUPFD_CLOEXEC, 3), e);
	char name[IMAGE_MAX_NAME];

	while (r == 0 && (r = walk_next(w, e)) == 0 && w->event != WALK_END) {
		image_ref_name(w->name, name);
		if (w->event == WALK_ENTER)
			walk_skip(w);
		else if (image_check_name(name, &ignored) < 0)
			err_done(&ignored);
		else if (!image_list_add(ret, name))
			r = err_set(e, R_OUT_OF_RANGE, 0, "list the images: over %d of them",
				IMAGE_MAX_LIST);
	}
	walk_done(w);
	return r;
}

/* Takes the tree's lock alone; *ret_fd -1 when there is no such tree. */
static int lock_tree(struct store *s, const char *hex, const char *what, int *ret_fd, struct err *e)
{
	char path[IMAGE_HEX + 8];
	int fd = sys_openat2(s->trees, FMT(path, "%s/lock", hex), O_RDWR, 0, BENEATH);

	*ret_fd = -1;
	if (fd < 0)
		return errno == ENOENT ? 0 : store_failed(e, errno, "lock the tree '%s'", hex);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		(void)close_fd(fd);
		(void)err_set(e, R_BUSY, 0, "remove the image '%s': a sandbox uses it", what);
		return err_remedy(e,
			"Remove the sandboxes that 'bailey ls --all' shows with it, and wait for runs to end.");
	}
	*ret_fd = fd;
	return 0;
}

/* Moves one tree away under its lock and removes it; one that is in use stays. */
static int free_tree(struct store *s, const char *hex, struct err *e)
{
	_cleanup_close_ int lock = -1;

	if (lock_tree(s, hex, hex, &lock, e) < 0) {
		if (e->reason != R_BUSY)
			return -1;
		err_done(e);
		return 0;
	}
	if (renameat(s->trees, hex, s->work, hex) < 0)
		return store_failed(e, errno, "move the tree '%s' away", hex);
	return remove_at(s->work, hex, e);
}

/* The chains of all images, each with its parents.  One record that can't be read stops the collection: its trees
 * are not known. */
static int collect_used(struct store *s, struct image_list *used, struct err *e)
{
	struct image_list names = { NULL, 0 };
	int r = store_names(s, &names, e);

	for (unsigned i = 0; r == 0 && i < names.n; i++) {
		_cleanup_image_ struct image image;
		struct tree_info info = { .parent = "" };
		const char *hex;

		image_init(&image);
		r = image_read(s->refs, names.v[i], &image, e);
		hex = r == 0 ? image_digest_hex(image.chain) : "";
		for (unsigned depth = 0; r == 0 && *hex && depth < IMAGE_MAX_LIST; depth++) {
			if (!image_list_add(used, hex))
				r = err_set(e, R_OUT_OF_RANGE, 0, "collect trees: too many");
			else if (!store_has_tree(s, hex))
				break;
			else
				r = store_read_info(s, hex, &info, e);
			hex = info.parent;
		}
	}
	image_list_done(&names);
	return r;
}

static bool list_has(const struct image_list *l, const char *text)
{
	for (unsigned i = 0; i < l->n; i++)
		if (streq(l->v[i], text))
			return true;
	return false;
}

/* Frees the trees that no image needs.  Only with the store's lock alone, so that nobody builds on one of them; while
 * somebody makes an image, the trees stay until the last maker or the next removal. */
static int collect(struct store *s, struct err *e)
{
	_cleanup_free_ struct walk *w = NULL;
	struct image_list used = { NULL, 0 };
	int r;

	if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
		return 0;
	w = xcalloc(1, sizeof *w);
	r = collect_used(s, &used, e);
	if (r == 0)
		r = walk_open(w, fcntl(s->trees, F_DUPFD_CLOEXEC, 3), e);
	while (r == 0 && (r = walk_next(w, e)) == 0 && w->event != WALK_END) {
		if (w->event != WALK_ENTER)
			continue;
		walk_skip(w);
		if (!list_has(&used, w->name))
			r = free_tree(s, w->name, e);
	}
	walk_done(w);
	image_list_done(&used);
	return r;
}

/* Whether another name stands for the same tree. */
static int is_shared(struct store *s, const struct image *image, bool *ret, struct err *e)
{
	struct image_list names = { NULL, 0 };
	_cleanup_err_ struct err ignored = ERR_INIT;
	int r = store_names(s, &names, e);

	*ret = false;
	for (unsigned i = 0; r == 0 && i < names.n && !*ret; i++) {
		_cleanup_image_ struct image other;

		image_init(&other);
		if (streq(names.v[i], image->name))
			continue;
		if (image_read(s->refs, names.v[i], &other, &ignored) < 0)
			err_done(&ignored);
		else
			*ret = streq(other.chain, image->chain);
	}
	image_list_done(&names);
	return r;
}

int store_remove(struct store *s, const char *name, struct err *e)
{
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err damaged = ERR_INIT;
	_cleanup_close_ int lock = -1;
	char file[IMAGE_MAX_NAME];
	bool shared = false;

	image_init(&i);
	image_ref_file(name, file);
	if (image_read(s->refs, name, &i, &damaged) < 0) {
		/* a damaged record can go: what it stood for is found by its absence */
		if (damaged.reason != R_STATE_UNWRITABLE)
			return err_move(e, &damaged);
	} else if (is_shared(s, &i, &shared, e) < 0 ||
		(!shared && lock_tree(s, image_digest_hex(i.chain), name, &lock, e) < 0)) {
		return -1;
	}
	if (unlinkat(s->refs, file, 0) < 0 && errno != ENOENT)
		return store_failed(e, errno, "remove the image '%s'", name);
	lock = close_fd(lock);
	return collect(s, e);
}

void store_done(struct store *s)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	if (s->work >= 0) {
		if (collect(s, &ignored) < 0)
			err_done(&ignored);
		(void)remove_at(s->tmp, s->work_name, &ignored);
	}
	free(s->path);
	(void)close_fd(s->work_lock);
	(void)close_fd(s->work);
	(void)close_fd(s->lock);
	(void)close_fd(s->tmp);
	(void)close_fd(s->trees);
	(void)close_fd(s->refs);
	(void)close_fd(s->dir);
	store_init(s);
}
