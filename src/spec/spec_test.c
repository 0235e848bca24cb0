/* Tests of spec_check(): every field's range and every form of mount target. */
#include "spec/spec.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/str.h"

static char command[] = "true", nothing[] = "";
static char *const true_argv[] = { command, NULL };

/* A spec that passes, for each test to spoil in one place. */
static void valid(struct sandbox_spec *s)
{
	spec_init(s);
	s->limits =
		(struct spec_limits){ .memory_bytes = 2ull << 30, .cpu_millis = 1000, .pids = 256 };
	s->uid = s->gid = 1000;
	s->argv = true_argv;
	str_format(s->id, sizeof s->id, "b0123456789abcdef");
	str_format(s->hostname, sizeof s->hostname, "bailey");
	str_format(s->home, sizeof s->home, "/home/agent");
	str_format(s->workdir, sizeof s->workdir, "/workspace");
}

static void assert_refused(const struct sandbox_spec *s, enum reason reason)
{
	_cleanup_err_ struct err e = ERR_INIT;

	assert_int_equal(spec_check(s, &e), -1);
	assert_int_equal(e.reason, reason);
	assert_non_null(e.message);
}

static void assert_accepted(const struct sandbox_spec *s)
{
	_cleanup_err_ struct err e = ERR_INIT;

	if (spec_check(s, &e) < 0)
		print_error("%s\n", e.message);
	assert_int_equal(e.reason, REASON_NONE);
}

static void test_init_owns_nothing(void **state)
{
	_cleanup_spec_ struct sandbox_spec s;

	(void)state;
	spec_init(&s);
	assert_int_equal(s.image_fd, -1);
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		assert_int_equal(s.binds[i].fd, -1);
	assert_int_equal(s.version, SPEC_VERSION);
}

static void test_done_closes_what_it_owns(void **state)
{
	struct sandbox_spec s;
	int image, bind;

	(void)state;
	valid(&s);
	image = s.image_fd = open("/", O_PATH | O_CLOEXEC);
	bind = s.binds[0].fd = open("/", O_PATH | O_CLOEXEC);
	s.n_binds = 1;
	spec_done(&s);
	assert_int_equal(fcntl(image, F_GETFD), -1);
	assert_int_equal(fcntl(bind, F_GETFD), -1);
	assert_int_equal(s.n_binds, 0);
	spec_done(&s);
}

static void test_good_targets(void **state)
{
	static const char *const good[] = { "/w", "/workspace", "/a/b/c", "/opt/a.b", "/opt/..a",
		"/opt/a..", "/opt/.a", "/...", "/process", "/devices", "/system", "/caf\xc3\xa9" };

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		_cleanup_err_ struct err e = ERR_INIT;

		if (spec_check_target(good[i], &e) < 0)
			print_error("%s\n", e.message);
		assert_int_equal(e.reason, REASON_NONE);
	}
}

static void test_bad_targets(void **state)
{
	static const char *const bad[] = { "", "/", "w", "./w", "../w", "/w/", "//w", "/w//x", "/.",
		"/..", "/w/.", "/w/..", "/w/./x", "/w/../x", "/../x", "/./x", "/w\n", "/w\tx",
		"/\x7f", "/proc", "/proc/1", "/sys", "/sys/fs/cgroup", "/dev", "/dev/shm",
		"/dev/null" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		_cleanup_err_ struct err e = ERR_INIT;

		if (spec_check_target(bad[i], &e) == 0)
			print_error("'%s' was accepted\n", bad[i]);
		assert_int_equal(e.reason, R_MOUNT_TARGET_INVALID);
	}
}

static void test_target_length(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char target[SPEC_MAX_TARGET + 1];

	(void)state;
	memset(target, 'a', sizeof target);
	target[0] = '/';
	target[SPEC_MAX_TARGET - 1] = '\0';
	assert_int_equal(spec_check_target(target, &e), 0);
	target[SPEC_MAX_TARGET - 1] = 'a';
	target[SPEC_MAX_TARGET] = '\0';
	assert_int_equal(spec_check_target(target, &e), -1);
	assert_int_equal(e.reason, R_MOUNT_TARGET_INVALID);
}

static void test_a_valid_spec_passes(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	assert_accepted(&s);
}

