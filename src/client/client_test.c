#include "base/clock.h"
#include "client/engine_test.h"
#include "spec/spec.h"

/* --- commands --- */

static void script_exec(struct peer *p)
{
	static const char want[] = "/work\0003\0echo\0a b\0\0NAME=value";
	uint32_t n;
	struct wire_run run;

	peer_hello(p);
	peer_expect(p, WIRE_RUN);
	MUST(wire_get_run(&p->f, &run));
	MUST(run.rest_len == sizeof want && memcmp(run.rest, want, sizeof want) == 0);
	MUST(run.uid == 7 && run.gid == 8 && run.timeout_ms == 9000 && run.flags == 0);
	n = run.stream;
	peer_put(p, command_info, .stream = n, .command = 17, .state = WIRE_STATE_RUNNING);
	peer_put(p, begun, .stream = n, .pid = 5);
	peer_data(p, n, "out", 3);
	peer_data(p, n | (uint32_t)WIRE_STDERR, "err", 3);
	peer_data(p, n, "put", 3);
	peer_put(p, ended, .stream = n, .how = WIRE_HOW_EXITED, .status = 3, .left = 2);
	peer_end(p, n);
	MUST(!peer_read(p) || p->f.type == WIRE_CLOSE);
}

static void exec_by_callbacks(void **state)
{
	const char *const argv[] = { "echo", "a b", "", NULL };
	const char *const env[] = { "NAME=value", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct seen seen = { .ended = 0 };
	struct bailey_command *c;
	struct bailey_result r;
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_exec);
	o.argv = argv;
	o.env = env;
	o.workdir = "/work";
	o.user = "7:8";
	o.timeout_ms = 9000;
	o.streams.on_output = see_output;
	o.streams.on_ended = see_end;
	o.streams.arg = &seen;
	assert_int_equal(bailey_exec(t.s, &o, &c, &e), 0);
	assert_int_equal(bailey_command_wait(c, -1, &r, &e), 0);
	assert_string_equal(seen.out, "output");
	assert_string_equal(seen.err, "err");
	assert_int_equal(seen.ended, 1);
	assert_int_equal(r.how, BAILEY_EXITED);
	assert_int_equal(r.status, 3);
	assert_int_equal(r.exit_code, 3);
	assert_int_equal(r.left, 2);
	assert_int_equal(r.id, 17);
	assert_int_equal(bailey_command_id(c), 17);
	assert_string_equal(r.reason, "");
	bailey_command_free(c);
	test_stop(&t);
}

enum { BULK = 9 << 20 };

static uint8_t bulk_byte(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 12));
}

/* Sends as much as the client allows and never more. */
static void script_bulk_out(struct peer *p)
{
	static uint8_t data[60000];
	uint64_t sent = 0, limit = WIRE_WINDOW;
	struct wire_ack ack;
	uint32_t n;

	peer_hello(p);
	peer_expect(p, WIRE_RUN);
	n = p->f.stream;
	peer_put(p, command_info, .stream = n, .command = 1, .state = WIRE_STATE_RUNNING);
	while (sent < BULK) {
		size_t part = sizeof data < BULK - sent ? sizeof data : (size_t)(BULK - sent);

		if (part > limit - sent)
			part = (size_t)(limit - sent);
		for (size_t i = 0; i < part; i++)
			data[i] = bulk_byte((size_t)sent + i);
		if (part)
			peer_data(p, n, data, part);
		sent += part;
		if (part)
			continue;
		peer_expect(p, WIRE_ACK);
		MUST(wire_get_ack(&p->f, &ack) && ack.limit <= sent + WIRE_WINDOW);
		limit = ack.limit;
	}
	peer_put(p, ended, .stream = n, .how = WIRE_HOW_EXITED);
	peer_end(p, n);
	while (peer_read(p))
		;
}

