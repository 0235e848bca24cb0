/* A guest that dials: its token, a host that refuses, hangs up or is away, and what it takes from all that it starts. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest/play_test.h"

static struct play p;

static int start(void **state)
{
	(void)state;
	play_start_dialling(&p, "dial", PLAY_TOKEN "\n");
	play_control(&p, WIRE_HELLO_FRESH, 0);
	play_connect(&p, 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	play_stop(&p);
	return 0;
}

static const char *says(uint32_t stream, const char *script)
{
	play_shell(&p, stream, 0, script);
	(void)play_until_ended(&p, stream);
	return play_text(play_until_eof(&p, stream, 0), 0);
}

/* --- the token --- */

static void test_begins(void **state)
{
	(void)state;
	assert_string_equal(says(1, "echo here"), "here\n");
	play_check_alive(&p, 2);
}

/* What is no token ends the guest before it has dialled. */
static void test_hostile_token(void **state)
{
	static const char *const bad[] = { NULL, "", "\n", "0011", PLAY_TOKEN "0",
		PLAY_TOKEN "\n\n", PLAY_TOKEN " ", "0011223344556677 899aabbccddeeff",
		"00112233445566778899AABBCCDDEEFF", "0x112233445566778899aabbccddeeff",
		"-0112233445566778899aabbccddeeff" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int status = 0;

		play_start_dialling(&p, "dial", bad[i]);
		assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 125)
			fail_msg("token %zu: status %d", i, status);
		assert_int_equal(play_accept(&p, 0), -1);
		p.pid = fork(); /* play_stop waits for a child */
		if (!p.pid)
			_exit(0);
		play_stop(&p);
	}
}

/* A place where the token should be a file and is none: it is not waited for, nor followed. */
static void test_token_is_no_file(void **state)
{
	static const char *const scripts[] = { "mkdir token", "mkfifo token",
		"echo " PLAY_TOKEN " >real; ln -s real token" };

	(void)state;
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
		int status = 0;

		play_start_dialling(&p, "dial", NULL);
		assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
		play_host(&p, scripts[i]);
		play_again(&p);
		assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 125)
			fail_msg("%s: status %d", scripts[i], status);
		p.pid = fork();
		if (!p.pid)
			_exit(0);
		play_stop(&p);
	}
}

/* --- its mounts --- */

