/* A session's commands, against the real program: streams, arguments, ends, terminals, kills, and what a full process limit or
 * a hostile workload leaves of them. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "guest/play_test.h"

static struct play p;

static int start(void **state)
{
	(void)state;
	play_start(&p, PLAY_OWN_UID);
	play_connect(&p, 0);
	return 0;
}

static int start_as_user(void **state)
{
	(void)state;
	play_start(&p, PLAY_SAME_UID);
	play_connect(&p, 0);
	return 0;
}

static int start_alone(void **state)
{
	(void)state;
	play_start(&p, PLAY_ALONE);
	play_connect(&p, 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	play_stop(&p);
	return 0;
}

static void assert_exit(const struct seen *s, uint32_t status)
{
	assert_int_equal(s->end.how, WIRE_HOW_EXITED);
	assert_int_equal(s->end.status, status);
}

/* --- streams --- */

static void output_and_error_are_apart_and_the_end_is_told(void **state)
{
	const struct seen *s;

	(void)state;
	assert_int_equal(p.hello_flags, WIRE_HELLO_FRESH);
	play_shell(&p, 1, 0, "echo out; echo err >&2; exit 7");
	s = play_until_ended(&p, 1);
	assert_true(s->begun);
	assert_exit(s, 7);
	assert_int_equal(s->end.left, 0);
	assert_string_equal(play_text(s, 0), "out\n");
	assert_string_equal(play_text(s, 1), "err\n");
	(void)play_until_eof(&p, 1, 0);
	(void)play_until_eof(&p, 1, 1);
	play_close(&p, 1);
}

static void a_signal_is_told(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, "kill -TERM $$");
	s = play_until_ended(&p, 1);
	assert_int_equal(s->end.how, WIRE_HOW_SIGNALLED);
	assert_int_equal(s->end.status, SIGTERM);
	assert_int_equal(s->end.flags, 0);
}

static void input_ends_with_its_eof(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, WIRE_RUN_STDIN, "cat; echo end");
	play_data(&p, 1, "hello\n", 6);
	s = play_until_bytes(&p, 1, 0, 6);
	assert_false(s->ended);
	play_eof(&p, 1, 6);
	s = play_until_ended(&p, 1);
	assert_string_equal(play_text(s, 0), "hello\nend\n");
}

static void without_input_there_is_none(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, "cat; echo $?");
	s = play_until_ended(&p, 1);
	assert_string_equal(play_text(s, 0), "0\n");
}

static void fill(struct buf *b, size_t n)
{
	uint32_t x = 12345;

	b->max = n;
	assert_true(buf_reserve(b, n));
	for (; b->len < n; b->len++) {
		x = x * 1664525u + 1013904223u;
		b->data[b->len] = (char)(x >> 24);
	}
}

static void much_passes_both_ways_unchanged(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const struct seen *s;

	(void)state;
	fill(&b, 20 << 20);
	play_shell(&p, 1, WIRE_RUN_STDIN, "cat");
	play_data(&p, 1, b.data, b.len);
	play_eof(&p, 1, b.len);
	s = play_until_ended(&p, 1);
	assert_exit(s, 0);
	assert_int_equal(s->before_end[0], b.len);
	assert_memory_equal(s->data[0].data, b.data, b.len);
}

static void input_that_nobody_reads_is_taken(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	(void)state;
	fill(&b, 20 << 20);
	play_shell(&p, 1, WIRE_RUN_STDIN, "exec <&-; sleep 0.2; echo done");
	play_data(&p, 1, b.data, b.len);
	play_eof(&p, 1, b.len);
	assert_string_equal(play_text(play_until_ended(&p, 1), 0), "done\n");
}

static void output_of_children_follows_the_end(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, "(read x; echo late) < pipe & echo early");
	play_host(&p, "mkfifo fifo");
	s = play_until_ended(&p, 1);
	assert_exit(s, 0);
	play_shell(&p, 2, 0, "(read x < fifo; echo late) & echo early");
	s = play_until_ended(&p, 2);
	assert_int_equal(s->end.left, 1);
	assert_string_equal(play_text(s, 0), "early\n");
	assert_false(s->eof[0]);
	play_host(&p, "echo go > fifo");
	s = play_until_eof(&p, 2, 0);
	assert_string_equal(play_text(s, 0), "early\nlate\n");
}