/* A reader that begins late and reads slowly: everything arrives, and no more than a window is kept meanwhile. */
static void exec_to_a_slow_pipe(void **state)
{
	const char *const argv[] = { "x", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	static uint8_t data[30011];
	struct bailey_command *c;
	struct bailey_result r;
	struct bailey_error e;
	struct test t;
	size_t got = 0;
	int fds[2];

	(void)state;
	test_connect(&t, script_bulk_out);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	o.argv = argv;
	o.streams.out = fds[1];
	assert_int_equal(bailey_exec(t.s, &o, &c, &e), 0);
	(void)close(fds[1]);
	/* nobody reads: it must come to rest, and no more than pipe and window can have been taken */
	while (bailey_dispatch(t.s, 300, &e) > 0)
		;
	assert_true(((struct stream *)c)->lanes[0].received <= WIRE_WINDOW + (1 << 20));
	assert_true(((struct stream *)c)->lanes[0].received >= WIRE_WINDOW);
	while (got < BULK) {
		ssize_t n = read(fds[0], data, sizeof data);

		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(data[i], bulk_byte(got + (size_t)i));
		got += (size_t)n;
		assert_true(bailey_dispatch(t.s, 0, &e) >= 0);
	}
	assert_int_equal(bailey_command_wait(c, 5000, &r, &e), 0);
	assert_int_equal(r.status, 0);
	bailey_command_free(c);
	assert_int_equal(read(fds[0], data, sizeof data), 0);
	(void)close(fds[0]);
	test_stop(&t);
}

/* A reader that has gone: no signal, the command goes on, its output is dropped. */
static void exec_to_a_closed_pipe(void **state)
{
	const char *const argv[] = { "x", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_result r;
	struct bailey_error e;
	struct test t;
	int fds[2];

	(void)state;
	test_connect(&t, script_bulk_out);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	(void)close(fds[0]);
	o.argv = argv;
	o.streams.out = fds[1];
	assert_int_equal(bailey_exec_run(t.s, &o, &r, &e), 0);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.output_error, EPIPE);
	(void)close(fds[1]);
	test_stop(&t);
}

/* Takes input in small parts and grants little. */
static void script_bulk_in(struct peer *p)
{
	uint64_t got = 0, limit = WIRE_WINDOW;
	struct wire_eof end;
	uint32_t n;

	peer_hello(p);
	peer_expect(p, WIRE_WRITE);
	n = p->f.stream;
	for (;;) {
		MUST(peer_read(p));
		if (p->f.type == WIRE_EOF)
			break;
		MUST(p->f.type == WIRE_DATA && p->f.stream == n);
		for (uint32_t i = 0; i < p->f.length; i++)
			MUST(p->f.body[i] == bulk_byte((size_t)got + i));
		got += p->f.length;
		MUST(got <= limit);
		if (limit - got < 100000) {
			limit = got + 100000;
			peer_put(p, ack, .stream = n, .received = got, .limit = limit);
		}
	}
	MUST(wire_get_eof(&p->f, &end) && end.total == got && got == BULK);
	peer_end(p, n);
	while (peer_read(p))
		;
}

static void write_within_credit(void **state)
{
	struct bailey_error e = { .reason = "" };
	_cleanup_close_ int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	_cleanup_free_ uint8_t *data = malloc(BULK);
	struct test t;

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < BULK; i++)
		data[i] = bulk_byte(i);
	test_connect(&t, script_bulk_in);
	assert_int_equal(bailey_write(t.s, "/f", data, BULK, 0600, 0, &e), 0);
	test_stop(&t);
	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, data, BULK), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	test_connect(&t, script_bulk_in);
	assert_int_equal(bailey_write_from(t.s, "/f", fd, 0600, 0, &e), 0);
	test_stop(&t);
}

static void script_no_write(struct peer *p)
{
	peer_hello(p);
	peer_expect(p, WIRE_WRITE);
	/* what can't be read to its end must not become a file: no EOF may come */
	peer_expect(p, WIRE_CLOSE);
	MUST(!peer_read(p));
}

static void write_from_what_cant_be_read(void **state)
{
	_cleanup_close_ int dir = open("/tmp", O_RDONLY | O_CLOEXEC);
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_no_write);
	assert_int_equal(bailey_write_from(t.s, "/f", dir, 0, 0, &e), -1);
	assert_string_equal(e.reason, "is_a_directory");
	test_stop(&t);
}

