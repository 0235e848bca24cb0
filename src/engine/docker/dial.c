/* Owns the socket that a container's guest dials: who dialled is known by a token that only the guest was told.  Called by
 * session.c.  Must hold: of a connection nothing but its first frame is looked at before the token is right, and no number of
 * strangers keeps the guest away. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/docker.h"
#include "wire/wire.h"

enum { CALLERS = 32, TOKEN_FRAME = WIRE_HEADER + 16, LOOK_MS = 500, BACKLOG = 128 };

/* Whoever dialled and hasn't shown a token yet. */
struct caller {
	int fd;
	size_t have;
	uint8_t frame[TOKEN_FRAME];
};

struct callers {
	struct caller c[CALLERS];
	unsigned n;
};

static int put_file(int dir, const char *name, const char *text, mode_t mode, struct err *e)
{
	_cleanup_close_ int fd = -1;

	(void)unlinkat(dir, name, 0);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0 || write_all(fd, text, strlen(text)) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "write '%s' of a sandbox", name);
	return 0;
}

int dial_listen(struct sandbox *sb, struct err *e)
{
	_cleanup_close_ int dir = -1, fd = -1;
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (sb->listener >= 0)
		return 0;
	if (container_ctl(sb, &dir, e) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)unlinkat(dir, "ctl.sock", 0);
	FMT(a.sun_path, "/proc/self/fd/%d/ctl.sock", dir);
	/* any user of the container may call; the directory above is closed to users of the host */
	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ||
		chmod(a.sun_path, 0666) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "listen for the guest of sandbox '%s'",
			sb->id);
	sb->listener = move_fd(&fd);
	return 0;
}

static int fresh(uint64_t token[2], struct err *e)
{
	if (getrandom(token, 2 * sizeof *token, 0) != (ssize_t)(2 * sizeof *token))
		return err_set(e, R_SETUP_FAILED, errno, "get random bytes");
	return 0;
}

int dial_prepare(struct sandbox *sb, struct err *e)
{
	_cleanup_close_ int dir = -1;
	_cleanup_buf_ struct buf checks = BUF_INIT;
	/* what gVisor shows has numbers of its own */
	const bool objects = !docker_on_gvisor(sb);
	char text[40];
	uint64_t token[2];

	if (container_ctl(sb, &dir, e) < 0 || fresh(token, e) < 0)
		return -1;
	sb->hi = token[0];
	sb->lo = token[1];
	if (request_checks(sb->spec, objects, sb->engine->info.podman, &checks) < 0)
		return err_set(e, R_NO_MEMORY, 0, "start sandbox '%s'", sb->id);
	FMT(text, "%016llx%016llx\n", (unsigned long long)sb->hi, (unsigned long long)sb->lo);
	return put_file(dir, "check", checks.data ? checks.data : "", 0444, e) < 0 ||
			put_file(dir, "token", text, 0444, e) < 0
		? -1
		: 0;
}

/* --- callers ------------------------------------------------------------------------------------------------------- */

static void drop(struct callers *all, unsigned i)
{
	(void)close_fd(all->c[i].fd);
	memmove(all->c + i, all->c + i + 1, (all->n - i - 1) * sizeof *all->c);
	all->n--;
}

static void drop_all(struct callers *all)
{
	while (all->n)
		drop(all, all->n - 1);
}

static void take_new(struct callers *all, int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (all->n == CALLERS)
			drop(all, 0);
		all->c[all->n++] = (struct caller){ .fd = fd };
	}
}

/* 1 and the token when it is whole, 0 when more is to come, -1 when it is none. */
static int read_token(struct caller *c, struct wire_token *ret)
{
	struct wire_frame f;
	size_t used;
	ssize_t n = read(c->fd, c->frame + c->have, sizeof c->frame - c->have);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0)
		return -1;
	c->have += (size_t)n;
	switch (wire_parse(c->frame, c->have, WIRE_FROM_GUEST, &f, &used)) {
	case WIRE_OK:
		return wire_get_token(&f, ret) ? 1 : -1;
	case WIRE_SHORT:
		return c->have < sizeof c->frame ? 0 : -1;
	case WIRE_REFUSED:
	default:
		return -1;
	}
}

