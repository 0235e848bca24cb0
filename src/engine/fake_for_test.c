/* The engine, owner and client of the tests of this room. */
#include "engine/fake_for_test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/owner.h"
#include "spec/profile.h"
#include "wire/control_for_test.h"

fake_script *fake_guest;
static char home[64];

struct engine {
	char *guest;
};

struct sandbox {
	int control, pidfd;
	pid_t pid;
	bool paused;
};

/* --- the guest --- */

static bool enter_namespaces(void)
{
	const uid_t uid = geteuid();
	const gid_t gid = getegid();
	char text[64];

	if (unshare(CLONE_NEWPID | CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)) < 0)
		return false;
	if (!uid)
		return true;
	return write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0 &&
		write_file_at(AT_FDCWD, "/proc/self/uid_map", FMT(text, "%u %u 1", uid, uid)) ==
		0 &&
		write_file_at(AT_FDCWD, "/proc/self/gid_map", FMT(text, "%u %u 1", gid, gid)) == 0;
}

bool fake_possible(void)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(enter_namespaces() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
				? 0
				: 1);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void be_guest(const char *path, int control)
{
	char name[] = "bailey-guest", search[] = "PATH=/usr/bin:/bin";
	char *argv[] = { name, NULL }, *env[] = { search, NULL };

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		_exit(126);
	if (control == 3)
		(void)fcntl(3, F_SETFD, 0);
	else
		(void)dup2(control, 3);
	(void)close_range(4, ~0u, 0);
	(void)execve(path, argv, env);
	_exit(127);
}

static void be_script(int control)
{
	const struct wire_hello hello = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1
	};
	uint8_t out[64];
	struct wire_frame f;
	int fd = -1;

	(void)signal(SIGPIPE, SIG_IGN);
	while (control_frame(control, &f, &fd)) {
		struct wire_connect c;

		if (f.type == WIRE_SESSION)
			(void)write_all(control, out, wire_put_hello(out, sizeof out, &hello));
		if (!wire_get_connect(&f, &c) || fd < 0)
			continue;
		fake_guest(fd, c.epoch);
		fd = close_fd(fd);
	}
	_exit(0);
}

/* --- the engine --- */

static int fake_open(struct engine **ret, const struct engine_env *env, struct err *e)
{
	(void)e;
	*ret = xcalloc(1, sizeof **ret);
	(*ret)->guest = xstrdup(env->guest);
	return 0;
}

static void fake_close(struct engine *n)
{
	free(n->guest);
	free(n);
}

static struct engine *the_engine;

static int fake_create_sandbox(struct engine *n, const struct sandbox_spec *spec,
	const struct engine_io *io, struct sandbox **ret, struct err *e)
{
	(void)spec;
	(void)io;
	(void)e;
	the_engine = n;
	*ret = xcalloc(1, sizeof **ret);
	(*ret)->control = (*ret)->pidfd = -1;
	(*ret)->pid = -1;
	return 0;
}

static int say_session(const struct sandbox *s)
{
	const struct wire_hello hello = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1
	};
	const struct wire_session session = {
		.uid = geteuid(), .gid = getegid(), .max_streams = WIRE_MAX_STREAMS
	};
	uint8_t out[128];
	size_t n = wire_put_hello(out, sizeof out, &hello);
	struct pollfd p = { .fd = s->control, .events = POLLIN };

	n += wire_put_session(out + n, sizeof out - n, &session);
	return write_all(s->control, out, n) == 0 && poll(&p, 1, FAKE_WAIT_MS) == 1 &&
			read(s->control, out, sizeof out) == 36
		? 0
		: -1;
}

static int fake_halt(struct sandbox *s, struct engine_facts *ret, struct err *e)
{
	(void)e;
	memset(ret, 0, sizeof *ret);
	if (s->pid > 0) {
		(void)kill(s->pid, SIGKILL);
		(void)waitpid(s->pid, NULL, 0);
	}
	s->control = close_fd(s->control);
	s->pidfd = close_fd(s->pidfd);
	s->pid = -1;
	s->paused = false;
	return 0;
}

