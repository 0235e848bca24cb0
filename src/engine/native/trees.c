/* Owns the plan of what of the host is shown inside, and the detached mounts made from it.
 *
 * A source is opened once, by the caller, and used as a descriptor.  As root the clone is made from that descriptor in the
 * parent.  A normal user may clone mounts only inside the new namespaces, where descriptors from outside are foreign: there
 * the path behind the descriptor is opened again and must be the same object (device and inode), else it is refused.
 * An image never provides /proc, /sys, /dev, /run, /tmp or /home: a planted link in their place is not even looked at
 * (CVE-2025-31133 and its kind). */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

struct tree *tree_add(struct tree_plan *p, const char *target, struct err *e)
{
	struct tree *t;

	if (p->n == NATIVE_MAX_TREES || strlen(target) >= sizeof t->target) {
		(void)err_set(e, R_IMAGE_INVALID, 0, "plan mount '%s': over %d mounts or too long",
			target, NATIVE_MAX_TREES);
		return NULL;
	}
	t = &p->trees[p->n++];
	memset(t, 0, sizeof *t);
	t->source_fd = t->idmap_fd = t->tree_fd = -1;
	str_format(t->target, sizeof t->target, "%s", target);
	return t;
}

static int note_path(struct tree *t, struct err *e)
{
	char link[64], path[PATH_MAX];
	ssize_t n = readlink(FMT(link, "/proc/self/fd/%d", t->source_fd), path, sizeof path - 1);

	if (n < 0)
		return err_set(e, R_SETUP_FAILED, errno, "find the path of '/%s'", t->target);
	path[n] = '\0';
	t->source_path = xstrdup(path);
	return 0;
}

static int add_link(
	struct tree_plan *p, int dirfd, const char *path, const char *name, struct err *e)
{
	ssize_t n;

	if (p->n_links == sizeof p->links / sizeof *p->links ||
		strlen(name) >= sizeof p->links->name)
		return err_set(e, R_IMAGE_INVALID, 0,
			"plan link '%s': too many links or too long a name", name);
	n = readlinkat(dirfd, path, p->links[p->n_links].target, sizeof p->links->target - 1);
	if (n < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "read link '%s'", path);
	p->links[p->n_links].target[n] = '\0';
	str_format(p->links[p->n_links].name, sizeof p->links->name, "%s", name);
	p->n_links++;
	return 0;
}

/* A fixed path of the host's that may be absent: links stay links, the rest is bound read-only. */
static int add_host(struct tree_plan *p, const char *path, bool recursive, struct err *e)
{
	struct stat st;
	struct tree *t;

	if (lstat(path, &st) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		return add_link(p, AT_FDCWD, path, path + 1, e);
	t = tree_add(p, path + 1, e);
	if (!t)
		return -1;
	t->path = path;
	t->kind = S_ISDIR(st.st_mode) ? TREE_DIR : TREE_FILE;
	t->recursive = recursive && t->kind == TREE_DIR;
	return 0;
}

static int plan_host(struct tree_plan *p, bool recursive, struct err *e)
{
	/* /etc: what programs need to start, resolve alternatives and verify certificates, and nothing that tells of the host */
	static const char *const paths[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
		"/libx32", "/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs",
		"/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
		"/etc/localtime" };

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (add_host(p, paths[i], recursive, e) < 0)
			return -1;
	return 0;
}

static bool made_by_sandbox(const char *name)
{
	static const char *const names[] = { ".", "..", "proc", "sys", "dev", "run", "tmp", "home",
		"workspace" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (streq(name, names[i]))
			return true;
	return false;
}

static int add_image_entry(
	struct tree_plan *p, int image, const char *name, bool recursive, struct err *e)
{
	_cleanup_close_ int fd = openat(image, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	struct tree *t;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "open '%s' in the image", name);
	if (S_ISLNK(st.st_mode))
		return add_link(p, image, name, name, e);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return 0;
	t = tree_add(p, name, e);
	if (!t)
		return -1;
	t->kind = S_ISDIR(st.st_mode) ? TREE_DIR : TREE_FILE;
	t->source_fd = move_fd(&fd);
	t->own_source = true;
	t->recursive = recursive && t->kind == TREE_DIR;
	return 0;
}

static int plan_image(struct tree_plan *p, int image, bool recursive, struct err *e)
{
	_cleanup_closedir_ DIR *d = NULL;
	int fd = openat(image, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "open the image directory");
	d = fdopendir(fd);
	if (!d) {
		fd = close_fd(fd);
		return err_set(e, R_IMAGE_INVALID, errno, "read the image directory");
	}
	for (;;) {
		struct dirent *entry = readdir(d);

		if (!entry)
			return 0;
		if (!made_by_sandbox(entry->d_name) &&
			add_image_entry(p, image, entry->d_name, recursive, e) < 0)
			return -1;
	}
}

static int plan_devices(struct tree_plan *p, struct err *e)
{
	static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
		"/dev/urandom", "/dev/tty" };

	for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
		struct tree *t = tree_add(p, devices[i] + 1, e);

		if (!t)
			return -1;
		t->kind = TREE_FILE;
		t->path = devices[i];
		t->device =
			true; /* read-only: a device can be written to all the same, its inode can't */
	}
	return 0;
}

