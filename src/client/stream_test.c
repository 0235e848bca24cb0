#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "client/engine_test.h"

/* --- connections --- */

static void script_dial(struct peer *p)
{
	struct wire_dial dial;
	uint32_t n;

	peer_hello(p);
	peer_expect(p, WIRE_DIAL);
	MUST(wire_get_dial(&p->f, &dial) && dial.kind == WIRE_NET_TCP && dial.port == 8080);
	n = dial.stream;
	peer_put(p, begun, .stream = n);
	peer_expect(p, WIRE_DATA);
	MUST(p->f.length == 4 && memcmp(p->f.body, "ping", 4) == 0);
	peer_data(p, n, "pong", 4);
	peer_put(p, eof, .stream = n, .total = 4);
	/* half closed: the other direction goes on */
	peer_expect(p, WIRE_DATA);
	MUST(p->f.length == 4 && memcmp(p->f.body, "more", 4) == 0);
	peer_expect(p, WIRE_EOF);
	peer_end(p, n);
	peer_expect(p, WIRE_DIAL);
	MUST(wire_get_dial(&p->f, &dial) && dial.kind == WIRE_NET_UNIX);
	peer_put(p, result, .stream = p->f.stream, .error = ECONNREFUSED);
	while (peer_read(p))
		;
}

static ssize_t read_dispatching(struct bailey_sandbox *s, int fd, char *out, size_t cap)
{
	struct pollfd fds[2] = { { .fd = fd, .events = POLLIN },
		{ .fd = bailey_fd(s), .events = POLLIN } };

	for (;;) {
		assert_true(poll(fds, 2, 5000) > 0);
		if (fds[1].revents)
			assert_true(bailey_dispatch(s, 0, NULL) >= 0);
		if (fds[0].revents)
			return read(fd, out, cap);
	}
}

static void dial_both_ways(void **state)
{
	struct bailey_error e;
	struct test t;
	char data[16];
	int fd, none;

	(void)state;
	test_connect(&t, script_dial);
	assert_int_equal(bailey_dial(t.s, 8080, NULL, &fd, &e), 0);
	assert_int_equal(write_all(fd, "ping", 4), 0);
	assert_int_equal(read_dispatching(t.s, fd, data, sizeof data), 4);
	assert_memory_equal(data, "pong", 4);
	assert_int_equal(read_dispatching(t.s, fd, data, sizeof data), 0);
	assert_int_equal(write_all(fd, "more", 4), 0);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	while (t.s->streams)
		assert_true(bailey_dispatch(t.s, 2000, &e) > 0);
	(void)close(fd);
	assert_int_equal(bailey_dial(t.s, 0, "/run/x", &none, &e), -1);
	assert_int_equal(e.sys_errno, ECONNREFUSED);
	test_stop(&t);
}

static void script_listen(struct peer *p)
{
	const uint32_t in = WIRE_GUEST_STREAM | 3;
	uint32_t n;

	peer_hello(p);
	peer_expect(p, WIRE_LISTEN);
	n = p->f.stream;
	peer_put(p, begun, .stream = n, .pid = 4242);
	peer_put(p, incoming, .stream = in, .listener = n);
	peer_data(p, in, "hello", 5);
	peer_expect(p, WIRE_DATA);
	MUST(p->f.stream == in && p->f.length == 5);
	peer_put(p, eof, .stream = in, .total = 5);
	peer_expect(p, WIRE_EOF);
	peer_end(p, in);
	while (peer_read(p))
		;
}

static void take_connection(void *arg, int fd)
{
	*(int *)arg = fd;
}

static void listen_inside(void **state)
{
	struct bailey_listener *l;
	struct bailey_error e;
	struct test t;
	char data[16];
	int fd = -1;

	(void)state;
	test_connect(&t, script_listen);
	assert_int_equal(bailey_listen(t.s, 0, NULL, take_connection, &fd, &l, &e), 0);
	assert_int_equal(bailey_listener_port(l), 4242);
	while (fd < 0)
		assert_true(bailey_dispatch(t.s, 2000, &e) > 0);
	assert_int_equal(read_dispatching(t.s, fd, data, sizeof data), 5);
	assert_int_equal(write_all(fd, "world", 5), 0);
	assert_int_equal(read_dispatching(t.s, fd, data, sizeof data), 0);
	(void)close(fd);
	while (t.s->streams != (struct stream *)l)
		assert_true(bailey_dispatch(t.s, 2000, &e) > 0);
	bailey_listener_free(l);
	test_stop(&t);
}

/* --- files --- */

