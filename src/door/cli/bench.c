/* `bailey bench`: how long a sandbox takes from start to end, beside the same walls in bare C and the peers that are
 * installed.
 *
 * Every round takes one sample of each row, in an order of its own, so that whatever else the machine does hits all alike.
 * What is claimed are ratios within one run.  Peers are measured with the walls they have; where they lack some (no filter,
 * no limits) that is in their favour.  A timing never decides the exit status. */
#include "door/cli/bench.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "door/cli/verb.h"

enum {
	SETTLE_US =
		2000, /* the kernel takes namespaces apart in the background: that belongs to nobody's next sample */
	REMOVE_DEPTH = 16,
};

volatile sig_atomic_t bench_stop;

static struct bench_row rows[] = {
	{ .name = "floor",
		.what = "floor",
		.group = GROUP_NOP,
		.setup = bench_floor_setup,
		.once = bench_floor_once,
		.end = bench_floor_end },
	{ .name = "engine",
		.what = "bailey",
		.group = GROUP_NOP,
		.setup = bench_engine_setup,
		.once = bench_engine_once,
		.end = bench_engine_end },
	{ .name = "floor-true",
		.what = "floor",
		.group = GROUP_TRUE,
		.setup = bench_floor_setup,
		.once = bench_floor_once,
		.end = bench_floor_end },
	{ .name = "engine-true",
		.what = "bailey",
		.group = GROUP_TRUE,
		.setup = bench_engine_setup,
		.once = bench_engine_once,
		.end = bench_engine_end },
	{ .name = "floor-command",
		.what = "floor",
		.group = GROUP_COMMAND,
		.setup = bench_floor_command_setup,
		.once = bench_floor_command_once,
		.end = bench_command_end },
	{ .name = "run",
		.what = "bailey run",
		.group = GROUP_COMMAND,
		.setup = bench_run_setup,
		.once = bench_command_once,
		.end = bench_command_end },
	{ .name = "bwrap",
		.peer = true,
		.what = "bwrap (no limits, no filter)",
		.group = GROUP_COMMAND,
		.setup = bench_bwrap_setup,
		.once = bench_command_once,
		.end = bench_command_end },
	{ .name = "crun",
		.peer = true,
		.what = "crun run (no filter)",
		.group = GROUP_COMMAND,
		.setup = bench_oci_setup,
		.once = bench_oci_once,
		.end = bench_command_end },
	{ .name = "runc",
		.peer = true,
		.what = "runc run (no filter)",
		.group = GROUP_COMMAND,
		.setup = bench_oci_setup,
		.once = bench_oci_once,
		.end = bench_command_end },
	{ .name = "podman",
		.peer = true,
		.what = "podman run",
		.group = GROUP_COMMAND,
		.only_named = true,
		.setup = bench_docker_setup,
		.once = bench_command_once,
		.end = bench_docker_end },
	{ .name = "docker",
		.peer = true,
		.what = "docker run",
		.group = GROUP_COMMAND,
		.only_named = true,
		.setup = bench_docker_setup,
		.once = bench_command_once,
		.end = bench_docker_end },
	{ .name = "stream-bare",
		.what = "to a pipe, no sandbox",
		.group = GROUP_STREAM,
		.setup = bench_stream_setup,
		.once = bench_stream_once,
		.end = bench_command_end },
	{ .name = "stream-pipe",
		.what = "to a pipe",
		.group = GROUP_STREAM,
		.setup = bench_stream_setup,
		.once = bench_stream_once,
		.end = bench_command_end },
	{ .name = "stream-null",
		.what = "to /dev/null",
		.group = GROUP_STREAM,
		.setup = bench_stream_setup,
		.once = bench_stream_once,
		.end = bench_command_end },
	{ .name = "stream-file",
		.what = "to a file in /tmp",
		.group = GROUP_STREAM,
		.setup = bench_stream_setup,
		.once = bench_stream_once,
		.end = bench_command_end },
	{ .name = "exec-nop-bare",
		.what = "no sandbox",
		.group = GROUP_EXEC_NOP,
		.setup = bench_bare_setup,
		.once = bench_bare_once,
		.end = bench_command_end },
	{ .name = "exec-nop",
		.what = "by the library",
		.group = GROUP_EXEC_NOP,
		.setup = bench_exec_setup,
		.once = bench_exec_once,
		.end = bench_live_end },
	{ .name = "exec-bare",
		.what = "no sandbox",
		.group = GROUP_EXEC,
		.setup = bench_bare_setup,
		.once = bench_bare_once,
		.end = bench_command_end },
	{ .name = "exec",
		.what = "by the library",
		.group = GROUP_EXEC,
		.setup = bench_exec_setup,
		.once = bench_exec_once,
		.end = bench_live_end },
	{ .name = "exec-command",
		.what = "bailey exec",
		.group = GROUP_EXEC,
		.setup = bench_exec_setup,
		.once = bench_exec_once,
		.end = bench_live_end },
	{ .name = "copy-bare",
		.what = "cp -a inside, 62 MiB",
		.group = GROUP_FORK,
		.setup = bench_fork_setup,
		.once = bench_copy_bare_once,
		.end = bench_live_end },
	{ .name = "fork-running",
		.what = "fork, running, the same",
		.group = GROUP_FORK,
		.setup = bench_fork_setup,
		.once = bench_fork_once,
		.end = bench_live_end },
	{ .name = "fork-stopped",
		.what = "fork, stopped, 1 GiB",
		.group = GROUP_FORK,
		.setup = bench_fork_setup,
		.once = bench_fork_once,
		.end = bench_live_end },
	{ .name = "create",
		.what = "create",
		.group = GROUP_FORK,
		.setup = bench_create_setup,
		.once = bench_create_once,
		.end = bench_live_end },
	{ .name = "diff",
		.what = "diff of 10,000 files",
		.group = GROUP_FORK,
		.setup = bench_diff_setup,
		.once = bench_diff_once,
		.end = bench_live_end },
	{ .name = "idle",
		.what = "1,000 idle sandboxes",
		.group = GROUP_FORK,
		.only_named = true,
		.setup = bench_idle_setup,
		.once = bench_idle_once,
		.end = bench_live_end },
	{ .name = "tar-bare",
		.what = "tar | tar, no sandbox",
		.group = GROUP_COPY,
		.setup = bench_tar_bare_setup,
		.once = bench_tar_bare_once,
		.end = bench_command_end },
	{ .name = "cp-in",
		.what = "cp into a sandbox",
		.group = GROUP_COPY,
		.setup = bench_cp_setup,
		.once = bench_cp_once,
		.end = bench_live_end },
	{ .name = "cp-out",
		.what = "cp out of one",
		.group = GROUP_COPY,
		.setup = bench_cp_setup,
		.once = bench_cp_once,
		.end = bench_live_end },
	{ .name = "cp-file-in",
		.what = "cp of 1 GiB in",
		.group = GROUP_STREAM,
		.setup = bench_cp_setup,
		.once = bench_cp_once,
		.end = bench_live_end },
	{ .name = "cp-file-out",
		.what = "cp of 1 GiB out",
		.group = GROUP_STREAM,
		.setup = bench_cp_setup,
		.once = bench_cp_once,
		.end = bench_live_end },
};