/* All that a command wrote comes before its end, however slowly it is taken. */
static void the_end_waits_for_the_output(void **state)
{
	const struct seen *s;
	size_t n = 3 << 20;

	(void)state;
	for (uint32_t i = 1; i <= 20; i++) {
		play_shell(&p, i, 0, "head -c 3145728 /dev/zero; head -c 100000 /dev/zero >&2");
		s = play_until_ended(&p, i);
		assert_int_equal(s->before_end[0], n);
		assert_int_equal(s->before_end[1], 100000);
		play_close(&p, i);
	}
}

static void one_slow_reader_stops_only_its_own_stream(void **state)
{
	struct seen *slow;
	const struct seen *s;

	(void)state;
	slow = play_seen(&p, 1);
	slow->hold = true;
	play_shell(&p, 1, 0, "head -c 20000000 /dev/zero; echo x >&2");
	(void)play_until_bytes(&p, 1, 0, WIRE_WINDOW);
	play_shell(&p, 2, 0, "head -c 20000000 /dev/zero");
	s = play_until_ended(&p, 2);
	assert_int_equal(s->data[0].len, 20000000);
	/* the guest kept to the limit: take_data() checks each frame */
	assert_int_equal(slow->data[0].len, WIRE_WINDOW);
	assert_false(slow->ended);
	slow->hold = false;
	slow->granted[0] = slow->data[0].len + WIRE_WINDOW;
	PLAY_SEND(&p, ack, .stream = 1, .received = slow->data[0].len, .limit = slow->granted[0]);
	s = play_until_ended(&p, 1);
	assert_int_equal(s->data[0].len, 20000000);
	assert_string_equal(play_text(s, 1), "x\n");
}

/* --- what is started --- */

static void run_strings(uint32_t stream, uint32_t flags, const void *strings, size_t n)
{
	struct wire_run m = { .stream = stream,
		.flags = flags,
		.uid = (uint32_t)WIRE_SAME_ID,
		.gid = (uint32_t)WIRE_SAME_ID };

	play_run(&p, &m, strings, n);
}

/* With the NUL behind the last. */
#define ADD(b, strings) assert_true(buf_add(b, strings, sizeof(strings)))
#define RUN(stream, strings) run_strings(stream, 0, strings, sizeof(strings))

static void not_started(uint32_t stream, int error)
{
	const struct seen *s = play_until_ended(&p, stream);

	assert_int_equal(s->end.how, WIRE_HOW_NOT_STARTED);
	assert_int_equal(s->end.status, error);
	assert_false(s->begun);
}

static void what_cannot_start_is_told(void **state)
{
	(void)state;
	RUN(1, "\0001\0no-such-command");
	not_started(1, ENOENT);
	RUN(2, "\0001\0/etc/passwd");
	not_started(2, EACCES);
	RUN(3, "/no/such/directory\0001\0true");
	not_started(3, ENOTDIR);
	RUN(4, "/etc/passwd\0001\0true");
	not_started(4, ENOTDIR);
	RUN(5, "\0002\0true");
	not_started(5, EINVAL);
	RUN(6, "\0000\0true");
	not_started(6, EINVAL);
	RUN(7, "\0001\0true\0no-setting");
	not_started(7, EINVAL);
	run_strings(8, 0, "\0001\0true", 7);
	not_started(8, EINVAL);
	run_strings(9, 0, "", 0);
	not_started(9, EINVAL);
	play_check_alive(&p, 10);
}

static void later_settings_win_and_path_counts(void **state)
{
	const struct seen *s;

	(void)state;
	RUN(1, "/\0003\0sh\0-c\0echo $TWICE $HOME $A; pwd; env | grep -c ^A=\0A=1\0TWICE=run\0A=2");
	s = play_until_ended(&p, 1);
	assert_string_equal(play_text(s, 0), "run /nowhere 2\n/\n1\n");
	play_host(&p, "printf '#!/bin/sh\\necho mine\\n' > true; chmod 755 true");
	{
		_cleanup_buf_ struct buf b = BUF_INIT;

		assert_true(buf_add(&b, "\0001\0true\0PATH=", 13) && buf_puts(&b, p.dir) &&
			buf_puts(&b, ":/usr/bin:/bin") && buf_add(&b, "", 1));
		run_strings(2, 0, b.data, b.len);
	}
	s = play_until_ended(&p, 2);
	assert_string_equal(play_text(s, 0), "mine\n");
}

