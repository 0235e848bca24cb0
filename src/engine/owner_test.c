/* Owner and channel processes of sandboxes on the fake engine: what clients get, whatever dies, lies, stops or goes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/fake_for_test.h"
#include "engine/rundir.h"

#ifdef BAILEY_SANITIZED
enum { MOST_KIB = 512 << 10 };
#else
enum { MOST_KIB = 32 << 10 };
#endif

enum { SKIPPED = 77 };

static struct client_for_test t, u;

static const char *make(const struct fake_wish *w)
{
	static char id[64];

	if (fake_create(w, id) < 0)
		fail_msg("no sandbox: %s", id);
	return id;
}

static const char *plain(void)
{
	return make(&(struct fake_wish){ .name = NULL });
}

static void drop(const char *id)
{
	char copy[64], path[96];
	pid_t owner;

	FMT(copy, "%s", id);
	owner = (pid_t)strtoull(fake_meta(copy, "owner_pid"), NULL, 10);
	tc_close(&t);
	tc_close(&u);
	tc_connect(&t, copy);
	TC_SEND(&t, control, .stream = 1, .verb = WIRE_CONTROL_REMOVE, .flags = WIRE_CONTROL_FORCE);
	(void)tc_until_result(&t, 1);
	assert_int_equal(t.got[1].answer.error, 0);
	/* nothing is left of it when that is said */
	assert_int_equal(access(fake_path(FMT(path, "sandbox/runs/%s", copy)), F_OK), -1);
	tc_close(&t);
	assert_true(fake_gone(owner));
}

static void is_text(const struct buf *b, const char *want)
{
	assert_int_equal(b->len, strlen(want));
	if (b->len)
		assert_memory_equal(b->data, want, b->len);
}

/* --- commands --- */

static void test_run(void **state)
{
	const char *id = plain();
	struct got *g;

	(void)state;
	assert_string_equal(fake_meta(id, "state"), "running");
	tc_connect(&t, id);
	tc_shell(&t, 1, 0, "echo out; echo err >&2; exit 7");
	g = tc_until_result(&t, 1);
	is_text(&g->data[0], "out\n");
	is_text(&g->data[1], "err\n");
	assert_true(g->info && g->begun && g->ended);
	assert_int_equal(g->end.how, WIRE_HOW_EXITED);
	assert_int_equal(g->end.status, 7);
	assert_int_equal(g->answer.error, 0);
	assert_int_equal(g->last_info.command, 1);
	/* what can't be started is told, and is no error of the request */
	TC_SEND(&t, run, .stream = 2, .uid = (uint32_t)WIRE_SAME_ID, .gid = (uint32_t)WIRE_SAME_ID,
		.rest = (const uint8_t *)"/\0001\0/no/such", .rest_len = 13);
	g = tc_until_result(&t, 2);
	assert_int_equal(g->end.how, WIRE_HOW_NOT_STARTED);
	assert_int_equal(g->end.status, ENOENT);
	/* standard input, its end, and bytes behind it */
	tc_shell(&t, 3, WIRE_RUN_STDIN, "cat; echo end");
	TC_SEND(&t, data, .stream = 3, .rest = (const uint8_t *)"abc", .rest_len = 3);
	TC_SEND(&t, eof, .stream = 3, .total = 3);
	g = tc_until_result(&t, 3);
	is_text(&g->data[0], "abcend\n");
	drop(id);
}

