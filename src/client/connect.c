/* Owns reaching the engine of a sandbox: its socket, who listens there, HELLO.  Called by users of the library and by list.c,
 * which asks many at once. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"

/* The listener was made by the owner of the sandbox: this user, or root.  Anybody else's is not what it seems. */
static int check_peer(int fd, const char *id, struct err *e)
{
	struct ucred peer;
	socklen_t n = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return err_set(e, R_SANDBOX_LOST, errno, "connect to '%s'", id);
	if (peer.uid != geteuid() && peer.uid != 0 && geteuid() != 0)
		return err_set(e, R_PERMISSION_DENIED, 0, "connect to '%s': uid '%u' listens there",
			id, peer.uid);
	return 0;
}

/* EAGAIN: its queue of connections is full. */
static int connect_to(int fd, int run_fd, const char *id, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const uint64_t until = boottime_ms() + CLIENT_CONNECT_MS;

	FMT(a.sun_path, "/proc/self/fd/%d/sock", run_fd);
	while (connect(fd, (const struct sockaddr *)&a, sizeof a) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return err_set(e,
				errno == EACCES || errno == EPERM ? R_PERMISSION_DENIED
								  : R_SANDBOX_LOST,
				errno, "connect to '%s'", id);
		if (boottime_ms() >= until)
			return err_set(e, R_BUSY, 0, "connect to '%s': too many want to", id);
		(void)poll(NULL, 0, 5);
	}
	return 0;
}

int conn_begin(struct bailey_sandbox **ret, int run_fd, const char *id, struct err *e)
{
	const struct wire_hello m = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct bailey_sandbox *c;

	if (fd < 0)
		return err_set(e, R_NO_MEMORY, errno, "connect to '%s'", id);
	if (connect_to(fd, run_fd, id, e) < 0 || check_peer(fd, id, e) < 0) {
		(void)close_fd(fd);
		return -1;
	}
	if (conn_new(&c, fd, id, e) < 0)
		return -1;
	if (conn_put(c, hello, &m, e) < 0 || conn_flush(c, e) < 0) {
		conn_free(c);
		return -1;
	}
	*ret = c;
	return 0;
}

int conn_open(struct bailey_sandbox **ret, int run_fd, const char *id, struct err *e)
{
	const uint64_t until = boottime_ms() + CLIENT_CONNECT_MS;
	struct bailey_sandbox *c;

	if (conn_begin(&c, run_fd, id, e) < 0)
		return -1;
	while (!c->hello) {
		const uint64_t now = boottime_ms();

		if (now >= until) {
			err_set(e, R_ENGINE_LOST, 0, "connect to '%s': no answer for %d ms", id,
				CLIENT_CONNECT_MS);
			conn_free(c);
			return -1;
		}
		if (conn_turn(c, (int)(until - now), e) < 0) {
			conn_free(c);
			return -1;
		}
	}
	*ret = c;
	return 0;
}

int connect_sandbox(
	const struct bailey *b, const char *sandbox, struct bailey_sandbox **ret, struct err *e)
{
	_cleanup_record_ struct record r = { .n = 0 };
	_cleanup_close_ int sandboxes = -1, run = -1;
	_cleanup_err_ struct err ignored = ERR_INIT;
	char id[BAILEY_ID_SIZE];

	if (sandbox_find(b, sandbox, id, e) < 0 || home_open_sandboxes(b, &sandboxes, e) < 0 ||
		run_open(sandboxes, id, &run, e) < 0)
		return -1;
	if (conn_open(ret, run, id, e) == 0)
		return 0;
	/* nobody listens: is its engine gone, or is only this moment a bad one? */
	if (e->reason != R_SANDBOX_LOST || record_read(run, id, &r, &ignored) < 0)
		return -1;
	if (record_owner_lives(&r))
		return err_set(e, R_ENGINE_LOST, e->sys_errno, "connect to '%s'", id);
	if (!client_adopt(b, run, &r))
		return -1;
	err_done(e);
	return conn_open(ret, run, id, e);
}

int bailey_connect(
	struct bailey *b, const char *sandbox, struct bailey_sandbox **ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(connect_sandbox(b, sandbox, ret, &err), e, &err);
}

void bailey_disconnect(struct bailey_sandbox *s)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	if (s)
		(void)conn_flush(s, &ignored);
	conn_free(s);
}

const char *bailey_sandbox_id(const struct bailey_sandbox *s)
{
	return s->id;
}

void bailey_set_timeout(struct bailey_sandbox *s, uint64_t ms)
{
	s->timeout_ms = ms < CLIENT_MAX_TIMEOUT_MS ? ms : CLIENT_MAX_TIMEOUT_MS;
}

int bailey_fd(const struct bailey_sandbox *s)
{
	return s->poll_fd;
}

int bailey_dispatch(struct bailey_sandbox *s, int timeout_ms, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(conn_turn(s, timeout_ms, &err), e, &err);
}