static void script_hasty(struct peer *p)
{
	peer_hello(p);
	peer_expect(p, WIRE_WRITE);
	peer_end(p, p->f.stream);
	while (peer_read(p))
		;
}

/* An answer to what was not sent yet is none. */
static void write_answered_early(void **state)
{
	_cleanup_free_ uint8_t *data = calloc(1, BULK);
	struct bailey_error e = { .reason = "" };
	struct test t;

	(void)state;
	assert_non_null(data);
	test_connect(&t, script_hasty);
	assert_int_equal(bailey_write(t.s, "/f", data, BULK, 0, 0, &e), -1);
	assert_string_equal(e.reason, "wire_malformed");
	test_stop(&t);
}

static int start_errno;

static void script_not_started(struct peer *p)
{
	peer_hello(p);
	peer_expect(p, WIRE_RUN);
	peer_put(p, command_info, .stream = p->f.stream, .command = 1);
	peer_put(p, ended, .stream = p->f.stream, .how = WIRE_HOW_NOT_STARTED,
		.status = (uint32_t)start_errno);
	peer_end(p, p->f.stream);
	while (peer_read(p))
		;
}

static void exec_that_does_not_start(void **state)
{
	static const struct {
		int error, status;
		const char *reason;
	} table[] = {
		{ ENOENT, 127, "command_not_found" },
		{ EACCES, 126, "command_not_executable" },
		{ ENOEXEC, 126, "command_not_executable" },
		{ EAGAIN, 125, "pids_exhausted" },
		{ ENOMEM, 125, "oom" },
		{ E2BIG, 125, "value_out_of_range" },
	};
	const char *const argv[] = { "x", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_result r;
	struct bailey_error e;
	struct test t;

	(void)state;
	o.argv = argv;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		start_errno = table[i].error;
		test_connect(&t, script_not_started);
		assert_int_equal(bailey_exec_run(t.s, &o, &r, &e), 0);
		assert_int_equal(r.how, BAILEY_NOT_STARTED);
		assert_int_equal(r.sys_errno, table[i].error);
		assert_int_equal(r.status, table[i].status);
		assert_string_equal(r.reason, table[i].reason);
		test_stop(&t);
	}
	/* detached: nobody waits for the end, so the start is the answer */
	start_errno = ENOENT;
	o.flags = BAILEY_DETACHED;
	test_connect(&t, script_not_started);
	assert_int_equal(bailey_exec(t.s, &o, NULL, &e), -1);
	assert_string_equal(e.reason, "command_not_found");
	assert_int_equal(e.exit, 127);
	test_stop(&t);
}

static void script_ends(struct peer *p)
{
	static const struct wire_ended ends[] = {
		{ .how = WIRE_HOW_SIGNALLED, .status = 9, .flags = WIRE_ENDED_TIMEOUT },
		{ .how = WIRE_HOW_SIGNALLED, .status = 15 },
		{ .how = WIRE_HOW_SIGNALLED, .status = 9, .flags = WIRE_ENDED_OOM },
	};

	peer_hello(p);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		peer_expect(p, WIRE_RUN);
		peer_put(p, ended, .stream = p->f.stream, .how = ends[i].how,
			.status = ends[i].status, .flags = ends[i].flags);
		peer_end(p, p->f.stream);
	}
	while (peer_read(p))
		;
}

