/* Limits by cgroup v2: one directory, entered at clone3 (CLONE_INTO_CGROUP).  Called by cgroup.c.
 *
 * Controllers can only be used below a cgroup that hands them on (cgroup.subtree_control) and, unless it is the root, holds
 * no process itself.  So the parent is the nearest ancestor of this process's own cgroup for which that is true and in
 * which this user may move processes: for a normal user a delegated subtree, for root the slice the login session is in. */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/native/native.h"

#define V2_ROOT "/sys/fs/cgroup"

enum { CPU_PERIOD_US = 100000 };

static const char *const needed[] = { "memory", "pids", "cpu" };

static bool lists(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p += n)
		if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || p[n] == '\0'))
			return true;
	return false;
}

/* All needed controllers are handed on by dir, after asking for those that are not. */
static bool hands_on(int dir)
{
	char text[256], request[32];
	bool all = true;

	if (read_file_at(dir, "cgroup.subtree_control", text, sizeof text) < 0)
		return false;
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (!lists(text, needed[i]))
			all = write_file_at(dir, "cgroup.subtree_control",
				      FMT(request, "+%s", needed[i])) == 0 &&
				all;
	return all;
}

static int try_dir(const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ||
		faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0 || !hands_on(fd))
		return -1;
	return move_fd(&fd);
}

static int find_own(char *out, size_t cap)
{
	char text[CGROUP_PATH];

	if (read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	if (!str_after(text, "0::/"))
		return -1;
	str_format(out, cap, "%s", text + 3);
	return 0;
}

static void take(struct cgroup_tree *ret, int fd, const char *path)
{
	*ret = (struct cgroup_tree){
		.kind = CGROUP_V2, .n = 1, .controller = { "unified" }, .dir = { fd }
	};
	str_format(ret->path[0], CGROUP_PATH, "%s", path);
}

int cgroup_v2_take(struct cgroup_tree *ret, const char *path)
{
	int fd = try_dir(path);

	if (fd < 0)
		return -1;
	take(ret, fd, path);
	return 0;
}

int cgroup_v2_find(struct cgroup_tree *ret, const char *parent, bool root, struct err *e)
{
	char own[CGROUP_PATH], path[CGROUP_PATH + 64];

	if (find_own(own, sizeof own) < 0 ||
		strlen(own) + (parent ? strlen(parent) : 0) + 32 > CGROUP_PATH)
		return err_set(e, R_LIMITS_UNENFORCED, 0,
			"find this process's cgroup: '/proc/self/cgroup' has no v2 entry");
	while (parent && *parent == '/')
		parent++;
	for (char *end = own + strlen(own);; end = strrchr(own, '/')) {
		if (!end)
			break;
		*end = '\0';
		if (parent && cgroup_v2_take(ret, FMT(path, "%s%s/%s", V2_ROOT, own, parent)) == 0)
			return 0;
		if (cgroup_v2_take(ret, FMT(path, "%s%s", V2_ROOT, own)) == 0)
			return 0;
		if (!*own)
			break;
	}
	return err_set(e, R_LIMITS_UNENFORCED, 0,
		"find a cgroup that hands on memory, pids and cpu%s: none above this process's own is writable",
		root ? "" : " to this user");
}

int cgroup_v2_limit(const struct cgroup *c, const struct cgroup_want *w, struct err *e)
{
	const struct spec_limits *l = w->limits;
	char text[64];
	int dir = c->dir[0];

	if (cgroup_write(dir, "memory.max", c->name,
		    FMT(text, "%llu", (unsigned long long)l->memory_bytes), e) < 0)
		return -1;
	/* absent only where the kernel has no swap at all */
	if (write_file_at(dir, "memory.swap.max", "0") < 0 && errno != ENOENT)
		return err_set(e, R_LIMITS_UNENFORCED, errno, "write '0' to '%s/memory.swap.max'",
			c->name);
	/* one command: with half of its processes gone it has no meaning (Linux 4.19); a session outlives each of its own */
	if (!w->session)
		(void)write_file_at(dir, "memory.oom.group", "1");
	if (cgroup_write(dir, "pids.max", c->name, FMT(text, "%u", cgroup_max_pids(w)), e) < 0)
		return -1;
	return cgroup_write(dir, "cpu.max", c->name,
		FMT(text, "%llu %d", (unsigned long long)l->cpu_millis * CPU_PERIOD_US / 1000,
			CPU_PERIOD_US),
		e);
}

void cgroup_v2_read(const struct cgroup *c, struct engine_facts *f)
{
	int dir = c->dir[0];
	uint64_t cpu;

	f->has_memory_peak =
		cgroup_read_u64(dir, "memory.peak", &f->memory_peak_bytes) == 0;  /* Linux 5.19 */
	f->has_pids_peak = cgroup_read_u64(dir, "pids.peak", &f->pids_peak) == 0; /* Linux 6.1 */
	f->has_pids_refused = cgroup_read_key(dir, "pids.events", "max", &f->pids_refused) == 0;
	f->has_oom = cgroup_read_key(dir, "memory.events", "oom_kill", &f->oom_kills) == 0;
	if (cgroup_read_key(dir, "cpu.stat", "usage_usec", &cpu) == 0)
		f->cpu_us = cpu;
}
