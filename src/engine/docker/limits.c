/* What bounds a running container: its cgroup, as the files of this host have it.  Called by session.c, for counters and after
 * each start.
 *
 * A daemon may say that it holds limits and hold none: rootless Podman on cgroup v1, a gVisor that is to ignore cgroups.  The
 * kernel bounds what a cgroup says, so that is what is read; where it can't be read, the limits count as not enforced. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/docker.h"

enum { DIR_MAX = 2048, MILLIS = 1000 };

/* The directory of the container's cgroup in the hierarchy of that controller.  false where it can't be seen: it must bear the
 * container's id, since a process number of another machine's or namespace's would lead to a stranger's. */
static bool cgroup_dir(const struct sandbox *sb, const char *controller, char *out, size_t cap)
{
	char path[64], text[4096], *save = NULL;

	if (sb->first <= 0 || !*sb->container || !docker_is_local(sb->engine->docker) ||
		read_file_at(AT_FDCWD, FMT(path, "/proc/%d/cgroup", (int)sb->first), text,
			sizeof text) <= 0)
		return false;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;
		char list[96], *inner = NULL;

		if (!at)
			continue;
		*at++ = '\0';
		if (!names[1] && !access("/sys/fs/cgroup/cgroup.controllers", F_OK)) {
			str_format(out, cap, "/sys/fs/cgroup%s", at);
			return strstr(at, sb->container) != NULL;
		}
		str_format(list, sizeof list, "%.80s", names + 1);
		for (char *one = strtok_r(list, ",", &inner); one;
			one = strtok_r(NULL, ",", &inner))
			if (streq(one, controller)) {
				str_format(out, cap, "/sys/fs/cgroup/%s%s", controller, at);
				return strstr(at, sb->container) != NULL;
			}
	}
	return false;
}

static bool read_text(
	const struct sandbox *sb, const char *controller, const char *file, char *out, size_t cap)
{
	char dir[DIR_MAX], path[DIR_MAX + 128];

	return cgroup_dir(sb, controller, dir, sizeof dir) &&
		read_file_at(AT_FDCWD, FMT(path, "%s/%s", dir, file), out, cap) > 0;
}

bool cgroup_number(
	const struct sandbox *sb, const char *controller, const char *file, uint64_t *ret)
{
	char text[64];

	if (!read_text(sb, controller, file, text, sizeof text) || text[0] < '0' || text[0] > '9')
		return false;
	*ret = strtoull(text, NULL, 10);
	return true;
}

bool cgroup_key(const struct sandbox *sb, const char *controller, const char *file, const char *key,
	uint64_t *ret)
{
	char text[4096], *save = NULL;

	if (!read_text(sb, controller, file, text, sizeof text))
		return false;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *rest = str_after(line, key);

		if (rest && *rest == ' ') {
			*ret = strtoull(rest + 1, NULL, 10);
			return true;
		}
	}
	return false;
}

/* --- limits -------------------------------------------------------------------------------------------------------- */

/* The least of a file's values from the container's cgroup up to the hierarchy's root: any of them bounds it, and some daemons
 * set theirs on a parent.  UINT64_MAX: none does. */
static uint64_t least(const struct sandbox *sb, const char *controller, const char *file,
	uint64_t (*parse)(const char *dir, const char *text))
{
	char dir[DIR_MAX], path[DIR_MAX + 128], text[128];
	uint64_t min = UINT64_MAX;

	if (!cgroup_dir(sb, controller, dir, sizeof dir))
		return min;
	while (strlen(dir) > strlen("/sys/fs/cgroup")) {
		if (read_file_at(AT_FDCWD, FMT(path, "%s/%s", dir, file), text, sizeof text) > 0) {
			const uint64_t v = parse(dir, text);

			min = v < min ? v : min;
		}
		*strrchr(dir, '/') = '\0';
	}
	return min;
}

/* "max", and on v1 -1: no limit */
static uint64_t plain(const char *dir, const char *text)
{
	(void)dir;
	return *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* "QUOTA PERIOD" of v2, in thousandths of a processor, rounded up */
static uint64_t share(const char *dir, const char *text)
{
	char *rest = NULL;
	const uint64_t quota = plain(dir, text);
	uint64_t period;

	if (quota == UINT64_MAX)
		return quota;
	(void)strtoull(text, &rest, 10);
	period = strtoull(rest, NULL, 10);
	return period ? (quota * MILLIS + period - 1) / period : UINT64_MAX;
}

static uint64_t share_v1(const char *dir, const char *text)
{
	char path[DIR_MAX + 128], period[64], both[256];

	if (read_file_at(AT_FDCWD, FMT(path, "%s/cpu.cfs_period_us", dir), period, sizeof period) <=
		0)
		return UINT64_MAX;
	return share(dir, FMT(both, "%.100s %.60s", text, period));
}

static int over(
	const struct sandbox *sb, const char *what, uint64_t found, uint64_t asked, struct err *e)
{
	if (found <= asked)
		return 0;
	if (found == UINT64_MAX)
		err_set(e, R_LIMITS_UNENFORCED, 0,
			"hold sandbox '%s' to its %s limit: %s with runtime '%.64s' set none",
			sb->id, what, sb->engine->info.podman ? "podman" : "docker",
			docker_runtime(sb));
	else
		err_set(e, R_LIMITS_UNENFORCED, 0,
			"hold sandbox '%s' to its %s limit of %llu: its cgroup has %llu", sb->id,
			what, (unsigned long long)asked, (unsigned long long)found);
	return err_remedy(e,
		"Use a daemon whose cgroups work (rootless: cgroup v2 with delegation), take --ignore-cgroups from the runtime's arguments, or accept the risk with --unlimited.");
}

int limits_hold(const struct sandbox *sb, struct err *e)
{
	const struct spec_limits *l = &sb->spec->limits;
	const bool v2 = !access("/sys/fs/cgroup/cgroup.controllers", F_OK);
	const uint64_t pids = request_pids(sb->spec);

	if (l->unlimited)
		return 0;
	if (over(sb, "memory",
		    least(sb, "memory", v2 ? "memory.max" : "memory.limit_in_bytes", plain),
		    l->memory_bytes, e) < 0 ||
		over(sb, "process", least(sb, "pids", "pids.max", plain), pids, e) < 0)
		return -1;
	return over(sb, "cpu",
		v2 ? least(sb, "cpu", "cpu.max", share)
		   : least(sb, "cpu", "cpu.cfs_quota_us", share_v1),
		l->cpu_millis, e);
}
