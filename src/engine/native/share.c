/* Shares and copies the layers of a sandbox that lives: sealed, cloned, copied, made one of many.  Called by session.c.
 *
 * What must hold: what is shared is never written to again, by whatever mount; a copy is whole, or there is none. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

/* what just ended lets go of its files a little later, when they lay in a socket */
enum { SEAL_TRIES = 20, SEAL_PAUSE_US = 5000 };

static int is_empty(const struct layers *l, const char *name)
{
	_cleanup_closedir_ DIR *d = NULL;
	int fd = layers_open(l, l->n_sealed, name);
	struct dirent *entry;

	if (fd < 0)
		return errno == ENOENT ? 1 : -1;
	d = fdopendir(fd);
	if (!d) {
		fd = close_fd(fd);
		return -1;
	}
	while ((entry = readdir(d)))
		if (!layer_is_dot(entry->d_name))
			return 0;
	return 1;
}

/* One part of a layer ("upper" or "cow") into the layer at `to`. */
static int copy_part(struct sandbox *sb, struct layer_copy *c, unsigned i, int to, const char *name,
	struct err *e)
{
	_cleanup_close_ int in = layers_open(&sb->layers, i, name);
	_cleanup_close_ int out = -1, links = -1;
	int r;

	if (in < 0 && errno == ENOENT)
		return 0;
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0 || out < 0 || mkdirat(to, "links", 0700) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open layer '%u'", i);
	links = openat(to, "links", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c->links = links;
	r = links < 0 ? err_set(e, R_SETUP_FAILED, errno, "open layer '%u'", i)
		      : layer_copy(c, in, out, e);
	if (unlinkat(to, "links", AT_REMOVEDIR) < 0 && r == 0)
		r = err_set(e, R_SETUP_FAILED, errno, "remove what held the links of a copy");
	return r;
}

static int copy_layer(struct sandbox *sb, struct layer_copy *c, unsigned i, int to, struct err *e)
{
	return copy_part(sb, c, i, to, "upper", e) < 0 || copy_part(sb, c, i, to, "cow", e) < 0 ? -1
												: 0;
}

/* The new file system at "new" takes the place of the writable layer. */
static int replace_layer(struct sandbox *sb, int image, uid_t ids, struct err *e)
{
	struct layers *l = &sb->layers;
	char name[LAYERS_PLACE];

	layers_keep(l, l->n_sealed, image);
	l->ids[l->n_sealed] = ids;
	if (layers_unmount(l, FMT(name, "l%u", l->n_sealed)) < 0 ||
		mount_move(l->frame, "new", l->frame, name) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "put a copied layer in place");
	return 0;
}

/* The whole file system at once, where the store can share blocks: 1, or 0.  What runs is paused; were something outside to
 * write all the same, the journal makes the clone whole when it is mounted. */
static int clone_layer(struct sandbox *sb, struct err *e)
{
	struct layers *l = &sb->layers;
	_cleanup_close_ int image = -1, tree = -1, dir = -1;
	uint64_t used, size;
	int r;

	if (l->image[l->n_sealed] < 0 || !layers_try_map(sb))
		return 0;
	dir = layers_open(l, l->n_sealed, "upper");
	if (dir < 0 || layers_disk(sb, &used, &size) < 0 || syncfs(dir) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "write out a layer");
	r = store_clone(sb->engine, l->image[l->n_sealed], used, &image, e);
	if (r <= 0)
		return r;
	if (loop_mount(image, &tree, e) < 0)
		return -1;
	if (mount_attach(l->frame, "new", tree) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "mount a cloned layer");
	return replace_layer(sb, move_fd(&image), l->ids[l->n_sealed], e) < 0 ? -1 : 1;
}

int layers_copy(
	struct sandbox *sb, void (*progress)(void *arg, uint64_t bytes), void *arg, struct err *e)
{
	struct layers *l = &sb->layers;
	struct layer_copy c = { .from = l->ids[l->n_sealed],
		.to = sb->ids.base,
		.own = sb->engine->root,
		.marks = l->marks,
		.progress = progress,
		.arg = arg };
	_cleanup_close_ int dir = -1, image = -1;
	int r;