static void put_record(uint8_t *out, size_t *n, const char *name, const char *more, uint32_t mode)
{
	const size_t name_len = strlen(name), len = 32 + name_len + strlen(more);
	uint8_t *p = out + *n;

	memset(p, 0, 32);
	p[0] = (uint8_t)len;
	p[1] = (uint8_t)(len >> 8);
	p[2] = (uint8_t)mode;
	p[3] = (uint8_t)(mode >> 8);
	p[14] = 9; /* size, or line */
	p[30] = (uint8_t)name_len;
	for (size_t i = 0; i < len - 32; i++)
		p[32 + i] = (uint8_t)(i < name_len ? name[i] : more[i - name_len]);
	*n += len;
}

static void script_list(struct peer *p)
{
	uint8_t records[4096];
	size_t n = 0;

	peer_hello(p);
	peer_expect(p, WIRE_LIST);
	put_record(records, &n, "file", "", 0100644);
	put_record(records, &n, "link", "../../etc/passwd", 0120777);
	put_record(records, &n, "\xff\n odd", "", 0100600);
	/* in pieces that respect nothing */
	for (size_t i = 0; i < n; i += 7)
		peer_data(p, p->f.stream, records + i, n - i < 7 ? n - i : 7);
	peer_put(p, eof, .stream = p->f.stream, .total = n);
	peer_put(p, result, .stream = p->f.stream, .flags = WIRE_RESULT_TRUNCATED);
	n = 0;
	peer_expect(p, WIRE_SEARCH);
	put_record(records, &n, "a/b.c", "int main(void)", 0100644);
	peer_data(p, p->f.stream, records, n);
	peer_put(p, eof, .stream = p->f.stream, .total = n);
	peer_end(p, p->f.stream);
	while (peer_read(p))
		;
}

static int see_entry(void *arg, const struct bailey_entry *entry)
{
	char *text = arg;
	const size_t n = strlen(text);

	str_format(text + n, 512 - n, "%o %s>%s %llu:%.*s|", entry->mode, entry->name,
		entry->target, (unsigned long long)entry->line, (int)entry->text_size, entry->text);
	return 0;
}

static void lists_and_matches(void **state)
{
	struct bailey_search_options o = BAILEY_SEARCH_OPTIONS_INIT;
	char text[512] = "";
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_list);
	assert_int_equal(bailey_list(t.s, "/d", 3, see_entry, text, &e), 1);
	assert_string_equal(text,
		"100644 file> 0:|120777 link>../../etc/passwd 0:|"
		"100600 \xff\n odd> 0:|");
	*text = '\0';
	o.path = "/d";
	o.text = "main";
	assert_int_equal(bailey_search(t.s, &o, see_entry, text, &e), 0);
	assert_string_equal(text, "100644 a/b.c> 9:int main(void)|");
	test_stop(&t);
}

static unsigned which;

static void script_bad_list(struct peer *p)
{
	static const char *const names[] = { "..", ".", "a/b", "/a", "", "../x", "a/../b", "a//b" };
	uint8_t record[128];
	size_t n = 0;

	peer_hello(p);
	MUST(peer_read(p));
	if (which < sizeof names / sizeof *names) {
		put_record(record, &n, names[which], "", 0100644);
	} else {
		put_record(record, &n, "name", "", 0100644);
		record[which == 8 ? 0 : 30] = which == 8 ? 1 : 200; /* a length that lies */
		if (which == 10)
			record[33] = 0; /* a NUL in the name */
	}
	peer_data(p, p->f.stream, record, n);
	peer_put(p, eof, .stream = p->f.stream, .total = n);
	peer_end(p, p->f.stream);
	while (peer_read(p))
		;
}

static void names_that_lead_out(void **state)
{
	struct bailey_search_options o = BAILEY_SEARCH_OPTIONS_INIT;
	struct bailey_error e;
	struct test t;

	(void)state;
	o.path = "/d";
	for (which = 0; which < 11; which++) {
		char text[512] = "";

		test_connect(&t, script_bad_list);
		/* a path with a slash is right in a search alone */
		if (which == 2 || which >= 8)
			assert_int_equal(bailey_list(t.s, "/d", 0, see_entry, text, &e), -1);
		else
			assert_int_equal(bailey_search(t.s, &o, see_entry, text, &e), -1);
		assert_string_equal(e.reason, "wire_malformed");
		assert_string_equal(text, "");
		test_stop(&t);
	}
}

