/* Tests the order of precedence and each way a config file can be wrong, with the real bailey-toml. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "config/args.h"
#include "config/reader.h"

static char dir[64], system_file[80], user_file[80];

static void write_config(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

static int load(struct options *o, struct err *e, const char *flag)
{
	char verb[] = "run", *argv[] = { verb, flag ? xstrdup(flag) : NULL, NULL };
	int rest, r;

	options_init(o);
	r = args_parse(o, VERB_RUN, flag ? 2 : 1, argv, &rest, e);
	free(argv[1]);
	return r < 0 ? r : load_below_flags(o, system_file, e);
}

/* The user's file holds `text`: loading it must fail so. */
static void fails(const char *text, enum reason reason, const char *message, const char *remedy)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;

	write_config(user_file, text);
	assert_int_equal(load(&o, &e, NULL), -1);
	if (e.reason != reason || !strstr(e.message, message) ||
		!strstr(err_get_remedy(&e), remedy))
		fail_msg("%s [%s] %s", e.message, reason_name(e.reason), err_get_remedy(&e));
	assert_false(str_has_control(e.message));
}

static int reset(void **state)
{
	(void)state;
	(void)unlink(system_file);
	(void)unlink(user_file);
	/* the caller's own settings are none of the test's */
	for (unsigned i = 0; i < OPTION_MAX; i++)
		if (option_table[i].env)
			(void)unsetenv(option_table[i].env);
	return setenv("BAILEY_LIBEXEC", TEST_LIBEXEC, 1);
}

static void origin_is(const struct options *o, const char *expected)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	options_origin(o, OPTION_memory, &b);
	assert_string_equal(b.data, expected);
}

static void expect(const char *flag, uint64_t mib, const char *origin)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;

	if (load(&o, &e, flag) < 0)
		fail_msg("%s", e.message);
	assert_int_equal(o.memory >> 20, mib);
	origin_is(&o, origin);
}

static void test_precedence(void **state)
{
	char origin[128];

	(void)state;
	expect(NULL, 2048, "default");
	write_config(system_file, "[run]\nmemory = \"11m\"\n");
	expect(NULL, 11, FMT(origin, "%s:2", system_file));
	write_config(user_file, "# mine\n\nrun.memory = 12582912\n");
	expect(NULL, 12, FMT(origin, "%s:3", user_file));
	(void)setenv("BAILEY_RUN_MEMORY", "13m", 1);
	expect(NULL, 13, "environment BAILEY_RUN_MEMORY");
	expect("--memory=14m", 14, "flag --memory");
	/* what is overridden is still checked */
	write_config(user_file, "run.memory = 1\n");
	fails("run.memory = 1\n", R_OUT_OF_RANGE, "/config.toml:1'", "range");
}

/* Names that another program has for the same. */
static void test_other_names_of_variables(void **state)
{
	_cleanup_options_ struct options o, both;
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	(void)setenv("AGENTBOX_AGENT_UID", "1234", 1);
	(void)setenv("AGENTBOX_AGENT_RUNTIME", "runsc", 1);
	assert_int_equal(load(&o, &e, NULL), 0);
	assert_int_equal(o.agent_uid, 1234);
	assert_int_equal(o.agent_gid, 64000);
	assert_string_equal(o.runtime, "runsc");
	(void)setenv("BAILEY_AGENT_UID", "1235", 1);
	assert_int_equal(load(&both, &e, NULL), 0);
	assert_int_equal(both.agent_uid, 1235);
	(void)unsetenv("AGENTBOX_AGENT_UID");
	(void)unsetenv("AGENTBOX_AGENT_RUNTIME");
	(void)unsetenv("BAILEY_AGENT_UID");
}

static void test_types(void **state)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	write_config(user_file,
		"[run]\ncpus = 0.25\ntimeout = 30\npids = 0x40\nimage = '/img'\ntmp_size = 1_048_576\n"
		"[ids]\nbase = 65536\n[cgroup]\nparent = \"a/b\"\n[output]\n");
	if (load(&o, &e, NULL) < 0)
		fail_msg("%s", e.message);
	assert_int_equal(o.cpus, 250);
	assert_int_equal(o.timeout, 30000);
	assert_int_equal(o.pids, 64);
	assert_int_equal(o.tmp_size, 1 << 20);
	assert_int_equal(o.ids_base, 65536);
	assert_string_equal(o.image, "/img");
	assert_string_equal(o.cgroup_parent, "a/b");
}