static void test_version_and_command(void **state)
{
	static char *const none[] = { NULL };
	static char *const empty[] = { nothing, NULL };
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	s.version = SPEC_VERSION + 1;
	assert_refused(&s, R_BAD_VALUE);
	valid(&s);
	s.argv = NULL;
	assert_refused(&s, R_USAGE);
	s.argv = none;
	assert_refused(&s, R_USAGE);
	s.argv = empty;
	assert_refused(&s, R_USAGE);
}

static void test_user_range(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	s.uid = s.gid = 65534;
	assert_accepted(&s);
	s.uid = 65535;
	assert_refused(&s, R_OUT_OF_RANGE);
	s.uid = 0;
	s.gid = (gid_t)-1;
	assert_refused(&s, R_OUT_OF_RANGE);
}

static void check_limits(const struct spec_limits *l, bool good)
{
	struct sandbox_spec s;

	valid(&s);
	s.limits = *l;
	if (good)
		assert_accepted(&s);
	else
		assert_refused(&s, R_OUT_OF_RANGE);
}

static void test_limit_ranges(void **state)
{
	const struct spec_limits base = { .memory_bytes = 1u << 20, .cpu_millis = 10, .pids = 1 };
	struct spec_limits l = base;

	(void)state;
	check_limits(&l, true);
	l = (struct spec_limits){ 1ull << 44, 1024000, 65536, 30ull * 86400000, false };
	check_limits(&l, true);
	l = base;
	l.memory_bytes = (1u << 20) - 1;
	check_limits(&l, false);
	l.memory_bytes = (1ull << 44) + 1;
	check_limits(&l, false);
	l = base;
	l.cpu_millis = 9;
	check_limits(&l, false);
	l.cpu_millis = 1024001;
	check_limits(&l, false);
	l = base;
	l.pids = 0;
	check_limits(&l, false);
	l.pids = 65537;
	check_limits(&l, false);
	l = base;
	l.timeout_ms = 30ull * 86400000 + 1;
	check_limits(&l, false);
	/* the escape hatch frees from the cgroup, not from the ranges */
	l = base;
	l.unlimited = true;
	l.pids = 0;
	check_limits(&l, false);
}

static void check_tmpfs(
	const char *target, uint64_t size, uint64_t inodes, uint32_t mode, enum reason reason)
{
	struct sandbox_spec s;

	valid(&s);
	s.n_tmpfs = 1;
	s.tmpfs[0] = (struct spec_tmpfs){ .size = size, .inodes = inodes, .mode = mode };
	FMT(s.tmpfs[0].target, "%s", target);
	if (reason)
		assert_refused(&s, reason);
	else
		assert_accepted(&s);
}

static void test_tmpfs(void **state)
{
	(void)state;
	check_tmpfs("/tmp", 64u << 20, 1000, 01777, REASON_NONE);
	check_tmpfs("/dev/shm", 4096, 1, 0, REASON_NONE);
	check_tmpfs("/tmp", 1ull << 40, 1u << 24, 0755, REASON_NONE);
	check_tmpfs("/tmp", 4095, 1, 0755, R_OUT_OF_RANGE);
	check_tmpfs("/tmp", (1ull << 40) + 1, 1, 0755, R_OUT_OF_RANGE);
	/* to the kernel size=0 and nr_inodes=0 mean without a limit */
	check_tmpfs("/tmp", 0, 1, 0755, R_OUT_OF_RANGE);
	check_tmpfs("/tmp", 4096, 0, 0755, R_OUT_OF_RANGE);
	check_tmpfs("/tmp", 4096, (1u << 24) + 1, 0755, R_OUT_OF_RANGE);
	check_tmpfs("/tmp", 4096, 1, 04755, R_BAD_VALUE);
	check_tmpfs("/tmp", 4096, 1, 02755, R_BAD_VALUE);
	check_tmpfs("/dev", 4096, 1, 0755, R_MOUNT_TARGET_INVALID);
	check_tmpfs("/dev/shm/x", 4096, 1, 0755, R_MOUNT_TARGET_INVALID);
}

static void test_mount_counts(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	s.n_binds = SPEC_MAX_BINDS + 1;
	assert_refused(&s, R_OUT_OF_RANGE);
	valid(&s);
	s.n_tmpfs = SPEC_MAX_TMPFS + 1;
	assert_refused(&s, R_OUT_OF_RANGE);
	valid(&s);
	for (s.n_binds = 0; s.n_binds < SPEC_MAX_BINDS; s.n_binds++)
		FMT(s.binds[s.n_binds].target, "/m%u", s.n_binds);
	assert_accepted(&s);
}

