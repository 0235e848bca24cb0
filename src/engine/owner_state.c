/* Owns what a sandbox goes through: started, paused, stopped, lost, removed, and what is said about it.  Called by the owner's
 * loop.  Must hold: the record on disk says the state before anybody is told; an end that has begun is finished whatever
 * else is asked meanwhile. */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine/owner.h"
#include "wire/wire.h"

static void set_state(struct owner *o, enum sandbox_state state)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	o->record.state = state;
	/* a full disk: the record is old, and INSPECT says how it is */
	(void)owner_write(o, &ignored);
	channel_state(o);
}

int state_boot(struct owner *o, struct err *e)
{
	if (o->ops->boot(o->sb, e) < 0)
		return -1;
	o->booted = true;
	o->sealed = false;
	o->oom_seen = 0;
	o->record.started_ms = owner_now_ms();
	o->record.stopped_ms = 0;
	channel_connect(o, true);
	return 0;
}

/* True when the kernel killed something for want of memory that no command's end was put down to. */
static bool halt(struct owner *o)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_facts facts = { .has_oom = false };

	if (!o->booted)
		return false;
	/* what the kernel still holds is swept later */
	(void)o->ops->halt(o->sb, &facts, &ignored);
	o->booted = false;
	o->record.stopped_ms = owner_now_ms();
	return facts.has_oom && facts.oom_kills > o->oom_seen;
}

static void answer_waiters(struct owner *o)
{
	for (unsigned i = 0; i < o->n_waiters; i++)
		owner_answer(o, o->waiters[i], NULL, NULL, -1);
	o->n_waiters = 0;
}

/* --- ends --- */

static void begin_removal(struct owner *o)
{
	const uint64_t drain = o->n_waiters ? DRAIN_FORCED_MS : DRAIN_MS;

	set_state(o, STATE_REMOVING);
	o->drain_at = boottime_ms() + drain + 500;
	channel_say(o, PAIR_DRAIN, drain, 0);
}

void state_end_now(struct owner *o)
{
	const bool booted = o->booted;

	o->end_at = 0;
	/* before it hears that the guest is gone, so that nothing waits for another */
	channel_state(o);
	(void)halt(o);
	channel_say(o, PAIR_GONE, 0, o->end_reason ?: R_SANDBOX_NOT_RUNNING);
	if (o->ending == ENDING_REMOVE) {
		begin_removal(o);
		return;
	}
	o->ending = ENDING_NONE;
	set_state(o, STATE_STOPPED);
	if (booted)
		owner_event(o, "stopped", "");
	answer_waiters(o);
}

void state_end(struct owner *o, enum ending what, uint64_t grace_ms)
{
	if (o->drain_at)
		return;
	if (what > o->ending)
		o->ending = what;
	/* nothing hears a signal while it is paused */
	if (!o->booted || !grace_ms || o->record.state == STATE_PAUSED) {
		state_end_now(o);
		return;
	}
	if (!o->end_at || boottime_ms() + grace_ms < o->end_at)
		o->end_at = boottime_ms() + grace_ms;
	channel_state(o);
	channel_say(o, PAIR_END_ALL, 0, 0);
}

void state_lost(struct owner *o, enum reason why)
{
	const enum ending ending = o->ending;

	/* files in a layer of memory are the sandbox's memory: the guest that writes them may be all that is there to kill */
	if (halt(o) && why == R_GUEST_LOST)
		why = R_OOM;
	if (ending) {
		state_end_now(o);
		return;
	}
	o->record.exit_reason = why;
	set_state(o, STATE_LOST);
	channel_say(o, PAIR_GONE, 0, why);
	owner_event(o, "lost", reason_name(why));
	if (o->creator >= 0) {
		_cleanup_err_ struct err e = ERR_INIT;

		err_set(&e, why, 0, "start sandbox '%s'", o->record.id);
		owner_created(o, &e);
		state_end(o, ENDING_REMOVE, 0);
	}
}

/* The files first, so that whoever is told finds nothing any more. */
void state_remove(struct owner *o)
{
	o->drain_at = 0;
	o->ops->free(o->sb);
	o->sb = NULL;
	rundir_remove(&o->dirs, o->record.id, o->record.name);
	owner_event(o, "removed", "");
	answer_waiters(o);
	channel_stop(o);
	o->ops->close(o->engine);
	_exit(0);
}

/* The sandbox ends with what can't go on; its record stays, so that this is found. */
_Noreturn void state_abandon(struct owner *o, enum reason why)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	(void)halt(o);
	o->ops->free(o->sb);
	o->record.exit_reason = why;
	o->record.state = STATE_LOST;
	o->record.stopped_ms = owner_now_ms();
	(void)owner_write(o, &ignored);
	owner_event(o, "lost", reason_name(why));
	channel_stop(o);
	o->ops->close(o->engine);
	_exit(1);
}

/* --- what clients ask --- */

static int refuse_state(const struct owner *o, const char *what, struct err *e)
{
	const char *id = o->record.id;

	if (o->ending)
		return err_set(e, R_BUSY, 0, "%s sandbox '%s': it is being %s", what, id,
			o->ending == ENDING_REMOVE ? "removed" : "stopped");
	if (jobs_copy(o))
		return err_set(
			e, R_BUSY, 0, "%s sandbox '%s': a copy of it is being made", what, id);
	if (o->record.state == STATE_SNAPSHOT)
		return err_set(e, R_SNAPSHOT_ONLY, 0, "%s '%s': it is a snapshot", what, id);
	if (o->record.state == STATE_LOST) {
		err_set(e, R_SANDBOX_LOST, 0, "%s sandbox '%s': its first process has gone", what,
			id);
		return err_remedy(e, "Remove it with 'bailey rm', or fork an earlier snapshot.");
	}
	return 0;
}