static void test_attach(void **state)
{
	const char *id = plain();
	struct got *g;
	uint32_t command;

	(void)state;
	tc_connect(&t, id);
	tc_shell(&t, 1, WIRE_RUN_DETACHED, "echo one; echo two >&2; sleep 0.3; echo three; exit 5");
	g = tc_until_result(&t, 1);
	command = g->last_info.command;
	assert_int_equal(g->answer.value, command);
	tc_connect(&u, id);
	TC_SEND(&u, attach, .stream = 1, .command = command, .flags = WIRE_ATTACH_FOLLOW);
	g = tc_until_result(&u, 1);
	is_text(&g->data[0], "one\nthree\n");
	is_text(&g->data[1], "two\n");
	assert_int_equal(g->end.status, 5);
	/* again, when it has ended; its end alone; one that is not there */
	TC_SEND(&u, attach, .stream = 2, .command = command);
	g = tc_until_result(&u, 2);
	is_text(&g->data[0], "one\nthree\n");
	assert_true(g->ended);
	TC_SEND(&u, attach, .stream = 3, .command = command,
		.flags = WIRE_ATTACH_FOLLOW | WIRE_ATTACH_NO_OUTPUT);
	g = tc_until_result(&u, 3);
	assert_int_equal(g->data[0].len, 0);
	assert_int_equal(g->end.status, 5);
	TC_SEND(&u, attach, .stream = 4, .command = 999);
	assert_string_equal(tc_until_result(&u, 4)->text, "no_such_command");
	TC_SEND(&u, kill, .stream = 5, .command = 999, .signal = 9);
	assert_string_equal(tc_until_result(&u, 5)->text, "no_such_command");
	TC_SEND(&u, ps, .stream = 6);
	g = tc_until_result(&u, 6);
	assert_int_equal(g->n_infos, 1);
	assert_int_equal(g->last_info.state, WIRE_STATE_ENDED);
	assert_int_equal(g->last_info.out_bytes, 10);
	assert_int_equal(g->last_info.err_bytes, 4);
	drop(id);
}

/* The client that started it goes; the command doesn't. */
static void test_vanished_client(void **state)
{
	const char *id = plain();
	struct got *g;

	(void)state;
	tc_connect(&t, id);
	tc_shell(&t, 1, WIRE_RUN_STDIN, "echo up; sleep 0.3; read x; echo $x; exit 4");
	(void)tc_until_begun(&t, 1);
	tc_close(&t);
	tc_connect(&u, id);
	TC_SEND(&u, attach, .stream = 1, .command = 1,
		.flags = WIRE_ATTACH_FOLLOW | WIRE_ATTACH_STDIN);
	TC_SEND(&u, data, .stream = 1, .rest = (const uint8_t *)"word\n", .rest_len = 5);
	g = tc_until_result(&u, 1);
	is_text(&g->data[0], "up\nword\n");
	assert_int_equal(g->end.status, 4);
	drop(id);
}

static void test_hundred_clients(void **state)
{
	enum { N = 100, BYTES = 300000 };
	static struct client_for_test many[N];
	const char *id = plain();

	(void)state;
	tc_connect(&t, id);
	tc_shell(&t, 1, WIRE_RUN_DETACHED,
		"sleep 0.3; head -c 300000 /dev/zero | tr '\\0' x; exit 3");
	(void)tc_until_result(&t, 1);
	for (unsigned i = 0; i < N; i++) {
		tc_connect(&many[i], id);
		TC_SEND(&many[i], attach, .stream = 1, .command = 1, .flags = WIRE_ATTACH_FOLLOW);
	}
	for (unsigned i = 0; i < N; i++) {
		const struct got *g = tc_until_result(&many[i], 1);

		assert_int_equal(g->data[0].len, BYTES);
		assert_null(memchr(g->data[0].data, '\0', BYTES));
		assert_int_equal(g->end.status, 3);
		tc_close(&many[i]);
	}
	drop(id);
}

/* More than may be: said, and the others are served. */
static void test_too_many_clients(void **state)
{
	enum { MANY = 256 };
	static struct client_for_test many[MANY];
	const char *id = plain();
	struct got *g;

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		tc_connect(&many[i], id);
		assert_true(tc_read(&many[i], FAKE_WAIT_MS));
	}
	tc_connect(&t, id);
	TC_SEND(&t, ps, .stream = 1);
	g = tc_until_result(&t, 1);
	assert_string_equal(g->text, "busy");
	TC_SEND(&many[MANY - 1], ps, .stream = 1);
	assert_int_equal(tc_until_result(&many[MANY - 1], 1)->answer.error, 0);
	for (unsigned i = 0; i < MANY; i++)
		tc_close(&many[i]);
	drop(id);
}

/* --- readers that stop --- */

static uint64_t high_water(pid_t pid)
{
	char path[64], text[4096], *p;

	if (read_file_at(AT_FDCWD, FMT(path, "/proc/%d/status", pid), text, sizeof text) < 0)
		return 0;
	p = strstr(text, "VmHWM:");
	return p ? strtoull(p + 6, NULL, 10) : 0;
}