static void test_targets_must_differ(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	s.n_binds = 2;
	FMT(s.binds[0].target, "/a");
	FMT(s.binds[1].target, "/a");
	assert_refused(&s, R_MOUNT_TARGET_INVALID);
	FMT(s.binds[1].target, "/a/b");
	assert_accepted(&s);
	s.n_tmpfs = 1;
	s.tmpfs[0] = (struct spec_tmpfs){ .size = 4096, .inodes = 1 };
	FMT(s.tmpfs[0].target, "/a/b");
	assert_refused(&s, R_MOUNT_TARGET_INVALID);
}

static void test_names_are_checked(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	s.id[1] = '/';
	assert_refused(&s, R_BAD_VALUE);
	valid(&s);
	memset(s.hostname, 'a', sizeof s.hostname);
	assert_refused(&s, R_BAD_VALUE);
	valid(&s);
	s.workdir[0] = 'w';
	assert_refused(&s, R_MOUNT_TARGET_INVALID);
	valid(&s);
	s.n_tmpfs = 2;
	for (unsigned i = 0; i < 2; i++)
		s.tmpfs[i] = (struct spec_tmpfs){ .target = "/tmp", .size = 4096, .inodes = 1 };
	assert_refused(&s, R_MOUNT_TARGET_INVALID);
}

static void test_bind_target_is_checked(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	s.n_binds = 1;
	FMT(s.binds[0].target, "/proc/self");
	assert_refused(&s, R_MOUNT_TARGET_INVALID);
}

/* An agent's, as its profile would make it. */
static void valid_agent(struct sandbox_spec *s)
{
	valid(s);
	s->argv = NULL;
	s->profile = SPEC_AGENT;
	s->session = s->read_only = true;
	s->ttl_ms = 60000;
	FMT(s->tid, "0-task");
}

static void test_what_no_profile_may_lack(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid_agent(&s);
	assert_accepted(&s);
	s.profile = (enum spec_profile)SPEC_N_PROFILES;
	assert_refused(&s, R_BAD_VALUE);
	s.profile = SPEC_RUN;
	assert_refused(&s, R_BAD_VALUE);
	valid(&s);
	s.profile = SPEC_CREATE;
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	s.read_only = false;
	s.disk_bytes = 1 << 24;
	assert_refused(&s, R_BAD_VALUE);
	s.profile = SPEC_CREATE;
	assert_accepted(&s);
	valid_agent(&s);
	s.limits.unlimited = true;
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	s.ttl_ms = 0;
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	s.allow_setgid = true;
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	s.uid = 0;
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	s.tid[0] = '\0';
	assert_refused(&s, R_BAD_VALUE);
	s.profile = SPEC_GIT_HELPER;
	s.uid = 0;
	assert_accepted(&s);
}

static void test_capabilities(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid_agent(&s);
	s.add_caps = SPEC_CAP_CHOWN;
	assert_refused(&s, R_BAD_VALUE);
	s.profile = SPEC_HANDOFF;
	assert_accepted(&s);
	s.add_caps = SPEC_HANDOFF_CAPS;
	assert_accepted(&s);
	s.add_caps |= 1u << 2;
	assert_refused(&s, R_BAD_VALUE);
	s.add_caps = 1u << 21;
	assert_refused(&s, R_BAD_VALUE);
}

static void test_labels(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid_agent(&s);
	FMT(s.image_ref, "reg.example:5000/a/b@sha256:00");
	FMT(s.runtime, "io.containerd.runsc.v1");
	FMT(s.model, "openai/gpt-5.1:high");
	assert_accepted(&s);
	FMT(s.image_ref, "a b");
	assert_refused(&s, R_BAD_VALUE);
	FMT(s.image_ref, "-v");
	assert_refused(&s, R_BAD_VALUE);
	memset(s.image_ref, 'a', sizeof s.image_ref);
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	FMT(s.runtime, "../runc");
	assert_refused(&s, R_BAD_VALUE);
	memset(s.runtime, 'a', sizeof s.runtime);
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	FMT(s.model, "a\nb");
	assert_refused(&s, R_BAD_VALUE);
	memset(s.model, 'a', sizeof s.model);
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	memset(s.tid, 'a', sizeof s.tid);
	assert_refused(&s, R_BAD_VALUE);
	FMT(s.tid, "A");
	assert_refused(&s, R_BAD_VALUE);
}

