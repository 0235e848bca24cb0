/* Owns the walk from an object to the root.  Called by the other files of this room. */
#include "launcher/chain.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/str.h"

int object_at(int dirfd, const char *name, struct object *ret)
{
	struct statx st;

	/* DONT_SYNC: identity doesn't change, so no server of a network file system need be asked */
	if (statx(dirfd, name,
		    AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		    STATX_TYPE | STATX_INO | STATX_MNT_ID, &st) < 0)
		return -1;
	*ret = (struct object){ .dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.ino = st.stx_ino,
		.mode = st.stx_mode,
		.mount = st.stx_mnt_id,
		.mount_root = st.stx_attributes & STATX_ATTR_MOUNT_ROOT };
	return 0;
}

static int push(struct chain *c, const struct object *o)
{
	if (c->n == CHAIN_MAX) {
		errno = ELOOP;
		return -1;
	}
	c->at[c->n++] = *o;
	return 0;
}

int chain_add(struct chain *c, int dir, uint64_t only_mount)
{
	_cleanup_close_ int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	unsigned first = c->n;

	while (at >= 0) {
		struct object o;
		int up;

		if (object_at(at, "", &o) < 0)
			return -1;
		if (c->n > first && same_object(&c->at[c->n - 1], &o) &&
			c->at[c->n - 1].mount == o.mount)
			return 0; /* the root is its own parent */
		if (only_mount && o.mount != only_mount)
			return 0;
		c->root = c->n;
		if (push(c, &o) < 0)
			return -1;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		at = close_fd(at);
		at = up;
	}
	return -1;
}

int chain_of(int fd, struct chain *c)
{
	_cleanup_close_ int dir = -1;
	char path[PATH_MAX];
	struct object o;

	c->n = c->root = 0;
	if (object_at(fd, "", &o) < 0)
		return -1;
	if (S_ISDIR(o.mode))
		return chain_add(c, fd, 0);
	path_of(fd, path);
	if (push(c, &o) < 0)
		return -1;
	dir = open_parent(path);
	return dir < 0 ? -1 : chain_add(c, dir, 0);
}

void path_of(int fd, char out[static PATH_MAX])
{
	char link[64];
	ssize_t n = readlink(FMT(link, "/proc/self/fd/%d", fd), out, PATH_MAX - 1);

	out[n > 0 && *out == '/' ? n : 0] = '\0';
}

int open_parent(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash) {
		errno = ENOENT;
		return -1;
	}
	*slash = '\0';
	return open(*path ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}
