/* Golden tests of the profiles of tasks: every field of the spec, the environment and the command; and what is refused. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/str.h"
#include "spec/describe_for_test.h"
#include "spec/profile.h"
#include "spec/scripts.h"

static char claude[] = "claude", print_it[] = "-p", prompt[] = "mend the test\nplease",
	    bash[] = "bash";
static char empty[] = "";
static char *const agent_command[] = { claude, print_it, prompt, NULL };

static struct profile_base base(void)
{
	return (struct profile_base){ .image_fd = open("/", O_PATH | O_CLOEXEC),
		.image_lock_fd = -1,
		.image_ref = "bailey/agent:v1",
		.runtime = "runsc",
		.uid = PROFILE_AGENT_ID,
		.gid = PROFILE_AGENT_ID,
		.now_ms = 1000000 };
}

static int directory(void)
{
	return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static struct agent_request agent(void)
{
	return (struct agent_request){ .base = base(),
		.tid = "t-1",
		.model = "qwen/coder:30b",
		.command = agent_command,
		.timeout_ms = PROFILE_AGENT_MAX_MS,
		.worktree = directory(),
		.sockets = directory(),
		.venv = -1 };
}

static struct check_request a_check(void)
{
	return (struct check_request){ .base = base(),
		.tid = "t-1",
		.command = "make test; echo $?",
		.timeout_ms = PROFILE_CHECK_MAX_MS,
		.worktree = directory(),
		.venv = -1 };
}

static struct git_helper_request git_helper(enum git_operation operation)
{
	struct git_helper_request r = { .base = base(),
		.operation = operation,
		.timeout_ms = 60000,
		.repo = -1,
		.git_dir = -1,
		.shadow = -1,
		.venv = -1 };

	r.base.uid = 1000;
	r.base.gid = 100;
	return r;
}

static struct handoff_request handoff(void)
{
	return (struct handoff_request){ .base = base(),
		.timeout_ms = 60000,
		.workspace = directory(),
		.dev = 66306,
		.ino = 123456789012,
		.to_uid = 64000,
		.to_gid = 64001 };
}

static struct script_request script(void)
{
	struct script_request r = { .base = base(),
		.language = SCRIPT_PYTHON,
		.timeout_ms = PROFILE_SCRIPT_MAX_MS,
		.script = directory() };

	r.base.uid = r.base.gid = 1000;
	return r;
}

/* All but the text of scripts. */
static void assert_request(struct pack_request *p, const char *want)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	assert_false(p->keep);
	describe(&p->spec, &text);
	for (char *const *a = p->command; *a; a++)
		buf_printf(&text, "command %s\n",
			strchr(*a, '\n') && strstr(*a, "set -eu") ? "(script)" : *a);
	assert_string_equal(text.data, want);
	assert_string_equal(p->spec.hostname, p->spec.id);
	pack_done(p);
}

#define HEAD(profile) "version 3 profile " profile "\nhost name the id\nimage yes, lock no\n"
#define TASK_LIMITS "memory 8589934592 cpu 4000 pids 512 timeout 0 unlimited no\n"
#define TASK_TMPFS \
	"tmpfs /tmp size 2147483648 inodes 1048576 mode 1777 owned no\n" \
	"tmpfs /home/agent size 1073741824 inodes 524288 mode 700 owned yes\n" \
	"tmpfs /dev/shm size 67108864 inodes 32768 mode 1777 owned no\n"
#define WORKTREE "bind /workspace kind 0 writable yes cow no idmap yes\n"
#define VENV "bind /opt/venv kind 0 writable no cow no idmap no\n"
#define TASK_USER "user 64000:64000 home /home/agent workdir /workspace\n"
#define SESSION(ttl, workspace) \
	"session yes read-only yes disk 0 ttl " ttl " workspace " workspace " print no 00\n"
#define PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
#define ENV "env HOME=/home/agent\nenv LANG=C.UTF-8\nenv PYTHONDONTWRITEBYTECODE=1\n"
#define RELAY_ENV \
	"env ANTHROPIC_BASE_URL=http://127.0.0.1:4000\nenv OPENAI_BASE_URL=http://127.0.0.1:4000/v1\n" \
	"env OPENAI_API_BASE=http://127.0.0.1:4000/v1\nenv GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000\n" \
	"env GROK_MODELS_BASE_URL=http://127.0.0.1:4000/v1\n"

