/* The owner's loop: messages of the channel, ends of processes, times.  Called by owner_create.c for a new sandbox and by
 * owner_job.c for a fork. */
#include "engine/owner.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine/events.h"

enum { MINUTE_MS = 60000, MAX_POLL = 4 + OWNER_JOBS };

uint64_t owner_now_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / 1000000u;
}

bool per_minute_over(struct per_minute *p, unsigned max)
{
	const uint64_t now = boottime_ms();

	if (now - p->since > MINUTE_MS) {
		p->since = now;
		p->n = 0;
	}
	return ++p->n > max;
}

int owner_write(struct owner *o, struct err *e)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	record_put(&o->record, &text);
	if (rundir_write(o->dir, "meta", &text, e) < 0)
		return -1;
	return owner_keep(o, e);
}

void owner_event(struct owner *o, const char *kind, const char *rest)
{
	struct pair_message m = { .type = PAIR_TOLD };

	m.text_len = (uint32_t)events_write(o->dirs.top, o->record.id, kind, rest, m.text);
	channel_send(o, &m, -1);
}

void owner_answer(struct owner *o, uint64_t ref, const struct err *e, const char *text, int fd)
{
	struct pair_message m = { .type = PAIR_ANSWER, .ref = ref };

	if (e) {
		m.a = e->sys_errno ? (uint32_t)e->sys_errno : EIO;
		m.b = e->reason;
		m.text_len = pair_put_error(m.text, PAIR_TEXT, e);
	} else if (text) {
		m.text_len = (uint32_t)strlen(text);
		memcpy(m.text, text, m.text_len);
	}
	channel_send(o, &m, fd);
}

/* --- what the channel says --- */

static void tell_command(
	const struct owner *o, const struct pair_happened *h, struct pair_message *told)
{
	static const char *const how[] = { "exit", "signal", "error", "deadline" };
	char rest[160], line[EVENTS_LINE];
	size_t n;

	if (!h->ended)
		FMT(rest, "command=%u pid=%u", h->command, h->pid);
	else
		FMT(rest, "command=%u %s=%u%s%s%s", h->command, how[h->how < 4 ? h->how : 0],
			h->status, h->flags & 1 ? " timeout=1" : "",
			h->flags & 2 ? " killed=1" : "", h->flags & 4 ? " oom=1" : "");
	n = events_write(o->dirs.top, o->record.id, h->ended ? "command_ended" : "command_started",
		rest, line);
	if (told->text_len + n <= PAIR_TEXT) {
		memcpy(told->text + told->text_len, line, n);
		told->text_len += (uint32_t)n;
	}
}

static void take_happened(struct owner *o, const struct pair_message *m)
{
	struct pair_message told = { .type = PAIR_TOLD };
	struct pair_happened h;

	for (size_t at = 0; m->text_len - at >= sizeof h; at += sizeof h) {
		memcpy(&h, m->text + at, sizeof h);
		tell_command(o, &h, &told);
	}
	if (told.text_len)
		channel_send(o, &told, -1);
}

static void take_broken(struct owner *o, bool lie)
{
	if (!o->booted)
		return;
	if (lie && per_minute_over(&o->lies, OWNER_LIES))
		state_lost(o, R_WIRE_MALFORMED);
	else if (per_minute_over(&o->breaks, OWNER_BREAKS))
		state_lost(o, R_GUEST_LOST);
	else
		channel_connect(o, false);
}

static void take_oom_ask(struct owner *o, uint64_t ref)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_stats s = { .oom_kills = 0 };
	bool more = false;

	if (o->booted && o->ops->stats(o->sb, &s, &ignored) == 0 && s.has_oom) {
		more = s.oom_kills > o->oom_seen;
		o->oom_seen = s.oom_kills;
	}
	channel_say(o, PAIR_OOM, ref, more);
	if (more)
		owner_event(o, "oom", "");
}

/* A command that could not be started leaves nothing, unless the sandbox is to be kept. */
static void take_first_begun(struct owner *o, uint32_t error)
{
	_cleanup_err_ struct err e = ERR_INIT;
	const char *name = o->request && o->request->command ? o->request->command[0] : "";
	const enum reason why = error == ENOENT ? R_COMMAND_NOT_FOUND
		: error == EAGAIN               ? R_PIDS_EXHAUSTED
						: R_COMMAND_NOT_EXEC;

	if (o->creator < 0)
		return;
	if (!error || o->record.keep) {
		owner_created(o, NULL);
		return;
	}
	err_set(&e, why, (int)(error < 4096 ? error : EIO), "start '%.256s'", name);
	owner_created(o, &e);
	state_end(o, ENDING_REMOVE, 0);
}

