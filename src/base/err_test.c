/* Tests of the error object and of what must hold for every row of the reason table. */
#include "base/err.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_set_without_errno(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&e, R_USAGE, 0, "read flag '%s'", "x"), -1);
	assert_int_equal(e.reason, R_USAGE);
	assert_int_equal(e.sys_errno, 0);
	assert_string_equal(e.message, "read flag 'x'");
}

static void test_set_with_errno_says_it(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	err_set(&e, R_SETUP_FAILED, ENOENT, "open 'x'");
	assert_int_equal(e.sys_errno, ENOENT);
	assert_string_equal(e.message, "open 'x': No such file or directory");
}

static void test_set_with_a_strange_errno(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	err_set(&e, R_SETUP_FAILED, 99999, "open 'x'");
	assert_string_equal(e.message, "open 'x': unknown error");
}

static void test_second_set_replaces(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	err_set(&e, R_USAGE, 0, "first");
	err_remedy(&e, "Do this.");
	err_set(&e, R_TIMEOUT, 0, "second");
	assert_int_equal(e.reason, R_TIMEOUT);
	assert_string_equal(e.message, "second");
	assert_string_equal(err_get_remedy(&e), "Raise --timeout, or give the command less to do.");
}

static void test_wrap_keeps_the_reason(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	err_set(&e, R_OOM, 0, "inner");
	assert_int_equal(err_wrap(&e, "middle %d", 2), -1);
	err_wrap(&e, "outer");
	assert_int_equal(e.reason, R_OOM);
	assert_string_equal(e.message, "outer: middle 2: inner");
}

static void test_wrap_without_a_message_names_the_reason(void **state)
{
	_cleanup_err_ struct err e = { .reason = R_OOM };

	(void)state;
	err_wrap(&e, "outer");
	assert_string_equal(e.message, "outer: oom");
}

static void test_own_remedy_wins(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	err_set(&e, R_USAGE, 0, "x");
	assert_int_equal(err_remedy(&e, "Use '%s'.", "--y"), -1);
	err_remedy(&e, "Use '%s'.", "--z");
	assert_string_equal(err_get_remedy(&e), "Use '--z'.");
}

static void test_move_leaves_the_source_empty(void **state)
{
	_cleanup_err_ struct err a = ERR_INIT, b = ERR_INIT;

	(void)state;
	err_set(&a, R_USAGE, 0, "old");
	err_set(&b, R_SIGNAL, EINTR, "new");
	assert_int_equal(err_move(&a, &b), -1);
	assert_int_equal(a.reason, R_SIGNAL);
	assert_string_equal(a.message, "new: Interrupted system call");
	assert_int_equal(b.reason, REASON_NONE);
	assert_null(b.message);
}

static void test_every_name_is_unique_and_found(void **state)
{
	(void)state;
	for (unsigned r = REASON_NONE + 1; r < REASON_MAX; r++) {
		const char *name = reason_name((enum reason)r);

		assert_int_equal(reason_by_name(name), r);
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
	}
	assert_int_equal(reason_by_name("none"), REASON_NONE);
	assert_int_equal(reason_by_name(""), REASON_NONE);
	assert_int_equal(reason_by_name("no_such_reason"), REASON_NONE);
}

static void test_every_row_is_plausible(void **state)
{
	(void)state;
	for (unsigned i = REASON_NONE + 1; i < REASON_MAX; i++) {
		enum reason r = (enum reason)i;
		struct err e = { .reason = r };
		const char *remedy = err_get_remedy(&e);

		assert_in_range(reason_http(r), 400, 599);
		/* 1 would look like the command's own failure, 125 is kept for run */
		assert_in_range(reason_exit(r), 2, 127);
		assert_int_not_equal(reason_exit(r), 125);
		assert_true(reason_retry(r) == RETRY_NEVER || reason_retry(r) == RETRY_LATER);
		assert_true(isupper((unsigned char)remedy[0]));
		assert_int_equal(remedy[strlen(remedy) - 1], '.');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_without_errno),
		cmocka_unit_test(test_set_with_errno_says_it),
		cmocka_unit_test(test_set_with_a_strange_errno),
		cmocka_unit_test(test_second_set_replaces),
		cmocka_unit_test(test_wrap_keeps_the_reason),
		cmocka_unit_test(test_wrap_without_a_message_names_the_reason),
		cmocka_unit_test(test_own_remedy_wins),
		cmocka_unit_test(test_move_leaves_the_source_empty),
		cmocka_unit_test(test_every_name_is_unique_and_found),
		cmocka_unit_test(test_every_row_is_plausible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