enum { N_ROWS = sizeof rows / sizeof *rows };

int bench_interrupted(struct err *e)
{
	return err_set(e, R_INTERRUPTED, 0, "measure: interrupted");
}

int bench_leave_out(struct bench_row *row, enum bench_state state, const char *fmt, ...)
{
	va_list ap;

	row->state = state;
	va_start(ap, fmt);
	(void)vsnprintf(row->why, sizeof row->why, fmt, ap);
	va_end(ap);
	return 0;
}

static void on_signal(int sig)
{
	(void)sig;
	bench_stop = 1;
}

/* Without SA_RESTART: a wait returns and sees the flag. */
static void catch_signals(void)
{
	const struct sigaction action = { .sa_handler = on_signal };

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGHUP, &action, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
}

static int choose(const struct options *o, struct err *e)
{
	for (unsigned i = 0; i < N_ROWS; i++)
		rows[i].wanted = !o->only.n && !rows[i].only_named;
	for (unsigned k = 0; k < o->only.n; k++) {
		_cleanup_buf_ struct buf names = BUF_INIT;
		bool found = false;

		for (unsigned i = 0; i < N_ROWS; i++) {
			bool same = streq(rows[i].name, o->only.v[k]);

			rows[i].wanted = rows[i].wanted || same;
			found = found || same;
			(void)buf_printf(&names, "%s%s", i ? ", " : "", rows[i].name);
		}
		if (found)
			continue;
		(void)err_set(
			e, R_BAD_VALUE, 0, "measure '%.64s': no such measurement", o->only.v[k]);
		return err_remedy(e, "Name one of: %s.", names.data);
	}
	return 0;
}