/* Prepared by a guest that never served; "@" in the words is the directory. */
static int ends_with(const char *prepare, const char *words)
{
	char script[400], *at;
	int status = 0;

	play_start_dialling(&p, "dial", NULL);
	/* by itself: one whose parent is killed early would find the token of the next */
	assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
	FMT(script,
		"printf '%s' | sed \"s,@,$PWD,;s,UID,%u,;s,GID,%u,;s,INO,$(stat -c %%i . ),;"
		"s,DEV,$(stat -c %%d .),\" >check; echo " PLAY_TOKEN " >token; %s",
		words, p.uid, p.gid, prepare);
	at = script;
	play_host(&p, at);
	play_again(&p);
	for (unsigned i = 0; waitpid(p.pid, &status, WNOHANG) != p.pid; i++) {
		int fd = play_accept(&p, 100);

		if (fd >= 0) {
			(void)close_fd(fd);
			return 0;
		}
		assert_true(i < 100);
	}
	p.pid = fork();
	if (!p.pid)
		_exit(0);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_mounts(void **state)
{
	static const struct {
		const char *prepare, *words;
		int status;
	} cases[] = {
		{ "mkdir -m 777 t", "tmpfs 700 UID GID @/t\n", 0 },
		{ "mkdir -m 700 t", "tmpfs 700 UID GID @/t", 0 },
		{ "true", "tmpfs 700 UID GID @/none\n", 122 },
		{ "touch t", "tmpfs 700 UID GID @/t\n", 122 },
		{ "mkdir x; ln -s x t", "tmpfs 700 UID GID @/t\n", 122 },
		{ "mkdir t", "tmpfs 700 UID 77 @/t\n", 122 },
		{ "mkdir t", "tmpfs 700 77 GID @/t\n", 122 },
		{ "true", "object DEV INO @\n", 0 },
		{ "true", "object DEV 1 @\n", 121 },
		{ "true", "object 1 INO @\n", 121 },
		{ "true", "object DEV INO @/none\n", 121 },
		{ "true", "object DEV INO @\nobject DEV 1 @\n", 121 },
		{ "true", "object DEV INO\n", 121 },
		{ "true", "nonsense 1 2 @\n", 125 },
		{ "true", "tmpfs 999 1 1 @\n", 125 },
		{ "true", "tmpfs 77777 1 1 @\n", 125 },
		{ "true", "object x y @\n", 125 },
		{ "ln -sf token check", "", 125 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int status = ends_with(cases[i].prepare, cases[i].words);

		if (status != cases[i].status)
			fail_msg("'%s' '%s': %d, not %d", cases[i].prepare, cases[i].words, status,
				cases[i].status);
		if (i == 0)
			play_host(&p, "[ $(stat -c %a t) = 700 ]");
		play_stop(&p);
	}
}

/* A host that doesn't know the token hangs up: the guest comes back, less and less often, and serves the one that does. */
static void test_refused(void **state)
{
	uint64_t begin = boottime_ms(), last = begin, gap = 0;

	(void)state;
	play_start_dialling(&p, "dial", PLAY_TOKEN);
	for (unsigned i = 0; i < 5; i++) {
		int fd = play_accept(&p, 5000);
		uint64_t now = boottime_ms();

		assert_true(fd >= 0);
		(void)close_fd(fd);
		gap = now - last;
		last = now;
	}
	/* 0, 100, 200, 400, 800 */
	assert_true(gap >= 700);
	assert_true(boottime_ms() - begin >= 1400);
	play_control(&p, WIRE_HELLO_FRESH, 0);
	play_connect(&p, 0);
	play_check_alive(&p, 1);
	play_stop(&p);
}

/* A guest channel that is a stranger's is none of ours: the guest goes on with the one that is greeted. */
static void test_channel_replaced(void **state)
{
	(void)state;
	play_dial(&p);
	play_dial(&p);
	play_greet(&p, 0);
	while (!p.greeted)
		assert_true(play_read(&p, PLAY_WAIT_MS));
	play_check_alive(&p, 1);
}

/* --- the control connection is lost --- */

enum { LINES = 3000 };

static void expect_lines(const struct seen *s)
{
	const char *at = play_text(s, 0);
	char line[32];

	for (unsigned i = 0; i < LINES; i++) {
		FMT(line, "line %u\n", i);
		if (strncmp(at, line, strlen(line)) != 0)
			fail_msg("line %u is %.20s", i, at);
		at += strlen(line);
	}
	assert_string_equal(at, "");
}

static void lose_all(void)
{
	play_hang_up(&p);
	p.control = close_fd(p.control);
}

static void test_lost_while_running(void **state)
{
	static const char script[] = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); "
				     "[ $((i % 300)) != 0 ] || sleep 0.05; done; exit 7";
	struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, script);
	(void)play_until_bytes(&p, 1, 0, 2000);
	for (unsigned i = 0; i < 3; i++) {
		lose_all();
		play_control(&p, 0, 0);
		play_connect(&p, 0);
		(void)play_read(&p, 100);
	}
	/* away for longer than the command runs: what it wrote is kept */
	lose_all();
	(void)poll(NULL, 0, 1200);
	play_control(&p, 0, 0);
	play_connect(&p, 0);
	s = play_until_ended(&p, 1);
	(void)play_until_eof(&p, 1, 0);
	assert_int_equal(s->end.status, 7);
	expect_lines(s);
	play_close(&p, 1);
	play_check_alive(&p, 2);
}

/* The control connection alone: the guest channel goes on. */
static void test_control_alone(void **state)
{
	(void)state;
	play_shell(&p, 1, 0, "sleep 0.3; echo done");
	(void)play_until_begun(&p, 1);
	p.control = close_fd(p.control);
	play_control(&p, 0, 0);
	(void)play_until_ended(&p, 1);
	assert_string_equal(play_text(play_until_eof(&p, 1, 0), 0), "done\n");
	/* and a new owner that remembers nothing gets to know of the commands */
	play_shell(&p, 2, 0, "echo kept; sleep 60");
	(void)play_until_bytes(&p, 2, 0, 5);
	lose_all();
	play_control(&p, 0, 0);
	play_connect(&p, WIRE_HELLO_FRESH);
	(void)play_until_begun(&p, 2);
	play_close(&p, 2);
	play_check_alive(&p, 3);
}

