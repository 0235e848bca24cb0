/* Explains refusals and, for `bailey doctor`, tries what a sandbox needs by doing it.  Nothing here reads a version. */
#include <fcntl.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"
#include "spec/profile.h"

/* Settings that forbid user namespaces, in the order of how often they are the cause. */
static const struct {
	const char *path, *bad, *key, *remedy;
} settings[] = {
	{ "/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces",
		"Set it on the host: sysctl -w user.max_user_namespaces=15000" },
	{ "/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone",
		"Set it on the host: sysctl -w kernel.unprivileged_userns_clone=1" },
	{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"kernel.apparmor_restrict_unprivileged_userns",
		"Load an AppArmor profile that allows 'userns' for bailey (see docs/doctor.md), or set it on the host: "
		"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" },
};

static bool in_container(void)
{
	struct stat st;
	char text[64];

	return stat("/.dockerenv", &st) == 0 || stat("/run/.containerenv", &st) == 0 ||
		read_file_at(AT_FDCWD, "/run/systemd/container", text, sizeof text) > 0;
}

int explain_userns(int sys_errno, struct err *e)
{
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		char text[32];

		if (read_file_at(AT_FDCWD, settings[i].path, text, sizeof text) <= 0)
			continue;
		text[strcspn(text, "\n")] = '\0';
		if (!streq(text, settings[i].bad) || (i > 0 && geteuid() == 0))
			continue;
		(void)err_set(e, R_USERNS_UNAVAILABLE, sys_errno,
			"make a user namespace: '%s' is %s", settings[i].key, text);
		return err_remedy(e, "%s", settings[i].remedy);
	}
	(void)err_set(e, R_USERNS_UNAVAILABLE, sys_errno, "make a user namespace");
	if (in_container())
		return err_remedy(e,
			"Bailey runs inside a container whose seccomp profile refuses it: run it on the host, or start the container "
			"with --security-opt seccomp=unconfined --security-opt systempaths=unconfined.");
	return -1;
}

/* --- small experiments --------------------------------------------------------------------------------------------- */

enum {
	HOG_BYTES = 64 << 20,
	HOG_LIMIT = 16 << 20,
	PIDS_LIMIT = 8,
	CPU_LIMIT_MILLIS = 100,
	BURN_MS = 300
};

typedef int experiment(void *arg);

/* Runs f in a child that is in cgroup c (NULL: as it is); its wait status and usage. */
static int run_child(experiment *f, void *arg, const struct cgroup *c, const struct cgroup_tree *t,
	struct rusage *ru)
{
	struct err ignored = ERR_INIT;
	int go[2], status = -1;
	char b = 0;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(read(go[0], &b, 1) == 1 ? f(arg) : 125);
	}
	if (pid > 0 && (!c || cgroup_join(c, t, pid, &ignored) == 0))
		(void)!write(go[1], "g", 1);
	err_done(&ignored);
	go[0] = close_fd(go[0]);
	go[1] = close_fd(go[1]);
	if (pid < 0 || wait4(pid, &status, 0, ru) < 0)
		return -1;
	return status;
}

