/* Owns connections into a sandbox and out of it.  Called by users of the library.
 *
 * Each is a stream whose two lanes end in one socket.  It lives on by itself until both directions have ended. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/str.h"
#include "client/client.h"
#include "client/file.h"

struct tunnel {
	struct stream st;
	bool begun;
};

static int tunnel_frame(struct stream *st, const struct wire_frame *f, struct err *e)
{
	struct tunnel *t = (struct tunnel *)st;
	struct wire_begun m;

	if (f->type != WIRE_BEGUN || !wire_get_begun(f, &m))
		return err_set(e, R_WIRE_MALFORMED, 0, "read what the engine of '%s' says: %s",
			st->conn->id, wire_type_name(f->type));
	t->begun = true;
	return 0;
}

/* The caller's first wait looks at the answer itself: until then the object is its own. */
static void tunnel_over(struct stream *st)
{
	if (((struct tunnel *)st)->begun)
		stream_end(st);
}

static void tunnel_free(struct stream *st)
{
	free(st);
}

static const struct stream_ops tunnel_ops = {
	.frame = tunnel_frame, .done = tunnel_over, .free = tunnel_free
};

static int tunnel_attach(struct tunnel *t, int fd, struct err *e)
{
	t->st.feed.open = true;
	t->st.lanes[0].half_close = true;
	if (stream_sink(&t->st, 0, fd, e) < 0 || stream_source(&t->st, fd, e) < 0)
		return -1;
	return 0;
}

static bool tunnel_begun(const struct stream *st)
{
	return ((const struct tunnel *)st)->begun || st->over;
}

static int address(uint16_t port, const char *path, struct wire_dial *m, struct err *e)
{
	if (!path) {
		m->kind = WIRE_NET_TCP;
		m->port = port;
		return 0;
	}
	if (file_path(path, e) < 0)
		return -1;
	if (strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path)
		return err_set(
			e, R_BAD_VALUE, 0, "use socket '%.128s': its path is too long", path);
	m->kind = WIRE_NET_UNIX;
	m->rest = (const uint8_t *)path;
	m->rest_len = (uint32_t)strlen(path);
	return 0;
}

/* fd: served from the moment at which the connection stands. */
static int dial(struct bailey_sandbox *s, uint16_t port, const char *path, int fd, struct err *e)
{
	struct wire_dial m = { .kind = 0 };
	struct tunnel *t;
	char name[128];

	if (conn_check(s, e) < 0 || address(port, port ? NULL : path, &m, e) < 0)
		return -1;
	if (!port && !path)
		return err_set(e, R_BAD_VALUE, 0, "connect to port '0'");
	if (port)
		FMT(name, "port %u", port);
	else
		FMT(name, "%.100s", path);
	t = calloc(1, sizeof *t);
	if (!t)
		return err_set(e, R_NO_MEMORY, ENOMEM, "connect to '%s'", name);
	stream_begin(s, &t->st, &tunnel_ops);
	m.stream = t->st.number;
	if (conn_put(s, dial, &m, e) < 0 ||
		stream_wait_for(&t->st, tunnel_begun, s->timeout_ms, "connect to", name, e) < 0) {
		stream_end(&t->st);
		return -1;
	}
	if (!t->begun) {
		if (!t->st.answered)
			err_set(e, s->broken.reason, 0, "connect to '%s'", name);
		else
			client_result_error(&t->st.result, "connect to", name, e);
		stream_end(&t->st);
		return -1;
	}
	if (tunnel_attach(t, fd, e) < 0 || stream_pump(&t->st, e) < 0) {
		stream_end(&t->st);
		return -1;
	}
	return 0;
}

int bailey_dial_from(
	struct bailey_sandbox *s, uint16_t port, const char *path, int fd, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(dial(s, port, path, fd, &err), e, &err);
}

static int make_pair(int ret[2], struct err *e)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret) < 0)
		return err_set(e, R_NO_MEMORY, errno, "make a pair of sockets");
	return 0;
}

int bailey_dial(struct bailey_sandbox *s, uint16_t port, const char *path, int *ret_fd,
	struct bailey_error *e)
{
	struct err err = ERR_INIT;
	int pair[2], r;

