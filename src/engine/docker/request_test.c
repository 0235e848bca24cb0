/* The whole create request of each profile against a file of golden/ (BAILEY_GOLDEN_WRITE=1 writes them anew), and what reading
 * a container back finds. */
#include "engine/docker/request.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "spec/profile.h"

#define ID "b0123456789abcdef"

static char *word(const char *s)
{
	union {
		const char *in;
		char *out;
	} u = { .in = s };

	return u.out;
}

static struct request_facts facts(void)
{
	struct request_facts f = { .home_hash = "0badcafe",
		.image = "test/image:1",
		.guest = "/opt/bailey/bailey-guest",
		.ctl = "/srv/u/.bailey/sandbox/runs/" ID "/ctl" };

	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		f.binds[i] = i == 0 ? "/srv/first" : i == 1 ? "/srv/second" : "/srv/third";
	return f;
}

static int a_directory(void)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* --- golden files --- */

static void against_file(const char *name, const json_t *o)
{
	char *now = json_dumps(o, JSON_INDENT(1) | JSON_SORT_KEYS);
	char path[512];
	static char was[64 << 10];

	assert_non_null(now);
	FMT(path, "%s/%s.json", GOLDEN, name);
	if (getenv("BAILEY_GOLDEN_WRITE")) {
		FILE *f = fopen(path, "we");

		assert_non_null(f);
		assert_true(fprintf(f, "%s\n", now) > 0);
		assert_int_equal(fclose(f), 0);
	}
	assert_true(read_file_at(AT_FDCWD, path, was, sizeof was) > 0);
	was[strcspn(was, "\0")] = '\0';
	if (strlen(was) && was[strlen(was) - 1] == '\n')
		was[strlen(was) - 1] = '\0';
	assert_string_equal(now, was);
	free(now);
}

static void check(const char *name, struct pack_request *p, struct request_facts *f)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_json_ json_t *o = NULL;

	str_format(p->spec.id, sizeof p->spec.id, "%s", ID);
	str_format(p->spec.hostname, sizeof p->spec.hostname, "%s", ID);
	if (!f->command)
		f->command = p->command;
	o = request_create(&p->spec, f, &e);
	if (!o)
		fail_msg("%s", e.message);
	against_file(name, o);
	pack_done(p);
}

static struct run_request run_request(void)
{
	static char make[] = "make", mode[] = "MODE=fast";
	static char *argv[] = { make, NULL }, *env[] = { mode };

	return (struct run_request){ .argv = argv,
		.env = env,
		.n_env = 1,
		.image_fd = -1,
		.image_lock_fd = -1,
		.limits = { .memory_bytes = 2ull << 30, .cpu_millis = 1500, .pids = 256 },
		.tmp_size = 64u << 20,
		.disk_bytes = 1u << 30,
		.uid = 1000,
		.gid = 1000 };
}

static void create_plain(void **state)
{
	struct run_request r = run_request();
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();
	_cleanup_free_ char **env = NULL;

	(void)state;
	assert_int_equal(profile_create(&p.spec, &r, &env, &e), 0);
	check("create", &p, &f);
}

static void create_all(void **state)
{
	struct run_request r = run_request();
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();
	_cleanup_free_ char **env = NULL;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		r.binds[i] = (struct spec_bind){
			.fd = a_directory(), .writable = i == 1, .cow = i == 0
		};
		FMT(r.binds[i].target, "%s", i == 0 ? "/workspace" : i == 1 ? "/data" : "/ro");
	}
	r.n_binds = 3;
	r.has_workspace = r.allow_setgid = r.model_relay = true;
	r.ttl_ms = 60000;
	f.cow_volume = "bailey-0badcafe-" ID "-cow";
	f.runtime = "runsc";
	f.storage_size = true;
	assert_int_equal(profile_create(&p.spec, &r, &env, &e), 0);
	p.spec.deadline_ms = 1800000000000;
	check("create-all", &p, &f);
}

static void create_podman(void **state)
{
	struct run_request r = run_request();
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();
	_cleanup_free_ char **env = NULL;

	(void)state;
	r.read_only = r.limits.unlimited = true;
	f.podman = true;
	assert_int_equal(profile_create(&p.spec, &r, &env, &e), 0);
	check("create-podman", &p, &f);
}

static struct profile_base base(void)
{
	return (struct profile_base){ .image_fd = -1,
		.image_lock_fd = -1,
		.image_ref = "bailey/agent:v1",
		.uid = 64000,
		.gid = 64000,
		.now_ms = 1800000000000 };
}