static int hog_memory(void *arg)
{
	volatile char *p =
		mmap(NULL, HOG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	for (size_t i = 0; p != MAP_FAILED && i < HOG_BYTES; i += 4096)
		p[i] = 1;
	return 0;
}

/* 0: a fork was refused; 1: never. */
static int fork_away(void *arg)
{
	pid_t pids[2 * PIDS_LIMIT + 8];
	int n = 0, refused = 1;

	(void)arg;
	for (; n < 2 * PIDS_LIMIT + 8; n++) {
		pids[n] = fork();
		if (pids[n] == 0) {
			(void)pause();
			_exit(0);
		}
		if (pids[n] < 0) {
			refused = errno == EAGAIN ? 0 : 2;
			break;
		}
	}
	while (n-- > 0) {
		(void)kill(pids[n], SIGKILL);
		(void)waitpid(pids[n], NULL, 0);
	}
	return refused;
}

static int burn(void *arg)
{
	uint64_t end = monotonic_us() + BURN_MS * 1000;

	(void)arg;
	while (monotonic_us() < end)
		;
	return 0;
}

/* 0: a refused call is EPERM, an unknown one ENOSYS, and an allowed one works. */
static int try_filter(void *arg)
{
	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return 1;
	if (seccomp_install(false) < 0)
		return 2;
	if (syscall(SYS_unshare, CLONE_NEWUSER) == 0 || errno != EPERM)
		return 3;
	return syscall(1000) < 0 && errno == ENOSYS && getpid() > 0 ? 0 : 4;
}

static int try_i386(void *arg)
{
	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_install(false) < 0)
		return 1;
	{
		long r = 20; /* getpid of i386 */

		__asm__ volatile("int $0x80" : "+a"(r) : : "memory");
		return r > 0 ? 0 : 2;
	}
}

static int try_userns(void *arg)
{
	(void)arg;
	return unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
}

static int try_landlock(void *arg)
{
	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_scope() < 0)
		return 1;
	return kill(getppid(), 0) < 0 && errno == EPERM ? 0 : 2;
}

static int try_keyring(void *arg)
{
	(void)arg;
	return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0 ? 0 : 1;
}

/* --- the checks ---------------------------------------------------------------------------------------------------- */

static struct engine_check *add(struct engine_report *r, const char *name, enum engine_verdict v)
{
	struct engine_check *c =
		&r->checks[r->n_checks < ENGINE_MAX_CHECKS ? r->n_checks++ : ENGINE_MAX_CHECKS - 1];

	memset(c, 0, sizeof *c);
	c->name = name;
	c->verdict = v;
	return c;
}

#define SAY(field, ...) ((void)snprintf((field), sizeof(field), __VA_ARGS__))

static void say_err(struct engine_check *c, const struct err *e, const char *consequence)
{
	SAY(c->result, "%s [%s]", e->message ?: "failed", reason_name(e->reason));
	SAY(c->consequence, "%s", consequence);
	SAY(c->remedy, "%s", err_get_remedy(e));
}

static void check_userns(struct engine_report *r)
{
	_cleanup_err_ struct err e = ERR_INIT;
	int status = run_child(try_userns, NULL, NULL, NULL, NULL);
	struct engine_check *c;

	if (status == 0) {
		c = add(r, "user-namespace", VERDICT_OK);
		SAY(c->result, "made one");
		return;
	}
	c = add(r, "user-namespace", VERDICT_FAIL);
	(void)explain_userns(status > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EPERM, &e);
	say_err(c, &e, "No sandbox can be made by the native engine.");
}

static void check_home(struct engine_report *r)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char *dir = NULL;
	struct engine_check *c;

	if (home_subdir("log", &dir, &e) == 0) {
		_cleanup_close_ int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

		if (fd >= 0 && write_all(fd, "x", 1) == 0) {
			c = add(r, "home", VERDICT_OK);
			SAY(c->result, "wrote to '%.300s'", dir);
			return;
		}
		(void)err_set(&e, errno == ENOSPC ? R_DISK_FULL : R_STATE_UNWRITABLE, errno,
			"write to '%s'", dir);
	}
	c = add(r, "home", VERDICT_WEAKER);
	say_err(c, &e, "The log is lost; escape hatches leave no trace.");
}