static int fake_boot(struct sandbox *s, struct err *e)
{
	struct engine_facts facts;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	s->control = ends[0];
	s->pid = fork();
	if (s->pid == 0) {
		/* only a child is in the new pid namespace, and it goes when this one does */
		(void)close_range(3, (unsigned)ends[1] - 1, 0);
		(void)close_range((unsigned)ends[1] + 1, ~0u, 0);
		if (fake_guest)
			be_script(ends[1]);
		if (!enter_namespaces())
			_exit(126);
		if (fork() == 0)
			be_guest(the_engine->guest, ends[1]);
		(void)close(ends[1]);
		(void)wait(NULL);
		_exit(0);
	}
	(void)close_fd(ends[1]);
	s->pidfd = sys_pidfd_open(s->pid);
	if (say_session(s) == 0)
		return 0;
	(void)fake_halt(s, &facts, e);
	return err_set(e, R_GUEST_LOST, 0, "boot the fake sandbox");
}

static int fake_connect(struct sandbox *s, uint64_t epoch, int *ret_fd, struct err *e)
{
	const struct wire_connect m = { .epoch = epoch };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	uint8_t out[64];
	struct iovec iov = { out, wire_put_connect(out, sizeof out, &m) };
	struct msghdr h = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.align), &ends[1], sizeof(int));
	if (sendmsg(s->control, &h, MSG_NOSIGNAL) < 0) {
		(void)close_fd(ends[0]);
		(void)close_fd(ends[1]);
		return err_set(e, R_GUEST_LOST, errno, "connect");
	}
	(void)close_fd(ends[1]);
	*ret_fd = ends[0];
	return 0;
}

static int fake_pause(struct sandbox *s, bool on, struct err *e)
{
	(void)e;
	s->paused = on;
	return 0;
}

static int fake_stats(struct sandbox *s, struct engine_stats *ret, struct err *e)
{
	(void)s;
	(void)e;
	*ret = (struct engine_stats){ .pids = 1, .has_pids = true };
	return 0;
}

static int fake_seal(struct sandbox *s, struct err *e)
{
	(void)s;
	(void)e;
	return 0;
}

/* A copy that fails says so, and one that dies says nothing. */
static int fake_copy(
	struct sandbox *s, void (*progress)(void *arg, uint64_t bytes), void *arg, struct err *e)
{
	(void)s;
	(void)progress;
	(void)arg;
	if (access(fake_path("copy-fails"), F_OK) == 0)
		return err_set(e, R_DISK_FULL, ENOSPC, "copy");
	if (access(fake_path("copy-dies"), F_OK) == 0)
		_exit(3);
	return 0;
}

static int fake_adopt(struct sandbox *s, const char *new_id, const char *hostname, struct err *e)
{
	(void)new_id;
	(void)hostname;
	(void)e;
	s->control = close_fd(s->control);
	s->pidfd = close_fd(s->pidfd);
	s->pid = -1;
	return 0;
}

static int fake_changes(struct sandbox *s, int out_fd, uint32_t flags, struct err *e)
{
	(void)s;
	if (flags & ENGINE_CHANGES_COW)
		return err_set(e, R_BAD_VALUE, 0, "no workspace");
	return write_all(out_fd, "records", 7);
}

static uid_t fake_channel_uid(const struct sandbox *s)
{
	(void)s;
	return geteuid() == 0 ? FAKE_CHANNEL_UID : (uid_t)-1;
}

static int fake_pidfd(const struct sandbox *s)
{
	return s->pidfd;
}

static void fake_free(struct sandbox *s)
{
	struct engine_facts facts;

	if (s) {
		(void)fake_halt(s, &facts, NULL);
		free(s);
	}
}

static int fake_sweep(struct engine *n, unsigned *ret, struct err *e)
{
	(void)n;
	(void)ret;
	(void)e;
	return 0;
}

