/* Owns what the channel process gives up before it reads the first byte of a guest or a client: uid, groups, capabilities, the
 * sight of files beyond the spool, all system calls but a few.  Called once.
 *
 * The spool directory becomes its root directory; where that isn't allowed, Landlock must hold the same line.  With neither
 * it does not start. */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine.h"
#include "engine/channel.h"

enum {
	SPOOL_RIGHTS = CONFINE_WRITE_FILE | CONFINE_READ_FILE | CONFINE_REMOVE_FILE |
		CONFINE_MAKE_REG | CONFINE_TRUNCATE,
};

/* No socket can be made, no program run, no process started, traced or signalled. */
static const struct sock_filter allowed[] = {
	CONFINE_HEAD,
#ifdef SYS_epoll_wait
	CONFINE_CALL(epoll_wait),
	CONFINE_CALL(poll),
	CONFINE_CALL(unlink),
#endif
	CONFINE_CALL(epoll_pwait),
	CONFINE_CALL(recvfrom),
	CONFINE_CALL(sendto),
	CONFINE_CALL(sendmsg),
	CONFINE_CALL(recvmsg),
	CONFINE_CALL(pread64),
	CONFINE_CALL(pwritev),
	CONFINE_CALL(pwrite64),
	CONFINE_CALL(openat2),
	CONFINE_CALL(close),
	CONFINE_CALL(epoll_ctl),
	CONFINE_CALL(accept4),
	CONFINE_CALL(getsockopt),
	CONFINE_CALL(setsockopt),
	CONFINE_CALL(ftruncate),
	CONFINE_CALL(unlinkat),
	CONFINE_CALL(fstat),
	CONFINE_CALL(newfstatat),
	CONFINE_CALL(memfd_create),
	CONFINE_CALL(brk),
	CONFINE_CALL(munmap),
	CONFINE_CALL(mremap),
	CONFINE_CALL(madvise),
	CONFINE_CALL(clock_gettime),
	CONFINE_CALL(ppoll),
	CONFINE_CALL(getrandom),
	CONFINE_CALL(futex),
	CONFINE_CALL(restart_syscall),
	CONFINE_CALL(rt_sigreturn),
	CONFINE_CALL(exit_group),
	CONFINE_CALL(exit),
	CONFINE_TAIL,
};

static int change_user(uid_t uid, struct err *e)
{
	/* while there is the right to do it */
	confine_bounding(0);
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

	/* among the others: the guest's control socket, the engine's directories */
	close_all_but(keep, sizeof keep / sizeof *keep);
	raise_files();
	confined = enter(start->spool);
	if (change_user(start->become, e) < 0 || confine_capabilities(0, e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "restrict the channel process");
	if (getppid() != owner)
		return err_set(e, R_SETUP_FAILED, 0, "serve a sandbox: its owner has gone");
	confined = confine_files(&(struct confine_dir){ start->spool, SPOOL_RIGHTS }, 1) == 0 ||
		confined;
	if (!confined)
		return err_set(
			e, R_SETUP_FAILED, EPERM, "keep the channel process within its files");
	if (confine_calls(allowed, sizeof allowed / sizeof *allowed) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "filter the channel's system calls");
	return 0;
}
