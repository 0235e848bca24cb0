/* What sandboxes that live cost: commands in one, forks, differences, copies.  By the library, as a program would do it,
 * in this user's own home; what is made is removed at the end.  Called by bench.c. */
#include <bailey.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "door/cli/bench.h"

enum {
	TREE_FILES = 10000,
	TREE_DIRS = 100,
	TREE_FILE_BYTES = 10486, /* 100 MiB in all */
	CHANGED_FILES = 1000,
	CHANGED_BYTES = 65536,
	BIG_MIB = 1024,
};

/* One home for all rows; a sandbox for each row that needs its own. */
static struct bailey *home;

struct live {
	char id[BAILEY_ID_SIZE];
	struct bailey_sandbox *s;
};

int bench_live_failed(const struct bailey_error *b, struct err *e)
{
	enum reason r = reason_by_name(b->reason);

	return err_set(e, r == REASON_NONE ? R_SETUP_FAILED : r, 0, "%s", b->message);
}

struct bailey *bench_live_home(void)
{
	return home;
}

int bench_live_open(const struct bench *b, struct err *e)
{
	struct bailey_options o = BAILEY_OPTIONS_INIT;
	struct bailey_error failure;

	if (home)
		return 0;
	o.libexec = b->libexec;
	o.cgroup_parent = b->o->cgroup_parent;
	o.ids_base = (uint32_t)b->o->ids_base;
	o.ids_count = (uint32_t)b->o->ids_count;
	return bailey_open(&o, &home, &failure) < 0 ? bench_live_failed(&failure, e) : 0;
}

static int run(struct bailey_sandbox *s, const char *script, struct err *e)
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_error failure;
	struct bailey_result result;

	o.argv = argv;
	if (bailey_exec_run(s, &o, &result, &failure) < 0)
		return bench_live_failed(&failure, e);
	if (result.status != 0)
		return err_set(
			e, R_SETUP_FAILED, 0, "run '%.60s': status %d", script, result.status);
	return 0;
}

/* A sandbox of the row's own, with as much disk, and memory for it. */
static int make(struct bench *b, struct bench_row *row, uint64_t disk_mib, struct err *e)
{
	const struct bailey_mount programs = { b->libexec, BENCH_MOUNT_TARGET, BAILEY_RO };
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	struct bailey_error failure;
	struct live *l;

	if (bench_live_open(b, e) < 0)
		return -1;
	row->data = l = xcalloc(1, sizeof *l);
	o.disk = disk_mib << 20;
	o.memory = (disk_mib + 512) << 20;
	o.pids = 512;
	if (row->group == GROUP_EXEC_NOP && b->needs_mount) {
		o.mounts = &programs;
		o.n_mounts = 1;
	}
	if (bailey_create(home, &o, l->id, &failure) < 0)
		return bench_live_failed(&failure, e);
	if (bailey_connect(home, l->id, &l->s, &failure) < 0)
		return bench_live_failed(&failure, e);
	return 0;
}

static void forget(const char *id)
{
	(void)bailey_remove_sandbox(home, id, 0, 1, NULL);
}

void bench_live_end(struct bench *b, struct bench_row *row)
{
	struct live *l = row->data;

	if (l) {
		bailey_disconnect(l->s);
		if (*l->id)
			forget(l->id);
	}
	free(l);
	row->data = NULL;
	bench_command_end(b, row);
}

/* Behind the last row. */
void bench_live_close(void)
{
	bailey_close(home);
	home = NULL;
}

static bool has_memory(struct bench_row *row, uint64_t mib)
{
	uint64_t free_mib = bench_available_kib() >> 10;

	if (free_mib >= mib)
		return true;
	(void)bench_leave_out(row, BENCH_ABSENT, "needs %llu MiB of free memory, and %llu are",
		(unsigned long long)mib, (unsigned long long)free_mib);
	return false;
}

/* --- exec ----------------------------------------------------------------------------------------------------------- */

int bench_bare_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	(void)e;
	bench_arg(&row->args, "%s", row->group == GROUP_EXEC_NOP ? b->nop : "/usr/bin/true");
	return 0;
}

/* The second of two: the first wakes up whatever slept since the last round. */
int bench_bare_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	uint64_t ignored;

	return bench_command_once(b, row, &ignored, e) < 0 ? -1
							   : bench_command_once(b, row, ret, e);
}

