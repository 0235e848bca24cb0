/* Tests of the launcher's protocol: what goes through, and everything malformed that does not. */
#include "launcher/launch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/str.h"

static int pair[2];

static int setup(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state)
{
	(void)state;
	pair[0] = close_fd(pair[0]);
	pair[1] = close_fd(pair[1]);
	return 0;
}

static void test_there(void **state)
{
	_cleanup_launch_out_ struct launch_out o = LAUNCH_OUT_INIT;
	_cleanup_launch_in_ struct launch_in m = { .n = 0 };
	struct stat a, b;

	(void)state;
	launch_put(&o, "create");
	launch_put(&o, "");
	launch_put(&o, "a long string\nwith a line");
	launch_put_fd(&o, pair[0]);
	assert_int_equal(launch_send(pair[0], LAUNCH_CREATE, &o), 0);
	assert_int_equal(launch_receive(pair[1], &m), 1);
	assert_int_equal(m.op, LAUNCH_CREATE);
	assert_int_equal(m.n, 3);
	assert_string_equal(m.v[0], "create");
	assert_string_equal(m.v[1], "");
	assert_string_equal(m.v[2], "a long string\nwith a line");
	assert_int_equal(m.n_fds, 1);
	assert_int_equal(fstat(pair[0], &a), 0);
	assert_int_equal(fstat(m.fds[0], &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(fcntl(m.fds[0], F_GETFD), FD_CLOEXEC);
}

static void test_none(void **state)
{
	struct launch_in m;

	(void)state;
	assert_int_equal(launch_receive(pair[1], &m), -1);
	assert_int_equal(errno, EAGAIN);
	pair[0] = close_fd(pair[0]);
	assert_int_equal(launch_receive(pair[1], &m), 0);
}

/* Each byte of a good message, changed, and the message cut at each length: never more than it holds, never a crash. */
static void test_malformed(void **state)
{
	_cleanup_launch_out_ struct launch_out o = LAUNCH_OUT_INIT;
	uint8_t good[256], bad[256];
	struct launch_in m;
	ssize_t n;

	(void)state;
	launch_put(&o, "agent");
	launch_put(&o, "tid");
	launch_put(&o, "x");
	assert_int_equal(launch_send(pair[0], LAUNCH_CREATE, &o), 0);
	n = recv(pair[1], good, sizeof good, 0);
	assert_true(n > 16);
	for (ssize_t cut = 1; cut < n; cut++) {
		assert_int_equal(send(pair[0], good, (size_t)cut, 0), cut);
		assert_int_equal(launch_receive(pair[1], &m), -1);
		assert_int_equal(errno, EPROTO);
	}
	for (ssize_t at = 0; at < n; at++) {
		memcpy(bad, good, (size_t)n);
		bad[at] ^= 0x81;
		assert_int_equal(send(pair[0], bad, (size_t)n, 0), n);
		if (launch_receive(pair[1], &m) == 1) {
			assert_in_range(m.n, 0, 3);
			launch_in_done(&m);
		} else {
			assert_int_equal(errno, EPROTO);
		}
	}
	memcpy(bad, good, (size_t)n);
	memset(bad + n, 0, 4); /* bytes behind the last string */
	assert_int_equal(send(pair[0], bad, (size_t)n + 4, 0), n + 4);
	assert_int_equal(launch_receive(pair[1], &m), -1);
	memcpy(bad, good, (size_t)n);
	bad[n - 1] = 0; /* a NUL inside a string */
	assert_int_equal(send(pair[0], bad, (size_t)n, 0), n);
	assert_int_equal(launch_receive(pair[1], &m), -1);
}

static void test_bounds(void **state)
{
	_cleanup_launch_out_ struct launch_out o = LAUNCH_OUT_INIT, p = LAUNCH_OUT_INIT;
	_cleanup_free_ char *large = xcalloc(1, LAUNCH_MAX + 1);

	(void)state;
	for (unsigned i = 0; i <= LAUNCH_MAX_STRINGS; i++)
		launch_put(&o, "");
	assert_int_equal(launch_send(pair[0], LAUNCH_CREATE, &o), -1);
	assert_int_equal(errno, E2BIG);
	memset(large, 'x', LAUNCH_MAX);
	launch_put(&p, large);
	assert_int_equal(launch_send(pair[0], LAUNCH_CREATE, &p), -1);
	assert_int_equal(errno, E2BIG);
}

static void test_path(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char *path;
	int sock;

	(void)state;
	assert_int_equal(setenv("BAILEY_LAUNCHER", "none", 1), 0);
	assert_int_equal(launch_path(&path, &e), 0);
	assert_null(path);
	assert_int_equal(setenv("BAILEY_LAUNCHER", "relative", 1), 0);
	assert_int_equal(launch_path(&path, &e), -1);
	assert_int_equal(e.reason, R_BAD_VALUE);
	err_done(&e);
	assert_int_equal(setenv("BAILEY_LAUNCHER", "/nowhere/l.sock", 1), 0);
	assert_int_equal(launch_path(&path, &e), 0);
	assert_string_equal(path, "/nowhere/l.sock");
	assert_int_equal(launch_connect(path, &sock, &e), -1);
	assert_int_equal(e.reason, R_LAUNCHER_UNREACHABLE);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_path, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
