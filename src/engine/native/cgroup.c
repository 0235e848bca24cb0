/* Owns a sandbox's cgroup, whichever version: naming, joining, removing, sweeping.  Called by native.c and probe.c.
 *
 * A sandbox's directory is named bailey-HOME-ID-PID-STARTTIME-PIDNS after its owner process, flat below the parent, so that
 * any later command can tell what is stale without a record of its own, and nothing stays when the last sandbox is gone. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

enum { PARENT_NAME = 32, REMOVE_TRIES = 200, REMOVE_PAUSE_US = 500, V2_MAGIC = 0x63677270 };

/* Process ids mean something only in their own pid namespace: a container may share the cgroup tree. */
static uint64_t own_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static int make_name(
	char out[static NATIVE_NAME], const char *home_hash, const char *id, struct err *e)
{
	struct proc_stat self;

	if (proc_stat("self", &self) < 0)
		return err_set(e, R_LIMITS_UNENFORCED, errno,
			"read this process's start time from '/proc/self/stat'");
	str_format(out, NATIVE_NAME, "bailey-%s-%s-%d-%llu-%llu", home_hash, id, getpid(),
		(unsigned long long)self.start, (unsigned long long)own_pid_namespace());
	return 0;
}

/* Dead only when that is certain: any other trouble with /proc (no descriptors left, hidepid) means alive. */
static bool owner_lives(const char *pid, const char *started)
{
	struct proc_stat now;

	/* a dead one that nobody has waited for yet holds nothing any more */
	if (proc_stat(pid, &now) == 0)
		return now.start == strtoull(started, NULL, 10) && now.state != 'Z' &&
			now.state != 'X';
	if (errno != ENOENT && errno != ESRCH)
		return true;
	return kill((pid_t)strtoull(pid, NULL, 10), 0) == 0 || errno != ESRCH;
}

enum { HASH_LENGTH = 8 };

/* Splits a name into id and owner; false when it is none of ours.  home_hash NULL: of any home. */
static bool parse_name(
	const char *name, const char *home_hash, char id[static SPEC_ID_LEN], bool *ret_alive)
{
	char copy[NATIVE_NAME], *save = NULL, *field[5];
	const char *rest = str_after(name, "bailey-");

	if (!rest || strlen(rest) >= sizeof copy)
		return false;
	str_format(copy, sizeof copy, "%s", rest);
	for (int i = 0; i < 5; i++) {
		field[i] = strtok_r(i ? NULL : copy, "-", &save);
		if (!field[i] || (i >= 2 && strspn(field[i], "0123456789") != strlen(field[i])))
			return false;
	}
	if (strlen(field[0]) != HASH_LENGTH || (home_hash && !streq(field[0], home_hash)) ||
		strlen(field[1]) >= SPEC_ID_LEN)
		return false;
	str_format(id, SPEC_ID_LEN, "%s", field[1]);
	*ret_alive = strtoull(field[4], NULL, 10) != own_pid_namespace() ||
		owner_lives(field[2], field[3]);
	return true;
}

bool cgroup_v2_has_controllers(void)
{
	struct statfs fs;

	return statfs("/sys/fs/cgroup", &fs) == 0 && (uint64_t)fs.f_type == V2_MAGIC;
}

/* A normal user's delegated subtree has a name that needs no setting. */
static const char *parent_name(const struct engine_env *env, char own[static PARENT_NAME])
{
	if (!env->cgroup_parent && geteuid() != 0)
		return str_format(own, PARENT_NAME, "bailey-%u", geteuid());
	return env->cgroup_parent;
}

int cgroup_find(struct cgroup_tree *ret, const struct engine_env *env, bool root, struct err *e)
{
	_cleanup_err_ struct err first = ERR_INIT;
	char own[PARENT_NAME];
	const char *parent = parent_name(env, own);

	if (!cgroup_v2_has_controllers())
		return cgroup_v1_find(ret, parent, env->runs != NULL, e);
	if (cgroup_v2_find(ret, parent, root, &first) == 0)
		return 0;
	if (root || env->cgroup_parent || cgroup_v2_from_systemd(ret, env->home_hash, e) < 0) {
		if (root || env->cgroup_parent)
			return err_move(e, &first);
		return -1;
	}
	return 0;
}

void cgroup_tree_done(struct cgroup_tree *t)
{
	for (unsigned i = 0; i < t->n; i++)
		t->dir[i] = close_fd(t->dir[i]);
	t->n = 0;
	t->kind = CGROUP_NONE;
}