static void exec_that_is_ended(void **state)
{
	const char *const argv[] = { "x", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_result r;
	struct bailey_error e;
	struct test t;

	(void)state;
	o.argv = argv;
	test_connect(&t, script_ends);
	assert_int_equal(bailey_exec_run(t.s, &o, &r, &e), 0);
	assert_int_equal(r.status, 124);
	assert_string_equal(r.reason, "timeout");
	assert_int_equal(bailey_exec_run(t.s, &o, &r, &e), 0);
	assert_int_equal(r.status, 143);
	assert_int_equal(r.signal, 15);
	assert_int_equal(bailey_exec_run(t.s, &o, &r, &e), 0);
	assert_int_equal(r.status, 137);
	assert_string_equal(r.reason, "oom");
	test_stop(&t);
}

static void script_ended_long_ago(struct peer *p)
{
	struct wire_attach m;

	peer_hello(p);
	peer_expect(p, WIRE_ATTACH);
	MUST(wire_get_attach(&p->f, &m) && m.command == 3 &&
		m.flags == (WIRE_ATTACH_FOLLOW | WIRE_ATTACH_NO_OUTPUT));
	(void)usleep(50000);
	peer_put(p, command_info, .stream = m.stream, .command = 3, .state = WIRE_STATE_ENDED);
	(void)usleep(50000);
	peer_put(p, ended, .stream = m.stream, .status = 4);
	peer_end(p, m.stream);
	peer_expect(p, WIRE_ATTACH);
	peer_put(p, command_info, .stream = p->f.stream, .command = 5, .state = WIRE_STATE_RUNNING);
	while (peer_read(p))
		;
}

/* Asking whether it has ended takes no waiting. */
static void wait_for_no_time(void **state)
{
	struct bailey_result r;
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_ended_long_ago);
	assert_int_equal(bailey_wait(t.s, 3, 0, &r, &e), 0);
	assert_int_equal(r.status, 4);
	assert_int_equal(bailey_wait(t.s, 5, 0, &r, &e), 1);
	assert_int_equal(bailey_wait(t.s, 0, 0, &r, &e), -1);
	assert_string_equal(e.reason, "no_such_command");
	test_stop(&t);
}

/* --- errors --- */

static void script_errors(struct peer *p)
{
	peer_hello(p);
	for (uint32_t error = 1; error < 200; error++) {
		peer_expect(p, WIRE_STAT);
		peer_put(p, result, .stream = p->f.stream, .error = error);
	}
	while (peer_read(p))
		;
}

static void errno_becomes_a_reason(void **state)
{
	static const struct {
		int error;
		enum reason reason;
	} table[] = {
		{ ENOENT, R_PATH_NOT_FOUND },
		{ EEXIST, R_PATH_EXISTS },
		{ ENOTDIR, R_NOT_A_DIRECTORY },
		{ EISDIR, R_IS_A_DIRECTORY },
		{ EACCES, R_PERMISSION_DENIED },
		{ ENOSPC, R_DISK_FULL },
		{ ESRCH, R_NO_SUCH_COMMAND },
		{ EBUSY, R_BUSY },
		{ EBADMSG, R_ARCHIVE_REFUSED },
		{ EFBIG, R_ARCHIVE_TOO_LARGE },
		{ EIO, R_IO_FAILED },
	};
	struct bailey_stat st;
	struct bailey_error e;
	struct test t;
	size_t found = 0;

	(void)state;
	test_connect(&t, script_errors);
	for (int error = 1; error < 200; error++) {
		assert_int_equal(bailey_stat(t.s, "/a/b", 0, &st, &e), -1);
		assert_int_equal(e.sys_errno, error);
		assert_non_null(strstr(e.message, "'/a/b'"));
		assert_true(*e.remedy);
		for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
			if (table[i].error != error)
				continue;
			assert_string_equal(e.reason, reason_name(table[i].reason));
			found++;
		}
	}
	assert_int_equal(found, sizeof table / sizeof *table);
	test_stop(&t);
}

static void script_words(struct peer *p)
{
	static const char known[] = "busy\0it is busy\0come back", late[] = "reason_of_2040\0m\0";
	static const char cut[] = { 'b', 'u', 's', 'y', 0, 'm' }, note[] = "a/\033[2J\0is there";

	peer_hello(p);
	peer_expect(p, WIRE_CONTROL);
	peer_put(p, result, .stream = p->f.stream, .flags = WIRE_RESULT_REASON,
		.rest = (const uint8_t *)known, .rest_len = sizeof known);
	peer_expect(p, WIRE_CONTROL);
	peer_put(p, result, .stream = p->f.stream, .error = 5, .flags = WIRE_RESULT_REASON,
		.rest = (const uint8_t *)late, .rest_len = sizeof late);
	peer_expect(p, WIRE_CONTROL);
	peer_put(p, result, .stream = p->f.stream, .flags = WIRE_RESULT_REASON,
		.rest = (const uint8_t *)cut, .rest_len = sizeof cut);
	peer_expect(p, WIRE_STAT);
	peer_put(p, result, .stream = p->f.stream, .error = EEXIST, .rest = (const uint8_t *)note,
		.rest_len = sizeof note);
	while (peer_read(p))
		;
}

