/* Owns what is said of a command's end in a living sandbox.  Called by exec, attach and wait. */
#include <signal.h>
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

static enum reason reason_of(const struct bailey_result *r)
{
	if (*r->reason)
		return reason_by_name(r->reason);
	return r->how == BAILEY_SIGNALLED ? R_SIGNAL : REASON_NONE;
}

static void say(const struct options *o, const struct bailey_result *r)
{
	_cleanup_err_ struct err e = ERR_INIT;
	const enum reason reason = reason_of(r);

	if (reason == R_TIMEOUT && o->exec_timeout)
		(void)err_set(&e, R_TIMEOUT, 0, "run the command: still running after %llu ms",
			(unsigned long long)o->exec_timeout);
	else if (reason == R_TIMEOUT)
		(void)err_set(&e, R_TIMEOUT, 0, "run the command: its time was over");
	else if (reason == R_OOM)
		(void)err_set(&e, R_OOM, 0,
			"run the command: the kernel killed it, since the sandbox's memory was full");
	else if (reason == R_SIGNAL)
		(void)err_set(&e, R_SIGNAL, 0, "run the command: ended by signal %d (%s)",
			r->signal, sigdescr_np(r->signal) ?: "unknown");
	else
		return;
	cli_report(&e);
}

static void put_optional(struct json *j, const char *key, bool has, int value)
{
	if (has)
		json_int(j, key, value);
	else
		json_null(j, key);
}

static int print_json(const struct options *o, const char *id, const struct bailey_result *r,
	const struct output *captured, uint64_t wall_ms, struct err *e)
{
	_cleanup_buf_ struct buf out = { .max = (size_t)o->output_max_capture * 16 + (1 << 16) };
	const enum reason reason = reason_of(r);
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_string(&j, "id", id);
	json_uint(&j, "command", r->id);
	put_optional(&j, "exit_code", r->how == BAILEY_EXITED, r->exit_code);
	put_optional(&j, "signal", r->how == BAILEY_SIGNALLED, r->signal);
	json_string(&j, "reason", reason ? reason_name(reason) : NULL);
	json_bool(&j, "oom_killed", r->flags & BAILEY_OOM);
	json_bool(&j, "timed_out", r->flags & BAILEY_TIMED_OUT);
	if (captured) {
		json_uint(&j, "wall_ms", wall_ms);
		json_uint(&j, "dropped_bytes", r->dropped);
		output_put(&j, captured);
	}
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

int result_report(const struct options *o, const char *id, const struct bailey_result *r,
	const char *name, const struct output *captured, uint64_t wall_ms, struct err *e)
{
	if (r->how == BAILEY_NOT_STARTED)
		return err_set(e, reason_of(r), r->sys_errno, "start '%.256s'", name);
	if (r->how == BAILEY_LOST || r->how == BAILEY_RUNNING)
		return err_set(e, *r->reason ? reason_of(r) : R_ENGINE_LOST, 0,
			"wait for the end of '%.256s'", name);
	if (!o->json)
		say(o, r);
	else if (print_json(o, id, r, captured, wall_ms, e) < 0)
		return -1;
	return r->status;
}