/* One that talks nonsense before it greets ends the guest, as any owner does; half a frame and its death don't. */
static void test_half_greeting(void **state)
{
	static const uint8_t half[] = { 1, 0, 0, 0, 0, 0 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		int fd;

		p.control = close_fd(p.control);
		fd = play_accept(&p, PLAY_WAIT_MS);
		assert_true(fd >= 0);
		assert_int_equal(write_all(fd, half, sizeof half), 0);
		(void)close_fd(fd);
	}
	play_control(&p, 0, 0);
	play_check_alive(&p, 1);
}

static void test_deadline(void **state)
{
	int status = 0;

	(void)state;
	play_start_dialling(&p, "dial", PLAY_TOKEN);
	play_control(&p, WIRE_HELLO_FRESH, boottime_ms() + 60000);
	/* a new owner tells another one; it holds without any owner too */
	p.control = close_fd(p.control);
	play_control(&p, 0, boottime_ms() + 600);
	p.control = close_fd(p.control);
	assert_int_equal(waitpid(p.pid, &status, 0), p.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 125);
	p.pid = fork();
	if (!p.pid)
		_exit(0);
	play_stop(&p);
}

/* --- what is taken --- */

static const char *field(uint32_t stream, const char *name)
{
	char script[160];

	return says(stream, FMT(script, "sed -n 's/^%s:[[:space:]]*//p' /proc/self/status", name));
}

static void test_walls(void **state)
{
	char script[96];

	(void)state;
	assert_string_equal(field(1, "NoNewPrivs"), "1\n");
	assert_string_equal(field(2, "Seccomp"), "2\n");
	assert_string_equal(field(3, "CapEff"), "0000000000000000\n");
	assert_string_equal(field(4, "CapPrm"), "0000000000000000\n");
	if (!geteuid())
		assert_string_equal(field(5, "CapBnd"), "0000000000000000\n");
	assert_string_equal(
		says(6, FMT(script, "cd %s; touch f; chmod 755 f && echo fine", p.dir)), "fine\n");
	assert_string_equal(
		says(7, FMT(script, "cd %s; chmod u+s f 2>/dev/null || echo refused", p.dir)),
		"refused\n");
	assert_string_equal(
		says(8, FMT(script, "cd %s; chmod g+s f 2>/dev/null || echo refused", p.dir)),
		"refused\n");
	assert_string_equal(
		says(9, FMT(script, "cd %s; mkdir -m 2755 d 2>/dev/null || echo refused", p.dir)),
		"refused\n");
	assert_string_equal(says(10, "ulimit -c unlimited; ulimit -c"), "0\n");
	assert_string_equal(says(11, "ls /proc/self/fd | tr '\\n' ' '"), "0 1 2 3 ");
	assert_string_equal(says(12, "cat /proc/$PPID/environ 2>&1 >/dev/null | sed 's/.*: //'"),
		"Permission denied\n");
}

static void test_setgid_allowed(void **state)
{
	char script[96];

	(void)state;
	play_start_dialling(&p, "dial+setgid", PLAY_TOKEN);
	play_control(&p, WIRE_HELLO_FRESH, 0);
	play_connect(&p, 0);
	assert_string_equal(
		says(1, FMT(script, "cd %s; touch f; chmod g+s f && echo set", p.dir)), "set\n");
	assert_string_equal(
		says(2, FMT(script, "cd %s; chmod u+s f 2>/dev/null || echo refused", p.dir)),
		"refused\n");
	play_stop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_begins, start, stop),
		cmocka_unit_test(test_hostile_token),
		cmocka_unit_test(test_token_is_no_file),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_refused),
		cmocka_unit_test_setup_teardown(test_channel_replaced, start, stop),
		cmocka_unit_test_setup_teardown(test_lost_while_running, start, stop),
		cmocka_unit_test_setup_teardown(test_control_alone, start, stop),
		cmocka_unit_test_setup_teardown(test_half_greeting, start, stop),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test_setup_teardown(test_walls, start, stop),
		cmocka_unit_test(test_setgid_allowed),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	(void)alarm(100);
	if (!play_possible())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
