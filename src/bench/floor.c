/* bailey-floor: what `bailey bench` measures the native engine against.
 *
 * The walls of the profile `run` in straight-line C: the same namespaces, mounts, limits, rights and filter, and nothing
 * else: no guest, no channel, no pipes, no lock on ids, no report.  tests/bench/same-walls.sh compares the two from inside and
 * by their system calls.  Where the kernel offers two ways to the same wall the quicker one is taken.
 *
 *     bailey-floor [--cgroup DIR]... [--mount SRC DST] [--repeat N | --serve] COMMAND [ARGUMENT...]
 *
 * --cgroup names a parent to make the sandbox's cgroup in: one for cgroup v2; pids, memory and cpu in this order for v1; none
 * for no limits.  --repeat prints nanoseconds, one line a sandbox.  --serve does so once for each byte on standard input. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "engine/native/filter.h"

enum {
	MAX_TREES = 24,
	MAX_CGROUPS = 3,
	IDS_BASE = 0x70000000 + 4095 * 65536, /* the last range that the engine would take */
	UID = 1000,
	LAST_CAP = 63,
};

#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
#define CLEAR_SIGHAND 0x100000000ull /* CLONE_CLEAR_SIGHAND */

static char *env[] = {
	(char[]){ "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
	(char[]){ "HOME=/home/agent" }, (char[]){ "LANG=C.UTF-8" }, NULL
};

static const char *const host[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
	"/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/localtime", "/dev/null",
	"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty" };

static struct {
	struct {
		const char *target;
		int fd;
		bool dir;
	} trees[MAX_TREES];
	unsigned n_trees;
	struct {
		const char *name;
		char target[256];
	} links[8];
	unsigned n_links;

	const char *parent[MAX_CGROUPS];
	int parent_fd[MAX_CGROUPS], dir[MAX_CGROUPS], tasks[MAX_CGROUPS];
	unsigned n_cgroups;
	char name[32]; /* of the cgroup */
	const char *mount_source, *mount_target;
	char **argv;
	bool root;
	uid_t uid;
	gid_t gid;
	uint32_t *mapped; /* shared with the child: the futex that says its ids are mapped */
} f;

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	(void)fprintf(stderr, "bailey-floor: %s: %s\n", what, strerror(errno));
	_exit(125);
}

static void put(int dir, const char *file, const char *text, int flags, bool may_be_absent)
{
	int fd = openat(dir, file, O_WRONLY | O_CLOEXEC | flags, 0444);

	if (fd < 0 && errno == ENOENT && may_be_absent)
		return;
	check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), file);
	(void)close(fd);
}

/* --- outside -------------------------------------------------------------------------------------------------------- */

static void make_cgroups(void)
{
	for (unsigned i = 0; i < f.n_cgroups; i++) {
		check(mkdirat(f.parent_fd[i], f.name, 0755) == 0, "mkdir cgroup");
		f.dir[i] = openat(f.parent_fd[i], f.name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		check(f.dir[i] >= 0, "open cgroup");
	}
	if (f.n_cgroups == 1) {
		put(f.dir[0], "memory.max", "2147483648", 0, false);
		put(f.dir[0], "memory.swap.max", "0", 0, true);
		put(f.dir[0], "memory.oom.group", "1", 0, true);
		put(f.dir[0], "pids.max", "257", 0, false);
		put(f.dir[0], "cpu.max", "100000 100000", 0, false);
	} else if (f.n_cgroups == MAX_CGROUPS) {
		put(f.dir[0], "pids.max", "257", 0, false);
		put(f.dir[1], "memory.limit_in_bytes", "2147483648", 0, false);
		put(f.dir[1], "memory.memsw.limit_in_bytes", "2147483648", 0, true);
		put(f.dir[2], "cpu.cfs_quota_us", "100000", 0,
			false); /* the period is 100 ms by itself */
		/* a thread that moves itself by 'tasks' spares the lock over all forks of the host (Linux 5.5) */
		for (unsigned i = 0; i < MAX_CGROUPS; i++) {
			f.tasks[i] = openat(f.dir[i], "tasks", O_WRONLY | O_CLOEXEC);
			check(f.tasks[i] >= 0, "open tasks");
		}
	}
}

static void remove_cgroups(void)
{
	for (unsigned i = f.n_cgroups; i-- > 0;) {
		(void)close(f.dir[i]);
		if (f.n_cgroups == MAX_CGROUPS)
			(void)close(f.tasks[i]);
		while (unlinkat(f.parent_fd[i], f.name, AT_REMOVEDIR) < 0)
			check(errno == EBUSY, "remove cgroup");
	}
}

static void open_one(const char *source, const char *target, bool dir, bool device)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_RDONLY |
			(device ? 0u : (unsigned)MOUNT_ATTR_NODEV),
		.propagation = MS_PRIVATE };
	unsigned recursive = dir && !f.root ? AT_RECURSIVE : 0;
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, source,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_NO_AUTOMOUNT | recursive);

	check(fd >= 0 && f.n_trees < MAX_TREES, source);
	check(syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | recursive, &attr, sizeof attr) ==
			0,
		source);
	f.trees[f.n_trees].target = target;
	f.trees[f.n_trees].dir = dir;
	f.trees[f.n_trees++].fd = fd;
}

