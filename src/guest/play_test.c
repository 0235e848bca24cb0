/* The host's side of a guest, for tests.  Linked by the tests of this room. */
#include "guest/play_test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum { WORKLOAD = 61234 };

/* --- the owner --- */

static bool write_map(const char *path, const char *text)
{
	return write_file_at(AT_FDCWD, path, text) == 0;
}

/* Namespaces in which the next child is PID 1. */
static bool enter_namespaces(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char text[64];

	if (unshare(CLONE_NEWPID | CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)) < 0)
		return false;
	if (!uid)
		return true;
	return write_map("/proc/self/setgroups", "deny") &&
		write_map("/proc/self/uid_map", FMT(text, "%u %u 1", uid, uid)) &&
		write_map("/proc/self/gid_map", FMT(text, "%u %u 1", gid, gid));
}

/* Nothing but `dir` can be written to: garbage may well be a request to remove. */
static bool mount_all(const char *dir)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY },
			  writable = { .attr_clr = MOUNT_ATTR_RDONLY };

	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount(dir, dir, NULL, MS_BIND | MS_REC, NULL) == 0 &&
		mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof read_only) == 0 &&
		mount_setattr(AT_FDCWD, dir, 0, &writable, sizeof writable) == 0 &&
		mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

static void be_guest(const struct play *p, int control, enum play_as as)
{
	char name[] = "bailey-guest", path[] = "PATH=/usr/bin:/bin", home[] = "HOME=/nowhere",
	     twice[] = "TWICE=guest";
	char *argv[] = { name, NULL }, *env[] = { path, home, twice, NULL };
	rlim_t most = as == PLAY_ALONE ? 1 : PLAY_MAX_PROCESSES;
	struct rlimit limit = { most, most };

	if (!mount_all(p->dir) || setrlimit(RLIMIT_NPROC, &limit) < 0)
		_exit(126);
	if (as != PLAY_OWN_UID && !geteuid() &&
		(setgroups(0, NULL) < 0 || setgid(p->gid) < 0 || setuid(p->uid) < 0))
		_exit(126);
	if (p->listener >= 0) {
		char path_name[] = GUEST, how[32], dir[sizeof p->dir], shown[] = "bash";
		char *dial[] = { path_name, how, dir, shown, NULL };

		FMT(how, "%s", p->how);
		FMT(dir, "%s", p->dir);
		(void)execve(GUEST, dial, env);
		_exit(127);
	}
	if (control == 3)
		(void)fcntl(3, F_SETFD, 0);
	else
		(void)dup2(control, 3);
	(void)execve(GUEST, argv, env);
	_exit(127);
}

/* Between the test and the guest, since only a child can be in the new pid namespace. */
static void be_parent(const struct play *p, int control, int other_end, enum play_as as)
{
	int status = 0;
	pid_t pid;

	(void)close_fd(other_end);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!enter_namespaces())
		_exit(126);
	pid = fork();
	if (!pid)
		be_guest(p, control, as);
	(void)close_fd(control);
	(void)waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

bool play_possible(void)
{
	int status = 0;
	pid_t pid = fork(), child;

	if (!pid) {
		if (!enter_namespaces())
			_exit(1);
		child = fork();
		if (!child)
			_exit(mount_all("/tmp") ? 0 : 1);
		(void)waitpid(child, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		(void)fprintf(stderr, "this host lets us make no pid namespace\n");
		return false;
	}
	return true;
}

static void expect_hello(int fd)
{
	uint8_t in[64];
	struct wire_frame f;
	struct wire_hello m;
	size_t used;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, PLAY_WAIT_MS), 1);
	assert_int_equal(read(fd, in, sizeof in), 36);
	assert_int_equal(wire_parse(in, 36, WIRE_FROM_GUEST, &f, &used), WIRE_OK);
	assert_true(wire_get_hello(&f, &m));
}

static void init(struct play *p)
{
	char dir[] = "/tmp/bailey-guest-test-XXXXXX";

	memset(p, 0, sizeof *p);
	p->fd = p->control = p->listener = -1;
	p->may_read = p->may_send = p->next_read = p->next_send = -1;
	p->uid = geteuid() ? geteuid() : WORKLOAD;
	p->gid = geteuid() ? getegid() : WORKLOAD;
	assert_non_null(mkdtemp(dir));
	FMT(p->dir, "%s", dir);
	if (!geteuid())
		assert_int_equal(chown(dir, p->uid, p->gid), 0);
}

