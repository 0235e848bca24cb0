/* Takes what the client of a sandbox that lives opened into the owner's own mount namespace.  Called by layers.c, once.
 *
 * As root the clones are made from the client's descriptors before the namespace is left, since afterwards its mounts are
 * foreign.  A normal user may clone mounts only inside: there the path behind the descriptor is opened again and must be the
 * same object. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

/* --- a namespace of this process's own ----------------------------------------------------------------------------- */

static int write_identity_map(const struct engine *n, struct err *e)
{
	char uid[32], gid[32];

	if (write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
		write_file_at(AT_FDCWD, "/proc/self/uid_map", FMT(uid, "%u %u 1", n->uid, n->uid)) <
			0 ||
		write_file_at(AT_FDCWD, "/proc/self/gid_map", FMT(gid, "%u %u 1", n->gid, n->gid)) <
			0)
		return err_set(e, R_SETUP_FAILED, errno, "map the owner's own ids");
	return 0;
}

int sources_enter(const struct engine *n, struct err *e)
{
	if (unshare(CLONE_NEWNS | (n->root ? 0 : CLONE_NEWUSER)) < 0)
		return n->root ? err_set(e, R_SETUP_FAILED, errno, "make a mount namespace")
			       : explain_userns(errno, e);
	if (!n->root && write_identity_map(n, e) < 0)
		return -1;
	/* what the host unmounts goes here too; nothing of ours gets out */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "leave the host's mounts");
	return 0;
}

/* --- the client's directories -------------------------------------------------------------------------------------- */

static int begin_source(struct tree *t, int fd, struct err *e)
{
	char link[64], path[PATH_MAX];
	ssize_t n = readlink(FMT(link, "/proc/self/fd/%d", fd), path, sizeof path - 1);

	if (n < 0)
		return err_set(e, R_SETUP_FAILED, errno, "find the path of a mount");
	path[n] = '\0';
	t->source_fd = fd;
	t->source_path = xstrdup(path);
	return 0;
}

static int open_source(struct tree *t, bool again, const char *target, struct err *e)
{
	bool changed = false;
	int r = tree_open(t, again, &changed);

	if (r == 0)
		return 0;
	return err_set(e, changed ? R_MOUNT_SOURCE_CHANGED : R_SETUP_FAILED, -r,
		"clone the mount for '%s'", target);
}

static int begin(struct sources *f, const struct sandbox *sb, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	const struct tree none = { .source_fd = -1, .idmap_fd = -1, .tree_fd = -1 };

	f->image = none;
	if (s->image_fd >= 0 && begin_source(&f->image, s->image_fd, e) < 0)
		return -1;
	f->image.recursive = !sb->engine->root;
	for (; f->n_binds < s->n_binds; f->n_binds++) {
		struct tree *t = &f->binds[f->n_binds];

		*t = none;
		t->kind = s->binds[f->n_binds].kind == BIND_DIR ? TREE_DIR : TREE_FILE;
		t->writable = s->binds[f->n_binds].writable;
		t->recursive = !sb->engine->root && t->kind == TREE_DIR;
		if (begin_source(t, s->binds[f->n_binds].fd, e) < 0)
			return -1;
	}
	return 0;
}

/* A name may have been given to another directory since somebody looked: that one must not be touched. */
static int check_object(const struct tree *t, const struct spec_bind *b, struct err *e)
{
	struct stat st;

	if (!b->has_object)
		return 0;
	if (fstat(t->tree_fd, &st) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "look at the mount for '%s'", b->target);
	if (st.st_dev != b->dev || st.st_ino != b->ino)
		return err_set(e, R_MOUNT_SOURCE_CHANGED, 0,
			"mount '%s' at '%s': it is not the directory that was checked",
			t->source_path, b->target);
	return 0;
}

static int open_all(struct sources *f, const struct sandbox *sb, struct err *e)
{
	bool again = !sb->engine->root;

	if (f->image.source_fd >= 0 && open_source(&f->image, again, "/", e) < 0)
		return -1;
	for (unsigned i = 0; i < f->n_binds; i++)
		if (open_source(&f->binds[i], again, sb->spec->binds[i].target, e) < 0 ||
			check_object(&f->binds[i], &sb->spec->binds[i], e) < 0)
			return -1;
	return 0;
}

void sources_done(struct sources *f)
{
	free(f->image.source_path);
	f->image.tree_fd = close_fd(f->image.tree_fd);
	for (unsigned i = 0; i < f->n_binds; i++) {
		free(f->binds[i].source_path);
		f->binds[i].tree_fd = close_fd(f->binds[i].tree_fd);
	}
}

/* From here on the sandbox knows its image and mounts by what lies in the frame. */
int sources_keep(struct sandbox *sb, struct sources *f, struct err *e)
{
	struct sandbox_spec *s = sb->spec;
	int frame = sb->layers.frame;
	char name[LAYERS_PLACE];

	for (unsigned i = 0; i < f->n_binds; i++) {
		if (mount_attach(frame, FMT(name, "b%u", i), f->binds[i].tree_fd) < 0)
			return err_set(e, R_SETUP_FAILED, errno, "keep the mount for '%s'",
				s->binds[i].target);
		s->binds[i].fd = close_fd(s->binds[i].fd);
	}
	if (f->image.source_fd < 0)
		return 0;
	if (mount_attach(frame, "image", f->image.tree_fd) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "keep the mount of the image");
	close_fd(s->image_fd);
	s->image_fd = openat(frame, "image", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return s->image_fd < 0 ? err_set(e, R_IMAGE_INVALID, errno, "open the image") : 0;
}

int sources_open(struct sources *f, const struct sandbox *sb, struct err *e)
{
	bool root = sb->engine->root;

	if (begin(f, sb, e) < 0 || (root && open_all(f, sb, e) < 0) ||
		sources_enter(sb->engine, e) < 0)
		return -1;
	return root ? 0 : open_all(f, sb, e);
}
