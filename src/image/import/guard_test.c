/* What a process that reads images can do, before the walls (the control) and behind them. */
#include "image/import/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/confine.h"
#include "base/str.h"
#include "image/import/worker.h"
#include "image/walk.h"

static char dir[] = "/tmp/bailey-guard-test.XXXXXX";
static int store = -1, source = -1, outside = -1, secret = -1, pipes[2] = { -1, -1 };

static bool made(int fd)
{
	const bool r = fd >= 0;

	(void)close_fd(fd);
	return r;
}

/* --- what it must not be able to do --- */

static bool read_outside(void)
{
	return made(openat(outside, "file", O_RDONLY | O_CLOEXEC));
}

static bool read_the_host(void)
{
	return made(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static bool list_outside(void)
{
	return made(openat(store, "../outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static bool write_outside(void)
{
	return made(openat(outside, "file", O_WRONLY | O_CLOEXEC));
}

static bool make_outside(void)
{
	return made(openat(outside, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static bool remove_outside(void)
{
	return unlinkat(outside, "goes", 0) == 0;
}

static bool link_in_from_outside(void)
{
	return linkat(outside, "file", store, "stolen", 0) == 0;
}

static bool write_the_source(void)
{
	return made(openat(source, "file", O_WRONLY | O_CLOEXEC));
}

static bool make_in_the_source(void)
{
	return made(openat(source, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static bool make_a_fifo(void)
{
	return mkfifoat(store, "fifo", 0600) == 0;
}

static bool reach_the_network(void)
{
	return made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static bool reach_local_sockets(void)
{
	return made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static bool start_a_process(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0 && waitpid(pid, NULL, 0) == pid;
}

/* Of a program that isn't there, so that this process goes on. */
static bool run_a_program(void)
{
	char *const argv[] = { NULL };

	return execve("/tmp/no-such-program", argv, argv) < 0 && errno == ENOENT;
}

static bool signal_its_parent(void)
{
	return kill(getppid(), 0) == 0;
}

static bool signal_by_a_pipe(void)
{
	return fcntl(pipes[0], F_SETOWN, getpid()) == 0;
}

static bool be_traced(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static bool make_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED && munmap(p, 4096) == 0;
}

static bool use_ioctl(void)
{
	int n;

	return ioctl(pipes[0], FIONREAD, &n) == 0;
}

static bool leave_its_namespace(void)
{
	return unshare(CLONE_FS) == 0;
}

static bool use_an_open_file(void)
{
	char c;

	return pread(secret, &c, 1, 0) == 1;
}

static bool write_a_huge_file(void)
{
	const int fd = openat(store, "huge", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	const bool r = ftruncate(fd, (off_t)1 << 30) == 0;

	(void)unlinkat(store, "huge", 0);
	return made(fd) && r;
}

/* --- what it must be able to do --- */

static bool write_the_store(void)
{
	const int fd = openat(store, "file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	const bool r = write(fd, "x", 1) == 1 && fchmod(fd, 0644) == 0;

	return made(fd) && r;
}

static bool make_a_tree(void)
{
	return mkdirat(store, "d", 0700) == 0 && symlinkat("file", store, "l") == 0 &&
		linkat(store, "file", store, "d/linked", 0) == 0 &&
		renameat2(store, "d/linked", store, "moved", RENAME_NOREPLACE) == 0;
}

static bool remove_a_tree(void)
{
	return unlinkat(store, "moved", 0) == 0 && unlinkat(store, "l", 0) == 0 &&
		unlinkat(store, "d", AT_REMOVEDIR) == 0;
}

static bool give_an_owner(void)
{
	return geteuid() != 0 || fchownat(store, "file", 12345, 54321, 0) == 0;
}

static bool write_what_is_not_its_own(void)
{
	return geteuid() != 0 || made(openat(store, "file", O_WRONLY | O_CLOEXEC));
}

static bool read_the_source(void)
{
	return made(openat(source, "file", O_RDONLY | O_CLOEXEC)) &&
		made(openat(source, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

enum wall { WALL_ALL, WALL_FILES, WALL_CALLS, WALL_NONE };

static const struct probe {
	const char *name;
	bool (*can)(void);
	enum wall wall; /* which refuses it; NONE: it stays possible */
} probes[] = {
#define PROBE(name, wall) { #name, name, WALL_##wall }
	PROBE(write_the_store, NONE),
	PROBE(make_a_tree, NONE),
	PROBE(remove_a_tree, NONE),
	PROBE(give_an_owner, NONE),
	PROBE(write_what_is_not_its_own, NONE),
	PROBE(read_the_source, NONE),
	PROBE(read_outside, FILES),
	PROBE(read_the_host, FILES),
	PROBE(list_outside, FILES),
	PROBE(write_outside, FILES),
	PROBE(make_outside, FILES),
	PROBE(remove_outside, FILES),
	PROBE(link_in_from_outside, FILES),
	PROBE(write_the_source, FILES),
	PROBE(make_in_the_source, FILES),
	PROBE(make_a_fifo, FILES),
	PROBE(reach_the_network, CALLS),
	PROBE(reach_local_sockets, CALLS),
	PROBE(start_a_process, CALLS),
	PROBE(run_a_program, CALLS),
	PROBE(signal_its_parent, CALLS),
	PROBE(signal_by_a_pipe, CALLS),
	PROBE(make_code, CALLS),
	PROBE(use_ioctl, CALLS),
	PROBE(leave_its_namespace, CALLS),
	PROBE(use_an_open_file, ALL),
	PROBE(write_a_huge_file, ALL),
	PROBE(be_traced, CALLS),
};

enum { PROBES = sizeof probes / sizeof *probes };

static void fill(void)
{
	const char *const files[] = { "outside/file", "outside/goes", "source/file" };
	char path[64];
	int fd;

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		fd = open(FMT(path, "%s/%s", dir, files[i]), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, "x", 1), 1);
		assert_int_equal(close(fd), 0);
	}
}

static int open_at(const char *name)
{
	char path[64];

	(void)mkdir(FMT(path, "%s/%s", dir, name), 0700);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir) || pipe2(pipes, O_CLOEXEC) < 0)
		return -1;
	store = open_at("store");
	source = open_at("source");
	outside = open_at("outside");
	fill();
	secret = openat(outside, "file", O_RDONLY | O_CLOEXEC);
	return secret >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	return remove_at(AT_FDCWD, dir, &e);
}

static int probe_all(void *arg, struct buf *reply, struct err *e)
{
	(void)arg;
	(void)e;
	for (size_t i = 0; i < PROBES; i++)
		(void)buf_add(reply, probes[i].can() ? "y" : "n", 1);
	return 0;
}

/* In a process of its own too. */
static void probe_without_walls(struct buf *ret)
{
	char text[PROBES];
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)probe_all(NULL, ret, NULL);
		_exit(write(fds[1], ret->data, ret->len) != (ssize_t)ret->len);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(read(fds[0], text, sizeof text), PROBES);
	assert_true(buf_add(ret, text, PROBES));
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
}

static struct guard walls(void)
{
	return (struct guard){ .write = store,
		.read = source,
		.keep = { store, source, outside, pipes[0] },
		.n_keep = 4,
		.max_file = 1 << 20 };
}

static bool is_up(enum wall w)
{
#ifdef BAILEY_SANITIZED
	if (w == WALL_CALLS)
		return false;
#endif
	return w == WALL_FILES ? confine_version() >= 2 : w != WALL_NONE;
}

static void walls_refuse_what_was_possible(void **state)
{
	_cleanup_buf_ struct buf before = BUF_INIT, behind = BUF_INIT;
	const struct guard g = walls();
	_cleanup_err_ struct err e = ERR_INIT;
	struct worker w;

	(void)state;
	probe_without_walls(&before);
	fill();
	assert_int_equal(worker_start(&w, &g, probe_all, NULL, &e), 0);
	assert_int_equal(worker_finish(&w, &behind, &e), 0);
	assert_int_equal(behind.len, PROBES);
	for (size_t i = 0; i < PROBES; i++) {
		const struct probe *p = &probes[i];

		if (before.data[i] != 'y')
			fail_msg("the control can't %s", p->name);
		if (p->wall == WALL_NONE && behind.data[i] != 'y')
			fail_msg("it can't %s any more", p->name);
		if (is_up(p->wall) && behind.data[i] != 'n')
			fail_msg("it can %s", p->name);
	}
}

/* --- answers --- */

static int say_no(void *arg, struct buf *reply, struct err *e)
{
	(void)arg;
	buf_puts(reply, "forgotten");
	(void)err_set(e, R_DIGEST_MISMATCH, 0, "a message");
	return err_remedy(e, "A remedy.");
}

static int die(void *arg, struct buf *reply, struct err *e)
{
	(void)arg;
	(void)reply;
	(void)e;
	__builtin_trap();
}

static int say_too_much(void *arg, struct buf *reply, struct err *e)
{
	(void)arg;
	(void)e;
	while (buf_puts(reply, "a long line that is said over and over again"))
		;
	return 0;
}

static int wait_for_ever(void *arg, struct buf *reply, struct err *e)
{
	char c;

	(void)arg;
	(void)reply;
	(void)e;
	return (int)read(pipes[0], &c, 1);
}

static void run(worker_fn *fn, struct err *e)
{
	const struct guard g = walls();
	_cleanup_buf_ struct buf reply = BUF_INIT;
	struct worker w = WORKER_NONE;

	assert_int_equal(worker_start(&w, &g, fn, NULL, e), 0);
	assert_int_equal(worker_finish(&w, &reply, e), -1);
	assert_int_equal(w.pid, 0);
}

static void answers_and_deaths_are_told_apart(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	const sighandler_t cmockas = signal(SIGILL, SIG_DFL);

	(void)state;
	run(say_no, &e);
	assert_int_equal(e.reason, R_DIGEST_MISMATCH);
	assert_string_equal(e.message, "a message");
	assert_string_equal(err_get_remedy(&e), "A remedy.");
	err_done(&e);
	run(die, &e);
	assert_int_equal(e.reason, R_IO_FAILED);
#ifndef BAILEY_SANITIZED
	assert_non_null(strstr(e.message, "signal 4"));
#endif
	(void)signal(SIGILL, cmockas);
	err_done(&e);
	run(say_too_much, &e);
	assert_int_equal(e.reason, R_IO_FAILED);
}

static void one_that_is_not_wanted_is_ended(void **state)
{
	const struct guard g = walls();
	_cleanup_err_ struct err e = ERR_INIT;
	struct worker w = WORKER_NONE;

	(void)state;
	assert_int_equal(worker_start(&w, &g, wait_for_ever, NULL, &e), 0);
	(void)err_set(&e, R_BUSY, 0, "something else went wrong");
	assert_int_equal(worker_finish(&w, NULL, &e), -1);
	assert_int_equal(e.reason, R_BUSY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walls_refuse_what_was_possible),
		cmocka_unit_test(answers_and_deaths_are_told_apart),
		cmocka_unit_test(one_that_is_not_wanted_is_ended),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