static void greet_control(struct play *p, uint64_t deadline_ms)
{
	struct wire_hello hello = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1, .deadline_ms = deadline_ms
	};
	struct wire_session session = {
		.uid = p->uid, .gid = p->gid, .max_streams = WIRE_MAX_STREAMS
	};
	uint8_t out[128];
	size_t n = wire_put_hello(out, sizeof out, &hello);

	n += wire_put_session(out + n, sizeof out - n, &session);
	assert_int_equal(write_all(p->control, out, n), 0);
}

void play_start_dialling(struct play *p, const char *how, const char *token)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char path[96];

	init(p);
	p->how = how;
	p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FMT(a.sun_path, "%s/ctl.sock", p->dir);
	assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(chmod(a.sun_path, 0666), 0);
	assert_int_equal(chmod(p->dir, 0755), 0);
	assert_int_equal(listen(p->listener, 64), 0);
	if (token) {
		int fd = open(FMT(path, "%s/token", p->dir), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		assert_true(fd >= 0);
		assert_int_equal(write_all(fd, token, strlen(token)), 0);
		(void)close_fd(fd);
	}
	play_again(p);
}

void play_again(struct play *p)
{
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (!p->pid)
		be_parent(p, -1, -1, PLAY_OWN_UID);
}

int play_accept(const struct play *p, int ms)
{
	struct pollfd w = { .fd = p->listener, .events = POLLIN };

	if (poll(&w, 1, ms) <= 0)
		return -1;
	return accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
}

static void read_frame(int fd, uint8_t *in, size_t n, struct wire_frame *ret)
{
	struct pollfd w = { .fd = fd, .events = POLLIN };
	size_t used;

	for (size_t have = 0; have < n;) {
		ssize_t r;

		assert_int_equal(poll(&w, 1, PLAY_WAIT_MS), 1);
		r = read(fd, in + have, n - have);
		assert_true(r > 0);
		have += (size_t)r;
	}
	assert_int_equal(wire_parse(in, n, WIRE_FROM_GUEST, ret, &used), WIRE_OK);
}

static void expect_token(int fd, uint64_t hi, uint64_t lo)
{
	struct wire_frame f;
	struct wire_token m;
	uint8_t in[WIRE_HEADER + 16];

	read_frame(fd, in, sizeof in, &f);
	assert_true(wire_get_token(&f, &m));
	assert_true(m.hi == hi && m.lo == lo);
}

void play_control(struct play *p, uint16_t flags, uint64_t deadline_ms)
{
	struct wire_frame f;
	struct wire_hello m;
	uint8_t in[WIRE_HEADER + 24];

	(void)close_fd(p->control);
	p->control = play_accept(p, PLAY_WAIT_MS);
	assert_true(p->control >= 0);
	expect_token(p->control, 0x0011223344556677u, 0x8899aabbccddeeffu);
	read_frame(p->control, in, sizeof in, &f);
	assert_true(wire_get_hello(&f, &m));
	assert_int_equal(m.flags, flags);
	greet_control(p, deadline_ms);
}

void play_start(struct play *p, enum play_as as)
{
	int ends[2];

	init(p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (!p->pid)
		be_parent(p, ends[1], ends[0], as);
	(void)close_fd(ends[1]);
	p->control = ends[0];
	greet_control(p, 0);
	expect_hello(p->control);
}

static void free_seen(struct seen *s)
{
	buf_done(&s->data[0]);
	buf_done(&s->data[1]);
	free(s);
}

static void forget_seen(struct play *p)
{
	while (p->n_seen)
		free_seen(p->seen[--p->n_seen]);
}

void play_stop(struct play *p)
{
	char *remove[] = { (char[]){ "rm" }, (char[]){ "-rf" }, p->dir, NULL };
	int status;
	pid_t pid;

	p->fd = close_fd(p->fd);
	/* the owner's death; whoever dials outlives that, but not what it is a child of */
	p->control = close_fd(p->control);
	if (p->listener >= 0)
		(void)kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	if (p->listener < 0) {
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 125);
	}
	p->listener = close_fd(p->listener);
	forget_seen(p);
	buf_done(&p->in);
	buf_done(&p->out);
	pid = fork();
	if (!pid) {
		(void)execvp(remove[0], remove);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

void play_host(const struct play *p, const char *script)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (!geteuid() && (setgid(p->gid) < 0 || setuid(p->uid) < 0))
			_exit(126);
		if (chdir(p->dir) < 0)
			_exit(126);
		(void)execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- the connection --- */

static void hand_connection(struct play *p)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct wire_connect m = { .epoch = ++p->epoch };
	uint8_t out[64];
	struct iovec iov = { out, wire_put_connect(out, sizeof out, &m) };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ends[1], sizeof(int));
	assert_int_equal(sendmsg(p->control, &msg, MSG_NOSIGNAL), iov.iov_len);
	(void)close_fd(ends[1]);
	p->fd = ends[0];
}