int cgroup_write(int dir, const char *file, const char *path, const char *text, struct err *e)
{
	if (write_file_at(dir, file, text) == 0)
		return 0;
	return err_set(e, R_LIMITS_UNENFORCED, errno, "write '%s' to '%s/%s'", text, path, file);
}

int cgroup_read_u64(int dir, const char *file, uint64_t *ret)
{
	char text[64];

	if (read_file_at(dir, file, text, sizeof text) <= 0 || *text < '0' || *text > '9')
		return -1;
	*ret = strtoull(text, NULL, 10);
	return 0;
}

int cgroup_read_key(int dir, const char *file, const char *key, uint64_t *ret)
{
	char text[4096], *save = NULL;

	if (read_file_at(dir, file, text, sizeof text) < 0)
		return -1;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *rest = str_after(line, key);

		if (rest && *rest == ' ') {
			*ret = strtoull(rest + 1, NULL, 10);
			return 0;
		}
	}
	return -1;
}

/* docs/decisions/0008-process-limit.md */
uint32_t cgroup_max_pids(const struct cgroup_want *w)
{
	enum { GUEST = 1, RUNNERS = 64 };

	return w->limits->pids + GUEST + (w->session ? RUNNERS : 0);
}

int cgroup_make(struct cgroup *ret, const struct cgroup_tree *t, const char *home_hash,
	const struct cgroup_want *w, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; i < CGROUP_MAX_CONTROLLERS; i++)
		ret->dir[i] = -1;
	ret->n = t->n - (t->has_freezer && !w->session);
	if (make_name(ret->name, home_hash, w->id, e) < 0)
		return -1;
	for (unsigned i = 0; i < ret->n && r == 0; i++) {
		if (mkdirat(t->dir[i], ret->name, 0755) < 0) {
			r = err_set(e, R_LIMITS_UNENFORCED, errno, "create cgroup '%s/%s'",
				t->path[i], ret->name);
			break;
		}
		ret->dir[i] = openat(t->dir[i], ret->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (ret->dir[i] < 0)
			r = err_set(e, R_LIMITS_UNENFORCED, errno, "open cgroup '%s/%s'",
				t->path[i], ret->name);
	}
	if (r == 0)
		r = t->kind == CGROUP_V1 ? cgroup_v1_limit(ret, t, w, e)
					 : cgroup_v2_limit(ret, w, e);
	if (r < 0)
		cgroup_remove(ret, t);
	return r;
}

int cgroup_join(const struct cgroup *c, const struct cgroup_tree *t, pid_t pid, struct err *e)
{
	char text[16];

	FMT(text, "%d", pid);
	for (unsigned i = 0; i < c->n; i++)
		if (write_file_at(c->dir[i], "cgroup.procs", text) < 0)
			return err_set(e, R_LIMITS_UNENFORCED, errno,
				"move process '%d' into cgroup '%s/%s'", pid, t->path[i], c->name);
	return 0;
}

int cgroup_open_join(const struct cgroup *c, const struct cgroup_tree *t,
	int fds[static CGROUP_MAX_CONTROLLERS], struct err *e)
{
	for (unsigned i = 0; i < c->n; i++) {
		fds[i] = openat(c->dir[i], "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fds[i] < 0)
			return err_set(e, R_LIMITS_UNENFORCED, errno, "open '%s/%s/tasks'",
				t->path[i], c->name);
	}
	return 0;
}

void cgroup_read(const struct cgroup *c, const struct cgroup_tree *t, struct engine_facts *f)
{
	if (t->kind == CGROUP_V1)
		cgroup_v1_read(c, t, f);
	else if (t->kind == CGROUP_V2)
		cgroup_v2_read(c, f);
}

void cgroup_kill(const struct cgroup *c, const struct cgroup_tree *t)
{
	if (t->kind == CGROUP_V2 && t->n)
		(void)write_file_at(c->dir[0], "cgroup.kill", "1");
}

static void remove_dir(int parent, const char *name)
{
	/* EBUSY while the kernel still lets go of the last process: microseconds after the wait */
	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			return;
		(void)usleep(REMOVE_PAUSE_US);
	}
}

void cgroup_remove(struct cgroup *c, const struct cgroup_tree *t)
{
	/* the first hierarchy last: it is the one that is listed */
	for (unsigned i = c->n; i-- > 0;) {
		c->dir[i] = close_fd(c->dir[i]);
		remove_dir(t->dir[i], c->name);
	}
}