static void take_message(struct owner *o, const struct pair_message *m)
{
	switch (m->type) {
	case PAIR_ASK:
		if (m->a == PAIR_ASK_INSPECT)
			state_inspect(o, m);
		else if (m->a == PAIR_ASK_CHANGES)
			job_changes(o, m);
		else
			state_control(o, m);
		break;
	case PAIR_BROKEN:
		take_broken(o, m->a);
		break;
	case PAIR_ALL_ENDED:
		if (o->end_at)
			state_end_now(o);
		break;
	case PAIR_HAPPENED:
		take_happened(o, m);
		break;
	case PAIR_OOM_ASK:
		take_oom_ask(o, m->ref);
		break;
	case PAIR_FIRST_BEGUN:
		take_first_begun(o, m->a);
		break;
	case PAIR_FIRST_ENDED:
		if (!o->record.keep)
			state_end(o, ENDING_REMOVE, 0);
		break;
	case PAIR_DRAINED:
		if (o->drain_at)
			state_remove(o);
		break;
	default:
		break;
	}
}

static void channel_ready(struct owner *o)
{
	static struct pair_message m;
	int fd, r;

	while ((r = pair_receive(o->pair, &m, &fd)) > 0) {
		(void)close_fd(fd);
		take_message(o, &m);
	}
	if (r < 0)
		channel_ended(o);
}

/* --- signals and times --- */

static void signals_ready(struct owner *o)
{
	struct signalfd_siginfo s;

	while (read(o->signals, &s, sizeof s) == (ssize_t)sizeof s) {
		if (s.ssi_signo != SIGCHLD)
			state_abandon(o, R_INTERRUPTED);
		if (o->channel > 0 && waitpid(o->channel, NULL, WNOHANG) == o->channel) {
			o->channel = -1;
			channel_ended(o);
		}
	}
}

static void watch(struct owner *o, uint64_t now)
{
	_cleanup_err_ struct err e = ERR_INIT;

	o->watch_at = now + WATCH_MS;
	if (o->ops->watch(o->sb, &e) == 0 || e.reason != R_DISK_FULL)
		return;
	o->end_reason = o->record.exit_reason = R_DISK_FULL;
	owner_event(o, "disk_full", "");
	state_end(o, ENDING_STOP, 0);
}

static bool is_watched(const struct owner *o)
{
	return o->ops->watch && o->booted && !o->ending && o->record.state == STATE_RUNNING;
}

static void check_times(struct owner *o)
{
	const uint64_t now = boottime_ms();

	if (is_watched(o) && now >= o->watch_at)
		watch(o, now);

	if (o->end_at && now >= o->end_at)
		state_end_now(o);
	if (o->drain_at && now >= o->drain_at)
		state_remove(o);
	if (o->deadline && now >= o->deadline && o->ending != ENDING_REMOVE && !jobs_copy(o)) {
		o->deadline = 0;
		o->end_reason = R_TIMEOUT;
		state_end(o, ENDING_REMOVE, 0);
	}
	if (o->creator >= 0 && now >= o->creator_until) {
		_cleanup_err_ struct err e = ERR_INIT;

		err_set(&e, R_TIMEOUT, 0, "start the command of sandbox '%s'", o->record.id);
		owner_created(o, &e);
		state_end(o, ENDING_REMOVE, 0);
	}
}

static int wait_ms(const struct owner *o)
{
	const uint64_t times[] = { o->end_at, o->drain_at,
		o->ending == ENDING_REMOVE || jobs_copy(o) ? 0 : o->deadline,
		o->creator >= 0 ? o->creator_until : 0, is_watched(o) ? o->watch_at : 0 };
	uint64_t first = 0, now = boottime_ms();

	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		if (times[i] && (!first || times[i] < first))
			first = times[i];
	if (!first)
		return -1;
	if (first <= now)
		return 0;
	return first - now < 3600000 ? (int)(first - now) : 3600000;
}

/* --- the loop --- */

static nfds_t add(struct pollfd *p, nfds_t n, int fd)
{
	p[n] = (struct pollfd){ .fd = fd, .events = POLLIN };
	return n + 1;
}

static void turn(struct owner *o)
{
	struct pollfd p[MAX_POLL];
	nfds_t n = 0;

	/* a descriptor of -1 is passed over */
	n = add(p, n, o->pair);
	n = add(p, n, o->signals);
	n = add(p, n, o->booted ? o->ops->pidfd(o->sb) : -1);
	n = add(p, n, o->creator);
	for (unsigned i = 0; i < OWNER_JOBS; i++)
		n = add(p, n, o->jobs[i].kind ? o->jobs[i].fd : -1);
	if (poll(p, n, wait_ms(o)) < 0 && errno != EINTR)
		state_abandon(o, R_SETUP_FAILED);
	if (p[1].revents)
		signals_ready(o);
	if (p[0].revents)
		channel_ready(o);
	if (p[2].revents && o->booted && (!o->ops->gone || o->ops->gone(o->sb)))
		state_lost(o, R_GUEST_LOST);
	/* whoever asked for it has gone: nobody knows of it */
	if (p[3].revents && o->creator >= 0) {
		o->creator = close_fd(o->creator);
		state_end(o, ENDING_REMOVE, 0);
	}
	for (unsigned i = 0; i < OWNER_JOBS; i++)
		if (p[4 + i].revents && o->jobs[i].kind)
			job_ready(o, &o->jobs[i]);
	check_times(o);
}

_Noreturn void owner_loop(struct owner *o)
{
	for (;;)
		turn(o);
}
