/* The sandbox's first process between clone3 and bailey-guest.
 *
 * Theory of operation.  It starts as a copy of the engine in fresh namespaces.  It waits for its id maps, builds a root on
 * a tmpfs (what of the host is shown, /proc, /dev, tmpfs, the few files of /etc), pivots into it, drops every right that
 * the guest does not need, installs the filter and executes the guest.  Any refusal on the way is one SETUP_FAILED frame
 * and the end: there is no second best.
 *
 * It allocates nothing and reads nothing that a caller wrote but fixed-size fields of the spec. */
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"
#include "wire/wire.h"

/* where the new root is first mounted: anything that exists everywhere and holds no source still to be opened */
#define STAGING "/tmp"

static int control_fd = -1;

__attribute__((noreturn)) static void fail(enum setup_step step, unsigned index, int error)
{
	struct wire_setup_failed m = { .step = step, .error = (uint32_t)error, .index = index };
	uint8_t out[64];
	size_t n = wire_put_setup_failed(out, sizeof out, &m);

	(void)write_all(control_fd, out, n);
	_exit(125);
}

static void check(bool ok, enum setup_step step)
{
	if (!ok)
		fail(step, 0, errno);
}

/* One byte from the parent says that what it had to do outside is done. */
static void wait_for_parent(void)
{
	char b;
	ssize_t n;

	do
		n = read(control_fd, &b, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(125); /* the owner is dead */
}

/* Where the parts of the new root lie, held from when they were made or checked: whatever is renamed meanwhile, a mount goes
 * onto what was looked at.  dev and run: directories of our own; in a session each is a tmpfs of this boot. */
struct places {
	int root, dev, run, proc;
	bool layered;
};

static const uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

static int open_place(int dir, const char *path)
{
	return sys_openat2(dir, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, beneath);
}

/* Makes what is missing of target, component by component. */
static int make_components(int root, const char *target, enum tree_kind kind)
{
	int dir = fcntl(root, F_DUPFD_CLOEXEC, 3);
	const char *p = target;

	while (dir >= 0) {
		const char *end = strchrnul(p, '/');
		bool last = *end == '\0', file = last && kind == TREE_FILE;
		char name[256];
		int next;

		if ((size_t)(end - p) >= sizeof name || end == p) {
			errno = ENAMETOOLONG;
			return close_fd(dir);
		}
		memcpy(name, p, (size_t)(end - p));
		name[end - p] = '\0';
		if (file)
			(void)mknodat(dir, name, S_IFREG | 0444, 0);
		else
			(void)mkdirat(dir, name, 0755);
		next = sys_openat2(
			dir, name, O_PATH | O_NOFOLLOW | (file ? 0 : O_DIRECTORY), 0, beneath);
		dir = close_fd(dir);
		if (last)
			return next;
		dir = next;
		p = end + 1;
	}
	return -1;
}

/* Opens (and where possible creates) target beneath root without following a link; the last component is a directory or
 * an empty file.  An O_PATH descriptor, or -1. */
static int make_target(int root, const char *target, enum tree_kind kind)
{
	int fd = sys_openat2(root, target,
		O_PATH | O_NOFOLLOW | (kind == TREE_FILE ? 0 : O_DIRECTORY), 0, beneath);

	return fd < 0 && errno == ENOENT ? make_components(root, target, kind) : fd;
}

/* The same for a place of the new root, what is below /dev and /run from there. */
static int place_target(const struct places *at, const char *target, enum tree_kind kind)
{
	const char *rest = str_after(target, "dev/");

	if (rest)
		return make_target(at->dev, rest, kind);
	rest = str_after(target, "run/");
	return rest ? make_target(at->run, rest, kind) : make_target(at->root, target, kind);
}

/* Of the descriptors that are left behind all are closed in one call. */
static int attach_tree(int tree, int at, const char *path)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0u : (unsigned)MOVE_MOUNT_T_EMPTY_PATH);

	return (int)syscall(SYS_move_mount, tree, "", at, path, flags);
}

static void attach_fd(const struct tree *t, int at, const char *path, unsigned number)
{
	if (attach_tree(t->tree_fd, at, path) < 0)
		fail(STEP_ATTACH, number, errno);
}

/* On a fresh tmpfs that nobody else sees, by name: nothing there can be a link but what we made. */
static void attach_own(int dir, struct tree *t, char *path, unsigned number)
{
	char *slash = strchr(path, '/');
	bool made;

	for (; slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdirat(dir, path, 0755);
		*slash = '/';
	}
	made = t->kind == TREE_FILE ? mknodat(dir, path, S_IFREG | 0444, 0) == 0
				    : mkdirat(dir, path, 0755) == 0;
	if (!made && errno != EEXIST)
		fail(STEP_TARGET, number, errno);
	attach_fd(t, dir, path, number);
}