static void check_seccomp(struct engine_report *r)
{
	int status = run_child(try_filter, NULL, NULL, NULL, NULL);
	int i386 = run_child(try_i386, NULL, NULL, NULL, NULL);
	bool refused = i386 >= 0 && WIFSIGNALED(i386) &&
		(WTERMSIG(i386) == SIGSYS || WTERMSIG(i386) == SIGSEGV);
	struct engine_check *c =
		add(r, "seccomp", status == 0 && refused ? VERDICT_OK : VERDICT_FAIL);

	SAY(c->result, "filter: %s; a 32-bit call: %s",
		status == 0 ? "unshare refused with EPERM, an unknown call with ENOSYS"
			    : "not installed, or not in force",
		refused ? "ended the process" : "not refused");
	if (c->verdict == VERDICT_FAIL) {
		SAY(c->consequence,
			"The default profile can't run: system calls would not be filtered.");
		SAY(c->remedy, "Use a kernel with CONFIG_SECCOMP_FILTER.");
	}
}

static void check_landlock(struct engine_report *r)
{
	int status = run_child(try_landlock, NULL, NULL, NULL, NULL);
	struct engine_check *c =
		add(r, "landlock-scope", status == 0 ? VERDICT_OK : VERDICT_WEAKER);

	SAY(c->result,
		status == 0 ? "a signal to an outsider was refused (ABI %d)"
			    : "no scoping (ABI %d)",
		landlock_abi());
	if (status == 0)
		return;
	SAY(c->consequence,
		"A second wall is missing; namespaces alone separate signals and abstract sockets.");
	SAY(c->remedy, "Use Linux 6.12 or newer with Landlock enabled.");
}

static void check_keyring(struct engine_report *r)
{
	int status = run_child(try_keyring, NULL, NULL, NULL, NULL);
	struct engine_check *c = add(r, "keyring", status == 0 ? VERDICT_OK : VERDICT_FAIL);

	SAY(c->result,
		status == 0 ? "joined an empty session keyring"
			    : "could not join an empty session keyring");
	if (status == 0)
		return;
	SAY(c->consequence,
		"The default profile can't run: keys of the caller could be found by the command.");
	SAY(c->remedy, "Raise kernel.keys.maxkeys, or allow keyctl(2) to Bailey.");
}

static void check_ids(struct engine *n, struct engine_report *r)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct id_range ids = { .lock_fd = -1 };
	struct engine_check *c;

	if (!n->root) {
		c = add(r, "ids", VERDICT_OK);
		SAY(c->result, "a normal user's sandboxes have that user's one id (%u)", n->uid);
		return;
	}
	if (ids_check_region(n->env.ids_base, n->env.ids_count, &e) == 0 &&
		ids_take(&ids, n->env.ids_base, n->env.ids_count, &e) == 0) {
		c = add(r, "ids", VERDICT_OK);
		SAY(c->result, "took the range %u to %u", ids.base, ids.base + NATIVE_ID_RANGE - 1);
		ids_release(&ids);
		return;
	}
	c = add(r, "ids", VERDICT_FAIL);
	say_err(c, &e, "No sandbox can be made as root.");
}

static void check_idmap_at(struct engine *n, struct engine_report *r, const char *path)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int map = -1;
	struct tree t = { .path = path, .source_fd = -1, .idmap_fd = -1, .tree_fd = -1 };
	struct engine_check *c;
	bool changed = false;
	int error;

	if (ids_open_mapping(0, 0, n->env.ids_base, n->env.ids_base, 1, &map, &e) < 0)
		return; /* the check of user namespaces says why */
	t.idmap_fd = map;
	error = tree_open(&t, false, &changed);
	t.tree_fd = close_fd(t.tree_fd);
	c = add(r, "idmapped-mount", error == 0 ? VERDICT_OK : VERDICT_WEAKER);
	SAY(c->result, "%s: %s", path, error == 0 ? "mapped" : strerrordesc_np(-error) ?: "failed");
	if (error == 0)
		return;
	SAY(c->consequence,
		"As root, workspaces on this file system are refused (idmap_unsupported).");
	SAY(c->remedy,
		"Keep workspaces on ext4, xfs, btrfs or tmpfs, or run Bailey as a normal user.");
}

/* --- limits, by breaking them ------------------------------------------------------------------------------------- */

static void limits_fail(
	struct engine_report *r, const char *name, const char *what, const char *where)
{
	struct engine_check *c = add(r, name, VERDICT_FAIL);

