/* The layers of a container as its daemon keeps them on this machine: read as they are, they say more than its list of changes,
 * which has no names beside UTF-8, no sockets and no holes.  Called by changes.c in a worker that the owner forked for it.
 *
 * Only root can, of Docker's and Podman's overlay store where no layer refers to data of another one; else the daemon is asked. */
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/changes.h"
#include "engine/docker/docker.h"
#include "engine/worker.h"

/* A read-only mount of its own: nothing above it can be reached. */
static int view(const char *path)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
			MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (fd < 0)
		return -1;
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
		fd = close_fd(fd);
	return fd;
}

static int empty_root(void)
{
	_cleanup_close_ int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY);
}

static bool add(struct changes_side *list, unsigned *n, unsigned max, const char *path)
{
	if (*n == max)
		return false;
	list[*n] = (struct changes_side){ view(path), 0 };
	return list[(*n)++].fd >= 0;
}

/* "A:B:C", the uppermost first.  Docker's own layer of mount points comes before those that a container was made from; of
 * these the first ones are what forks left. */
static bool add_lower(struct changes_place *p, char *dirs, unsigned own)
{
	char *save = NULL;

	for (char *dir = strtok_r(dirs, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		const size_t n = strlen(dir);
		const bool init = n > 10 && streq(dir + n - 10, "-init/diff");

		if (dir[0] != '/')
			return false;
		if (!init && own) {
			own--;
			if (!add(p->writable, &p->n_writable, CHANGES_WRITABLE, dir))
				return false;
		} else if (!add(p->lower, &p->n_lower, CHANGES_LOWER, dir)) {
			return false;
		}
	}
	return !own;
}

const char *trees_upper(const struct sandbox *sb, const json_t *there, const char **ret_lower)
{
	const json_t *driver = json_object_get(there, "GraphDriver"),
		     *data = json_object_get(driver, "Data");
	const char *name = docker_json_text(driver, "Name"),
		   *upper = docker_json_text(data, "UpperDir");

	if (geteuid() != 0 || !docker_is_local(sb->engine->docker) || !name || !upper ||
		upper[0] != '/' || (!streq(name, "overlay2") && !streq(name, "overlay")))
		return NULL;
	if (ret_lower)
		*ret_lower = docker_json_text(data, "LowerDir");
	return upper;
}

static bool open_layers(const struct sandbox *sb, const json_t *there, struct changes_place *p)
{
	const char *lower = NULL, *upper = trees_upper(sb, there, &lower);
	_cleanup_free_ char *dirs = lower ? xstrdup(lower) : NULL;

	return upper && dirs && add(p->writable, &p->n_writable, CHANGES_WRITABLE, upper) &&
		add_lower(p, dirs, sb->layers - (sb->rebased ? 1 : 0));
}

/* Where Docker maps ids, the one that is root inside owns the layer of mount points, which no image has a say in.  Podman maps
 * none for root. */
static void find_ids(const struct sandbox *sb, struct changes_place *p)
{
	struct stat st;
	const bool maps = !sb->engine->info.podman && p->n_lower;
	const uid_t base = maps && fstat(p->lower[0].fd, &st) == 0 ? st.st_uid : 0;

	for (unsigned i = 0; i < p->n_writable; i++)
		p->writable[i].ids = base;
	for (unsigned i = 0; i < p->n_lower; i++)
		p->lower[i].ids = base;
}

static int confine(const struct sandbox *sb, const struct changes_place *p, int out, struct err *e)
{
	const struct worker_walls walls = {
		.empty = empty_root(), .root = true, .uid = docker_channel_uid(sb), .trusted = true
	};
	int keep[CHANGES_FDS];

	if (walls.empty < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make an empty directory");
	return worker_confine(&walls, keep, changes_fds(p, out, keep), e);
}

static bool is_hidden(const void *arg, const char *path)
{
	return docker_made(arg, path);
}

int trees_changes(const struct sandbox *sb, const json_t *there, int out, bool content,
	bool *ret_done, struct err *e)
{
	struct changes_place top = { .n_writable = 0 };
	const struct changes_how how = { .out = out,
		.content = content,
		.own = true,
		.ids = UINT32_MAX,
		.marks = MARKS_TRUSTED,
		.left = sb->spec->disk_bytes * CHANGES_GROWTH * (sb->layers + 1),
		.hidden = is_hidden,
		.arg = sb->spec };
	int r;

	*ret_done = sb->engine->info.plain_layers && open_layers(sb, there, &top);
	if (!*ret_done) {
		changes_place_done(&top);
		return 0;
	}
	find_ids(sb, &top);
	r = confine(sb, &top, out, e);
	if (r == 0)
		r = changes_write(&top, &how, e);
	changes_place_done(&top);
	return r;
}