static void open_trees(void)
{
	f.n_trees = f.n_links = 0;
	for (unsigned i = 0; i < sizeof host / sizeof *host; i++) {
		struct stat st;
		ssize_t n;

		if (lstat(host[i], &st) < 0)
			continue;
		if (!S_ISLNK(st.st_mode)) {
			open_one(host[i], host[i] + 1, S_ISDIR(st.st_mode), S_ISCHR(st.st_mode));
			continue;
		}
		check(f.n_links < sizeof f.links / sizeof *f.links, "links");
		n = readlink(host[i], f.links[f.n_links].target, sizeof f.links->target - 1);
		check(n > 0, host[i]);
		f.links[f.n_links].target[n] = '\0';
		f.links[f.n_links++].name = host[i] + 1;
	}
	if (f.mount_source)
		open_one(f.mount_source, f.mount_target + 1, true, false);
}

static void write_maps(pid_t pid)
{
	char path[64], map[64];

	(void)snprintf(map, sizeof map, "0 %u 65535", (unsigned)IDS_BASE);
	(void)snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
	put(AT_FDCWD, path, map, 0, false);
	(void)snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
	put(AT_FDCWD, path, map, 0, false);
	__atomic_store_n(f.mapped, 1, __ATOMIC_RELEASE);
	(void)syscall(SYS_futex, f.mapped, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- inside --------------------------------------------------------------------------------------------------------- */

/* A normal user maps the one own id alone, and may do so from inside; a range takes root's rights outside. */
static void take_ids(void)
{
	char map[64];

	if (!f.root) {
		put(AT_FDCWD, "/proc/self/setgroups", "deny", 0, false);
		(void)snprintf(map, sizeof map, "%d %u 1", UID, f.uid);
		put(AT_FDCWD, "/proc/self/uid_map", map, 0, false);
		(void)snprintf(map, sizeof map, "%d %u 1", UID, f.gid);
		put(AT_FDCWD, "/proc/self/gid_map", map, 0, false);
		return;
	}
	while (!__atomic_load_n(f.mapped, __ATOMIC_ACQUIRE))
		(void)syscall(SYS_futex, f.mapped, FUTEX_WAIT, 0, NULL, NULL, 0);
	check(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0, "ids");
}

static void make_dir(const char *path)
{
	check(mkdir(path, 0755) == 0 || errno == EEXIST, path);
}

static void make_etc(void)
{
	char id[40];
	uint64_t r[2];

	make_dir("etc");
	put(AT_FDCWD, "etc/passwd",
		"root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n"
		"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		O_CREAT, false);
	put(AT_FDCWD, "etc/group", "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n",
		O_CREAT, false);
	put(AT_FDCWD, "etc/hosts", "127.0.0.1\tlocalhost bailey\n::1\tlocalhost\n", O_CREAT, false);
	put(AT_FDCWD, "etc/hostname", "bailey\n", O_CREAT, false);
	put(AT_FDCWD, "etc/nsswitch.conf",
		"passwd: files\ngroup: files\nhosts: files\nservices: files\n", O_CREAT, false);
	check(getrandom(r, sizeof r, 0) == (ssize_t)sizeof r, "getrandom");
	(void)snprintf(id, sizeof id, "%016llx%016llx\n", (unsigned long long)r[0],
		(unsigned long long)r[1]);
	put(AT_FDCWD, "etc/machine-id", id, O_CREAT, false);
}

static void attach_trees(unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++) {
		const char *target = f.trees[i].target;
		char parent[256];

		for (const char *s = strchr(target, '/'); s; s = strchr(s + 1, '/')) {
			(void)snprintf(parent, sizeof parent, "%.*s", (int)(s - target), target);
			make_dir(parent);
		}
		if (f.trees[i].dir)
			make_dir(target);
		else
			check(mknod(target, S_IFREG | 0444, 0) == 0, target);
		check(syscall(SYS_move_mount, f.trees[i].fd, "", AT_FDCWD, target,
			      MOVE_MOUNT_F_EMPTY_PATH) == 0,
			target);
	}
}

static const char *const user_limits[4][2] = { { "proc/sys/user/max_inotify_instances", "32" },
	{ "proc/sys/user/max_inotify_watches", "65536" },
	{ "proc/sys/user/max_fanotify_groups", "0" }, { "proc/sys/user/max_fanotify_marks", "0" } };

static void mask_proc(void)
{
	static const char *const masked[] = { "proc/acpi", "proc/asound", "proc/interrupts",
		"proc/kcore", "proc/keys", "proc/latency_stats", "proc/sched_debug", "proc/scsi",
		"proc/timer_list", "proc/timer_stats", "proc/kallsyms", "proc/kpagecgroup",
		"proc/kpagecount", "proc/kpageflags", "proc/vmallocinfo", "proc/config.gz" };
	static const char *const read_only[] = { "proc/bus", "proc/fs", "proc/irq", "proc/sys",
		"proc/sysrq-trigger" };
	const unsigned long flags =
		MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;

	for (unsigned i = 0; i < sizeof masked / sizeof *masked; i++) {
		struct stat st;

		/* a bind that fails costs a grace period of RCU: look first */
		if (lstat(masked[i], &st) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			check(mount("dev/null", masked[i], NULL, MS_BIND, NULL) == 0, masked[i]);
			continue;
		}
		check(mount("run/empty", masked[i], NULL, MS_BIND, NULL) == 0, masked[i]);
		check(mount(NULL, masked[i], NULL, flags, NULL) == 0, masked[i]);
	}
	for (unsigned i = 0; i < sizeof read_only / sizeof *read_only; i++) {
		if (mount(read_only[i], read_only[i], NULL, MS_BIND, NULL) < 0)
			check(errno == ENOENT, read_only[i]);
		else
			check(mount(NULL, read_only[i], NULL, flags, NULL) == 0, read_only[i]);
	}
}

static void mount_rest(void)
{
	static const char *const links[][2] = { { "/proc/self/fd", "dev/fd" },
		{ "/proc/self/fd/0", "dev/stdin" }, { "/proc/self/fd/1", "dev/stdout" },
		{ "/proc/self/fd/2", "dev/stderr" }, { "pts/ptmx", "dev/ptmx" } };
	static const char *const tmpfs[][2] = { { "tmp", "1777" }, { "home/agent", "0700" },
		{ "dev/shm", "1777" } };
	char options[128];

	for (unsigned i = 0; i < sizeof links / sizeof *links; i++)
		check(symlink(links[i][0], links[i][1]) == 0, links[i][1]);
	make_dir("dev/pts");
	check(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		      f.root ? "newinstance,ptmxmode=0666,mode=0620,max=64,gid=5"
			     : "newinstance,ptmxmode=0666,mode=0620,max=64") == 0,
		"devpts");
	make_dir("home");
	for (unsigned i = 0; i < sizeof tmpfs / sizeof *tmpfs; i++) {
		make_dir(tmpfs[i][0]);
		(void)snprintf(options, sizeof options,
			"size=67108864,nr_inodes=32768,mode=%s,uid=%d,gid=%d", tmpfs[i][1], UID,
			UID);
		check(mount("tmpfs", tmpfs[i][0], "tmpfs", MS_NOSUID | MS_NODEV, options) == 0,
			tmpfs[i][0]);
	}
}

static void build_root(void)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	unsigned own;

	if (!f.root)
		open_trees();
	own = f.n_trees - (f.mount_source ? 1 : 0);
	check(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV,
		      "size=1m,nr_inodes=512,mode=0755") == 0,
		"root");
	check(chdir("/tmp") == 0, "/tmp");
	make_etc();
	for (unsigned i = 0; i < f.n_links; i++)
		check(symlink(f.links[i].target, f.links[i].name) == 0, f.links[i].name);
	make_dir("dev");
	check(mkdir("proc", 0555) == 0 && mkdir("run", 0755) == 0 && mkdir("run/empty", 0555) == 0,
		"directories");
	attach_trees(0, own);
	check(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "proc");
	for (unsigned i = 0; i < 4; i++)
		put(AT_FDCWD, user_limits[i][0], user_limits[i][1], 0, true);
	mask_proc();
	mount_rest();
	attach_trees(own, f.n_trees);
	check(sys_pivot_root(".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
			chdir("/home/agent") == 0,
		"pivot");
	check(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &read_only, sizeof read_only) == 0,
		"read-only");
}

