/* Owns what a sandbox's root has before anything of an image or the host is in it: the files of /etc that say who the machine
 * and its users are, and the base layer of a sandbox that lives: reserved directories and mount points.  Called by child.c for
 * one command, by layers.c for a sandbox that lives.  In the base every reserved directory is a real one, so that whatever an
 * image has in its place is hidden. */
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

const char *const reserved_dirs[] = { "dev", "proc", "sys", "run", "tmp", "etc", "home" };
const unsigned n_reserved_dirs = sizeof reserved_dirs / sizeof *reserved_dirs;

static int put_file(int root, const char *path, mode_t mode, const char *text)
{
	_cleanup_close_ int fd = openat(root, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);

	return fd < 0 ? -1 : write_all(fd, text, strlen(text));
}

static int put_users(int root, const struct sandbox_spec *s, mode_t mode)
{
	char text[1024];

	if (s->uid == 0)
		FMT(text,
			"root:x:0:0:root:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
			s->home);
	else
		FMT(text,
			"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:%u:%u:agent:%s:/bin/sh\n"
			"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
			s->uid, s->gid, s->home);
	if (put_file(root, "etc/passwd", mode, text) < 0 ||
		put_file(root, "etc/group", mode,
			FMT(text, "root:x:0:\ntty:x:5:\nagent:x:%u:\nnogroup:x:65534:\n", s->gid)) <
			0)
		return -1;
	return put_file(root, "etc/nsswitch.conf", mode,
		"passwd: files\ngroup: files\nhosts: files\nservices: files\n");
}

int skeleton_etc(int root, const struct sandbox_spec *s, mode_t mode)
{
	char text[256], id[34];
	uint64_t random[2];

	if (s->image_fd < 0 && put_users(root, s, mode) < 0)
		return -1;
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return -1;
	FMT(id, "%016llx%016llx\n", (unsigned long long)random[0], (unsigned long long)random[1]);
	FMT(text, "127.0.0.1\tlocalhost %s\n::1\tlocalhost\n", s->hostname);
	if (put_file(root, "etc/hosts", mode, text) < 0 ||
		put_file(root, "etc/machine-id", 0444, id) < 0)
		return -1;
	return put_file(root, "etc/hostname", mode, FMT(text, "%s\n", s->hostname));
}

/* --- the base ------------------------------------------------------------------------------------------------------- */

struct base {
	const struct sandbox *sb;
	int fd; /* of base/ */
	struct err *e;
};

static int give(const struct base *b, const char *name, uid_t uid, gid_t gid)
{
	return !b->sb->engine->root ||
			fchownat(b->fd, name, layers_uid(b->sb, uid), layers_gid(b->sb, gid),
				AT_SYMLINK_NOFOLLOW) == 0
		? 0
		: -1;
}

/* The mode is not masked here: layers_make_base(). */
static int put_dir(const struct base *b, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	if (mkdirat(b->fd, name, mode) < 0)
		return errno == EEXIST ? 0 : -1;
	if (give(b, name, uid, gid) < 0)
		return -1;
	/* what mkdir does not make */
	return mode & (S_ISUID | S_ISGID) ? fchmodat(b->fd, name, mode, 0) : 0;
}

/* The mode and owner that the image gives a directory, which base would else hide: 1, or 0 when the image has none there.
 * A link in the image, or something else than a directory, on the way to a mount's target is refused. */
static int look_in_image(const struct base *b, const char *path, struct stat *ret)
{
	_cleanup_close_ int fd = -1;
	int image = b->sb->spec->image_fd;

	if (image < 0)
		return 0;
	fd = sys_openat2(image, path, O_PATH | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	if (fstat(fd, ret) < 0)
		return -1;
	if (S_ISLNK(ret->st_mode)) {
		errno = ELOOP;
		return -1;
	}
	return 1;
}

static int put_place(const struct base *b, const char *path, bool dir)
{
	struct stat st = { .st_mode = 0755 };
	int there = look_in_image(b, path, &st);

	if (there < 0)
		return -1;
	if (there && dir && !S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return -1;
	}
	if (dir)
		return put_dir(b, path, st.st_mode & 07777,
			there && st.st_uid < NATIVE_ID_MAPPED ? st.st_uid : 0,
			there && st.st_gid < NATIVE_ID_MAPPED ? st.st_gid : 0);
	if (there)
		return 0;
	if (mknodat(b->fd, path, S_IFREG | 0444, 0) < 0)
		return errno == EEXIST ? 0 : -1;
	return give(b, path, 0, 0);
}

/* A mount point and the directories that lead to it, so that a boot has nothing to make in the writable layer. */
static int put_target(const struct base *b, const char *target, bool dir)
{
	char path[SPEC_MAX_TARGET];

	str_format(path, sizeof path, "%s", target);
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		int r;

		*slash = '\0';
		r = put_place(b, path, true);
		*slash = '/';
		if (r < 0)
			return -1;
	}
	return put_place(b, path, dir);
}

