/* What a sandbox would inherit from whoever starts it: privileges in scheduling, groups, an
 * exemption from the out-of-memory killer.  The row's `wrap` gives it to the caller.  And the one
 * limit that the workload must not be able to lower. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

/* At 1 the kernel runs no core_pattern program, which would be the host's root on our bytes; at 0
 * it does (fs/coredump.c). */
static struct verdict lower_core(char **arg)
{
	const struct rlimit none = { 0, 0 };
	const unsigned long resource = (unsigned long)number(arg[1]);
	struct rlimit now;
	long rc;

	if (getrlimit(RLIMIT_CORE, &now) < 0)
		return broken("getrlimit");
	if (now.rlim_max == 0)
		return blocked("0-before");
	if (strcmp(arg[0], "setrlimit") == 0)
		rc = syscall(SYS_setrlimit, resource, &none);
	else
		rc = syscall(SYS_prlimit64, 0, resource, &none, NULL);
	if (getrlimit(RLIMIT_CORE, &now) < 0)
		return broken("getrlimit");
	if (now.rlim_cur == 0)
		return success("the limit is 0 (the call returned %ld)", rc);
	/* a script's `ulimit -c 0` must not fail */
	return rc == 0 && now.rlim_cur == 1 ? blocked("still-1") : by_errno(rc);
}

static struct verdict do_lower_core(char **arg)
{
	return in_child(lower_core, arg);
}

static struct verdict set_fifo(char **arg)
{
	const struct sched_param first = { .sched_priority = 1 };

	(void)arg;
	return by_errno(sched_setscheduler(0, SCHED_FIFO, &first));
}

static struct verdict do_set_fifo(char **arg)
{
	return in_child(set_fifo, arg);
}

static struct verdict inherited_policy(char **arg)
{
	int policy = sched_getscheduler(0);

	(void)arg;
	if (policy < 0)
		return broken("sched_getscheduler");
	return policy == SCHED_OTHER ? blocked("ordinary") : success("policy %d", policy);
}

static struct verdict inherited_nice(char **arg)
{
	int nice;

	(void)arg;
	errno = 0;
	nice = getpriority(PRIO_PROCESS, 0);
	if (errno)
		return broken("getpriority");
	return nice >= 0 ? blocked("ordinary") : success("nice %d", nice);
}

static struct verdict inherited_limit(char **arg)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)number(arg[0]), &r) < 0)
		return broken("getrlimit");
	return r.rlim_max == 0 ? blocked("none")
			       : success("limit %llu", (unsigned long long)r.rlim_max);
}

static struct verdict inherited_oom(char **arg)
{
	char text[16] = "";
	FILE *f = fopen("/proc/self/oom_score_adj", "re");

	(void)arg;
	if (!f || !fgets(text, sizeof text, f))
		return broken("oom_score_adj");
	(void)fclose(f);
	return text[0] == '-' ? success("score %s", text) : blocked("ordinary");
}

/* As the status of a process tells; the guest's can be read from inside. */
static struct verdict inherited_groups(char **arg)
{
	char line[512];
	FILE *f = fopen(arg[0], "re");
	struct verdict v = blocked("no-line");

	if (!f)
		return by_errno(-1);
	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, "Groups:", 7) == 0)
			v = line[7 + strspn(line + 7, " \t\n")] ? success("%s", line)
								: blocked("no-groups");
	}
	(void)fclose(f);
	return v;
}

const struct probe_case inherited_cases[] = {
	{ .name = "core-setrlimit",
		.about = "Lower the core limit to 0, by setrlimit",
		.args = "setrlimit 4",
		.expect = "still-1",
		.run = do_lower_core },
	{ .name = "core-prlimit",
		.about = "Lower the core limit to 0, by prlimit",
		.args = "prlimit 4",
		.expect = "still-1",
		.run = do_lower_core },
	{ .name = "core-high-bits",
		.about = "The same with high bits set, past a 64-bit compare",
		.args = "prlimit 0xdeadbeef00000004",
		.expect = "still-1",
		.run = do_lower_core },
	{ .name = "sched-inherited",
		.about = "Keep a caller's real-time policy, which CPU limits don't hold",
		.wrap = "chrt -f 1",
		.expect = "ordinary",
		.run = inherited_policy },
	{ .name = "sched-fifo",
		.about = "Take a real-time policy where the caller may",
		.wrap = "prlimit --rtprio=10:10",
		.expect = "EPERM",
		.run = do_set_fifo },
	{ .name = "rtprio-inherited",
		.about = "Keep a caller's limit on real-time priorities",
		.args = "14",
		.wrap = "prlimit --rtprio=10:10",
		.expect = "none",
		.run = inherited_limit },
	{ .name = "nice-inherited",
		.about = "Keep a caller's negative nice value",
		.wrap = "nice -n -5",
		.expect = "ordinary",
		.run = inherited_nice },
	{ .name = "nice-limit-inherited",
		.about = "Keep a caller's limit on nice values",
		.args = "13",
		.wrap = "prlimit --nice=30:30",
		.expect = "none",
		.run = inherited_limit },
	{ .name = "oom-inherited",
		.about = "Keep a caller's exemption from the out-of-memory killer",
		.wrap = "choom -n -100 --",
		.expect = "ordinary",
		.run = inherited_oom },
	{ .name = "groups-workload",
		.about = "Keep a caller's supplementary groups",
		.args = "/proc/self/status",
		.wrap = "setpriv --groups 6,27",
		.expect = "no-groups",
		.run = inherited_groups },
	{ .name = "groups-guest",
		.about = "The same for the sandbox's first process",
		.args = "</proc/self/status|/proc/1/status>",
		.wrap = "setpriv --groups 6,27",
		.expect = "no-groups",
		.run = inherited_groups },
	{ .name = NULL },
};
