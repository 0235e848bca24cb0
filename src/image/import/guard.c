/* Owns what the processes of worker.c give up before they read the first byte of an image.  Called once in each.
 *
 * Landlock is asked for from Linux 5.19 on: before, it refuses every link from one directory to another, and trees are made
 * of those.  Where it is missing the other walls stay. */
#include "image/import/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine.h"

enum {
	LANDLOCK_WITH_LINKS = 2,
	READ = CONFINE_READ_FILE | CONFINE_READ_DIR,
	WRITE = READ | CONFINE_WRITE_FILE | CONFINE_TRUNCATE | CONFINE_MAKE_REG | CONFINE_MAKE_DIR |
		CONFINE_MAKE_SYM | CONFINE_REMOVE_FILE | CONFINE_REMOVE_DIR | CONFINE_REFER,
};

/* Bytes of memory: an archive of two million entries takes some hundred MiB. */
#define MAX_DATA ((rlim_t)3 << 30)
/* What the store writes besides files of the image. */
#define SPARE_FILE ((rlim_t)64 << 20)

/* What libc, libarchive, jansson and this room call to read, unpack, link and rename.  Not here: sockets, processes,
 * programs, signals, ioctl, mounts. */
static const struct sock_filter calls[] = {
	CONFINE_HEAD,
	CONFINE_CALL(read),
	CONFINE_CALL(write),
	CONFINE_CALL(pread64),
	CONFINE_CALL(pwrite64),
	CONFINE_CALL(lseek),
	CONFINE_CALL(openat),
	CONFINE_CALL(openat2),
	CONFINE_CALL(close),
	CONFINE_CALL(fstat),
	CONFINE_CALL(newfstatat),
	CONFINE_CALL(statx),
	CONFINE_CALL(faccessat2),
	CONFINE_CALL(getdents64),
	CONFINE_CALL(mkdirat),
	CONFINE_CALL(unlinkat),
	CONFINE_CALL(linkat),
	CONFINE_CALL(symlinkat),
	CONFINE_CALL(readlinkat),
	CONFINE_CALL(renameat2),
#ifdef SYS_renameat
	CONFINE_CALL(renameat), /* what libc makes of renameat2 without flags */
#endif
	CONFINE_CALL(fchown),
	CONFINE_CALL(fchownat),
	CONFINE_CALL(fchmod),
	CONFINE_CALL(fchmodat),
	CONFINE_CALL(utimensat),
	CONFINE_CALL(ftruncate),
	CONFINE_CALL(copy_file_range),
	CONFINE_CALL(fsync),
	CONFINE_CALL(syncfs),
	CONFINE_CALL(flock),
	CONFINE_CALL(geteuid),
	CONFINE_CALL(getegid),
	CONFINE_CALL(getrandom),
	CONFINE_CALL(clock_gettime),
	CONFINE_CALL(brk),
	CONFINE_CALL(munmap),
	CONFINE_CALL(mremap),
	CONFINE_CALL(madvise),
	CONFINE_CALL(futex),
	CONFINE_CALL(restart_syscall),
	CONFINE_CALL(rt_sigreturn),
	CONFINE_CALL(exit_group),
	CONFINE_CALL(exit),
	/* of fcntl: copies of descriptors, and flags for reading; not who gets signals of them */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_fcntl, 0, 6),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 24 /* seccomp_data.args[1] */),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 2, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_GETFL, 1, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETFD, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, CONFINE_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, CONFINE_REFUSE),
	CONFINE_TAIL,
};

static void set_limit(__rlimit_resource_t what, rlim_t max)
{
	struct rlimit l;

	if (getrlimit(what, &l) < 0)
		return;
	l.rlim_max = l.rlim_max < max ? l.rlim_max : max;
	l.rlim_cur = l.rlim_cur < l.rlim_max ? l.rlim_cur : l.rlim_max;
	(void)setrlimit(what, &l);
}

static void set_limits(const struct guard *g)
{
	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_NPROC, 0);
	set_limit(RLIMIT_MEMLOCK, 0);
	set_limit(RLIMIT_FSIZE, g->max_file + SPARE_FILE);
	(void)signal(SIGXFSZ, SIG_IGN); /* an error, which is then said */
#ifndef BAILEY_SANITIZED
	set_limit(RLIMIT_DATA, MAX_DATA);
#endif
}

static int leave_terminal(struct err *e)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd <= 2; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			return err_set(e, R_SETUP_FAILED, errno, "open '/dev/null'");
	return 0;
}

static int confine_to(const struct guard *g, struct err *e)
{
	struct confine_dir dirs[2];
	size_t n = 0;

	if (g->write >= 0)
		dirs[n++] = (struct confine_dir){ g->write, WRITE };
	if (g->read >= 0)
		dirs[n++] = (struct confine_dir){ g->read, READ };
	if (confine_version() >= LANDLOCK_WITH_LINKS && confine_files(dirs, n) < 0)
		return err_set(
			e, R_SETUP_FAILED, errno, "keep the reader of an image within its files");
	return 0;
}

int guard_enter(const struct guard *g, struct err *e)
{
	const uint64_t over_files = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER;

	if (leave_terminal(e) < 0)
		return -1;
	close_all_but(g->keep, g->n_keep);
	set_limits(g);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "restrict the reader of an image");
	if (confine_capabilities(over_files, e) < 0 || confine_to(g, e) < 0)
		return -1;
	if (confine_calls(calls, sizeof calls / sizeof *calls) < 0)
		return err_set(
			e, R_SETUP_FAILED, errno, "filter the calls of the reader of an image");
	return 0;
}
