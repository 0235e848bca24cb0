/* Rows that are commands, measured from posix_spawn to the end of the wait: the floor, `bailey run`, bwrap.  Called by
 * bench.c; bench_oci.c and bench_stream.c start theirs by it too. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/str.h"
#include "door/cli/bench.h"

enum { SWEEP_TRIES = 200, SWEEP_PAUSE_US = 1000 };

void bench_arg(struct bench_args *a, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (a->n == BENCH_MAX_ARGS || vasprintf(&text, fmt, ap) < 0)
		abort(); /* a programmer's error, or no memory for a word */
	va_end(ap);
	a->v[a->n++] = text;
	a->v[a->n] = NULL;
}

void bench_args_add(struct bench_args *a, const char *const *words)
{
	while (*words)
		bench_arg(a, "%s", *words++);
}

void bench_args_done(struct bench_args *a)
{
	while (a->n)
		free(a->v[--a->n]);
	a->v[0] = NULL;
}

int bench_spawn(const struct bench *b, char *const *argv, int out, pid_t *ret, struct err *e)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (out >= 0)
		(void)posix_spawn_file_actions_adddup2(&actions, out, 1);
	else
		(void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, b->messages, 2);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	r = posix_spawn(ret, argv[0], &actions, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return r == 0 ? 0 : err_set(e, R_SETUP_FAILED, r, "start '%s'", argv[0]);
}

int bench_wait(pid_t pid, struct err *e)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_set(e, R_SETUP_FAILED, errno, "wait for process '%d'", pid);
		if (bench_stop)
			(void)kill(pid, SIGTERM);
	}
	return status;
}

/* The first line of what the command wrote to standard error. */
static int ended_badly(const struct bench *b, const char *program, int status, struct err *e)
{
	char said[256];
	ssize_t n = pread(b->messages, said, sizeof said - 1, 0);

	said[n > 0 ? n : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	return err_set(e, R_SETUP_FAILED, 0, "run '%s': status %d: %s", program,
		WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), said);
}

int bench_run(const struct bench *b, char *const *argv, struct err *e)
{
	int status;
	pid_t pid;

	if (ftruncate(b->messages, 0) < 0 || lseek(b->messages, 0, SEEK_SET) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "empty the file of messages");
	if (bench_spawn(b, argv, -1, &pid, e) < 0)
		return -1;
	status = bench_wait(pid, e);
	if (status != 0)
		return status < 0 ? -1 : ended_badly(b, argv[0], status, e);
	return 0;
}

char *bench_find(const char *program)
{
	_cleanup_free_ char *path = xstrdup(getenv("PATH") ?: "/usr/local/bin:/usr/bin:/bin");
	_cleanup_free_ char *all = xasprintf("%s:/usr/sbin:/sbin", path);
	char *save = NULL;

	for (char *dir = strtok_r(all, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		_cleanup_free_ char *full = xasprintf("%s/%s", dir, program);

		if (*dir == '/' && access(full, X_OK) == 0)
			return move_ptr(full);
	}
	return NULL;
}

int bench_command_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	if (bench_run(b, row->args.v, e) < 0)
		return -1;
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	return 0;
}

void bench_command_end(struct bench *b, struct bench_row *row)
{
	(void)b;
	bench_args_done(&row->args);
}

/* --- the floor ----------------------------------------------------------------------------------------------------- */

void bench_floor_args(const struct bench *b, struct bench_args *a, bool mount)
{
	bench_arg(a, "%s", b->floor);
	for (unsigned i = 0; i < b->tree.n; i++) {
		bench_arg(a, "--cgroup");
		bench_arg(a, "%s", b->tree.path[i]);
	}
	if (!mount)
		return;
	bench_arg(a, "--mount");
	bench_arg(a, "%s", b->libexec);
	bench_arg(a, BENCH_MOUNT_TARGET);
}

/* Removes what a floor that was killed left behind; its sandbox dies with it, a moment later. */
void bench_floor_sweep(const struct bench *b, pid_t pid)
{
	char name[64];

	(void)FMT(name, "bailey-floor-%d", pid);
	for (unsigned i = 0; i < b->tree.n; i++)
		for (int k = 0; k < SWEEP_TRIES; k++) {
			if (unlinkat(b->tree.dir[i], name, AT_REMOVEDIR) == 0 || errno != EBUSY)
				break;
			(void)usleep(SWEEP_PAUSE_US);
		}
}

int bench_floor_command_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	(void)e;
	bench_floor_args(b, &row->args, false);
	bench_arg(&row->args, "%s", b->command);
	return 0;
}

int bench_floor_command_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	int status;
	pid_t pid;

	if (bench_spawn(b, row->args.v, -1, &pid, e) < 0)
		return -1;
	status = bench_wait(pid, e);
	*ret = clock_ns(CLOCK_MONOTONIC) - start;
	if (status == 0)
		return 0;
	bench_floor_sweep(b, pid);
	return status < 0 ? -1 : ended_badly(b, b->floor, status, e);
}

/* --- bailey run ---------------------------------------------------------------------------------------------------- */

int bench_run_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	(void)e;
	bench_arg(&row->args, "%s", b->bailey);
	bench_arg(&row->args, "run");
	bench_arg(&row->args, "--");
	bench_arg(&row->args, "%s", b->command);
	return 0;
}

/* --- bwrap --------------------------------------------------------------------------------------------------------- */

static void add_usr(struct bench_args *a)
{
	static const char *const paths[] = { "/bin", "/sbin", "/lib", "/lib32", "/lib64",
		"/libx32" };

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		char target[256];
		ssize_t n = readlink(paths[i], target, sizeof target - 1);

		if (n > 0) {
			target[n] = '\0';
			bench_arg(a, "--symlink");
			bench_arg(a, "%s", target);
			bench_arg(a, "%s", paths[i]);
		} else if (access(paths[i], F_OK) == 0) {
			bench_arg(a, "--ro-bind");
			bench_arg(a, "%s", paths[i]);
			bench_arg(a, "%s", paths[i]);
		}
	}
}

int bench_bwrap_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	static const char *const walls[] = { "--unshare-all", "--die-with-parent", "--new-session",
		"--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME",
		"/home/agent", "--uid", "1000", "--gid", "1000", "--hostname", "bailey",
		"--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", NULL };
	static const char *const rest[] = { "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--tmpfs", "/home/agent", "--tmpfs", "/dev/shm", "--chdir", "/home/agent",
		"--remount-ro", "/", "--", NULL };
	static const char *const etc[] = { "/etc/ld.so.cache", "/etc/alternatives",
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/localtime" };

	(void)e;
	row->program = bench_find("bwrap");
	if (!row->program)
		return bench_leave_out(row, BENCH_ABSENT, "not installed");
	bench_arg(&row->args, "%s", row->program);
	bench_args_add(&row->args, walls);
	add_usr(&row->args);
	for (size_t i = 0; i < sizeof etc / sizeof *etc; i++) {
		bench_arg(&row->args, "--ro-bind-try");
		bench_arg(&row->args, "%s", etc[i]);
		bench_arg(&row->args, "%s", etc[i]);
	}
	bench_args_add(&row->args, rest);
	bench_arg(&row->args, "%s", b->command);
	return 0;
}
