/* The guest channel that breaks: at every byte of a conversation in both directions, at random in long ones, with a host that
 * forgot everything, and with one that sends garbage.  Nothing of a command is lost, and the guest lives on. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

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

static int stop(void **state)
{
	(void)state;
	play_stop(&p);
	return 0;
}

static uint32_t seed = 1;

static uint32_t any(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(seed >> 4) * below >> 28);
}

/* --- breaks --- */

struct job {
	uint32_t stream;
	const char *script;
	const void *input;
	size_t input_len;
};

/* What a channel process does on each new connection: asks again, and goes on behind what the guest has. */
static void ask_again(const struct job *j)
{
	const struct seen *s = play_seen(&p, j->stream);
	size_t from = s->resumed ? s->resume : 0;

	play_shell(&p, j->stream, WIRE_RUN_STDIN, j->script);
	if (p.fd >= 0 && from < j->input_len)
		play_data(&p, j->stream, (const char *)j->input + from, j->input_len - from);
	if (p.fd >= 0)
		play_eof(&p, j->stream, j->input_len);
}

static bool is_done(const struct seen *s)
{
	return s->ended && s->eof[0] && s->eof[1];
}

static unsigned see_through(const struct job *j)
{
	struct seen *s = play_seen(&p, j->stream);
	unsigned connections = 0;

	while (!is_done(s)) {
		if (p.fd < 0) {
			play_connect(&p, 0);
			connections++;
			if (p.fd >= 0)
				ask_again(j);
			continue;
		}
		if (!play_read(&p, PLAY_WAIT_MS))
			assert_int_equal(p.fd, -1);
	}
	return connections;
}

static void check_job(const struct job *j)
{
	const struct seen *s = play_seen(&p, j->stream);

	assert_int_equal(s->end.how, WIRE_HOW_EXITED);
	assert_int_equal(s->end.status, 3);
	assert_string_equal(play_text(s, 0), "one\ntwo\nend\n");
	assert_string_equal(play_text(s, 1), "err\n");
}

/* At each byte of what one side says, until the conversation is shorter than that. */
static void break_everywhere(bool reading)
{
	struct job j = { .script = "cat; echo err >&2; echo end; exit 3",
		.input = "one\ntwo\n",
		.input_len = 8 };
	uint32_t cut;

	for (cut = 1; cut < 2000; cut++) {
		j.stream = cut;
		play_hang_up(&p);
		p.next_read = reading ? (int64_t)cut : -1;
		p.next_send = reading ? -1 : (int64_t)cut;
		play_connect(&p, 0);
		p.next_read = p.next_send = -1;
		if (p.fd >= 0)
			ask_again(&j);
		if (see_through(&j) == 0)
			break;
		check_job(&j);
		play_close(&p, j.stream);
	}
	check_job(&j);
	/* it was cut in the greeting, in each frame and between them */
	assert_in_range(cut, 150, 1999);
}

static void nothing_is_lost_when_what_the_guest_says_breaks(void **state)
{
	(void)state;
	break_everywhere(true);
}

static void nothing_is_lost_when_what_the_host_says_breaks(void **state)
{
	(void)state;
	break_everywhere(false);
}

static void fill(struct buf *b, size_t n)
{
	b->max = n;
	assert_true(buf_reserve(b, n));
	while (b->len < n)
		b->data[b->len++] = (char)any(256);
}

static void much_passes_over_many_connections(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct job j = { .stream = 1, .script = "cat", .input_len = 12 << 20 };
	const struct seen *s = play_seen(&p, 1);
	unsigned connections = 0;

	(void)state;
	fill(&b, j.input_len);
	j.input = b.data;
	play_hang_up(&p);
	while (!is_done(s)) {
		if (p.fd < 0) {
			p.next_read = any(3) ? (int64_t)any(1 << 20) + 1 : -1;
			p.next_send = p.next_read < 0 || any(2) ? (int64_t)any(1 << 20) + 1 : -1;
			play_connect(&p, 0);
			connections++;
			if (p.fd >= 0)
				ask_again(&j);
		} else if (!play_read(&p, PLAY_WAIT_MS)) {
			assert_int_equal(p.fd, -1);
		}
	}
	p.next_read = p.next_send = -1;
	assert_int_equal(s->data[0].len, b.len);
	assert_memory_equal(s->data[0].data, b.data, b.len);
	assert_true(connections > 10);
}

static void a_command_works_while_nobody_is_connected(void **state)
{
	const struct seen *s;

	(void)state;
	play_shell(
		&p, 1, 0, "echo before; sleep 0.2; head -c 300000 /dev/zero; echo after; exit 8");
	(void)play_until_bytes(&p, 1, 0, 7);
	play_hang_up(&p);
	usleep(400000);
	play_connect(&p, 0);
	s = play_until_ended(&p, 1);
	assert_int_equal(s->end.status, 8);
	assert_int_equal(s->data[0].len, 7 + 300000 + 6);
	assert_int_equal(s->before_end[0], s->data[0].len);
}

