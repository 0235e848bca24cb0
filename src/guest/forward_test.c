/* A session's connections to what listens inside, and from inside, against the real program. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest/play_test.h"

static struct play p;
static uint32_t next;

static int start(void **state)
{
	(void)state;
	play_start(&p, PLAY_OWN_UID);
	play_connect(&p, 0);
	next = 0;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	play_stop(&p);
	return 0;
}

#define AT(name) PLAY_PATH(&p, name)

static int listen_tcp(uint16_t *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static void read_exactly(int fd, const char *text)
{
	char got[64] = "";
	size_t n = 0;

	while (n < strlen(text)) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
		ssize_t r;

		assert_int_equal(poll(&poll_fd, 1, PLAY_WAIT_MS), 1);
		r = read(fd, got + n, strlen(text) - n);
		assert_true(r > 0);
		n += (size_t)r;
	}
	assert_string_equal(got, text);
}

/* Both ends of a connection that the guest made or took: words each way, then the half that ends first. */
static void converse(int fd, uint32_t stream)
{
	const struct seen *s;

	play_data(&p, stream, "hello", 5);
	read_exactly(fd, "hello");
	assert_int_equal(write_all(fd, "answer", 6), 0);
	s = play_until_bytes(&p, stream, 0, 6);
	assert_string_equal(play_text(s, 0), "answer");
	play_eof(&p, stream, 5);
	assert_int_equal(read(fd, &(char){ 0 }, 1), 0);
	assert_int_equal(write_all(fd, " more", 5), 0);
	(void)play_until_bytes(&p, stream, 0, 11);
	(void)close(fd);
	s = play_until_result(&p, stream);
	assert_int_equal(s->answer.error, 0);
	assert_true(s->eof[0]);
	play_close(&p, stream);
}

static void a_port_and_a_socket_are_dialled(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	uint16_t port;
	int fd = listen_tcp(&port);

	(void)state;
	PLAY_SEND(&p, dial, .stream = ++next, .port = port);
	(void)play_until_begun(&p, next);
	converse(accept(fd, NULL, NULL), next);
	(void)close(fd);
	PLAY_SEND(&p, dial, .stream = ++next, .port = port);
	assert_int_equal(play_until_result(&p, next)->answer.error, ECONNREFUSED);
	assert_false(play_seen(&p, next)->begun);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FMT(a.sun_path, "%s/sock", p.dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(chmod(a.sun_path, 0777), 0);
	assert_int_equal(listen(fd, 5), 0);
	PLAY_SEND(&p, dial, .stream = ++next, .kind = WIRE_NET_UNIX, AT("sock"));
	(void)play_until_begun(&p, next);
	converse(accept(fd, NULL, NULL), next);
	/* the workload's rights decide */
	if (!geteuid()) {
		assert_int_equal(chmod(a.sun_path, 0700), 0);
		PLAY_SEND(&p, dial, .stream = ++next, .kind = WIRE_NET_UNIX, AT("sock"));
		assert_int_equal(play_until_result(&p, next)->answer.error, EACCES);
	}
	(void)close(fd);
	PLAY_SEND(&p, dial, .stream = ++next, .kind = WIRE_NET_UNIX, AT("none"));
	assert_int_equal(play_until_result(&p, next)->answer.error, ENOENT);
}

static int dial_tcp(uint32_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	return fd;
}

static uint32_t await_incoming(void)
{
	uint32_t n = p.n_incoming;

	while (p.n_incoming == n)
		assert_true(play_read(&p, PLAY_WAIT_MS));
	return p.incoming[(p.n_incoming - 1) % 64];
}

static void a_port_and_a_socket_are_listened_on(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	uint32_t listener, stream;
	int fd;

	(void)state;
	PLAY_SEND(&p, listen, .stream = ++next);
	listener = next;
	assert_in_range(play_until_begun(&p, listener)->pid, 1, 65535);
	fd = dial_tcp(play_seen(&p, listener)->pid);
	stream = await_incoming();
	assert_true(stream & WIRE_GUEST_STREAM);
	converse(fd, stream);
	PLAY_SEND(&p, listen, .stream = ++next, .port = play_seen(&p, listener)->pid);
	assert_int_equal(play_until_result(&p, next)->answer.error, EADDRINUSE);
	play_close(&p, listener);
	PLAY_SEND(&p, listen, .stream = ++next, .kind = WIRE_NET_UNIX, AT("sock"));
	(void)play_until_begun(&p, next);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FMT(a.sun_path, "%s/sock", p.dir);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	stream = await_incoming();
	converse(fd, stream);
	play_close(&p, next);
	PLAY_SEND(&p, stat, .stream = ++next, AT("sock"));
	assert_int_equal(play_until_result(&p, next)->answer.error, ENOENT);
}

static void much_passes_through_a_connection(void **state)
{
	_cleanup_free_ char *big = xcalloc(1, 12 << 20);
	const struct seen *s;
	uint16_t port;
	int fd = listen_tcp(&port), peer;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < 12 << 20; i++)
		big[i] = (char)(i * 7919 >> 8);
	PLAY_SEND(&p, dial, .stream = ++next, .port = port);
	(void)play_until_begun(&p, next);
	peer = accept(fd, NULL, NULL);
	/* a reader that waits: the guest keeps a window, no more */
	play_data(&p, next, big, WIRE_WINDOW);
	while (n < WIRE_WINDOW) {
		char got[65536];
		ssize_t r = read(peer, got, sizeof got);

		assert_true(r > 0);
		assert_memory_equal(got, big + n, (size_t)r);
		n += (size_t)r;
	}
	/* the other way; the guest's process does the reading */
	if (!fork()) {
		(void)write_all(peer, big, 12 << 20);
		_exit(0);
	}
	(void)close(peer);
	play_eof(&p, next, WIRE_WINDOW);
	s = play_until_result(&p, next);
	assert_int_equal(s->data[0].len, 12 << 20);
	assert_memory_equal(s->data[0].data, big, 12 << 20);
	(void)close(fd);
}

