/* Owns counting the space of images: files have a name in each tree that has them, and are counted once.  Called by
 * whoever shows what Bailey takes on the disk. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "image/image.h"
#include "image/walk.h"

enum {
	SHARED = -1,           /* in place of an image's number */
	MAX_FILES = 1 << 23,   /* that have several names; beyond, each name counts */
	MAX_TREES = 16 * 1024, /* of all images; beyond, they are not counted */
};

struct tree {
	char hex[IMAGE_HEX];
	int owner; /* the number of the one image that needs it, or SHARED */
};

struct file {
	ino_t ino; /* 0: none */
	int owner;
	uint64_t bytes;
};

struct usage {
	struct image_list names;
	uint64_t *bytes; /* of each image alone */
	uint64_t shared;
	struct tree *trees;
	size_t n_trees;
	struct file *files; /* a hash table */
	size_t n_files, cap_files;
};

static void usage_done(struct usage *u)
{
	image_list_done(&u->names);
	free(u->bytes);
	free(u->trees);
	free(u->files);
}

static void count(struct usage *u, int owner, uint64_t bytes)
{
	if (owner == SHARED)
		u->shared += bytes;
	else
		u->bytes[owner] += bytes;
}

static struct file *find_file(struct file *files, size_t cap, ino_t ino)
{
	size_t i = (size_t)((uint64_t)ino * 0x9e3779b97f4a7c15u >> 20) & (cap - 1);

	while (files[i].ino && files[i].ino != ino)
		i = (i + 1) & (cap - 1);
	return &files[i];
}

static bool grow(struct usage *u)
{
	const size_t cap = u->cap_files ? 2 * u->cap_files : 1 << 14;
	struct file *bigger = cap / 2 > MAX_FILES ? NULL : calloc(cap, sizeof *bigger);

	if (!bigger)
		return false;
	for (size_t i = 0; i < u->cap_files; i++)
		if (u->files[i].ino)
			*find_file(bigger, cap, u->files[i].ino) = u->files[i];
	free(u->files);
	u->files = bigger;
	u->cap_files = cap;
	return true;
}

/* A file of several names: whose it is shows when all trees were seen. */
static void note(struct usage *u, int owner, ino_t ino, uint64_t bytes)
{
	struct file *f;

	if (u->n_files >= u->cap_files / 2 && !grow(u)) {
		count(u, owner, bytes);
		return;
	}
	f = find_file(u->files, u->cap_files, ino);
	if (!f->ino) {
		*f = (struct file){ ino, owner, bytes };
		u->n_files++;
	} else if (f->owner != owner) {
		f->owner = SHARED;
	}
}

/* A tree that is removed meanwhile counts as far as it was seen. */
static void count_tree(struct usage *u, int trees, const struct tree *t)
{
	struct walk *w = xcalloc(1, sizeof *w);
	_cleanup_err_ struct err ignored = ERR_INIT;
	char path[IMAGE_HEX + 8];
	int fd = sys_openat2(trees, FMT(path, "%s/root", t->hex), O_RDONLY | O_DIRECTORY, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	int r = walk_open(w, fd, &ignored);

	while (r == 0 && (r = walk_next(w, &ignored)) == 0 && w->event != WALK_END) {
		const uint64_t bytes = (uint64_t)w->st.st_blocks * 512;

		if (w->event == WALK_FILE && w->st.st_nlink > 1)
			note(u, t->owner, w->st.st_ino, bytes);
		else if (w->event != WALK_LEAVE)
			count(u, t->owner, bytes);
	}
	walk_done(w);
	free(w);
}

static bool add_tree(struct usage *u, const char *hex, int owner)
{
	struct tree *t = u->trees;

	for (; t < u->trees + u->n_trees; t++) {
		if (streq(t->hex, hex)) {
			t->owner = SHARED;
			return true;
		}
	}
	if (u->n_trees == MAX_TREES)
		return false;
	if (u->n_trees % 64 == 0) {
		t = reallocarray(u->trees, u->n_trees + 64, sizeof *t);
		if (!t)
			return false;
		u->trees = t;
	}
	t = &u->trees[u->n_trees++];
	FMT(t->hex, "%s", hex);
	t->owner = owner;
	return true;
}

/* The tree below, as the store's writer notes it; "": none. */
static void parent_of(int trees, const char *hex, char ret[static IMAGE_HEX])
{
	char path[IMAGE_HEX + 8], text[512];
	const char *parent;

	*ret = '\0';
	if (read_file_at(trees, FMT(path, "%s/info", hex), text, sizeof text) < 0)
		return;
	parent = strstr(text, "parent ");
	if (parent && strspn(parent + 7, "0123456789abcdef") == IMAGE_HEX - 1)
		str_format(ret, IMAGE_HEX, "%.64s", parent + 7);
}

/* All trees that an image needs.  A record that can't be read is none, as for whoever looks for an image. */
static void add_image(struct usage *u, int refs, int trees, const char *name)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_image_ struct image i;
	char hex[IMAGE_HEX], below[IMAGE_HEX];
	const int owner = (int)u->names.n;

	image_init(&i);
	if (image_read(refs, name, &i, &ignored) < 0 || !image_list_add(&u->names, name))
		return;
	FMT(hex, "%s", image_digest_hex(i.chain));
	for (unsigned depth = 0; *hex && depth < IMAGE_MAX_LIST; depth++) {
		if (!add_tree(u, hex, owner))
			return;
		parent_of(trees, hex, below);
		memcpy(hex, below, sizeof hex);
	}
}

static void add_images(struct usage *u, int images, int trees)
{
	const int refs = openat(images, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_closedir_ DIR *dir = refs < 0 ? NULL : fdopendir(refs);
	char name[IMAGE_MAX_NAME];
	struct dirent *d;

	if (!dir)
		(void)close_fd(refs);
	while (dir && (d = readdir(dir))) {
		image_ref_name(d->d_name, name);
		if (*name && *name != '.')
			add_image(u, refs, trees, name);
	}
}

int image_usage(const char *home, image_usage_fn *fn, void *arg)
{
	_cleanup_free_ char *path = xasprintf("%s/images", home);
	_cleanup_close_ int images = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int trees = -1;
	_cleanup_(usage_done) struct usage u = { .n_trees = 0 };
	int r = 0;

	if (images >= 0)
		trees = openat(images, "trees", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (trees < 0)
		return 0;
	add_images(&u, images, trees);
	if (!u.names.n)
		return 0;
	u.bytes = xcalloc(u.names.n, sizeof *u.bytes);
	for (size_t i = 0; i < u.n_trees; i++)
		count_tree(&u, trees, &u.trees[i]);
	for (size_t i = 0; i < u.cap_files; i++)
		if (u.files[i].ino)
			count(&u, u.files[i].owner, u.files[i].bytes);
	for (unsigned i = 0; r == 0 && i < u.names.n; i++)
		r = fn(arg, u.names.v[i], u.bytes[i]);
	return r == 0 && u.shared ? fn(arg, NULL, u.shared) : r;
}
