/* Owns the files of a sandbox that lives, as mounts in the owner's own mount namespace.  Called by session.c.
 *
 * Theory of operation.  A small tmpfs, the frame, is mounted at runs/ID/m.  In it lie
 *     base/        what every root has: reserved directories, /etc, mount points, identity
 *     image        a clone of the image's mount; im: the same with the sandbox's ids
 *     bN           clones of what the client opened; cow: the copy-on-write one with the sandbox's ids
 *     l0 ... ln    one file system for each layer, the last one writable; sN: one that was written with other ids, shown with
 *                  the sandbox's
 * A layer is a tmpfs, or an ext4 in a file of the layer store (store.c, loop.c).
 * The root of a boot is an overlay of the layers over base over the image.  Nobody but this process (and what it forks) sees
 * these mounts; they go when the last such process does, whatever ends it.
 *
 * What must hold: a layer's content is the workload's work.  It is never resolved by path from out here, but for its
 * directories "upper", "work", "cow" and "cwork", which overlayfs never shows inside. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

enum { INODE_BYTES = 2048, MIN_INODES = 1024, MAX_INODES = 1 << 24 };

void layers_init(struct layers *l)
{
	l->frame = l->bind_map = -1;
	for (unsigned i = 0; i <= LAYERS_MAX_SEALED; i++)
		l->image[i] = -1;
}

uid_t layers_uid(const struct sandbox *sb, uid_t inside)
{
	return sb->engine->root ? sb->ids.base + inside : sb->engine->uid;
}

gid_t layers_gid(const struct sandbox *sb, gid_t inside)
{
	return sb->engine->root ? sb->ids.base + inside : sb->engine->gid;
}

/* --- layers -------------------------------------------------------------------------------------------------------- */

static int find_cow(const struct sandbox_spec *s)
{
	for (unsigned i = 0; i < s->n_binds; i++)
		if (s->binds[i].cow)
			return (int)i;
	return -1;
}

static bool wants_layer(const struct sandbox_spec *s)
{
	return !s->read_only || find_cow(s) >= 0;
}

/* A clone of a mount in the frame that shows n ids from `from` on as this sandbox's from `to` on; negative errno. */
static int put_mapped(const struct sandbox *sb, const char *name, const char *mapped, int userns)
{
	_cleanup_close_ int tree = mount_clone(sb->layers.frame, name, false);

	if (tree < 0 || mount_map(tree, userns) < 0 ||
		mount_attach(sb->layers.frame, mapped, tree) < 0)
		return -errno;
	return 0;
}

static int map_image(const struct sandbox *sb, struct err *e)
{
	_cleanup_close_ int userns = -1;
	int r;

	if (!sb->engine->root || sb->spec->image_fd < 0 || sb->spec->read_only)
		return 0;
	if (ids_open_mapping(0, 0, sb->ids.base, sb->ids.base, NATIVE_ID_MAPPED, &userns, e) < 0)
		return -1;
	r = put_mapped(sb, "image", "im", userns);
	if (r == -EINVAL || r == -EOPNOTSUPP || r == -EPERM)
		return err_set(e, R_IDMAP_UNSUPPORTED, -r, "map the ids of the image");
	return r < 0 ? err_set(e, R_SETUP_FAILED, -r, "map the ids of the image") : 0;
}

/* Whose ids of the host a mapped bind shows as the workload's: the caller's own; for a task or a script whoever owns its
 * directory; for a helper on a repository those that it has inside, so that what belongs to somebody else stays so; and for a
 * hand-over all, since the numbers that it writes are the host's. */
