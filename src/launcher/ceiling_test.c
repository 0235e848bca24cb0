/* Tests of the ceiling file: what is read, whom it is read from, what stays below. */
#include "launcher/ceiling.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"

static struct err e;

static int teardown(void **state)
{
	(void)state;
	err_done(&e);
	return 0;
}

static int parse(struct ceiling *c, const char *text)
{
	_cleanup_free_ char *copy = xstrdup(text);

	ceiling_init(c);
	return ceiling_parse(c, copy, "f", &e);
}

static void test_values(void **state)
{
	struct ceiling c;

	(void)state;
	assert_int_equal(parse(&c,
				 "# all\nmax-memory 512m # one\n\n\tmax-cpus\t0.5 \nmax-pids 64\n"
				 "max-lifetime 2h\nprofiles agent check\nengines native docker"),
		0);
	assert_int_equal(c.memory, 512u << 20);
	assert_int_equal(c.cpu_millis, 500);
	assert_int_equal(c.pids, 64);
	assert_int_equal(c.lifetime_ms, 7200000);
	assert_int_equal(c.profiles, 1u << SPEC_AGENT | 1u << SPEC_CHECK);
	assert_true(c.docker);
	assert_int_equal(c.sandboxes, 1000);
	assert_int_equal(parse(&c, ""), 0);
	assert_false(c.docker);
	assert_int_equal(c.memory, 16ull << 30);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *said;
	} cases[] = {
		{ "max-memory", "'f', line 1: key 'max-memory': it has no value" },
		{ "\nmax-memory lots", "line 2" },
		{ "max-memory 1k", "line 1" },
		{ "max-pids 5\nmax-pids 6", "line 2: key 'max-pids': it is given twice" },
		{ "max-pid 5", "key 'max-pid': there is none" },
		{ "profiles agent nothing", "profile 'nothing'" },
		{ "engines cloud", "engine 'cloud'" },
		{ "max-pids 5\x01", "line 1" },
	};
	struct ceiling c;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(parse(&c, cases[i].text), -1);
		assert_int_equal(e.reason, R_CONFIG_INVALID);
		if (!strstr(e.message, cases[i].said))
			fail_msg("'%s' not in '%s'", cases[i].said, e.message);
		err_done(&e);
	}
}

static void test_whose_file(void **state)
{
	char path[] = "/tmp/ceiling_test.XXXXXX", link_to[64];
	int fd = mkstemp(path);
	struct ceiling c;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, "max-pids 7\n", 11), 0);
	assert_int_equal(ceiling_read(&c, path, &e), 0);
	assert_int_equal(c.pids, 7);
	assert_int_equal(fchmod(fd, 0620), 0);
	assert_int_equal(ceiling_read(&c, path, &e), -1);
	assert_int_equal(e.reason, R_CONFIG_INVALID);
	err_done(&e);
	assert_int_equal(fchmod(fd, 0600), 0);
	FMT(link_to, "%s.l", path);
	assert_int_equal(symlink(path, link_to), 0);
	assert_int_equal(ceiling_read(&c, link_to, &e), -1);
	err_done(&e);
	(void)unlink(link_to);
	if (geteuid() == 0) {
		assert_int_equal(fchown(fd, 1, 1), 0);
		assert_int_equal(ceiling_read(&c, path, &e), -1);
		err_done(&e);
	}
	(void)unlink(path);
	(void)close_fd(fd);
	assert_int_equal(ceiling_read(&c, path, &e), -1);
}

static void test_check(void **state)
{
	struct pack_request r = { .command = NULL };
	struct ceiling c;

	(void)state;
	ceiling_init(&c);
	spec_init(&r.spec);
	r.spec.profile = SPEC_AGENT;
	r.spec.limits =
		(struct spec_limits){ .memory_bytes = 8ull << 30, .cpu_millis = 4000, .pids = 512 };
	r.spec.ttl_ms = 3600000;
	assert_int_equal(ceiling_check(&c, &r, &e), 0);
#define OVER(member, bound, reason_) \
	do { \
		const uint64_t before = c.member; \
		c.member = (bound); \
		assert_int_equal(ceiling_check(&c, &r, &e), -1); \
		assert_int_equal(e.reason, reason_); \
		err_done(&e); \
		c.member = before; \
	} while (0)
	OVER(memory, (8ull << 30) - 1, R_CEILING_EXCEEDED);
	OVER(cpu_millis, 3999, R_CEILING_EXCEEDED);
	OVER(pids, 511, R_CEILING_EXCEEDED);
	OVER(lifetime_ms, 3599999, R_CEILING_EXCEEDED);
	r.spec.n_tmpfs = 1;
	r.spec.tmpfs[0].size = 3ull << 30;
	OVER(disk, (3ull << 30) - 1, R_CEILING_EXCEEDED);
	c.profiles = 1u << SPEC_CHECK;
	assert_int_equal(ceiling_check(&c, &r, &e), -1);
	assert_int_equal(e.reason, R_NOT_ALLOWED);
	err_done(&e);
	c.profiles = UINT32_MAX;
	r.spec.limits.unlimited = true;
	assert_int_equal(ceiling_check(&c, &r, &e), -1);
	assert_int_equal(e.reason, R_NOT_ALLOWED);
	err_done(&e);
	r.spec.limits.unlimited = false;
	r.spec.ttl_ms = 0; /* no end: more than any */
	assert_int_equal(ceiling_check(&c, &r, &e), -1);
	assert_int_equal(e.reason, R_CEILING_EXCEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_values, teardown),
		cmocka_unit_test_teardown(test_refused, teardown),
		cmocka_unit_test_teardown(test_whose_file, teardown),
		cmocka_unit_test_teardown(test_check, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