static void agent(void **state)
{
	char *command[] = { word("claude"), word("-p"), word("do it"), NULL };
	struct agent_request r = { .base = base(),
		.tid = "t-1",
		.model = "glm-5",
		.command = command,
		.env = { { "ANTHROPIC_AUTH_TOKEN", "not a secret" },
			{ "MAX_THINKING_TOKENS", "1000" } },
		.n_env = 2,
		.timeout_ms = 4 * 3600000ull,
		.worktree = a_directory(),
		.sockets = a_directory(),
		.venv = a_directory() };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();

	(void)state;
	assert_int_equal(profile_agent(&p, &r, &e), 0);
	check("agent", &p, &f);
}

static void agent_gvisor(void **state)
{
	char *command[] = { word("codex"), NULL };
	struct agent_request r = { .base = base(),
		.tid = "t-2",
		.model = "m",
		.command = command,
		.timeout_ms = 1000,
		.worktree = a_directory(),
		.sockets = a_directory(),
		.venv = -1 };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();

	(void)state;
	f.runtime = "runsc";
	assert_int_equal(profile_agent(&p, &r, &e), 0);
	check("agent-gvisor", &p, &f);
}

static void task_check(void **state)
{
	struct check_request r = { .base = base(),
		.tid = "t-1",
		.command = "make test",
		.timeout_ms = 3600000ull,
		.worktree = a_directory(),
		.venv = -1 };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();

	(void)state;
	assert_int_equal(profile_check(&p, &r, &e), 0);
	check("check", &p, &f);
}

/* The scripts have tests of their own and change with them: what they are is left out here. */
static char *const scripted[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "(a script)" },
	NULL };

static void git_helper(void **state)
{
	struct git_helper_request r = { .base = base(),
		.operation = GIT_SNAPSHOT,
		.tid = "t-1",
		.timeout_ms = 60000,
		.repo = a_directory(),
		.git_dir = a_directory(),
		.shadow = a_directory(),
		.venv = -1 };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();

	(void)state;
	r.base.uid = 1234;
	r.base.gid = 1235;
	if (profile_git_helper(&p, &r, &e) < 0)
		fail_msg("%s", e.message);
	f.command = scripted;
	f.runtime = p.spec.runtime;
	check("git-helper", &p, &f);
}

static void handoff(void **state)
{
	struct handoff_request r = { .base = base(),
		.tid = "t-1",
		.timeout_ms = 60000,
		.workspace = a_directory(),
		.dev = 1,
		.ino = 2,
		.to_uid = 1234,
		.to_gid = 1235 };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();

	(void)state;
	assert_int_equal(profile_handoff(&p, &r, &e), 0);
	f.command = scripted;
	f.runtime = p.spec.runtime;
	check("handoff", &p, &f);
}

static void script(void **state)
{
	struct script_request r = { .base = base(),
		.language = SCRIPT_PYTHON,
		.timeout_ms = 60000,
		.script = a_directory() };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();

	(void)state;
	assert_int_equal(profile_script(&p, &r, &e), 0);
	check("script", &p, &f);
}

/* --- refusals --- */

static void without_a_source(void **state)
{
	struct run_request r = run_request();
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_spec_ struct sandbox_spec s;
	struct request_facts f = facts();
	_cleanup_free_ char **env = NULL;

	(void)state;
	spec_init(&s);
	r.binds[0] = (struct spec_bind){ .fd = a_directory(), .target = "/data" };
	r.n_binds = 1;
	assert_int_equal(profile_create(&s, &r, &env, &e), 0);
	f.binds[0] = NULL;
	assert_null(request_create(&s, &f, &e));
	assert_int_equal(e.reason, R_SETUP_FAILED);
	err_done(&e);
	f = facts();
	f.image = "";
	assert_null(request_create(&s, &f, &e));
	assert_int_equal(e.reason, R_BAD_VALUE);
}

/* --- reading back --- */

/* As a daemon answers: what was asked, with what it adds by itself. */
static json_t *echo(const json_t *asked)
{
	json_t *config = json_deep_copy(asked),
	       *host = json_deep_copy(json_object_get(asked, "HostConfig"));
	json_t *answer, *env = json_object_get(config, "Env"), *mounts = json_array();
	size_t i;
	const json_t *one;

	(void)json_object_del(config, "HostConfig");
	(void)json_array_append_new(env, json_pack("s", "PATH=/of/the/image"));
	(void)json_object_set_new(
		json_object_get(config, "Labels"), "of.the.image", json_pack("s", "x"));
	(void)json_object_set_new(host, "CapAdd",
		json_pack("[ssss]", "CAP_SETUID", "CAP_KILL", "CAP_SETGID", "CAP_SETPCAP"));
	(void)json_object_set_new(host, "Runtime", json_pack("s", "runc"));
	(void)json_object_set_new(host, "OomScoreAdj", json_integer(0));
	json_array_foreach(json_object_get(host, "Mounts"), i, one)(void) json_array_append_new(
		mounts, json_pack("{ss}", "Destination", docker_json_text(one, "Target")));
	answer = json_pack("{so so so}", "Config", config, "HostConfig", host, "Mounts", mounts);
	assert_non_null(answer);
	return answer;
}