static void agent_plain(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct agent_request r = agent();
	struct pack_request p;

	(void)state;
	if (profile_agent(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	assert_int_equal(r.worktree, -1);
	assert_int_equal(r.sockets, -1);
	assert_int_equal(r.base.image_fd, -1);
	assert_request(&p,
		HEAD("agent") TASK_LIMITS WORKTREE
		"bind /run/gw kind 0 writable yes cow no idmap no\n" TASK_TMPFS TASK_USER SESSION(
			"14400000",
			"0") "setgid no terminal no relay yes\n"
			     "ref bailey/agent:v1 runtime runsc nofile 4096 caps 0 init yes log 20000000 x 2\n"
			     "tid t-1 model qwen/coder:30b deadline 15400000\n"
			     "env PATH=" PATH ENV RELAY_ENV
			     "env ANTHROPIC_MODEL=qwen/coder:30b\nenv ANTHROPIC_DEFAULT_OPUS_MODEL=qwen/coder:30b\n"
			     "env ANTHROPIC_DEFAULT_SONNET_MODEL=qwen/coder:30b\n"
			     "env ANTHROPIC_DEFAULT_HAIKU_MODEL=qwen/coder:30b\n"
			     "env ANTHROPIC_SMALL_FAST_MODEL=qwen/coder:30b\n"
			     "env CLAUDE_CODE_SUBAGENT_MODEL=qwen/coder:30b\n"
			     "command claude\ncommand -p\ncommand mend the test\nplease\n");
}

static void agent_with_all(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct agent_request r = agent();
	struct pack_request p;

	(void)state;
	r.venv = directory();
	r.base.image_ref = r.base.runtime = NULL;
	r.base.now_ms = 0;
	r.env[r.n_env++] = (struct profile_env){ "ANTHROPIC_AUTH_TOKEN", "s=x" };
	r.env[r.n_env++] = (struct profile_env){ "MAX_THINKING_TOKENS", "0" };
	r.env[r.n_env++] = (struct profile_env){ "ANTHROPIC_SMALL_FAST_MODEL", "tiny" };
	if (profile_agent(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	assert_request(&p,
		HEAD("agent") TASK_LIMITS WORKTREE
		"bind /run/gw kind 0 writable yes cow no idmap no\n" VENV TASK_TMPFS TASK_USER SESSION(
			"14400000",
			"0") "setgid no terminal no relay yes\n"
			     "ref  runtime  nofile 4096 caps 0 init yes log 20000000 x 2\n"
			     "tid t-1 model qwen/coder:30b deadline 0\n"
			     "env PATH=/opt/venv/bin:" PATH ENV "env VIRTUAL_ENV=/opt/venv\n"
			     "env ANTHROPIC_AUTH_TOKEN=s=x\nenv MAX_THINKING_TOKENS=0\n"
			     "env ANTHROPIC_SMALL_FAST_MODEL=tiny\n" RELAY_ENV
			     "env ANTHROPIC_MODEL=qwen/coder:30b\nenv ANTHROPIC_DEFAULT_OPUS_MODEL=qwen/coder:30b\n"
			     "env ANTHROPIC_DEFAULT_SONNET_MODEL=qwen/coder:30b\n"
			     "env ANTHROPIC_DEFAULT_HAIKU_MODEL=qwen/coder:30b\n"
			     "env CLAUDE_CODE_SUBAGENT_MODEL=qwen/coder:30b\n"
			     "command claude\ncommand -p\ncommand mend the test\nplease\n");
}

static void check_plain(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct check_request r = a_check();
	struct pack_request p;

	(void)state;
	r.venv = directory();
	if (profile_check(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	assert_request(&p,
		HEAD("check") TASK_LIMITS WORKTREE VENV TASK_TMPFS TASK_USER SESSION("3600000",
			"0") "setgid no terminal no relay no\n"
			     "ref bailey/agent:v1 runtime runsc nofile 4096 caps 0 init yes log 20000000 x 2\n"
			     "tid t-1 model  deadline 4600000\n"
			     "env PATH=/opt/venv/bin:" PATH ENV "env VIRTUAL_ENV=/opt/venv\n"
			     "command bash\ncommand -c\ncommand make test; echo $?\n");
}

#define HELPER_LIMITS "memory 1073741824 cpu 1000 pids 64 timeout 0 unlimited no\n"
#define HELPER(binds, words) \
	HEAD("git-helper") \
	HELPER_LIMITS binds \
		"tmpfs /tmp size 67108864 inodes 32768 mode 1777 owned no\n" \
		"user 1000:100 home /tmp workdir /\n" SESSION("60000", \
			"-1") "setgid no terminal no relay no\n" \
			      "ref bailey/agent:v1 runtime runc nofile 0 caps 0 init no log 0 x 0\n" \
			      "tid  model  deadline 1060000\n" \
			      "env PATH=" PATH "env HOME=/tmp\nenv LANG=C.UTF-8\n" \
			      "command sh\ncommand -c\ncommand (script)\n" words

static void assert_helper(struct git_helper_request *r, const char *script_text, const char *want)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request p;

	if (profile_git_helper(&p, r, &e) < 0)
		fail_msg("%s", e.message);
	assert_string_equal(p.command[2], script_text);
	assert_request(&p, want);
}

static void git_helpers(void **state)
{
	struct git_helper_request r = git_helper(GIT_PROBE);

	(void)state;
	r.repo = directory();
	assert_helper(&r, script_git_probe,
		HELPER("bind /repo kind 0 writable no cow no idmap yes\n", "command probe\n"));
	r = git_helper(GIT_SNAPSHOT);
	r.repo = directory();
	r.git_dir = directory();
	r.shadow = directory();
	assert_helper(&r, script_git_snapshot,
		HELPER("bind /repo kind 0 writable no cow no idmap yes\n"
		       "bind /git kind 0 writable no cow no idmap yes\n"
		       "bind /shadow kind 0 writable yes cow no idmap yes\n",
			"command snapshot\ncommand HEAD\n"));
	r = git_helper(GIT_DELIVER);
	r.repo = directory();
	r.shadow = directory();
	r.branch = "agent/t-1";
	assert_helper(&r, script_git_deliver,
		HELPER("bind /repo kind 0 writable yes cow no idmap yes\n"
		       "bind /shadow kind 0 writable no cow no idmap yes\n",
			"command deliver\ncommand agent/t-1\n"));
	r = git_helper(GIT_DELETE_BRANCH);
	r.repo = directory();
	r.git_dir = directory();
	r.branch = "agent/t-1";
	assert_helper(&r, script_git_delete_branch,
		HELPER("bind /repo kind 0 writable yes cow no idmap yes\n"
		       "bind /git kind 0 writable yes cow no idmap yes\n",
			"command delete-branch\ncommand agent/t-1\n"));
	r = git_helper(GIT_VENV);
	r.venv = directory();
	assert_helper(&r, script_git_venv,
		HELPER("bind /opt/venv kind 0 writable no cow no idmap yes\n", "command venv\n"));
}

#define HANDOFF(user, caps) \
	HEAD("handoff") \
	"memory 268435456 cpu 1000 pids 16 timeout 0 unlimited no\n" \
	"bind /w kind 0 writable yes cow no idmap yes\nonly object 66306:123456789012\n" \
	"user " user " home / workdir /\n" SESSION( \
		"60000", "-1") "setgid no terminal no relay no\n" \
			       "ref bailey/agent:v1 runtime runc nofile 0 caps " caps \
			       " init no log 0 x 0\n" \
			       "tid  model  deadline 1060000\nenv PATH=" PATH "env LANG=C.UTF-8\n" \
			       "command sh\ncommand -c\n"

static void handoffs(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct handoff_request r = handoff();
	struct pack_request p;

	(void)state;
	if (profile_handoff(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	assert_string_equal(p.command[2], script_handoff);
	/* the two lines that change something, exactly */
	assert_non_null(strstr(script_handoff, "\nchown -R -h \"$2\" /w\nchmod -R u+rwX /w\n"));
	assert_request(&p,
		HANDOFF("0:0",
			"b") "command (script)\ncommand handoff\ncommand 66306:123456789012\n"
			     "command 64000:64001\n");
	r = handoff();
	r.same_user = true;
	r.base.uid = r.base.gid = 1000;
	if (profile_handoff(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	assert_request(&p,
		HANDOFF("1000:1000",
			"0") "command echo 'nothing to hand over: sandboxes of this user run with "
			     "its own id'\n\ncommand handoff\n");
}

static void scripts(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct script_request r = script();
	struct pack_request p;

	(void)state;
	if (profile_script(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	assert_request(&p,
		HEAD("script") "memory 2147483648 cpu 1000 pids 256 timeout 0 unlimited no\n"
			       "bind /workspace kind 0 writable no cow no idmap yes\n"
			       "tmpfs /tmp size 67108864 inodes 32768 mode 1777 owned no\n"
			       "user 1000:1000 home /tmp workdir /tmp\n" SESSION("600000",
				       "0") "setgid no terminal no relay no\n"
					    "ref bailey/agent:v1 runtime runsc nofile 0 caps 0 init no log 8388608 x 1\n"
					    "tid  model  deadline 1600000\n"
					    "env PATH=" PATH
					    "env HOME=/tmp\nenv LANG=C.UTF-8\nenv PYTHONDONTWRITEBYTECODE=1\n"
					    "command python3\ncommand /workspace/script.py\n");
	r = script();
	r.language = SCRIPT_BASH;
	assert_int_equal(profile_script(&p, &r, &e), 0);
	assert_string_equal(p.command[0], "bash");
	assert_string_equal(p.command[1], "/workspace/script.sh");
	pack_done(&p);
	r = script();
	r.base.uid = r.base.gid = 0;
	assert_int_equal(profile_script(&p, &r, &e), 0);
	assert_int_equal(p.spec.uid, 1000);
	assert_int_equal(p.spec.gid, 1000);
	pack_done(&p);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void assert_empty(const struct pack_request *p)
{
	assert_null(p->memory);
	assert_null(p->command);
	assert_int_equal(p->spec.image_fd, -1);
	assert_int_equal(p->spec.n_binds, 0);
}

static void refuse_agent(struct agent_request r, enum reason reason)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request p;

	assert_int_equal(profile_agent(&p, &r, &e), -1);
	assert_int_equal(e.reason, reason);
	assert_empty(&p);
	/* the request's still: they can be closed here */
	if (r.worktree >= 0)
		assert_int_equal(close(r.worktree), 0);
	if (r.sockets >= 0)
		assert_int_equal(close(r.sockets), 0);
	assert_int_equal(close(r.base.image_fd), 0);
}

#define REFUSE_AGENT(change, reason) \
	do { \
		struct agent_request r = agent(); \
		change; \
		refuse_agent(r, reason); \
	} while (0)

static void bad_agents(void **state)
{
	static char *const nothing[] = { NULL };
	static char *const unnamed[] = { empty, NULL };
	static char *const shell[] = { bash, claude, NULL };
	static char path[] = "/tmp/claude";
	static char *const by_path[] = { path, NULL };
	static const char too_long[] =
		"a1234567890123456789012345678901234567890123456789012345678901234567890123456789"
		"a1234567890123456789012345678901234567890123456789012345678901234567890123456789";

	(void)state;
	REFUSE_AGENT(r.timeout_ms = 0, R_OUT_OF_RANGE);
	REFUSE_AGENT(r.timeout_ms = PROFILE_AGENT_MAX_MS + 1, R_OUT_OF_RANGE);
	REFUSE_AGENT(r.tid = NULL, R_BAD_VALUE);
	REFUSE_AGENT(r.tid = "../x", R_BAD_VALUE);
	REFUSE_AGENT(r.tid = too_long, R_BAD_VALUE);
	REFUSE_AGENT(r.model = NULL, R_BAD_VALUE);
	REFUSE_AGENT(r.model = "a b", R_BAD_VALUE);
	REFUSE_AGENT(r.model = too_long, R_BAD_VALUE);
	REFUSE_AGENT(r.command = NULL, R_BAD_VALUE);
	REFUSE_AGENT(r.command = nothing, R_BAD_VALUE);
	REFUSE_AGENT(r.command = unnamed, R_BAD_VALUE);
	REFUSE_AGENT(r.command = shell, R_BAD_VALUE);
	REFUSE_AGENT(r.command = by_path, R_BAD_VALUE);
	REFUSE_AGENT((r.base.uid = 0), R_BAD_VALUE);
	REFUSE_AGENT((r.base.gid = 0), R_BAD_VALUE);
	REFUSE_AGENT((close(r.worktree), r.worktree = -1), R_BAD_VALUE);
	REFUSE_AGENT((close(r.sockets), r.sockets = -1), R_BAD_VALUE);
	REFUSE_AGENT(r.base.runtime = "a/b", R_BAD_VALUE);
	REFUSE_AGENT(r.base.runtime = too_long, R_BAD_VALUE);
	REFUSE_AGENT(r.n_env = PROFILE_MAX_TASK_ENV + 1, R_OUT_OF_RANGE);
}

static void bad_variables(void **state)
{
	static char huge[4098];

	(void)state;
	memset(huge, 'a', sizeof huge - 1);
#define REFUSE_ENV(name, value) \
	REFUSE_AGENT((r.env[0] = (struct profile_env){ name, value }, r.n_env = 1), R_BAD_VALUE)
	REFUSE_ENV("PATH", "/workspace/bin");
	REFUSE_ENV("LD_PRELOAD", "/workspace/x.so");
	REFUSE_ENV("ANTHROPIC_BASE_URL", "http://example.org");
	REFUSE_ENV("anthropic_auth_token", "x");
	REFUSE_ENV("ANTHROPIC_AUTH_TOKEN", "a\nLD_PRELOAD=x");
	REFUSE_ENV("ANTHROPIC_AUTH_TOKEN", huge);
	REFUSE_AGENT(
		(r.env[0] = r.env[1] = (struct profile_env){ "AGENT_NO_GUIDE", "1" }, r.n_env = 2),
		R_BAD_VALUE);
}

static void bad_checks(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct check_request r = a_check();
	struct pack_request p;

	(void)state;
	r.command = "";
	assert_int_equal(profile_check(&p, &r, &e), -1);
	r.command = "true";
	r.timeout_ms = PROFILE_CHECK_MAX_MS + 1;
	assert_int_equal(profile_check(&p, &r, &e), -1);
	r.timeout_ms = 1;
	/* the ids of models are an agent's alone */
	r.env[0] = (struct profile_env){ "ANTHROPIC_MODEL", "x" };
	r.n_env = 1;
	assert_int_equal(profile_check(&p, &r, &e), -1);
	r.n_env = 0;
	assert_int_equal(profile_check(&p, &r, &e), 0);
	pack_done(&p);
}

static void refuse_helper(struct git_helper_request r)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request p;

	assert_int_equal(profile_git_helper(&p, &r, &e), -1);
	assert_empty(&p);
	assert_int_equal(
		close_fd(r.repo) + close_fd(r.git_dir) + close_fd(r.shadow) + close_fd(r.venv), -4);
	assert_int_equal(close(r.base.image_fd), 0);
}

#define REFUSE_HELPER(operation, change) \
	do { \
		struct git_helper_request r = git_helper(operation); \
		change; \
		refuse_helper(r); \
	} while (0)

static void bad_git_helpers(void **state)
{
	(void)state;
	REFUSE_HELPER(GIT_PROBE, (void)r);
	REFUSE_HELPER((enum git_operation)GIT_N_OPERATIONS, (void)r);
	REFUSE_HELPER(GIT_PROBE, (r.repo = directory(), r.shadow = directory()));
	REFUSE_HELPER(GIT_PROBE, (r.repo = directory(), r.branch = "agent/a"));
	REFUSE_HELPER(GIT_PROBE, (r.repo = directory(), r.ref = "HEAD"));
	REFUSE_HELPER(GIT_PROBE, (r.repo = directory(), r.timeout_ms = PROFILE_HELPER_MAX_MS + 1));
	REFUSE_HELPER(GIT_SNAPSHOT, r.repo = directory());
	REFUSE_HELPER(GIT_VENV, (r.venv = directory(), r.git_dir = directory()));
#define REFUSE_REF(name) \
	REFUSE_HELPER(GIT_SNAPSHOT, (r.repo = directory(), r.shadow = directory(), r.ref = name))
	REFUSE_REF("");
	REFUSE_REF("-x");
	REFUSE_REF("a..b");
	REFUSE_REF("a b");
	REFUSE_REF("a\nb");
	REFUSE_REF("$(id)");
	REFUSE_REF("/etc");
#define REFUSE_BRANCH(name) \
	REFUSE_HELPER(GIT_DELETE_BRANCH, (r.repo = directory(), r.branch = name))
	REFUSE_BRANCH(NULL);
	REFUSE_BRANCH("main");
	REFUSE_BRANCH("agent/");
	REFUSE_BRANCH("agent/../main");
	REFUSE_BRANCH("agent/a/b");
	REFUSE_BRANCH("refs/heads/agent/a");
}

static void bad_handoffs(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct handoff_request r = handoff();
	struct pack_request p;

	(void)state;
	r.to_uid = 65535;
	assert_int_equal(profile_handoff(&p, &r, &e), -1);
	assert_int_equal(e.reason, R_OUT_OF_RANGE);
	err_done(&e);
	r.to_uid = 0;
	r.ino = 0;
	assert_int_equal(profile_handoff(&p, &r, &e), -1);
	err_done(&e);
	assert_int_equal(close(r.workspace), 0);
	r.workspace = -1;
	r.ino = 5;
	assert_int_equal(profile_handoff(&p, &r, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agent_plain),
		cmocka_unit_test(agent_with_all),
		cmocka_unit_test(check_plain),
		cmocka_unit_test(git_helpers),
		cmocka_unit_test(handoffs),
		cmocka_unit_test(scripts),
		cmocka_unit_test(bad_agents),
		cmocka_unit_test(bad_variables),
		cmocka_unit_test(bad_checks),
		cmocka_unit_test(bad_git_helpers),
		cmocka_unit_test(bad_handoffs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
