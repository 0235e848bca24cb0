/* Tests that only a whole and well-formed answer of bailey-toml is believed. */
#include "config/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"

#define HEAD "bailey-toml 1\0"

struct seen {
	unsigned n, line;
	char key[64], value[64];
};

static int take(void *context, const struct config_item *item, struct err *e)
{
	struct seen *s = context;

	s->n++;
	s->line = item->line;
	FMT(s->key, "%.60s", item->key);
	FMT(s->value, "%.60s", item->value);
	return streq(item->key, "bad") ? err_set(e, R_CONFIG_INVALID, 0, "bad key") : 0;
}

static enum reason parse(const char *answer, size_t n, struct seen *seen, char message[static 256])
{
	_cleanup_err_ struct err e = ERR_INIT;
	/* a copy without room behind it, so that a sanitizer sees every read too far */
	_cleanup_free_ char *copy = malloc(n ? n : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, answer, n);
	memset(seen, 0, sizeof *seen);
	r = reader_parse(copy, n, "/x.toml", take, seen, &e);
	assert_int_equal(r, e.reason ? -1 : 0);
	str_format(message, 256, "%.250s", e.message ? e.message : "");
	return e.reason;
}

#define PARSE(literal) parse((literal), sizeof(literal) - 1, &seen, message)

static void test_whole_answers(void **state)
{
	struct seen seen;
	char message[256];

	(void)state;
	assert_int_equal(PARSE(HEAD ".\0"), REASON_NONE);
	assert_int_equal(seen.n, 0);
	assert_int_equal(PARSE(HEAD "k\0run.pids\0integer\0"
				    "12\0"
				    "64\0"
				    ".\0"),
		REASON_NONE);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.line, 12);
	assert_string_equal(seen.key, "run.pids");
	assert_string_equal(seen.value, "64");
	assert_int_equal(PARSE(HEAD "e\0"
				    "3\0"
				    "7\0no equals\0"),
		R_CONFIG_INVALID);
	assert_string_equal(message, "read config '/x.toml:3:7': no equals");
	assert_int_equal(PARSE(HEAD "k\0bad\0string\0"
				    "1\0\0"
				    ".\0"),
		R_CONFIG_INVALID);
	assert_string_equal(message, "bad key");
}

static void test_malformed(void **state)
{
	static const char whole[] = HEAD "k\0run.pids\0integer\0"
					 "12\0"
					 "64\0"
					 ".\0";
	struct seen seen;
	char message[256];

	(void)state;
	/* every part of it is refused, wherever it was cut off */
	for (size_t n = 0; n < sizeof whole - 1; n++)
		assert_int_equal(parse(whole, n, &seen, message), R_WIRE_MALFORMED);
	assert_int_equal(PARSE("bailey-toml 2\0.\0"), R_WIRE_MALFORMED);
	assert_int_equal(PARSE(HEAD ".\0x"), R_WIRE_MALFORMED);
	assert_int_equal(PARSE(HEAD "z\0"), R_WIRE_MALFORMED);
	assert_int_equal(PARSE(HEAD "k\0a\nb\0string\0"
				    "1\0v\0.\0"),
		R_WIRE_MALFORMED);
	assert_int_equal(PARSE(HEAD "k\0a\0string\0-1\0v\0.\0"), R_WIRE_MALFORMED);
	assert_int_equal(PARSE(HEAD "e\0"
				    "1\0"
				    "1\0\x1b[2J\0"),
		R_WIRE_MALFORMED);
}

static void test_too_many(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct seen seen;
	char message[256];

	(void)state;
	buf_add(&b, HEAD, sizeof HEAD - 1);
	for (unsigned i = 0; i <= READER_MAX_ITEMS; i++)
		buf_add(&b,
			"k\0a\0string\0"
			"1\0v",
			sizeof "k\0a\0string\0"
			       "1\0v");
	buf_add(&b, ".", 2);
	assert_int_equal(parse(b.data, b.len, &seen, message), R_CONFIG_INVALID);
	assert_non_null(strstr(message, "more than 10000 keys"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_answers),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