struct change {
	const char *path; /* of two or three words, by dots */
	const char *value;
	enum reason reason;
};

static void set(json_t *o, const char *path, const char *value)
{
	char words[128], *save = NULL, *key;
	json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);

	FMT(words, "%s", path);
	key = strtok_r(words, ".", &save);
	for (char *next; (next = strtok_r(NULL, ".", &save)); key = next)
		o = json_object_get(o, key);
	assert_non_null(v);
	assert_int_equal(json_object_set_new(o, key, v), 0);
}

static void what_differs_is_found(void **state)
{
	static const struct change changes[] = {
		{ "HostConfig.Memory", "0", R_LIMITS_UNENFORCED },
		{ "HostConfig.Memory", "2147483649", R_LIMITS_UNENFORCED },
		{ "HostConfig.MemorySwap", "-1", R_LIMITS_UNENFORCED },
		{ "HostConfig.NanoCpus", "0", R_LIMITS_UNENFORCED },
		{ "HostConfig.PidsLimit", "null", R_LIMITS_UNENFORCED },
		{ "HostConfig.ShmSize", "1", R_LIMITS_UNENFORCED },
		{ "HostConfig.Tmpfs", "{}", R_LIMITS_UNENFORCED },
		{ "HostConfig.NetworkMode", "\"bridge\"", R_SETUP_FAILED },
		{ "HostConfig.Privileged", "true", R_SETUP_FAILED },
		{ "HostConfig.CapDrop", "null", R_SETUP_FAILED },
		{ "HostConfig.CapAdd", "[\"KILL\",\"SETGID\",\"SETPCAP\",\"SYS_ADMIN\"]",
			R_SETUP_FAILED },
		{ "HostConfig.CapAdd", "[\"KILL\",\"SETGID\",\"SETPCAP\",\"SETUID\",\"CHOWN\"]",
			R_SETUP_FAILED },
		{ "HostConfig.SecurityOpt", "[]", R_SETUP_FAILED },
		{ "HostConfig.SecurityOpt", "[\"no-new-privileges:true\",\"seccomp=unconfined\"]",
			R_SETUP_FAILED },
		{ "HostConfig.IpcMode", "\"host\"", R_SETUP_FAILED },
		{ "HostConfig.Mounts", "[]", R_SETUP_FAILED },
		{ "Config.User", "\"\"", R_SETUP_FAILED },
		{ "Config.Entrypoint", "[\"/bin/sh\"]", R_SETUP_FAILED },
		{ "Config.Cmd", "[\"-c\"]", R_SETUP_FAILED },
		{ "Config.Env", "[]", R_SETUP_FAILED },
		{ "Config.Labels", "{}", R_SETUP_FAILED },
		{ "Config.Hostname", "\"other\"", R_SETUP_FAILED },
		{ "Config.Healthcheck", "null", R_SETUP_FAILED },
		{ "Mounts",
			"[{\"Destination\":\"/run/bailey\"},{\"Destination\":\"/run/bailey-guest\"},"
			"{\"Destination\":\"/data\"}]",
			R_SETUP_FAILED },
		{ "HostConfig", "null", R_SETUP_FAILED },
	};
	struct run_request r = run_request();
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_spec_ struct sandbox_spec s;
	struct request_facts f = facts();
	_cleanup_free_ char **env = NULL;
	_cleanup_json_ json_t *asked = NULL, *same = NULL;

	(void)state;
	spec_init(&s);
	assert_int_equal(profile_create(&s, &r, &env, &e), 0);
	asked = request_create(&s, &f, &e);
	assert_non_null(asked);
	same = echo(asked);
	if (request_compare(asked, same, false, &e) < 0)
		fail_msg("%s", e.message);
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		_cleanup_json_ json_t *other = json_deep_copy(same);

		set(other, changes[i].path, changes[i].value);
		if (request_compare(asked, other, false, &e) == 0 || e.reason != changes[i].reason)
			fail_msg("%s %s: %s", changes[i].path, changes[i].value,
				e.message ? e.message : "not found");
		err_done(&e);
	}
}