	if (!l->writable || l->pending)
		return 0;
	r = clone_layer(sb, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (layers_mount(sb, "new", &dir, &image, e) < 0)
		return -1;
	if (layers_fill(sb, dir) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "fill a writable layer");
	if (copy_layer(sb, &c, l->n_sealed, dir, e) < 0)
		return -1;
	return replace_layer(sb, move_fd(&image), sb->ids.base, e);
}

static int copy_all(struct sandbox *sb, int to, struct err *e)
{
	const struct layers *l = &sb->layers;
	struct layer_copy c = {
		.to = sb->ids.base, .own = sb->engine->root, .marks = l->marks, .merge = true
	};

	if (layers_fill(sb, to) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "fill a writable layer");
	for (unsigned i = 0; i <= l->n_sealed; i++) {
		c.from = l->ids[i];
		if (copy_layer(sb, &c, i, to, e) < 0)
			return -1;
	}
	return 0;
}

/* All layers, the writable one too, become one. */
static int flatten(struct sandbox *sb, struct err *e)
{
	struct layers *l = &sb->layers;
	_cleanup_close_ int dir = -1, image = -1;
	char name[LAYERS_PLACE];

	if (layers_mount(sb, "new", &dir, &image, e) < 0 || copy_all(sb, dir, e) < 0) {
		(void)layers_unmount(l, "new");
		return -1;
	}
	for (unsigned i = 0; i <= l->n_sealed; i++) {
		if (layers_shifted(sb, i))
			(void)layers_unmount(l, FMT(name, "s%u", i));
		(void)layers_unmount(l, FMT(name, "l%u", i));
		layers_keep(l, i, -1);
	}
	l->n_sealed = 0;
	l->ids[0] = sb->ids.base;
	layers_keep(l, 0, move_fd(&image));
	if (mount_move(l->frame, "new", l->frame, "l0") < 0)
		return err_set(e, R_SETUP_FAILED, errno, "put a flattened layer in place");
	return 0;
}

/* Nothing is written there any more: what is free in it need not be reserved.  That takes a while: by a process beside, which
 * holds nothing but the layer. */
static void give_back(const struct layers *l)
{
	_cleanup_close_ int fd = layers_open(l, l->n_sealed, "upper");
	struct fstrim_range all = { .len = UINT64_MAX };
	pid_t pid = fd < 0 ? -1 : fork();

	if (pid == 0) {
		if (fork() == 0 && dup2(fd, 0) == 0 && syscall(SYS_close_range, 1, ~0u, 0u) == 0)
			(void)ioctl(0, FITRIM, &all);
		_exit(0);
	}
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
}

/* The whole file system, since a read-only mount of it binds nobody who came by another one: a file of the sandbox that was
 * handed out over a socket outlives the sandbox's own mounts. */
static int seal_layer(const struct layers *l, const char *name, struct err *e)
{
	for (int i = 0; mount_seal(l->frame, name, true) < 0; i++) {
		if (errno != EBUSY)
			return err_set(e, R_SETUP_FAILED, errno, "make a layer read-only");
		if (i == SEAL_TRIES) {
			(void)err_set(e, R_LAYER_UNSUPPORTED, 0,
				"share a layer: something outside holds a file of it open");
			return err_remedy(
				e, "End what holds it; until then the layer can only be copied.");
		}
		(void)usleep(SEAL_PAUSE_US);
	}
	return 0;
}

int layers_seal(struct sandbox *sb, struct err *e)
{
	struct layers *l = &sb->layers;
	char name[LAYERS_PLACE];

	if (!l->writable || l->pending || (is_empty(l, "upper") == 1 && is_empty(l, "cow") == 1))
		return 0;
	if (l->marks == MARKS_NONE)
		return err_set(e, R_LAYER_UNSUPPORTED, 0,
			"share a layer: tmpfs has no extended attributes for users here");
	if (l->n_sealed == LAYERS_MAX_SEALED && flatten(sb, e) < 0)
		return err_wrap(e, "make the layers of sandbox '%s' one", sb->id);
	if (seal_layer(l, FMT(name, "l%u", l->n_sealed), e) < 0)
		return -1;
	if (l->image[l->n_sealed] >= 0)
		give_back(l);
	l->n_sealed++;
	l->pending = true;
	return 0;
}
