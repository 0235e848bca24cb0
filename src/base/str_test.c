/* Tests of the string helpers and of every number parser's edges. */
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

typedef int parser(const char *, uint64_t, uint64_t, const char *, uint64_t *, struct err *);

struct row {
	const char *text;
	enum reason reason; /* REASON_NONE: accepted */
	uint64_t value;
};

static void check_rows(parser *parse, uint64_t lo, uint64_t hi, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_err_ struct err e = ERR_INIT;
		uint64_t v = 4711;
		int r = parse(rows[i].text, lo, hi, "thing", &v, &e);

		if (e.reason != rows[i].reason)
			print_error("'%s': %s\n", rows[i].text, e.message ?: "accepted");
		assert_int_equal(e.reason, rows[i].reason);
		assert_int_equal(r, rows[i].reason ? -1 : 0);
		/* a refused value leaves the result alone */
		assert_true(v == (rows[i].reason ? 4711 : rows[i].value));
		if (r < 0)
			assert_non_null(strstr(e.message, "thing"));
	}
}

#define CHECK(parse, lo, hi, rows) check_rows(parse, lo, hi, rows, sizeof(rows) / sizeof *(rows))

static void test_u64(void **state)
{
	static const struct row rows[] = {
		{ "1", 0, 1 },
		{ "007", 0, 7 },
		{ "100", 0, 100 },
		{ "0", R_OUT_OF_RANGE, 0 },
		{ "101", R_OUT_OF_RANGE, 0 },
		{ "18446744073709551616", R_OUT_OF_RANGE, 0 },
		{ "99999999999999999999999999", R_OUT_OF_RANGE, 0 },
		{ "", R_BAD_VALUE, 0 },
		{ "-1", R_BAD_VALUE, 0 },
		{ "+1", R_BAD_VALUE, 0 },
		{ " 1", R_BAD_VALUE, 0 },
		{ "1 ", R_BAD_VALUE, 0 },
		{ "0x10", R_BAD_VALUE, 0 },
		{ "1e1", R_BAD_VALUE, 0 },
		{ "1\n", R_BAD_VALUE, 0 },
	};
	static const struct row widest[] = {
		{ "0", 0, 0 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", R_OUT_OF_RANGE, 0 },
	};

	(void)state;
	CHECK(parse_u64, 1, 100, rows);
	CHECK(parse_u64, 0, UINT64_MAX, widest);
}

static void test_size(void **state)
{
	static const struct row rows[] = {
		{ "65536", 0, 65536 },
		{ "1k", 0, 1024 },
		{ "1K", 0, 1024 },
		{ "64m", 0, 64u << 20 },
		{ "64M", 0, 64u << 20 },
		{ "512MiB", 0, 512u << 20 },
		{ "512mib", 0, 512u << 20 },
		{ "2gb", 0, 2ull << 30 },
		{ "2g", 0, 2ull << 30 },
		{ "1t", 0, 1ull << 40 },
		{ "2t", R_OUT_OF_RANGE, 0 },
		{ "17179869184g", R_OUT_OF_RANGE, 0 },
		{ "18446744073709551615t", R_OUT_OF_RANGE, 0 },
		{ "0", R_OUT_OF_RANGE, 0 },
		{ "", R_BAD_VALUE, 0 },
		{ "m", R_BAD_VALUE, 0 },
		{ "1.5g", R_BAD_VALUE, 0 },
		{ "-1m", R_BAD_VALUE, 0 },
		{ "1 m", R_BAD_VALUE, 0 },
		{ "1mm", R_BAD_VALUE, 0 },
		{ "1mi", R_BAD_VALUE, 0 },
		{ "1p", R_BAD_VALUE, 0 },
		{ "1b", R_BAD_VALUE, 0 },
		/* the case of a unit is folded by setting a bit: other bytes must not become units */
		{ "1\x0b", R_BAD_VALUE, 0 },
		{ "1\xeb", R_BAD_VALUE, 0 },
		{ "1m\n", R_BAD_VALUE, 0 },
	};

	(void)state;
	CHECK(parse_size, 1024, 1ull << 40, rows);
}

static void test_size_range_is_readable(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t v;

	(void)state;
	assert_int_equal(parse_size("1", 64 << 10, 1ull << 40, "--tmp-size", &v, &e), -1);
	assert_string_equal(e.message, "read --tmp-size '1': outside the range 64k to 1t");
}

static void test_duration(void **state)
{
	static const struct row rows[] = {
		{ "500ms", 0, 500 },
		{ "1", 0, 1000 },
		{ "30s", 0, 30000 },
		{ "10m", 0, 600000 },
		{ "2h", 0, 7200000 },
		{ "1d", 0, 86400000 },
		{ "499ms", R_OUT_OF_RANGE, 0 },
		{ "2d", R_OUT_OF_RANGE, 0 },
		{ "0", R_OUT_OF_RANGE, 0 },
		{ "300000000000000000d", R_OUT_OF_RANGE, 0 },
		{ "", R_BAD_VALUE, 0 },
		{ "s", R_BAD_VALUE, 0 },
		{ "1.5h", R_BAD_VALUE, 0 },
		{ "1h30m", R_BAD_VALUE, 0 },
		{ "1w", R_BAD_VALUE, 0 },
		{ "10S", R_BAD_VALUE, 0 },
	};

	(void)state;
	CHECK(parse_duration, 500, 86400000, rows);
}

static void test_cpus(void **state)
{
	static const struct row rows[] = {
		{ "1", 0, 1000 },
		{ "0.5", 0, 500 },
		{ "2.25", 0, 2250 },
		{ "0.01", 0, 10 },
		{ "1024", 0, 1024000 },
		{ "1.125", 0, 1125 },
		{ "0.009", R_OUT_OF_RANGE, 0 },
		{ "0", R_OUT_OF_RANGE, 0 },
		{ "1024.001", R_OUT_OF_RANGE, 0 },
		{ "18446744073709552", R_OUT_OF_RANGE, 0 },
		{ "", R_BAD_VALUE, 0 },
		{ ".5", R_BAD_VALUE, 0 },
		{ "1,5", R_BAD_VALUE, 0 },
		{ "1.2345", R_BAD_VALUE, 0 },
		{ "-1", R_BAD_VALUE, 0 },
		{ "1e3", R_BAD_VALUE, 0 },
	};

	(void)state;
	CHECK(parse_cpus, 10, 1024000, rows);
}

/* A hostile value must not fill the terminal: only its start is repeated. */
static void test_long_values_are_cut_in_messages(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char text[4096];
	uint64_t v;

	(void)state;
	memset(text, 'a', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	assert_int_equal(parse_u64(text, 0, 1, "thing", &v, &e), -1);
	assert_true(strlen(e.message) < 200);
}

static void test_str_after(void **state)
{
	(void)state;
	assert_string_equal(str_after("abc", "ab"), "c");
	assert_string_equal(str_after("abc", "abc"), "");
	assert_string_equal(str_after("abc", ""), "abc");
	assert_null(str_after("ab", "abc"));
	assert_null(str_after("xab", "ab"));
}

static void test_has_control(void **state)
{
	(void)state;
	assert_false(str_has_control(""));
	assert_false(str_has_control("a b~\xc3\xa9"));
	assert_true(str_has_control("a\n"));
	assert_true(str_has_control("\x1b[0m"));
	assert_true(str_has_control("a\x7f"));
}

static void test_distance(void **state)
{
	char longest[63], longer[64];

	(void)state;
	memset(longest, 'a', sizeof longest - 1);
	longest[62] = '\0';
	memset(longer, 'a', sizeof longer - 1);
	longer[63] = '\0';
	assert_int_equal(str_distance("", ""), 0);
	assert_int_equal(str_distance("abc", ""), 3);
	assert_int_equal(str_distance("", "abc"), 3);
	assert_int_equal(str_distance("memory", "memory"), 0);
	assert_int_equal(str_distance("memroy", "memory"), 1);
	assert_int_equal(str_distance("memry", "memory"), 1);
	assert_int_equal(str_distance("kitten", "sitting"), 3);
	assert_int_equal(str_distance(longest, longest), 0);
	assert_int_equal(str_distance(longest, ""), 62);
	assert_int_equal(str_distance(longer, longer), 64);
}

static void test_format(void **state)
{
	_cleanup_free_ char *made = xasprintf("%d-%s", 7, "x");
	_cleanup_free_ char *copy = xstrdup(made);
	_cleanup_free_ unsigned char *zero = xcalloc(4, 8);
	char exact[4];

	(void)state;
	assert_string_equal(FMT(exact, "%d", 123), "123");
	assert_string_equal(copy, "7-x");
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(zero[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_size_range_is_readable),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_long_values_are_cut_in_messages),
		cmocka_unit_test(test_str_after),
		cmocka_unit_test(test_has_control),
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