static bool is_token(const struct wire_token *m, uint64_t hi, uint64_t lo)
{
	/* no sooner wrong for the first byte than for the last */
	return ((m->hi ^ hi) | (m->lo ^ lo)) == 0;
}

/* --- the control connection ---------------------------------------------------------------------------------------- */

static int send_greeting(struct sandbox *sb, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	struct wire_hello hello = { .magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.epoch = 1,
		.deadline_ms = sb->deadline };
	struct wire_session session = { .uid = s->uid,
		.gid = s->gid,
		.flags = s->model_relay ? WIRE_EXEC_RELAY : 0,
		.max_streams = WIRE_MAX_STREAMS };
	uint8_t out[128];
	size_t n = wire_put_hello(out, sizeof out, &hello);

	n += wire_put_session(out + n, sizeof out - n, &session);
	if (send(sb->control, out, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		return err_set(e, R_GUEST_LOST, errno, "greet the guest of sandbox '%s'", sb->id);
	return 0;
}

/* Its HELLO, which comes right behind the TOKEN. */
static int read_hello(struct sandbox *sb, uint64_t until, struct err *e)
{
	uint8_t in[WIRE_HEADER + 24];
	size_t have = 0, used;
	struct wire_frame f;
	struct wire_hello m;

	while (have < sizeof in) {
		struct pollfd p = { .fd = sb->control, .events = POLLIN };
		const uint64_t now = boottime_ms();
		ssize_t n;

		if (now >= until || poll(&p, 1, (int)(until - now)) <= 0)
			return err_set(e, R_GUEST_LOST, ETIMEDOUT,
				"hear from the guest of sandbox '%s'", sb->id);
		n = read(sb->control, in + have, sizeof in - have);
		if (n <= 0 && errno != EAGAIN)
			return err_set(e, R_GUEST_LOST, n < 0 ? errno : 0,
				"hear from the guest of sandbox '%s'", sb->id);
		have += n > 0 ? (size_t)n : 0;
	}
	if (wire_parse(in, sizeof in, WIRE_FROM_GUEST, &f, &used) != WIRE_OK ||
		!wire_get_hello(&f, &m))
		return err_set(
			e, R_WIRE_MALFORMED, 0, "hear from the guest of sandbox '%s'", sb->id);
	return 0;
}

static int take_control(struct sandbox *sb, int fd, uint64_t until, struct err *e)
{
	(void)close_fd(sb->control);
	sb->control = fd;
	if (read_hello(sb, until, e) == 0 && send_greeting(sb, e) == 0)
		return 0;
	sb->control = close_fd(sb->control);
	return -1;
}

static int say_end(const struct sandbox *sb, int64_t code, struct err *e)
{
	if (code == WIRE_EXIT_OBJECT)
		return err_set(e, R_MOUNT_SOURCE_CHANGED, 0,
			"start sandbox '%s': a directory to be mounted was exchanged for another one",
			sb->id);
	if (code == WIRE_EXIT_TMPFS) {
		err_set(e, R_SETUP_FAILED, 0,
			"start sandbox '%s': a tmpfs has not the owner or mode that was asked for",
			sb->id);
		return err_remedy(e,
			"Use an image in which /tmp and the home directory are missing or have their usual modes.");
	}
	return err_set(e, R_GUEST_LOST, 0,
		"start sandbox '%s': its first process ended with status %lld", sb->id,
		(long long)code);
}

/* From time to time: whether there is still somebody to wait for. */
static int look(struct sandbox *sb, struct err *e)
{
	int64_t code = 0;
	bool running = false;

	if (container_running(sb, &running, &code, e) < 0)
		return -1;
	return running ? 0 : say_end(sb, code, e);
}

/* Which of the two tokens came is in *ret_control; the connection is *ret. */
static int serve_callers(struct sandbox *sb, struct callers *all, const struct pollfd *p,
	const struct wire_token *wanted, int *ret, bool *ret_control)
{
	for (unsigned i = all->n; i-- > 0;) {
		struct wire_token m;
		int r;

		if (!p[1 + i].revents)
			continue;
		r = read_token(&all->c[i], &m);
		if (r == 0)
			continue;
		*ret_control = r > 0 && is_token(&m, sb->hi, sb->lo);
		if (r > 0 && (*ret_control || (wanted && is_token(&m, wanted->hi, wanted->lo)))) {
			*ret = move_fd(&all->c[i].fd);
			drop(all, i);
			return 1;
		}
		drop(all, i);
	}
	return 0;
}

static int await(struct sandbox *sb, const struct wire_token *wanted, uint64_t until, int *ret,
	bool *ret_control, struct err *e)
{
	struct callers all = { .n = 0 };
	uint64_t look_at = boottime_ms() + LOOK_MS;
	int r = 0;

	while (r == 0) {
		struct pollfd p[1 + CALLERS] = { { .fd = sb->listener, .events = POLLIN } };
		const uint64_t now = boottime_ms();

		for (unsigned i = 0; i < all.n; i++)
			p[1 + i] = (struct pollfd){ .fd = all.c[i].fd, .events = POLLIN };
		if (now >= until)
			r = err_set(e, R_GUEST_LOST, ETIMEDOUT,
				"wait for the guest of sandbox '%s' to dial", sb->id);
		else if (now >= look_at) {
			r = look(sb, e);
			look_at = boottime_ms() + LOOK_MS;
		} else if (poll(p, 1 + all.n, (int)(look_at - now)) > 0) {
			r = serve_callers(sb, &all, p, wanted, ret, ret_control);
			if (r == 0 && p[0].revents)
				take_new(&all, sb->listener);
		}
	}
	drop_all(&all);
	return r < 0 ? -1 : 0;
}

int dial_await_control(struct sandbox *sb, uint64_t ms, struct err *e)
{
	const uint64_t until = boottime_ms() + ms;
	_cleanup_close_ int dir = -1;
	bool control;
	int fd = -1;

	if (await(sb, NULL, until, &fd, &control, e) < 0 || take_control(sb, fd, until, e) < 0 ||
		container_ctl(sb, &dir, e) < 0)
		return -1;
	(void)unlinkat(dir, "token", 0);
	return 0;
}

static int send_come(struct sandbox *sb, const struct wire_come *m)
{
	uint8_t out[64];
	const size_t n = wire_put_come(out, sizeof out, m);

	return send(sb->control, out, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n ? 0 : -1;
}

int dial_channel(struct sandbox *sb, uint64_t epoch, int *ret_fd, struct err *e)
{
	const uint64_t until = boottime_ms() + DIAL_MS;
	uint64_t token[2];
	struct wire_come come = { .epoch = epoch };
	struct wire_token wanted = { .stream = 0 };
	int fd = -1;

	if (fresh(token, e) < 0)
		return -1;
	wanted.hi = come.hi = token[0];
	wanted.lo = come.lo = token[1];
	for (;;) {
		bool control = false;

		/* a guest that lost the connection dials again, which is seen below */
		if (sb->control >= 0 && send_come(sb, &come) < 0)
			sb->control = close_fd(sb->control);
		if (await(sb, &wanted, until, &fd, &control, e) < 0)
			return -1;
		if (!control) {
			*ret_fd = fd;
			return 0;
		}
		if (take_control(sb, fd, until, e) < 0)
			return -1;
	}
}

void dial_done(struct sandbox *sb)
{
	sb->control = close_fd(sb->control);
	sb->listener = close_fd(sb->listener);
}
