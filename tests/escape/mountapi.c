/* The new mount API: a filter that knows only mount(2) leaves it open. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

static struct verdict child_open_tree(char **arg)
{
	return by_errno(
		syscall(SYS_open_tree, AT_FDCWD, arg[0], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}

static struct verdict do_open_tree(char **arg)
{
	return in_private_mounts(child_open_tree, arg);
}

static struct verdict child_fsopen(char **arg)
{
	return by_errno(syscall(SYS_fsopen, arg[0], FSOPEN_CLOEXEC));
}

static struct verdict do_fsopen(char **arg)
{
	return in_private_mounts(child_fsopen, arg);
}

static struct verdict child_move_mount(char **arg)
{
	long tree = syscall(SYS_open_tree, AT_FDCWD, arg[0], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int from = tree < 0 ? AT_FDCWD : (int)tree;

	return by_errno(syscall(SYS_move_mount, from, tree < 0 ? arg[0] : "", AT_FDCWD, arg[1],
		tree < 0 ? 0 : MOVE_MOUNT_F_EMPTY_PATH));
}

static struct verdict do_move_mount(char **arg)
{
	return in_private_mounts(child_move_mount, arg);
}

/* Clears 'read-only' on a mount; outside, on a copy that was made so first. */
static struct verdict child_setattr(char **arg)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY },
			  rw = { .attr_clr = MOUNT_ATTR_RDONLY };
	long tree = syscall(SYS_open_tree, AT_FDCWD, arg[0], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0)
		return by_errno(syscall(SYS_mount_setattr, AT_FDCWD, arg[0], 0, &rw, sizeof rw));
	if (syscall(SYS_mount_setattr, (int)tree, "", AT_EMPTY_PATH, &ro, sizeof ro) < 0)
		return by_errno(-1);
	return by_errno(syscall(SYS_mount_setattr, (int)tree, "", AT_EMPTY_PATH, &rw, sizeof rw));
}

static struct verdict do_setattr(char **arg)
{
	return in_private_mounts(child_setattr, arg);
}

static struct verdict child_fspick(char **arg)
{
	return by_errno(syscall(SYS_fspick, AT_FDCWD, arg[0], FSPICK_CLOEXEC));
}

static struct verdict do_fspick(char **arg)
{
	return in_private_mounts(child_fspick, arg);
}

const struct probe_case mountapi_cases[] = {
	{ .name = "open-tree",
		.about = "open_tree: clone a mount",
		.args = "/usr",
		.expect = "EPERM",
		.run = do_open_tree },
	{ .name = "fsopen",
		.about = "CVE-2022-0185: fsopen, the parser of mount options",
		.args = "tmpfs",
		.expect = "EPERM",
		.run = do_fsopen },
	{ .name = "move-mount",
		.about = "move_mount: attach a cloned mount elsewhere",
		.args = "/usr @WS@/dir",
		.expect = "EPERM",
		.run = do_move_mount },
	{ .name = "mount-setattr",
		.about = "mount_setattr: make a read-only mount writable",
		.args = "@RO@",
		.expect = "EPERM",
		.run = do_setattr },
	{ .name = "fspick",
		.about = "fspick: reconfigure a mounted file system",
		.args = "/proc",
		.expect = "EPERM",
		.run = do_fspick },
	{ .name = NULL },
};
