#include "base/clock.h"
#include "client/engine_test.h"
#include "client/request.h"
#include "spec/pack.h"

/* This program is its own engine: started with the verb "run" it takes the request and answers as the request's name says. */

static void answer_frame(const struct wire_result *m)
{
	static uint8_t out[WIRE_HEADER + WIRE_MAX_BODY];
	size_t n = wire_put_result(out, sizeof out, m);

	MUST(n && write_all(3, out, n / 2) == 0);
	(void)usleep(20000);
	MUST(write_all(3, out + n / 2, n - n / 2) == 0);
}

static void check_box(const struct pack_request *r)
{
	struct stat st, dir;

	MUST(streq(r->image, "host") && r->keep && !r->command && r->spool_max == 77);
	MUST(r->spec.session && r->spec.limits.memory_bytes == 64 << 20);
	MUST(r->spec.limits.pids == 256 && r->spec.limits.cpu_millis == 1000);
	/* of 64 MiB of memory: half for the layer, an eighth for each of /tmp and /dev/shm */
	MUST(r->spec.disk_bytes == 32 << 20 && r->spec.uid == 1000 && r->spec.gid == 1000);
	MUST(r->spec.n_tmpfs == 2 && r->spec.tmpfs[0].size == 8 << 20 &&
		r->spec.tmpfs[1].size == 8 << 20);
	MUST(streq(r->spec.hostname, "castle"));
	MUST(r->spec.n_binds == 1 && r->spec.binds[0].cow && !r->spec.binds[0].writable);
	MUST(r->spec.has_workspace_print && r->spec.image_fd < 0);
	MUST(fstat(r->spec.binds[0].fd, &st) == 0 && stat(r->workspace, &dir) == 0);
	MUST(st.st_ino == dir.st_ino && st.st_dev == dir.st_dev);
	MUST(getenv("SECRET") == NULL && getenv("BAILEY_HOME") && getenv("PATH"));
	MUST(streq(getenv("BAILEY_IDS_BASE"), "123456"));
	for (char *const *p = r->spec.env; *p; p++)
		if (streq(*p, "A=b"))
			return;
	MUST_NOT_COME("the variable didn't");
}

static void answer_made(void)
{
	answer_frame(&(struct wire_result){
		.stream = 1, .rest = (const uint8_t *)TEST_ID, .rest_len = 17 });
}

static int be_engine(void)
{
	static const char words[] = "sandbox_exists_not\0no\0try\0";
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request r;

	MUST(pack_receive(3, &r, &e) == 0);
	if (streq(r.name, "box")) {
		check_box(&r);
		answer_made();
	} else if (streq(r.name, "command")) {
		MUST(!r.keep && streq(r.command[0], "sleep") && streq(r.command[1], "5") &&
			!r.command[2]);
		MUST(r.spec.limits.memory_bytes == 2ull << 30 && r.spec.disk_bytes == 1 << 30 &&
			r.spec.tmpfs[0].size == 64 << 20);
		answer_made();
	} else if (streq(r.name, "sized")) {
		/* what is given comes as it is: whether it fits is the engine's to say */
		MUST(r.spec.disk_bytes == 512 << 20 && r.spec.tmpfs[0].size == 128 << 20);
		answer_made();
	} else if (streq(r.name, "refused")) {
		answer_frame(&(struct wire_result){ .stream = 1,
			.error = EEXIST,
			.flags = WIRE_RESULT_REASON,
			.rest = (const uint8_t *)words,
			.rest_len = sizeof words - 1 });
	} else if (streq(r.name, "odd")) {
		answer_frame(&(struct wire_result){
			.stream = 1, .rest = (const uint8_t *)"../../etc/passwd", .rest_len = 16 });
	} /* else it just ends */
	pack_done(&r);
	return 0;
}

struct env {
	char dir[64], work[96];
	struct bailey *b;
};

