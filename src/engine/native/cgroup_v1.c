/* Limits by cgroup v1: one hierarchy per controller.  Called by cgroup.c.
 *
 * The kill path does not use the freezer: PID 1's death ends every process of the pid namespace, so there is nothing to race
 * with.  A sandbox that lives is put into it all the same, where there is one, to be paused by it. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "engine/native/native.h"

enum {
	CPU_PERIOD_US = 100000,
	PROC_TEXT_MAX = 4 << 20, /* a host with 20,000 mounts */
};

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

/* Where a controller's hierarchy is mounted, from the text of /proc/self/mountinfo (field 5 of its line). */
static int find_mount(const char *info, const char *controller, char *out, size_t cap)
{
	for (const char *line = info; line && *line;
		line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *end = strchrnul(line, '\n'),
			   *dash = memmem(line, (size_t)(end - line), " - cgroup ", 10);
		const char *options = dash ? memrchr(dash, ' ', (size_t)(end - dash)) : NULL,
			   *point = line;
		char list[128];

		if (!options || (size_t)(end - options) > sizeof list)
			continue;
		str_format(list, sizeof list, "%.*s", (int)(end - options - 1), options + 1);
		if (!has_word(list, controller))
			continue;
		for (int field = 1; field < 5 && point; field++)
			point = (point = strchr(point, ' ')) ? point + 1 : NULL;
		if (!point || strcspn(point, " ") >= cap)
			return -1;
		str_format(out, cap, "%.*s", (int)strcspn(point, " "), point);
		return 0;
	}
	return -1;
}

/* --- statmount, Linux 6.8, with options 6.11; the headers of the build host may be older ------------------------------ */

enum {
	SYS_STATMOUNT = 457,
	STATX_UNIQUE_MOUNT = 0x4000,
	STATMOUNT_SUPER = 1 << 0,
	STATMOUNT_OPTIONS = 1 << 7,
	CGROUP_V1_MAGIC = 0x27e0eb,
};

struct mount_asked {
	uint32_t size, spare;
	uint64_t mount, what;
};

struct mount_told {
	uint32_t size, options; /* where in text */
	uint64_t mask;
	uint32_t major, minor;
	uint64_t magic;
	uint8_t rest[480];
	char text[256];
};

/* At its usual place, which is all but always right: the table of mounts of a host with many containers takes a millisecond to
 * read.  -1 where that place, or this kernel, does not say so. */
static int find_usual(const char *controller, char *out, size_t cap)
{
	struct mount_asked q = { .size = sizeof q, .what = STATMOUNT_SUPER | STATMOUNT_OPTIONS };
	struct mount_told told;
	struct statx st;

	str_format(out, cap, "/sys/fs/cgroup/%s", controller);
	if (statx(AT_FDCWD, out, AT_NO_AUTOMOUNT, STATX_UNIQUE_MOUNT, &st) < 0 ||
		!(st.stx_mask & STATX_UNIQUE_MOUNT))
		return -1;
	q.mount = st.stx_mnt_id;
	if (syscall(SYS_STATMOUNT, &q, &told, sizeof told - 1, 0) < 0 ||
		(told.mask & q.what) != q.what || told.magic != CGROUP_V1_MAGIC ||
		told.options >= sizeof told.text - 1)
		return -1;
	told.text[sizeof told.text - 1] = '\0';
	return has_word(told.text + told.options, controller) ? 0 : -1;
}