static void drop_rights(void)
{
	static const uint64_t landlock[3] = { 0, 0, 3 }; /* scopes: abstract sockets and signals */
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	struct sock_fprog program = { .len = sizeof filter_strict / sizeof *filter_strict };
	const struct sock_filter *filter = filter_strict;
	int fd;

	for (int c = 0; c <= LAST_CAP && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) == 0; c++)
		;
	check(prctl(PR_SET_SECUREBITS,
		      SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
			      SECBIT_KEEP_CAPS_LOCKED,
		      0, 0, 0) == 0,
		"securebits");
	if (f.root)
		check(syscall(SYS_setgroups, 0, NULL) == 0 &&
				syscall(SYS_setresgid, UID, UID, UID) == 0 &&
				syscall(SYS_setresuid, UID, UID, UID) == 0,
			"ids");
	check(syscall(SYS_capset, &head, none) == 0, "capset");
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	fd = (int)syscall(SYS_landlock_create_ruleset, landlock, sizeof landlock, 0);
	if (fd >= 0)
		check(syscall(SYS_landlock_restrict_self, fd, 0) == 0, "landlock");
	memcpy(&program.filter, &filter, sizeof filter);
	check(syscall(SYS_seccomp, 1 /* SECCOMP_SET_MODE_FILTER */, 0, &program) == 0, "seccomp");
}