static void two_mebibytes_of_arguments_pass_and_more_do_not(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const struct seen *s;
	char piece[1000], number[32];
	size_t count = 2000;

	(void)state;
	memset(piece, 'x', sizeof piece);
	piece[sizeof piece - 1] = 0;
	assert_true(buf_add(&b, "", 1));
	FMT(number, "%zu", count + 4);
	assert_true(buf_add(&b, number, strlen(number) + 1));
	ADD(&b, "sh\0-c\0echo $#; echo \"$*\" | wc -c\0sh");
	for (size_t i = 0; i < count; i++)
		assert_true(buf_add(&b, piece, sizeof piece));
	run_strings(1, 0, b.data, b.len);
	s = play_until_ended(&p, 1);
	assert_exit(s, 0);
	assert_string_equal(play_text(s, 0), "2000\n2000000\n");
	for (size_t i = 0; i < 100; i++)
		assert_true(buf_add(&b, piece, sizeof piece));
	run_strings(2, 0, b.data, b.len);
	not_started(2, E2BIG);
	play_check_alive(&p, 3);
}

static void many_settings_are_merged(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	char number[32];

	(void)state;
	ADD(&b, "\0003\0sh\0-c\0env | grep -c ^N; echo $N7 $N9999");
	for (int i = 0; i < 20000; i++) {
		FMT(number, "N%d=%d", i % 10000, i);
		assert_true(buf_add(&b, number, strlen(number) + 1));
	}
	run_strings(1, 0, b.data, b.len);
	assert_string_equal(play_text(play_until_ended(&p, 1), 0), "10000\n10007 19999\n");
}

static void the_command_has_the_workloads_ids_and_nothing_open(void **state)
{
	char expected[128];
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0,
		"id -u; id -g; id -G; ls /proc/self/fd | wc -l; umask; "
		"grep -E '^(SigBlk|CapEff)' /proc/self/status");
	s = play_until_ended(&p, 1);
	FMT(expected, "%u\n%u\n%u\n4\n0022\nSigBlk:\t0000000000000000\nCapEff:\t0000000000000000\n",
		p.uid, p.gid, p.gid);
	assert_string_equal(play_text(s, 0), expected);
}

static void another_id_can_be_asked_for(void **state)
{
	struct wire_run m = { .stream = 1, .uid = 61235, .gid = 61236 };
	static const char strings[] = "\0003\0sh\0-c\0id -u; id -g; echo > /dev/stderr";
	const struct seen *s;

	(void)state;
	if (geteuid())
		skip();
	play_run(&p, &m, strings, sizeof strings);
	s = play_until_ended(&p, 1);
	assert_exit(s, 0);
	assert_string_equal(play_text(s, 0), "61235\n61236\n");
}

static void a_child_is_the_first_to_die_for_memory(void **state)
{
	(void)state;
	play_shell(&p, 1, 0, "sleep 0.1; cat /proc/self/oom_score_adj");
	assert_string_equal(play_text(play_until_ended(&p, 1), 0), "500\n");
}

/* --- terminals --- */

static void run_terminal(uint32_t stream, const char *script)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct wire_run m = { .stream = stream,
		.flags = WIRE_RUN_TERMINAL | WIRE_RUN_STDIN,
		.uid = (uint32_t)WIRE_SAME_ID,
		.gid = (uint32_t)WIRE_SAME_ID,
		.rows = 30,
		.columns = 100 };

	assert_true(buf_add(&b, "\0003\0sh\0-c", 9) && buf_add(&b, script, strlen(script) + 1));
	play_run(&p, &m, b.data, b.len);
}

static void a_terminal_is_one_and_changes_size(void **state)
{
	const struct seen *s;

	(void)state;
	run_terminal(1,
		"test -t 0 && test -t 1 && test -t 2 && stty size < /dev/tty; "
		"trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.02; done");
	s = play_until_bytes(&p, 1, 0, 15);
	assert_string_equal(play_text(s, 0), "30 100\r\nready\r\n");
	PLAY_SEND(&p, resize, .stream = 1, .rows = 50, .columns = 120);
	s = play_until_ended(&p, 1);
	assert_exit(s, 3);
	assert_string_equal(play_text(s, 0), "30 100\r\nready\r\n50 120\r\n");
	assert_int_equal(s->before_end[0], s->data[0].len);
	(void)play_until_eof(&p, 1, 0);
}

