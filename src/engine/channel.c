/* The channel process: serves clients on the sandbox's socket, talks to the guest, keeps what commands write.  Forked by the
 * owner before any byte of the guest was read; ends with the owner.
 *
 * One loop.  In a turn frames are taken as they come and change what this process knows; then the pumps write what is due,
 * in the order index, guest, clients.  Nothing waits but epoll. */
#include "engine/channel.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	MAX_EVENTS = 32,
	IN_BYTES = SOCK_IN + WIRE_HEADER + WIRE_MAX_BODY,
	IDLE_MS = 250,
	QUIT_MS = 1000
};

uint64_t channel_now_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / 1000000u;
}

void channel_watch(const struct channel *c, struct sock *s, uint64_t data, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	if (s->fd < 0 || s->events == events)
		return;
	(void)epoll_ctl(c->epoll, s->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->fd, &ev);
	s->events = events;
}

/* The owner reads all it is told; when it can't for long, it is dead or about to kill. */
void channel_tell(struct channel *c, struct pair_message *m)
{
	for (unsigned i = 0; pair_send(c->owner, m, -1) < 0; i++) {
		struct pollfd p = { .fd = c->owner, .events = POLLOUT };

		if (errno != EAGAIN || i == 100)
			_exit(0);
		(void)poll(&p, 1, 100);
	}
}

/* A message has much room: none is made, and cleared, where none is sent. */
void channel_tell_only(struct channel *c, enum pair_type type, uint32_t a)
{
	struct pair_message m = { .type = type, .a = a };

	channel_tell(c, &m);
}

static void tell_happened(struct channel *c)
{
	struct pair_message m = { .type = PAIR_HAPPENED };

	if (!c->n_happened)
		return;
	m.text_len = (uint32_t)(c->n_happened * sizeof *c->happened);
	memcpy(m.text, c->happened, m.text_len);
	c->n_happened = 0;
	(void)pair_send(c->owner, &m, -1);
}

void channel_happened(struct channel *c, const struct command *k, bool ended)
{
	if (c->n_happened == sizeof c->happened / sizeof *c->happened)
		tell_happened(c);
	if (!c->n_happened)
		c->happened_at = boottime_ms();
	c->happened[c->n_happened++] = (struct pair_happened){ .command = k->record.id,
		.ended = ended,
		.how = k->record.how,
		.status = k->record.status,
		.flags = k->record.flags >> 16,
		.pid = k->record.pid };
}

/* --- the owner --- */

static _Noreturn void quit(struct channel *c)
{
	const uint64_t until = boottime_ms() + QUIT_MS;

	tell_happened(c);
	for (;;) {
		struct pollfd wait[64];
		nfds_t n = 0;

		clients_flush(c);
		for (const struct client *l = c->clients; l && n < 64; l = l->next)
			if (sock_waiting(&l->sock))
				wait[n++] = (struct pollfd){ .fd = l->sock.fd, .events = POLLOUT };
		if (!n || boottime_ms() >= until)
			_exit(0);
		(void)poll(wait, n, 50);
	}
}

static void set_state(struct channel *c, enum pair_state state)
{
	c->state = state;
}

static void start_first(struct channel *c)
{
	const struct command *k = command_find(c, 1);
	struct pair_message m = { .type = PAIR_FIRST_BEGUN };

	if (k && k->record.state != WIRE_STATE_STARTING)
		channel_tell(c, &m);
	if (k)
		return;
	if (command_first(c) < 0) {
		m.a = ENOMEM;
		channel_tell(c, &m);
	}
}

static void take_message(struct channel *c, const struct pair_message *m, int *fd)
{
	struct command *k;

	switch (m->type) {
	case PAIR_GUEST:
		if (*fd >= 0)
			guest_connect(c, move_fd(fd), m->ref, m->a);
		break;
	case PAIR_GONE:
		guest_gone(c, m->a && m->a < REASON_MAX ? (enum reason)m->a : R_GUEST_LOST);
		break;
	case PAIR_STATE:
		set_state(c, (enum pair_state)m->a);
		break;
	case PAIR_END_ALL:
		commands_end_all(c);
		break;
	case PAIR_ANSWER:
		serve_answer(c, m, move_fd(fd));
		break;
	case PAIR_LINES:
		serve_lines(c, m);
		break;
	case PAIR_TOLD:
		serve_told(c, m);
		break;
	case PAIR_OOM:
		k = command_find(c, (uint32_t)m->ref);
		if (k)
			command_oom(c, k, m->a);
		break;
	case PAIR_DRAIN:
		c->draining = true;
		c->drain_until = boottime_ms() + m->ref;
		break;
	case PAIR_FIRST:
		start_first(c);
		break;
	case PAIR_QUIT:
		quit(c);
	default:
		break;
	}
}