void cgroup_forget(struct cgroup *c)
{
	for (unsigned i = 0; i < c->n; i++)
		c->dir[i] = close_fd(c->dir[i]);
}

int cgroup_pids(const struct cgroup *c, struct buf *ret)
{
	_cleanup_close_ int fd = openat(c->dir[0], "cgroup.procs", O_RDONLY | O_CLOEXEC);

	buf_clear(ret);
	return fd < 0 ? -1 : read_all(fd, ret);
}

void cgroup_stats(const struct cgroup *c, const struct cgroup_tree *t, struct engine_stats *ret)
{
	bool v1 = t->kind == CGROUP_V1;
	int memory = c->dir[v1 ? 1 : 0];
	struct engine_facts f = { .cpu_us = 0 };

	cgroup_read(c, t, &f);
	ret->memory_peak_bytes = f.memory_peak_bytes;
	ret->has_memory_peak = f.has_memory_peak;
	ret->oom_kills = f.oom_kills;
	ret->has_oom = f.has_oom;
	ret->pids_refused = f.pids_refused;
	ret->has_pids_refused = f.has_pids_refused;
	ret->cpu_us = f.cpu_us;
	ret->has_cpu = f.cpu_us > 0;
	ret->has_pids = cgroup_read_u64(c->dir[0], "pids.current", &ret->pids) == 0;
	ret->has_memory = cgroup_read_u64(memory, v1 ? "memory.usage_in_bytes" : "memory.current",
				  &ret->memory_bytes) == 0;
}

/* Calls each() for every name of ours in one hierarchy; home_hash NULL: of any home. */
static int each_name(const struct cgroup_tree *t, unsigned hierarchy, const char *home_hash,
	void (*each)(void *arg, const char *name, const char *id, bool alive), void *arg,
	struct err *e)
{
	_cleanup_closedir_ DIR *d = NULL;
	int fd = openat(t->dir[hierarchy], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		int saved = errno;

		fd = close_fd(fd);
		return err_set(
			e, R_LIMITS_UNENFORCED, saved, "list cgroup '%s'", t->path[hierarchy]);
	}
	for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
		char id[SPEC_ID_LEN];
		bool alive;

		if (parse_name(entry->d_name, home_hash, id, &alive))
			each(arg, entry->d_name, id, alive);
	}
	return 0;
}

struct sweep {
	const struct cgroup_tree *tree;
	unsigned hierarchy, removed;
};

/* Every process in a dead owner's cgroup is on its way out (its parent-death signal); make sure. */
static void sweep_each(void *arg, const char *name, const char *id, bool alive)
{
	struct sweep *s = arg;
	int parent = s->tree->dir[s->hierarchy];

	(void)id;
	if (alive)
		return;
	if (s->tree->kind == CGROUP_V2) {
		_cleanup_close_ int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (dir >= 0)
			(void)write_file_at(dir, "cgroup.kill", "1");
	}
	if (s->tree->has_freezer && s->hierarchy == s->tree->n - 1) {
		_cleanup_close_ int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

		/* an owner that died while its sandbox was paused: the signal that ends it waits there */
		if (dir >= 0)
			(void)write_file_at(dir, "freezer.state", "THAWED");
	}
	remove_dir(parent, name);
	s->removed++;
}

/* Each hierarchy by itself: a caller in another cgroup of one of them would else leave the rest behind for ever. */
int cgroup_sweep(
	const struct cgroup_tree *t, const char *home_hash, unsigned *ret_removed, struct err *e)
{
	/* root's directories are all root's, and a home that is no longer used has nobody else to sweep for it */
	const char *home = geteuid() == 0 ? NULL : home_hash;
	struct sweep s = { .tree = t };

	*ret_removed = 0;
	for (; s.hierarchy < t->n; s.hierarchy++) {
		s.removed = 0;
		if (each_name(t, s.hierarchy, home, sweep_each, &s, e) < 0)
			return -1;
		if (s.removed > *ret_removed)
			*ret_removed = s.removed;
	}
	return 0;
}

struct listing {
	void (*each)(void *arg, const char *id, bool alive);
	void *arg;
};

static void list_each(void *arg, const char *name, const char *id, bool alive)
{
	const struct listing *l = arg;

	(void)name;
	l->each(l->arg, id, alive);
}

int cgroup_list(const struct cgroup_tree *t, const char *home_hash,
	void (*each)(void *arg, const char *id, bool alive), void *arg, struct err *e)
{
	struct listing l = { each, arg };

	return t->n ? each_name(t, 0, home_hash, list_each, &l, e) : 0;
}
