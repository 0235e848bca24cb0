/* Tests of where Bailey's home and its helper programs are looked for. */
#include "base/home.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/str.h"

static int clear(void **state)
{
	(void)state;
	unsetenv("BAILEY_HOME");
	unsetenv("XDG_DATA_HOME");
	unsetenv("BAILEY_LIBEXEC");
	return 0;
}

static void assert_home(const char *want)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char *home = NULL;

	assert_int_equal(home_path(&home, &e), 0);
	assert_string_equal(home, want);
}

static void test_variable_wins(void **state)
{
	(void)state;
	setenv("XDG_DATA_HOME", "/data", 1);
	setenv("BAILEY_HOME", "/some/where", 1);
	assert_home("/some/where");
}

static void test_bad_variable_is_refused(void **state)
{
	static const char *const bad[] = { "relative", "./x", "/a\nb", "/a\x1b[2J" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		_cleanup_err_ struct err e = ERR_INIT;
		_cleanup_free_ char *home = NULL;

		setenv("BAILEY_HOME", bad[i], 1);
		assert_int_equal(home_path(&home, &e), -1);
		assert_int_equal(e.reason, R_BAD_VALUE);
		assert_null(home);
	}
}

static void test_without_variables(void **state)
{
	(void)state;
	setenv("HOME", "/home/someone", 1);
	setenv("BAILEY_HOME", "", 1);
	assert_home(geteuid() ? "/home/someone/.local/share/bailey" : "/var/lib/bailey");
}

static void test_xdg_for_a_user(void **state)
{
	(void)state;
	setenv("HOME", "/home/someone", 1);
	setenv("XDG_DATA_HOME", "/data", 1);
	assert_home(geteuid() ? "/data/bailey" : "/var/lib/bailey");
	/* the XDG rule: a relative value is ignored */
	setenv("XDG_DATA_HOME", "data", 1);
	assert_home(geteuid() ? "/home/someone/.local/share/bailey" : "/var/lib/bailey");
}

static void test_subdir_is_made_private(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char *path = NULL;
	char root[] = "/tmp/home_test.XXXXXX", home[64];
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(root));
	setenv("BAILEY_HOME", FMT(home, "%s/h", root), 1);
	assert_int_equal(home_subdir("log", &path, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(home), 0);
	assert_int_equal(rmdir(root), 0);
}

static void test_hash_tells_homes_apart(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char a[9], b[9], again[9];

	(void)state;
	setenv("BAILEY_HOME", "/a", 1);
	assert_int_equal(home_hash(a, &e), 0);
	assert_int_equal(home_hash(again, &e), 0);
	setenv("BAILEY_HOME", "/b", 1);
	assert_int_equal(home_hash(b, &e), 0);
	assert_int_equal(strlen(a), 8);
	assert_string_equal(a, again);
	assert_string_not_equal(a, b);
}

static void test_libexec_by_variable(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char *path = NULL;

	(void)state;
	setenv("BAILEY_LIBEXEC", "/elsewhere", 1);
	assert_int_equal(libexec_path("bailey-guest", &path, &e), 0);
	assert_string_equal(path, "/elsewhere/bailey-guest");
}

/* Beside the running program's directory: PREFIX/bin/x looks in PREFIX/libexec/bailey. */
static void test_libexec_beside_the_program(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char *path = NULL;
	char self[PATH_MAX], want[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	(void)state;
	assert_true(n > 0);
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	*strrchr(self, '/') = '\0';
	assert_int_equal(libexec_path("bailey-guest", &path, &e), 0);
	assert_string_equal(path, FMT(want, "%s/libexec/bailey/bailey-guest", self));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_variable_wins, clear),
		cmocka_unit_test_setup(test_bad_variable_is_refused, clear),
		cmocka_unit_test_setup(test_without_variables, clear),
		cmocka_unit_test_setup(test_xdg_for_a_user, clear),
		cmocka_unit_test_setup(test_subdir_is_made_private, clear),
		cmocka_unit_test_setup(test_hash_tells_homes_apart, clear),
		cmocka_unit_test_setup(test_libexec_by_variable, clear),
		cmocka_unit_test_setup(test_libexec_beside_the_program, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