const struct engine_ops fake_ops = { .name = "fake",
	.abi = ENGINE_ABI,
	.can = ENGINE_CAN_SESSION,
	.open = fake_open,
	.close = fake_close,
	.create = fake_create_sandbox,
	.pidfd = fake_pidfd,
	.free = fake_free,
	.boot = fake_boot,
	.connect = fake_connect,
	.halt = fake_halt,
	.pause = fake_pause,
	.stats = fake_stats,
	.seal = fake_seal,
	.copy = fake_copy,
	.adopt = fake_adopt,
	.changes = fake_changes,
	.channel_uid = fake_channel_uid,
	.sweep = fake_sweep };

/* --- a home, an owner --- */

void fake_home(void)
{
	FMT(home, "/tmp/bailey-engine-XXXXXX");
	assert_non_null(mkdtemp(home));
	assert_int_equal(setenv("BAILEY_HOME", home, 1), 0);
	assert_int_equal(setenv("BAILEY_LIBEXEC", TEST_LIBEXEC, 1), 0);
}

void fake_home_done(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
}

const char *fake_path(const char *below)
{
	static char paths[4][256];
	static unsigned i;

	i = (i + 1) % 4;
	return FMT(paths[i], "%s/%s", home, below);
}

static void fill(struct pack_request *r, const struct fake_wish *w, char ***env)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct run_request *q = xcalloc(1, sizeof *q);
	union {
		const char *const *in;
		char *const *out;
	} command = { .in = w->command };

	memset(r, 0, sizeof *r);
	q->image_fd = -1;
	q->tmp_size = 1 << 20;
	q->disk_bytes = 1 << 24;
	q->uid = q->gid = 1000;
	q->ttl_ms = w->ttl_ms;
	q->limits = (struct spec_limits){ .memory_bytes = 1 << 28, .cpu_millis = 500, .pids = 77 };
	assert_int_equal(profile_create(&r->spec, q, env, &e), 0);
	free(q);
	str_format(r->name, sizeof r->name, "%s", w->name ?: "");
	FMT(r->image, "host");
	r->keep = w->keep || !w->command;
	r->spool_max = w->spool_max;
	r->command = command.out;
}

int fake_create(const struct fake_wish *w, char ret[static 64])
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request *r = xcalloc(1, sizeof *r);
	uint8_t in[8192];
	struct wire_frame f;
	struct wire_result m;
	char **env = NULL;
	size_t n = 0, used;
	int pair[2];
	pid_t pid;

	fill(r, w, &env);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		(void)close(pair[0]);
		/* nobody's child, as one that libbailey starts */
		if (fork() == 0)
			_exit(owner_run(&fake_ops, pair[1], pair[1]));
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
	(void)close(pair[1]);
	assert_int_equal(pack_send(pair[0], r, &e), 0);
	pack_done(r);
	free(r);
	free(env);
	while (wire_parse(in, n, WIRE_FROM_ENGINE, &f, &used) != WIRE_OK) {
		const ssize_t got = read(pair[0], in + n, sizeof in - n);

		assert_true(got > 0);
		n += (size_t)got;
	}
	assert_true(wire_get_result(&f, &m));
	str_format(ret, 64, "%.*s", m.rest_len < 63 ? (int)m.rest_len : 63, (const char *)m.rest);
	(void)close(pair[0]);
	return m.flags & WIRE_RESULT_REASON ? -1 : 0;
}

const char *fake_meta(const char *id, const char *key)
{
	static char text[16384];
	char path[128];
	size_t n = strlen(key);

	if (read_file_at(AT_FDCWD, fake_path(FMT(path, "sandbox/runs/%s/meta", id)), text,
		    sizeof text) < 0)
		return "";
	for (char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, n) == 0 && p[n] == ' ') {
			p[strcspn(p, "\n")] = '\0';
			return p + n + 1;
		}
	}
	return "";
}

bool fake_meta_becomes(const char *id, const char *key, const char *value)
{
	const uint64_t until = boottime_ms() + FAKE_WAIT_MS;

	while (boottime_ms() < until) {
		if (streq(fake_meta(id, key), value))
			return true;
		(void)usleep(10000);
	}
	return false;
}