	SAY(c->result, "%s in '%.200s'", what, where);
	SAY(c->consequence,
		"Runs would be refused or, worse, not held to their limit: the default profile can't run.");
	SAY(c->remedy,
		"Mount the controller's hierarchy for real, or give Bailey another subtree with cgroup.parent.");
}

static void limits_ok(struct engine_report *r, const char *name, const char *what)
{
	SAY(add(r, name, VERDICT_OK)->result, "%s", what);
}

static void check_memory(struct engine *n, struct engine_report *r, const struct cgroup *c)
{
	struct engine_facts f = { .has_oom = false };
	int status = run_child(hog_memory, NULL, c, &n->tree, NULL);

	cgroup_read(c, &n->tree, &f);
	if (status > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && f.has_oom &&
		f.oom_kills)
		limits_ok(r, "memory-limit", "64 MiB under a limit of 16 MiB: killed and counted");
	else
		limits_fail(r, "memory-limit", "64 MiB under a limit of 16 MiB were not stopped",
			n->tree.path[0]);
	limits_ok(r, "memory-peak",
		f.has_memory_peak ? "counted by the kernel"
				  : "not counted by this kernel: null in reports");
}

static void check_pids(struct engine *n, struct engine_report *r, const struct cgroup *c)
{
	int status = run_child(fork_away, NULL, c, &n->tree, NULL);

	if (status == 0)
		limits_ok(r, "pids-limit", "a fork beyond the limit was refused");
	else
		limits_fail(
			r, "pids-limit", "no fork beyond the limit was refused", n->tree.path[0]);
}

static void check_cpu(struct engine *n, struct engine_report *r, const struct cgroup *c)
{
	struct rusage ru = { 0 };
	int status = run_child(burn, NULL, c, &n->tree, &ru);
	long used_ms = ru.ru_utime.tv_sec * 1000 + ru.ru_utime.tv_usec / 1000;

	/* a tenth of a CPU for 300 ms is 30; a whole one would be 300 */
	if (status == 0 && used_ms < BURN_MS / 2)
		limits_ok(r, "cpu-limit", "a busy loop was held to its share");
	else
		limits_fail(r, "cpu-limit", "a busy loop got more than its share", n->tree.path[0]);
}

static void no_cgroup(struct engine *n, struct engine_report *r, const struct err *e)
{
	struct engine_check *c = add(r, "cgroup", VERDICT_FAIL);

	say_err(c, e,
		n->root ? "The default profile can't run: limits can't be enforced."
			: "The default profile can't run as this user; --unlimited would run without limits.");
}

static void check_limits(struct engine *n, struct engine_report *r)
{
	const struct spec_limits l = {
		.memory_bytes = HOG_LIMIT, .cpu_millis = CPU_LIMIT_MILLIS, .pids = PIDS_LIMIT
	};
	const struct cgroup_want want = { "probe", &l, false };
	_cleanup_err_ struct err e = ERR_INIT;
	struct cgroup cg;
	struct engine_check *c;

	if (native_tree(n, &e) < 0 || cgroup_make(&cg, &n->tree, n->env.home_hash, &want, &e) < 0) {
		no_cgroup(n, r, &e);
		return;
	}
	c = add(r, "cgroup", VERDICT_OK);
	SAY(c->result, "version %d, below '%.300s'", n->tree.kind == CGROUP_V1 ? 1 : 2,
		n->tree.path[0]);
	check_pids(n, r, &cg);
	check_cpu(n, r, &cg);
	check_memory(n, r, &cg);
	cgroup_remove(&cg, &n->tree);
}

/* --- the whole thing ---------------------------------------------------------------------------------------------- */

