/* The library against engines that say nothing, the wrong thing, or half of it. */
#include "base/clock.h"
#include "client/engine_test.h"
#include "spec/spec.h"

static void script_silent(struct peer *p)
{
	peer_hello(p);
	while (peer_read(p))
		;
}

static void silence_has_an_end(void **state)
{
	uint64_t before = boottime_ms();
	struct bailey_stat st;
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_silent);
	bailey_set_timeout(t.s, 200);
	assert_int_equal(bailey_stat(t.s, "/a", 0, &st, &e), -1);
	assert_string_equal(e.reason, "timeout");
	assert_true(boottime_ms() - before < 5000);
	/* the connection is still good */
	assert_int_equal(bailey_dispatch(t.s, 10, &e), 0);
	test_stop(&t);
}

static void script_mute(struct peer *p)
{
	while (peer_read(p))
		;
}

static void no_hello(void **state)
{
	uint64_t before = boottime_ms();
	struct bailey_error e;
	struct test t;

	(void)state;
	test_start(&t, script_mute);
	assert_int_equal(bailey_connect(t.b, "box", &t.s, &e), -1);
	assert_string_equal(e.reason, "engine_lost");
	assert_in_range(boottime_ms() - before, 1900, 5000);
	test_stop(&t);
}

/* --- lies --- */

static unsigned lie;

static void answer_lie(struct peer *p, uint32_t n)
{
	static const uint8_t odd[] = { 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static uint8_t much[60000];

	switch (lie) {
	case 0: /* no such type */
		peer_write(p, odd, sizeof odd);
		break;
	case 1: /* a stream that nobody asked for */
		peer_put(p, result, .stream = n + 7);
		break;
	case 2: /* above the credit */
		for (unsigned i = 0; i < WIRE_WINDOW / sizeof much + 2; i++)
			peer_data(p, n, much, sizeof much);
		break;
	case 3:
		peer_put(p, eof, .stream = n, .total = 5);
		break;
	case 4: /* data behind the end */
		peer_put(p, eof, .stream = n);
		peer_data(p, n, "x", 1);
		break;
	case 5: /* two ends */
		peer_put(p, ended, .stream = n);
		peer_put(p, ended, .stream = n);
		break;
	case 6: /* another HELLO */
		peer_put(p, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1);
		break;
	case 7: /* an answer to another question */
		peer_put(p, stated, .stream = n);
		break;
	case 8: /* a descriptor that didn't come */
		peer_put(p, result, .stream = n, .flags = WIRE_RESULT_FD);
		break;
	case 9: /* bytes that were never sent */
		peer_put(p, ack, .stream = n, .received = 1, .limit = 1);
		break;
	case 10: /* another command */
		peer_put(p, command_info, .stream = n, .command = 1);
		peer_put(p, command_info, .stream = n, .command = 2);
		break;
	default: /* a connection to no listener */
		peer_put(p, begun, .stream = n, .pid = 1);
		peer_put(p, incoming, .stream = WIRE_GUEST_STREAM | 1, .listener = n);
		break;
	}
}

static void script_lie(struct peer *p)
{
	peer_hello(p);
	peer_expect(p, WIRE_RUN);
	(void)signal(SIGPIPE, SIG_IGN);
	answer_lie(p, p->f.stream);
	while (peer_read(p))
		;
}

static void lies_end_the_connection(void **state)
{
	const char *const argv[] = { "x", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_result r;
	struct bailey_error e;
	struct bailey_stat st;
	struct test t;
	int fds[2];

	(void)state;
	/* nobody reads: what is above the credit has nowhere to go */
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	o.streams.out = fds[1];
	o.argv = argv;
	for (lie = 0; lie < 12; lie++) {
		struct seen seen = { .ended = 0 };
		struct bailey_command *c;

		test_connect(&t, script_lie);
		o.streams.on_ended = see_end;
		o.streams.arg = &seen;
		assert_int_equal(bailey_exec(t.s, &o, &c, &e), 0);
		memset(&e, 0, sizeof e);
		assert_int_equal(bailey_command_wait(c, 5000, &r, &e), lie == 5 ? 0 : -1);
		assert_int_equal(seen.ended, 1);
		if (lie != 5)
			assert_string_equal(e.reason, "wire_malformed");
		/* and stays so */
		assert_int_equal(bailey_stat(t.s, "/", 0, &st, &e), -1);
		assert_string_equal(e.reason, "wire_malformed");
		bailey_command_free(c);
		bailey_disconnect(t.s);
		t.s = NULL;
		(void)waitpid(t.engine, NULL, 0);
		bailey_close(t.b);
		test_remove_home(&t);
	}
	(void)close(fds[0]);
	(void)close(fds[1]);
}

/* One conversation of a command, cut after each of its bytes. */
static size_t cut_after;
static size_t cut_length;

static size_t record_conversation(uint8_t *out, size_t cap)
{
	const struct wire_hello hello = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1
	};
	const struct wire_command_info info = { .stream = 1, .command = 1 };
	const struct wire_begun begun = { .stream = 1, .pid = 1 };
	const struct wire_data data = {
		.stream = 1, .rest = (const uint8_t *)"abc", .rest_len = 3
	};
	const struct wire_ended ended = { .stream = 1 };
	const struct wire_result result = { .stream = 1 };
	size_t n = wire_put_hello(out, cap, &hello);

	n += wire_put_command_info(out + n, cap - n, &info);
	n += wire_put_begun(out + n, cap - n, &begun);
	n += wire_put_data(out + n, cap - n, &data);
	n += wire_put_ended(out + n, cap - n, &ended);
	return n + wire_put_result(out + n, cap - n, &result);
}

static void script_cut(struct peer *p)
{
	uint8_t out[1024];
	size_t n = record_conversation(out, sizeof out);

	MUST(cut_after <= n);
	peer_expect(p, WIRE_HELLO);
	peer_write(p, out, cut_after < 40 ? cut_after : 40);
	if (cut_after > 40) {
		peer_expect(p, WIRE_RUN);
		peer_write(p, out + 40, cut_after - 40);
	}
}

static void cut_at_every_byte(void **state)
{
	const char *const argv[] = { "x", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	uint8_t out[1024];
	struct test t;

	(void)state;
	cut_length = record_conversation(out, sizeof out);
	o.argv = argv;
	for (cut_after = 0; cut_after <= cut_length; cut_after++) {
		struct bailey_error e = { .reason = "" };
		struct bailey_result r = { .status = -1 };
		int status;

		test_start(&t, script_cut);
		status = bailey_connect(t.b, "box", &t.s, &e);
		if (status == 0)
			status = bailey_exec_run(t.s, &o, &r, &e);
		/* the end is known once ENDED came, even if what follows is lost */
		if (cut_after >= cut_length - 28) {
			assert_int_equal(status, 0);
			assert_int_equal(r.status, 0);
		} else {
			assert_int_equal(status, -1);
			assert_string_equal(e.reason, "engine_lost");
		}
		test_stop(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_has_an_end),
		cmocka_unit_test(no_hello),
		cmocka_unit_test(lies_end_the_connection),
		cmocka_unit_test(cut_at_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
