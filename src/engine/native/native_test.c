/* The native engine driven in-process: refusals that no command line can produce on purpose, and what they leave. */
#include "engine/native/native.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/str.h"
#include "spec/profile.h"

enum { NOBODY = 65534, SKIPPED = 77 };

struct outcome {
	enum reason reason;
	enum engine_event_kind kind;
	int value;
};

/* Makes, starts and removes one sandbox that runs /usr/bin/true, with one directory shown read-only. */
static struct outcome run_with(int bind_fd, bool idmap)
{
	char command[] = "/usr/bin/true", *argv[] = { command, NULL };
	struct run_request req = { .argv = argv,
		.image_fd = -1,
		.n_binds = bind_fd >= 0,
		.tmp_size = 1 << 20,
		.uid = 1000,
		.gid = 1000,
		.limits = { .memory_bytes = 64 << 20,
			.cpu_millis = 1000,
			.pids = 8,
			.unlimited = true } };
	struct engine_env env = { .guest = BAILEY_GUEST,
		.home_hash = "0badcafe",
		.ids_base = 0x70000000,
		.ids_count = 64 };
	/* given to the workload: never a file of the host */
	int output = memfd_create("output", MFD_CLOEXEC);
	const struct engine_io io = { { -1, output, output } };
	struct outcome out = { REASON_NONE, ENGINE_NOTHING, -1 };
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char **strings = NULL;
	_cleanup_spec_ struct sandbox_spec spec;
	struct engine_event ev = { ENGINE_NOTHING, 0 };
	struct engine *engine = NULL;
	struct sandbox *sb = NULL;

	spec_init(&spec);
	req.binds[0] = (struct spec_bind){ .fd = bind_fd, .idmap = idmap, .target = "/mnt" };
	if (profile_run(&spec, &req, &strings, &e) == 0 &&
		engine_native.open(&engine, &env, &e) == 0 &&
		engine_native.create(engine, &spec, &io, &sb, &e) == 0 &&
		engine_native.start(sb, &e) == 0) {
		while (ev.kind != ENGINE_EXITED && ev.kind != ENGINE_CLOSED) {
			struct pollfd p = { .fd = engine_native.channel(sb), .events = POLLIN };

			(void)poll(&p, 1, 10000);
			if (engine_native.next(sb, &ev, &e) < 0)
				break;
		}
	}
	out.reason = e.reason;
	out.kind = ev.kind;
	out.value = ev.value;
	engine_native.free(sb);
	engine_native.close(engine);
	close_fd(output);
	return out;
}

/* Runs f in a child, as nobody when we are root; its exit status. */
static int as_user(int (*f)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		/* a process that changed its ids owns its /proc entries only when it is dumpable again */
		if (geteuid() == 0 &&
			(setgid(NOBODY) < 0 || setuid(NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
			_exit(99);
		_exit(f());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int plain_run(void)
{
	struct outcome o = run_with(-1, false);

	if (o.reason == R_USERNS_UNAVAILABLE)
		return SKIPPED;
	return o.reason == REASON_NONE && o.kind == ENGINE_EXITED && o.value == 0 ? 0 : 1;
}

static int removed_source(void)
{
	char dir[] = "/tmp/bailey-test-XXXXXX";
	int fd;

	if (!mkdtemp(dir))
		return 97;
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || rmdir(dir) < 0)
		return 97;
	return run_with(fd, false).reason == reason_by_name("mount_source_changed") ? 0 : 1;
}

static void a_user_can_run_one(void **state)
{
	(void)state;
	assert_int_equal(as_user(plain_run), 0);
}

static void a_source_that_is_another_object_now_is_refused(void **state)
{
	(void)state;
	assert_int_equal(as_user(removed_source), 0);
}

static void a_file_system_without_idmapped_mounts_is_refused(void **state)
{
	int fd = open("/proc/self/fdinfo", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(run_with(fd, true).reason, reason_by_name("idmap_unsupported"));
}

static void nothing_is_left_open(void **state)
{
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC), after;

	(void)state;
	close_fd(before);
	(void)run_with(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), true);
	(void)run_with(-1, false);
	after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(before, after);
	close_fd(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_user_can_run_one),
		cmocka_unit_test(a_source_that_is_another_object_now_is_refused),
		cmocka_unit_test(a_file_system_without_idmapped_mounts_is_refused),
		cmocka_unit_test(nothing_is_left_open),
	};
	int plain = as_user(plain_run);

	return plain == SKIPPED ? SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