static void a_host_that_forgot_everything_learns_of_commands(void **state)
{
	const struct seen *s;

	(void)state;
	play_host(&p, "head -c 20000000 /dev/zero > big; mkfifo fifo");
	play_shell(&p, 1, WIRE_RUN_STDIN, "echo hello; read x; echo $x; exit 4");
	(void)play_until_bytes(&p, 1, 0, 6);
	play_shell(&p, 2, 0, "echo over; exit 5");
	(void)play_until_ended(&p, 2);
	play_seen(&p, 3)->hold = true;
	PLAY_SEND(&p, read, .stream = 3, PLAY_PATH(&p, "big"));
	(void)play_until_bytes(&p, 3, 0, WIRE_WINDOW);
	play_connect(&p, WIRE_HELLO_FRESH);
	assert_int_equal(p.hello_flags, 0);
	s = play_until_begun(&p, 1);
	assert_true(s->pid > 1);
	(void)play_until_bytes(&p, 1, 0, 6);
	s = play_until_ended(&p, 2);
	assert_int_equal(s->end.status, 5);
	assert_string_equal(play_text(s, 0), "over\n");
	/* the read was given up: its number is free */
	PLAY_SEND(&p, stat, .stream = 3, PLAY_PATH(&p, "big"));
	assert_int_equal(play_until_result(&p, 3)->answer.error, 0);
	play_data(&p, 1, "go\n", 3);
	s = play_until_ended(&p, 1);
	assert_int_equal(s->end.status, 4);
	assert_string_equal(play_text(s, 0), "hello\ngo\n");
}

static void a_closed_stream_is_forgotten(void **state)
{
	(void)state;
	play_shell(&p, 1, 0, "exit 1");
	(void)play_until_ended(&p, 1);
	play_close(&p, 1);
	play_connect(&p, WIRE_HELLO_FRESH);
	play_check_alive(&p, 2);
	assert_false(play_seen(&p, 1)->ended || play_seen(&p, 1)->resumed);
}

static void a_new_connection_takes_the_place_of_a_living_one(void **state)
{
	int old;

	(void)state;
	play_shell(&p, 1, WIRE_RUN_STDIN, "cat");
	play_data(&p, 1, "a\n", 2);
	(void)play_until_bytes(&p, 1, 0, 2);
	old = dup(p.fd);
	play_connect(&p, 0);
	assert_int_equal(play_seen(&p, 1)->resume, 2);
	play_seen(&p, 1)->taken = 2;
	play_data(&p, 1, "b\n", 2);
	assert_string_equal(play_text(play_until_bytes(&p, 1, 0, 4), 0), "a\nb\n");
	assert_int_equal(read(old, &(char){ 0 }, 1), 0);
	(void)close(old);
}

/* --- garbage --- */

/* The connection ends, the guest doesn't. */
static void refused(uint32_t check)
{
	while (p.fd >= 0)
		if (!play_read(&p, PLAY_WAIT_MS))
			assert_int_equal(p.fd, -1);
	play_connect(&p, 0);
	play_check_alive(&p, check);
}

static void raw(uint32_t type, uint32_t stream, uint32_t length, const void *body, size_t n)
{
	uint8_t out[WIRE_HEADER];

	wire_put_header(out, type, stream, length);
	play_send(&p, out, sizeof out);
	if (n && p.fd >= 0)
		play_send(&p, body, n);
}

static void a_malformed_frame_ends_the_connection_alone(void **state)
{
	(void)state;
	raw(9999, 1, 0, NULL, 0);
	refused(100);
	raw(WIRE_DATA, 1, WIRE_MAX_BODY + 1, NULL, 0);
	refused(101);
	raw(WIRE_DATA, 0, 0, NULL, 0);
	refused(102);
	raw(WIRE_BEGUN, 1, 4, "aaaa", 4);
	refused(103);
	raw(WIRE_STAT, 1, 8, "\0\0\0\0abcd", 8);
	refused(104);
	raw(WIRE_INSPECT, 1, 0, NULL, 0);
	refused(105);
	PLAY_SEND(&p, stat, .stream = 1u << 31 | 1, .rest = (const uint8_t *)"/", .rest_len = 1);
	refused(106);
	PLAY_SEND(&p, stat, .stream = WIRE_GUEST_STREAM | 1, .rest = (const uint8_t *)"/",
		.rest_len = 1);
	refused(107);
	PLAY_SEND(&p, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = p.epoch);
	refused(108);
	PLAY_SEND(&p, resume, .stream = 1, .received = 0, .limit = 5);
	refused(109);
	PLAY_SEND(&p, connect, .epoch = 7);
	refused(110);
}