static void test_stopped_reader(void **state)
{
	enum { BYTES = 40000000 };
	const char *id = make(&(struct fake_wish){ .spool_max = 4 << 20 });
	pid_t channel = fake_channel(id);
	struct got *g;

	(void)state;
	assert_true(channel > 0);
	tc_connect(&t, id);
	t.hold = true;
	tc_shell(&t, 1, 0, "head -c 40000000 /dev/zero; exit 6");
	(void)tc_until_begun(&t, 1);
	(void)usleep(300000);
	/* somebody who does not read holds up nobody else */
	tc_connect(&u, id);
	tc_shell(&u, 1, 0, "head -c 40000000 /dev/zero; exit 2");
	g = tc_until_result(&u, 1);
	assert_int_equal(g->data[0].len, BYTES);
	assert_int_equal(g->end.status, 2);
	/* what it started waits for it, and nothing of its output is dropped */
	t.hold = false;
	while (!t.got[1].result && t.granted[1][0] < 5u * WIRE_WINDOW) {
		while (tc_read(&t, 100))
			;
		t.granted[1][0] = t.got[1].data[0].len + WIRE_WINDOW;
		TC_SEND(&t, ack, .stream = 1, .received = t.got[1].data[0].len,
			.limit = t.granted[1][0]);
	}
	g = tc_until_result(&t, 1);
	assert_int_equal(g->data[0].len, BYTES);
	assert_int_equal(g->end.status, 6);
	assert_true(high_water(channel) < MOST_KIB);
	/* whoever comes later hears what is no longer kept */
	TC_SEND(&u, attach, .stream = 2, .command = 1, .flags = WIRE_ATTACH_FOLLOW);
	g = tc_until_result(&u, 2);
	assert_int_equal(g->data[0].len + g->answer.value, BYTES);
	assert_true(g->answer.value > BYTES / 2);
	assert_int_equal(g->last_info.dropped, g->answer.value);
	drop(id);
}

/* --- deaths --- */

static void test_channel_killed(void **state)
{
	const char *id = plain();
	char want[64 << 10];
	size_t n = 0;
	struct got *g;

	(void)state;
	for (unsigned i = 1; i <= 600; i++) {
		str_format(want + n, sizeof want - n, "line %u\n", i);
		n += strlen(want + n);
	}
	tc_connect(&t, id);
	tc_shell(&t, 1, WIRE_RUN_DETACHED,
		"i=0; while [ $i -lt 600 ]; do i=$((i + 1)); echo line $i; "
		"[ $((i % 20)) -ne 0 ] || sleep 0.03; done; exit 9");
	(void)tc_until_result(&t, 1);
	for (unsigned i = 0; i < 4; i++) {
		pid_t channel = fake_channel(id);

		(void)usleep(150000);
		assert_true(channel > 0);
		assert_int_equal(kill(channel, SIGKILL), 0);
		assert_true(tc_until_closed(&t));
		assert_true(fake_gone(channel));
		tc_close(&t);
		tc_connect(&t, id);
		tc_shell(&t, 1, 0, "echo still");
		is_text(&tc_until_result(&t, 1)->data[0], "still\n");
	}
	TC_SEND(&t, attach, .stream = 2, .command = 1, .flags = WIRE_ATTACH_FOLLOW);
	g = tc_until_result(&t, 2);
	is_text(&g->data[0], want);
	assert_int_equal(g->end.status, 9);
	assert_int_equal(g->answer.value, 0);
	TC_SEND(&t, ps, .stream = 3);
	assert_int_equal(tc_until_result(&t, 3)->n_infos, 5);
	/* ids are not given twice */
	assert_int_equal(t.got[3].last_info.command, 5);
	drop(id);
}

static void test_owner_killed(void **state)
{
	const char *id = plain();
	const pid_t owner = (pid_t)strtoull(fake_meta(id, "owner_pid"), NULL, 10);
	const pid_t channel = fake_channel(id);
	_cleanup_err_ struct err e = ERR_INIT;
	struct rundirs dirs;
	char path[96];
	unsigned n = 0;

	(void)state;
	tc_connect(&t, id);
	tc_shell(&t, 1, 0, "sleep 100");
	(void)tc_until_begun(&t, 1);
	assert_int_equal(kill(owner, SIGKILL), 0);
	assert_true(tc_until_closed(&t));
	assert_true(fake_gone(channel) && fake_gone(owner));
	tc_close(&t);
	/* the sweep says that it is lost, and leaves that to be seen for a while */
	assert_string_equal(fake_meta(id, "state"), "running");
	assert_int_equal(rundirs_open(&dirs, &e), 0);
	assert_int_equal(rundirs_sweep(&dirs, &n, &e), 0);
	assert_int_equal(n, 0);
	assert_string_equal(fake_meta(id, "state"), "lost");
	assert_string_equal(fake_meta(id, "exit_reason"), "engine_lost");
	rundir_remove(&dirs, id, "");
	assert_int_equal(access(fake_path(FMT(path, "sandbox/runs/%s", id)), F_OK), -1);
	rundirs_done(&dirs);
}