static void await_connection(struct play *p)
{
	struct wire_come m = { .epoch = ++p->epoch, .hi = p->epoch * 7, .lo = ~p->epoch };
	uint8_t out[64];

	assert_int_equal(write_all(p->control, out, wire_put_come(out, sizeof out, &m)), 0);
	p->fd = play_accept(p, PLAY_WAIT_MS);
	assert_true(p->fd >= 0);
	expect_token(p->fd, m.hi, m.lo);
}

void play_dial(struct play *p)
{
	play_hang_up(p);
	p->may_read = p->next_read;
	p->may_send = p->next_send;
	if (p->listener >= 0)
		await_connection(p);
	else
		hand_connection(p);
	for (size_t i = 0; i < p->n_seen; i++)
		p->seen[i]->resumed = false;
}

void play_hang_up(struct play *p)
{
	p->fd = close_fd(p->fd);
	p->greeted = false;
	p->may_read = p->may_send = -1;
	buf_clear(&p->in);
}

static void send_resumes(struct play *p)
{
	for (size_t i = 0; i < p->n_seen; i++) {
		struct seen *s = p->seen[i];

		for (unsigned lane = 0; lane < 2; lane++) {
			if (!s->data[lane].len)
				continue;
			if (!s->hold)
				s->granted[lane] = s->data[lane].len + WIRE_WINDOW;
			PLAY_SEND(p, resume,
				.stream = s->stream | (lane ? (uint32_t)WIRE_STDERR : 0),
				.received = s->data[lane].len, .limit = s->granted[lane]);
		}
	}
}

void play_greet(struct play *p, uint16_t flags)
{
	PLAY_SEND(p, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .flags = flags,
		.epoch = p->epoch);
	if (!(flags & WIRE_HELLO_FRESH))
		send_resumes(p);
	PLAY_SEND(p, resumed, .stream = 0);
}

void play_connect(struct play *p, uint16_t flags)
{
	play_dial(p);
	if (flags & WIRE_HELLO_FRESH)
		forget_seen(p);
	play_greet(p, flags);
	/* a connection that is meant to break may do it here */
	while (!p->greeted && p->fd >= 0)
		if (!play_read(p, PLAY_WAIT_MS))
			assert_int_equal(p->fd, -1);
}

static size_t allowed(int64_t most, size_t n)
{
	return most >= 0 && (size_t)most < n ? (size_t)most : n;
}

/* The connection breaks when all is spent. */
static void spend(struct play *p, int64_t *most, ssize_t n)
{
	if (*most < 0)
		return;
	*most -= n;
	if (*most == 0)
		play_hang_up(p);
}

static void queue(struct play *p, const void *bytes, size_t n)
{
	p->out.max = 64u << 20;
	assert_true(buf_add(&p->out, bytes, n));
}

/* --- what arrives --- */

struct seen *play_seen(struct play *p, uint32_t stream)
{
	struct seen *s;

	for (size_t i = 0; i < p->n_seen; i++)
		if (p->seen[i]->stream == stream)
			return p->seen[i];
	assert_true(p->n_seen < PLAY_MAX_SEEN);
	s = xcalloc(1, sizeof *s);
	s->stream = stream;
	s->granted[0] = s->granted[1] = s->limit = WIRE_WINDOW;
	p->seen[p->n_seen++] = s;
	return s;
}

static void take_data(struct play *p, const struct wire_frame *f)
{
	unsigned lane = f->stream & (uint32_t)WIRE_STDERR ? 1u : 0u;
	struct seen *s = play_seen(p, f->stream & ~(uint32_t)WIRE_STDERR);
	struct buf *b = &s->data[lane];
	struct wire_ack m = { .stream = f->stream };
	uint8_t out[64];

	assert_false(s->eof[lane] && f->length);
	assert_true(f->length > 0);
	assert_true(b->len + f->length <= s->granted[lane]);
	b->max = 1u << 30;
	assert_true(buf_add(b, f->body, f->length));
	if (!s->hold && b->len + WIRE_WINDOW - s->granted[lane] >= 65536) {
		m.limit = s->granted[lane] = b->len + WIRE_WINDOW;
		m.received = b->len;
		queue(p, out, wire_put_ack(out, sizeof out, &m));
	}
}

static void take_eof(struct play *p, const struct wire_frame *f)
{
	unsigned lane = f->stream & (uint32_t)WIRE_STDERR ? 1u : 0u;
	struct seen *s = play_seen(p, f->stream & ~(uint32_t)WIRE_STDERR);
	struct wire_eof m;

	assert_true(wire_get_eof(f, &m));
	assert_int_equal(m.total, s->data[lane].len);
	s->eof[lane] = true;
	s->eof_total[lane] = m.total;
}

