/* A normal user's way to enforced limits under systemd: one delegated unit of the user's own manager, made once per home
 * and then reused.  Called by cgroup.c when no writable cgroup was found.
 *
 * A login session's cgroup belongs to root, so nothing can be moved from there into the user's part of the tree by the
 * user; the user's manager can have PID 1 do it (AttachProcessesToUnit).  A scope would vanish with its last process; a
 * oneshot service that "remains" keeps its name and its delegation while empty, and needs no process of ours.
 * busctl and systemd-run are used rather than a D-Bus library: this runs at most once per command and `bailey` stays a
 * program that links nothing but the C library. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/native/native.h"

enum { TOOL_DEADLINE_MS = 10000, JOIN_TRIES = 5, MOVE_TRIES = 400, MOVE_PAUSE_US = 5000 };

#define LEAF "/owners"

/* Runs a tool quietly; its exit status, or -1. */
static int run_tool(char *const argv[])
{
	posix_spawn_file_actions_t actions;
	uint64_t end = boottime_ms() + TOOL_DEADLINE_MS;
	int status = -1;
	pid_t pid;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return -1;
	(void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, 0, 1);
	(void)posix_spawn_file_actions_adddup2(&actions, 0, 2);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
		pid = -1;
	(void)posix_spawn_file_actions_destroy(&actions);
	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		if (boottime_ms() > end)
			(void)kill(pid, SIGKILL);
		(void)usleep(500);
	}
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int attach_self(char *unit, char *sub)
{
	char pid[16], busctl[] = "busctl", user[] = "--user", quiet[] = "--quiet", call[] = "call";
	char service[] = "org.freedesktop.systemd1", object[] = "/org/freedesktop/systemd1";
	char interface[] = "org.freedesktop.systemd1.Manager", method[] = "AttachProcessesToUnit",
	     types[] = "ssau";
	char one[] = "1";
	char *const argv[] = { busctl, user, quiet, call, service, object, interface, method, types,
		unit, sub, one, FMT(pid, "%d", getpid()), NULL };

	return run_tool(argv);
}

static int make_unit(char *unit)
{
	char run[] = "systemd-run", user[] = "--user", quiet[] = "--quiet", name[NATIVE_NAME];
	char delegate[] = "--property=Delegate=yes", type[] = "--property=Type=oneshot";
	char remain[] = "--property=RemainAfterExit=yes", program[] = "/bin/true";
	char *const argv[] = { run, user, quiet, FMT(name, "--unit=%s", unit), delegate, type,
		remain, program, NULL };

	return run_tool(argv);
}

static bool inside_unit(const char *unit, char *path, size_t cap)
{
	char text[CGROUP_PATH];

	if (read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0 ||
		!strstr(text, unit))
		return false;
	text[strcspn(text, "\n")] = '\0';
	if (!str_after(text, "0::/") || strlen(text) + 32 > cap)
		return false;
	str_format(path, cap, "/sys/fs/cgroup%s", text + 3);
	return true;
}

/* Leaves the unit's own cgroup for a leaf, as the kernel wants before controllers are handed on. */
static int move_to_leaf(const char *path, struct err *e)
{
	char leaf[CGROUP_PATH + 32], file[CGROUP_PATH + 64], pid[16];

	FMT(leaf, "%s" LEAF, path);
	if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
		return err_set(e, R_LIMITS_UNENFORCED, errno, "create cgroup '%s'", leaf);
	if (write_file_at(AT_FDCWD, FMT(file, "%s/cgroup.procs", leaf), FMT(pid, "%d", getpid())) <
		0)
		return err_set(
			e, R_LIMITS_UNENFORCED, errno, "move this process into cgroup '%s'", leaf);
	return 0;
}

static int no_systemd(const char *what, struct err *e)
{
	(void)err_set(e, R_LIMITS_UNENFORCED, 0, "%s for uid '%u'", what, geteuid());
	return err_remedy(e,
		"Log in so that systemd starts your user manager (ssh or 'machinectl shell', not su), have an administrator "
		"delegate a cgroup subtree and name it in cgroup.parent, or accept the risk with --unlimited.");
}

/* Once the unit hands on controllers only its leaf takes processes; before that, or after systemd pruned it, there is no
 * leaf.  Another process may make the leaf between the two attempts, so that both fail: then the next round works. */
static int join_unit(char *unit, int tries)
{
	char leaf[] = LEAF, top[] = "";

	for (int i = 0; i < tries; i++)
		if (attach_self(unit, leaf) == 0 || attach_self(unit, top) == 0)
			return 0;
	return -1;
}

/* Waits until systemd has moved this process; then it is in the unit's leaf, and path is the unit's directory. */
static int enter_unit(const char *unit, char *path, size_t cap, struct err *e)
{
	char *end;

	for (int i = 0; !inside_unit(unit, path, cap); i++) {
		if (i == MOVE_TRIES)
			return no_systemd(
				"get a delegated cgroup from the user's systemd: it did not move this process",
				e);
		(void)usleep(MOVE_PAUSE_US);
	}
	end = strrchr(path, '/');
	if (strcmp(end, LEAF) != 0)
		return move_to_leaf(path, e);
	*end = '\0';
	return 0;
}

int cgroup_v2_from_systemd(struct cgroup_tree *ret, const char *home_hash, struct err *e)
{
	char unit[64], path[CGROUP_PATH] = "";

	FMT(unit, "bailey-%s.service", home_hash);
	if (join_unit(unit, 1) < 0) {
		(void)make_unit(unit); /* failing because another command was quicker is fine */
		if (join_unit(unit, JOIN_TRIES) < 0)
			return no_systemd(
				"get a delegated cgroup from the user's systemd: no user manager answers",
				e);
	}
	if (enter_unit(unit, path, sizeof path, e) < 0)
		return -1;
	/* Another command may be passing through the unit's own cgroup at this moment: controllers are then EBUSY.  No other
	 * directory will do: app.slice above hands them on too, but no later command would look there for what is left. */
	for (int i = 0; i < MOVE_TRIES; i++) {
		if (cgroup_v2_take(ret, path) == 0)
			return 0;
		(void)usleep(MOVE_PAUSE_US);
	}
	return no_systemd(
		"use the delegated cgroup of the user's systemd: it does not hand on memory, pids and cpu",
		e);
}
