/* Owns the launcher's clients.  Must hold: who a client is says the kernel (SO_PEERCRED); a malformed message ends its
 * connection and nothing else; nobody can hold it up, since it waits for nobody. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/answer.h"
#include "launcher/admit.h"
#include "launcher/daemon/daemon.h"

enum { TURN_MS = 1000 };

struct client {
	int fd;
	struct peer peer;
};

static struct client clients[DAEMON_MAX_CLIENTS];
static unsigned n_clients;

static void drop(unsigned i)
{
	clients[i].fd = close_fd(clients[i].fd);
	clients[i] = clients[--n_clients];
}

static void say_refused(int fd, const struct err *e)
{
	_cleanup_launch_out_ struct launch_out o = LAUNCH_OUT_INIT;

	launch_put(&o, reason_name(e->reason));
	launch_put(&o, e->message ?: "");
	launch_put(&o, err_get_remedy(e));
	(void)launch_send(fd, LAUNCH_REFUSED, &o);
}

/* --- requests --- */

/* The request goes to the spawner, and the answer comes from the engine. */
static int make(
	struct launcher *l, const struct peer *p, struct launch_in *m, int answer, struct err *e)
{
	struct spawn_message s = {
		.magic = SPAWN_MAGIC, .op = SPAWN_RUN, .uid = p->uid, .gid = p->gid
	};
	_cleanup_pack_ struct pack_request r = { .spec = { .image_fd = -1, .image_lock_fd = -1 } };
	enum spawn_engine engine;

	if (create_build(l, p, m, &r, &engine, e) < 0 || table_admit(l, p, &r, e) < 0)
		return -1;
	s.engine = engine;
	if (spawn_send(l->spawner, &s, answer) < 0 || pack_send(l->spawner, &r, e) < 0)
		_exit(1); /* half a message: the two can't go on */
	table_add(l, p, &r, engine);
	return 0;
}

static void do_create(struct launcher *l, const struct peer *p, struct launch_in *m)
{
	_cleanup_err_ struct err e = ERR_INIT;
	const int answer = m->fds[m->n_fds - 1];

	/* homes and their mounts change while a launcher lives */
	admit_forget();
	if (make(l, p, m, answer, &e) == 0) {
		l->created++;
		return;
	}
	l->refused++;
	log_event(LOG_INFO, "launcher.refused", "reason", reason_name(e.reason), "error",
		e.message ?: "", NULL);
	answer_send(answer, &e, NULL);
}

static void do_home(struct launcher *l, const struct client *c)
{
	_cleanup_launch_out_ struct launch_out o = LAUNCH_OUT_INIT;
	_cleanup_free_ char *home = daemon_home(l->home, c->peer.uid);
	_cleanup_free_ char *path = xasprintf("%s/sandbox", home);
	_cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* none yet: an answer without a descriptor */
	if (dir >= 0)
		launch_put_fd(&o, dir);
	(void)launch_send(c->fd, LAUNCH_DONE, &o);
}

static void put_number(struct launch_out *o, const char *name, uint64_t value)
{
	char text[32];

	launch_put(o, name);
	launch_put(o, FMT(text, "%llu", (unsigned long long)value));
}

static void do_status(const struct launcher *l, const struct client *c)
{
	_cleanup_launch_out_ struct launch_out o = LAUNCH_OUT_INIT;

	put_number(&o, "sandboxes", table_count(l, c->peer.uid));
	/* others' numbers are the operator's business */
	if (c->peer.uid == geteuid() || c->peer.uid == 0) {
		put_number(&o, "all_sandboxes", l->n_known);
		put_number(&o, "created", l->created);
		put_number(&o, "refused", l->refused);
		put_number(&o, "ended_late", l->killed);
		put_number(&o, "malformed", l->malformed);
		put_number(&o, "clients", n_clients);
	}
	(void)launch_send(c->fd, LAUNCH_DONE, &o);
}

/* False: it is malformed. */
static bool obey(struct launcher *l, const struct client *c, struct launch_in *m)
{
	switch (m->op) {
	case LAUNCH_CREATE:
		if (!m->n || !m->n_fds)
			return false;
		do_create(l, &c->peer, m);
		return true;
	case LAUNCH_HOME:
		if (m->n || m->n_fds)
			return false;
		do_home(l, c);
		return true;
	case LAUNCH_STATUS:
		if (m->n || m->n_fds)
			return false;
		do_status(l, c);
		return true;
	case LAUNCH_DONE:
	case LAUNCH_REFUSED:
	default:
		return false;
	}
}

/* Where he waits for an answer. */
static void refuse_stranger(const struct client *c, const struct launch_in *m)
{
	_cleanup_err_ struct err e = ERR_INIT;

	err_set(&e, R_NOT_ALLOWED, 0, "use the launcher as uid '%u'", c->peer.uid);
	if (m->op == LAUNCH_CREATE && m->n_fds)
		answer_send(m->fds[m->n_fds - 1], &e, NULL);
	else
		say_refused(c->fd, &e);
}

/* False: the connection ends. */
static bool client_ready(struct launcher *l, const struct client *c)
{
	_cleanup_launch_in_ struct launch_in m = { .memory = NULL };
	const int r = launch_receive(c->fd, &m);

	if (r < 0 && errno == EAGAIN)
		return true;
	if (r == 0)
		return false;
	if (r > 0 && !daemon_allows(l->options, c->peer.uid)) {
		refuse_stranger(c, &m);
		return false;
	}
	if (r > 0 && obey(l, c, &m))
		return true;
	l->malformed++;
	log_event(LOG_WARNING, "launcher.malformed", NULL);
	return false;
}

/* --- connections --- */

static unsigned connections_of(uid_t uid)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_clients; i++)
		n += clients[i].peer.uid == uid;
	return n;
}

static void accept_one(struct launcher *l)
{
	int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who;
	socklen_t n = sizeof who;
	struct peer p;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0) {
		(void)close_fd(fd);
		return;
	}
	p = (struct peer){ .uid = who.uid, .gid = who.gid };
	if (n_clients == DAEMON_MAX_CLIENTS ||
		connections_of(p.uid) >= (daemon_allows(l->options, p.uid) ? DAEMON_MAX_PER_UID
									   : DAEMON_MAX_STRANGER)) {
		(void)close_fd(fd);
		return;
	}
	clients[n_clients++] = (struct client){ .fd = fd, .peer = p };
}

static void turn(struct launcher *l)
{
	struct pollfd p[DAEMON_MAX_CLIENTS + 2];
	const unsigned had = n_clients;

	p[0] = (struct pollfd){ .fd = l->listener, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = l->spawner, .events = POLLIN };
	for (unsigned i = 0; i < had; i++)
		p[i + 2] = (struct pollfd){ .fd = clients[i].fd, .events = POLLIN };
	if (poll(p, had + 2, TURN_MS) < 0 && errno != EINTR)
		_exit(1);
	/* it says nothing: it has ended */
	if (p[1].revents) {
		log_event(LOG_ERROR, "launcher.spawner_lost", NULL);
		_exit(1);
	}
	/* first: what a client asks for may end what was there */
	table_turn(l);
	/* from the last on, since one that goes is replaced by the last */
	for (unsigned i = had; i-- > 0;)
		if (p[i + 2].revents && !client_ready(l, &clients[i]))
			drop(i);
	if (p[0].revents)
		accept_one(l);
}

_Noreturn void serve_run(struct launcher *l)
{
	table_load(l);
	for (;;)
		turn(l);
}
