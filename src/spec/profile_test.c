/* Golden tests of the profiles: every field of the spec that a request becomes, as text. */
#include "spec/profile.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "spec/describe_for_test.h"

static char command[] = "make", target[] = "all", mode[] = "MODE=fast", path[] = "PATH=/opt/bin";
static char term[] = "TERM=xterm";
static char *const argv[] = { command, target, NULL };
static char *const env[] = { mode, path };

static struct run_request request(void)
{
	return (struct run_request){ .argv = argv,
		.image_fd = -1,
		.image_lock_fd = -1,
		.limits = { .memory_bytes = 2ull << 30,
			.cpu_millis = 1000,
			.pids = 256,
			.timeout_ms = 5000 },
		.tmp_size = 64 << 20,
		.disk_bytes = 1 << 30,
		.uid = 1000,
		.gid = 100 };
}

static void add_bind(struct run_request *r, const char *to, bool writable, bool cow)
{
	struct spec_bind *b = &r->binds[r->n_binds++];

	*b = (struct spec_bind){
		.fd = open("/", O_PATH | O_CLOEXEC), .writable = writable, .cow = cow, .idmap = true
	};
	FMT(b->target, "%s", to);
}

typedef int profile_fn(struct sandbox_spec *, struct run_request *, char ***, struct err *);

static void assert_spec(profile_fn *profile, struct run_request *r, const char *want)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_spec_ struct sandbox_spec s;
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_free_ char **strings = NULL;

	spec_init(&s);
	if (profile(&s, r, &strings, &e) < 0)
		fail_msg("%s", e.message);
	describe(&s, &text);
	assert_string_equal(text.data, want);
	/* what moved in is no longer the request's to close */
	assert_int_equal(r->n_binds, 0);
	assert_int_equal(r->image_fd, -1);
}

static void assert_refused(profile_fn *profile, struct run_request *r, enum reason reason)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_spec_ struct sandbox_spec s;
	char **strings = NULL;

	spec_init(&s);
	assert_int_equal(profile(&s, r, &strings, &e), -1);
	assert_int_equal(e.reason, reason);
	assert_null(strings);
	for (unsigned i = 0; i < r->n_binds; i++)
		close_fd(r->binds[i].fd);
}

#define LIMITS(timeout) "memory 2147483648 cpu 1000 pids 256 timeout " timeout " unlimited no\n"
#define OUR_ENV \
	"env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" \
	"env HOME=/home/agent\nenv LANG=C.UTF-8\n"
#define TMPFS(at, mode) "tmpfs " at " size 67108864 inodes 32768 mode " mode " owned yes\n"

static void run_plain(void **state)
{
	struct run_request r = request();

	(void)state;
	r.disk_bytes = 0;
	assert_spec(profile_run, &r,
		"version 3 profile run\nhost name bailey\nimage no, lock no\n" LIMITS("5000") TMPFS(
			"/tmp", "1777") TMPFS("/home/agent", "700") TMPFS("/dev/shm",
			"1777") "user 1000:100 home /home/agent workdir /home/agent\n"
				"session no read-only no disk 0 ttl 0 workspace -1 print no 00\n"
				"setgid no terminal no relay no\nargument make\nargument all\n" OUR_ENV);
}

static void run_with_all(void **state)
{
	struct run_request r = request();

	(void)state;
	add_bind(&r, "/workspace", true, false);
	add_bind(&r, "/data", false, false);
	r.has_workspace = r.terminal = r.allow_setgid = r.model_relay = true;
	r.image_fd = open("/", O_PATH | O_CLOEXEC);
	r.image_lock_fd = open("/", O_PATH | O_CLOEXEC);
	r.term = term;
	r.env = env;
	r.n_env = 2;
	assert_spec(profile_run, &r,
		"version 3 profile run\nhost name bailey\nimage yes, lock yes\n" LIMITS(
			"5000") "bind /workspace kind 0 writable yes cow no idmap yes\n"
				"bind /data kind 0 writable no cow no idmap yes\n" TMPFS("/tmp",
					"1777") TMPFS("/home/agent", "700") TMPFS("/dev/shm",
					"1777") "user 1000:100 home /home/agent workdir /workspace\n"
						"session no read-only no disk 0 ttl 0 workspace 0 print no 00\n"
						"setgid yes terminal yes relay yes\nargument make\nargument all\n"
						"env PATH=/opt/bin\nenv HOME=/home/agent\nenv LANG=C.UTF-8\n"
						"env ANTHROPIC_BASE_URL=http://127.0.0.1:4000\n"
						"env OPENAI_BASE_URL=http://127.0.0.1:4000/v1\n"
						"env OPENAI_API_BASE=http://127.0.0.1:4000/v1\n"
						"env GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000\n"
						"env GROK_MODELS_BASE_URL=http://127.0.0.1:4000/v1\n"
						"env TERM=xterm\nenv MODE=fast\n");
}