static void owner_ready(struct channel *c)
{
	static struct pair_message m; /* too large for the stack of each turn */
	int fd, r;

	while ((r = pair_receive(c->owner, &m, &fd)) > 0) {
		take_message(c, &m, &fd);
		(void)close_fd(fd);
	}
	/* without its owner there is no sandbox */
	if (r < 0)
		_exit(0);
}

/* --- the loop --- */

static bool is_drained(const struct channel *c)
{
	for (const struct client *l = c->clients; l; l = l->next) {
		if (sock_waiting(&l->sock))
			return false;
		for (const struct ask *a = l->asks; a; a = a->next)
			if (a->kind == ASK_FOLLOW)
				return false;
	}
	return true;
}

static void check_drain(struct channel *c)
{
	if (!c->draining || (!is_drained(c) && boottime_ms() < c->drain_until))
		return;
	c->draining = false;
	channel_tell_only(c, PAIR_DRAINED, 0);
}

static void pump(struct channel *c)
{
	c->busy = false;
	follows_pump(c);
	commands_write(c);
	lines_pump(c);
	clients_flush(c);
	clients_free_dead(c);
	if (c->n_happened && boottime_ms() >= c->happened_at + HAPPENED_MS)
		tell_happened(c);
	check_drain(c);
	c->busy = c->busy || c->dirty_asks || c->to_write ||
		(c->dirty_head && c->guest_state == GUEST_UP && sock_waiting(&c->guest) < OUT_HIGH);
}

/* Memory of a burst is given back when nothing has happened for a moment. */
static void shrink(struct channel *c)
{
	if (c->shrunk)
		return;
	c->shrunk = true;
	(void)madvise(c->in, IN_BYTES, MADV_DONTNEED);
	sock_shrink(&c->guest);
	for (struct client *l = c->clients; l; l = l->next)
		sock_shrink(&l->sock);
}

static void check_times(struct channel *c)
{
	const uint64_t now = c->next_deadline || c->stuck_at ? boottime_ms() : 0;

	commands_check_time(c, now);
	/* one that is paused may stand still in the middle of anything */
	if (c->stuck_at && now >= c->stuck_at && c->state == PAIR_RUNNING)
		guest_break(c, true);
}

static int wait_ms(const struct channel *c)
{
	if (c->busy)
		return 0;
	if (c->draining)
		return 20;
	if (c->n_happened || c->n_closes)
		return HAPPENED_MS;
	if (c->stuck_at || c->next_deadline)
		return IDLE_MS;
	return c->shrunk ? -1 : IDLE_MS;
}

static void turn(struct channel *c)
{
	struct epoll_event ev[MAX_EVENTS];
	const int n = epoll_wait(c->epoll, ev, MAX_EVENTS, wait_ms(c));

	c->quiet = n == 0 && !c->busy;
	if (c->quiet && !c->draining && !c->n_happened && !c->n_closes)
		shrink(c);
	if (n > 0)
		c->shrunk = false;
	for (int i = 0; i < n; i++) {
		switch (ev[i].data.u64) {
		case EVENT_OWNER:
			owner_ready(c);
			break;
		case EVENT_LISTENER:
			clients_accept(c);
			break;
		case EVENT_GUEST:
			if (c->guest.fd >= 0 && ev[i].events & ~(uint32_t)EPOLLOUT)
				guest_ready(c);
			break;
		default:
			client_ready(c, ev[i].data.ptr, ev[i].events);
			break;
		}
	}
	check_times(c);
	pump(c);
}

static void watch_fd(const struct channel *c, int fd, uint64_t data)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = data };

	if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		_exit(1);
}

_Noreturn void channel_run(const struct channel_start *start)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct channel *c = calloc(1, sizeof *c);
	sigset_t none;

	if (!c)
		_exit(1);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	c->owner = start->owner;
	c->listener = start->listener;
	c->id = start->id;
	c->uid = start->uid;
	c->first = start->first;
	c->has_first = start->has_first;
	c->next_id = 1;
	c->next_pass = FIRST_PASS;
	sock_init(&c->guest, -1);
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->in = mmap(NULL, IN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->epoll < 0 || c->in == MAP_FAILED || channel_guard(start, c->epoll, &e) < 0 ||
		spool_open(&c->spool, start->spool, start->spool_max ?: SPOOL_DEFAULT) < 0 ||
		commands_load(c) < 0)
		_exit(1);
	watch_fd(c, c->owner, EVENT_OWNER);
	watch_fd(c, c->listener, EVENT_LISTENER);
	for (;;)
		turn(c);
}
