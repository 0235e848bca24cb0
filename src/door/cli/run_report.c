/* What `bailey run` says of a command's end: the exit status, two lines of text, or a JSON object. */
#include <signal.h>
#include <string.h>

#include "base/json.h"
#include "door/cli/live.h"
#include "door/cli/run.h"

enum { EXIT_TIMEOUT = 124, EXIT_OURS = 125 };

int run_exit_status(const struct run_result *r)
{
	if (r->timed_out)
		return EXIT_TIMEOUT;
	if (r->signal)
		return 128 + r->signal;
	if (!r->finished)
		return r->reason == R_OOM ? 128 + SIGKILL : EXIT_OURS;
	return r->exit_code;
}

static void put_stream(struct json *j, const char *name, const struct stream *s)
{
	output_put_bytes(j, name, s->capture.data ? s->capture.data : "", s->capture.len);
}

static void put_optional(struct json *j, const char *key, bool has, uint64_t value)
{
	if (has)
		json_uint(j, key, value);
	else
		json_null(j, key);
}

void run_report_json(struct buf *out, const struct run_result *r, const char *id,
	const struct run_io *io, bool with_output)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_string(&j, "id", id);
	if (r->finished && !r->signal)
		json_int(&j, "exit_code", r->exit_code);
	else
		json_null(&j, "exit_code");
	put_optional(&j, "signal", r->signal != 0, (uint64_t)r->signal);
	json_string(&j, "reason", r->reason ? reason_name(r->reason) : NULL);
	json_bool(&j, "oom_killed", r->facts.has_oom && r->facts.oom_kills > 0);
	json_bool(&j, "timed_out", r->timed_out);
	json_uint(&j, "wall_ms", r->wall_ms);
	json_uint(&j, "cpu_ms", r->facts.cpu_us / 1000);
	put_optional(&j, "memory_peak_bytes", r->facts.has_memory_peak, r->facts.memory_peak_bytes);
	/* bailey-guest is one of those counted, but not the caller's */
	put_optional(&j, "pids_peak", r->facts.has_pids_peak,
		r->facts.pids_peak ? r->facts.pids_peak - 1 : 0);
	if (with_output) {
		put_stream(&j, "stdout", &io->streams[STREAM_OUT]);
		put_stream(&j, "stderr", &io->streams[STREAM_ERR]);
		json_bool(&j, "truncated",
			io->streams[STREAM_OUT].truncated || io->streams[STREAM_ERR].truncated);
	}
	json_object_end(&j);
	(void)buf_puts(out, "\n");
}

void run_report_text(const struct run_result *r, const struct options *o)
{
	_cleanup_err_ struct err e = ERR_INIT;

	if (r->reason == REASON_NONE)
		return;
	if (r->reason == R_SIGNAL)
		(void)err_set(&e, R_SIGNAL, 0, "run the command: ended by signal %d (%s)",
			r->signal, sigdescr_np(r->signal) ?: "unknown");
	else if (r->reason == R_TIMEOUT)
		(void)err_set(&e, R_TIMEOUT, 0, "run the command: still running after %llu ms",
			(unsigned long long)o->timeout);
	else if (r->reason == R_OOM)
		(void)err_set(&e, R_OOM, 0,
			"run the command: the kernel killed it for using more than %llu MiB of memory",
			(unsigned long long)o->memory >> 20);
	else if (r->reason == R_PIDS_EXHAUSTED)
		(void)err_set(&e, R_PIDS_EXHAUSTED, 0,
			"run the command: more than %llu processes were refused",
			(unsigned long long)o->pids);
	else
		(void)err_set(&e, r->reason, 0, "run the command: it ended without a status");
	(void)fprintf(stderr, "bailey: %s [%s]\n  try: %s\n", e.message ?: "",
		reason_name(e.reason), err_get_remedy(&e));
}
