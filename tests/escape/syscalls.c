/* System calls that widen the kernel's attack surface or act on the whole machine.  Controls that
 * would change the machine set what is already set, or hand over nonsense and look which check
 * answers. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/personality.h>
#include <sys/quota.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static struct verdict do_io_uring(char **arg)
{
	struct io_uring_params p = { .flags = 0 };

	(void)arg;
	return by_errno(syscall(SYS_io_uring_setup, 4, &p));
}

static struct verdict do_bpf(char **arg)
{
	enum {
		MAP_CREATE = 0,
		TYPE_ARRAY = 2
	}; /* <linux/bpf.h> uses functions that banned.h forbids */
	struct {
		uint32_t map_type, key_size, value_size, max_entries;
	} a = { TYPE_ARRAY, 4, 4, 1 };

	(void)arg;
	return by_errno(syscall(SYS_bpf, MAP_CREATE, &a, sizeof a));
}

static struct verdict do_perf(char **arg)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_CPU_CLOCK
	};

	(void)arg;
	a.exclude_kernel = a.exclude_hv = 1;
	return by_errno(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}

static struct verdict do_userfaultfd(char **arg)
{
	(void)arg;
	return by_errno(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
}

static struct verdict do_fanotify(char **arg)
{
	(void)arg;
	return by_errno(syscall(
		SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_REPORT_FID, O_RDONLY));
}

static struct verdict do_quotactl(char **arg)
{
	(void)arg;
	return by_errno(quotactl(QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL));
}

static struct verdict do_personality(char **arg)
{
	return by_errno(personality((unsigned long)number(arg[0])));
}

static struct verdict do_kexec(char **arg)
{
	(void)arg;
	return reached(syscall(SYS_kexec_load, 0, 1000, NULL, 0xffff));
}

static struct verdict do_init_module(char **arg)
{
	char nonsense[16] = "no module";

	(void)arg;
	return reached(syscall(SYS_init_module, nonsense, sizeof nonsense, ""));
}

static struct verdict do_finit_module(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_CLOEXEC);

	return fd < 0 ? broken("open") : reached(syscall(SYS_finit_module, fd, "", 0));
}

/* Sets Ctrl-Alt-Del to what it is. */
static struct verdict do_reboot(char **arg)
{
	FILE *f = fopen("/proc/sys/kernel/ctrl-alt-del", "re");
	int on = f ? fgetc(f) : '0';

	(void)arg;
	if (f)
		(void)fclose(f);
	return by_errno(syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		on == '1' ? LINUX_REBOOT_CMD_CAD_ON : LINUX_REBOOT_CMD_CAD_OFF, NULL));
}

/* Sets the clock to what it is. */
static struct verdict do_clock_settime(char **arg)
{
	struct timespec t;

	(void)arg;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	return by_errno(syscall(SYS_clock_settime, CLOCK_REALTIME, &t));
}

static struct verdict do_sethostname(char **arg)
{
	struct utsname u;

	(void)arg;
	(void)uname(&u);
	return by_errno(sethostname(u.nodename, strlen(u.nodename)));
}

/* A swap file of two pages, gone again at once. */
static struct verdict do_swapon(char **arg)
{
	enum { PAGES = 16, PAGE = 4096 };
	static const char magic[10] = { 'S', 'W', 'A', 'P', 'S', 'P', 'A', 'C', 'E', '2' };
	static char page[PAGE];
	int fd = open(arg[0], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint32_t header[3] = { 1, PAGES - 1, 0 };
	struct verdict v;

	if (fd < 0)
		return broken("open");
	memcpy(page + PAGE - sizeof magic, magic, sizeof magic);
	memcpy(page + 1024, header, sizeof header);
	for (int i = 0; i < PAGES; i++) {
		if (write(fd, page, PAGE) != PAGE)
			return broken("write");
		memset(page, 0, PAGE);
	}
	(void)fsync(fd);
	v = by_errno(swapon(arg[0], 0));
	if (v.outcome == SUCCESS && swapoff(arg[0]) < 0)
		v = broken("swapoff");
	(void)close(fd);
	(void)unlink(arg[0]);
	return v;
}

static struct verdict do_syslog(char **arg)
{
	char text[64];