/* What lies at the target may be anybody's. */
static void attach(const struct places *at, struct tree *t, unsigned number)
{
	_cleanup_close_ int fd = place_target(at, t->target, t->kind);

	if (fd < 0)
		fail(STEP_TARGET, number, errno);
	attach_fd(t, fd, "", number);
}

static void attach_trees(const struct places *at, struct tree_plan *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct tree *t = &p->trees[i];

		if (!at->layered)
			attach_own(at->root, t, t->target, i);
		else if (str_after(t->target, "dev/"))
			attach_own(at->dev, t, t->target + strlen("dev/"), i);
		else
			attach(at, t, i);
	}
}

static void open_trees(const struct child_plan *c)
{
	for (unsigned i = 0; i < c->trees->n; i++) {
		struct tree *t = &c->trees->trees[i];
		bool changed = false;
		int r = t->tree_fd >= 0 ? 0 : tree_open(t, true, &changed);

		if (r < 0)
			fail(changed ? STEP_CHANGED : STEP_TREE, i, -r);
	}
}

/* A user's guest is executed from a clone of its mount, made in here.  It is attached over the guest's own path in the old
 * root: so it goes with that root, where the last close of a detached one would wait for a grace period of its own. */
static void open_guest(struct child_plan *c)
{
	struct tree t = { .path = NULL, .source_fd = c->guest_fd, .idmap_fd = -1, .tree_fd = -1 };
	char link[64], path[PATH_MAX];
	bool changed = false;
	ssize_t n;
	int r;

	n = readlink(FMT(link, "/proc/self/fd/%d", c->guest_fd), path, sizeof path - 1);
	check(n > 0, STEP_EXEC);
	path[n] = '\0';
	t.source_path = path;
	r = tree_open(&t, true, &changed);
	if (r < 0)
		fail(STEP_EXEC, 0, -r);
	(void)syscall(SYS_move_mount, t.tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
	c->guest_fd = t.tree_fd;
}

/* A clone of what lies at path, shown in one more place. */
static int clone_at(int dir, const char *path)
{
	return (int)syscall(SYS_open_tree, dir, path,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
}

/* Covers proc/name by the clone; read_only: with all that a mount can refuse. */
static void cover(const struct places *at, const char *name, int tree, bool read_only)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
			MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };

	check(tree >= 0, STEP_PROC_MASK);
	if (read_only)
		check(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0,
			STEP_PROC_MASK);
	check(attach_tree(tree, at->proc, name) == 0, STEP_PROC_MASK);
}