static void a_terminal_passes_signals_and_the_end_of_input(void **state)
{
	const struct seen *s;

	(void)state;
	run_terminal(1, "stty -echo; echo ready; cat; echo over; exec sleep 100");
	(void)play_until_bytes(&p, 1, 0, 7);
	play_data(&p, 1, "a\n", 2);
	(void)play_until_bytes(&p, 1, 0, 10);
	play_eof(&p, 1, 2);
	s = play_until_bytes(&p, 1, 0, 16);
	assert_string_equal(play_text(s, 0), "ready\r\na\r\nover\r\n");
	run_terminal(2, "echo ready; exec sleep 100");
	(void)play_until_bytes(&p, 2, 0, 7);
	play_data(&p, 2, "\003", 1);
	s = play_until_ended(&p, 2);
	assert_int_equal(s->end.status, SIGINT);
}

static void all_of_a_terminals_output_comes_before_the_end(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 20; i++) {
		run_terminal(i, "stty -opost; head -c 200000 /dev/zero");
		assert_int_equal(play_until_ended(&p, i)->before_end[0], 200000);
		play_close(&p, i);
	}
}

/* --- ends --- */

static void a_timeout_ends_the_whole_tree(void **state)
{
	struct wire_run m = { .stream = 1,
		.uid = (uint32_t)WIRE_SAME_ID,
		.gid = (uint32_t)WIRE_SAME_ID,
		.timeout_ms = 200 };
	static const char strings[] = "\0003\0sh\0-c\0setsid sleep 1000 & sleep 1000";
	uint64_t before = boottime_ms(), took;
	const struct seen *s;

	(void)state;
	play_run(&p, &m, strings, sizeof strings);
	s = play_until_ended(&p, 1);
	took = boottime_ms() - before;
	assert_int_equal(s->end.how, WIRE_HOW_SIGNALLED);
	assert_int_equal(s->end.status, SIGKILL);
	assert_int_equal(s->end.flags, WIRE_ENDED_TIMEOUT);
	assert_true(took >= 200 && took < 5000);
	/* nobody is left to hold the lanes open */
	(void)play_until_eof(&p, 1, 0);
	(void)play_until_eof(&p, 1, 1);
}

#define KILL(on, of, sig, how) \
	PLAY_SEND(&p, kill, .stream = (on), .command = (of), .signal = (sig), .flags = (how))

static void a_kill_of_the_tree_reaches_daemons(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0,
		"for i in 1 2 3 4 5; do (setsid sh -c 'setsid sleep 1000 & setsid sleep 1000 & wait' &); done; "
		"(setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' &); "
		"echo up; sleep 1000");
	(void)play_until_bytes(&p, 1, 0, 3);
	KILL(2, 1, SIGKILL, WIRE_KILL_TREE);
	s = play_until_result(&p, 2);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 0);
	s = play_until_ended(&p, 1);
	assert_int_equal(s->end.status, SIGKILL);
	assert_int_equal(s->end.flags, WIRE_ENDED_KILLED);
	(void)play_until_eof(&p, 1, 0);
	(void)play_until_eof(&p, 1, 1);
}

static void what_a_command_left_can_be_killed_after_its_end(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, "setsid sleep 1000 & setsid sleep 1000 & exit 4");
	s = play_until_ended(&p, 1);
	assert_exit(s, 4);
	assert_int_equal(s->end.left, 2);
	KILL(2, 1, SIGTERM, 0);
	assert_int_equal(play_until_result(&p, 2)->answer.error, ESRCH);
	KILL(3, 1, SIGKILL, WIRE_KILL_TREE);
	assert_int_equal(play_until_result(&p, 3)->answer.value, 0);
	(void)play_until_eof(&p, 1, 0);
	/* nothing is left: fine too */
	KILL(4, 1, SIGKILL, WIRE_KILL_TREE);
	assert_int_equal(play_until_result(&p, 4)->answer.error, 0);
	KILL(5, 77, SIGKILL, WIRE_KILL_TREE);
	assert_int_equal(play_until_result(&p, 5)->answer.error, ESRCH);
}

static void a_signal_goes_to_the_group_or_to_the_tree(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done");
	(void)play_until_bytes(&p, 1, 0, 3);
	KILL(2, 1, SIGTERM, 0);
	assert_int_equal(play_until_result(&p, 2)->answer.error, 0);
	assert_exit(play_until_ended(&p, 1), 9);
	play_shell(&p, 3, 0, "setsid sleep 1000 & echo up; wait; exit 6");
	(void)play_until_bytes(&p, 3, 0, 3);
	KILL(4, 3, SIGTERM, WIRE_KILL_TREE);
	s = play_until_result(&p, 4);
	assert_int_equal(s->answer.error, 0);
	(void)play_until_ended(&p, 3);
	(void)play_until_eof(&p, 3, 0);
}