static void test_wrong_files(void **state)
{
	(void)state;
	fails("[run]\nmemory = = 3\n", R_CONFIG_INVALID, "config.toml:2:10'", "config check");
	fails("[run]\nmemroy = 3\n", R_CONFIG_INVALID, "config.toml:2': key 'run.memroy'",
		"'run.memory'");
	fails("[runn]\n", R_CONFIG_INVALID, "config.toml:1': key 'runn' is no section", "'[run]'");
	fails("[run.memory]\n", R_CONFIG_INVALID, "'run.memory' is no section", "");
	fails("x = 1\n", R_CONFIG_INVALID, "key 'x' does not exist", "bailey.toml(5)");
	fails("\"run.memory\" = '3g'\n", R_CONFIG_INVALID, "key '\"run.memory\"' does not exist",
		"");
	fails("\"a\\nb\" = 1\n", R_CONFIG_INVALID, "key '\"a?b\"'", "");
	fails("[run]\nmemory = true\n", R_BAD_VALUE, "boolean is not the type", "");
	fails("[run]\npids = '4'\n", R_BAD_VALUE, "string is not the type", "");
	fails("[run]\npids = [1]\n", R_BAD_VALUE, "a list or date", "");
	fails("[run]\npids = -1\n", R_BAD_VALUE, "'-1'", "");
	fails("[run]\ncpus = nan\n", R_BAD_VALUE, "'nan'", "");
	fails("[run]\nimage = \"a\\u0000b\"\n", R_BAD_VALUE, "is not the type", "");
	fails("[run]\nimage = \"a\\nb\"\n", R_BAD_VALUE, "control bytes", "");
	fails("[run]\npids = 1\npids = 2\n", R_CONFIG_INVALID, "config.toml:3:", "");
	fails("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t = 1\n", R_CONFIG_INVALID, "is no section",
		"");
	fails("\x01\xff\n", R_CONFIG_INVALID, "config.toml:1:", "");
}

static void test_escape_hatches(void **state)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	fails("[run]\nunlimited = true\n", R_CONFIG_INVALID, "run.unlimited", "--unlimited");
	fails("[run]\nallow_setgid = false\n", R_CONFIG_INVALID, "run.allow_setgid",
		"--allow-setgid");
	fails("[run]\nroot_workspace = true\n", R_CONFIG_INVALID, "run.root_workspace",
		"--root-workspace");
	(void)unlink(user_file);
	(void)setenv("BAILEY_RUN_UNLIMITED", "true", 1);
	assert_int_equal(load(&o, &e, NULL), -1);
	assert_non_null(strstr(e.message, "BAILEY_RUN_UNLIMITED"));
}

static void test_help_needs_no_config(void **state)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;
	char verb[] = "run", help[] = "--help", *argv[] = { verb, help, NULL };
	int rest;

	(void)state;
	write_config(user_file, "][");
	assert_int_equal(options_load(&o, VERB_RUN, 2, argv, &rest, &e), 0);
	assert_true(o.help);
	options_done(&o);
	assert_int_equal(options_load(&o, VERB_RUN, 1, argv, &rest, &e), -1);
	assert_int_equal(e.reason, R_CONFIG_INVALID);
}

static void test_unfit_files(void **state)
{
	_cleanup_free_ char *big = xcalloc(1, READER_MAX_FILE + 2);

	(void)state;
	memset(big, '\n', READER_MAX_FILE + 1);
	fails(big, R_CONFIG_INVALID, "larger than", "config check");
	write_config(user_file, "");
	assert_int_equal(chmod(user_file, 0666), 0);
	fails("", R_CONFIG_INVALID, "everyone may write", "chmod o-w");
	(void)unlink(user_file);
	assert_int_equal(mkfifo(user_file, 0600), 0);
	{
		_cleanup_options_ struct options o;
		_cleanup_err_ struct err e = ERR_INIT;

		assert_int_equal(load(&o, &e, NULL), -1);
		assert_non_null(strstr(e.message, "not a file"));
	}
}

/* A program in the place of bailey-toml. */
static void with_reader(const char *script, const char *message)
{
	char path[96];

	(void)setenv("BAILEY_LIBEXEC", dir, 1);
	write_config(FMT(path, "%s/bailey-toml", dir), script);
	assert_int_equal(chmod(path, 0700), 0);
	fails("[run]\n", R_CONFIG_INVALID, message, "");
	(void)unlink(path);
}

static void test_bad_readers(void **state)
{
	(void)state;
	(void)setenv("BAILEY_LIBEXEC", dir, 1);
	fails("", R_CONFIG_INVALID, "bailey-toml'", "Reinstall");
	(void)setenv("BAILEY_LIBEXEC", "/nonexistent", 1);
	fails("", R_CONFIG_INVALID, "'/nonexistent/bailey-toml'", "Reinstall");
	with_reader("#!/bin/sh\nexit 3\n", "status 3");
	with_reader("#!/bin/sh\nkill -9 $$\n", "signal 9");
	with_reader("#!/bin/sh\nprintf 'bailey-toml 1\\0.\\0'; exit 1\n", "status 1");
	with_reader(
		"#!/bin/sh\nwhile :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done\n",
		"passes");
	with_reader("#!/bin/sh\nexec sleep 60\n", "more than 5 seconds");
}

static int make_dir(void **state)
{
	(void)state;
	FMT(dir, "/tmp/bailey-load-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	FMT(system_file, "%s/system.toml", dir);
	FMT(user_file, "%s/config.toml", dir);
	return setenv("BAILEY_HOME", dir, 1);
}

static int remove_dir(void **state)
{
	(void)reset(state);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_precedence, reset),
		cmocka_unit_test_setup(test_other_names_of_variables, reset),
		cmocka_unit_test_setup(test_types, reset),
		cmocka_unit_test_setup(test_wrong_files, reset),
		cmocka_unit_test_setup(test_escape_hatches, reset),
		cmocka_unit_test_setup(test_help_needs_no_config, reset),
		cmocka_unit_test_setup(test_unfit_files, reset),
		cmocka_unit_test_setup(test_bad_readers, reset),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