static void test_numbers_of_engines(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid(&s);
	s.nofile = 64;
	assert_accepted(&s);
	s.nofile = 63;
	assert_refused(&s, R_OUT_OF_RANGE);
	s.nofile = 1048577;
	assert_refused(&s, R_OUT_OF_RANGE);
	valid(&s);
	s.log_bytes = 20000000;
	assert_refused(&s, R_BAD_VALUE);
	s.log_files = 2;
	assert_accepted(&s);
	s.log_bytes = 0;
	assert_refused(&s, R_BAD_VALUE);
	s.log_bytes = 65535;
	assert_refused(&s, R_OUT_OF_RANGE);
	s.log_bytes = 65536;
	s.log_files = 101;
	assert_refused(&s, R_OUT_OF_RANGE);
	valid(&s);
	s.deadline_ms = 1;
	assert_refused(&s, R_BAD_VALUE);
	valid_agent(&s);
	s.deadline_ms = 1;
	assert_accepted(&s);
}

static void test_an_object_has_both_numbers(void **state)
{
	struct sandbox_spec s;

	(void)state;
	valid_agent(&s);
	s.n_binds = 1;
	FMT(s.binds[0].target, "/w");
	s.binds[0].dev = 5;
	assert_refused(&s, R_BAD_VALUE);
	s.binds[0].has_object = true;
	assert_refused(&s, R_BAD_VALUE);
	s.binds[0].ino = 7;
	assert_accepted(&s);
	valid(&s);
	assert_accepted(&s);
	s.n_binds = 1;
	FMT(s.binds[0].target, "/w");
	s.binds[0].has_object = true;
	s.binds[0].ino = 7;
	assert_refused(&s, R_BAD_VALUE);
}

static void test_profile_names(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SPEC_N_PROFILES; i++)
		assert_int_equal(
			spec_profile_find(spec_profile_name((enum spec_profile)i)), (int)i);
	assert_int_equal(spec_profile_find(""), -1);
	assert_int_equal(spec_profile_find("?"), -1);
}

static void test_task_ids(void **state)
{
	char longest[] = "a12345678901234567890123456789012345678901234567890123456789012-";

	(void)state;
	assert_int_equal(strlen(longest), 64);
	assert_true(spec_tid_is_valid(longest));
	assert_true(spec_tid_is_valid("0"));
	assert_true(spec_tid_is_valid("a-b"));
	assert_false(spec_tid_is_valid(""));
	assert_false(spec_tid_is_valid("-a"));
	assert_false(spec_tid_is_valid("A"));
	assert_false(spec_tid_is_valid("a/b"));
	assert_false(spec_tid_is_valid("a.b"));
	assert_false(spec_tid_is_valid("a_b"));
	assert_false(spec_tid_is_valid(
		"a123456789012345678901234567890123456789012345678901234567890123-"));
}

static void test_ids_are_fresh(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char a[SPEC_ID_LEN], b[SPEC_ID_LEN];

	(void)state;
	assert_int_equal(spec_new_id(a, &e), 0);
	assert_int_equal(spec_new_id(b, &e), 0);
	assert_int_equal(strlen(a), 17);
	assert_int_equal(a[0], 'b');
	assert_int_equal(strspn(a + 1, "0123456789abcdef"), 16);
	assert_string_not_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init_owns_nothing),
		cmocka_unit_test(test_done_closes_what_it_owns),
		cmocka_unit_test(test_good_targets),
		cmocka_unit_test(test_bad_targets),
		cmocka_unit_test(test_target_length),
		cmocka_unit_test(test_a_valid_spec_passes),
		cmocka_unit_test(test_version_and_command),
		cmocka_unit_test(test_user_range),
		cmocka_unit_test(test_limit_ranges),
		cmocka_unit_test(test_tmpfs),
		cmocka_unit_test(test_mount_counts),
		cmocka_unit_test(test_targets_must_differ),
		cmocka_unit_test(test_bind_target_is_checked),
		cmocka_unit_test(test_names_are_checked),
		cmocka_unit_test(test_what_no_profile_may_lack),
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_numbers_of_engines),
		cmocka_unit_test(test_an_object_has_both_numbers),
		cmocka_unit_test(test_profile_names),
		cmocka_unit_test(test_task_ids),
		cmocka_unit_test(test_ids_are_fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