static void a_host_that_breaks_the_rules_loses_the_connection(void **state)
{
	static const uint8_t body[WIRE_MAX_BODY];

	(void)state;
	/* above the limit */
	play_shell(&p, 1, WIRE_RUN_STDIN, "sleep 1000");
	for (unsigned i = 0; i < 80 && p.fd >= 0; i++)
		raw(WIRE_DATA, 1, WIRE_MAX_BODY, body, sizeof body);
	refused(100);
	/* a wrong total, and bytes behind the end */
	play_shell(&p, 2, WIRE_RUN_STDIN, "cat");
	play_eof(&p, 2, 77);
	refused(101);
	play_shell(&p, 3, WIRE_RUN_STDIN, "cat");
	play_eof(&p, 3, 0);
	raw(WIRE_DATA, 3, 4, "late", 4);
	refused(102);
	/* acknowledging what was never sent */
	play_shell(&p, 4, 0, "echo x; sleep 1000");
	(void)play_until_bytes(&p, 4, 0, 2);
	PLAY_SEND(&p, ack, .stream = 4, .received = 1000000, .limit = WIRE_WINDOW + 1000000);
	refused(103);
	/* less credit than before */
	PLAY_SEND(&p, ack, .stream = 4, .received = 2, .limit = 5);
	refused(104);
	/* in the greeting: more than there is, a wrong epoch, no greeting at all */
	play_dial(&p);
	PLAY_SEND(&p, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = p.epoch);
	PLAY_SEND(&p, resume, .stream = 4, .received = 500, .limit = 5000);
	refused(105);
	play_dial(&p);
	PLAY_SEND(&p, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = p.epoch + 1);
	refused(106);
	play_dial(&p);
	PLAY_SEND(&p, resumed, .stream = 0);
	refused(107);
}

/* A frame of a known type with a likely body, then some of its bits turned. */
static size_t mutated(uint8_t *out)
{
	static const uint32_t types[] = { WIRE_DATA, WIRE_EOF, WIRE_ACK, WIRE_CLOSE, WIRE_ARGS,
		WIRE_RUN, WIRE_KILL, WIRE_RESIZE, WIRE_STAT, WIRE_LIST, WIRE_READ, WIRE_WRITE,
		WIRE_MKDIR, WIRE_REMOVE, WIRE_RENAME, WIRE_SEARCH, WIRE_TAR_OUT, WIRE_TAR_IN,
		WIRE_DIAL, WIRE_LISTEN, WIRE_RESUME, WIRE_RESUMED, WIRE_HELLO };
	static const uint8_t fixed[] = { 0, 12, 8, 16, 0, 0, 24, 12, 4 };
	uint32_t n, type = types[any(sizeof types / sizeof *types)];
	char path[256];
	size_t path_len;

	FMT(path, "%s/%s", p.dir, (const char *const[]){ "a", "b/c", "fifo", "big", ".." }[any(5)]);
	path_len = strlen(path) + any(2);
	n = fixed[any(sizeof fixed)];
	memset(out + WIRE_HEADER, 0, 64);
	if (any(2))
		out[WIRE_HEADER + any(24)] = (uint8_t)any(256);
	memcpy(out + WIRE_HEADER + n, path, path_len);
	if (any(3))
		n += (uint32_t)path_len;
	if (type == WIRE_RUN && any(2)) {
		memcpy(out + WIRE_HEADER + 24, "\0001\0true", 8);
		memset(out + WIRE_HEADER, 0, 24);
		n = 32;
	}
	wire_put_header(out, type, 1 + any(40), n);
	for (uint32_t i = any(3) ? 0 : any(4); i; i--)
		out[any(WIRE_HEADER + n)] ^= (uint8_t)(1u << any(8));
	return WIRE_HEADER + n;
}

static void garbage_by_the_thousand_leaves_the_guest_alive(void **state)
{
	uint8_t out[1024];
	unsigned ended = 0;

	(void)state;
	play_host(
		&p, "mkdir -p b/c/d; echo text > a; mkfifo fifo; head -c 5000000 /dev/zero > big");
	for (unsigned i = 0; i < 20000; i++) {
		if (p.fd < 0) {
			/* what arrived before is of no interest, and was told no credit */
			play_connect(&p, any(2) ? WIRE_HELLO_FRESH : 0);
			ended++;
		}
		play_send(&p, out, mutated(out));
		p.quiet = true;
		(void)play_read(&p, 0);
		p.quiet = false;
	}
	assert_true(ended > 100);
	play_connect(&p, WIRE_HELLO_FRESH);
	play_check_alive(&p, 5000);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(nothing_is_lost_when_what_the_guest_says_breaks),
		WITH(nothing_is_lost_when_what_the_host_says_breaks),
		WITH(much_passes_over_many_connections),
		WITH(a_command_works_while_nobody_is_connected),
		WITH(a_host_that_forgot_everything_learns_of_commands),
		WITH(a_closed_stream_is_forgotten),
		WITH(a_new_connection_takes_the_place_of_a_living_one),
		WITH(a_malformed_frame_ends_the_connection_alone),
		WITH(a_host_that_breaks_the_rules_loses_the_connection),
		WITH(garbage_by_the_thousand_leaves_the_guest_alive),
	};

	if (!play_possible())
		return 77;
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
