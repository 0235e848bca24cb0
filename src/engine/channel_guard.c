/* Owns what the channel process gives up before it reads the first byte of a guest or a client: uid, groups, capabilities, the
 * sight of files beyond the spool, all system calls but a few.  Called once.
 *
 * The spool directory becomes its root directory; where that isn't allowed, Landlock must hold the same line.  With neither
 * it does not start. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/channel.h"

/* --- Landlock: numbers of Linux 5.13 to 6.12, of which build hosts' headers know a part --- */

enum {
	LL_WRITE_FILE = 1 << 1,
	LL_READ_FILE = 1 << 2,
	LL_REMOVE_FILE = 1 << 5,
	LL_MAKE_REG = 1 << 8,
	LL_TRUNCATE = 1 << 14,
	LL_FS_V1 = (1 << 13) - 1,
	LL_FS_V2 = LL_FS_V1 | 1 << 13,
	LL_FS_V3 = LL_FS_V2 | 1 << 14,
	LL_FS_V5 = LL_FS_V3 | 1 << 15,
	LL_NET = 3,
	LL_SCOPED = 3,
	LL_CREATE_RULESET = 444,
	LL_ADD_RULE = 445,
	LL_RESTRICT_SELF = 446,
	LL_PATH_BENEATH = 1,
	LL_VERSION = 1,
};

struct ll_ruleset {
	uint64_t fs, net, scoped;
};

struct ll_beneath {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

static int landlock(int dir)
{
	const long abi = syscall(LL_CREATE_RULESET, NULL, 0, LL_VERSION);
	struct ll_ruleset set = { .fs = LL_FS_V1 };
	struct ll_beneath rule = { .fd = dir };
	size_t size = 8;
	int fd, r;

	if (abi < 1)
		return -1;
	if (abi >= 2)
		set.fs = LL_FS_V2;
	if (abi >= 3)
		set.fs = LL_FS_V3;
	if (abi >= 4) {
		set.net = LL_NET;
		size = 16;
	}
	if (abi >= 5)
		set.fs = LL_FS_V5;
	if (abi >= 6) {
		set.scoped = LL_SCOPED;
		size = 24;
	}
	rule.access = set.fs &
		(LL_WRITE_FILE | LL_READ_FILE | LL_REMOVE_FILE | LL_MAKE_REG | LL_TRUNCATE);
	fd = (int)syscall(LL_CREATE_RULESET, &set, size, 0);
	if (fd < 0)
		return -1;
	r = (int)syscall(LL_ADD_RULE, fd, LL_PATH_BENEATH, &rule, 0);
	if (r == 0)
		r = (int)syscall(LL_RESTRICT_SELF, fd, 0);
	(void)close_fd(fd);
	return r;
}

/* --- system calls --- */

#define CALL(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

#if defined(__x86_64__)
enum { ARCH = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCH = (int)AUDIT_ARCH_AARCH64 };
#else
#error "the channel's list of system calls is for x86_64 and aarch64"
#endif

/* No socket can be made, no program run, no process started, traced or signalled. */
static const struct sock_filter allowed[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ARCH, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_epoll_wait
	CALL(epoll_wait),
	CALL(poll),
	CALL(unlink),
#endif
	CALL(epoll_pwait),
	CALL(recvfrom),
	CALL(sendto),
	CALL(sendmsg),
	CALL(recvmsg),
	CALL(pread64),
	CALL(pwritev),
	CALL(pwrite64),
	CALL(openat2),
	CALL(close),
	CALL(epoll_ctl),
	CALL(accept4),
	CALL(getsockopt),
	CALL(setsockopt),
	CALL(ftruncate),
	CALL(unlinkat),
	CALL(fstat),
	CALL(newfstatat),
	CALL(memfd_create),
	CALL(brk),
	CALL(munmap),
	CALL(mremap),
	CALL(madvise),
	CALL(clock_gettime),
	CALL(ppoll),
	CALL(getrandom),
	CALL(futex),
	CALL(restart_syscall),
	CALL(rt_sigreturn),
	CALL(exit_group),
	CALL(exit),
	/* memory, but none that can be run */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_mmap, 2, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_mprotect, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4 /* PROT_EXEC */, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static int filter(struct err *e)
{
#ifndef BAILEY_SANITIZED
	union {
		const struct sock_filter *in;
		struct sock_filter *out;
	} list = { .in = allowed };
	struct sock_fprog prog = { .len = sizeof allowed / sizeof *allowed, .filter = list.out };

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "filter the channel's system calls");
#else
	(void)allowed;
	(void)e;
#endif
	return 0;
}

/* --- rights --- */

static int drop_capabilities(struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "drop the channel's capabilities");
	return 0;
}

static int change_user(uid_t uid, struct err *e)
{
	/* while there is the right to do it */
	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EINVAL)
			break;
	if (uid == (uid_t)-1)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "become the channel's user '%u'", uid);
	return 0;
}

/* Its root directory is an empty sight: the spool. */
static bool enter(int dir)
{
	return fchdir(dir) == 0 && chroot(".") == 0 && chdir("/") == 0;
}

/* The owner's descriptors among them: the guest's control socket, the engine's directories. */
static void close_others(const int *keep, unsigned n)
{
	unsigned from = 3;

	for (;;) {
		unsigned next = ~0u;

		for (unsigned i = 0; i < n; i++)
			if ((unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		if (next > from)
			(void)close_range(from, next - (next != ~0u), 0);
		if (next == ~0u)
			return;
		from = next + 1;
	}
}

/* A descriptor for each client and two for each command that is read. */
static void raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max < 65536 ? l.rlim_max : 65536;
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

int channel_guard(const struct channel_start *start, int epoll, struct err *e)
{
	const int keep[] = { start->owner, start->listener, start->spool, epoll };
	const pid_t owner = getppid();
	bool confined;

	close_others(keep, sizeof keep / sizeof *keep);
	raise_files();
	confined = enter(start->spool);
	if (change_user(start->become, e) < 0 || drop_capabilities(e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "restrict the channel process");
	if (getppid() != owner)
		return err_set(e, R_SETUP_FAILED, 0, "serve a sandbox: its owner has gone");
	confined = landlock(start->spool) == 0 || confined;
	if (!confined)
		return err_set(
			e, R_SETUP_FAILED, EPERM, "keep the channel process within its files");
	return filter(e);
}