static int control_pause(struct owner *o, bool on, struct err *e)
{
	const char *what = on ? "pause" : "resume";

	if (refuse_state(o, what, e) < 0)
		return -1;
	if (!o->booted)
		return err_set(e, R_SANDBOX_NOT_RUNNING, 0, "%s sandbox '%s': it is stopped", what,
			o->record.id);
	if (on == (o->record.state == STATE_PAUSED))
		return 0;
	if (o->ops->pause(o->sb, on, e) < 0)
		return -1;
	set_state(o, on ? STATE_PAUSED : STATE_RUNNING);
	/* one that was taken over while it could not dial */
	if (!on && o->ops->resume && o->ops->pidfd(o->sb) < 0)
		channel_connect(o, false);
	owner_event(o, on ? "paused" : "resumed", "");
	return 0;
}

static int control_start(struct owner *o, struct err *e)
{
	if (refuse_state(o, "start", e) < 0)
		return -1;
	if (o->record.state == STATE_PAUSED)
		return control_pause(o, false, e);
	if (o->booted)
		return 0;
	if (state_boot(o, e) < 0)
		return -1;
	set_state(o, STATE_RUNNING);
	owner_event(o, "started", "");
	return 0;
}

/* Answers later, unless there is nothing to wait for. */
static void control_end(struct owner *o, const struct pair_message *m, enum ending what)
{
	_cleanup_err_ struct err e = ERR_INIT;
	const bool joins = o->ending && what >= o->ending;
	uint64_t grace = m->b & WIRE_CONTROL_FORCE ? 0 : m->value;
	int r = 0;

	if (o->n_waiters == OWNER_WAITERS)
		r = err_set(&e, R_BUSY, 0, "end sandbox '%s': many wait for it", o->record.id);
	else if (jobs_copy(o) || (o->ending && !joins) ||
		(what == ENDING_STOP && !o->ending &&
			(o->record.state == STATE_SNAPSHOT || o->record.state == STATE_LOST)))
		r = refuse_state(o, what == ENDING_STOP ? "stop" : "remove", &e);
	if (r < 0) {
		owner_answer(o, m->ref, &e, NULL, -1);
		return;
	}
	if (what == ENDING_STOP && o->record.state == STATE_STOPPED) {
		owner_answer(o, m->ref, NULL, NULL, -1);
		return;
	}
	o->waiters[o->n_waiters++] = m->ref;
	if (grace > SPEC_MAX_TTL_MS)
		grace = SPEC_MAX_TTL_MS;
	state_end(o, what, grace);
}

static int control_touch(struct owner *o, uint64_t ttl_ms, struct err *e)
{
	if (refuse_state(o, "set the time to live of", e) < 0 && e->reason != R_SNAPSHOT_ONLY)
		return -1;
	err_done(e);
	if (ttl_ms > SPEC_MAX_TTL_MS)
		return err_set(e, R_OUT_OF_RANGE, 0, "use time to live '%llu' ms: over 366 days",
			(unsigned long long)ttl_ms);
	o->deadline = ttl_ms ? boottime_ms() + ttl_ms : 0;
	o->record.ttl_ms = ttl_ms;
	o->record.deadline_ms = ttl_ms ? owner_now_ms() + ttl_ms : 0;
	return owner_write(o, e);
}

void state_control(struct owner *o, const struct pair_message *m)
{
	_cleanup_err_ struct err e = ERR_INIT;
	int r;

	switch (m->a) {
	case WIRE_CONTROL_STOP:
		control_end(o, m, ENDING_STOP);
		return;
	case WIRE_CONTROL_REMOVE:
		control_end(o, m, ENDING_REMOVE);
		return;
	case WIRE_CONTROL_SNAPSHOT:
	case WIRE_CONTROL_FORK:
		job_fork(o, m);
		return;
	case WIRE_CONTROL_START:
		r = control_start(o, &e);
		break;
	case WIRE_CONTROL_PAUSE:
	case WIRE_CONTROL_RESUME:
		r = control_pause(o, m->a == WIRE_CONTROL_PAUSE, &e);
		break;
	case WIRE_CONTROL_TOUCH:
		r = control_touch(o, m->value, &e);
		break;
	default:
		r = err_set(
			&e, R_BAD_VALUE, 0, "ask sandbox '%s' for what it can't do", o->record.id);
	}
	owner_answer(o, m->ref, r < 0 ? &e : NULL, NULL, -1);
}

void state_inspect(struct owner *o, const struct pair_message *m)
{
	_cleanup_buf_ struct buf text = { .max = PAIR_TEXT };
	struct pair_message lines = { .type = PAIR_LINES, .ref = m->ref };
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_stats s;

	record_put(&o->record, &text);
	if (o->sb && o->ops->stats(o->sb, &s, &ignored) == 0)
		record_put_stats(&s, &text);
	record_number(&text, "spool_bytes", m->value);
	record_number(&text, "commands_running", m->b);
	if (text.len) {
		lines.text_len = (uint32_t)text.len;
		memcpy(lines.text, text.data, text.len);
	}
	channel_send(o, &lines, -1);
	owner_answer(o, m->ref, NULL, NULL, -1);
}