static void errors_in_words(void **state)
{
	struct bailey_stat st;
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_words);
	assert_int_equal(bailey_pause(t.s, &e), -1);
	assert_string_equal(e.reason, "busy");
	assert_string_equal(e.message, "it is busy");
	assert_string_equal(e.remedy, "come back");
	assert_true(e.later);
	assert_int_equal(bailey_pause(t.s, &e), -1);
	assert_string_equal(e.reason, "io_failed");
	assert_int_equal(e.sys_errno, 5);
	assert_int_equal(bailey_pause(t.s, &e), -1);
	assert_string_equal(e.reason, "wire_malformed");
	/* the guest's own words: never a terminal's */
	assert_int_equal(bailey_stat(t.s, "/x", 0, &st, &e), -1);
	assert_string_equal(e.message, "stat '/x': 'a/\\x1b[2J': is there: File exists");
	/* none wanted */
	assert_int_equal(bailey_stat(t.s, "relative", 0, NULL, NULL), -1);
	test_stop(&t);
}

/* --- callbacks --- */

struct nested {
	struct bailey_sandbox *s;
	struct bailey_command *c;
	unsigned n;
};

static void call_inside(void *arg, int stream, const void *data, size_t n)
{
	struct nested *x = arg;
	struct bailey_stat st;
	struct bailey_error e;

	(void)stream;
	(void)data;
	(void)n;
	if (x->n++)
		return;
	assert_int_equal(bailey_stat(x->s, "/", 0, &st, &e), -1);
	assert_string_equal(e.reason, "busy");
	assert_int_equal(bailey_command_signal(x->c, SIGTERM, &e), 0);
	bailey_command_free(x->c);
}

static void script_nested(struct peer *p)
{
	struct wire_kill kill;
	uint32_t n;

	peer_hello(p);
	peer_expect(p, WIRE_RUN);
	n = p->f.stream;
	peer_put(p, command_info, .stream = n, .command = 4);
	peer_data(p, n, "x", 1);
	peer_data(p, n, "y", 1);
	peer_expect(p, WIRE_KILL);
	MUST(wire_get_kill(&p->f, &kill) && kill.command == 4 && kill.signal == SIGTERM);
	peer_end(p, p->f.stream);
	peer_expect(p, WIRE_CLOSE);
	MUST(p->f.stream == n);
	/* what comes too late is passed over */
	peer_data(p, n, "z", 1);
	peer_put(p, ended, .stream = n);
	peer_end(p, n);
	peer_expect(p, WIRE_STAT);
	peer_put(p, stated, .stream = p->f.stream, .mode = 0100644, .size = 5);
	peer_end(p, p->f.stream);
	while (peer_read(p))
		;
}

static void callbacks_may_let_go(void **state)
{
	const char *const argv[] = { "x", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct nested x = { .n = 0 };
	struct bailey_stat st;
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_nested);
	x.s = t.s;
	o.argv = argv;
	o.streams.on_output = call_inside;
	o.streams.arg = &x;
	assert_int_equal(bailey_exec(t.s, &o, &x.c, &e), 0);
	while (!x.n)
		assert_true(bailey_dispatch(t.s, 1000, &e) >= 0);
	assert_int_equal(bailey_stat(t.s, "/f", 0, &st, &e), 0);
	assert_int_equal(st.size, 5);
	assert_int_equal(x.n, 1);
	test_stop(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exec_by_callbacks),
		cmocka_unit_test(exec_to_a_slow_pipe),
		cmocka_unit_test(exec_to_a_closed_pipe),
		cmocka_unit_test(exec_that_does_not_start),
		cmocka_unit_test(exec_that_is_ended),
		cmocka_unit_test(wait_for_no_time),
		cmocka_unit_test(write_within_credit),
		cmocka_unit_test(write_answered_early),
		cmocka_unit_test(write_from_what_cant_be_read),
		cmocka_unit_test(errno_becomes_a_reason),
		cmocka_unit_test(errors_in_words),
		cmocka_unit_test(callbacks_may_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
