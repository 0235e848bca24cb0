/* Tests of whole-descriptor I/O, directory creation and the cleanup helpers. */
#include "base/fd.h"

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

static char dir[] = "/tmp/fd_test.XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[256];

	(void)state;
	(void)unlink(FMT(path, "%s/file", dir));
	(void)unlink(FMT(path, "%s/link", dir));
	(void)rmdir(FMT(path, "%s/a/b/c", dir));
	(void)rmdir(FMT(path, "%s/a/b", dir));
	(void)rmdir(FMT(path, "%s/a", dir));
	return rmdir(dir);
}

static void test_pipe_round_trip(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(write_all(p[1], "hello\0there", 11), 0);
	p[1] = close_fd(p[1]);
	assert_int_equal(read_all(p[0], &b), 0);
	assert_int_equal(b.len, 11);
	assert_memory_equal(b.data, "hello\0there", 12);
	p[0] = close_fd(p[0]);
}

/* A non-blocking socket takes a large write in parts, then EAGAIN: an error, never a silent cut. */
static void test_write_all_reports_eagain(void **state)
{
	_cleanup_free_ char *big = xcalloc(8, 1 << 20);
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(set_nonblocking(s[0], true), 0);
	errno = 0;
	assert_int_equal(write_all(s[0], big, 8 << 20), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(set_nonblocking(s[0], false), 0);
	assert_int_equal(fcntl(s[0], F_GETFL) & O_NONBLOCK, 0);
	s[0] = close_fd(s[0]);
	s[1] = close_fd(s[1]);
}

static void test_read_all_keeps_the_maximum(void **state)
{
	_cleanup_buf_ struct buf b = { .max = 20000 };
	_cleanup_close_ int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(read_all(fd, &b), -1);
	assert_int_equal(errno, EFBIG);
	assert_true(b.len <= 20000);
}

static void test_files(void **state)
{
	_cleanup_close_ int d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char text[8];

	(void)state;
	assert_int_equal(write_file_at(d, "file", "x"), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(close(openat(d, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	assert_int_equal(write_file_at(d, "file", "0123456789"), 0);
	assert_int_equal(read_file_at(d, "file", text, sizeof text), 7);
	assert_string_equal(text, "0123456");
	assert_int_equal(symlinkat("file", d, "link"), 0);
	assert_int_equal(write_file_at(d, "link", "x"), -1);
	assert_int_equal(errno, ELOOP);
	assert_int_equal(read_file_at(d, "missing", text, sizeof text), -1);
	assert_int_equal(errno, ENOENT);
}

static void test_make_dirs(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char path[256];
	struct stat st;

	(void)state;
	FMT(path, "%s/a/b/c", dir);
	assert_int_equal(make_dirs(path, &e), 0);
	assert_int_equal(make_dirs(path, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(e.reason, REASON_NONE);
}

static void test_make_dirs_through_a_file(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(make_dirs("/dev/null/x", &e), -1);
	assert_int_equal(e.reason, R_STATE_UNWRITABLE);
	assert_int_equal(e.sys_errno, ENOTDIR);
	assert_string_equal(e.message, "create directory '/dev/null/x': Not a directory");
}

static void test_ownership_moves(void **state)
{
	_cleanup_free_ char *a = xstrdup("x");
	_cleanup_free_ char *b = move_ptr(a);
	int fd = 42;

	(void)state;
	assert_null(a);
	assert_string_equal(b, "x");
	assert_int_equal(move_fd(&fd), 42);
	assert_int_equal(fd, -1);
	errno = EXDEV;
	assert_int_equal(close_fd(-1), -1);
	assert_int_equal(close_fd(1 << 20), -1);
	assert_int_equal(errno, EXDEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipe_round_trip),
		cmocka_unit_test(test_write_all_reports_eagain),
		cmocka_unit_test(test_read_all_keeps_the_maximum),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_make_dirs),
		cmocka_unit_test(test_make_dirs_through_a_file),
		cmocka_unit_test(test_ownership_moves),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