static void a_server_on_the_newer_loopback_is_found(void **state)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	socklen_t len = sizeof a;
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;

	(void)state;
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0)
		skip();
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	PLAY_SEND(&p, dial, .stream = ++next, .port = ntohs(a.sin6_port));
	/* sent before it is known whether there is a connection */
	play_data(&p, next, "early ", 6);
	(void)play_until_begun(&p, next);
	play_data(&p, next, "late", 4);
	play_eof(&p, next, 10);
	peer = accept(fd, NULL, NULL);
	read_exactly(peer, "early late");
	(void)close(peer);
	assert_int_equal(play_until_result(&p, next)->answer.error, 0);
	(void)close(fd);
}

static void a_reader_that_stops_stops_only_its_connection(void **state)
{
	struct seen *slow;
	uint16_t port;
	int fd = listen_tcp(&port), a, b;
	static char block[65536];
	pid_t pid;

	(void)state;
	slow = play_seen(&p, ++next);
	slow->hold = true;
	PLAY_SEND(&p, dial, .stream = next, .port = port);
	(void)play_until_begun(&p, next);
	a = accept(fd, NULL, NULL);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < 200; i++)
			if (write_all(a, block, sizeof block) < 0)
				break;
		_exit(0);
	}
	(void)close(a);
	(void)play_until_bytes(&p, 1, 0, WIRE_WINDOW);
	PLAY_SEND(&p, dial, .stream = ++next, .port = port);
	(void)play_until_begun(&p, next);
	b = accept(fd, NULL, NULL);
	converse(b, next);
	assert_int_equal(slow->data[0].len, WIRE_WINDOW);
	slow->hold = false;
	slow->granted[0] = slow->data[0].len + WIRE_WINDOW;
	PLAY_SEND(&p, ack, .stream = 1, .received = slow->data[0].len, .limit = slow->granted[0]);
	(void)play_until_bytes(&p, 1, 0, 200 * sizeof block);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(fd);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(a_port_and_a_socket_are_dialled),
		WITH(a_port_and_a_socket_are_listened_on),
		WITH(much_passes_through_a_connection),
		WITH(a_server_on_the_newer_loopback_is_found),
		WITH(a_reader_that_stops_stops_only_its_connection),
	};

	if (!play_possible())
		return 77;
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