/* Docker's list (oci defaults): files are covered by /dev/null, directories by an empty one. */
static void mask_proc(const struct places *at)
{
	static const char *const masked[] = { "acpi", "asound", "interrupts", "kcore", "keys",
		"latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats", "kallsyms",
		"kpagecgroup", "kpagecount", "kpageflags", "vmallocinfo", "config.gz" };
	static const char *const read_only[] = { "bus", "fs", "irq", "sys", "sysrq-trigger" };

	for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
		struct stat st;

		if (fstatat(at->proc, masked[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			cover(at, masked[i], clone_at(at->run, "empty"), true);
		else
			cover(at, masked[i], clone_at(at->dev, "null"), false);
	}
	for (size_t i = 0; i < sizeof read_only / sizeof *read_only; i++) {
		int tree = clone_at(at->proc, read_only[i]);

		if (tree >= 0 || errno != ENOENT)
			cover(at, read_only[i], tree, true);
	}
}

/* inotify instances and watches are counted up to the maker of the user namespace; a namespace may have less. */
static void cap_inotify(int proc)
{
	static const char *const files[][2] = { { "sys/user/max_inotify_instances", "32" },
		{ "sys/user/max_inotify_watches", "65536" },
		{ "sys/user/max_fanotify_groups", "0" }, { "sys/user/max_fanotify_marks", "0" } };

	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		check(write_file_at(proc, files[i][0], files[i][1]) == 0 || errno == ENOENT,
			STEP_RLIMIT);
}

/* A writable root may hold anything that an earlier run, or the sandbox it was forked from, left there.  The host's root still
 * lies beneath while this one is built: a link in place of a directory would lead there. */
static void hold_reserved(struct places *at)
{
	for (unsigned i = 0; i < n_reserved_dirs; i++) {
		int fd = sys_openat2(at->root, reserved_dirs[i], O_PATH | O_DIRECTORY | O_NOFOLLOW,
			0, beneath | RESOLVE_NO_XDEV);

		if (fd < 0)
			fail(STEP_RESERVED, i, errno);
		if (streq(reserved_dirs[i], "dev"))
			at->dev = fd;
		else if (streq(reserved_dirs[i], "run"))
			at->run = fd;
		else if (streq(reserved_dirs[i], "proc"))
			at->proc = fd;
		else
			fd = close_fd(fd);
	}
}

/* A new file system over a held directory; *at is its root then. */
static void mount_over(
	int *at, const char *type, const char *options, unsigned attributes, enum setup_step step)
{
	int fs = mount_new(type, options, attributes);

	check(fs >= 0 && attach_tree(fs, *at, "") == 0, step);
	close_fd(*at);
	*at = fs;
}

static void enter_root(const struct places *at)
{
	check(attach_tree(at->root, AT_FDCWD, STAGING) == 0 && fchdir(at->root) == 0, STEP_ROOT);
}

/* The root of a session that is not read-only: what may not be kept from one run to the next is tmpfs. */
static void take_layers(const struct child_plan *c, struct places *at)
{
	at->layered = true;
	at->root = c->root_tree;
	enter_root(at);
	hold_reserved(at);
	mount_over(&at->dev, "tmpfs", "size=64k,nr_inodes=64,mode=0755",
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, STEP_ROOT);
	mount_over(&at->run, "tmpfs", "size=1m,nr_inodes=512,mode=0755",
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, STEP_ROOT);
	check(mkdirat(at->run, "empty", 0555) == 0, STEP_DIRECTORY);
}

static void make_root(const struct child_plan *c, struct places *at)
{
	at->root = mount_new(
		"tmpfs", "size=1m,nr_inodes=512,mode=0755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	check(at->root >= 0, STEP_ROOT);
	enter_root(at);
	if (c->spec->image_fd < 0)
		check(mkdirat(at->root, "etc", 0755) == 0 &&
				skeleton_etc(at->root, c->spec, 0444) == 0,
			STEP_FILE);
	for (unsigned i = 0; i < c->trees->n_links; i++)
		check(symlinkat(c->trees->links[i].target, at->root, c->trees->links[i].name) == 0,
			STEP_FILE);
	check(mkdirat(at->root, "dev", 0755) == 0 && mkdirat(at->root, "proc", 0555) == 0 &&
			mkdirat(at->root, "run", 0755) == 0 &&
			mkdirat(at->root, "run/empty", 0555) == 0,
		STEP_DIRECTORY);
	at->dev = open_place(at->root, "dev");
	at->run = open_place(at->root, "run");
	at->proc = open_place(at->root, "proc");
	check(at->dev >= 0 && at->run >= 0 && at->proc >= 0, STEP_DIRECTORY);
}

static void make_dev(const struct child_plan *c, const struct places *at)
{
	static const char *const links[][2] = { { "/proc/self/fd", "fd" },
		{ "/proc/self/fd/0", "stdin" }, { "/proc/self/fd/1", "stdout" },
		{ "/proc/self/fd/2", "stderr" }, { "pts/ptmx", "ptmx" } };
	int pts;

	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		check(symlinkat(links[i][0], at->dev, links[i][1]) == 0, STEP_DEV);
	check(mkdirat(at->dev, "pts", 0755) == 0, STEP_DEV);
	/* gid 5 (tty) exists only where a range of ids is mapped; pseudo-terminals are one pool for all instances: take few */
	pts = mount_new("devpts",
		c->root ? "newinstance,ptmxmode=0666,mode=0620,max=64,gid=5"
			: "newinstance,ptmxmode=0666,mode=0620,max=64",
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	check(pts >= 0 && attach_tree(pts, at->dev, "pts") == 0, STEP_DEV);
}

/* A normal user's sandbox has one id, which is all that can own something in it. */
static void make_tmpfs(const struct sandbox_spec *s, const struct places *at, bool root)
{
	for (unsigned i = 0; i < s->n_tmpfs; i++) {
		const struct spec_tmpfs *t = &s->tmpfs[i];
		_cleanup_close_ int fd = place_target(at, t->target + 1, TREE_DIR);
		char options[160];
		int fs;

		if (fd < 0)
			fail(STEP_TMPFS, i, errno);
		FMT(options, "size=%llu,nr_inodes=%llu,mode=%o,uid=%u,gid=%u",
			(unsigned long long)t->size, (unsigned long long)t->inodes, t->mode,
			t->owned || !root ? s->uid : 0, t->owned || !root ? s->gid : 0);
		fs = mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
		if (fs < 0 || attach_tree(fs, fd, "") < 0)
			fail(STEP_TMPFS, i, errno);
	}
}

static void pivot(const struct places *at)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	check(sys_pivot_root(".", ".") == 0, STEP_PIVOT);
	/* the old root lies on top of the new one now; detaching it leaves nothing of the host's tree */
	check(umount2(".", MNT_DETACH) == 0 && chdir("/") == 0, STEP_PIVOT);
	check(syscall(SYS_mount_setattr, at->layered ? at->dev : at->root, "", AT_EMPTY_PATH, &attr,
		      sizeof attr) == 0,
		STEP_READONLY);
}

static void build_root(struct child_plan *c)
{
	struct places at = { .root = -1, .dev = -1, .run = -1, .proc = -1 };
	const struct sandbox_spec *s = c->spec;

	if (!c->root) {
		open_trees(c);
		open_guest(c); /* behind them, so that no clone of /usr takes it along */
	}
	if (c->root_tree >= 0)
		take_layers(c, &at);
	else
		make_root(c, &at);
	attach_trees(&at, c->trees, c->trees->n - s->n_binds);
	mount_over(&at.proc, "proc", "", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
		STEP_PROC);
	cap_inotify(at.proc);
	mask_proc(&at);
	make_dev(c, &at);
	make_tmpfs(s, &at, c->root);
	for (unsigned i = c->trees->n - s->n_binds; i < c->trees->n; i++)
		attach(&at, &c->trees->trees[i], i);
	pivot(&at);
	/* what is still open goes in one call, behind the descriptors' last use */
}

/* Never above what was inherited. */
static void cap_limit(int what, rlim_t most)
{
	struct rlimit r;

	check(getrlimit((__rlimit_resource_t)what, &r) == 0, STEP_RLIMIT);
	if (r.rlim_max > most)
		r.rlim_max = most;
	if (r.rlim_cur > r.rlim_max)
		r.rlim_cur = r.rlim_max;
	check(setrlimit((__rlimit_resource_t)what, &r) == 0, STEP_RLIMIT);
}

/* What the kernel counts per user of the host, and not per user namespace: without these one sandbox could take all that
 * its maker, and every other sandbox of it, has. */
static void cap_shared_limits(void)
{
	cap_limit(RLIMIT_SIGPENDING, 1024);
	cap_limit(RLIMIT_MSGQUEUE,
		96 << 10); /* bytes: one queue of the default size, with its bookkeeping */
	cap_limit(RLIMIT_MEMLOCK, 8 << 20); /* the kernel's own default since 5.16 */
	cap_limit(RLIMIT_NOFILE, 65536);    /* also bounds descriptors in flight over sockets */
}

/* The caller may be a service with privileges in scheduling; CPU limits hold for ordinary policies only. */
static void reset_scheduling(void)
{
	const struct sched_param normal = { .sched_priority = 0 };
	const struct rlimit none = { 0, 0 };

	check(sched_setscheduler(0, SCHED_OTHER, &normal) == 0, STEP_RLIMIT);
	check(setrlimit(RLIMIT_RTPRIO, &none) == 0 && setrlimit(RLIMIT_NICE, &none) == 0,
		STEP_RLIMIT);
	if (getpriority(PRIO_PROCESS, 0) < 0)
		check(setpriority(PRIO_PROCESS, 0, 0) == 0, STEP_RLIMIT);
}

/* Soft and hard; a lower limit that was inherited can't be raised in here, and is no weaker. */
static void limit_files(uint32_t most)
{
	struct rlimit r;

	if (!most)
		return;
	check(getrlimit(RLIMIT_NOFILE, &r) == 0, STEP_RLIMIT);
	r.rlim_max = r.rlim_max < most ? r.rlim_max : most;
	r.rlim_cur = r.rlim_max;
	check(setrlimit(RLIMIT_NOFILE, &r) == 0, STEP_RLIMIT);
}

static void set_limits(uint32_t files)
{
	/* 1, not 0: a program in core_pattern is then not run for a crash in here (fs/coredump.c); the filter keeps it so.
	 * A hard limit of 0 can't be raised: doctor's line 'core-dumps' says what that means. */
	const struct rlimit core = { 1, 1 };

	check(setrlimit(RLIMIT_CORE, &core) == 0 || errno == EPERM, STEP_RLIMIT);
	cap_shared_limits();
	limit_files(files);
	(void)umask(022);
	/* handlers end with exec; what was ignored would stay so */
	for (int sig = 1; sig < SIGRTMIN; sig++)
		(void)signal(sig, SIG_DFL);
}

static void set_stdio(const struct child_plan *c)
{
	bool none = c->io.fd[0] < 0 || c->io.fd[1] < 0 || c->io.fd[2] < 0;
	int null = none ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

	for (int i = 0; i < 3; i++)
		check(dup2(c->io.fd[i] >= 0 ? c->io.fd[i] : null, i) == i, STEP_STDIO);
}

/* Descriptor 3 is the channel, 4 the guest's program; all else closes itself on exec. */
static void place_fds(const struct child_plan *c)
{
	int guest = fcntl(c->guest_fd, F_DUPFD_CLOEXEC, 64);
	int control = fcntl(control_fd, F_DUPFD_CLOEXEC, 64);

	check(guest >= 0 && control >= 0, STEP_STDIO);
	check(syscall(SYS_close_range, 3u, 63u, 0u) == 0, STEP_STDIO);
	check(dup2(control, WIRE_CONTROL_FD) == WIRE_CONTROL_FD, STEP_STDIO);
	control_fd = WIRE_CONTROL_FD;
	check(dup3(guest, 4, O_CLOEXEC) == 4, STEP_STDIO);
	check(syscall(SYS_close_range, 5u, ~0u, 0u) == 0, STEP_STDIO);
}

/* A workspace may hold a link to /proc/self/fd/N: it must neither be followed nor find a directory of the host's there
 * (CVE-2024-21626).  So all of those are closed before, and magic links refused. */
static void enter_workdir(const struct sandbox_spec *s)
{
	_cleanup_close_ int fd =
		sys_openat2(AT_FDCWD, s->workdir, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);

	if (fd >= 0 && fchdir(fd) == 0)
		return;
	/* the workload may have removed it: its files must still be reachable */
	check(s->session && !s->read_only, STEP_WORKDIR);
}

static void enter_guest(const struct child_plan *c)
{
	static char name[] = "bailey-guest";
	char **argv;
	size_t n = 0;

	while (c->spec->argv && c->spec->argv[n])
		n++;
	argv = calloc(n + 2, sizeof *argv);
	check(argv != NULL, STEP_EXEC);
	argv[0] = name;
	if (n)
		memcpy(argv + 1, c->spec->argv, n * sizeof *argv);
	(void)syscall(SYS_execveat, 4, "", argv, c->spec->env, AT_EMPTY_PATH);
	fail(STEP_EXEC, 0, errno);
}

/* The one id of a normal user needs no right outside: no need to wait for the parent to write it. */
static void write_own_maps(const struct child_plan *c)
{
	char uid[32], gid[32];

	FMT(uid, "%u %u 1", c->spec->uid, c->host_uid);
	FMT(gid, "%u %u 1", c->spec->gid, c->host_gid);
	check(write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0 &&
			write_file_at(AT_FDCWD, "/proc/self/uid_map", uid) == 0 &&
			write_file_at(AT_FDCWD, "/proc/self/gid_map", gid) == 0,
		STEP_IDS);
}

static void join_cgroups(const struct child_plan *c)
{
	for (unsigned i = 0; i < CGROUP_MAX_CONTROLLERS; i++)
		if (c->join[i] >= 0)
			check(write(c->join[i], "0", 1) == 1, STEP_JOIN);
}

void child_run(const struct child_plan *plan)
{
	struct child_plan c = *plan;
	const struct sandbox_spec *s = c.spec;

	control_fd = c.control;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	reset_scheduling(); /* first: a cgroup v1 without real-time shares takes no real-time process */
	join_cgroups(&c);
	if (c.root)
		wait_for_parent();
	else
		write_own_maps(&c);
	if (c.root)
		check(setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0,
			STEP_IDS);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of ids cleared it */
	build_root(&c);
	check(sethostname(s->hostname, strlen(s->hostname)) == 0, STEP_HOSTNAME);
	check(loopback_up() == 0, STEP_LOOPBACK);
	/* not by clone3: it would be made before the process is in its cgroup, and show the host's path */
	check(unshare(CLONE_NEWCGROUP) == 0, STEP_CGROUPNS);
	check(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0, STEP_KEYRING);
	set_limits(s->nofile);
	set_stdio(&c);
	place_fds(&c);
	enter_workdir(s);
	check(setsid() >= 0, STEP_SESSION);
	check(caps_drop(c.root, s->add_caps) == 0, STEP_CAPS);
	check(landlock_scope() == 0, STEP_LANDLOCK);
	check(seccomp_install(s->allow_setgid) == 0, STEP_SECCOMP);
	enter_guest(&c);
	_exit(125);
}