static int run_default(struct engine *n, int *ret_exit, struct err *e)
{
	struct run_request req = { .image_fd = -1,
		.tmp_size = 1 << 20,
		.uid = 1000,
		.gid = 1000,
		.limits = { .memory_bytes = 256 << 20,
			.cpu_millis = 1000,
			.pids = 16,
			.timeout_ms = 20000,
			.unlimited = !n->have_tree } };
	char command[] = "/usr/bin/true";
	char *argv[] = { command, NULL };
	_cleanup_spec_ struct sandbox_spec spec;
	/* given to the workload's user: never a file of the host */
	_cleanup_close_ int output = memfd_create("output", MFD_CLOEXEC);
	const struct engine_io io = { { -1, output, output } };
	_cleanup_free_ char **env = NULL;
	struct engine_event ev = { ENGINE_NOTHING, 0 };
	struct engine_facts facts;
	struct sandbox *sb = NULL;
	int r;

	req.argv = argv;
	spec_init(&spec);
	if (profile_run(&spec, &req, &env, e) < 0 || n->ops->create(n, &spec, &io, &sb, e) < 0)
		return -1;
	r = n->ops->start(sb, e);
	while (r == 0 && ev.kind != ENGINE_EXITED && ev.kind != ENGINE_NOT_STARTED &&
		ev.kind != ENGINE_CLOSED) {
		struct pollfd p = { .fd = n->ops->channel(sb), .events = POLLIN };

		(void)poll(&p, 1, 20000);
		r = n->ops->next(sb, &ev, e);
	}
	if (r == 0)
		r = n->ops->remove(sb, &facts, e);
	n->ops->free(sb);
	*ret_exit = ev.kind == ENGINE_EXITED ? ev.value : -1;
	return r;
}

static void check_whole(struct engine *n, struct engine_report *r)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct engine_check *c;
	int exit_code = -1;

	if (run_default(n, &exit_code, &e) == 0) {
		c = add(r, "sandbox", exit_code == 0 ? VERDICT_OK : VERDICT_WEAKER);
		SAY(c->result,
			exit_code == 0 ? "ran /usr/bin/true in one"
				       : "made one, but /usr/bin/true did not run in it");
		if (exit_code != 0) {
			SAY(c->consequence, "The host's /usr is no image to run commands from.");
			SAY(c->remedy, "Name a root file system with --image.");
		}
		return;
	}
	c = add(r, "sandbox", VERDICT_FAIL);
	say_err(c, &e, "The default profile can't run.");
}

/* A crash must not start the program in core_pattern, which runs as root outside. */
static void check_core(struct engine_report *r)
{
	char pattern[256] = "";
	struct rlimit limit = { 1, 1 };
	struct engine_check *c;
	bool runs;

	(void)read_file_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern);
	(void)getrlimit(RLIMIT_CORE, &limit);
	runs = pattern[0] == '|' && limit.rlim_max == 0;
	c = add(r, "core-dumps", runs ? VERDICT_WEAKER : VERDICT_OK);
	SAY(c->result, "hard limit %s, core_pattern %s", limit.rlim_max == 0 ? "0" : "above 0",
		pattern[0] == '|' ? "runs a program" : "names a file");
	if (!runs)
		return;
	SAY(c->consequence,
		"A crash inside starts the host's core_pattern program as root: the limit of 1 that forbids it can't be set.");
	SAY(c->remedy, "Start Bailey with a hard RLIMIT_CORE above 0 (ulimit -Hc unlimited).");
}

static int try_layers(void *arg)
{
	return (int)layers_probe(arg);
}

