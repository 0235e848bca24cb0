/* Reading /proc/PID/stat: of a process whose name is meant to mislead, of a dead one, of none. */
#include "base/proc.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"

static void an_odd_name(void **state)
{
	struct proc_stat before, after;

	(void)state;
	assert_int_equal(proc_stat("self", &before), 0);
	assert_int_equal(prctl(PR_SET_NAME, "x) Z 1 (y) 2"), 0);
	assert_int_equal(proc_stat("self", &after), 0);
	assert_int_equal(after.state, 'R');
	assert_true(before.start > 0);
	assert_int_equal(before.start, after.start);
}

static void time_that_was_used(void **state)
{
	struct proc_stat s = { .ticks = 0 };
	volatile unsigned n = 0;

	(void)state;
	for (int i = 0; i < 2000 && !s.ticks; i++) {
		for (unsigned k = 0; k < 1000000; k++)
			n += k;
		assert_int_equal(proc_stat("self", &s), 0);
	}
	assert_true(s.ticks > 0);
}

static void dead_ones(void **state)
{
	struct proc_stat s;
	char text[16];
	pid_t pid = fork();
	siginfo_t info;

	(void)state;
	if (pid == 0)
		_exit(0);
	FMT(text, "%d", pid);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_stat(text, &s), 0);
	assert_int_equal(s.state, 'Z');
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(proc_stat(text, &s), -1);
	assert_int_equal(errno, ENOENT);
}

static void no_numbers(void **state)
{
	static const char *const none[] = { "", "../1", "self/task/1", "1234567890123", "." };
	struct proc_stat s;

	(void)state;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_int_equal(proc_stat(none[i], &s), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_odd_name),
		cmocka_unit_test(time_that_was_used),
		cmocka_unit_test(dead_ones),
		cmocka_unit_test(no_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