int bench_exec_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	struct live *l;

	if (make(b, row, 64, e) < 0)
		return -1;
	l = row->data;
	if (!streq(row->name, "exec-command"))
		return 0;
	bench_arg(&row->args, "%s", b->bailey);
	bench_arg(&row->args, "exec");
	bench_arg(&row->args, "%s", l->id);
	bench_arg(&row->args, "--");
	bench_arg(&row->args, "/usr/bin/true");
	return 0;
}

static int exec_once(const struct bench *b, const struct bench_row *row, struct err *e)
{
	const char *const argv[] = { row->group == GROUP_EXEC_NOP ? b->nop_inside : "/usr/bin/true",
		NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	const struct live *l = row->data;
	struct bailey_error failure;
	struct bailey_result result;

	o.argv = argv;
	if (bailey_exec_run(l->s, &o, &result, &failure) < 0)
		return bench_live_failed(&failure, e);
	return result.status == 0
		? 0
		: err_set(e, R_SETUP_FAILED, 0, "run '%s': status %d", argv[0], result.status);
}

int bench_exec_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	uint64_t start;

	if (row->args.n)
		return bench_bare_once(b, row, ret, e);
	if (exec_once(b, row, e) < 0)
		return -1;
	start = clock_ns(CLOCK_MONOTONIC);
	if (exec_once(b, row, e) < 0)
		return -1;
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	return 0;
}

/* --- create, fork, diff --------------------------------------------------------------------------------------------- */

int bench_create_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	(void)row;
	return bench_live_open(b, e);
}

int bench_create_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	struct bailey_error failure;
	char id[BAILEY_ID_SIZE];

	(void)b;
	(void)row;
	if (bailey_create(home, NULL, id, &failure) < 0)
		return bench_live_failed(&failure, e);
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	forget(id);
	return 0;
}

int bench_fork_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	bool stopped = streq(row->name, "fork-stopped");
	struct bailey_error failure;
	struct live *l;
	char script[256];

	if (!has_memory(row, stopped ? 3 * BIG_MIB : BIG_MIB))
		return 0;
	if (make(b, row, stopped ? BIG_MIB + 64 : 256, e) < 0)
		return -1;
	l = row->data;
	if (stopped)
		(void)FMT(script,
			"head -c %d /dev/urandom >f && i=0 && while [ $i -lt %d ]; do cat f; "
			"i=$((i + 1)); done >all && rm f",
			8 << 20, BIG_MIB / 8);
	else
		(void)FMT(script,
			"mkdir c && head -c %d /dev/urandom >f && i=0 && while [ $i -lt %d ]; do "
			"cp f c/$i; i=$((i + 1)); done",
			CHANGED_BYTES, CHANGED_FILES);
	if (run(l->s, script, e) < 0)
		return -1;
	if (stopped && bailey_stop(l->s, 1000, &failure) < 0)
		return bench_live_failed(&failure, e);
	return 0;
}

int bench_fork_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	const struct live *l = row->data;
	struct bailey_error failure;
	char id[BAILEY_ID_SIZE];
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	(void)b;
	if (bailey_fork(l->s, NULL, id, &failure) < 0)
		return bench_live_failed(&failure, e);
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	forget(id);
	return 0;
}

/* The same files copied by cp inside: what a fork of a running one is measured by. */
int bench_copy_bare_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	const struct live *l = row->data;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	(void)b;
	if (run(l->s, "cp -a c copy", e) < 0)
		return -1;
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	return run(l->s, "rm -rf copy", e);
}

int bench_diff_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	char script[256];
	struct live *l;

	if (make(b, row, 256, e) < 0)
		return -1;
	l = row->data;
	(void)FMT(script,
		"d=0; while [ $d -lt %d ]; do mkdir $d; i=0; while [ $i -lt %d ]; do echo x >$d/$i; "
		"i=$((i + 1)); done; d=$((d + 1)); done",
		TREE_DIRS, TREE_FILES / TREE_DIRS);
	return run(l->s, script, e);
}

static int count_change(void *arg, const struct bailey_change *change)
{
	(void)change;
	(*(uint64_t *)arg)++;
	return 0;
}

int bench_diff_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	const struct live *l = row->data;
	struct bailey_error failure;
	uint64_t start = clock_ns(CLOCK_MONOTONIC), n = 0;

	(void)b;
	if (bailey_changes(l->s, 0, count_change, &n, &failure) < 0)
		return bench_live_failed(&failure, e);
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	return n >= TREE_FILES ? 0
			       : err_set(e, R_SETUP_FAILED, 0, "compare: %llu changes of %d",
					 (unsigned long long)n, TREE_FILES);
}