static void create_plain(void **state)
{
	struct run_request r = request();

	(void)state;
	r.ttl_ms = 60000;
	r.terminal = true; /* each command of a session has its own, or none */
	assert_spec(profile_create, &r,
		"version 3 profile create\nhost name the id\nimage no, lock no\n" LIMITS("0") TMPFS(
			"/tmp", "1777") TMPFS("/dev/shm",
			"1777") "user 1000:100 home /home/agent workdir /workspace\n"
				"session yes read-only no disk 1073741824 ttl 60000 workspace -1 print no 00\n"
				"setgid no terminal no relay no\n" OUR_ENV);
}

static void create_read_only(void **state)
{
	struct run_request r = request();

	(void)state;
	r.read_only = true;
	assert_spec(profile_create, &r,
		"version 3 profile create\nhost name the id\nimage no, lock no\n" LIMITS("0") TMPFS(
			"/tmp", "1777") TMPFS("/dev/shm", "1777") TMPFS("/home/agent",
			"700") TMPFS("/workspace",
			"755") "user 1000:100 home /home/agent workdir /workspace\n"
			       "session yes read-only yes disk 0 ttl 0 workspace -1 print no 00\n"
			       "setgid no terminal no relay no\n" OUR_ENV);
}

static void create_copy_on_write(void **state)
{
	struct run_request r = request();
	uint8_t print[SPEC_PRINT_LEN];

	(void)state;
	memset(print, 0xab, sizeof print);
	add_bind(&r, "/workspace", false, true);
	r.has_workspace = r.read_only = true;
	r.workspace_print = print;
	assert_spec(profile_create, &r,
		"version 3 profile create\nhost name the id\nimage no, lock no\n" LIMITS(
			"0") "bind /workspace kind 0 writable no cow yes idmap yes\n" TMPFS("/tmp",
			"1777") TMPFS("/dev/shm", "1777") TMPFS("/home/agent",
			"700") "user 1000:100 home /home/agent workdir /workspace\n"
			       "session yes read-only yes disk 1073741824 ttl 0 workspace 0 print yes ab\n"
			       "setgid no terminal no relay no\n" OUR_ENV);
}

static void bad_sessions(void **state)
{
	struct run_request r = request();

	(void)state;
	r.disk_bytes = (1 << 20) - 1;
	assert_refused(profile_create, &r, R_OUT_OF_RANGE);
	r = request();
	r.disk_bytes = (1ull << 40) + 1;
	assert_refused(profile_create, &r, R_OUT_OF_RANGE);
	r = request();
	r.ttl_ms = 366ull * 86400000 + 1;
	assert_refused(profile_create, &r, R_OUT_OF_RANGE);
	r = request();
	add_bind(&r, "/workspace", true, true);
	assert_refused(profile_create, &r, R_BAD_VALUE);
	r = request();
	add_bind(&r, "/a", false, true);
	add_bind(&r, "/b", false, true);
	assert_refused(profile_create, &r, R_BAD_VALUE);
	r = request();
	add_bind(&r, "/workspace", false, true);
	r.binds[0].kind = BIND_SOCKET;
	assert_refused(profile_create, &r, R_BAD_VALUE);
	/* one command has no layer to write to */
	r = request();
	add_bind(&r, "/workspace", false, true);
	assert_refused(profile_run, &r, R_BAD_VALUE);
	r = request();
	r.workdir = "/proc/self";
	assert_refused(profile_create, &r, R_MOUNT_TARGET_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_plain),
		cmocka_unit_test(run_with_all),
		cmocka_unit_test(create_plain),
		cmocka_unit_test(create_read_only),
		cmocka_unit_test(create_copy_on_write),
		cmocka_unit_test(bad_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