static void script_read(struct peer *p)
{
	struct wire_read read;

	peer_hello(p);
	peer_expect(p, WIRE_READ);
	MUST(wire_get_read(&p->f, &read) && read.offset == 3 && read.length == 8);
	peer_data(p, read.stream, "content", 7);
	peer_put(p, eof, .stream = read.stream, .total = 7);
	peer_end(p, read.stream);
	peer_expect(p, WIRE_READ);
	peer_data(p, p->f.stream, "too much", 8);
	while (peer_read(p))
		;
}

static void reads_no_more_than_asked(void **state)
{
	struct bailey_error e;
	struct test t;
	char data[8];

	(void)state;
	test_connect(&t, script_read);
	assert_int_equal(bailey_read(t.s, "/f", 3, data, sizeof data, &e), 7);
	assert_memory_equal(data, "content", 7);
	assert_int_equal(bailey_read(t.s, "/f", 0, data, 4, &e), -1);
	assert_string_equal(e.reason, "wire_malformed");
	test_stop(&t);
}

static void script_endless(struct peer *p)
{
	uint8_t record[64];
	size_t n = 0;

	peer_hello(p);
	MUST(peer_read(p));
	put_record(record, &n, "x", "", 0100644);
	for (;;)
		peer_data(p, p->f.stream, record, n);
}

static void lists_have_an_end(void **state)
{
	char text[512] = "";
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_endless);
	assert_int_equal(bailey_list(t.s, "/d", 5, see_entry, text, &e), -1);
	assert_string_equal(e.reason, "wire_malformed");
	test_stop(&t);
	test_connect(&t, script_endless);
	assert_int_equal(bailey_inspect(t.s, NULL, NULL, &e), -1);
	assert_string_equal(e.reason, "wire_malformed");
	test_stop(&t);
}

/* --- the sandbox --- */

static void script_facts(struct peer *p)
{
	static const char facts[] =
		"id " TEST_ID "\nname a\\nb\nmemory_used_bytes 4096\npids_used 3\n";

	peer_hello(p);
	peer_expect(p, WIRE_INSPECT);
	peer_data(p, p->f.stream, facts, 20);
	peer_data(p, p->f.stream, facts + 20, sizeof facts - 21);
	peer_end(p, p->f.stream);
	peer_expect(p, WIRE_INSPECT);
	peer_data(p, p->f.stream, facts, sizeof facts - 1);
	peer_end(p, p->f.stream);
	peer_expect(p, WIRE_INSPECT);
	peer_data(p, p->f.stream, "no end", 6);
	peer_end(p, p->f.stream);
	while (peer_read(p))
		;
}

static int see_value(void *arg, const char *key, const char *value)
{
	char *text = arg;
	const size_t n = strlen(text);

	str_format(text + n, 512 - n, "%s=%s|", key, value);
	return 0;
}

static void facts_of_a_sandbox(void **state)
{
	char text[512] = "";
	struct bailey_stats stats;
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_facts);
	assert_int_equal(bailey_inspect(t.s, see_value, text, &e), 0);
	assert_string_equal(text, "id=" TEST_ID "|name=a\nb|memory_used_bytes=4096|pids_used=3|");
	assert_int_equal(bailey_stats(t.s, &stats, &e), 0);
	assert_int_equal(stats.memory_bytes, 4096);
	assert_int_equal(stats.pids, 3);
	assert_true(stats.cpu_us == UINT64_MAX);
	assert_int_equal(bailey_inspect(t.s, see_value, text, &e), -1);
	assert_string_equal(e.reason, "wire_malformed");
	test_stop(&t);
}

static void send_pipe(struct peer *p, const void *data, size_t n)
{
	const struct wire_result m = { .stream = p->f.stream, .flags = WIRE_RESULT_FD };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	uint8_t out[64];
	struct iovec iov = { out, wire_put_result(out, sizeof out, &m) };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control };
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
	int fds[2];

	MUST(pipe2(fds, O_CLOEXEC) == 0);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), fds, sizeof(int));
	MUST(sendmsg(p->fd, &msg, 0) > 0);
	(void)close(fds[0]);
	MUST(write_all(fds[1], data, n) == 0);
	(void)close(fds[1]);
}