	if (make_pair(pair, &err) < 0)
		return client_fail(e, &err);
	r = dial(s, port, path, pair[1], &err);
	(void)close_fd(pair[1]);
	if (r < 0) {
		(void)close_fd(pair[0]);
		return client_fail(e, &err);
	}
	*ret_fd = pair[0];
	return 0;
}

/* --- listeners --- */

struct bailey_listener {
	struct stream st;
	bailey_incoming_fn *fn;
	void *arg;
	uint16_t port;
	bool begun;
};

static int take_incoming(struct bailey_listener *l, uint32_t number, struct err *e)
{
	struct tunnel *t = calloc(1, sizeof *t);
	int pair[2];

	if (!t)
		return err_set(e, R_NO_MEMORY, ENOMEM, "take a connection");
	t->begun = true;
	stream_adopt(l->st.conn, &t->st, &tunnel_ops, number);
	/* no descriptors left: this connection is refused, the listener stays */
	if (make_pair(pair, e) < 0) {
		err_done(e);
		stream_end(&t->st);
		return 0;
	}
	if (tunnel_attach(t, pair[1], e) < 0 || stream_pump(&t->st, e) < 0) {
		err_done(e);
		stream_end(&t->st);
		(void)close_fd(pair[0]);
		(void)close_fd(pair[1]);
		return 0;
	}
	(void)close_fd(pair[1]);
	l->fn(l->arg, pair[0]);
	return 0;
}

static int listener_frame(struct stream *st, const struct wire_frame *f, struct err *e)
{
	struct bailey_listener *l = (struct bailey_listener *)st;
	struct wire_begun m;

	if (f->type == WIRE_INCOMING && l->begun)
		return take_incoming(l, f->stream, e);
	if (f->type != WIRE_BEGUN || l->begun || !wire_get_begun(f, &m) || m.pid > 65535)
		return err_set(e, R_WIRE_MALFORMED, 0, "read what the engine of '%s' says: %s",
			st->conn->id, wire_type_name(f->type));
	l->begun = true;
	l->port = (uint16_t)m.pid;
	return 0;
}

static void listener_released(struct stream *st)
{
	free(st);
}

static const struct stream_ops listener_ops = { .frame = listener_frame,
	.free = listener_released };

static bool listener_begun(const struct stream *st)
{
	return ((const struct bailey_listener *)st)->begun || st->over;
}

static int do_listen(struct bailey_sandbox *s, struct wire_dial *where, bailey_incoming_fn *fn,
	void *arg, struct bailey_listener **ret, struct err *e)
{
	struct wire_listen m = { .kind = where->kind,
		.port = where->port,
		.rest = where->rest,
		.rest_len = where->rest_len };
	struct bailey_listener *l;

	if (conn_check(s, e) < 0)
		return -1;
	l = calloc(1, sizeof *l);
	if (!l)
		return err_set(e, R_NO_MEMORY, ENOMEM, "listen in '%s'", s->id);
	l->fn = fn;
	l->arg = arg;
	stream_begin(s, &l->st, &listener_ops);
	m.stream = l->st.number;
	if (conn_put(s, listen, &m, e) < 0 ||
		stream_wait_for(&l->st, listener_begun, s->timeout_ms, "listen in", s->id, e) < 0) {
		stream_end(&l->st);
		return -1;
	}
	if (!l->begun) {
		if (!l->st.answered)
			err_set(e, s->broken.reason, 0, "listen in '%s'", s->id);
		else
			client_result_error(&l->st.result, "listen in", s->id, e);
		stream_end(&l->st);
		return -1;
	}
	*ret = l;
	return 0;
}

int bailey_listen(struct bailey_sandbox *s, uint16_t port, const char *path, bailey_incoming_fn *fn,
	void *arg, struct bailey_listener **ret, struct bailey_error *e)
{
	struct wire_dial where = { .kind = 0 };
	struct err err = ERR_INIT;
	int r = address(port, path, &where, &err);

	if (r == 0)
		r = do_listen(s, &where, fn, arg, ret, &err);
	return client_give(r, e, &err);
}

uint16_t bailey_listener_port(const struct bailey_listener *l)
{
	return l->port;
}

void bailey_listener_free(struct bailey_listener *l)
{
	if (l)
		stream_end(&l->st);
}