/* --- copies --------------------------------------------------------------------------------------------------------- */

/* Made once for all rows; it goes with the directory. */
static int make_tree(const struct bench *b, struct err *e)
{
	_cleanup_free_ char *tree = xasprintf("%s/tree", b->dir);
	static char bytes[TREE_FILE_BYTES];
	char path[4200];

	memset(bytes, 'x', sizeof bytes);
	if (mkdir(tree, 0755) < 0)
		return errno == EEXIST
			? 0
			: err_set(e, R_STATE_UNWRITABLE, errno, "create directory '%s'", tree);
	for (int i = 0; i < TREE_FILES; i++) {
		_cleanup_close_ int fd = -1;

		if (i % (TREE_FILES / TREE_DIRS) == 0)
			(void)mkdir(FMT(path, "%s/%d", tree, i / (TREE_FILES / TREE_DIRS)), 0755);
		(void)FMT(path, "%s/%d/%d", tree, i / (TREE_FILES / TREE_DIRS), i);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0 || write_all(fd, bytes, sizeof bytes) < 0)
			return err_set(e, R_STATE_UNWRITABLE, errno, "write '%s'", path);
	}
	return 0;
}

static int make_file(const struct bench *b, struct err *e)
{
	_cleanup_free_ char *path = xasprintf("%s/file", b->dir);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	static char bytes[1 << 20];

	if (fd < 0)
		return errno == EEXIST ? 0
				       : err_set(e, R_STATE_UNWRITABLE, errno, "create '%s'", path);
	memset(bytes, 'x', sizeof bytes);
	for (int i = 0; i < BIG_MIB; i++)
		if (write_all(fd, bytes, sizeof bytes) < 0)
			return err_set(e, R_STATE_UNWRITABLE, errno, "write '%s'", path);
	return 0;
}

int bench_tar_bare_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	if (make_tree(b, e) < 0)
		return -1;
	bench_arg(&row->args, "/bin/sh");
	bench_arg(&row->args, "-c");
	bench_arg(&row->args, "mkdir '%s/out' && tar -C '%s/tree' -cf - . | tar -C '%s/out' -xf -",
		b->dir, b->dir, b->dir);
	return 0;
}

static int remove_out(struct bench *b, struct err *e)
{
	_cleanup_free_ char *out = xasprintf("%s/out", b->dir);
	char *const argv[] = { (char[]){ "/bin/rm" }, (char[]){ "-rf" }, out, NULL };

	return bench_run(b, argv, e);
}

int bench_tar_bare_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	return bench_command_once(b, row, ret, e) < 0 ? -1 : remove_out(b, e);
}

static bool is_out(const struct bench_row *row)
{
	return strstr(row->name, "-out") != NULL;
}

int bench_cp_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	bool file = row->group == GROUP_STREAM;
	struct bailey_error failure;
	_cleanup_free_ char *from = xasprintf("%s/%s", b->dir, file ? "file" : "tree");
	struct live *l;

	if (!has_memory(row, file ? 3 * BIG_MIB : BIG_MIB))
		return 0;
	if ((file ? make_file(b, e) : make_tree(b, e)) < 0 ||
		make(b, row, file ? BIG_MIB + 64 : 512, e) < 0)
		return -1;
	l = row->data;
	if (is_out(row) && bailey_copy_in(l->s, from, "/workspace/x", 0, NULL, &failure) < 0)
		return bench_live_failed(&failure, e);
	return 0;
}

int bench_cp_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	bool file = row->group == GROUP_STREAM;
	_cleanup_free_ char *from = xasprintf("%s/%s", b->dir, file ? "file" : "tree");
	_cleanup_free_ char *out = xasprintf("%s/out", b->dir);
	const struct live *l = row->data;
	struct bailey_error failure;
	uint64_t start = clock_ns(CLOCK_MONOTONIC), ns;
	int r = is_out(row) ? bailey_copy_out(l->s, "/workspace/x", out, 0, NULL, &failure)
			    : bailey_copy_in(l->s, from, "/workspace/x", 0, NULL, &failure);

	if (r < 0)
		return bench_live_failed(&failure, e);
	ns = clock_ns(CLOCK_MONOTONIC) - start;
	*ret = file ? BIG_MIB * 1000000000ull / (ns ?: 1) : ns;
	return is_out(row) ? remove_out(b, e) : run(l->s, "rm -rf /workspace/x", e);
}
