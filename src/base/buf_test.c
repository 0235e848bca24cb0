/* Tests of the byte buffer: growth, the hard maximum, the sticky failure. */
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_empty_is_null(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	(void)state;
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	assert_true(buf_add(&b, NULL, 0));
	assert_string_equal(b.data, "");
}

static void test_grows_and_stays_terminated(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(buf_printf(&b, "%03u,", i));
		assert_int_equal(b.len, strlen(b.data));
	}
	assert_int_equal(b.len, 4000);
	assert_memory_equal(b.data + 3996, "999,", 5);
}

static void test_holds_nul_bytes(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	(void)state;
	assert_true(buf_add(&b, "a\0b", 3));
	assert_true(buf_puts(&b, "c"));
	assert_int_equal(b.len, 4);
	assert_memory_equal(b.data, "a\0bc", 5);
}

static void test_maximum_is_exact(void **state)
{
	_cleanup_buf_ struct buf b = { .max = 8 };

	(void)state;
	assert_true(buf_puts(&b, "12345678"));
	assert_false(b.failed);
	assert_false(buf_puts(&b, "9"));
	assert_true(b.failed);
	assert_string_equal(b.data, "12345678");
}

static void test_failure_sticks_until_cleared(void **state)
{
	_cleanup_buf_ struct buf b = { .max = 4 };

	(void)state;
	assert_false(buf_puts(&b, "12345"));
	assert_false(buf_puts(&b, "1"));
	assert_false(buf_add(&b, "", 0));
	buf_clear(&b);
	assert_true(buf_puts(&b, "1"));
	assert_string_equal(b.data, "1");
}

static void test_huge_requests_do_not_wrap(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	(void)state;
	assert_true(buf_puts(&b, "x"));
	assert_false(buf_reserve(&b, SIZE_MAX));
	buf_clear(&b);
	assert_false(buf_reserve(&b, SIZE_MAX - 1));
	buf_clear(&b);
	assert_false(buf_reserve(&b, (size_t)BUF_MAX_DEFAULT + 1));
}

static void test_done_leaves_a_fresh_buffer(void **state)
{
	struct buf b = { .max = 4 };

	(void)state;
	assert_true(buf_puts(&b, "1"));
	buf_done(&b);
	assert_null(b.data);
	assert_int_equal(b.cap, 0);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_is_null),
		cmocka_unit_test(test_grows_and_stays_terminated),
		cmocka_unit_test(test_holds_nul_bytes),
		cmocka_unit_test(test_maximum_is_exact),
		cmocka_unit_test(test_failure_sticks_until_cleared),
		cmocka_unit_test(test_huge_requests_do_not_wrap),
		cmocka_unit_test(test_done_leaves_a_fresh_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