static void take_answer(struct play *p, const struct wire_frame *f)
{
	struct seen *s = play_seen(p, f->stream);
	struct wire_begun begun;
	struct wire_ended end;

	if (wire_get_begun(f, &begun)) {
		s->begun = true;
		s->pid = begun.pid;
	} else if (wire_get_ended(f, &end)) {
		if (!s->ended)
			for (unsigned i = 0; i < 2; i++)
				s->before_end[i] = s->data[i].len;
		s->ended = true;
		s->end = end;
	} else if (wire_get_stated(f, &s->stat)) {
		s->stated = true;
		memcpy(s->target, s->stat.rest, s->stat.rest_len);
		s->target[s->stat.rest_len] = 0;
	} else {
		assert_true(wire_get_result(f, &s->answer));
		s->result = true;
		assert_true(s->answer.rest_len <= sizeof s->note);
		memcpy(s->note, s->answer.rest, s->answer.rest_len);
	}
}

static void take_credit(struct play *p, const struct wire_frame *f)
{
	struct wire_resume resume;
	struct wire_ack ack;
	struct seen *s = play_seen(p, f->stream);

	if (wire_get_ack(f, &ack)) {
		assert_true(ack.received >= s->taken && ack.limit >= s->limit);
		s->taken = ack.received;
		s->limit = ack.limit;
		return;
	}
	assert_true(wire_get_resume(f, &resume));
	s->resumed = true;
	s->resume = s->taken = resume.received;
	s->limit = resume.limit;
}

static void take_frame(struct play *p, const struct wire_frame *f)
{
	struct wire_incoming incoming;
	struct wire_hello hello;

	if (p->quiet)
		return;
	switch (f->type) {
	case WIRE_HELLO:
		assert_true(wire_get_hello(f, &hello));
		assert_int_equal(hello.epoch, p->epoch);
		p->hello_flags = hello.flags;
		return;
	case WIRE_RESUMED:
		p->greeted = true;
		return;
	case WIRE_DATA:
		take_data(p, f);
		return;
	case WIRE_EOF:
		take_eof(p, f);
		return;
	case WIRE_ACK:
	case WIRE_RESUME:
		take_credit(p, f);
		return;
	case WIRE_INCOMING:
		assert_true(wire_get_incoming(f, &incoming));
		p->incoming[p->n_incoming++ % 64] = f->stream;
		return;
	default:
		take_answer(p, f);
	}
}

static bool receive(struct play *p, int ms)
{
	struct pollfd poll_fd = { .fd = p->fd, .events = POLLIN };
	struct wire_frame f;
	enum wire_parsed r;
	size_t used, at = 0;
	ssize_t n;

	if (p->fd < 0 || poll(&poll_fd, 1, ms) <= 0)
		return false;
	assert_true(buf_reserve(&p->in, 1 << 18));
	n = read(p->fd, p->in.data + p->in.len, allowed(p->may_read, 1 << 18));
	if (n <= 0) {
		play_hang_up(p);
		return false;
	}
	p->in.len += (size_t)n;
	while ((r = wire_parse((uint8_t *)p->in.data + at, p->in.len - at, WIRE_FROM_GUEST, &f,
			&used)) == WIRE_OK) {
		take_frame(p, &f);
		if (p->fd < 0)
			return false;
		at += used;
	}
	assert_int_equal(r, WIRE_SHORT);
	p->in.len -= at;
	memmove(p->in.data, p->in.data + at, p->in.len);
	spend(p, &p->may_read, n);
	return p->fd >= 0;
}

/* Sends what is queued; reads when the guest doesn't take more, since it may be waiting for us. */
static void flush(struct play *p)
{
	size_t at = 0;

	while (p->fd >= 0 && at < p->out.len) {
		ssize_t w = send(p->fd, p->out.data + at, allowed(p->may_send, p->out.len - at),
			MSG_NOSIGNAL | MSG_DONTWAIT);
		struct pollfd poll_fd = { .fd = p->fd, .events = POLLIN | POLLOUT };

		if (w >= 0) {
			at += (size_t)w;
			spend(p, &p->may_send, w);
			continue;
		}
		/* broken from the other side, which reading tells */
		if (errno != EAGAIN)
			poll_fd.revents = POLLIN;
		else
			assert_true(poll(&poll_fd, 1, PLAY_WAIT_MS) > 0);
		if (poll_fd.revents & POLLIN)
			(void)receive(p, 0);
	}
	buf_clear(&p->out);
}

