/* What a container's own layer takes on the daemon's disk.  Called by session.c.
 *
 * The daemon's SizeRw counts a file with holes by its length.  Where its overlay store can be read here, blocks are counted.
 * Must hold: whatever lies in the layer is the workload's, so nothing is opened but directories, and no link is followed. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "engine/docker/docker.h"
#include "engine/overlay.h"

enum { DEPTH_MAX = 200, BLOCK = 512 };

/* False: it can't be told.  Takes the descriptor. */
static bool add_dir(int fd, unsigned depth, uint64_t *sum) // NOLINT(misc-no-recursion): bounded
{
	_cleanup_closedir_ DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *f;
	struct stat st;

	if (!dir) {
		(void)close_fd(fd);
		return errno == ENOENT;
	}
	if (depth == DEPTH_MAX)
		return false;
	while ((f = readdir(dir))) {
		if (layer_is_dot(f->d_name) ||
			fstatat(dirfd(dir), f->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		/* each of its names has a share of it */
		*sum += (uint64_t)st.st_blocks * BLOCK /
			(S_ISDIR(st.st_mode) || !st.st_nlink ? 1 : st.st_nlink);
		if (S_ISDIR(st.st_mode) &&
			!add_dir(openat(dirfd(dir), f->d_name,
					 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
				depth + 1, sum))
			return false;
	}
	return true;
}

bool docker_usage(const struct sandbox *sb, const json_t *there, uint64_t *ret)
{
	const char *upper = trees_upper(sb, there, NULL);
	uint64_t sum = 0;
	int fd;

	if (!upper)
		return false;
	fd = open(upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !add_dir(fd, 0, &sum))
		return false;
	*ret = sum;
	return true;
}