static int plan_binds(struct tree_plan *p, const struct sandbox_spec *s, bool recursive,
	int idmap_fd, struct err *e)
{
	for (unsigned i = 0; i < s->n_binds; i++) {
		const struct spec_bind *b = &s->binds[i];
		struct tree *t = tree_add(p, b->target + 1, e);

		if (!t)
			return -1;
		t->kind = b->kind == BIND_DIR ? TREE_DIR : TREE_FILE;
		t->source_fd = b->fd;
		t->writable = b->writable;
		t->recursive = recursive && t->kind == TREE_DIR;
		t->idmap_fd = b->idmap ? idmap_fd : -1;
		t->index = i;
		if (note_path(t, e) < 0)
			return -1;
	}
	return 0;
}

/* The terminal was made outside, so it has no name in the sandbox's own /dev/pts; at /dev/console ttyname(3) finds it. */
static int plan_console(struct tree_plan *p, int terminal_fd, struct err *e)
{
	struct tree *t = tree_add(p, "dev/console", e);

	if (!t)
		return -1;
	t->kind = TREE_FILE;
	t->source_fd = fcntl(terminal_fd, F_DUPFD_CLOEXEC, 3);
	t->own_source = t->device = t->writable = true;
	return t->source_fd < 0 ? err_set(e, R_SETUP_FAILED, errno, "keep the terminal") : 0;
}

int trees_plan(struct tree_plan *p, const struct sandbox_spec *s, const struct tree_options *o,
	struct err *e)
{
	int r = 0;

	if (s->image_fd < 0)
		r = plan_host(p, o->recursive, e);
	else if (!o->layered)
		r = plan_image(p, s->image_fd, o->recursive, e);

	if (r < 0 || plan_devices(p, e) < 0 ||
		(s->terminal && plan_console(p, o->terminal_fd, e) < 0))
		return -1;
	for (unsigned i = 0; i < p->n; i++)
		if (p->trees[i].own_source && note_path(&p->trees[i], e) < 0)
			return -1;
	return o->held ? 0 : plan_binds(p, s, o->recursive, o->idmap_fd, e);
}

/* The same object again, found by its path inside the new mount namespace; negative errno. */
static int reopen(const struct tree *t, bool *ret_changed)
{
	struct stat was, is;
	int fd = open(t->source_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && fstat(t->source_fd, &was) == 0 && fstat(fd, &is) == 0 &&
		was.st_dev == is.st_dev && was.st_ino == is.st_ino)
		return fd;
	*ret_changed = true;
	fd = close_fd(fd);
	return -ESTALE;
}

/* What clone_source works on: the caller's descriptor, or the object behind it found again. */
static int clone_source(struct tree *t, bool again, bool *ret_changed)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_NO_AUTOMOUNT;
	_cleanup_close_ int again_fd = -1;

	if (t->recursive)
		flags |= AT_RECURSIVE;
	if (t->path) {
		t->tree_fd = (int)syscall(SYS_open_tree, AT_FDCWD, t->path, flags);
		return t->tree_fd < 0 ? -errno : 0;
	}
	if (again) {
		again_fd = reopen(t, ret_changed);
		if (again_fd < 0)
			return again_fd;
	}
	t->tree_fd = (int)syscall(
		SYS_open_tree, again ? again_fd : t->source_fd, "", flags | AT_EMPTY_PATH);
	return t->tree_fd < 0 ? -errno : 0;
}

/* Never trust the name: what will be /dev/null inside must be the device that the kernel calls null. */
static int check_device(const struct tree *t)
{
	static const struct {
		const char *path;
		unsigned major, minor;
	} known[] = { { "/dev/null", 1, 3 }, { "/dev/zero", 1, 5 }, { "/dev/full", 1, 7 },
		{ "/dev/random", 1, 8 }, { "/dev/urandom", 1, 9 }, { "/dev/tty", 5, 0 } };
	struct stat st;

	if (fstat(t->tree_fd, &st) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (streq(known[i].path, t->path) && S_ISCHR(st.st_mode) &&
			st.st_rdev == (((dev_t)known[i].major << 8) | known[i].minor))
			return 0;
	return -ENODEV;
}

int tree_open(struct tree *t, bool again, bool *ret_changed)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | (t->device ? 0u : MOUNT_ATTR_NODEV) |
			(t->writable ? 0u : MOUNT_ATTR_RDONLY),
		/* a clone of a shared mount would show what the host mounts there later */
		.propagation = MS_PRIVATE,
	};
	unsigned flags = AT_EMPTY_PATH | (t->recursive ? AT_RECURSIVE : 0u);
	int r = clone_source(t, again, ret_changed);

	if (r < 0)
		return r;
	if (t->path && t->device) {
		r = check_device(t);
		if (r < 0)
			return r;
	}
	if (t->idmap_fd >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (unsigned long long)t->idmap_fd;
	}
	if (syscall(SYS_mount_setattr, t->tree_fd, "", flags, &attr, sizeof attr) < 0)
		return -errno;
	return 0;
}

void trees_done(struct tree_plan *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		p->trees[i].tree_fd = close_fd(p->trees[i].tree_fd);
		if (p->trees[i].own_source)
			p->trees[i].source_fd = close_fd(p->trees[i].source_fd);
		free(p->trees[i].source_path);
	}
	p->n = p->n_links = 0;
}