/* --- nonsense --- */

static void send_raw(struct client_for_test *c, uint32_t type, uint32_t stream, uint32_t length,
	const void *body, size_t n)
{
	uint8_t head[WIRE_HEADER];

	wire_put_header(head, type, stream, length);
	tc_send(c, head, sizeof head);
	if (n)
		tc_send(c, body, n);
}

/* Each ends the connection that it came over, and nothing else. */
static void test_malformed_client(void **state)
{
	static const struct {
		uint32_t type, stream, length;
	} bad[] = { { 0, 1, 0 }, { 999, 1, 0 }, { WIRE_DATA, 0, 0 }, { WIRE_RUN, 1, 3 },
		{ WIRE_RUN, 1, 0xffffffff }, { WIRE_STAT, 1, 4 }, { WIRE_BEGUN, 1, 4 },
		{ WIRE_RESUMED, 0, 0 }, { WIRE_STAT, 0x80000001, 5 }, { WIRE_PS, 0x40000001, 0 },
		{ WIRE_ATTACH, 1, 8 }, { WIRE_CONTROL, 1, 16 }, { WIRE_EXEC, 0, 16 } };
	static const uint8_t junk[64] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const char *id = plain();

	(void)state;
	tc_connect(&u, id);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		tc_connect(&t, id);
		send_raw(&t, bad[i].type, bad[i].stream, bad[i].length, junk,
			bad[i].length < sizeof junk ? bad[i].length : 0);
		if (!tc_until_closed(&t))
			fail_msg("frame %zu was taken", i);
		tc_close(&t);
	}
	/* no HELLO, bytes above the credit, a number twice */
	tc_connect(&t, id);
	tc_shell(&t, 1, WIRE_RUN_STDIN, "sleep 100");
	for (unsigned i = 0; i < 80 && t.fd >= 0; i++) {
		static const uint8_t zeros[WIRE_MAX_BODY];

		TC_SEND(&t, data, .stream = 1, .rest = zeros, .rest_len = sizeof zeros);
	}
	assert_true(tc_until_closed(&t));
	tc_close(&t);
	tc_connect(&t, id);
	tc_shell(&t, 1, 0, "sleep 100");
	tc_shell(&t, 1, 0, "sleep 100");
	assert_true(tc_until_closed(&t));
	tc_shell(&u, 1, 0, "echo well");
	is_text(&tc_until_result(&u, 1)->data[0], "well\n");
	drop(id);
}

/* A guest that greets as it should, and answers each RUN with a lie. */
static unsigned lie;

static void put(int fd, const void *p, size_t n)
{
	(void)write_all(fd, p, n);
}