static void many_kills_at_once_are_all_answered(void **state)
{
	(void)state;
	play_shell(&p, 1, 0, "sleep 1000 & sleep 1000 & sleep 1000");
	(void)play_until_begun(&p, 1);
	for (uint32_t i = 0; i < 50; i++)
		KILL(10 + i, 1, i == 25 ? SIGKILL : SIGCONT, i % 2 ? (uint32_t)WIRE_KILL_TREE : 0);
	for (uint32_t i = 0; i < 50; i++)
		(void)play_until_result(&p, 10 + i);
	(void)play_until_ended(&p, 1);
}

static void closing_a_running_command_ends_it(void **state)
{
	(void)state;
	play_shell(&p, 1, 0,
		"setsid sh -c 'trap \"\" HUP; while :; do sleep 0.01; echo > beat; done' & "
		"echo up; sleep 1000");
	(void)play_until_bytes(&p, 1, 0, 3);
	play_close(&p, 1);
	play_shell(&p, 2, 0, "sleep 0.3; rm -f beat; sleep 0.2; test ! -e beat");
	assert_exit(play_until_ended(&p, 2), 0);
}

static void a_fork_bomb_ends_when_the_process_limit_is_full(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0,
		"grep -q '^Max processes *400 *400 ' /proc/self/limits || exit 3; "
		"f() { f | f & }; (f; f) & echo up; sleep 1000");
	(void)play_until_bytes(&p, 1, 0, 3);
	usleep(200000);
	/* another file request still works */
	PLAY_SEND(&p, stat, .stream = 2, .rest = (const uint8_t *)"/", .rest_len = 1);
	assert_int_equal(play_until_result(&p, 2)->answer.error, 0);
	KILL(3, 1, SIGKILL, WIRE_KILL_TREE);
	s = play_until_result(&p, 3);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 0);
	(void)play_until_ended(&p, 1);
	(void)play_until_eof(&p, 1, 0);
}

static void a_full_process_limit_is_told(void **state)
{
	(void)state;
	play_shell(&p, 1, 0, "true");
	not_started(1, EAGAIN);
	PLAY_SEND(&p, stat, .stream = 2, .rest = (const uint8_t *)"/", .rest_len = 1);
	assert_int_equal(play_until_result(&p, 2)->answer.error, 0);
}

/* Where guest and workload have one uid it can kill the runner, and only itself suffers. */
static void a_killed_runner_loses_nothing(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, "kill -9 $PPID; sleep 0.1; echo still; exit 5");
	s = play_until_ended(&p, 1);
	assert_exit(s, 5);
	assert_string_equal(play_text(s, 0), "still\n");
	play_shell(&p, 2, 0, "kill -STOP $PPID; echo up; sleep 1000");
	(void)play_until_bytes(&p, 2, 0, 3);
	KILL(3, 2, SIGKILL, WIRE_KILL_TREE);
	assert_int_equal(play_until_result(&p, 3)->answer.value, 0);
	(void)play_until_ended(&p, 2);
	play_shell(&p, 4, 0, "kill -9 $PPID; echo up; sleep 1000");
	(void)play_until_bytes(&p, 4, 0, 3);
	usleep(50000);
	KILL(5, 4, SIGKILL, WIRE_KILL_TREE);
	(void)play_until_result(&p, 5);
	assert_int_equal(play_until_ended(&p, 4)->end.status, SIGKILL);
	play_check_alive(&p, 6);
}

/* Where it has the workload's uid. */
static void what_is_prepared_may_be_killed(void **state)
{
	static const char *const signals[] = { "STOP", "KILL" };
	uint32_t n = 1;

	(void)state;
	for (unsigned i = 0; i < 4; i++, n += 3) {
		const struct seen *s;
		char script[512];

		play_shell(&p, n, 0, "exit 0");
		assert_exit(play_until_ended(&p, n), 0);
		/* with input: not the one that is prepared */
		play_shell(&p, n + 1, WIRE_RUN_STDIN,
			FMT(script,
				"for d in /proc/[0-9]*; do p=${d#/proc/}; n=; read -r n <$d/comm; "
				"test \"$n\" != bailey-guest || test $p = 1 || test $p = $PPID || "
				"! kill -%s $p || echo hit; done; :",
				signals[i % 2]));
		s = play_until_ended(&p, n + 1);
		assert_exit(s, 0);
		/* or two: its process may not be there yet, or go with the runner */
		assert_memory_equal(play_text(s, 0), "hit\n", 4);
		play_shell(&p, n + 2, 0, "echo fine; exit 3");
		s = play_until_ended(&p, n + 2);
		assert_exit(s, 3);
		assert_string_equal(play_text(s, 0), "fine\n");
	}
	play_check_alive(&p, n);
}

