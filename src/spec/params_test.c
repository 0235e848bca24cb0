/* The text form of requests: each key, each bad value refused with its key, no descriptor lost. */
#include "spec/params.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "spec/params_json.h"

enum { MAX = 12 };

struct text {
	const char *profile;
	struct profile_param params[MAX];
	const char *dirs[4];
};

static const struct profile_operator asker = { .base = PROFILE_BASE_INIT,
	.agent_uid = 64000,
	.agent_gid = 64001,
	.caller_uid = 1000,
	.caller_gid = 100 };

static int parse(const struct text *t, struct profile_request *ret, struct err *e)
{
	struct profile_fd fds[4];
	unsigned n = 0, n_fds = 0;
	int r;

	while (n < MAX && t->params[n].key)
		n++;
	for (; n_fds < 4 && t->dirs[n_fds]; n_fds++)
		fds[n_fds] =
			(struct profile_fd){ t->dirs[n_fds], open("/tmp", O_PATH | O_CLOEXEC) };
	r = profile_from_params(ret, t->profile, t->params, n, fds, n_fds, &asker, e);
	for (unsigned i = 0; i < n_fds; i++) {
		/* moved exactly on success */
		assert_int_equal(fds[i].fd < 0, r == 0);
		fds[i].fd = close_fd(fds[i].fd);
	}
	return r;
}

static void accept(const struct text *t, struct profile_request *r)
{
	_cleanup_err_ struct err e = ERR_INIT;

	if (parse(t, r, &e) < 0)
		fail_msg("%s", e.message);
}

/* The message names the key. */
static void refuse(const struct text *t, const char *key)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct profile_request r;

	if (parse(t, &r, &e) == 0)
		fail_msg("a bad '%s' was accepted", key);
	assert_true(e.reason == R_BAD_VALUE || e.reason == R_OUT_OF_RANGE);
	if (!strstr(e.message, key))
		fail_msg("'%s' doesn't name '%s'", e.message, key);
}

#define AGENT_PARAMS { "tid", "t-1" }, { "model", "m" }, { "command", "[\"claude\", \"-p\"]" }
#define AGENT_DIRS { "worktree", "sockets" }
#define CHECK_PARAMS { "tid", "t-1" }, { "command", "make\ntest" }

static void agent(void **state)
{
	static const struct text t = { "agent",
		{ AGENT_PARAMS, { "timeout", "90m" }, { "env.MAX_THINKING_TOKENS", "7" } },
		{ "worktree", "sockets", "venv" } };
	static const struct text least = { "agent", { AGENT_PARAMS }, AGENT_DIRS };
	struct profile_request r;

	(void)state;
	accept(&t, &r);
	assert_int_equal(r.profile, SPEC_AGENT);
	assert_string_equal(r.agent.tid, "t-1");
	assert_string_equal(r.agent.model, "m");
	assert_string_equal(r.agent.command[0], "claude");
	assert_string_equal(r.agent.command[1], "-p");
	assert_null(r.agent.command[2]);
	assert_int_equal(r.agent.timeout_ms, 5400000);
	assert_int_equal(r.agent.n_env, 1);
	assert_string_equal(r.agent.env[0].name, "MAX_THINKING_TOKENS");
	assert_string_equal(r.agent.env[0].value, "7");
	assert_int_equal(r.agent.base.uid, 64000);
	assert_int_equal(r.agent.base.gid, 64001);
	assert_true(r.agent.worktree >= 0 && r.agent.sockets >= 0 && r.agent.venv >= 0);
	profile_request_done(&r);
	profile_request_done(&r);
	accept(&least, &r);
	assert_int_equal(r.agent.timeout_ms, PROFILE_AGENT_MAX_MS);
	assert_int_equal(r.agent.venv, -1);
	profile_request_done(&r);
}

