/* Tests of the JSON writer and of the UTF-8 check. */
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_nesting_and_commas(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &b);
	json_object_begin(&j, NULL);
	json_string(&j, "a", "x");
	json_array_begin(&j, "b");
	json_int(&j, NULL, -1);
	json_uint(&j, NULL, UINT64_MAX);
	json_object_begin(&j, NULL);
	json_object_end(&j);
	json_array_end(&j);
	json_bool(&j, "c", true);
	json_bool(&j, "d", false);
	json_null(&j, "e");
	json_string(&j, "f", NULL);
	json_object_end(&j);
	assert_false(b.failed);
	assert_string_equal(b.data,
		"{\"a\":\"x\",\"b\":[-1,18446744073709551615,{}],\"c\":true,\"d\":false,\"e\":null,\"f\":null}");
}

static void test_a_failure_as_an_object(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	(void)err_set(&e, R_DISK_FULL, 0, "write '%s'", "a\"b");
	(void)err_remedy(&e, "Free some.");
	json_add_err(&b, &e);
	assert_string_equal(b.data,
		"{\"error\":{\"reason\":\"disk_full\",\"message\":\"write 'a\\\"b'\",\"remedy\":"
		"\"Free some.\",\"retry\":\"later\"}}\n");
}

static void test_int_extremes(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &b);
	json_array_begin(&j, NULL);
	json_int(&j, NULL, INT64_MIN);
	json_int(&j, NULL, INT64_MAX);
	json_array_end(&j);
	assert_string_equal(b.data, "[-9223372036854775808,9223372036854775807]");
}

static void assert_escaped(const char *in, size_t n, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	json_init(&j, &b);
	json_bytes(&j, NULL, in, n);
	assert_string_equal(b.data, want);
}

static void test_escapes(void **state)
{
	(void)state;
	assert_escaped("", 0, "\"\"");
	assert_escaped("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
	assert_escaped("\n\t\r\x1b\x7f", 5, "\"\\n\\u0009\\u000d\\u001b\\u007f\"");
	assert_escaped("\0", 1, "\"\\u0000\"");
	assert_escaped("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void test_bad_bytes_become_replacement(void **state)
{
	(void)state;
	assert_escaped("\xff", 1, "\"\\ufffd\"");
	assert_escaped("a\xc3", 2, "\"a\\ufffd\"");
	assert_escaped("\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\"");
	/* a cut sequence must not swallow the quote that follows it */
	assert_escaped("\xe2\x82\"", 3, "\"\\ufffd\\ufffd\\\"\"");
}

static void test_keys_are_escaped(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &b);
	json_object_begin(&j, NULL);
	json_bool(&j, "a\"\n", true);
	json_object_end(&j);
	assert_string_equal(b.data, "{\"a\\\"\\n\":true}");
}

static void test_too_deep_fails_and_does_not_overrun(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &b);
	for (unsigned i = 0; i < JSON_MAX_DEPTH - 1; i++)
		json_array_begin(&j, NULL);
	assert_false(b.failed);
	for (unsigned i = 0; i < 3; i++)
		json_array_begin(&j, NULL);
	assert_true(b.failed);
	assert_int_equal(j.depth, JSON_MAX_DEPTH - 1);
	for (unsigned i = 0; i < 2 * JSON_MAX_DEPTH; i++)
		json_array_end(&j);
	assert_int_equal(j.depth, 0);
}

static void test_full_buffer_is_noticed(void **state)
{
	_cleanup_buf_ struct buf b = { .max = 10 };
	struct json j;

	(void)state;
	json_init(&j, &b);
	json_object_begin(&j, NULL);
	json_string(&j, "key", "0123456789");
	json_object_end(&j);
	assert_true(b.failed);
	assert_true(b.len <= 10);
}

static void test_utf8_table(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		bool valid;
	} rows[] = {
		{ "", 0, true },
		{ "\0a\x7f", 3, true },
		{ "\x80", 1, false },
		{ "\xc0\x80", 2, false },
		{ "\xc1\xbf", 2, false },
		{ "\xc2\x80", 2, true },
		{ "\xdf\xbf", 2, true },
		{ "\xdf", 1, false },
		{ "\xe0\x9f\xbf", 3, false },
		{ "\xe0\xa0\x80", 3, true },
		{ "\xed\x9f\xbf", 3, true },
		{ "\xed\xa0\x80", 3, false },
		{ "\xee\x80\x80", 3, true },
		{ "\xef\xbf\xbf", 3, true },
		{ "\xe1\x80", 2, false },
		{ "\xe1\x80\xc0", 3, false },
		{ "\xf0\x8f\xbf\xbf", 4, false },
		{ "\xf0\x90\x80\x80", 4, true },
		{ "\xf4\x8f\xbf\xbf", 4, true },
		{ "\xf4\x90\x80\x80", 4, false },
		{ "\xf5\x80\x80\x80", 4, false },
		{ "\xff", 1, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(utf8_valid(rows[i].bytes, rows[i].n), rows[i].valid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting_and_commas),
		cmocka_unit_test(test_a_failure_as_an_object),
		cmocka_unit_test(test_int_extremes),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_bad_bytes_become_replacement),
		cmocka_unit_test(test_keys_are_escaped),
		cmocka_unit_test(test_too_deep_fails_and_does_not_overrun),
		cmocka_unit_test(test_full_buffer_is_noticed),
		cmocka_unit_test(test_utf8_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