#define PUT(fd, name, ...) \
	do { \
		const struct wire_##name put_ = { __VA_ARGS__ }; \
		uint8_t out_[4096]; \
\
		put(fd, out_, wire_put_##name(out_, sizeof out_, &put_)); \
	} while (0)

static void tell_lie(int fd, uint32_t stream)
{
	uint8_t raw[WIRE_HEADER + 16];

	switch (lie) {
	case 0: /* of a stream that was never asked for */
		PUT(fd, begun, .stream = 77, .pid = 5);
		break;
	case 1: /* an end before the beginning */
		PUT(fd, ended, .stream = stream);
		break;
	case 2: /* an exit code that can't be */
		PUT(fd, begun, .stream = stream, .pid = 5);
		wire_put_header(raw, WIRE_ENDED, stream, 16);
		memset(raw + WIRE_HEADER, 0, 16);
		raw[WIRE_HEADER + 5] = 1;
		put(fd, raw, sizeof raw);
		break;
	case 3: /* bytes behind their end */
		PUT(fd, begun, .stream = stream, .pid = 5);
		PUT(fd, eof, .stream = stream);
		PUT(fd, data, .stream = stream, .rest = raw, .rest_len = 1);
		break;
	case 4: /* a total that isn't one */
		PUT(fd, begun, .stream = stream, .pid = 5);
		PUT(fd, eof, .stream = stream, .total = 9);
		break;
	case 5: /* an answer of an engine's */
		PUT(fd, result, .stream = stream, .flags = WIRE_RESULT_FD);
		break;
	default: /* half a frame, then the end */
		put(fd, raw, 5);
		break;
	}
}

static void liar(int fd, uint64_t epoch)
{
	uint8_t in[8192];
	size_t n = 0, at = 0, used;
	struct wire_frame f;

	PUT(fd, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = epoch,
		.flags = epoch == 1 ? WIRE_HELLO_FRESH : 0);
	PUT(fd, resumed, .stream = 0);
	for (;;) {
		const ssize_t r = read(fd, in + n, sizeof in - n);

		if (r <= 0)
			return;
		n += (size_t)r;
		while (wire_parse(in + at, n - at, WIRE_FROM_HOST, &f, &used) == WIRE_OK) {
			if (f.type == WIRE_RUN) {
				tell_lie(fd, f.stream);
				if (lie > 5)
					return;
			}
			at += used;
		}
		memmove(in, in + at, n - at);
		n -= at;
		at = 0;
	}
}

static void test_lying_guest(void **state)
{
	(void)state;
	for (lie = 0; lie <= 6; lie++) {
		const char *id;
		const struct got *g;

		fake_guest = liar;
		id = plain();
		tc_connect(&t, id);
		for (unsigned i = 1; i <= 8; i++) {
			tc_shell(&t, i, 0, "true");
			g = tc_until_result(&t, i);
			if (!(g->answer.flags & WIRE_RESULT_REASON))
				fail_msg("lie %u is believed", lie);
		}
		/* some end the connection a few times: then the sandbox is given up, and says so */
		if (lie <= 5 && !fake_meta_becomes(id, "state", "lost"))
			fail_msg("lie %u: %s", lie, fake_meta(id, "state"));
		TC_SEND(&t, inspect, .stream = 20);
		assert_int_equal(tc_until_result(&t, 20)->answer.error, 0);
		fake_guest = NULL;
		drop(id);
	}
}

/* --- what the channel process can still do --- */

static void test_channel_rights(void **state)
{
	const char *id = plain();
	const pid_t channel = fake_channel(id);
	char path[64], text[8192], run[96];
	struct stat root, spool;

	(void)state;
	assert_true(read_file_at(AT_FDCWD, FMT(path, "/proc/%d/status", channel), text,
			    sizeof text) > 0);
	assert_non_null(strstr(text, "\nNoNewPrivs:\t1\n"));
	assert_non_null(strstr(text, "\nCapEff:\t0000000000000000\n"));
	assert_non_null(strstr(text, "\nCapPrm:\t0000000000000000\n"));
#ifndef BAILEY_SANITIZED
	assert_non_null(strstr(text, "\nSeccomp:\t2\n"));
#endif
	if (geteuid() == 0) {
		assert_non_null(strstr(text, "\nUid:\t61235\t61235\t61235\t61235\n"));
		assert_non_null(strstr(text, "\nGid:\t61235\t61235\t61235\t61235\n"));
		assert_non_null(strstr(text, "\nGroups:\t \n"));
		assert_non_null(strstr(text, "\nCapBnd:\t0000000000000000\n"));
		assert_int_equal(stat(FMT(path, "/proc/%d/root", channel), &root), 0);
		assert_int_equal(stat(fake_path(FMT(run, "sandbox/runs/%s/spool", id)), &spool), 0);
		assert_true(root.st_ino == spool.st_ino && root.st_dev == spool.st_dev);
	}
	/* standard streams, owner, listener, spool, index, epoll, guest: none of the engine's */
	for (int fd = 3; fd < 64; fd++) {
		ssize_t n =
			readlink(FMT(path, "/proc/%d/fd/%d", channel, fd), text, sizeof text - 1);

		text[n > 0 ? n : 0] = '\0';
		if (*text && !str_after(text, "anon_inode:[eventpoll]") &&
			!str_after(text, "socket:") && !strstr(text, "/spool"))
			fail_msg("descriptor %d is open: %s", fd, text);
	}
	drop(id);
}

/* --- states --- */

static bool has_event(const char *kind)
{
	static char text[64 << 10];
	char want[64];

	if (read_file_at(AT_FDCWD, fake_path("sandbox/events"), text, sizeof text) < 0)
		return false;
	return strstr(text, FMT(want, " %s", kind)) != NULL;
}

static void test_states(void **state)
{
	const char *id = make(&(struct fake_wish){ .name = "box" });
	char other[64], path[96];

	(void)state;
	assert_string_equal(fake_meta(id, "name"), "box");
	assert_int_equal(fake_create(&(struct fake_wish){ .name = "box" }, other), -1);
	assert_string_equal(other, "sandbox_exists");
	tc_connect(&t, id);
	assert_string_equal(tc_control(&t, 1, WIRE_CONTROL_PAUSE, "", 0), "");
	assert_string_equal(fake_meta(id, "state"), "paused");
	tc_shell(&t, 2, 0, "true");
	assert_string_equal(tc_until_result(&t, 2)->text, "sandbox_not_running");
	assert_string_equal(tc_control(&t, 3, WIRE_CONTROL_RESUME, "", 0), "");
	tc_shell(&t, 4, 0, "sleep 100");
	(void)tc_until_begun(&t, 4);
	tc_connect(&u, id);
	assert_string_equal(tc_control(&u, 1, WIRE_CONTROL_STOP, "", 0), "");
	assert_string_equal(tc_until_result(&t, 4)->text, "sandbox_not_running");
	assert_string_equal(fake_meta(id, "state"), "stopped");
	TC_SEND(&u, attach, .stream = 2, .command = 1, .flags = WIRE_ATTACH_FOLLOW);
	assert_int_equal(tc_until_result(&u, 2)->end.how, WIRE_HOW_SIGNALLED);
	assert_string_equal(tc_control(&u, 3, WIRE_CONTROL_START, "", 0), "");
	assert_string_equal(fake_meta(id, "state"), "running");
	tc_shell(&u, 4, 0, "echo again");
	is_text(&tc_until_result(&u, 4)->data[0], "again\n");
	assert_int_equal(u.got[4].last_info.command, 2);
	assert_true(has_event("created") && has_event("started") && has_event("paused") &&
		has_event("resumed") && has_event("stopped"));
	drop(id);
	assert_true(has_event("removed"));
	assert_int_equal(access(fake_path(FMT(path, "sandbox/names/box")), F_OK), -1);
}

/* id NUL name NUL */
static const char *fork_as(uint32_t stream, uint32_t verb, const char *new_id, const char *name)
{
	char text[128];
	const size_t n = strlen(new_id);

	memcpy(text, new_id, n + 1);
	memcpy(text + n + 1, name, strlen(name) + 1);
	return tc_control(&t, stream, verb, text, (uint32_t)(n + strlen(name) + 2));
}

static void touch(const char *name)
{
	int fd = open(fake_path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

static void test_forks(void **state)
{
	const char *id = plain(), *snap = "b00000000000000a1", *fork = "b00000000000000a2";
	char first[64];

	(void)state;
	FMT(first, "%s", id);
	tc_connect(&t, first);
	assert_string_equal(fork_as(1, WIRE_CONTROL_SNAPSHOT, snap, "snap"), "");
	assert_string_equal(t.got[1].text, snap);
	assert_string_equal(fake_meta(snap, "state"), "snapshot");
	assert_string_equal(fake_meta(snap, "kind"), "snapshot");
	assert_string_equal(fake_meta(snap, "parent"), first);
	assert_string_equal(fork_as(2, WIRE_CONTROL_FORK, fork, "snap"), "sandbox_exists");
	touch("copy-fails");
	assert_string_equal(fork_as(3, WIRE_CONTROL_FORK, fork, "tine"), "disk_full");
	(void)unlink(fake_path("copy-fails"));
	touch("copy-dies");
	assert_string_equal(fork_as(4, WIRE_CONTROL_FORK, fork, "tine"), "engine_lost");
	(void)unlink(fake_path("copy-dies"));
	assert_string_equal(fork_as(5, WIRE_CONTROL_FORK, "nonsense", ""), "bad_value");
	assert_string_equal(fork_as(6, WIRE_CONTROL_FORK, fork, "tine"), "");
	assert_string_equal(fake_meta(fork, "state"), "running");
	assert_true(has_event("snapshot") && has_event("forked"));
	tc_connect(&u, fork);
	tc_shell(&u, 1, 0, "echo fork");
	is_text(&tc_until_result(&u, 1)->data[0], "fork\n");
	drop(first);
	/* each has an owner of its own */
	tc_connect(&t, snap);
	assert_string_equal(tc_control(&t, 1, WIRE_CONTROL_START, "", 0), "snapshot_only");
	tc_shell(&t, 2, 0, "true");
	assert_string_equal(tc_until_result(&t, 2)->text, "snapshot_only");
	assert_string_equal(fork_as(3, WIRE_CONTROL_FORK, "b00000000000000a3", ""), "");
	drop(snap);
	drop(fork);
	drop("b00000000000000a3");
}

static void test_changes(void **state)
{
	const char *id = plain();
	char text[16] = "";
	struct got *g;

	(void)state;
	tc_connect(&t, id);
	TC_SEND(&t, changes, .stream = 1);
	g = tc_until_result(&t, 1);
	assert_int_equal(g->answer.error, 0);
	assert_true(g->fd >= 0);
	assert_int_equal(read(g->fd, text, sizeof text), 7);
	assert_memory_equal(text, "records", 7);
	assert_int_equal(read(g->fd, text, sizeof text), 0);
	TC_SEND(&t, changes, .stream = 2, .flags = WIRE_FILE_COW);
	g = tc_until_result(&t, 2);
	assert_string_equal(g->text, "bad_value");
	assert_int_equal(g->fd, -1);
	drop(id);
}

static void test_first_command(void **state)
{
	static const char *const ends[] = { "/bin/sh", "-c", "echo words; sleep 0.4; exit 3",
		NULL };
	static const char *const none[] = { "/no/such/command", NULL };
	const char *id = make(&(struct fake_wish){ .command = ends });
	char other[64], path[96];
	struct got *g;

	(void)state;
	tc_connect(&t, id);
	TC_SEND(&t, attach, .stream = 1, .command = 1, .flags = WIRE_ATTACH_FOLLOW);
	g = tc_until_result(&t, 1);
	is_text(&g->data[0], "words\n");
	assert_int_equal(g->end.status, 3);
	assert_true(tc_until_closed(&t));
	assert_int_equal(access(fake_path(FMT(path, "sandbox/runs/%s", id)), F_OK), -1);
	tc_close(&t);
	assert_int_equal(fake_create(&(struct fake_wish){ .command = none }, other), -1);
	assert_string_equal(other, "command_not_found");
	id = make(&(struct fake_wish){ .command = none, .keep = true });
	tc_connect(&t, id);
	TC_SEND(&t, attach, .stream = 1, .command = 1, .flags = WIRE_ATTACH_FOLLOW);
	assert_int_equal(tc_until_result(&t, 1)->end.status, ENOENT);
	drop(id);
}

static void test_ttl(void **state)
{
	const char *id = make(&(struct fake_wish){ .ttl_ms = 500 });
	char path[96];

	(void)state;
	tc_connect(&t, id);
	tc_shell(&t, 1, 0, "sleep 100");
	assert_string_equal(tc_until_result(&t, 1)->text, "timeout");
	assert_true(tc_until_closed(&t));
	assert_int_equal(access(fake_path(FMT(path, "sandbox/runs/%s", id)), F_OK), -1);
	tc_close(&t);
}

/* What a test that failed left set. */
static int each(void **state)
{
	(void)state;
	fake_guest = NULL;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	fake_home();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_home_done();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_run, each),
		cmocka_unit_test_setup(test_attach, each),
		cmocka_unit_test_setup(test_vanished_client, each),
		cmocka_unit_test_setup(test_hundred_clients, each),
		cmocka_unit_test_setup(test_too_many_clients, each),
		cmocka_unit_test_setup(test_stopped_reader, each),
		cmocka_unit_test_setup(test_channel_killed, each),
		cmocka_unit_test_setup(test_owner_killed, each),
		cmocka_unit_test_setup(test_malformed_client, each),
		cmocka_unit_test_setup(test_lying_guest, each),
		cmocka_unit_test_setup(test_channel_rights, each),
		cmocka_unit_test_setup(test_states, each),
		cmocka_unit_test_setup(test_forks, each),
		cmocka_unit_test_setup(test_changes, each),
		cmocka_unit_test_setup(test_first_command, each),
		cmocka_unit_test_setup(test_ttl, each),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	if (!fake_possible()) {
		(void)fprintf(stderr, "this host lets us make no pid namespace\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
