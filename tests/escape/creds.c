/* Gaining privilege: capabilities, ids, setuid programs, and the process's own status. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

/* The value of a line of /proc/PID/status, as text; empty when there is none. */
static void status_line(pid_t pid, const char *key, char *out, size_t cap)
{
	char path[64], line[256];
	size_t n = strlen(key);

	out[0] = 0;
	(void)snprintf(path, sizeof path, "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, key, n) == 0 && line[n] == ':')
			(void)snprintf(out, cap, "%s", line + n + 1 + strspn(line + n + 1, " \t"));
	if (f)
		(void)fclose(f);
}

static struct verdict status_is(char **arg)
{
	char value[64];

	status_line(getpid(), arg[0], value, sizeof value);
	if (strtoumax(value, NULL, 16) == number(arg[1]))
		return blocked("as-it-must");
	return success("%s is %s", arg[0], value);
}

static struct verdict status_caps(char **arg)
{
	static const char *const keys[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
	char value[64];

	(void)arg;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		status_line(getpid(), keys[i], value, sizeof value);
		if (strtoumax(value, NULL, 16) != 0)
			return success("%s is %s", keys[i], value);
	}
	return blocked("none");
}

static struct verdict child_capset(char **arg)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	(void)arg;
	if (syscall(SYS_capget, &h, d) < 0)
		return by_errno(-1);
	d[0].permitted |= 1u << CAP_SYS_ADMIN;
	d[0].effective |= 1u << CAP_SYS_ADMIN;
	return by_errno(syscall(SYS_capset, &h, d));
}

static struct verdict do_capset(char **arg)
{
	return in_child(child_capset, arg);
}

static struct verdict child_ambient(char **arg)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	(void)arg;
	if (syscall(SYS_capget, &h, d) < 0)
		return by_errno(-1);
	d[0].inheritable |= 1u << CAP_NET_RAW;
	if (syscall(SYS_capset, &h, d) < 0)
		return by_errno(-1);
	return by_errno(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0));
}

static struct verdict do_ambient(char **arg)
{
	return in_child(child_ambient, arg);
}

static struct verdict child_setuid(char **arg)
{
	return by_errno(syscall(SYS_setresuid, (uid_t)number(arg[0]), (uid_t)-1, (uid_t)-1));
}

static struct verdict do_setuid(char **arg)
{
	return in_child(child_setuid, arg);
}

static struct verdict child_setgroups(char **arg)
{
	gid_t g = (gid_t)number(arg[0]);

	return by_errno(syscall(SYS_setgroups, 1, &g));
}

static struct verdict do_setgroups(char **arg)
{
	return in_child(child_setgroups, arg);
}

/* Runs a setuid program with a pipe as its input and looks at its ids from outside: it needs no
 * cooperation. */
static struct verdict setuid_program(char **arg)
{
	char uids[64];
	uintmax_t real, effective;
	char *rest;
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0 || access(arg[0], X_OK) < 0)
		return broken(arg[0]);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		if (null < 0 || dup2(p[0], 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
			_exit(1);
		(void)execl(arg[0], arg[0], "hold", (char *)NULL);
		_exit(1);
	}
	(void)usleep(300000); /* a process that has ended keeps its ids until it is waited for */
	status_line(pid, "Uid", uids, sizeof uids);
	(void)close(p[0]);
	(void)close(p[1]);
	(void)waitpid(pid, NULL, 0);
	real = strtoumax(uids, &rest, 10);
	if (rest == uids)
		return broken("status");
	effective = strtoumax(rest, NULL, 10);
	return real == effective ? blocked("kept-its-uid")
				 : success("uid %ju became %ju", real, effective);
}

static struct verdict do_priority(char **arg)
{
	return by_errno(setpriority(PRIO_PROCESS, 0, (int)number(arg[0])));
}

static struct verdict raise_rlimit(char **arg)
{
	struct rlimit r;

	(void)arg;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return broken("getrlimit");
	r.rlim_max++;
	return by_errno(setrlimit(RLIMIT_NOFILE, &r));
}

const struct probe_case creds_cases[] = {
	{ .name = "status-nnp",
		.about = "No-new-privileges is set",
		.args = "NoNewPrivs 1",
		.expect = "as-it-must",
		.run = status_is },
	{ .name = "status-seccomp",
		.about = "A seccomp filter is loaded",
		.args = "Seccomp 2",
		.expect = "as-it-must",
		.run = status_is },
	{ .name = "status-caps",
		.about = "No capability in any set, the bounding set included",
		.expect = "none",
		.run = status_caps },
	{ .name = "capset",
		.about = "Take CAP_SYS_ADMIN by capset",
		.expect = "EPERM",
		.run = do_capset },
	{ .name = "cap-ambient",
		.about = "Raise an ambient capability",
		.expect = "EPERM",
		.run = do_ambient },
	{ .name = "setuid-zero",
		.about = "Become uid 0",
		.args = "0",
		.expect = "EPERM|EINVAL",
		.run = do_setuid },
	{ .name = "setuid-other",
		.about = "Become another user",
		.args = "1",
		.expect = "EPERM|EINVAL",
		.run = do_setuid },
	{ .name = "setgroups",
		.about = "Join a group",
		.args = "0",
		.expect = "EPERM|EINVAL",
		.run = do_setgroups },
	{ .name = "setuid-program",
		.about = "Gain another uid by a setuid program",
		.args = "@SETUID@",
		.expect = "kept-its-uid",
		.run = setuid_program },
	{ .name = "priority",
		.about = "Raise the own priority above the host's processes",
		.args = "-5",
		.expect = "EACCES",
		.run = do_priority },
	{ .name = "rlimit",
		.about = "Raise a hard resource limit",
		.expect = "EPERM",
		.run = raise_rlimit },
	{ .name = NULL },
};
