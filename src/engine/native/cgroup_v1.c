/* Limits by cgroup v1: one hierarchy per controller.  Called by cgroup.c.
 *
 * The freezer is not used: PID 1's death ends every process of the pid namespace, so there is nothing to race with. */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/native/native.h"

enum { CPU_PERIOD_US = 100000 };

/* pids first: the sweep looks there, and it has a peak and a refusal counter */
static const char *const needed[] = { "pids", "memory", "cpu" };

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == '\0' || p[n] == '\n'))
			return true;
	return false;
}

/* Where a controller's hierarchy is mounted, from /proc/self/mountinfo. */
static int find_mount(const char *controller, char *out, size_t cap)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0) {
		char *dash = strstr(line, " - cgroup "), *save = NULL, *point = NULL, *options;

		if (!dash)
			continue;
		options = strrchr(dash, ' ');
		if (!options || !has_word(options + 1, controller))
			continue;
		*dash = '\0';
		for (int field = 0; field < 5; field++)
			point = strtok_r(field ? NULL : line, " ", &save);
		if (point && strlen(point) < cap) {
			str_format(out, cap, "%s", point);
			return 0;
		}
	}
	return -1;
}

/* This process's own cgroup of a controller, from /proc/self/cgroup: "/" or "/a/b". */
static int find_own(const char *controller, char *out, size_t cap)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/cgroup", "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path = '\0';
		if (!has_word(list + 1, controller))
			continue;
		path[strcspn(path + 1, "\n") + 1] = '\0';
		if (strlen(path + 1) >= cap)
			return -1;
		str_format(out, cap, "%s", path + 1);
		return 0;
	}
	return -1;
}

/* A directory in which a cgroup can be made and joined. */
static int try_dir(const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ||
		faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
		return -1;
	return move_fd(&fd);
}

/* The delegated subtree's name is looked up below the process's own cgroup first: that keeps its limits above ours. */
static int open_parent(struct cgroup_tree *t, const char *controller, const char *parent, struct err *e)
{
	char mount[CGROUP_PATH], own[CGROUP_PATH];
	char *path = t->path[t->n];
	int fd = -1;

	if (find_mount(controller, mount, sizeof mount) < 0 || find_own(controller, own, sizeof own) < 0)
		return err_set(e, R_LIMITS_UNENFORCED, 0, "find cgroup controller '%s': not mounted", controller);
	if (strlen(mount) + strlen(own) + (parent ? strlen(parent) : 0) + 3 > CGROUP_PATH)
		return err_set(e, R_LIMITS_UNENFORCED, ENAMETOOLONG, "use cgroup '%s%s'", mount, own);
	if (streq(own, "/"))
		own[0] = '\0';
	if (parent) {
		while (*parent == '/')
			parent++;
		fd = try_dir(str_format(path, CGROUP_PATH, "%s%s/%s", mount, own, parent));
		if (fd < 0)
			fd = try_dir(str_format(path, CGROUP_PATH, "%s/%s", mount, parent));
	}
	if (fd < 0)
		fd = try_dir(str_format(path, CGROUP_PATH, "%s%s", mount, own));
	if (fd < 0)
		return err_set(e, R_LIMITS_UNENFORCED, errno, "make a cgroup of controller '%s' below '%s' as uid '%u'",
			controller, path, geteuid());
	t->controller[t->n] = controller;
	t->dir[t->n++] = fd;
	return 0;
}

int cgroup_v1_find(struct cgroup_tree *ret, const char *parent, struct err *e)
{
	struct cgroup_tree t = { .kind = CGROUP_V1 };

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		if (open_parent(&t, needed[i], parent, e) < 0) {
			cgroup_tree_done(&t);
			(void)err_remedy(e,
				"Delegate a subtree as root ('tools/delegate.sh up USER' of the source tree shows how), or accept the risk "
				"with --unlimited.");
			return -1;
		}
	}
	*ret = t;
	return 0;
}

static bool host_has_swap(void)
{
	char text[512];
	ssize_t n = read_file_at(AT_FDCWD, "/proc/swaps", text, sizeof text);
	const char *line = n > 0 ? strchr(text, '\n') : NULL;

	return line && line[1];
}

static int limit_memory(int dir, const char *path, uint64_t bytes, struct err *e)
{
	char text[32];

	FMT(text, "%llu", (unsigned long long)bytes);
	if (cgroup_write(dir, "memory.limit_in_bytes", path, text, e) < 0)
		return -1;
	/* memory and swap together: the same value leaves no swap */
	if (write_file_at(dir, "memory.memsw.limit_in_bytes", text) == 0)
		return 0;
	if (!host_has_swap())
		return 0;
	return err_set(e, R_LIMITS_UNENFORCED, errno, "forbid swap in '%s': the kernel does not count swap", path);
}

int cgroup_v1_limit(const struct cgroup *c, const struct cgroup_tree *t, const struct spec_limits *l, struct err *e)
{
	char text[32];

	/* one more than asked for: bailey-guest itself */
	if (cgroup_write(c->dir[0], "pids.max", t->path[0], FMT(text, "%u", l->pids + 1), e) < 0 ||
		limit_memory(c->dir[1], t->path[1], l->memory_bytes, e) < 0)
		return -1;
	if (cgroup_write(c->dir[2], "cpu.cfs_period_us", t->path[2], FMT(text, "%d", CPU_PERIOD_US), e) < 0)
		return -1;
	return cgroup_write(c->dir[2], "cpu.cfs_quota_us", t->path[2],
		FMT(text, "%llu", (unsigned long long)l->cpu_millis * CPU_PERIOD_US / 1000), e);
}

void cgroup_v1_read(const struct cgroup *c, const struct cgroup_tree *t, struct engine_facts *f)
{
	(void)t;
	f->has_pids_peak = cgroup_read_u64(c->dir[0], "pids.peak", &f->pids_peak) == 0;
	f->has_pids_refused = cgroup_read_key(c->dir[0], "pids.events", "max", &f->pids_refused) == 0;
	f->has_memory_peak = cgroup_read_u64(c->dir[1], "memory.max_usage_in_bytes", &f->memory_peak_bytes) == 0;
	f->has_oom = cgroup_read_key(c->dir[1], "memory.oom_control", "oom_kill", &f->oom_kills) == 0;
}