static void set_limits(void)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t most;
	} caps[] = { { RLIMIT_CORE, 1 }, { RLIMIT_SIGPENDING, 1024 }, { RLIMIT_MSGQUEUE, 96 << 10 },
		{ RLIMIT_MEMLOCK, 8 << 20 }, { RLIMIT_NOFILE, 65536 }, { RLIMIT_RTPRIO, 0 },
		{ RLIMIT_NICE, 0 } };
	const struct sched_param normal = { .sched_priority = 0 };

	for (unsigned i = 0; i < sizeof caps / sizeof *caps; i++) {
		struct rlimit r;

		check(getrlimit(caps[i].what, &r) == 0, "getrlimit");
		if (r.rlim_max > caps[i].most)
			r.rlim_max = caps[i].most;
		if (r.rlim_cur > r.rlim_max || caps[i].what == RLIMIT_CORE)
			r.rlim_cur = r.rlim_max;
		check(setrlimit(caps[i].what, &r) == 0, "setrlimit");
	}
	check(sched_setscheduler(0, SCHED_OTHER, &normal) == 0, "scheduler");
}

__attribute__((noreturn)) static void child(void)
{
	struct ifreq lo = { .ifr_name = "lo" };
	int fd;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; f.n_cgroups == MAX_CGROUPS && i < MAX_CGROUPS; i++)
		check(write(f.tasks[i], "0", 1) == 1, "join");
	take_ids();
	build_root();
	check(sethostname("bailey", 6) == 0, "hostname");
	lo.ifr_flags = IFF_UP | IFF_RUNNING;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	check(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0, "loopback");
	check(unshare(CLONE_NEWCGROUP) == 0, "cgroup namespace");
	check(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0, "keyring");
	set_limits();
	(void)umask(022);
	check(dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0) == 0, "stdin");
	check(setsid() >= 0, "session");
	drop_rights();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of ids cleared it */
	check(syscall(SYS_close_range, 3u, ~0u, 0u) == 0, "close");
	(void)execve(f.argv[0], f.argv, env);
	check(false, f.argv[0]);
	_exit(125);
}