/* This process's own cgroup of a controller, from the text of /proc/self/cgroup: "/" or "/a/b". */
static int find_own(const char *info, const char *controller, char *out, size_t cap)
{
	for (const char *line = info; line && *line;
		line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
		char names[128];

		if (!path || (size_t)(path - list) > sizeof names)
			continue;
		str_format(names, sizeof names, "%.*s", (int)(path - list - 1), list + 1);
		if (!has_word(names, controller))
			continue;
		if (strcspn(path + 1, "\n") >= cap)
			return -1;
		str_format(out, cap, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
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

/* Both tables, each read once for all controllers, when it is needed. */
struct proc_text {
	struct buf mounts, cgroups;
};

static int read_table(struct buf *b, const char *path, struct err *e)
{
	_cleanup_close_ int fd = -1;

	if (b->data)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	b->max = PROC_TEXT_MAX;
	if (fd < 0 || read_all(fd, b) < 0)
		return err_set(e, R_LIMITS_UNENFORCED, errno, "read '%s'", path);
	return 0;
}

static void proc_text_done(struct proc_text *p)
{
	buf_done(&p->mounts);
	buf_done(&p->cgroups);
}

/* The delegated subtree's name is looked up below the process's own cgroup first: that keeps its limits above ours. */
static int open_parent(struct cgroup_tree *t, struct proc_text *proc, const char *controller,
	const char *parent, struct err *e)
{
	char mount[CGROUP_PATH], own[CGROUP_PATH];
	char *path = t->path[t->n];
	bool usual = find_usual(controller, mount, sizeof mount) == 0;
	int fd = -1;

	if (read_table(&proc->cgroups, "/proc/self/cgroup", e) < 0 ||
		(!usual && read_table(&proc->mounts, "/proc/self/mountinfo", e) < 0))
		return -1;
	if ((!usual && find_mount(proc->mounts.data, controller, mount, sizeof mount) < 0) ||
		find_own(proc->cgroups.data, controller, own, sizeof own) < 0)
		return err_set(e, R_LIMITS_UNENFORCED, 0,
			"find cgroup controller '%s': not mounted", controller);
	if (strlen(mount) + strlen(own) + (parent ? strlen(parent) : 0) + 3 > CGROUP_PATH)
		return err_set(
			e, R_LIMITS_UNENFORCED, ENAMETOOLONG, "use cgroup '%s%s'", mount, own);
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
		return err_set(e, R_LIMITS_UNENFORCED, errno,
			"make a cgroup of controller '%s' below '%s' as uid '%u'", controller, path,
			geteuid());
	t->controller[t->n] = controller;
	t->dir[t->n++] = fd;
	return 0;
}

/* It limits nothing, so it may be missing. */
static void find_freezer(struct cgroup_tree *t, struct proc_text *proc, const char *parent)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	if (t->n < CGROUP_MAX_CONTROLLERS && open_parent(t, proc, "freezer", parent, &ignored) == 0)
		t->has_freezer = true;
}

int cgroup_v1_find(struct cgroup_tree *ret, const char *parent, bool freezer, struct err *e)
{
	_cleanup_(proc_text_done) struct proc_text proc = { BUF_INIT, BUF_INIT };
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_free_ char *delegate = NULL;
	struct cgroup_tree t = { .kind = CGROUP_V1 };

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		if (open_parent(&t, &proc, needed[i], parent, e) < 0) {
			cgroup_tree_done(&t);
			(void)libexec_path("bailey-delegate", &delegate, &ignored);
			(void)err_remedy(e,
				"Have root delegate a subtree: sudo %s up $(id -un) (docs/cgroups.md), or accept the risk with --unlimited.",
				delegate ?: "bailey-delegate");
			return -1;
		}
	}
	if (freezer)
		find_freezer(&t, &proc, parent);
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
	return err_set(e, R_LIMITS_UNENFORCED, errno,
		"forbid swap in '%s': the kernel does not count swap", path);
}

int cgroup_v1_limit(const struct cgroup *c, const struct cgroup_tree *t,
	const struct cgroup_want *w, struct err *e)
{
	const struct spec_limits *l = w->limits;
	char text[32];

	if (cgroup_write(c->dir[0], "pids.max", t->path[0], FMT(text, "%u", cgroup_max_pids(w)),
		    e) < 0 ||
		limit_memory(c->dir[1], t->path[1], l->memory_bytes, e) < 0)
		return -1;
	/* of the period that every new cgroup has */
	return cgroup_write(c->dir[2], "cpu.cfs_quota_us", t->path[2],
		FMT(text, "%llu", (unsigned long long)l->cpu_millis * CPU_PERIOD_US / 1000), e);
}

void cgroup_v1_read(const struct cgroup *c, const struct cgroup_tree *t, struct engine_facts *f)
{
	(void)t;
	f->has_pids_peak = cgroup_read_u64(c->dir[0], "pids.peak", &f->pids_peak) == 0;
	f->has_pids_refused =
		cgroup_read_key(c->dir[0], "pids.events", "max", &f->pids_refused) == 0;
	f->has_memory_peak =
		cgroup_read_u64(c->dir[1], "memory.max_usage_in_bytes", &f->memory_peak_bytes) == 0;
	f->has_oom =
		cgroup_read_key(c->dir[1], "memory.oom_control", "oom_kill", &f->oom_kills) == 0;
}