static void script_changes(struct peer *p)
{
	static const uint8_t records[] = { 18, 0, 'A', 0xa4, 0x81, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
		'a', '/', 'b', 16, 0, 'D', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'c', 15, 0, 'Z', 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t failed[] = { 39, 0, 'E', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'b', 'u',
		's', 'y', '\n', 'W', 'a', 'i', 't', '.', '\n', 't', 'w', 'o', ' ', 'a', 't', ' ',
		'o', 'n', 'c', 'e', '\33', '!' };
	uint8_t bad[sizeof records];

	peer_hello(p);
	peer_expect(p, WIRE_CHANGES);
	send_pipe(p, records, sizeof records);
	for (int i = 0; i < 3; i++) {
		memcpy(bad, records, sizeof records);
		if (i == 0)
			bad[2] = 'X';
		if (i == 1)
			bad[15] = '/';
		peer_expect(p, WIRE_CHANGES);
		send_pipe(p, bad, i == 2 ? sizeof bad - 1 : sizeof bad);
	}
	/* whole records, but not all of them */
	peer_expect(p, WIRE_CHANGES);
	send_pipe(p, records, sizeof records - 15);
	peer_expect(p, WIRE_CHANGES);
	send_pipe(p, failed, sizeof failed);
	peer_expect(p, WIRE_CHANGES);
	peer_end(p, p->f.stream);
	while (peer_read(p))
		;
}

static int see_change(void *arg, const struct bailey_change *change)
{
	char *text = arg;
	const size_t n = strlen(text);

	str_format(text + n, 512 - n, "%c %o %llu %s|", change->kind, change->mode,
		(unsigned long long)change->size, change->path);
	return 0;
}

static void changes_come_by_a_pipe(void **state)
{
	char text[512] = "";
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_changes);
	assert_int_equal(bailey_changes(t.s, 0, see_change, text, &e), 0);
	assert_string_equal(text, "A 100644 5 a/b|D 0 0 c|");
	for (int i = 0; i < 6; i++) {
		assert_int_equal(bailey_changes(t.s, 0, see_change, text, &e), -1);
		assert_string_equal(e.reason,
			i == 3           ? "engine_lost"
				: i == 4 ? "busy"
					 : "wire_malformed");
		if (i == 4)
			assert_string_equal(e.message, "two at once?!");
	}
	test_stop(&t);
}

static void script_fork(struct peer *p)
{
	static const char *const ids[] = { "b00112233445566aa", "../../x", "" };
	struct wire_control m;

	peer_hello(p);
	for (int i = 0; i < 3; i++) {
		peer_expect(p, WIRE_CONTROL);
		MUST(wire_get_control(&p->f, &m) && m.verb == WIRE_CONTROL_FORK);
		MUST(m.rest_len > 6 && memcmp(m.rest + m.rest_len - 6, "\0copy", 6) == 0);
		peer_put(p, result, .stream = m.stream, .rest = (const uint8_t *)ids[i],
			.rest_len = (uint32_t)strlen(ids[i]));
	}
	while (peer_read(p))
		;
}

static void a_fork_has_an_id(void **state)
{
	char id[BAILEY_ID_SIZE] = "";
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_fork);
	assert_int_equal(bailey_fork(t.s, "copy", id, &e), 0);
	assert_string_equal(id, "b00112233445566aa");
	assert_int_equal(bailey_fork(t.s, "copy", id, &e), -1);
	assert_string_equal(e.reason, "wire_malformed");
	assert_int_equal(bailey_fork(t.s, "copy", id, &e), -1);
	assert_int_equal(bailey_fork(t.s, "Not A Name", id, &e), -1);
	assert_string_equal(e.reason, "bad_value");
	test_stop(&t);
}

static void script_ps(struct peer *p)
{
	static const char args[] = "sh\0-c\0cut off";
	uint32_t n;

	peer_hello(p);
	peer_expect(p, WIRE_PS);
	n = p->f.stream;
	peer_put(p, command_info, .stream = n, .command = 3, .state = WIRE_STATE_RUNNING, .pid = 9,
		.flags = WIRE_RUN_DETACHED, .rest = (const uint8_t *)args,
		.rest_len = sizeof args - 1);
	peer_put(p, command_info, .stream = n, .command = 4, .state = WIRE_STATE_ENDED,
		.how = WIRE_HOW_SIGNALLED, .status = 9, .flags = WIRE_ENDED_KILLED << 16);
	peer_end(p, n);
	/* every command: those that run */
	peer_expect(p, WIRE_PS);
	n = p->f.stream;
	for (uint32_t i = 1; i < 5; i++)
		peer_put(p, command_info, .stream = n, .command = i,
			.state = i == 2 ? WIRE_STATE_ENDED : WIRE_STATE_RUNNING);
	peer_end(p, n);
	for (uint32_t i = 1; i < 5; i++) {
		struct wire_kill kill;

		if (i == 2)
			continue;
		peer_expect(p, WIRE_KILL);
		MUST(wire_get_kill(&p->f, &kill) && kill.command == i && kill.signal == 9 &&
			kill.flags == WIRE_KILL_TREE);
		/* the third ends by itself meanwhile */
		peer_put(p, result, .stream = kill.stream, .error = i == 3 ? ESRCH : 0, .value = 1);
	}
	while (peer_read(p))
		;
}

