/* New and foreign namespaces, and the old mount calls.  Everything that changes mounts runs in a
 * child with a mount namespace of its own, so that the control leaves the host as it was. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static struct verdict child_unshare(char **arg)
{
	return by_errno(unshare((int)number(arg[0])));
}

static struct verdict do_unshare(char **arg)
{
	return in_child(child_unshare, arg);
}

/* A raw clone as fork: the child has the parent's stack, copied. */
static struct verdict do_clone(char **arg)
{
	long pid = syscall(SYS_clone, number(arg[0]) | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return by_errno(pid);
}

static struct verdict do_clone3(char **arg)
{
	struct clone_args a = { .flags = number(arg[0]), .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &a, sizeof a);

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return by_errno(pid);
}

static struct verdict child_setns(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_CLOEXEC);

	return fd < 0 ? by_errno(-1) : by_errno(setns(fd, 0));
}

static struct verdict do_setns(char **arg)
{
	return in_child(child_setns, arg);
}

static struct verdict child_mount(char **arg)
{
	return by_errno(mount("none", arg[1], arg[0], 0, NULL));
}

static struct verdict do_mount(char **arg)
{
	return in_private_mounts(child_mount, arg);
}

static struct verdict child_bind(char **arg)
{
	return by_errno(mount(arg[0], arg[1], NULL, MS_BIND | MS_REC, NULL));
}

static struct verdict do_bind(char **arg)
{
	return in_private_mounts(child_bind, arg);
}

static struct verdict child_umount(char **arg)
{
	return by_errno(umount2(arg[0], MNT_DETACH));
}

static struct verdict do_umount(char **arg)
{
	return in_private_mounts(child_umount, arg);
}

/* Outside, the directory is first made what it is inside: a read-only mount. */
static struct verdict child_remount(char **arg)
{
	struct statvfs s;

	if (statvfs(arg[0], &s) < 0)
		return broken("statvfs");
	if (!(s.f_flag & ST_RDONLY) &&
		(mount(arg[0], arg[0], NULL, MS_BIND, NULL) < 0 ||
			mount(NULL, arg[0], NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0))
		return by_errno(-1);
	return by_errno(mount(NULL, arg[0], NULL, MS_REMOUNT | MS_BIND, NULL));
}

static struct verdict do_remount(char **arg)
{
	return in_private_mounts(child_remount, arg);
}

static struct verdict child_pivot(char **arg)
{
	if (mount(arg[0], arg[0], NULL, MS_BIND | MS_REC, NULL) == 0 && chdir(arg[0]) < 0)
		return broken("chdir");
	return by_errno(syscall(SYS_pivot_root, ".", "."));
}

static struct verdict do_pivot(char **arg)
{
	return in_private_mounts(child_pivot, arg);
}

static struct verdict child_chroot(char **arg)
{
	return by_errno(chroot(arg[0]));
}

static struct verdict do_chroot(char **arg)
{
	return in_private_mounts(child_chroot, arg);
}

const struct probe_case ns_cases[] = {
	{ .name = "unshare-user",
		.about = "Nested user namespace by unshare: a whole new attack surface",
		.args = "0x10000000",
		.expect = "EPERM",
		.run = do_unshare },
	{ .name = "unshare-user-mount",
		.about = "CVE-2022-0185 and others: user and mount namespace by unshare",
		.args = "0x10020000",
		.expect = "EPERM",
		.run = do_unshare },
	{ .name = "unshare-net",
		.about = "User and network namespace by unshare (nf_tables and its CVEs)",
		.args = "0x50000000",
		.expect = "EPERM",
		.run = do_unshare },
	{ .name = "unshare-cgroup",
		.about = "CVE-2022-0492: user and cgroup namespace by unshare",
		.args = "0x12000000",
		.expect = "EPERM",
		.run = do_unshare },
	{ .name = "clone-user",
		.about = "Nested user namespace by clone",
		.args = "0x10000000",
		.expect = "EPERM",
		.run = do_clone },
	{ .name = "clone3-user",
		.about = "Nested user namespace by clone3, whose flags a filter can't read",
		.args = "0x10000000",
		.expect = "ENOSYS",
		.run = do_clone3 },
	{ .name = "setns-own",
		.about = "setns: needs a capability that a sandbox must not have",
		.args = "/proc/self/ns/uts",
		.expect = "EPERM",
		.run = do_setns },
	{ .name = "setns-outsider",
		.about = "setns into the namespaces of a host process",
		.args = "/proc/@HELPER@/ns/net",
		.expect = "ENOENT",
		.run = do_setns },
	{ .name = "setns-init",
		.about = "setns into the network namespace of PID 1",
		.args = "/proc/<@HELPER@|1>/ns/net",
		.expect = "EACCES",
		.run = do_setns },
	{ .name = "mount-tmpfs",
		.about = "Mount a tmpfs",
		.args = "tmpfs @WS@/dir",
		.expect = "EPERM",
		.run = do_mount },
	{ .name = "mount-proc",
		.about = "Mount a fresh proc without the masks",
		.args = "proc @WS@/dir",
		.expect = "EPERM",
		.run = do_mount },
	{ .name = "mount-sysfs",
		.about = "Mount sysfs",
		.args = "sysfs @WS@/dir",
		.expect = "EPERM",
		.run = do_mount },
	{ .name = "mount-cgroup",
		.about = "CVE-2022-0492: mount a cgroup hierarchy",
		.args = "cgroup2 @WS@/dir",
		.expect = "EPERM",
		.run = do_mount },
	{ .name = "mount-bind",
		.about = "Bind the root over the workspace",
		.args = "/ @WS@/dir",
		.expect = "EPERM",
		.run = do_bind },
	{ .name = "umount-masks",
		.about = "Take the masks off by unmounting",
		.args = "/proc",
		.expect = "EPERM",
		.run = do_umount },
	{ .name = "remount-rw",
		.about = "Make a read-only mount writable",
		.args = "@RO@",
		.expect = "EPERM",
		.run = do_remount },
	{ .name = "remount-usr-rw",
		.about = "Make the host's /usr writable",
		.args = "/usr",
		.expect = "EPERM",
		.run = do_remount },
	{ .name = "pivot-root",
		.about = "Change the root by pivot_root",
		.args = "@WS@/dir",
		.expect = "EPERM",
		.run = do_pivot },
	{ .name = "chroot",
		.about = "chroot, to walk out with an open directory",
		.args = "@WS@/dir",
		.expect = "EPERM",
		.run = do_chroot },
	{ .name = NULL },
};
