/* What the sweep takes for dead: neither an owner that is seen nor one that only listens, but all others. */
#include "engine/rundir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/proc_for_test.h"
#include "base/str.h"

#define ID "b00000000000000a1"

static void write_meta(int dir, pid_t pid, uint64_t start, const char *more)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_err_ struct err e = ERR_INIT;

	buf_printf(&text, "id " ID "\nname box\nowner_pid %d\nowner_start %llu\n%s", pid,
		(unsigned long long)start, more);
	assert_int_equal(rundir_write(dir, "meta", &text, &e), 0);
}

static bool is_lost(int dir)
{
	char text[4096];

	assert_true(read_file_at(dir, "meta", text, sizeof text) > 0);
	return strstr(text, "\nstate lost\n") != NULL;
}

static unsigned sweep(const struct rundirs *d)
{
	_cleanup_err_ struct err e = ERR_INIT;
	unsigned n = 0;

	assert_int_equal(rundirs_sweep(d, &n, &e), 0);
	return n;
}

static void who_is_dead(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char home[] = "/tmp/bailey-rundir-XXXXXX", path[64];
	struct rundirs d = RUNDIRS_INIT;
	int dir = -1, listener = -1;

	(void)state;
	assert_non_null(mkdtemp(home));
	assert_int_equal(setenv("BAILEY_HOME", home, 1), 0);
	assert_int_equal(rundirs_open(&d, &e), 0);
	assert_int_equal(rundir_make(&d, ID, "box", &e), 0);
	assert_int_equal(rundir_open(&d, ID, &dir, &e), 0);

	write_meta(dir, getpid(), process_start(getpid()), "state running\n");
	assert_int_equal(sweep(&d), 0);
	assert_false(is_lost(dir));

	/* as seen from another pid namespace */
	write_meta(dir, dead_pid(), 1, "state running\n");
	assert_int_equal(rundir_listen(dir, &listener, &e), 0);
	assert_int_equal(sweep(&d), 0);
	assert_false(is_lost(dir));
	write_meta(dir, dead_pid(), 1, "state lost\nstopped_ms 1\n");
	assert_int_equal(sweep(&d), 0);

	listener = close_fd(listener);
	write_meta(dir, dead_pid(), 1, "state running\n");
	assert_int_equal(sweep(&d), 0);
	assert_true(is_lost(dir));
	write_meta(dir, dead_pid(), 1, "state lost\nstopped_ms 1\n");
	assert_int_equal(sweep(&d), 1);
	assert_int_equal(access(FMT(path, "%s/sandbox/names/box", home), F_OK), -1);

	dir = close_fd(dir);
	rundirs_done(&d);
	assert_int_equal(rmdir(FMT(path, "%s/sandbox/names", home)), 0);
	assert_int_equal(rmdir(FMT(path, "%s/sandbox/runs", home)), 0);
	assert_int_equal(rmdir(FMT(path, "%s/sandbox", home)), 0);
	assert_int_equal(rmdir(home), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(who_is_dead) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