	(void)arg;
	return by_errno(klogctl(3, text, sizeof text));
}

static struct verdict do_ioperm(char **arg)
{
	(void)arg;
	return by_errno(ioperm(0x80, 1, 1));
}

/* What was given can still be changed when a reader behind the pipe has checked it. */
static struct verdict do_vmsplice(char **arg)
{
	static char page[4096] __attribute__((aligned(4096)));
	const struct iovec give = { page, sizeof page };
	int p[2];

	(void)arg;
	return pipe2(p, O_CLOEXEC) < 0 ? broken("pipe") : by_errno(vmsplice(p[1], &give, 1, 0));
}

/* The numbers are the kernel's for every architecture from 424 on. */
static struct verdict do_number(char **arg)
{
	return reached(syscall((long)number(arg[0]), -1, 0, 0, 0, 0, 0));
}

const struct probe_case syscalls_cases[] = {
	{ .name = "io-uring",
		.about = "io_uring_setup: does sockets and files past a filter",
		.expect = "EPERM",
		.run = do_io_uring },
	{ .name = "bpf",
		.about = "bpf: load programs into the kernel",
		.expect = "EPERM",
		.run = do_bpf },
	{ .name = "perf-event", .about = "perf_event_open", .expect = "EPERM", .run = do_perf },
	{ .name = "userfaultfd",
		.about = "userfaultfd: stops the kernel in the middle of a copy",
		.expect = "EPERM",
		.run = do_userfaultfd },
	{ .name = "fanotify",
		.about = "fanotify_init: watch the file system",
		.expect = "EPERM",
		.run = do_fanotify },
	{ .name = "quotactl", .about = "quotactl", .expect = "EPERM", .run = do_quotactl },
	{ .name = "personality",
		.about = "personality(READ_IMPLIES_EXEC)",
		.args = "0x0400000",
		.expect = "EPERM",
		.run = do_personality },
	{ .name = "kexec",
		.about = "kexec_load: boot another kernel",
		.expect = "EPERM",
		.run = do_kexec },
	{ .name = "init-module", .about = "init_module", .expect = "EPERM", .run = do_init_module },
	{ .name = "finit-module",
		.about = "finit_module",
		.args = "@PROBE@",
		.expect = "EPERM",
		.run = do_finit_module },
	{ .name = "reboot",
		.about = "reboot(2), by its harmless Ctrl-Alt-Del setting",
		.expect = "EPERM",
		.run = do_reboot },
	{ .name = "clock-settime",
		.about = "Set the machine's clock",
		.expect = "EPERM",
		.run = do_clock_settime },
	{ .name = "sethostname",
		.about = "Set the host name",
		.expect = "EPERM",
		.run = do_sethostname },
	{ .name = "swapon",
		.about = "Add swap space",
		.args = "@WS@/swap",
		.expect = "EPERM",
		.run = do_swapon },
	{ .name = "syslog", .about = "Read the kernel's log", .expect = "EPERM", .run = do_syslog },
	{ .name = "ioperm", .about = "Reach I/O ports", .expect = "EPERM", .run = do_ioperm },
	{ .name = "vmsplice",
		.about = "vmsplice: give pages to a pipe and change them afterwards",
		.expect = "EPERM",
		.run = do_vmsplice },
	{ .name = "memfd-secret",
		.about = "memfd_secret: memory that the host can't inspect",
		.args = "447",
		.expect = "ENOSYS",
		.run = do_number },
	{ .name = "listmount",
		.about = "listmount (Linux 6.8): a call newer than the allow-list",
		.args = "458",
		.expect = "ENOSYS",
		.run = do_number },
	{ .name = NULL },
};
