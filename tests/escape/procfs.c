/* /proc and /sys: files that act on, or tell about, the whole machine.  Controls open for writing
 * and write nothing. */
#include <stdio.h>
#include <unistd.h>

#include "probe.h"

static struct verdict read_it(char **arg)
{
	return steal(arg[0]);
}

static struct verdict write_it(char **arg)
{
	return open_to_write(arg[0]);
}

#define READ(n, path, errnos) \
	{ .name = n, .about = "Read " path, .args = path, .expect = errnos, .run = read_it }
#define WRITE(n, path, errnos) \
	{ .name = n, \
		.about = "Open " path " for writing", \
		.args = path, \
		.expect = errnos, \
		.run = write_it }

const struct probe_case procfs_cases[] = {
	READ("proc-kcore", "/proc/kcore", "ENOENT|EACCES|EPERM|empty"),
	READ("proc-keys", "/proc/keys", "ENOENT|EACCES|empty"),
	READ("proc-timer-list", "/proc/timer_list", "ENOENT|EACCES|empty"),
	READ("proc-kpagecount", "/proc/kpagecount", "ENOENT|EACCES|EPERM|empty"),
	READ("sys-firmware", "/sys/firmware/memmap/0/start", "ENOENT"),
	READ("sys-kernel", "/sys/kernel/mm/transparent_hugepage/enabled", "ENOENT"),
	WRITE("sysrq", "/proc/sysrq-trigger", "ENOENT|EACCES|EROFS"),
	WRITE("proc-sys-vm", "/proc/sys/vm/drop_caches", "EACCES"),
	WRITE("core-pattern", "/proc/sys/kernel/core_pattern", "EACCES"),
	WRITE("modprobe-path", "/proc/sys/kernel/modprobe", "EACCES"),
	WRITE("binfmt-misc", "/proc/sys/fs/binfmt_misc/register", "ENOENT|EACCES|EROFS"),
	WRITE("proc-irq", "/proc/irq/default_smp_affinity", "EACCES"),
	WRITE("proc-hostname", "/proc/sys/kernel/hostname", "EACCES"),
	WRITE("uevent-helper", "/sys/kernel/uevent_helper", "ENOENT"),
	{ .name = "cgroup-procs",
		.about = "Leave the limits: write the parent cgroup's cgroup.procs",
		.args = "@CGPROCS@",
		.expect = "ENOENT",
		.run = write_it },
	{ .name = "release-agent",
		.about = "CVE-2022-0492: name a program that the host runs as root",
		.args = "@RELEASEAGENT@",
		.expect = "ENOENT",
		.run = write_it },
	{ .name = NULL },
};