static char *own_path(struct err *e)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

	if (n < 0) {
		(void)err_set(e, R_SETUP_FAILED, errno, "find the path of this program");
		return NULL;
	}
	path[n] = '\0';
	return xstrdup(path);
}

/* The host's /usr is shown inside; programs elsewhere need a mount of their own. */
static int find_programs(struct bench *b, struct err *e)
{
	_cleanup_free_ char *floor = NULL, *guest = NULL;
	struct stat usr, own;

	b->bailey = own_path(e);
	if (!b->bailey || libexec_path("bailey-floor", &floor, e) < 0 ||
		libexec_path("bailey-guest", &guest, e) < 0)
		return -1;
	b->floor = realpath(floor, NULL);
	if (!b->floor) {
		(void)err_set(e, R_SETUP_FAILED, errno, "find '%s'", floor);
		return err_remedy(e,
			"Reinstall Bailey: bailey-floor and bailey-nop must lie in libexec/bailey.");
	}
	if (strlen(guest) >= sizeof b->guest)
		return err_set(e, R_SETUP_FAILED, ENAMETOOLONG, "use '%s'", guest);
	(void)FMT(b->guest, "%s", guest);
	b->libexec = xstrdup(b->floor);
	*strrchr(b->libexec, '/') = '\0';
	b->nop = xasprintf("%s/bailey-nop", b->libexec);
	b->needs_mount = !str_after(b->libexec, "/usr/") || stat("/usr", &usr) < 0 ||
		stat(b->libexec, &own) < 0 || usr.st_dev != own.st_dev;
	b->nop_inside =
		b->needs_mount ? xstrdup(BENCH_MOUNT_TARGET "/bailey-nop") : xstrdup(b->nop);
	/* with a mount, `bailey run` would be measured with what it checks about mounts */
	b->command = b->needs_mount ? "/usr/bin/true" : b->nop_inside;
	return 0;
}

