/* Owns `port`.  Called by main.c.  It ends by a signal's default: what listens and what is connected ends with it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum { BACKLOG = 128, PAUSE_MS = 50 };

static int parse_ports(const char *text, uint16_t *ret_inside, uint16_t *ret_host, struct err *e)
{
	_cleanup_free_ char *copy = xstrdup(text);
	char *colon = strchr(copy, ':');
	uint64_t inside, host = 0;

	if (colon)
		*colon++ = '\0';
	if (parse_u64(copy, 1, 65535, "the port inside", &inside, e) < 0 ||
		(colon && parse_u64(colon, 0, 65535, "the port of the host", &host, e) < 0))
		return -1;
	*ret_inside = (uint16_t)inside;
	*ret_host = (uint16_t)host;
	return 0;
}

/* *port 0: any; it is then the one that was taken. */
static int open_listener(uint16_t *port, int *ret, struct err *e)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons(*port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof a;
	const int one = 1;

	if (fd < 0)
		return err_set(e, R_NO_MEMORY, errno, "listen on port '%u'", *port);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 || listen(fd, BACKLOG) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &n) < 0) {
		const int error = errno;

		(void)err_set(e, error == EACCES ? R_PERMISSION_DENIED : R_BUSY, error,
			"listen on port '%u' of the host", *port);
		return err_remedy(e, "Choose another port, or 0 for any that is free.");
	}
	*port = ntohs(a.sin_port);
	*ret = move_fd(&fd);
	return 0;
}

static int print_address(const struct options *o, uint16_t port, uint16_t inside, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	if (!o->json) {
		buf_printf(&out, "127.0.0.1:%u\n", port);
		return cli_write(&out, e);
	}
	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_string(&j, "address", "127.0.0.1");
	json_uint(&j, "port", port);
	json_uint(&j, "inside", inside);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

/* Nobody listens inside: whoever came is told by the end of its connection. */
static void take_connection(struct bailey_sandbox *s, int listener, uint16_t inside)
{
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct bailey_error ignored;

	if (fd >= 0)
		(void)bailey_dial_from(s, inside, NULL, fd, &ignored);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		(void)poll(NULL, 0, PAUSE_MS);
}

static int forward(struct bailey_sandbox *s, int listener, uint16_t inside, struct err *e)
{
	struct bailey_error failure;

	for (;;) {
		struct pollfd fds[] = { { .fd = bailey_fd(s), .events = POLLIN },
			{ .fd = listener, .events = POLLIN } };

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_set(e, R_IO_FAILED, errno, "wait for connections");
		if (live_give(bailey_dispatch(s, 0, &failure), &failure, e) < 0)
			return -1;
		if (fds[1].revents)
			take_connection(s, listener, inside);
	}
}

int verb_port(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_close_ int listener = -1;
	uint16_t inside, host;

	(void)argc;
	cli_take_interrupts();
	(void)signal(SIGPIPE, SIG_IGN);
	if (parse_ports(argv[1], &inside, &host, e) < 0 || live_connect(&l, o, argv[0], e) < 0 ||
		open_listener(&host, &listener, e) < 0 || print_address(o, host, inside, e) < 0)
		return -1;
	return forward(l.s, listener, inside, e);
}