static pid_t find_channel(const char *id)
{
	char path[64], text[256], status[4096];
	const char *owner = fake_meta(id, "owner_pid");
	struct stat st;

	if (read_file_at(AT_FDCWD, FMT(path, "/proc/%s/task/%s/children", owner, owner), text,
		    sizeof text) < 0)
		return -1;
	for (char *p = text, *end; *p; p = end + (*end == ' ')) {
		const pid_t pid = (pid_t)strtoull(p, &end, 10);

		if (end == p)
			break;
		/* the guest has no new privileges either, but is no secret to its user */
		if (read_file_at(AT_FDCWD, FMT(path, "/proc/%d/status", pid), status,
			    sizeof status) > 0 &&
			strstr(status, "\nNoNewPrivs:\t1\n") &&
			strstr(status, "\nCapPrm:\t0000000000000000\n") &&
			stat(FMT(path, "/proc/%d", pid), &st) == 0 &&
			(geteuid() == 0 || st.st_uid == 0))
			return pid;
	}
	return -1;
}

pid_t fake_channel(const char *id)
{
	const uint64_t until = boottime_ms() + FAKE_WAIT_MS;
	pid_t pid;

	/* it may still be giving up its rights: nobody was served yet then */
	while ((pid = find_channel(id)) < 0 && boottime_ms() < until)
		(void)usleep(5000);
	return pid;
}

bool fake_gone(pid_t pid)
{
	const uint64_t until = boottime_ms() + FAKE_WAIT_MS;

	while (process_start(pid)) {
		if (boottime_ms() >= until)
			return false;
		(void)usleep(5000);
	}
	return true;
}

/* --- a client --- */

void tc_connect(struct client_for_test *t, const char *id)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char path[64];

	memset(t, 0, sizeof *t);
	t->passed_fd = -1;
	for (unsigned i = 0; i < FAKE_STREAMS; i++) {
		t->got[i].fd = -1;
		t->granted[i][0] = t->granted[i][1] = WIRE_WINDOW;
	}
	FMT(a.sun_path, "%s", fake_path(FMT(path, "sandbox/runs/%s/sock", id)));
	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(t->fd >= 0);
	assert_int_equal(connect(t->fd, (const struct sockaddr *)&a, sizeof a), 0);
	TC_SEND(t, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1);
}

void tc_close(struct client_for_test *t)
{
	t->fd = close_fd(t->fd);
	t->passed_fd = close_fd(t->passed_fd);
	buf_done(&t->in);
	for (unsigned i = 0; i < FAKE_STREAMS; i++) {
		buf_done(&t->got[i].data[0]);
		buf_done(&t->got[i].data[1]);
		t->got[i].fd = close_fd(t->got[i].fd);
	}
}

void tc_send(struct client_for_test *t, const void *p, size_t n)
{
	for (size_t done = 0; done < n && t->fd >= 0;) {
		const ssize_t w = send(t->fd, (const uint8_t *)p + done, n - done, MSG_NOSIGNAL);

		if (w <= 0) {
			t->fd = close_fd(t->fd);
			return;
		}
		done += (size_t)w;
	}
}

void tc_shell(struct client_for_test *t, uint32_t stream, uint32_t flags, const char *script)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	(void)buf_add(&text, "/\0003\0/bin/sh\0-c", 15);
	(void)buf_add(&text, script, strlen(script) + 1);
	assert_false(text.failed);
	TC_SEND(t, run, .stream = stream, .flags = flags, .uid = (uint32_t)WIRE_SAME_ID,
		.gid = (uint32_t)WIRE_SAME_ID, .rest = (const uint8_t *)text.data,
		.rest_len = (uint32_t)text.len);
}

static void take_data(
	struct client_for_test *t, struct got *g, uint32_t stream, const struct wire_frame *f)
{
	const unsigned lane = f->stream & (uint32_t)WIRE_STDERR ? 1u : 0u;
	uint64_t *granted = &t->granted[stream][lane];

	assert_true(buf_add(&g->data[lane], f->body, f->length));
	/* nothing comes above the credit */
	assert_true(g->data[lane].len <= *granted);
	if (t->hold || *granted - g->data[lane].len > WIRE_WINDOW / 2)
		return;
	*granted = g->data[lane].len + WIRE_WINDOW;
	TC_SEND(t, ack, .stream = f->stream, .received = g->data[lane].len, .limit = *granted);
}

