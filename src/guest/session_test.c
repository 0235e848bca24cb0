/* A session's commands, against the real program: streams, ends, terminals, kills, credit, broken connections. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "guest/play.h"

static struct play p;

static int start(void **state)
{
	(void)state;
	play_start(&p);
	play_connect(&p, 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	play_stop(&p);
	return 0;
}

static void output_and_error_are_apart_and_the_end_is_told(void **state)
{
	const struct seen *s;

	(void)state;
	assert_int_equal(p.hello_flags, WIRE_HELLO_FRESH);
	play_shell(&p, 1, 0, "echo out; echo err >&2; exit 7");
	s = play_until_ended(&p, 1);
	assert_true(s->begun);
	assert_int_equal(s->end.how, WIRE_HOW_EXITED);
	assert_int_equal(s->end.status, 7);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			output_and_error_are_apart_and_the_end_is_told, start, stop),
		cmocka_unit_test_setup_teardown(a_signal_is_told, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