void play_send(struct play *p, const void *bytes, size_t n)
{
	queue(p, bytes, n);
	flush(p);
}

bool play_read(struct play *p, int ms)
{
	bool r = receive(p, ms);

	flush(p);
	return r && p->fd >= 0;
}

#define UNTIL(condition) \
	do { \
		struct seen *s = play_seen(p, stream); \
\
		while (!(condition)) \
			assert_true(play_read(p, PLAY_WAIT_MS)); \
		return s; \
	} while (0)

struct seen *play_until_begun(struct play *p, uint32_t stream)
{
	UNTIL(s->begun);
}

struct seen *play_until_ended(struct play *p, uint32_t stream)
{
	UNTIL(s->ended);
}

struct seen *play_until_result(struct play *p, uint32_t stream)
{
	UNTIL(s->result);
}

struct seen *play_until_eof(struct play *p, uint32_t stream, unsigned lane)
{
	UNTIL(s->eof[lane]);
}

struct seen *play_until_bytes(struct play *p, uint32_t stream, unsigned lane, size_t n)
{
	UNTIL(s->data[lane].len >= n);
}

/* --- what is asked --- */

void play_data(struct play *p, uint32_t stream, const void *bytes, size_t n)
{
	static uint8_t frame[WIRE_HEADER + WIRE_MAX_BODY];
	struct seen *s = play_seen(p, stream);
	const char *at = bytes;
	uint64_t sent = s->taken;

	while (n) {
		size_t k = n < WIRE_MAX_BODY ? n : WIRE_MAX_BODY;

		while (p->fd >= 0 && s->limit < sent + k)
			if (!play_read(p, PLAY_WAIT_MS))
				assert_int_equal(p->fd, -1);
		if (p->fd < 0)
			return;
		wire_put_header(frame, WIRE_DATA, stream, (uint32_t)k);
		memcpy(frame + WIRE_HEADER, at, k);
		play_send(p, frame, WIRE_HEADER + k);
		at += k;
		n -= k;
		sent += k;
	}
}

void play_eof(struct play *p, uint32_t stream, uint64_t total)
{
	PLAY_SEND(p, eof, .stream = stream, .total = total);
}

void play_run(struct play *p, const struct wire_run *m, const void *strings, size_t n)
{
	const uint8_t *at = strings;

	for (; n > 60000; at += 60000, n -= 60000)
		PLAY_SEND(p, args, .stream = m->stream, .rest = at, .rest_len = 60000);
	PLAY_SEND(p, run, .stream = m->stream, .flags = m->flags, .uid = m->uid, .gid = m->gid,
		.rows = m->rows, .columns = m->columns, .timeout_ms = m->timeout_ms, .rest = at,
		.rest_len = (uint32_t)n);
}

void play_shell(struct play *p, uint32_t stream, uint32_t flags, const char *script)
{
	struct wire_run m = { .stream = stream,
		.flags = flags,
		.uid = (uint32_t)WIRE_SAME_ID,
		.gid = (uint32_t)WIRE_SAME_ID };
	_cleanup_buf_ struct buf b = BUF_INIT;

	assert_true(buf_puts(&b, p->dir) && buf_add(&b, "", 1) && buf_add(&b, "3\0sh\0-c", 8) &&
		buf_puts(&b, script) && buf_add(&b, "", 1) && buf_puts(&b, "TWICE=run") &&
		buf_add(&b, "", 1));
	play_run(p, &m, b.data, b.len);
}

void play_close(struct play *p, uint32_t stream)
{
	PLAY_SEND(p, close, .stream = stream);
	for (size_t i = 0; i < p->n_seen; i++) {
		if (p->seen[i]->stream != stream)
			continue;
		free_seen(p->seen[i]);
		p->seen[i] = p->seen[--p->n_seen];
		return;
	}
}

void play_check_alive(struct play *p, uint32_t stream)
{
	const struct seen *s;

	play_shell(p, stream, 0, "echo alive");
	s = play_until_ended(p, stream);
	assert_int_equal(s->end.how, WIRE_HOW_EXITED);
	assert_int_equal(s->end.status, 0);
	assert_string_equal(play_text(s, 0), "alive\n");
	play_close(p, stream);
}

const char *play_text(const struct seen *s, unsigned lane)
{
	return s->data[lane].data ? s->data[lane].data : "";
}

const char *play_path(const struct play *p, const char *name)
{
	static char paths[4][WIRE_MAX_PATH];
	static unsigned at;

	at = (at + 1) % 4;
	return str_format(paths[at], sizeof paths[at], "%s/%s", p->dir, name);
}
