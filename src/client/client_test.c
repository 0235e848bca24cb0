#include "base/clock.h"
#include "client/engine_test.h"
#include "spec/spec.h"

/* --- commands --- */

struct seen {
	char out[256], err[256];
	struct bailey_result result;
	int ended;
};

static void see_output(void *arg, int stream, const void *data, size_t n)
{
	struct seen *s = arg;
	char *to = stream == 2 ? s->err : s->out;

	assert_true(strlen(to) + n < sizeof s->out);
	memcpy(to + strlen(to), data, n);
}

static void see_end(void *arg, const struct bailey_result *result)
{
	struct seen *s = arg;

	s->result = *result;
	s->ended++;
}

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
		cmocka_unit_test(silence_has_an_end),
		cmocka_unit_test(no_hello),
		cmocka_unit_test(lies_end_the_connection),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(callbacks_may_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