static void take_frame(struct client_for_test *t, const struct wire_frame *f)
{
	const uint32_t stream = f->stream & ~(uint32_t)WIRE_STDERR;
	const unsigned lane = f->stream != stream;
	struct got *g = &t->got[stream % FAKE_STREAMS];
	struct wire_hello hello;
	struct wire_eof eof;

	assert_true(stream < FAKE_STREAMS);
	switch (f->type) {
	case WIRE_HELLO:
		assert_true(wire_get_hello(f, &hello));
		break;
	case WIRE_DATA:
		take_data(t, g, stream, f);
		break;
	case WIRE_EOF:
		assert_true(wire_get_eof(f, &eof));
		assert_int_equal(eof.total, g->data[lane].len);
		g->eof[lane] = true;
		break;
	case WIRE_COMMAND_INFO:
		assert_true(wire_get_command_info(f, &g->last_info));
		g->info = true;
		g->n_infos++;
		break;
	case WIRE_BEGUN:
		g->begun = true;
		break;
	case WIRE_ENDED:
		assert_true(wire_get_ended(f, &g->end));
		g->ended = true;
		break;
	case WIRE_RESULT:
		assert_false(g->result);
		assert_true(wire_get_result(f, &g->answer));
		str_format(g->text, sizeof g->text, "%.*s",
			g->answer.rest_len < 500 ? (int)g->answer.rest_len : 500,
			(const char *)g->answer.rest);
		if (g->answer.flags & WIRE_RESULT_FD)
			g->fd = move_fd(&t->passed_fd);
		g->result = true;
		break;
	default:
		break;
	}
}

static bool receive(struct client_for_test *t)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes };
	ssize_t n;

	assert_true(buf_reserve(&t->in, 256 << 10));
	iov = (struct iovec){ t->in.data + t->in.len, 256 << 10 };
	m.msg_controllen = sizeof control.bytes;
	n = recvmsg(t->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		t->fd = close_fd(t->fd);
		return false;
	}
	if (m.msg_controllen)
		memcpy(&t->passed_fd, CMSG_DATA(&control.align), sizeof(int));
	t->in.len += (size_t)n;
	return true;
}

bool tc_read(struct client_for_test *t, int ms)
{
	struct pollfd p = { .fd = t->fd, .events = POLLIN };
	size_t at = 0, used;
	struct wire_frame f;

	if (t->fd < 0 || poll(&p, 1, ms) <= 0 || !receive(t))
		return false;
	for (;;) {
		const enum wire_parsed r = wire_parse((const uint8_t *)t->in.data + at,
			t->in.len - at, WIRE_FROM_ENGINE, &f, &used);

		assert_int_not_equal(r, WIRE_REFUSED);
		if (r == WIRE_SHORT)
			break;
		take_frame(t, &f);
		at += used;
	}
	memmove(t->in.data, t->in.data + at, t->in.len - at);
	t->in.len -= at;
	return true;
}

struct got *tc_until_result(struct client_for_test *t, uint32_t stream)
{
	while (!t->got[stream].result)
		if (!tc_read(t, FAKE_WAIT_MS))
			fail_msg("stream %u: no answer, the connection %s", stream,
				t->fd < 0 ? "ended" : "is silent");
	return &t->got[stream];
}

struct got *tc_until_begun(struct client_for_test *t, uint32_t stream)
{
	while (!t->got[stream].begun)
		if (!tc_read(t, FAKE_WAIT_MS))
			fail_msg("stream %u: did not begin", stream);
	return &t->got[stream];
}

bool tc_until_closed(struct client_for_test *t)
{
	while (tc_read(t, FAKE_WAIT_MS))
		;
	return t->fd < 0;
}

const char *tc_control(
	struct client_for_test *t, uint32_t stream, uint32_t verb, const char *text, uint32_t n)
{
	TC_SEND(t, control, .stream = stream, .verb = verb, .rest = (const uint8_t *)text,
		.rest_len = n);
	return tc_until_result(t, stream)->answer.flags & WIRE_RESULT_REASON ? t->got[stream].text
									     : "";
}
