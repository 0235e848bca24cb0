/* Connections through the wall, both ways: what is sent to a server inside comes back, and a listener inside is served
 * here.  Shows a loop of one's own: the library has one descriptor to poll.
 *
 *     ./port SANDBOX */
#include <bailey.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct bailey_error e;

static int must(int r)
{
	if (r >= 0)
		return r;
	(void)fprintf(stderr, "port: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
	exit(1);
}

/* Reads once from fd, serving the connection meanwhile. */
static size_t read_served(struct bailey_sandbox *s, int fd, char *out, size_t cap)
{
	struct pollfd fds[2] = { { .fd = fd, .events = POLLIN },
		{ .fd = bailey_fd(s), .events = POLLIN } };

	for (;;) {
		ssize_t n;

		if (poll(fds, 2, 10000) <= 0)
			exit(1);
		if (fds[1].revents)
			must(bailey_dispatch(s, 0, &e));
		if (!fds[0].revents)
			continue;
		n = read(fd, out, cap);
		if (n < 0)
			exit(1);
		return (size_t)n;
	}
}

static void greet(void *arg, int fd)
{
	*(int *)arg = fd;
}

int main(int argc, char **argv)
{
	static const char ask[] = "ping\n";
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	const char *client[] = { "perl", "-MIO::Socket", "-e",
		"$s = IO::Socket::INET->new(\"127.0.0.1:$ARGV[0]\") or die; print $s $ARGV[1];"
		"shutdown $s, 1; print <$s>",
		NULL, "hello from inside\n", NULL };
	struct bailey_listener *l;
	struct bailey_command *c;
	struct bailey_sandbox *s;
	char data[256], port[8];
	struct bailey *b;
	int fd, taken = -1;
	size_t n;

	if (argc != 2)
		return 2;
	(void)setvbuf(stdout, NULL, _IONBF, 0);
	must(bailey_open(NULL, &b, &e));
	must(bailey_connect(b, argv[1], &s, &e));

	/* in: to something that listens on port 8080 inside */
	must(bailey_dial(s, 8080, NULL, &fd, &e));
	if (write(fd, ask, strlen(ask)) < 0)
		return 1;
	n = read_served(s, fd, data, sizeof data);
	(void)printf("inside answers: %.*s", (int)n, data);
	(void)close(fd);

	/* out: a port inside whose connections come to this program */
	must(bailey_listen(s, 0, NULL, greet, &taken, &l, &e));
	(void)snprintf(port, sizeof port, "%u", bailey_listener_port(l));
	client[4] = port;
	o.argv = client;
	o.streams.out = 1;
	o.streams.err = 2;
	must(bailey_exec(s, &o, &c, &e));
	while (taken < 0)
		must(bailey_dispatch(s, -1, &e));
	n = read_served(s, taken, data, sizeof data);
	(void)printf("it says: %.*s", (int)n, data);
	if (write(taken, "good day\n", 9) < 0)
		return 1;
	(void)close(taken);
	must(bailey_command_wait(c, -1, NULL, &e));
	bailey_command_free(c);
	bailey_listener_free(l);
	bailey_disconnect(s);
	bailey_close(b);
	return 0;
}
