/* Names in archives: what is refused, and what a layer remembers. */
#include "image/import/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/str.h"

static void clean_names(void **state)
{
	static const struct {
		const char *raw, *clean;
	} cases[] = { { "a", "a" }, { "./a", "a" }, { ".", "" }, { "./", "" }, { "a/", "a" },
		{ "a//b/./c", "a/b/c" }, { "..a/b..", "..a/b.." }, { "a\nb", "a\nb" } };
	char name[NAME_MAX_PATH];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		_cleanup_err_ struct err e = ERR_INIT;

		assert_int_equal(name_clean(cases[i].raw, name, &e), 0);
		assert_string_equal(name, cases[i].clean);
	}
}

static void refused_names(void **state)
{
	static const char *const bad[] = { "", "/", "/a", "..", "a/..", "../a", "a/../b", "./.." };
	char name[NAME_MAX_PATH], deep[NAME_MAX_DEPTH * 2 + 8], part[NAME_MAX_PART + 2];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		_cleanup_err_ struct err e = ERR_INIT;

		assert_int_equal(name_clean(bad[i], name, &e), -1);
		assert_int_equal(e.reason, R_ARCHIVE_REFUSED);
	}
	for (size_t n = NAME_MAX_DEPTH; n <= NAME_MAX_DEPTH + 1; n++) {
		_cleanup_err_ struct err e = ERR_INIT;

		for (size_t i = 0; i < n; i++)
			memcpy(deep + 2 * i, "d/", 3);
		assert_int_equal(name_clean(deep, name, &e), n > NAME_MAX_DEPTH ? -1 : 0);
	}
	for (size_t n = NAME_MAX_PART; n <= NAME_MAX_PART + 1; n++) {
		_cleanup_err_ struct err e = ERR_INIT;

		memset(part, 'p', n);
		part[n] = '\0';
		assert_int_equal(name_clean(part, name, &e), n > NAME_MAX_PART ? -1 : 0);
	}
}

static void the_longest_name(void **state)
{
	char raw[NAME_MAX_PATH * 2], name[NAME_MAX_PATH];

	(void)state;
	for (size_t n = NAME_MAX_PATH - 4; n < NAME_MAX_PATH + 4; n++) {
		_cleanup_err_ struct err e = ERR_INIT;

		for (size_t i = 0; i < n; i++)
			raw[i] = i % 200 == 199 ? '/' : 'x';
		raw[n] = '\0';
		if (name_clean(raw, name, &e) == 0)
			assert_true(strlen(name) < NAME_MAX_PATH);
		else
			assert_true(n + 2 >= NAME_MAX_PATH);
	}
}

static void links_within_an_archive(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char name[NAME_MAX_PATH];

	(void)state;
	assert_int_equal(name_resolve("a/b", "../c/d", name, &e), 0);
	assert_string_equal(name, "c/d");
	assert_int_equal(name_resolve("a/b", "c", name, &e), 0);
	assert_string_equal(name, "a/c");
	assert_int_equal(name_resolve("a", "c", name, &e), 0);
	assert_string_equal(name, "c");
	assert_int_equal(name_resolve("a/b", "../../c", name, &e), -1);
	assert_int_equal(e.reason, R_ARCHIVE_REFUSED);
	err_done(&e);
	assert_int_equal(name_resolve("a/b", "/c", name, &e), -1);
}

static void a_set_has_what_was_added_and_all_above(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct seen s = { NULL, 0, 0 };
	char name[32];

	(void)state;
	assert_false(seen_has(&s, "a"));
	assert_int_equal(seen_add(&s, "a/b/c", &e), 0);
	assert_true(seen_has(&s, "a") && seen_has(&s, "a/b") && seen_has(&s, "a/b/c"));
	assert_false(seen_has(&s, "b") || seen_has(&s, "a/c") || seen_has(&s, ""));
	for (int i = 0; i < 20000; i++)
		assert_int_equal(seen_add(&s, FMT(name, "d%d/f", i), &e), 0);
	for (int i = 0; i < 20000; i++)
		assert_true(seen_has(&s, FMT(name, "d%d/f", i)));
	assert_false(seen_has(&s, "d20000"));
	assert_true(seen_has(&s, "a/b"));
	seen_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clean_names),
		cmocka_unit_test(refused_names),
		cmocka_unit_test(the_longest_name),
		cmocka_unit_test(links_within_an_archive),
		cmocka_unit_test(a_set_has_what_was_added_and_all_above),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
