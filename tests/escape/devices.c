/* Devices: making nodes, and what the sandbox's own /dev must not hold. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "probe.h"

static struct verdict make_and_read(const char *path, mode_t type, dev_t dev)
{
	if (syscall(SYS_mknod, path, type | 0600, dev) < 0)
		return by_errno(-1);
	struct verdict v = steal(path);

	(void)unlink(path);
	return v;
}

static struct verdict mknod_char(char **arg)
{
	return make_and_read(arg[0], S_IFCHR, makedev(1, 5));
}

static struct verdict mknod_block(char **arg)
{
	char *rest;
	unsigned major = (unsigned)strtoumax(arg[1], &rest, 10);

	if (major == 0 || *rest != ':')
		return blocked("no-block-device");
	return make_and_read(arg[0], S_IFBLK, makedev(major, (unsigned)number(rest + 1)));
}

static struct verdict open_device(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd < 0 ? by_errno(-1) : success("opened");
}

/* Sets mode, or times, to what they are: the host's node is the same object. */
static struct verdict chmod_device(char **arg)
{
	struct stat st;

	if (stat(arg[0], &st) < 0)
		return broken("stat");
	return by_errno(chmod(arg[0], st.st_mode & 0777));
}

static struct verdict touch_device(char **arg)
{
	struct stat st;

	if (stat(arg[0], &st) < 0)
		return broken("stat");
	return by_errno(utimensat(
		AT_FDCWD, arg[0], (const struct timespec[2]){ st.st_atim, st.st_mtim }, 0));
}

const struct probe_case devices_cases[] = {
	{ .name = "mknod-char",
		.about = "Make a character device node",
		.args = "@WS@/node",
		.expect = "EPERM",
		.run = mknod_char },
	{ .name = "mknod-block",
		.about = "Make the node of the disk under the workspace and read it",
		.args = "@WS@/node @DISK@",
		.expect = "EPERM",
		.run = mknod_block },
	{ .name = "chmod-dev-null",
		.about = "Change the mode of /dev/null",
		.args = "/dev/null",
		.options = "--user 0",
		.expect = "EROFS",
		.run = chmod_device },
	{ .name = "touch-dev-null",
		.about = "Change the times of /dev/null",
		.args = "/dev/null",
		.options = "--user 0",
		.expect = "EROFS",
		.run = touch_device },
	{ .name = "dev-kmsg",
		.about = "Open the kernel's log",
		.args = "/dev/kmsg",
		.expect = "ENOENT",
		.run = open_device },
	{ .name = "dev-mem",
		.about = "Open physical memory",
		.args = "/dev/mem",
		.expect = "ENOENT",
		.run = open_device },
	{ .name = "dev-fuse",
		.about = "Open /dev/fuse",
		.args = "/dev/fuse",
		.expect = "ENOENT",
		.run = open_device },
	{ .name = "dev-kvm",
		.about = "Open /dev/kvm",
		.args = "/dev/kvm",
		.expect = "ENOENT",
		.run = open_device },
	{ .name = "dev-console",
		.about = "Open the machine's console",
		.args = "/dev/console",
		.expect = "ENOENT|EACCES",
		.run = open_device },
	{ .name = "dev-vsock",
		.about = "Open /dev/vsock",
		.args = "/dev/vsock",
		.expect = "ENOENT",
		.run = open_device },
	{ .name = NULL },
};