static void others(void **state)
{
	static const struct text check = { "check", { CHECK_PARAMS, { "timeout", "5" } },
		{ "worktree" } };
	static const struct text helper = { "git-helper",
		{ { "operation", "deliver" }, { "branch", "agent/x" }, { "tid", "x" } },
		{ "repo", "shadow", "git_dir" } };
	static const struct text venv = { "git-helper", { { "operation", "venv" } }, { "venv" } };
	static const struct text handoff = { "handoff", { { "to", "agent" } }, { "workspace" } };
	static const struct text back = { "handoff", { { "to", "caller" } }, { "workspace" } };
	static const struct text script = { "script", { { "language", "bash" } }, { "script" } };
	struct profile_request r;
	struct stat st;

	(void)state;
	accept(&check, &r);
	assert_string_equal(r.check.command, "make\ntest");
	assert_int_equal(r.check.timeout_ms, 5000);
	assert_int_equal(r.check.base.uid, 64000);
	profile_request_done(&r);
	accept(&helper, &r);
	assert_int_equal(r.git_helper.operation, GIT_DELIVER);
	assert_string_equal(r.git_helper.branch, "agent/x");
	assert_true(
		r.git_helper.repo >= 0 && r.git_helper.shadow >= 0 && r.git_helper.git_dir >= 0);
	assert_int_equal(r.git_helper.venv, -1);
	assert_int_equal(r.git_helper.base.uid, 1000);
	assert_int_equal(r.git_helper.base.gid, 100);
	profile_request_done(&r);
	accept(&venv, &r);
	assert_true(r.git_helper.venv >= 0);
	profile_request_done(&r);
	accept(&handoff, &r);
	assert_int_equal(r.handoff.to_uid, 64000);
	assert_int_equal(r.handoff.to_gid, 64001);
	assert_int_equal(stat("/tmp", &st), 0);
	assert_int_equal(r.handoff.ino, st.st_ino);
	assert_int_equal(r.handoff.dev, st.st_dev);
	profile_request_done(&r);
	accept(&back, &r);
	assert_int_equal(r.handoff.to_uid, 1000);
	assert_int_equal(r.handoff.to_gid, 100);
	profile_request_done(&r);
	accept(&script, &r);
	assert_int_equal(r.script.language, SCRIPT_BASH);
	assert_int_equal(r.script.timeout_ms, 600000);
	profile_request_done(&r);
}

