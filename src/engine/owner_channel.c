/* Owns the channel process, as the owner sees it: forked before the guest says a word, and again whenever it ends.  Called by the
 * other files of the owner. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/sys.h"
#include "engine/channel.h"
#include "engine/owner.h"

enum { QUIT_WAIT_MS = 3000 };

int channel_start(struct owner *o, struct err *e)
{
	_cleanup_close_ int spool = -1;
	struct channel_start start = { .listener = o->listener,
		.id = o->record.id,
		.spool_max = o->record.spool_max,
		.uid = o->uid,
		.become = o->ops->channel_uid(o->sb) };
	int pair[2];
	pid_t pid;

	if (rundir_spool(o->dir, start.become, &spool, e) < 0 || pair_make(pair, e) < 0)
		return -1;
	start.owner = pair[1];
	start.spool = spool;
	start.has_first = o->has_first;
	if (o->request)
		start.first = o->request->command;
	pid = fork();
	if (pid == 0)
		channel_run(&start);
	(void)close_fd(pair[1]);
	if (pid < 0) {
		(void)close_fd(pair[0]);
		return err_set(e, R_SETUP_FAILED, errno, "fork the channel process");
	}
	o->channel = pid;
	o->pair = pair[0];
	return 0;
}

/* One that doesn't read what it is told is of no use: it is ended, and a new one forked when that is seen. */
void channel_send(struct owner *o, const struct pair_message *m, int fd)
{
	if (o->pair >= 0 && pair_send(o->pair, m, fd) < 0 && o->channel > 0)
		(void)kill(o->channel, SIGKILL);
}

void channel_say(struct owner *o, enum pair_type type, uint64_t ref, uint32_t a)
{
	const struct pair_message m = { .type = type, .ref = ref, .a = a };

	channel_send(o, &m, -1);
}

void channel_connect(struct owner *o, bool new_guest)
{
	struct pair_message m = { .type = PAIR_GUEST, .a = new_guest };
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int fd = -1;

	/* a guest that can't be reached is dead, which its pidfd says */
	if (o->ops->connect(o->sb, ++o->epoch, &fd, &e) < 0)
		return;
	m.ref = o->epoch;
	channel_send(o, &m, fd);
}

void channel_state(struct owner *o)
{
	static const enum pair_state states[] = {
		[STATE_CREATING] = PAIR_RUNNING,
		[STATE_RUNNING] = PAIR_RUNNING,
		[STATE_PAUSED] = PAIR_PAUSED,
		[STATE_STOPPED] = PAIR_STOPPED,
		[STATE_LOST] = PAIR_LOST,
		[STATE_REMOVING] = PAIR_REMOVING,
		[STATE_SNAPSHOT] = PAIR_SNAPSHOT,
	};
	enum pair_state s = states[o->record.state];

	if (o->ending == ENDING_REMOVE)
		s = PAIR_REMOVING;
	else if (o->ending == ENDING_STOP)
		s = PAIR_STOPPING;
	channel_say(o, PAIR_STATE, 0, s);
}

/* Whoever waited for an answer has lost his connection, and what he asked for is done nevertheless. */
void channel_ended(struct owner *o)
{
	_cleanup_err_ struct err e = ERR_INIT;

	o->pair = close_fd(o->pair);
	if (o->channel > 0) {
		(void)kill(o->channel, SIGKILL);
		(void)waitpid(o->channel, NULL, 0);
		o->channel = -1;
	}
	o->n_waiters = 0;
	if (o->drain_at) {
		state_remove(o);
		return;
	}
	if (per_minute_over(&o->restarts, OWNER_RESTARTS) || channel_start(o, &e) < 0)
		state_abandon(o, R_ENGINE_LOST);
	channel_state(o);
	if (o->booted)
		channel_connect(o, false);
	else
		channel_say(o, PAIR_GONE, 0,
			o->record.state == STATE_LOST ? o->record.exit_reason
						      : R_SANDBOX_NOT_RUNNING);
	if (o->end_at)
		channel_say(o, PAIR_END_ALL, 0, 0);
	if (o->creator >= 0)
		channel_say(o, PAIR_FIRST, 0, 0);
}

void channel_stop(struct owner *o)
{
	const uint64_t until = boottime_ms() + QUIT_WAIT_MS;
	_cleanup_close_ int fd = o->channel > 0 ? sys_pidfd_open(o->channel) : -1;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (o->channel <= 0)
		return;
	channel_say(o, PAIR_QUIT, 0, 0);
	while (fd >= 0 && boottime_ms() < until && poll(&p, 1, 100) == 0)
		;
	(void)kill(o->channel, SIGKILL);
	(void)waitpid(o->channel, NULL, 0);
	o->channel = -1;
	o->pair = close_fd(o->pair);
}
