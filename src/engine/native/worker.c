/* Takes away what a process that reads a workload's files doesn't need, before it looks at the first one.  Called by changes.c,
 * in a process that the owner forked for it.
 *
 * What must hold: the descriptors that stay are roots of detached, read-only mounts (layers_view()).  From any other directory
 * ".." leads on up to the host's root, whatever this process's own root is. */
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "engine/native/native.h"

/* All but fds, which are sorted on the way; the descriptors up to 2 stay. */
static int close_others(int *fds, unsigned n)
{
	unsigned from = 3;

	for (unsigned i = 1; i < n; i++)
		for (unsigned k = i; k > 0 && fds[k - 1] > fds[k]; k--) {
			int fd = fds[k];

			fds[k] = fds[k - 1];
			fds[k - 1] = fd;
		}
	for (unsigned i = 0; i < n; i++) {
		unsigned fd = (unsigned)fds[i];

		if (fd > from && syscall(SYS_close_range, from, fd - 1, 0u) < 0)
			return -1;
		from = fd + 1 > from ? fd + 1 : from;
	}
	return (int)syscall(SYS_close_range, from, ~0u, 0u);
}

static int drop_caps(uint32_t keep)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { keep, keep, 0 }, { 0, 0, 0 } };

	return (int)syscall(SYS_capset, &head, data);
}

/* In an empty root directory, with the right to read any file (of a user's own, where a user is it); root with nobody's uid.
 * Reading trusted.* attributes, on kernels without the others, takes a stronger one, which the filter leaves no use for. */
static int drop_rights(const struct sandbox *sb)
{
	uid_t uid = session_channel_uid(sb);
	uint32_t keep = 1u << CAP_DAC_READ_SEARCH;

	if (fchdir(sb->layers.frame) < 0 ||
		(mkdirat(sb->layers.frame, "empty", 0500) < 0 && errno != EEXIST) ||
		chroot("empty") < 0 || chdir("/") < 0)
		return -1;
	if (sb->engine->root) {
		if (sb->layers.marks == MARKS_TRUSTED)
			keep |= 1u << CAP_SYS_ADMIN;
		if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
			setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
			return -1;
	}
	return drop_caps(keep) < 0 ? -1 : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

#define ALLOW(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int install_filter(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(newfstatat),
		ALLOW(fstat),
		ALLOW(openat),
		ALLOW(close),
		ALLOW(getdents64),
		ALLOW(fgetxattr),
		ALLOW(lseek),
		ALLOW(pread64),
		ALLOW(write),
		ALLOW(readlinkat),
		ALLOW(fcntl),
		ALLOW(brk),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(mremap),
		ALLOW(madvise),
		ALLOW(getpid),
		ALLOW(exit),
		ALLOW(exit_group),
		ALLOW(rt_sigreturn),
		ALLOW(restart_syscall),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	const struct sock_fprog prog = { .len = sizeof filter / sizeof *filter, .filter = filter };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

/* A sanitizer's own calls are not on the list. */
#ifdef BAILEY_SANITIZED
static const bool want_filter = false;
#else
static const bool want_filter = true;
#endif

int worker_confine(const struct sandbox *sb, int *fds, unsigned n, struct err *e)
{
	struct rlimit files;

	/* a walk holds some for each level of directories */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	if (drop_rights(sb) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "give up the rights of the worker");
	if (close_others(fds, n) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "close the worker's descriptors");
	if (want_filter && install_filter() < 0)
		return err_set(e, R_SETUP_FAILED, errno, "install the worker's filter");
	return 0;
}
