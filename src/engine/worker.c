/* Takes away what a process that reads a workload's files doesn't need, before it looks at the first one.  Called by engines, in
 * a process that the owner forked for it.
 *
 * What must hold: the descriptors that stay are roots of detached, read-only mounts.  From any other directory
 * ".." leads on up to the host's root, whatever this process's own root is. */
#include "engine/worker.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine.h"

/* What is permitted outlives the change of user, what is in effect doesn't. */
static int drop_caps(uint32_t keep)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { keep, keep, 0 }, { 0, 0, 0 } };

	return (int)syscall(SYS_capset, &head, data);
}

/* In an empty root directory, with the right to read any file (of a user's own, where a user is it); root with nobody's uid.
 * Reading trusted.* attributes, on kernels without the others, takes a stronger one, which the filter leaves no use for. */
static int drop_rights(const struct worker_walls *w)
{
	uint32_t keep = 1u << CAP_DAC_READ_SEARCH;

	if (fchdir(w->empty) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return -1;
	if (w->root) {
		if (w->trusted)
			keep |= 1u << CAP_SYS_ADMIN;
		if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
			setresgid(w->uid, w->uid, w->uid) < 0 ||
			setresuid(w->uid, w->uid, w->uid) < 0)
			return -1;
	}
	return drop_caps(keep) < 0 ? -1 : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static const struct sock_filter allowed[] = {
	CONFINE_HEAD,
	CONFINE_CALL(newfstatat),
	CONFINE_CALL(fstat),
	CONFINE_CALL(openat),
	CONFINE_CALL(close),
	CONFINE_CALL(getdents64),
	CONFINE_CALL(fgetxattr),
	CONFINE_CALL(lseek),
	CONFINE_CALL(pread64),
	CONFINE_CALL(write),
	CONFINE_CALL(readlinkat),
	CONFINE_CALL(fcntl),
	CONFINE_CALL(brk),
	CONFINE_CALL(munmap),
	CONFINE_CALL(mremap),
	CONFINE_CALL(madvise),
	CONFINE_CALL(getpid),
	CONFINE_CALL(exit),
	CONFINE_CALL(exit_group),
	CONFINE_CALL(rt_sigreturn),
	CONFINE_CALL(restart_syscall),
	CONFINE_TAIL,
};

int worker_confine(const struct worker_walls *w, const int *fds, unsigned n, struct err *e)
{
	struct rlimit files;

	/* a walk holds some for each level of directories */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	if (drop_rights(w) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "give up the rights of the worker");
	close_all_but(fds, n);
	if (confine_calls(allowed, sizeof allowed / sizeof *allowed) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "install the worker's filter");
	return 0;
}