static int see_command(void *arg, const struct bailey_command_info *info)
{
	char *text = arg;
	size_t n = strlen(text);

	str_format(text + n, 512 - n, "%u how %d flags %u exec %u argc %zu last %s|", info->id,
		(int)info->how, info->flags, info->exec_flags, info->argc,
		info->argc ? info->argv[info->argc - 1] : "-");
	return 0;
}

static void commands_and_kills(void **state)
{
	uint64_t survivors = 0;
	char text[512] = "";
	struct bailey_error e;
	struct test t;

	(void)state;
	test_connect(&t, script_ps);
	assert_int_equal(bailey_ps(t.s, see_command, text, &e), 0);
	assert_string_equal(text,
		"3 how 0 flags 0 exec 4 argc 3 last cut off|"
		"4 how 2 flags 2 exec 0 argc 0 last -|");
	assert_int_equal(bailey_kill(t.s, 0, SIGKILL, 1, &survivors, &e), 0);
	assert_int_equal(survivors, 2);
	test_stop(&t);
}

/* --- the program that is started --- */

static void on_usr1(int sig)
{
	(void)sig;
}

/* No child of ours, a session of its own, nothing of our descriptors, masks or ignored signals. */
static void a_detached_program(void **state)
{
	static char script[] = "exec >&3; echo $PPID; echo $ONLY; ls /proc/self/fd | wc -l;"
			       "grep -E 'SigBlk|SigIgn' /proc/self/status; sleep 0.2;"
			       "cut -d' ' -f6 /proc/self/stat; echo $$";
	char *argv[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" }, script, NULL };
	char *env[] = { (char[]){ "ONLY=this" }, (char[]){ "PATH=/usr/bin:/bin" }, NULL };
	struct sigaction ours = { .sa_handler = on_usr1 };
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_buf_ struct buf out = BUF_INIT;
	int fds[2], extra = open("/dev/null", O_RDONLY); /* inheritable on purpose */
	char *parent, *session, *save = NULL, self[32];
	sigset_t block;

	(void)state;
	assert_true(extra >= 0);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigaction(SIGUSR1, &ours, NULL);
	(void)sigemptyset(&block);
	(void)sigaddset(&block, SIGUSR2);
	(void)sigprocmask(SIG_BLOCK, &block, NULL);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(spawn_detached(argv, env, fds[1], &e), 0);
	(void)close(fds[1]);
	assert_int_equal(read_all(fds[0], &out), 0);
	(void)sigprocmask(SIG_UNBLOCK, &block, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	/* nobody to wait for, whatever kind */
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	parent = strtok_r(out.data, "\n", &save);
	assert_string_equal(strtok_r(NULL, "\n", &save), "this");
	/* 0 1 2 3, and the one that ls has the directory open with */
	assert_string_equal(strtok_r(NULL, "\n", &save), "5");
	assert_string_equal(strtok_r(NULL, "\n", &save), "SigBlk:\t0000000000000000");
	assert_string_equal(strtok_r(NULL, "\n", &save), "SigIgn:\t0000000000000000");
	session = strtok_r(NULL, "\n", &save);
	assert_string_equal(session, strtok_r(NULL, "\n", &save));
	assert_string_not_equal(parent, FMT(self, "%d", getpid()));
	argv[0] = (char[]){ "/nonexistent/program" };
	assert_int_equal(spawn_detached(argv, env, fds[0], &e), -1);
	assert_int_equal(e.reason, R_SETUP_FAILED);
	assert_int_equal(e.sys_errno, ENOENT);
	(void)close(fds[0]);
	(void)close(extra);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dial_both_ways),
		cmocka_unit_test(listen_inside),
		cmocka_unit_test(lists_and_matches),
		cmocka_unit_test(names_that_lead_out),
		cmocka_unit_test(reads_no_more_than_asked),
		cmocka_unit_test(lists_have_an_end),
		cmocka_unit_test(facts_of_a_sandbox),
		cmocka_unit_test(changes_come_by_a_pipe),
		cmocka_unit_test(a_fork_has_an_id),
		cmocka_unit_test(commands_and_kills),
		cmocka_unit_test(a_detached_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
