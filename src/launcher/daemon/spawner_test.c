/* Tests of the spawner by the launcher that it must not trust: this program speaks to it as one that somebody has taken over.
 * The engine is a script that notes how it was started. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher/daemon/daemon.h"
#include "wire/wire.h"

enum { WAIT_MS = 5000, ME = 4321 };

static char root[] = "/tmp/spawner_test.XXXXXX";
static char home[64], noted[64], ceiling[64];
static struct daemon_options options;
static int sock, answer;
static pid_t spawner;
static struct err e;

static void put_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, text, strlen(text)), 0);
	(void)fchmod(fd, mode);
	(void)close_fd(fd);
}

static int group_setup(void **state)
{
	char path[96], text[256];

	(void)state;
	if (!mkdtemp(root) || setenv("BAILEY_LIBEXEC", root, 1) < 0)
		return -1;
	FMT(home, "%s/home", root);
	FMT(noted, "%s/noted", root);
	FMT(ceiling, "%s/ceiling", root);
	FMT(text,
		"#!/bin/sh\nexec >>%s\necho \"$0 $*\"\necho \"home $BAILEY_HOME\"\n"
		"[ ! -e /proc/self/fd/5 ] || echo 'another descriptor'\n[ \"$1\" != run-for ] || cat <&3 >/dev/null\necho done\n",
		noted);
	put_file(FMT(path, "%s/bailey-engine-native", root), text, 0755);
	put_file(FMT(path, "%s/bailey-engine-docker", root), text, 0755);
	put_file(ceiling, "max-memory 1g\nmax-lifetime 1h\nprofiles create agent\n", 0600);
	options = (struct daemon_options){ .ceiling = ceiling, .uids = { ME }, .n_uids = 1 };
	return 0;
}

static int group_teardown(void **state)
{
	pid_t pid = fork();
	int status = 1;

	(void)state;
	if (pid == 0) {
		(void)execlp("rm", "rm", "-r", root, NULL);
		_exit(1);
	}
	(void)waitpid(pid, &status, 0);
	return status;
}

static int setup(void **state)
{
	int pair[2];

	(void)state;
	(void)unlink(noted);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	sock = pair[0];
	spawner = fork();
	if (spawner == 0) {
		(void)close_fd(pair[0]);
		spawner_run(pair[1], &options, home);
	}
	(void)close_fd(pair[1]);
	return spawner < 0;
}

static int teardown(void **state)
{
	(void)state;
	sock = close_fd(sock);
	answer = close_fd(answer);
	(void)kill(spawner, SIGKILL);
	(void)waitpid(spawner, NULL, 0);
	err_done(&e);
	return 0;
}

static struct pack_request request(void)
{
	struct pack_request r = { .keep = true };

	spec_init(&r.spec);
	r.spec.profile = SPEC_CREATE;
	r.spec.session = true;
	assert_int_equal(spec_new_id(r.spec.id, &e), 0);
	FMT(r.spec.hostname, "h");
	FMT(r.spec.home, "/home/agent");
	FMT(r.spec.workdir, "/workspace");
	r.spec.uid = r.spec.gid = 1000;
	r.spec.limits =
		(struct spec_limits){ .memory_bytes = 64 << 20, .cpu_millis = 500, .pids = 32 };
	r.spec.disk_bytes = 16 << 20;
	r.spec.ttl_ms = 60000;
	r.spec.has_caller = true;
	r.spec.caller_uid = r.spec.caller_gid = ME;
	FMT(r.image, "host");
	return r;
}

static void ask(const struct spawn_message *m, const struct pack_request *r)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	answer = pair[0];
	assert_int_equal(spawn_send(sock, m, pair[1]), 0);
	assert_int_equal(pack_send(sock, r, &e), 0);
	(void)close_fd(pair[1]);
}

static struct spawn_message message(void)
{
	return (struct spawn_message){
		.magic = SPAWN_MAGIC, .op = SPAWN_RUN, .uid = ME, .gid = ME
	};
}

/* The reason in the answer; "" when there is none. */
static const char *refusal(void)
{
	static char text[4096];
	struct pollfd p = { .fd = answer, .events = POLLIN };
	struct wire_result m;
	struct wire_frame f;
	size_t used;
	ssize_t n;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	n = read(answer, text, sizeof text);
	if (n <= 0)
		return "";
	assert_int_equal(
		wire_parse((uint8_t *)text, (size_t)n, WIRE_FROM_ENGINE, &f, &used), WIRE_OK);
	assert_true(wire_get_result(&f, &m));
	assert_true(m.flags & WIRE_RESULT_REASON);
	return (const char *)m.rest;
}

/* What the engine noted, when it has ended. */
static const char *notes(void)
{
	static char text[4096];

	for (int i = 0; i < WAIT_MS / 10; i++) {
		if (read_file_at(AT_FDCWD, noted, text, sizeof text) > 0 && strstr(text, "done\n"))
			return text;
		(void)usleep(10000);
	}
	return "";
}