/* --- one sandbox ---------------------------------------------------------------------------------------------------- */

static int once(uint64_t *ret_ns)
{
	struct clone_args args = { .flags = NAMESPACES | CLEAR_SIGHAND, .exit_signal = SIGCHLD };
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	int status = 0;
	pid_t pid;

	make_cgroups();
	if (f.root)
		open_trees();
	if (f.n_cgroups == 1) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned long long)f.dir[0];
	}
	__atomic_store_n(f.mapped, 0, __ATOMIC_RELEASE);
	pid = sys_clone3(&args);
	if (pid == 0)
		child();
	check(pid > 0, "clone3");
	if (f.root)
		write_maps(pid);
	for (unsigned i = 0; f.root && i < f.n_trees; i++)
		(void)close(f.trees[i].fd);
	check(waitpid(pid, &status, 0) == pid, "wait");
	remove_cgroups();
	*ret_ns = clock_ns(CLOCK_MONOTONIC) - start;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int many(unsigned n, bool serve)
{
	uint64_t ns;
	char byte;

	for (unsigned i = 0; serve || i < n; i++) {
		int status;

		if (serve && read(0, &byte, 1) != 1)
			return 0;
		status = once(&ns);
		if (status != 0)
			return status;
		(void)printf("%llu\n", (unsigned long long)ns);
		(void)fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t ns;
	unsigned repeat = 0;
	bool serve = false;
	int i = 1;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--serve") == 0) {
			serve = true;
		} else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc) {
			repeat = (unsigned)strtoumax(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--cgroup") == 0 && i + 1 < argc &&
			f.n_cgroups < MAX_CGROUPS) {
			f.parent[f.n_cgroups++] = argv[++i];
		} else if (strcmp(argv[i], "--mount") == 0 && i + 2 < argc) {
			f.mount_source = argv[++i];
			f.mount_target = argv[++i];
		} else {
			break;
		}
	}
	if (i >= argc || f.n_cgroups == 2) {
		(void)fprintf(stderr,
			"usage: bailey-floor [--cgroup DIR]... [--mount SRC DST] [--repeat N | --serve] "
			"COMMAND [ARGUMENT...]\n");
		return 2;
	}
	f.argv = argv + i;
	(void)snprintf(f.name, sizeof f.name, "bailey-floor-%d", getpid());
	f.uid = geteuid();
	f.gid = getegid();
	f.root = f.uid == 0;
	for (unsigned n = 0; n < f.n_cgroups; n++) {
		f.parent_fd[n] = open(f.parent[n], O_PATH | O_DIRECTORY | O_CLOEXEC);
		check(f.parent_fd[n] >= 0, f.parent[n]);
	}
	f.mapped = mmap(
		NULL, sizeof *f.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(f.mapped != MAP_FAILED, "mmap");
	return serve || repeat ? many(repeat, serve) : once(&ns);
}