static void check_layers(struct engine *n, struct engine_report *r)
{
	int status = run_child(try_layers, n, NULL, NULL, NULL);
	unsigned can = status >= 0 && WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 0;
	bool mark = can & LAYERS_CAN_MARK, map = !n->root || (can & LAYERS_CAN_MAP_IDS);
	struct engine_check *c;

	c = add(r, "layers", (can & LAYERS_CAN_STACK) && mark && map ? VERDICT_OK : VERDICT_WEAKER);
	SAY(c->result, "overlay %s, attributes of users on tmpfs %s%s",
		(can & LAYERS_CAN_STACK) ? "works" : "refused", mark ? "work" : "refused",
		!n->root      ? ""
			: map ? ", idmapped tmpfs works"
			      : ", idmapped tmpfs refused");
	if (!(can & LAYERS_CAN_STACK)) {
		SAY(c->consequence, "Sandboxes that live ('create') can only be read-only.");
		SAY(c->remedy, "Load the module 'overlay', or use a kernel that has it.");
	} else if (!mark && !n->root) {
		SAY(c->consequence,
			"A fork copies its files, and a workspace can't be copy-on-write (layer_unsupported).");
		SAY(c->remedy, "Use Linux 6.6 or newer, or run Bailey as root.");
	} else if (!map) {
		SAY(c->consequence,
			"A fork shares the ids of the sandbox that it was forked from.");
		SAY(c->remedy, "Use Linux 6.3 or newer.");
	}
}

static int try_store(struct engine *n, struct err *e)
{
	_cleanup_close_ int image = -1, tree = -1;

	if (!n->root)
		return layers_only_root(e);
	return store_new(n, 1 << 20, &image, e) < 0 ? -1 : loop_mount(image, &tree, e);
}

/* Only where native.layers asks for it. */
static void check_store(struct engine *n, struct engine_report *r)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct engine_check *c;
	int failed;

	if (!n->loop)
		return;
	failed = try_store(n, &e);
	c = add(r, "layer-store", failed ? VERDICT_WEAKER : VERDICT_OK);
	SAY(c->result, "a file system in a file of the layer store works");
	if (failed)
		say_err(c, &e, "No sandbox that lives can be made ('create').");
}

static void check_pause(struct engine *n, struct engine_report *r)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct cgroup_tree tree = { .kind = CGROUP_NONE };
	struct engine_env env = n->env;
	struct engine_check *c;
	bool v2;

	env.runs = env.runs ?: "/"; /* asks for the freezer too */
	if (!n->have_tree || cgroup_find(&tree, &env, n->root, &ignored) < 0)
		return; /* the check of limits says why */
	v2 = tree.kind == CGROUP_V2;
	cgroup_tree_done(&tree);
	c = add(r, "pause", v2 || tree.has_freezer ? VERDICT_OK : VERDICT_WEAKER);
	if (v2 || tree.has_freezer) {
		SAY(c->result, "by the %s", v2 ? "sandbox's cgroup" : "freezer hierarchy");
		return;
	}
	SAY(c->result, "by signals: no freezer hierarchy that this user may use");
	SAY(c->consequence, "A workload can see that it was paused.");
	SAY(c->remedy, "Delegate the freezer hierarchy too, or use cgroup v2.");
}

static void check_workspace(struct engine_report *r)
{
	struct engine_check *c = add(r, "workspace-quota", VERDICT_WEAKER);

	SAY(c->result, "a writable workspace is a directory of the host's");
	SAY(c->consequence,
		"What a command writes there is bounded only by the free space of that file system.");
	SAY(c->remedy, "Give workspaces a file system of their own where that matters.");
}

int native_probe(struct engine *n, struct engine_report *ret, struct err *e)
{
	(void)e;
	memset(ret, 0, sizeof *ret);
	check_home(ret);
	check_userns(ret);
	check_seccomp(ret);
	check_landlock(ret);
	check_keyring(ret);
	check_core(ret);
	check_ids(n, ret);
	if (n->root) {
		check_idmap_at(n, ret, "/");
		check_idmap_at(n, ret, "/tmp");
	}
	check_limits(n, ret);
	check_whole(n, ret);
	check_layers(n, ret);
	check_store(n, ret);
	check_pause(n, ret);
	check_workspace(ret);
	ret->usable = true;
	for (unsigned i = 0; i < ret->n_checks; i++)
		ret->usable = ret->usable && ret->checks[i].verdict != VERDICT_FAIL;
	return 0;
}