static void assert_nothing_started(void)
{
	(void)usleep(100000);
	assert_int_equal(access(noted, F_OK), -1);
}

static void test_starts(void **state)
{
	struct pack_request r = request();
	const struct spawn_message m = message();
	char want[256];
	struct stat st;

	(void)state;
	ask(&m, &r);
	FMT(want, "%s/bailey-engine-native run-for\nhome %s/users/%d\ndone\n", root, home, ME);
	assert_string_equal(notes(), want);
	FMT(want, "%s/users/%d/sandbox", home, ME);
	assert_int_equal(stat(want, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	FMT(want, "%s/users", home);
	assert_int_equal(stat(want, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	/* the engine reads its request and is ended: nobody waits for ever */
	assert_string_equal(refusal(), "");
}

static void test_sweeps_and_kills(void **state)
{
	struct spawn_message m = message();
	char want[256];

	(void)state;
	m.op = SPAWN_KILL;
	FMT(m.id, "b0123456789abcdef");
	assert_int_equal(spawn_send(sock, &m, -1), 0);
	FMT(want, "%s/bailey-engine-native kill b0123456789abcdef\n", root);
	assert_non_null(strstr(notes(), want));
	(void)unlink(noted);
	m = message();
	m.op = SPAWN_SWEEP;
	assert_int_equal(spawn_send(sock, &m, -1), 0);
	FMT(want, "%s/bailey-engine-native sweep\n", root);
	assert_non_null(strstr(notes(), want));
}

#define TRY(reason, ...) \
	do { \
		struct pack_request r = request(); \
		struct spawn_message m = message(); \
		__VA_ARGS__; \
		ask(&m, &r); \
		assert_string_equal(refusal(), reason); \
		answer = close_fd(answer); \
		pack_done(&r); \
	} while (0)

/* What a launcher could say that its clients may not have. */
static void test_beyond_the_ceiling(void **state)
{
	(void)state;
	TRY("ceiling_exceeded", r.spec.limits.memory_bytes = (1ull << 30) + 1);
	TRY("ceiling_exceeded", r.spec.ttl_ms = 3600001);
	TRY("ceiling_exceeded", r.spec.ttl_ms = 0);
	TRY("not_allowed", r.spec.limits.unlimited = true);
	TRY("not_allowed", m.engine = SPAWN_DOCKER);
	assert_nothing_started();
}

static void test_somebody_elses(void **state)
{
	(void)state;
	TRY("not_allowed", m.uid = ME + 1; r.spec.caller_uid = ME + 1);
	TRY("not_allowed", r.spec.caller_uid = ME + 1);
	TRY("not_allowed", r.spec.caller_gid = ME + 1);
	TRY("not_allowed", r.spec.has_caller = false);
	TRY("not_allowed", m.uid = geteuid());
	assert_nothing_started();
}

static void test_directory_of_another(void **state)
{
	struct spec_bind b = { .fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
		.kind = BIND_DIR,
		.writable = true };

	(void)state;
	FMT(b.target, "/workspace");
	TRY("workspace_not_owned", r.spec.binds[0] = b; r.spec.n_binds = 1; r.spec.workspace = 0);
	assert_nothing_started();
}

static void assert_ends(void)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(waitpid(spawner, NULL, 0), spawner);
	spawner = fork();
	if (spawner == 0)
		_exit(0);
	assert_nothing_started();
}

static void test_malformed(void **state)
{
	struct spawn_message m = message();

	(void)state;
	m.op = SPAWN_KILL;
	FMT(m.id, "../../etc");
	assert_int_equal(spawn_send(sock, &m, -1), 0);
	assert_ends();
}

static void test_no_such_verb(void **state)
{
	struct spawn_message m = message();

	(void)state;
	m.op = 9;
	assert_int_equal(spawn_send(sock, &m, -1), 0);
	assert_ends();
}

static void test_no_such_engine(void **state)
{
	struct spawn_message m = message();

	(void)state;
	m.op = SPAWN_SWEEP;
	m.engine = SPAWN_N_ENGINES;
	assert_int_equal(spawn_send(sock, &m, -1), 0);
	assert_ends();
}

/* A spec that spec_check() refuses never gets as far as the ceiling. */
static void test_no_spec(void **state)
{
	struct pack_request r = request();
	const struct spawn_message m = message();

	(void)state;
	r.spec.version++;
	ask(&m, &r);
	assert_ends();
}

static void test_launcher_gone(void **state)
{
	(void)state;
	assert_int_equal(shutdown(sock, SHUT_RDWR), 0);
	assert_ends();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_starts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sweeps_and_kills, setup, teardown),
		cmocka_unit_test_setup_teardown(test_beyond_the_ceiling, setup, teardown),
		cmocka_unit_test_setup_teardown(test_somebody_elses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_of_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_such_verb, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_such_engine, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_spec, setup, teardown),
		cmocka_unit_test_setup_teardown(test_launcher_gone, setup, teardown),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
