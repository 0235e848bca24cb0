/* Owns the form of what is asked of a launcher.  Called by both sides.  Must hold: what comes out of launch_receive() lies inside
 * its bounds, every string ends, every descriptor that came has one owner. */
#include "launcher/launch.h"

#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/str.h"

enum { MAGIC = 0x484c4c42 };

struct head {
	uint32_t magic, op, n, version;
};

void launch_out_done(struct launch_out *o)
{
	buf_done(&o->body);
}

void launch_put(struct launch_out *o, const char *text)
{
	const size_t n = strlen(text);
	const uint32_t length = (uint32_t)n;

	if (o->n == LAUNCH_MAX_STRINGS || n >= LAUNCH_MAX) {
		o->failed = true;
		return;
	}
	(void)buf_add(&o->body, &length, sizeof length);
	(void)buf_add(&o->body, text, n);
	o->n++;
	o->failed = o->failed || o->body.failed;
}

void launch_put_fd(struct launch_out *o, int fd)
{
	if (o->n_fds == LAUNCH_MAX_FDS)
		o->failed = true;
	else
		o->fds[o->n_fds++] = fd;
}

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(LAUNCH_MAX_FDS * sizeof(int))];
};

int launch_send(int sock, enum launch_op op, const struct launch_out *o)
{
	struct head head = { MAGIC, op, o ? o->n : 0, LAUNCH_VERSION };
	struct iovec v[2] = { { &head, sizeof head },
		{ o ? o->body.data : NULL, o ? o->body.len : 0 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	union control control = { .bytes = { 0 } };

	if (o && (o->failed || o->body.len + sizeof head > LAUNCH_MAX)) {
		errno = E2BIG;
		return -1;
	}
	if (o && o->n_fds) {
		struct cmsghdr *c;

		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(o->n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(o->n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), o->fds, o->n_fds * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* --- receiving --- */

void launch_in_done(struct launch_in *m)
{
	for (unsigned i = 0; i < m->n_fds; i++)
		m->fds[i] = close_fd(m->fds[i]);
	free(m->memory);
	m->memory = NULL;
	m->n = m->n_fds = 0;
}

static void take_fds(struct msghdr *h, struct launch_in *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		unsigned n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (unsigned i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (m->n_fds < LAUNCH_MAX_FDS)
				m->fds[m->n_fds++] = fd;
			else
				(void)close_fd(fd);
		}
	}
}

/* Each string gets its NUL where the next one's length was. */
static bool take_strings(struct launch_in *m, size_t at, size_t end, uint32_t n)
{
	char *p = m->memory;

	if (n > LAUNCH_MAX_STRINGS)
		return false;
	for (m->n = 0; m->n < n; m->n++) {
		uint32_t length;

		if (end - at < sizeof length)
			return false;
		memcpy(&length, p + at, sizeof length);
		p[at] = '\0';
		at += sizeof length;
		if (length > end - at || memchr(p + at, '\0', length))
			return false;
		m->v[m->n] = p + at;
		at += length;
	}
	p[end] = '\0';
	return at == end;
}

static bool parse(struct launch_in *m, size_t n)
{
	struct head head;

	if (n < sizeof head)
		return false;
	memcpy(&head, m->memory, sizeof head);
	m->op = (enum launch_op)head.op;
	return head.magic == MAGIC && head.version == LAUNCH_VERSION &&
		take_strings(m, sizeof head, n, head.n);
}

int launch_receive(int sock, struct launch_in *m)
{
	union control control;
	struct iovec v = { NULL, LAUNCH_MAX };
	struct msghdr h = { .msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	ssize_t n;

	m->n = m->n_fds = 0;
	m->memory = v.iov_base = malloc(LAUNCH_MAX + 1);
	if (!m->memory)
		return -1;
	do
		n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		take_fds(&h, m);
	if (n > 0 && !(h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && parse(m, (size_t)n))
		return 1;
	launch_in_done(m);
	if (n > 0)
		errno = EPROTO;
	return n == 0 ? 0 : -1;
}

/* --- the client's side --- */

int launch_path(char **ret, struct err *e)
{
	const char *given = secure_getenv("BAILEY_LAUNCHER"),
		   *dir = secure_getenv("XDG_RUNTIME_DIR");
	_cleanup_free_ char *own = NULL;

	*ret = NULL;
	if (given && streq(given, "none"))
		return 0;
	if (given && *given) {
		if (*given != '/' || str_has_control(given))
			return err_set(e, R_BAD_VALUE, 0,
				"use BAILEY_LAUNCHER '%.64s': not an absolute path, nor 'none'",
				given);
		*ret = xstrdup(given);
		return 0;
	}
	if (dir && *dir == '/') {
		own = xasprintf("%s/bailey/" LAUNCH_SOCKET, dir);
		if (geteuid() != 0 && access(own, W_OK) == 0) {
			*ret = move_ptr(own);
			return 0;
		}
	}
	if (access(LAUNCH_ROOT_DIR "/" LAUNCH_SOCKET, W_OK) == 0)
		*ret = xstrdup(LAUNCH_ROOT_DIR "/" LAUNCH_SOCKET);
	return 0;
}

/* Root's or this user's own: anybody else's could keep what is handed to it. */
static bool is_trusted(int sock)
{
	struct ucred peer;
	socklen_t n = sizeof peer;

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
		(peer.uid == 0 || peer.uid == geteuid());
}

int launch_connect(const char *path, int *ret, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof a.sun_path)
		return err_set(e, R_BAD_VALUE, 0,
			"connect to launcher '%.64s...': its path is over %zu bytes", path,
			sizeof a.sun_path - 1);
	FMT(a.sun_path, "%s", path);
	if (sock < 0 || connect(sock, (const struct sockaddr *)&a, sizeof a) < 0)
		return err_set(e, R_LAUNCHER_UNREACHABLE, errno, "connect to launcher '%s'", path);
	if (!is_trusted(sock))
		return err_set(e, R_LAUNCHER_UNREACHABLE, 0,
			"connect to launcher '%s': it is neither root's nor this user's", path);
	*ret = move_fd(&sock);
	return 0;
}

static int refused(const struct launch_in *m, struct err *e)
{
	const enum reason r = m->n == 3 ? reason_by_name(m->v[0]) : REASON_NONE;

	if (m->n != 3)
		return err_set(e, R_WIRE_MALFORMED, 0, "ask the launcher: its answer is none");
	err_set(e, r ?: R_SETUP_FAILED, 0, "%s", m->v[1]);
	return err_remedy(e, "%s", m->v[2]);
}

int launch_ask(int sock, enum launch_op op, struct launch_in *ret, struct err *e)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int r;

	if (launch_send(sock, op, NULL) < 0)
		return err_set(e, R_LAUNCHER_UNREACHABLE, errno, "ask the launcher");
	if (poll(&p, 1, LAUNCH_WAIT_MS) == 0)
		return err_set(
			e, R_TIMEOUT, 0, "ask the launcher: no answer for %d ms", LAUNCH_WAIT_MS);
	r = launch_receive(sock, ret);
	if (r <= 0)
		return err_set(e, R_LAUNCHER_UNREACHABLE, r < 0 ? errno : 0,
			"ask the launcher: it hung up");
	if (ret->op == LAUNCH_DONE)
		return 0;
	if (ret->op == LAUNCH_REFUSED)
		(void)refused(ret, e);
	else
		err_set(e, R_WIRE_MALFORMED, 0, "ask the launcher: its answer is none");
	launch_in_done(ret);
	return -1;
}
