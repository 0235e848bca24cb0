/* Owns what the launcher gives up before it reads a client's first byte.  Must hold: afterwards it can start nothing, reach no
 * network, write no file but the audit log, and end no process; what it wants done it asks the spawner for. */
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/confine.h"
#include "base/fd.h"
#include "base/str.h"
#include "launcher/admit.h"
#include "launcher/daemon/daemon.h"

static const struct sock_filter allowed[] = {
	CONFINE_HEAD,
#ifdef SYS_poll
	CONFINE_CALL(poll),
	CONFINE_CALL(readlink),
	CONFINE_CALL(access),
	CONFINE_CALL(open),
	CONFINE_CALL(stat),
	CONFINE_CALL(lstat),
#endif
	CONFINE_CALL(ppoll),
	CONFINE_CALL(accept4),
	CONFINE_CALL(recvmsg),
	CONFINE_CALL(sendmsg),
	CONFINE_CALL(recvfrom),
	CONFINE_CALL(sendto),
	CONFINE_CALL(read),
	CONFINE_CALL(write),
	CONFINE_CALL(writev),
	CONFINE_CALL(pread64),
	CONFINE_CALL(lseek),
	CONFINE_CALL(close),
	CONFINE_CALL(fcntl),
	CONFINE_CALL(flock),
	CONFINE_CALL(fstat),
	CONFINE_CALL(newfstatat),
	CONFINE_CALL(statx),
	CONFINE_CALL(statfs),
	CONFINE_CALL(fstatfs),
	CONFINE_CALL(openat),
	CONFINE_CALL(openat2),
	CONFINE_CALL(readlinkat),
	CONFINE_CALL(faccessat),
	CONFINE_CALL(faccessat2),
	CONFINE_CALL(getdents64),
	CONFINE_CALL(fdatasync),
	CONFINE_CALL(fsync),
	CONFINE_CALL(ftruncate),
	CONFINE_CALL(mkdir),
	CONFINE_CALL(mkdirat),
	CONFINE_CALL(renameat),
	CONFINE_CALL(renameat2),
	CONFINE_CALL(getsockopt),
	CONFINE_CALL(setsockopt),
	CONFINE_CALL(getrandom),
	CONFINE_CALL(geteuid),
	CONFINE_CALL(getuid),
	CONFINE_CALL(getegid),
	CONFINE_CALL(getpid),
	CONFINE_CALL(gettid),
	CONFINE_CALL(clock_gettime),
	CONFINE_CALL(clock_nanosleep),
	CONFINE_CALL(nanosleep),
	CONFINE_CALL(futex),
	CONFINE_CALL(brk),
	CONFINE_CALL(munmap),
	CONFINE_CALL(mremap),
	CONFINE_CALL(madvise),
	CONFINE_CALL(rt_sigaction),
	CONFINE_CALL(rt_sigprocmask),
	CONFINE_CALL(rt_sigreturn),
	CONFINE_CALL(restart_syscall),
	CONFINE_CALL(exit),
	CONFINE_CALL(exit_group),
	CONFINE_TAIL,
};

/* A normal user needs a user namespace for it, in which he stays who he is. */
static int leave_network(struct err *e)
{
	const uid_t uid = geteuid();
	const gid_t gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWNET | (uid ? CLONE_NEWUSER : 0)) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "leave the network");
	if (!uid)
		return 0;
	if (write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
		write_file_at(AT_FDCWD, "/proc/self/uid_map", FMT(map, "%u %u 1", uid, uid)) < 0 ||
		write_file_at(AT_FDCWD, "/proc/self/gid_map", FMT(map, "%u %u 1", gid, gid)) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "map the launcher's own ids");
	return 0;
}

/* Names of what is open by path: /proc for mounts and processes, /etc/passwd for homes.  O_PATH needs no right. */
static int limit_files(const char *home, struct err *e)
{
	const struct {
		const char *path;
		uint64_t rights;
	} places[] = {
		{ home,
			CONFINE_READ_FILE | CONFINE_READ_DIR | CONFINE_WRITE_FILE |
				CONFINE_MAKE_REG | CONFINE_MAKE_DIR | CONFINE_TRUNCATE },
		{ "/proc", CONFINE_READ_FILE | CONFINE_READ_DIR },
		{ "/etc", CONFINE_READ_FILE },
	};
	struct confine_dir dirs[3];
	int r;

	if (confine_version() < 1)
		return 0; /* the list of system calls and the capabilities hold what can be held */
	for (unsigned i = 0; i < 3; i++) {
		dirs[i].fd = open(places[i].path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		dirs[i].rights = places[i].rights;
		if (dirs[i].fd < 0)
			return err_set(e, R_SETUP_FAILED, errno, "open '%s'", places[i].path);
	}
	r = confine_files(dirs, 3);
	for (unsigned i = 0; i < 3; i++)
		(void)close_fd(dirs[i].fd);
	return r < 0 ? err_set(e, R_SETUP_FAILED, errno, "limit the launcher's sight of files") : 0;
}

int guard(const char *home, struct err *e)
{
	/* whom the sockets of the host belong to is asked when the host can't be seen any more; stays open */
	const int sockets = open("/proc/self/net/unix", O_RDONLY | O_CLOEXEC);
	/* others' directories are looked at by what lies above them */
	const uint64_t keep = geteuid() == 0 ? 1ull << CAP_DAC_READ_SEARCH : 0;
	const struct rlimit none = { 0, 0 };

	if (sockets < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open '/proc/self/net/unix'");
	admit_use_sockets(sockets);
	if (leave_network(e) < 0 || confine_capabilities(keep, e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
		setrlimit(RLIMIT_CORE, &none) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "give up the launcher's rights");
	if (limit_files(home, e) < 0)
		return -1;
	if (confine_calls(allowed, sizeof allowed / sizeof *allowed) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "limit the launcher's system calls");
	return 0;
}