static int open_map(struct sandbox *sb, int *ret, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	const uid_t to_uid = layers_uid(sb, s->uid);
	const gid_t to_gid = layers_gid(sb, s->gid);
	char name[LAYERS_PLACE];
	struct stat st;

	switch (s->profile) {
	case SPEC_AGENT:
	case SPEC_CHECK:
	case SPEC_SCRIPT:
		if (fstatat(sb->layers.frame, FMT(name, "b%d", s->workspace), &st,
			    AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(
				e, R_SETUP_FAILED, errno, "look at the mount for '/workspace'");
		return ids_open_mapping(st.st_uid, st.st_gid, to_uid, to_gid, 1, ret, e);
	case SPEC_GIT_HELPER:
		return ids_open_mapping(s->uid, s->gid, to_uid, to_gid, 1, ret, e);
	case SPEC_HANDOFF:
		return ids_open_mapping(0, 0, sb->ids.base, sb->ids.base, NATIVE_ID_MAPPED, ret, e);
	case SPEC_RUN:
	case SPEC_CREATE:
		break;
	}
	return ids_open_mapping(s->has_caller ? s->caller_uid : sb->engine->uid,
		s->has_caller ? s->caller_gid : sb->engine->gid, to_uid, to_gid, 1, ret, e);
}

/* For binds that ask for it. */
static int open_bind_map(struct sandbox *sb, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	struct layers *l = &sb->layers;
	int cow = find_cow(s);
	bool wanted = false;
	char name[LAYERS_PLACE];
	int r;

	for (unsigned i = 0; i < s->n_binds; i++)
		wanted = wanted || s->binds[i].idmap;
	l->bind_map = close_fd(l->bind_map);
	if (!sb->engine->root || !wanted)
		return 0;
	if (open_map(sb, &l->bind_map, e) < 0)
		return -1;
	if (cow < 0 || !s->binds[cow].idmap)
		return 0;
	r = put_mapped(sb, FMT(name, "b%d", cow), "cow", l->bind_map);
	return r < 0 ? err_set(e, R_IDMAP_UNSUPPORTED, -r, "map the ids of the mount at '%s'",
			       s->binds[cow].target)
		     : 0;
}

/* Where the copy-on-write directory is found in the frame. */
static const char *cow_place(const struct sandbox *sb, char out[static LAYERS_PLACE])
{
	int cow = find_cow(sb->spec);

	if (sb->engine->root && sb->spec->binds[cow].idmap)
		return "cow";
	return str_format(out, LAYERS_PLACE, "b%d", cow);
}

bool layers_shifted(const struct sandbox *sb, unsigned i)
{
	return sb->engine->root && sb->layers.ids[i] != sb->ids.base;
}

static int map_layers(struct sandbox *sb, struct err *e)
{
	unsigned n = sb->layers.n_sealed + (sb->layers.writable ? 1 : 0);

	for (unsigned i = 0; i < n; i++) {
		_cleanup_close_ int userns = -1;
		char from[LAYERS_PLACE], to[LAYERS_PLACE];
		uid_t ids = sb->layers.ids[i];
		int r;

		if (!layers_shifted(sb, i))
			continue;
		if (ids_open_shift(ids, sb->ids.base, &userns, e) < 0)
			return -1;
		r = put_mapped(sb, FMT(from, "l%u", i), FMT(to, "s%u", i), userns);
		if (r < 0)
			return err_set(e, R_LAYER_UNSUPPORTED, -r, "map the ids of layer '%u'", i);
	}
	return 0;
}

bool layers_try_map(const struct sandbox *sb)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_close_ int userns = -1, tree = mount_clone(sb->layers.frame, "l0", false);
	uid_t ids = sb->engine->env.ids_base;

	return tree >= 0 && ids_open_shift(ids, ids, &userns, &ignored) == 0 &&
		mount_map(tree, userns) == 0;
}

bool layers_can_map(const struct sandbox *sb)
{
	return !sb->engine->root || !sb->layers.n_sealed || layers_try_map(sb);
}

static enum layer_marks find_marks(const struct sandbox *sb, int dir)
{
	static const char probe[] = "user.overlay.bailey";

	if (fsetxattr(dir, probe, "y", 1, 0) == 0) {
		(void)fremovexattr(dir, probe);
		return MARKS_USER;
	}
	return sb->engine->root ? MARKS_TRUSTED : MARKS_NONE;
}

/* The root of the copy-on-write view has the attributes of its upper directory. */
static int copy_cow_attributes(const struct sandbox *sb, int layer)
{
	_cleanup_close_ int upper = openat(layer, "cow", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[LAYERS_PLACE];
	struct stat st;

	if (upper < 0 || fstatat(sb->layers.frame, cow_place(sb, name), &st, 0) < 0)
		return -1;
	if (sb->engine->root && fchown(upper, st.st_uid, st.st_gid) < 0)
		return -1;
	return fchmod(upper, st.st_mode & 07777);
}

int layers_fill(struct sandbox *sb, int layer)
{
	static const char *const names[] = { "upper", "work", "cow", "cwork" };
	_cleanup_close_ int upper = -1;

	for (size_t i = 0; i < (find_cow(sb->spec) >= 0 ? 4 : 2); i++)
		if (mkdirat(layer, names[i], 0700) < 0)
			return -1;
	upper = openat(layer, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (upper < 0 ||
		(sb->engine->root && fchown(upper, layers_uid(sb, 0), layers_gid(sb, 0)) < 0) ||
		fchmod(upper, 0755) < 0)
		return -1;
	if (!sb->layers.n_sealed)
		sb->layers.marks = find_marks(sb, upper);
	return find_cow(sb->spec) >= 0 ? copy_cow_attributes(sb, layer) : 0;
}

static int make_tmpfs(const struct sandbox *sb, int *ret, struct err *e)
{
	uint64_t bytes = sb->spec->disk_bytes, inodes = bytes / INODE_BYTES;

	if (inodes < MIN_INODES)
		inodes = MIN_INODES;
	if (inodes > MAX_INODES)
		inodes = MAX_INODES;
	if (mount_tmpfs(bytes, inodes, "0711", ret) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "mount a writable layer");
	return 0;
}

int layers_only_root(struct err *e)
{
	(void)err_set(e, R_LAYER_UNSUPPORTED, 0,
		"make a writable layer as native.layers 'loop' says: only root can");
	return err_remedy(e, "Run Bailey as root, or set native.layers to 'tmpfs'.");
}

static int make_loop(const struct sandbox *sb, int *ret_tree, int *ret_image, struct err *e)
{
	if (!sb->engine->root)
		return layers_only_root(e);
	if (store_new(sb->engine, sb->spec->disk_bytes, ret_image, e) < 0)
		return -1;
	return loop_mount(*ret_image, ret_tree, e);
}

/* A file system of the spec's size at `name` of the frame; *ret_image: the file behind it, or -1. */
int layers_mount(
	const struct sandbox *sb, const char *name, int *ret_dir, int *ret_image, struct err *e)
{
	bool loop = sb->engine->loop;
	_cleanup_close_ int tree = -1, image = -1, dir = -1;

	if ((loop ? make_loop(sb, &tree, &image, e) : make_tmpfs(sb, &tree, e)) < 0)
		return -1;
	if (mount_attach(sb->layers.frame, name, tree) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "mount a writable layer");
	dir = openat(sb->layers.frame, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* its own owner is nobody in a mapped view: what others may is what may be done there */
	if (dir < 0 || (loop && fchmod(dir, 0711) < 0))
		return err_set(e, R_SETUP_FAILED, errno, "open a writable layer");
	*ret_dir = move_fd(&dir);
	*ret_image = move_fd(&image);
	return 0;
}

void layers_keep(struct layers *l, unsigned i, int image)
{
	close_fd(l->image[i]);
	l->image[i] = image;
}

/* Files of a tmpfs are memory of the sandbox, and a copy into it is written by the guest: one that is full ends the copy, one
 * that is out of memory ends the sandbox.  Profiles of tasks have sizes of their own and take no copies. */
static int fit_memory(const struct sandbox *sb, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	uint64_t sum = s->disk_bytes;

	if (sb->engine->loop || s->profile != SPEC_CREATE || s->limits.unlimited)
		return 0;
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		sum += s->tmpfs[i].size;
	if (sum <= s->limits.memory_bytes)
		return 0;
	(void)err_set(e, R_OUT_OF_RANGE, 0,
		"keep up to %llu KiB of files in a memory of %llu KiB: layers and /tmp are memory here",
		(unsigned long long)sum >> 10, (unsigned long long)s->limits.memory_bytes >> 10);
	return err_remedy(e,
		"Give a smaller --disk or --tmp-size, a larger --memory, or, as root, set native.layers to 'loop'.");
}

static int new_layer(struct sandbox *sb, struct err *e)
{
	unsigned n = sb->layers.n_sealed;
	_cleanup_close_ int dir = -1;
	char name[LAYERS_PLACE];
	int image = -1;

	if (fit_memory(sb, e) < 0 || layers_mount(sb, FMT(name, "l%u", n), &dir, &image, e) < 0)
		return -1;
	layers_keep(&sb->layers, n, image);
	sb->layers.ids[n] = sb->ids.base;
	if (layers_fill(sb, dir) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "fill a writable layer");
	sb->layers.writable = true;
	sb->layers.pending = false;
	if (find_cow(sb->spec) >= 0 && sb->layers.marks == MARKS_NONE)
		return err_set(e, R_LAYER_UNSUPPORTED, 0,
			"show '%s' copy-on-write: tmpfs has no extended attributes for users here",
			sb->spec->binds[find_cow(sb->spec)].target);
	return 0;
}

static int make_frame(struct sandbox *sb, const char *id, struct err *e)
{
	struct layers *l = &sb->layers;
	_cleanup_close_ int tree = -1;

	if (!sb->engine->env.runs)
		return err_set(
			e, R_SETUP_FAILED, 0, "create a sandbox that lives: no run directory");
	l->path = xasprintf("%s/%s", sb->engine->env.runs, id);
	if (mount_tmpfs(1 << 20, 512, "0700", &tree) < 0 ||
		syscall(SYS_move_mount, tree, "", AT_FDCWD, l->path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "mount '%s'", l->path);
	/* the mount itself: nothing that lies at the path */
	l->frame = move_fd(&tree);
	return 0;
}

static int fill_frame(struct sandbox *sb, struct err *e)
{
	/* read-only: the root is built anew for each boot, as for one command */
	if (!sb->spec->read_only && layers_make_base(sb, e) < 0)
		return -1;
	return map_image(sb, e) < 0 || open_bind_map(sb, e) < 0 || map_layers(sb, e) < 0 ? -1 : 0;
}

static int create_layers(struct sandbox *sb, struct sources *f, struct err *e)
{
	if (sources_open(f, sb, e) < 0 || make_frame(sb, sb->id, e) < 0 ||
		sources_keep(sb, f, e) < 0 || fill_frame(sb, e) < 0)
		return -1;
	return wants_layer(sb->spec) ? new_layer(sb, e) : 0;
}

int layers_create(struct sandbox *sb, struct err *e)
{
	struct sources *f = xcalloc(1, sizeof *f);
	int r = create_layers(sb, f, e);

	sources_done(f);
	free(f);
	return r;
}

/* --- for one boot -------------------------------------------------------------------------------------------------- */

/* The kernel's own words, where it has some: "e overlay: ..." */
static int overlay_failed(int fs, const char *what, struct err *e)
{
	int saved = errno;
	char text[256];
	ssize_t n = read(fs, text, sizeof text - 1);

	text[n > 0 ? n : 0] = '\0';
	for (char *p = text; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = ' ';
	return err_set(e, R_SETUP_FAILED, saved, "mount %s%s%s", what, n > 2 ? ": " : "",
		n > 2 ? text + 2 : "");
}

/* Paths are relative to the frame: nothing in them needs to be escaped. */
static int mount_overlay(
	const struct sandbox *sb, const char *lower, const char *upper, const char *work, int *ret)
{
	int fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);

	if (fs < 0 || mount_option(fs, "lowerdir", lower) < 0 ||
		mount_option(fs, "upperdir", upper) < 0 || mount_option(fs, "workdir", work) < 0 ||
		(sb->layers.marks != MARKS_TRUSTED && mount_flag(fs, "userxattr") < 0) ||
		mount_option(fs, "redirect_dir", "nofollow") < 0 ||
		mount_option(fs, "metacopy", "off") < 0 || mount_option(fs, "index", "off") < 0 ||
		mount_make(fs, ret) < 0)
		*ret = -1;
	return fs;
}

static int overlay(const struct sandbox *sb, const char *lower, bool cow, int *ret, struct err *e)
{
	_cleanup_close_ int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), fs = -1;
	char upper[32], work[32], kind;
	unsigned n = sb->layers.n_sealed;

	if (fchdir(sb->layers.frame) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "enter the sandbox's mounts");
	kind = layers_shifted(sb, n) ? 's' : 'l';
	fs = mount_overlay(sb, lower, FMT(upper, "%c%u/%s", kind, n, cow ? "cow" : "upper"),
		FMT(work, "%c%u/%s", kind, n, cow ? "cwork" : "work"), ret);
	if (*ret < 0)
		(void)overlay_failed(fs, cow ? "the copy-on-write directory" : "the root", e);
	if (here < 0 || fchdir(here) < 0)
		(void)!chdir("/");
	return *ret < 0 ? -1 : 0;
}

/* "s1/upper:l0/upper" and so on, the newest first. */
static void list_sealed(const struct sandbox *sb, const char *dir, char *out, size_t cap)
{
	size_t n = 0;

	*out = '\0';
	for (unsigned i = sb->layers.n_sealed; i-- > 0;) {
		str_format(out + n, cap - n, "%c%u/%s:", layers_shifted(sb, i) ? 's' : 'l', i, dir);
		n += strlen(out + n);
	}
}

int layers_root(const struct sandbox *sb, int *ret, struct err *e)
{
	char sealed[128], lower[160];

	list_sealed(sb, "upper", sealed, sizeof sealed);
	FMT(lower, "%sbase%s", sealed,
		sb->spec->image_fd < 0     ? ""
			: sb->engine->root ? ":im"
					   : ":image");
	return overlay(sb, lower, false, ret, e);
}

int layers_bind(const struct sandbox *sb, unsigned i, int *ret, struct err *e)
{
	const struct spec_bind *b = &sb->spec->binds[i];
	char sealed[128], lower[160], name[LAYERS_PLACE];

	if (b->cow) {
		list_sealed(sb, "cow", sealed, sizeof sealed);
		FMT(lower, "%s%s", sealed, cow_place(sb, name));
		return overlay(sb, lower, true, ret, e);
	}
	*ret = mount_clone(
		sb->layers.frame, FMT(name, "b%u", i), !sb->engine->root && b->kind == BIND_DIR);
	if (*ret < 0)
		return err_set(e, R_SETUP_FAILED, errno, "clone the mount for '%s'", b->target);
	if (sb->engine->root && b->idmap && mount_map(*ret, sb->layers.bind_map) < 0) {
		*ret = close_fd(*ret);
		return err_set(e, R_IDMAP_UNSUPPORTED, errno, "map the ids of the mount at '%s'",
			b->target);
	}
	return 0;
}

int layers_open(const struct layers *l, unsigned i, const char *name)
{
	char path[32];

	return openat(l->frame, FMT(path, "l%u/%s", i, name),
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int layers_cow(const struct sandbox *sb)
{
	return find_cow(sb->spec);
}

int layers_view(const struct layers *l, unsigned i, const char *name)
{
	char path[32];

	return mount_view(l->frame, FMT(path, "l%u/%s", i, name), false);
}

int layers_view_lower(const struct sandbox *sb, bool cow, unsigned i, uid_t *ret_ids)
{
	/* what was cloned with all below it can't be cloned without */
	bool user = !sb->engine->root;
	char name[LAYERS_PLACE];

	*ret_ids = sb->ids.base;
	if (cow)
		return i == 0 ? mount_view(sb->layers.frame, cow_place(sb, name), user) : -2;
	if (i == 0)
		return mount_view(sb->layers.frame, "base", false);
	*ret_ids = 0;
	return i == 1 && sb->spec->image_fd >= 0 ? mount_view(sb->layers.frame, "image", user) : -2;
}

int layers_disk(const struct sandbox *sb, uint64_t *ret_used, uint64_t *ret_size)
{
	const struct layers *l = &sb->layers;
	_cleanup_close_ int fd = -1;
	struct statfs fs;

	if (l->pending) {
		*ret_used = 0;
		*ret_size = sb->spec->disk_bytes;
		return 0;
	}
	fd = layers_open(l, l->n_sealed, "upper");
	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -1;
	*ret_size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	*ret_used = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	return 0;
}

/* --- forks ---------------------------------------------------------------------------------------------------------- */

int layers_unmount(const struct layers *l, const char *name)
{
	char path[PATH_MAX];

	return umount2(FMT(path, "%s/%s", l->path, name), MNT_DETACH | UMOUNT_NOFOLLOW);
}

int layers_ready(struct sandbox *sb, struct err *e)
{
	return sb->layers.pending ? new_layer(sb, e) : 0;
}

static int reopen_frame(struct sandbox *sb, struct err *e)
{
	struct layers *l = &sb->layers;

	close_fd(l->frame);
	l->frame = open(l->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l->frame < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open '%s'", l->path);
	if (sb->spec->image_fd < 0)
		return 0;
	close_fd(sb->spec->image_fd);
	sb->spec->image_fd = openat(l->frame, "image", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return sb->spec->image_fd < 0 ? err_set(e, R_IMAGE_INVALID, errno, "open the image") : 0;
}

int layers_detach(struct sandbox *sb, struct err *e)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a mount namespace");
	return reopen_frame(sb, e);
}

static int move_all(const struct sandbox *sb, int from, bool copied, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	int to = sb->layers.frame;
	char name[LAYERS_PLACE];

	for (unsigned i = 0; i < s->n_binds; i++)
		if (mount_move(from, FMT(name, "b%u", i), to, name) < 0)
			return err_set(e, R_SETUP_FAILED, errno, "take over the mount for '%s'",
				s->binds[i].target);
	if (s->image_fd >= 0 && mount_move(from, "image", to, "image") < 0)
		return err_set(e, R_SETUP_FAILED, errno, "take over the image");
	for (unsigned i = 0; i < sb->layers.n_sealed + (copied ? 1 : 0); i++)
		if (mount_move(from, FMT(name, "l%u", i), to, name) < 0)
			return err_set(e, R_SETUP_FAILED, errno, "take over layer '%u'", i);
	return 0;
}

int layers_adopt(struct sandbox *sb, const char *new_id, bool copied, struct err *e)
{
	struct layers *l = &sb->layers;
	_cleanup_free_ char *old = move_ptr(l->path);
	_cleanup_close_ int from = move_fd(&l->frame);
	bool layer = l->writable;

	copied = copied && layer && !l->pending;

	if (make_frame(sb, new_id, e) < 0 || move_all(sb, from, copied, e) < 0)
		return -1;
	if (umount2(old, MNT_DETACH) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "let go of '%s'", old);
	l->writable = copied;
	if (reopen_frame(sb, e) < 0 || fill_frame(sb, e) < 0)
		return -1;
	l->writable = layer;
	l->pending = layer && !copied;
	if (l->pending)
		layers_keep(l, l->n_sealed, -1);
	return 0;
}

void layers_remove(struct sandbox *sb)
{
	struct layers *l = &sb->layers;

	l->bind_map = close_fd(l->bind_map);
	for (unsigned i = 0; i <= LAYERS_MAX_SEALED; i++)
		layers_keep(l, i, -1);
	if (l->frame >= 0) {
		l->frame = close_fd(l->frame);
		(void)umount2(l->path, MNT_DETACH | UMOUNT_NOFOLLOW);
	}
	free(l->path);
	l->path = NULL;
}

/* --- what can be ------------------------------------------------------------------------------------------------------ */

static bool can_stack(struct sandbox *sb)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_close_ int tree = -1;

	if (mkdirat(sb->layers.frame, "base", 0755) < 0 || new_layer(sb, &ignored) < 0)
		return false;
	return layers_root(sb, &tree, &ignored) == 0;
}

/* On a directory that exists everywhere: nobody else sees this mount. */
unsigned layers_probe(struct engine *n)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_close_ int tree = -1;
	struct engine plain = *n;
	struct sandbox_spec spec;
	struct sandbox sb = { .engine = &plain, .spec = &spec, .layers = { .frame = -1 } };
	unsigned can = 0;

	plain.loop = false;
	layers_init(&sb.layers);
	spec_init(&spec);
	spec.disk_bytes = 1 << 20;
	if (sources_enter(n, &ignored) < 0 || mount_tmpfs(1 << 20, 512, "0700", &tree) < 0 ||
		syscall(SYS_move_mount, tree, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return 0;
	sb.layers.frame = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (sb.layers.frame >= 0 && can_stack(&sb))
		can |= LAYERS_CAN_STACK;
	if (sb.layers.marks == MARKS_USER)
		can |= LAYERS_CAN_MARK;
	if (n->root && layers_try_map(&sb))
		can |= LAYERS_CAN_MAP_IDS;
	close_fd(sb.layers.frame);
	return can;
}