static int set_up(void **state)
{
	struct env *t = calloc(1, sizeof *t);
	struct bailey_options o = BAILEY_OPTIONS_INIT;
	char self[256], path[128];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	assert_true(n > 0);
	self[n] = '\0';
	FMT(t->dir, "/tmp/bailey-create-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	assert_int_equal(symlink(self, FMT(path, "%s/bailey-engine-native", t->dir)), 0);
	assert_int_equal(mkdir(FMT(t->work, "%s/work", t->dir), 0755), 0);
	o.home = o.libexec = t->dir;
	o.ids_base = 123456;
	assert_int_equal(bailey_open(&o, &t->b, NULL), 0);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct env *t = *state;
	struct test as = { .b = NULL };

	bailey_close(t->b);
	str_format(as.home, sizeof as.home, "%s", t->dir);
	test_remove_home(&as);
	free(t);
	return 0;
}

static void what_is_asked_arrives(void **state)
{
	static const char *const env[] = { "A=b", NULL };
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	char id[BAILEY_ID_SIZE] = "";
	struct env *t = *state;
	struct bailey_error e = { .reason = "" };

	(void)setenv("SECRET", "s", 1);
	o.name = "box";
	o.hostname = "castle";
	o.workspace = t->work;
	o.workspace_mode = BAILEY_COW;
	o.memory = 64 << 20;
	o.env = env;
	o.spool_max = 77;
	if (bailey_create(t->b, &o, id, &e) < 0)
		fail_msg("%s: %s", e.reason, e.message);
	assert_string_equal(id, TEST_ID);
	(void)unsetenv("SECRET");
}

static void a_command_comes_along(void **state)
{
	static const char *const argv[] = { "sleep", "5", NULL };
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	struct env *t = *state;
	struct bailey_error e = { .reason = "" };

	o.name = "command";
	o.command = argv;
	assert_int_equal(bailey_create(t->b, &o, NULL, &e), 0);
}

static void given_sizes_stay(void **state)
{
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	struct env *t = *state;
	struct bailey_error e = { .message = "" };

	o.name = "sized";
	o.memory = 64 << 20;
	o.disk = 512 << 20;
	o.tmp_size = 128 << 20;
	if (bailey_create(t->b, &o, NULL, &e) < 0)
		fail_msg("%s: %s", e.reason, e.message);
}

static void answers_of_all_kinds(void **state)
{
	static const struct {
		const char *name, *reason;
	} table[] = {
		{ "refused", "io_failed" },
		{ "odd", "wire_malformed" },
		{ "gone", "engine_lost" },
	};
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	struct env *t = *state;
	char id[BAILEY_ID_SIZE];
	struct bailey_error e;

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		o.name = table[i].name;
		assert_int_equal(bailey_create(t->b, &o, id, &e), -1);
		assert_string_equal(e.reason, table[i].reason);
	}
}

static void no_engine(void **state)
{
	struct bailey_options o = BAILEY_OPTIONS_INIT;
	struct env *t = *state;
	struct bailey_error e;
	struct bailey *b;

	o.home = t->dir;
	o.libexec = "/nonexistent";
	assert_int_equal(bailey_open(&o, &b, &e), 0);
	assert_int_equal(bailey_create(b, NULL, NULL, &e), -1);
	assert_string_equal(e.reason, "sandbox_setup_failed");
	assert_non_null(strstr(e.remedy, "BAILEY_LIBEXEC"));
	bailey_close(b);
}

/* Nothing is started for what can't be. */
static void bad_options(void **state)
{
	static const char *const none[] = { NULL };
	static const char *const bad_env[] = { "NOVALUE", NULL };
	static const struct bailey_mount cow = { "/usr", "/x", BAILEY_COW };
	static const struct bailey_mount relative = { "usr", "/x", BAILEY_RO };
	struct env *t = *state;
	const struct {
		struct bailey_create_options o;
		const char *reason;
	} table[] = {
		{ { .name = "Upper" }, "bad_value" },
		{ { .name = "../x" }, "bad_value" },
		{ { .network = "host" }, "network_unsupported" },
		{ { .mounts = &relative, .n_mounts = 1 }, "mount_source_relative" },
		{ { .workspace = "/nonexistent" }, "mount_source_missing" },
		{ { .workspace = "/" }, "mount_forbidden" },
		{ { .image = "no-such-image" }, "image_not_found" },
		{ { .image = "/nonexistent" }, "image_missing" },
		{ { .user = "root" }, "bad_value" },
		{ { .user = "70000" }, "value_out_of_range" },
		{ { .env = bad_env }, "bad_value" },
		{ { .command = none }, "bad_value" },
		{ { .mounts = &cow, .n_mounts = 1 }, "bad_value" },
		{ { .memory = 1 }, "value_out_of_range" },
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct bailey_create_options o = table[i].o;
		struct bailey_error e = { .reason = "" };

		o.size = sizeof o;
		assert_int_equal(bailey_create(t->b, &o, NULL, &e), -1);
		assert_string_equal(e.reason, table[i].reason);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_asked_arrives, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_command_comes_along, set_up, tear_down),
		cmocka_unit_test_setup_teardown(given_sizes_stay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(answers_of_all_kinds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_engine, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bad_options, set_up, tear_down),
	};

	if (argc == 2 && streq(argv[1], "run"))
		return be_engine();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