/* On a tmpfs of each boot: nothing to be made here. */
static bool on_tmpfs(const char *target)
{
	static const char *const made[] = { "dev", "run", "tmp" };

	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		const char *rest = str_after(target, made[i]);

		if (rest && (*rest == '\0' || *rest == '/'))
			return true;
	}
	return false;
}

static int put_targets(const struct base *b, const struct tree_plan *p)
{
	const struct sandbox_spec *s = b->sb->spec;

	for (unsigned i = 0; i < p->n_links; i++)
		if (symlinkat(p->links[i].target, b->fd, p->links[i].name) < 0 ||
			give(b, p->links[i].name, 0, 0) < 0)
			return err_set(
				b->e, R_SETUP_FAILED, errno, "make link '/%s'", p->links[i].name);
	for (unsigned i = 0; i < p->n; i++)
		if (!on_tmpfs(p->trees[i].target) &&
			put_target(b, p->trees[i].target, p->trees[i].kind == TREE_DIR) < 0)
			return err_set(b->e, R_SETUP_FAILED, errno, "make mount point '/%s'",
				p->trees[i].target);
	for (unsigned i = 0; i < s->n_binds; i++)
		if (!on_tmpfs(s->binds[i].target + 1) &&
			put_target(b, s->binds[i].target + 1, s->binds[i].kind == BIND_DIR) < 0)
			return err_set(b->e, R_MOUNT_TARGET_INVALID, errno, "make mount point '%s'",
				s->binds[i].target);
	return 0;
}

static int put_etc(const struct base *b)
{
	static const char *const files[] = { "etc/passwd", "etc/group", "etc/nsswitch.conf",
		"etc/hosts", "etc/machine-id", "etc/hostname" };

	if (skeleton_etc(b->fd, b->sb->spec, 0644) < 0)
		return -1;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (give(b, files[i], 0, 0) < 0 && errno != ENOENT)
			return -1;
	return 0;
}

/* The places for what the host shows are known from the plan of a boot. */
static int put_all(const struct base *b, struct tree_plan *plan)
{
	const struct sandbox_spec *s = b->sb->spec;
	const struct tree_options options = {
		.recursive = !b->sb->engine->root, .idmap_fd = -1, .layered = true, .held = true
	};

	for (unsigned i = 0; i < n_reserved_dirs; i++)
		if (put_dir(b, reserved_dirs[i],
			    streq(reserved_dirs[i], "tmp")            ? 01777
				    : streq(reserved_dirs[i], "proc") ? 0555
								      : 0755,
			    0, 0) < 0)
			return err_set(b->e, R_SETUP_FAILED, errno, "make directory '/%s'",
				reserved_dirs[i]);
	if (put_etc(b) < 0)
		return err_set(b->e, R_SETUP_FAILED, errno, "write the files of '/etc'");
	if (put_target(b, s->home + 1, true) < 0 || give(b, s->home + 1, s->uid, s->gid) < 0 ||
		fchmodat(b->fd, s->home + 1, 0700, 0) < 0 ||
		put_dir(b, "workspace", 0755, s->uid, s->gid) < 0)
		return err_set(
			b->e, R_SETUP_FAILED, errno, "make the home and workspace directories");
	if (trees_plan(plan, s, &options, b->e) < 0)
		return -1;
	return put_targets(b, plan);
}

int layers_make_base(const struct sandbox *sb, struct err *e)
{
	struct base b = { .sb = sb, .fd = -1, .e = e };
	_cleanup_close_ int fd = -1;
	struct tree_plan *plan;
	mode_t mask;
	int r;

	if (mkdirat(sb->layers.frame, "base", 0755) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make the base of the root");
	fd = openat(sb->layers.frame, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (sb->engine->root && fchown(fd, layers_uid(sb, 0), layers_gid(sb, 0)) < 0) ||
		fchmod(fd, 0755) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make the base of the root");
	b.fd = fd;
	plan = malloc(sizeof *plan);
	if (!plan)
		abort();
	plan->n = plan->n_links = 0;
	mask = umask(0);
	r = put_all(&b, plan);
	(void)umask(mask);
	trees_done(plan);
	free(plan);
	return r;
}