static void refused(void **state)
{
#define AGENT(...) { "agent", { AGENT_PARAMS, __VA_ARGS__ }, AGENT_DIRS }
	static const struct {
		struct text text;
		const char *key;
	} bad[] = {
		{ { "run", { { "tid", "x" } }, { NULL } }, "run" },
		{ { "", { { "tid", "x" } }, { NULL } }, "profile" },
		{ AGENT({ "memory", "64g" }), "memory" },
		{ AGENT({ "image", "x" }), "image" },
		{ AGENT({ "uid", "0" }), "uid" },
		{ AGENT({ "TID", "x" }), "TID" },
		{ AGENT({ "tid", "again" }), "tid" },
		{ AGENT({ "timeout", "0" }), "timeout" },
		{ AGENT({ "timeout", "-1" }), "timeout" },
		{ AGENT({ "timeout", "5h" }), "timeout" },
		{ AGENT({ "timeout", "x" }), "timeout" },
		{ AGENT({ "timeout", "" }), "timeout" },
		{ AGENT({ "timeout", "1m" }, { "timeout", "1m" }), "timeout" },
		{ AGENT({ "worktree", "/etc" }), "worktree" },
		{ AGENT({ "env.PATH", "/x" }), "env.PATH" },
		{ AGENT({ "env.", "x" }), "env." },
		{ AGENT({ "env.AGENT_NO_GUIDE", "a\nb" }), "env.AGENT_NO_GUIDE" },
		{ AGENT({ "env.AGENT_NO_GUIDE", "1" }, { "env.AGENT_NO_GUIDE", "1" }),
			"env.AGENT_NO_GUIDE" },
		{ { "agent", { { "tid", "t" }, { "model", "m" } }, AGENT_DIRS }, "command" },
		{ { "agent", { { "tid", "t" }, { "command", "[\"claude\"]" } }, AGENT_DIRS },
			"model" },
		{ { "agent", { { "model", "t" }, { "command", "[\"claude\"]" } }, AGENT_DIRS },
			"tid" },
		{ { "agent", { { "tid", "t" }, { "model", "m" }, { "command", "claude -p" } },
			  AGENT_DIRS },
			"command" },
		{ { "agent", { AGENT_PARAMS }, { "worktree" } }, "sockets" },
		{ { "agent", { AGENT_PARAMS }, { "sockets" } }, "worktree" },
		{ { "agent", { AGENT_PARAMS }, { "worktree", "sockets", "worktree" } },
			"worktree" },
		{ { "agent", { AGENT_PARAMS }, { "worktree", "sockets", "repo" } }, "repo" },
		{ { "agent", { AGENT_PARAMS }, { "worktree", "sockets", "tid" } }, "tid" },
		{ { "check", { CHECK_PARAMS, { "timeout", "61m" } }, { "worktree" } }, "timeout" },
		{ { "check", { CHECK_PARAMS, { "env.ANTHROPIC_MODEL", "x" } }, { "worktree" } },
			"env.ANTHROPIC_MODEL" },
		{ { "check", { CHECK_PARAMS }, { "worktree", "sockets" } }, "sockets" },
		{ { "git-helper", { { "operation", "gc" } }, { "repo" } }, "operation" },
		{ { "git-helper", { { "env.AGENT_NO_GUIDE", "1" }, { "operation", "probe" } },
			  { "repo" } },
			"env.AGENT_NO_GUIDE" },
		{ { "git-helper", { { "operation", "probe" }, { "timeout", "11m" } }, { "repo" } },
			"timeout" },
		{ { "handoff", { { "to", "root" } }, { "workspace" } }, "to" },
		{ { "handoff", { { "to", "0:0" } }, { "workspace" } }, "to" },
		{ { "handoff", { { "to", "agent" } }, { NULL } }, "workspace" },
		{ { "script", { { "language", "perl" } }, { "script" } }, "language" },
		{ { "script", { { "language", "bash" }, { "timeout", "601" } }, { "script" } },
			"timeout" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		refuse(&bad[i].text, bad[i].key);
}

/* What the parser lets through and a profile refuses. */
static void refused_by_the_profile(void **state)
{
	static const struct text bad[] = {
		{ "agent", { { "tid", "A" }, { "model", "m" }, { "command", "[\"claude\"]" } },
			AGENT_DIRS },
		{ "agent", { { "tid", "a" }, { "model", "m m" }, { "command", "[\"claude\"]" } },
			AGENT_DIRS },
		{ "agent", { { "tid", "a" }, { "model", "m" }, { "command", "[\"bash\"]" } },
			AGENT_DIRS },
		{ "agent", { { "tid", "a" }, { "model", "m" }, { "command", "[]" } }, AGENT_DIRS },
		{ "git-helper", { { "operation", "deliver" }, { "branch", "main" } },
			{ "repo", "shadow" } },
		{ "git-helper", { { "operation", "probe" } }, { "venv" } },
		{ "git-helper", { { "operation", "snapshot" }, { "ref", "--all" } },
			{ "repo", "shadow" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		_cleanup_err_ struct err e = ERR_INIT;
		struct profile_request r;
		struct pack_request p;

		accept(&bad[i], &r);
		assert_int_equal(profile_build(&p, &r, &e), -1);
		assert_int_equal(e.reason, R_BAD_VALUE);
		profile_request_done(&r);
	}
}

static void builds(void **state)
{
	static const struct text t = { "agent", { AGENT_PARAMS }, AGENT_DIRS };
	_cleanup_err_ struct err e = ERR_INIT;
	struct profile_request r;
	struct pack_request p;

	(void)state;
	accept(&t, &r);
	if (profile_build(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	profile_request_done(&r); /* the strings of p are its own */
	assert_string_equal(p.command[0], "claude");
	assert_int_equal(p.spec.profile, SPEC_AGENT);
	assert_true(p.spec.binds[0].fd >= 0);
	pack_done(&p);
}

static void words(void **state)
{
	static const char *const bad[] = { "", "[", "]", "[\"a\"", "[\"a\",]", "[a]", "\"a\"",
		"[\"a\"] x", "[\"a", "[\"\\", "[\"\\x\"]", "[\"\\u12\"]", "[\"\\u0000\"]",
		"[\"\\ud800\"]", "[\"\\ud800\\u0041\"]", "[\"\\udc00\"]", "[\"a\nb\"]", "[1]",
		"[null]", "[[\"a\"]]", "{\"a\":\"b\"}", "[\"a\" \"b\"]", "[,]" };
	static const char *const hard[] = { "", "a b", "\"\\/\b\f\n\r\t",
		"\x7f\xc3\xa9\xf0\x9f\x8c\x8d", "--", NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_buf_ struct buf text = BUF_INIT;
	char **got;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (param_get_words(bad[i], &got, &e) == 0)
			fail_msg("'%s' was accepted", bad[i]);
		err_done(&e);
	}
	assert_int_equal(param_get_words(" [ \"\\u0041\\u00e9\\u20ac\\ud83c\\udf0d\" , \"\\n\" ] ",
				 &got, &e),
		0);
	assert_string_equal(got[0], "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8d");
	assert_string_equal(got[1], "\n");
	assert_null(got[2]);
	free(got);
	assert_int_equal(param_get_words("[]", &got, &e), 0);
	assert_null(got[0]);
	free(got);
	param_put_words(&text, hard);
	assert_int_equal(param_get_words(text.data, &got, &e), 0);
	for (size_t i = 0; hard[i]; i++)
		assert_string_equal(got[i], hard[i]);
	free(got);
}

/* A profile has each key once, and every profile but run and create has some. */
static void the_table(void **state)
{
	(void)state;
	for (unsigned p = SPEC_AGENT; p < SPEC_N_PROFILES; p++) {
		unsigned n = 0;

		for (unsigned i = 0; i < n_profile_params; i++) {
			if (!(profile_params[i].profiles & 1u << p))
				continue;
			n++;
			assert_ptr_equal(param_find((enum spec_profile)p, profile_params[i].key),
				&profile_params[i]);
		}
		assert_true(n > 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agent),
		cmocka_unit_test(others),
		cmocka_unit_test(refused),
		cmocka_unit_test(refused_by_the_profile),
		cmocka_unit_test(builds),
		cmocka_unit_test(words),
		cmocka_unit_test(the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
