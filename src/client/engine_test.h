/* An engine for the tests of the library: a process that serves one connection by a script.  Included by tests alone. */
#pragma once
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "client/client.h"

#define TEST_ID "b0123456789abcdef"

/* The engine's side of a connection. */
struct peer {
	int fd;
	uint8_t in[256 << 10];
	size_t start, end;
	struct wire_frame f; /* the one read last */
};

/* Everything here runs in the engine's process: what is not as it should be ends it with a status that the test sees. */
#define MUST(cond) \
	do { \
		if (!(cond)) { \
			(void)fprintf(stderr, "engine: %s:%d: %s\n", __FILE__, __LINE__, #cond); \
			_exit(1); \
		} \
	} while (0)

#define MUST_NOT_COME(text) \
	do { \
		(void)fprintf(stderr, "engine: %s:%d: %s\n", __FILE__, __LINE__, text); \
		_exit(1); \
	} while (0)

/* The next frame of the client; false at its end. */
static inline bool peer_read(struct peer *p)
{
	for (;;) {
		size_t used;
		ssize_t n;

		switch (wire_parse(
			p->in + p->start, p->end - p->start, WIRE_FROM_CLIENT, &p->f, &used)) {
		case WIRE_OK:
			p->start += used;
			return true;
		case WIRE_REFUSED:
			MUST_NOT_COME("a frame that no client may send");
		case WIRE_SHORT:
			break;
		}
		memmove(p->in, p->in + p->start, p->end - p->start);
		p->end -= p->start;
		p->start = 0;
		n = read(p->fd, p->in + p->end, sizeof p->in - p->end);
		if (n <= 0)
			return false;
		p->end += (size_t)n;
	}
}

/* ... of a type: CLOSE of a stream before is passed over. */
static inline void peer_expect(struct peer *p, uint32_t type)
{
	do
		MUST(peer_read(p));
	while (p->f.type == WIRE_CLOSE && type != WIRE_CLOSE);
	MUST(p->f.type == type);
}

static inline void peer_write(struct peer *p, const void *data, size_t n)
{
	const uint8_t *from = data;

	while (n) {
		ssize_t w = send(p->fd, from, n, MSG_NOSIGNAL);

		/* a client that has heard enough may hang up; what it made of it is its own test's business */
		if (w <= 0)
			_exit(0);
		from += w;
		n -= (size_t)w;
	}
}

#define peer_put(p, name, ...) \
	do { \
		static uint8_t put_out_[WIRE_HEADER + WIRE_MAX_BODY]; \
		const struct wire_##name put_m_ = { __VA_ARGS__ }; \
		const size_t put_n_ = wire_put_##name(put_out_, sizeof put_out_, &put_m_); \
\
		MUST(put_n_); \
		peer_write((p), put_out_, put_n_); \
	} while (0)

static inline void peer_data(struct peer *p, uint32_t stream, const void *data, size_t n)
{
	peer_put(p, data, .stream = stream, .rest = data, .rest_len = (uint32_t)n);
}

static inline void peer_hello(struct peer *p)
{
	peer_expect(p, WIRE_HELLO);
	peer_put(p, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1);
}

static inline void peer_end(struct peer *p, uint32_t stream)
{
	peer_put(p, result, .stream = stream);
}

typedef void peer_script(struct peer *p);

struct test {
	char home[64];
	struct bailey *b;
	struct bailey_sandbox *s;
	pid_t engine;
};

static inline void test_file(const char *home, const char *path, const char *text)
{
	char whole[256];
	FILE *f;

	FMT(whole, "%s/%s", home, path);
	f = fopen(whole, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static inline void test_dir(const char *home, const char *path)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char whole[256];

	assert_int_equal(make_dirs(FMT(whole, "%s/%s", home, path), &e), 0);
}

/* When it started, as its record says. */
static inline unsigned long long test_start_of(pid_t pid)
{
	struct proc_stat s;
	char text[16];

	assert_int_equal(proc_stat(FMT(text, "%d", pid), &s), 0);
	return s.start;
}

static inline void test_record(const char *home, const char *id, pid_t owner, const char *more)
{
	char path[128], text[1024];

	test_dir(home, FMT(path, "sandbox/runs/%s", id));
	test_file(home, FMT(path, "sandbox/runs/%s/meta", id),
		FMT(text, "id %s\nowner_pid %d\nowner_start %llu\n%s", id, owner,
			owner ? test_start_of(owner) : 0, more));
}

/* A home with one sandbox, whose engine runs the script once for the first connection. */
static inline void test_start(struct test *t, peer_script *script)
{
	struct bailey_options o = BAILEY_OPTIONS_INIT;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct bailey_error e;
	int fd;

	memset(t, 0, sizeof *t);
	FMT(t->home, "/tmp/bailey-client-XXXXXX");
	assert_non_null(mkdtemp(t->home));
	test_record(t->home, TEST_ID, getpid(),
		"state running\nname box\ncreated_ms 5\nimage a\\nb\\\\c\n");
	test_dir(t->home, "sandbox/names");
	test_file(t->home, "sandbox/names/box", TEST_ID "\n");
	FMT(a.sun_path, "%s/sandbox/runs/%s/sock", t->home, TEST_ID);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(fd, 16), 0);
	t->engine = fork();
	assert_true(t->engine >= 0);
	if (t->engine == 0) {
		static struct peer p;

		(void)alarm(50);
		p.fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		MUST(p.fd >= 0);
		(void)close(fd);
		script(&p);
		_exit(0);
	}
	(void)close(fd);
	o.home = t->home;
	assert_int_equal(bailey_open(&o, &t->b, &e), 0);
}

static inline void test_connect(struct test *t, peer_script *script)
{
	struct bailey_error e = { .reason = "" };

	test_start(t, script);
	if (bailey_connect(t->b, "box", &t->s, &e) < 0)
		fail_msg("%s: %s", e.reason, e.message);
}

static inline void test_remove_home(struct test *t)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", t->home, NULL);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
}

/* The engine must have come to the end of its script. */
static inline void test_stop(struct test *t)
{
	int status = -1;

	bailey_disconnect(t->s);
	bailey_close(t->b);
	assert_int_equal(waitpid(t->engine, &status, 0), t->engine);
	test_remove_home(t);
	assert_int_equal(status, 0);
}

/* --- what a callback saw --- */

struct seen {
	char out[256], err[256];
	struct bailey_result result;
	int ended;
};

static inline void see_output(void *arg, int stream, const void *data, size_t n)
{
	struct seen *s = arg;
	char *to = stream == 2 ? s->err : s->out;

	assert_true(strlen(to) + n < sizeof s->out);
	memcpy(to + strlen(to), data, n);
}

static inline void see_end(void *arg, const struct bailey_result *result)
{
	struct seen *s = arg;

	s->result = *result;
	s->ended++;
}