/* Docker leaves "ReadOnly" out of a mount that is not. */
static void a_writable_mount_is_found(void **state)
{
	struct check_request r = { .base = base(),
		.tid = "t-1",
		.command = "true",
		.timeout_ms = 1000,
		.worktree = a_directory(),
		.venv = a_directory() };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_json_ json_t *asked = NULL, *answer = NULL;
	struct request_facts f = facts();
	json_t *mounts;

	(void)state;
	assert_int_equal(profile_check(&p, &r, &e), 0);
	asked = request_create(&p.spec, &f, &e);
	answer = echo(asked);
	assert_int_equal(json_object_set_new(
				 json_object_get(answer, "HostConfig"), "CapAdd", json_pack("n")),
		0);
	mounts = json_object_get(json_object_get(answer, "HostConfig"), "Mounts");
	assert_int_equal(json_object_del(json_array_get(mounts, 2), "ReadOnly"), 0);
	if (request_compare(asked, answer, false, &e) < 0)
		fail_msg("%s", e.message);
	/* but not out of one that was to be read-only */
	assert_int_equal(json_object_del(json_array_get(mounts, 3), "ReadOnly"), 0);
	assert_int_equal(request_compare(asked, answer, false, &e), -1);
	assert_int_equal(e.reason, R_SETUP_FAILED);
	pack_done(&p);
}

static void more_cpus_than_there_are(void **state)
{
	struct run_request r = run_request();
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_spec_ struct sandbox_spec s;
	_cleanup_free_ char **env = NULL;
	struct request_facts f = facts();

	(void)state;
	spec_init(&s);
	assert_int_equal(profile_create(&s, &r, &env, &e), 0);
	s.limits.cpu_millis = 2000;
	f.cpus = 2;
	for (int i = 0; i < 2; i++) {
		_cleanup_json_ json_t *asked = request_create(&s, &f, &e);
		const json_t *host = json_object_get(asked, "HostConfig");

		assert_int_equal(
			json_integer_value(json_object_get(host, "NanoCpus")), i ? 0 : 2000000000);
		assert_int_equal(
			json_integer_value(json_object_get(host, "CpuQuota")), i ? 200100 : 0);
		assert_int_equal(
			json_integer_value(json_object_get(host, "CpuPeriod")), i ? 100000 : 0);
		s.limits.cpu_millis = 2001;
	}
}

static void podman_is_told_of_processes(void **state)
{
	struct check_request r = { .base = base(),
		.tid = "t-1",
		.command = "true",
		.timeout_ms = 1000,
		.worktree = a_directory(),
		.venv = -1 };
	struct pack_request p = { .command = NULL };
	_cleanup_err_ struct err e = ERR_INIT;
	struct request_facts f = facts();

	(void)state;
	assert_int_equal(profile_check(&p, &r, &e), 0);
	for (int i = 0; i < 2; i++) {
		_cleanup_json_ json_t *asked = request_create(&p.spec, &f, &e);
		const json_t *limits =
			json_object_get(json_object_get(asked, "HostConfig"), "Ulimits");
		const json_t *second = json_array_get(limits, 1);

		assert_int_equal(json_array_size(limits), i + 1);
		assert_int_equal(
			json_integer_value(json_object_get(second, "Hard")), i ? 16384 : 0);
		f.podman = true;
	}
	pack_done(&p);
}

static void checks(void **state)
{
	struct run_request r = run_request();
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_spec_ struct sandbox_spec s;
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_free_ char **env = NULL;

	(void)state;
	spec_init(&s);
	r.read_only = true;
	r.binds[0] = (struct spec_bind){
		.fd = a_directory(), .target = "/d a", .has_object = true, .dev = 7, .ino = 9
	};
	r.n_binds = 1;
	assert_int_equal(profile_create(&s, &r, &env, &e), 0);
	assert_int_equal(request_checks(&s, true, false, &out), 0);
	assert_string_equal(out.data,
		"tmpfs 1777 1000 1000 /tmp\ntmpfs 700 1000 1000 /home/agent\n"
		"tmpfs 755 1000 1000 /workspace\nobject 7 9 /d a\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create_plain),
		cmocka_unit_test(create_all),
		cmocka_unit_test(create_podman),
		cmocka_unit_test(agent),
		cmocka_unit_test(agent_gvisor),
		cmocka_unit_test(task_check),
		cmocka_unit_test(git_helper),
		cmocka_unit_test(handoff),
		cmocka_unit_test(script),
		cmocka_unit_test(without_a_source),
		cmocka_unit_test(what_differs_is_found),
		cmocka_unit_test(a_writable_mount_is_found),
		cmocka_unit_test(more_cpus_than_there_are),
		cmocka_unit_test(podman_is_told_of_processes),
		cmocka_unit_test(checks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