static int prepare(struct bench *b, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	_cleanup_free_ char *dir =
		xasprintf("%s/bailey-bench.XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
	char load[64];

	if (find_programs(b, e) < 0)
		return -1;
	if (!mkdtemp(dir))
		return err_set(e, R_STATE_UNWRITABLE, errno, "create directory '%s'", dir);
	b->dir = move_ptr(dir);
	b->messages = memfd_create("messages", MFD_CLOEXEC);
	if (b->messages < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a file in memory");
	if (read_file_at(AT_FDCWD, "/proc/loadavg", load, sizeof load) > 0)
		b->load_before = (uint64_t)(strtod(load, NULL) * 100 + 0.5);
	return bench_engine_open(b, e);
}

/* One sample that isn't kept: it fills caches, and what can't run is found before the rounds. */
static int warm_up(struct bench *b, struct err *e)
{
	for (unsigned i = 0; i < N_ROWS; i++) {
		struct bench_row *row = &rows[i];
		_cleanup_err_ struct err failed = ERR_INIT;
		uint64_t ignored;

		if (!row->wanted)
			continue;
		if (bench_stop)
			return bench_interrupted(e);
		if (row->setup(b, row, &failed) < 0 ||
			(row->state == BENCH_READY && row->once(b, row, &ignored, &failed) < 0)) {
			if (bench_stop)
				return bench_interrupted(e);
			(void)bench_leave_out(row, BENCH_FAILED, "%s", failed.message ?: "");
			/* a peer that doesn't work on this host is no failure of the measurement */
			if (row->peer && !b->o->only.n)
				row->state = BENCH_ABSENT;
		}
		if (row->state == BENCH_READY)
			row->samples = xcalloc((size_t)b->o->iterations, sizeof *row->samples);
	}
	return 0;
}

static int sample(struct bench *b, struct bench_row *row, struct err *e)
{
	_cleanup_err_ struct err failed = ERR_INIT;

	if (bench_stop)
		return bench_interrupted(e);
	(void)usleep(SETTLE_US);
	if (row->once(b, row, &row->samples[row->n_samples], &failed) < 0) {
		if (bench_stop)
			return bench_interrupted(e);
		return bench_leave_out(row, BENCH_FAILED, "%s", failed.message ?: "");
	}
	row->n_samples++;
	return 0;
}

/* xorshift: each round in another order, the same ones in every run. */
static void shuffle(unsigned *order, unsigned n, uint32_t *state)
{
	for (unsigned i = n; i > 1; i--) {
		unsigned k, held;

		*state ^= *state << 13;
		*state ^= *state >> 17;
		*state ^= *state << 5;
		k = *state % i;
		held = order[i - 1];
		order[i - 1] = order[k];
		order[k] = held;
	}
}

/* What takes so long that a few rounds are enough. */
static bool is_long(const struct bench_row *row)
{
	return row->group >= GROUP_FORK;
}

static int measure(struct bench *b, bool longer, uint64_t rounds, struct err *e)
{
	unsigned order[N_ROWS], n = 0;
	uint32_t state = 2463534242u;

	for (unsigned i = 0; i < N_ROWS; i++)
		if (rows[i].wanted && rows[i].state == BENCH_READY && is_long(&rows[i]) == longer)
			order[n++] = i;
	for (uint64_t round = 0; round < rounds; round++) {
		shuffle(order, n, &state);
		for (unsigned i = 0; i < n; i++)
			if (rows[order[i]].state == BENCH_READY &&
				sample(b, &rows[order[i]], e) < 0)
				return -1;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path);
	return 0;
}

static void bench_done(struct bench *b)
{
	for (unsigned i = 0; i < N_ROWS; i++) {
		if (rows[i].end)
			rows[i].end(b, &rows[i]);
		free(rows[i].samples);
		free(rows[i].program);
		rows[i].samples = NULL;
		rows[i].program = NULL;
	}
	bench_live_close();
	bench_engine_close(b);
	b->messages = close_fd(b->messages);
	if (b->dir)
		(void)nftw(b->dir, remove_one, REMOVE_DEPTH, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	free(b->dir);
	free(b->bailey);
	free(b->libexec);
	free(b->floor);
	free(b->nop);
	free(b->nop_inside);
}

static int report(const struct bench *b, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	int status = 0;

	if (b->o->json)
		bench_report_json(b, rows, N_ROWS, &out);
	else
		bench_report_text(b, rows, N_ROWS, &out);
	if (out.failed)
		return err_set(e, R_OUTPUT_FAILED, EFBIG, "make the report");
	if (cli_write(&out, e) < 0)
		return -1;
	for (unsigned i = 0; i < N_ROWS; i++)
		if (rows[i].wanted && rows[i].state == BENCH_FAILED)
			status = 1;
	return status;
}

int verb_bench(struct options *o, int argc, char **argv, struct err *e)
{
	static struct bench b; /* large: the specs */
	uint64_t few = o->iterations < BENCH_LIVE_ROUNDS ? o->iterations : BENCH_LIVE_ROUNDS;
	int result = -1;

	(void)argc;
	(void)argv;
	b.o = o;
	b.root = geteuid() == 0;
	b.messages = -1;
	if (choose(o, e) < 0)
		return -1;
	catch_signals();
	if (prepare(&b, e) == 0 && warm_up(&b, e) == 0 &&
		measure(&b, false, o->iterations, e) == 0 && measure(&b, true, few, e) == 0)
		result = report(&b, e);
	bench_done(&b);
	return result;
}
