/* Owns the connections of clients: who may have one, what each has asked, when one goes.  Called by the channel's loop.  Must
 * hold: only the sandbox's user and root are served; a client that doesn't read costs a bounded amount of memory and nobody's
 * time; one that goes takes nothing with it but its own requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "engine/channel.h"

enum { ACCEPT_AT_ONCE = 64 };

/* --- asks --- */

struct ask *ask_new(struct client *l, uint32_t number, enum ask_kind kind)
{
	struct ask *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	a->client = l;
	a->number = number;
	a->kind = (uint8_t)kind;
	a->in_limit = WIRE_WINDOW;
	a->next = l->asks;
	if (l->asks)
		l->asks->prev = a;
	l->asks = a;
	l->n_asks++;
	return a;
}

/* The newest first: that one is spoken of most. */
struct ask *ask_find(const struct client *l, uint32_t number)
{
	struct ask *a = l->asks;

	while (a && a->number != number)
		a = a->next;
	return a;
}

void ask_free(struct channel *c, struct ask *a)
{
	struct client *l = a->client;

	if (a->command)
		follow_remove(c, a);
	if (a->line) {
		a->line->ask = NULL;
		line_free(c, a->line, true);
	}
	l->args_bytes -= a->frames_len;
	free(a->frames);
	if (a->prev)
		a->prev->next = a->next;
	else
		l->asks = a->next;
	if (a->next)
		a->next->prev = a->prev;
	l->n_asks--;
	free(a);
}

/* --- connections --- */

static bool may_connect(const struct channel *c, int fd)
{
	struct ucred peer;
	socklen_t n = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
		(peer.uid == c->uid || peer.uid == 0);
}

static void add_client(struct channel *c, int fd)
{
	struct client *l;
	struct epoll_event ev = { .events = EPOLLIN };

	if (!may_connect(c, fd) || c->n_clients >= CHANNEL_CLIENTS + CHANNEL_REFUSED ||
		!(l = calloc(1, sizeof *l))) {
		(void)close_fd(fd);
		return;
	}
	sock_init(&l->sock, fd);
	l->refused = c->n_clients >= CHANNEL_CLIENTS;
	ev.data.ptr = l;
	if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
		sock_done(&l->sock);
		free(l);
		return;
	}
	l->sock.events = EPOLLIN;
	l->next = c->clients;
	if (c->clients)
		c->clients->prev = l;
	c->clients = l;
	c->n_clients++;
}

void clients_accept(struct channel *c)
{
	for (unsigned i = 0; i < ACCEPT_AT_ONCE; i++) {
		int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			add_client(c, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		/* EMFILE: they wait until somebody goes */
		return;
	}
}

void client_drop(struct channel *c, struct client *l)
{
	if (l->dead)
		return;
	l->dead = true;
	while (l->asks)
		ask_free(c, l->asks);
	sock_done(&l->sock);
	if (l->prev)
		l->prev->next = l->next;
	else
		c->clients = l->next;
	if (l->next)
		l->next->prev = l->prev;
	c->n_clients--;
	l->next = c->dead_clients;
	c->dead_clients = l;
}

void clients_free_dead(struct channel *c)
{
	struct client *l;

	while ((l = c->dead_clients)) {
		c->dead_clients = l->next;
		free(l);
	}
}

static bool take_frame(struct channel *c, struct client *l, const struct wire_frame *f)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct wire_hello m;

	if (!l->greeted) {
		l->greeted = wire_get_hello(f, &m);
		if (l->greeted)
			sock_put(&l->sock, hello, .magic = WIRE_MAGIC, .version = WIRE_VERSION,
				.epoch = 1);
		return l->greeted;
	}
	if (!f->stream)
		return false;
	if (!l->refused)
		return serve_client(c, l, f);
	err_set(&e, R_BUSY, 0, "use sandbox '%s': %d clients are connected already", c->id,
		CHANNEL_CLIENTS);
	refuse(l, f->stream, &e);
	return true;
}

static void read_client(struct channel *c, struct client *l)
{
	size_t n, at = 0, used;
	struct wire_frame f;
	const int r = sock_read(&l->sock, c->in, &n);

	if (r < 0)
		client_drop(c, l);
	if (r <= 0)
		return;
	for (;;) {
		const enum wire_parsed parsed =
			wire_parse(c->in + at, n - at, WIRE_FROM_CLIENT, &f, &used);

		if (parsed == WIRE_SHORT)
			break;
		if (parsed == WIRE_REFUSED || !take_frame(c, l, &f)) {
			client_drop(c, l);
			return;
		}
		at += used;
	}
	if (!sock_hold(&l->sock, c->in + at, n - at))
		client_drop(c, l);
}

void client_ready(struct channel *c, struct client *l, uint32_t events)
{
	if (l->dead)
		return;
	if (events & ~(uint32_t)EPOLLOUT)
		read_client(c, l);
	if (l->dead || !(events & EPOLLOUT))
		return;
	for (struct ask *a = l->asks; a; a = a->next)
		if (a->command)
			follow_touch(c, a);
}

/* Sends what waits; those who follow a command go on where there is room again. */
static void flush(struct channel *c, struct client *l)
{
	const size_t waited = sock_waiting(&l->sock);
	uint32_t want = 0;

	if (!sock_flush(&l->sock)) {
		client_drop(c, l);
		return;
	}
	if (waited >= OUT_HIGH && sock_waiting(&l->sock) < OUT_HIGH) {
		for (struct ask *a = l->asks; a; a = a->next)
			if (a->command)
				follow_touch(c, a);
		c->busy = true;
	}
	if (sock_waiting(&l->sock))
		want |= EPOLLOUT;
	/* whoever doesn't read the answers is asked no more */
	if (sock_waiting(&l->sock) < CLIENT_STOP_READING)
		want |= EPOLLIN;
	if (want != l->sock.events) {
		struct epoll_event ev = { .events = want, .data.ptr = l };

		(void)epoll_ctl(c->epoll, EPOLL_CTL_MOD, l->sock.fd, &ev);
		l->sock.events = want;
	}
}

void clients_flush(struct channel *c)
{
	struct client *l, *next;

	for (l = c->clients; l; l = next) {
		next = l->next;
		if (sock_waiting(&l->sock) || l->sock.failed)
			flush(c, l);
	}
}