/* Its runner and its process are there before the command is known. */
static void what_is_prepared_holds_nothing(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(&p, 1, 0, "cd /; umask 077; export A=1; exec 5</dev/null; exit 0");
	assert_exit(play_until_ended(&p, 1), 0);
	play_shell(&p, 2, 0,
		"umask; echo $A; test $PWD = / && echo moved; ls /proc/self/fd | wc -w; read x || echo no");
	s = play_until_ended(&p, 2);
	assert_exit(s, 0);
	assert_string_equal(play_text(s, 0), "0022\n\n4\nno\n");
}

static void many_commands_run_at_once(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 60; i++)
		play_shell(&p, i, WIRE_RUN_STDIN, "read x; echo $x; exit 3");
	for (uint32_t i = 1; i <= 60; i++) {
		play_data(&p, i, "word\n", 5);
		play_eof(&p, i, 5);
	}
	for (uint32_t i = 1; i <= 60; i++) {
		const struct seen *s = play_until_ended(&p, i);

		assert_exit(s, 3);
		assert_string_equal(play_text(s, 0), "word\n");
		play_close(&p, i);
	}
}

static void a_full_table_is_told(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= WIRE_MAX_STREAMS; i++)
		PLAY_SEND(&p, args, .stream = i, .rest = (const uint8_t *)"", .rest_len = 1);
	play_shell(&p, 2000, 0, "true");
	not_started(2000, EMFILE);
	for (uint32_t i = 2001; i < 2200; i++)
		PLAY_SEND(&p, stat, .stream = i, .rest = (const uint8_t *)"/", .rest_len = 1);
	for (uint32_t i = 2001; i < 2200; i++)
		assert_int_equal(play_until_result(&p, i)->answer.error, EMFILE);
	play_close(&p, 1);
	play_check_alive(&p, 3000);
}

#define WITH(test, begin) cmocka_unit_test_setup_teardown(test, begin, stop)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(output_and_error_are_apart_and_the_end_is_told, start),
		WITH(a_signal_is_told, start),
		WITH(input_ends_with_its_eof, start),
		WITH(without_input_there_is_none, start),
		WITH(much_passes_both_ways_unchanged, start),
		WITH(input_that_nobody_reads_is_taken, start),
		WITH(output_of_children_follows_the_end, start),
		WITH(the_end_waits_for_the_output, start),
		WITH(one_slow_reader_stops_only_its_own_stream, start),
		WITH(what_cannot_start_is_told, start),
		WITH(later_settings_win_and_path_counts, start),
		WITH(two_mebibytes_of_arguments_pass_and_more_do_not, start),
		WITH(many_settings_are_merged, start),
		WITH(the_command_has_the_workloads_ids_and_nothing_open, start),
		WITH(another_id_can_be_asked_for, start),
		WITH(a_child_is_the_first_to_die_for_memory, start),
		WITH(a_terminal_is_one_and_changes_size, start),
		WITH(a_terminal_passes_signals_and_the_end_of_input, start),
		WITH(all_of_a_terminals_output_comes_before_the_end, start),
		WITH(a_timeout_ends_the_whole_tree, start),
		WITH(a_kill_of_the_tree_reaches_daemons, start),
		WITH(what_a_command_left_can_be_killed_after_its_end, start),
		WITH(a_signal_goes_to_the_group_or_to_the_tree, start),
		WITH(many_kills_at_once_are_all_answered, start),
		WITH(closing_a_running_command_ends_it, start),
		WITH(a_fork_bomb_ends_when_the_process_limit_is_full, start),
		WITH(a_full_process_limit_is_told, start_alone),
		WITH(a_killed_runner_loses_nothing, start_as_user),
		WITH(what_is_prepared_may_be_killed, start_as_user),
		WITH(what_is_prepared_holds_nothing, start),
		WITH(many_commands_run_at_once, start),
		WITH(a_full_table_is_told, start),
	};

	if (!play_possible())
		return 77;
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
