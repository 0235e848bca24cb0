/* `bailey run`: one command in a fresh sandbox of the native engine, which is linked in.
 *
 * This process is the owner: it makes the sandbox, moves bytes, keeps the deadline and passes the command's status on.  The
 * sandbox dies with it.  The command's output is never decoded; the guest's few frames are (wire/). */
#include "door/cli/run.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "door/cli/verb.h"

enum {
	POLL_PIDFD,
	POLL_SIGNALS,
	POLL_FIXED,
	KILL_GRACE_MS = 10000, /* after a signal that the command ignores, as `docker stop` */
	SPACE_EVERY_MS = 5000, /* how often a writable workspace's file system is looked at */
	SPACE_LOW = 64 << 20,  /* bytes free at which the log says so */
};

struct run {
	const struct options *o;
	const struct engine_ops *ops;
	struct engine *engine;
	struct sandbox *sandbox;
	struct sandbox_spec spec;
	char **env;
	struct run_strings strings;
	char *term; /* an entry of the environment */
	struct run_io io;
	struct run_result result;
	int signals;
	int workspace_fd; /* a writable one, watched for space; -1 */
	uint64_t started_us, deadline_ms, kill_at_ms, space_at_ms;
	bool space_low;
	unsigned times_signalled;
	bool over; /* its first process has ended */
};

static bool is_terminal_by_itself(const struct options *o)
{
	return !o->json && o->origin[OPTION_tty].kind == ORIGIN_DEFAULT &&
		o->origin[OPTION_interactive].kind == ORIGIN_DEFAULT && isatty(STDIN_FILENO) &&
		isatty(STDOUT_FILENO);
}

/* The hatches weaken a wall by the user's own word: that has to be found later. */
void run_log_hatches(const struct options *o, const char *id)
{
	const struct {
		bool used;
		const char *name;
	} hatches[] = { { o->unlimited, "--unlimited" }, { o->allow_setgid, "--allow-setgid" },
		{ o->root_workspace, "--root-workspace" } };

	for (size_t i = 0; i < sizeof hatches / sizeof *hatches; i++)
		if (hatches[i].used)
			log_event(LOG_WARNING, "escape_hatch", "sandbox", id, "hatch",
				hatches[i].name, NULL);
}

static int prepare(struct run *r, char **argv, bool tty, struct err *e)
{
	struct run_request req;
	const char *term = getenv("TERM");
	int result = run_request_fill(&req, r->o, argv, &r->strings, e);

	req.terminal = tty;
	if (tty)
		req.term = r->term =
			xasprintf("TERM=%s", term && !str_has_control(term) ? term : "dumb");
	if (result == 0)
		result = profile_run(&r->spec, &req, &r->env, e);
	request_done(&req);
	if (result < 0)
		return -1;
	for (unsigned i = 0; i < r->spec.n_binds; i++)
		if (r->spec.binds[i].writable && r->spec.binds[i].kind == BIND_DIR)
			r->workspace_fd = r->spec.binds[i].fd;
	if (r->workspace_fd >= 0)
		r->space_at_ms = boottime_ms() + SPACE_EVERY_MS;
	return 0;
}

static int not_started(struct run *r, int error, struct err *e)
{
	const char *command = r->spec.argv[0];

	if (error == ENOENT)
		return err_set(e, R_COMMAND_NOT_FOUND, error, "start '%s'", command);
	if (error == EAGAIN)
		return err_set(e, R_PIDS_EXHAUSTED, error, "start '%s'", command);
	if (error == ENOMEM)
		return err_set(e, R_OOM, error, "start '%s'", command);
	if (error == E2BIG)
		return err_set(e, R_OUT_OF_RANGE, error, "start '%s'", command);
	return err_set(e, R_COMMAND_NOT_EXEC, error, "start '%s'", command);
}

/* Reads what the guest says; -1 only for failures of ours. */
static int take_events(struct run *r, struct err *e)
{
	for (;;) {
		struct engine_event ev;

		if (r->result.finished)
			return 0; /* nothing that matters comes behind it */
		if (r->ops->next(r->sandbox, &ev, e) < 0)
			return -1;
		switch (ev.kind) {
		case ENGINE_NOTHING:
		case ENGINE_CLOSED:
			return 0;
		case ENGINE_STARTED:
			break;
		case ENGINE_EXITED:
			r->result.finished = true;
			r->result.exit_code = ev.value;
			break;
		case ENGINE_SIGNALLED:
			r->result.finished = true;
			r->result.signal = ev.value;
			break;
		case ENGINE_DEADLINE:
			r->result.timed_out = true;
			break;
		case ENGINE_NOT_STARTED:
			return not_started(r, ev.value, e);
		}
	}
}

/* First time: passed on, with a grace.  Second: the end.  With the sandbox gone only a reader that takes nothing is waited
 * for, and the first signal ends that. */
static void take_signals(struct run *r)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct signalfd_siginfo info;

	while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info) {
		int sig = (int)info.ssi_signo;

		if (sig == SIGWINCH) {
			run_io_resize(&r->io);
			continue;
		}
		(void)r->ops->signal(r->sandbox, sig, &ignored);
		if (sig == SIGUSR1 || sig == SIGUSR2)
			continue;
		r->times_signalled++;
		if (r->over)
			run_io_give_up(&r->io);
		else if (r->times_signalled > 1)
			r->ops->kill(r->sandbox);
		else
			r->kill_at_ms = boottime_ms() + KILL_GRACE_MS;
	}
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static int next_timeout(const struct run *r)
{
	uint64_t now, at = earlier(earlier(r->deadline_ms, r->kill_at_ms), r->space_at_ms);

	if (!at || r->over)
		return -1;
	now = boottime_ms();
	if (now >= at)
		return 0;
	return at - now > 3600000 ? 3600000 : (int)(at - now);
}

static bool free_bytes(const struct run *r, uint64_t *ret)
{
	struct statvfs fs;

	if (r->workspace_fd < 0 || fstatvfs(r->workspace_fd, &fs) < 0 || !fs.f_blocks)
		return false;
	*ret = (uint64_t)fs.f_bavail * fs.f_frsize;
	return true;
}

/* Nothing bounds a writable workspace but its file system: say it before that is full. */
static void watch_space(struct run *r, uint64_t now)
{
	uint64_t bytes;

	if (!r->space_at_ms || now < r->space_at_ms)
		return;
	r->space_at_ms = now + SPACE_EVERY_MS;
	if (!r->space_low && free_bytes(r, &bytes) && bytes < SPACE_LOW) {
		r->space_low = true;
		log_event(LOG_WARNING, "workspace_space_low", "sandbox", r->spec.id, NULL);
	}
}

static void keep_deadline(struct run *r)
{
	uint64_t now = boottime_ms();

	if (r->over)
		return;
	watch_space(r, now);
	if (r->deadline_ms && now >= r->deadline_ms) {
		if (!r->result.finished)
			r->result.timed_out = true;
		r->ops->kill(r->sandbox);
	} else if (r->kill_at_ms && now >= r->kill_at_ms) {
		r->ops->kill(r->sandbox);
	}
}

static int loop(struct run *r, struct err *e)
{
	struct pollfd fds[POLL_FIXED + RUN_IO_MAX_POLL];

	while (!r->over || !run_io_at_end(&r->io)) {
		size_t n = POLL_FIXED;

		fds[POLL_PIDFD] = (struct pollfd){ .fd = r->over ? -1 : r->ops->pidfd(r->sandbox),
			.events = POLLIN };
		fds[POLL_SIGNALS] = (struct pollfd){ .fd = r->signals, .events = POLLIN };
		n += run_io_poll(&r->io, fds + POLL_FIXED);
		/* all that was ever written lies in the pipes once the last process is gone, so they are read till empty: their
		 * end may never come, if a copy of one was sent over the model's socket */
		if (r->over)
			run_io_drain(&r->io);
		if (poll(fds, n, r->over && !run_io_waits(&r->io) ? 0 : next_timeout(r)) < 0 &&
			errno != EINTR)
			return err_set(
				e, R_SETUP_FAILED, errno, "wait for sandbox '%s'", r->spec.id);
		/* all that the guest says fits into the channel: one look at the end saves two wake-ups */
		if (fds[POLL_PIDFD].revents) {
			r->over = true;
			if (take_events(r, e) < 0)
				return -1;
		}
		if (fds[POLL_SIGNALS].revents)
			take_signals(r);
		keep_deadline(r);
		if (run_io_serve(&r->io, fds + POLL_FIXED, n - POLL_FIXED, e) < 0)
			return -1;
	}
	return 0;
}

/* Out of space at the end of a failed command: say so, since the command's own words may be lost for the same reason. */
static bool workspace_is_full(const struct run *r)
{
	uint64_t bytes;

	return free_bytes(r, &bytes) && bytes == 0;
}

static enum reason judge(const struct run *r)
{
	const struct run_result *res = &r->result;
	bool ordinary = res->finished && res->exit_code == 0 && !res->signal;

	if (res->timed_out)
		return R_TIMEOUT;
	if (ordinary)
		return REASON_NONE;
	if (res->facts.has_oom && res->facts.oom_kills)
		return R_OOM;
	if (res->finished && res->facts.has_pids_refused && res->facts.pids_refused)
		return R_PIDS_EXHAUSTED;
	if (res->finished && workspace_is_full(r))
		return R_DISK_FULL;
	if (res->signal)
		return R_SIGNAL;
	if (!res->finished)
		return r->times_signalled ? R_INTERRUPTED : R_GUEST_LOST;
	return REASON_NONE;
}

static void log_end(const struct run *r)
{
	char exit_text[16], wall[24];

	log_event(LOG_INFO, "sandbox_ended", "sandbox", r->spec.id, "engine", r->ops->name,
		"profile", "run", "exit", FMT(exit_text, "%d", run_exit_status(&r->result)),
		"reason", r->result.reason ? reason_name(r->result.reason) : "exited", "wall_ms",
		FMT(wall, "%llu", (unsigned long long)r->result.wall_ms), NULL);
}

static int execute(struct run *r, struct err *e)
{
	_cleanup_err_ struct err late = ERR_INIT;
	unsigned swept = 0;
	int result;

	r->started_us = monotonic_us();
	if (r->spec.limits.timeout_ms)
		r->deadline_ms = boottime_ms() + r->spec.limits.timeout_ms;
	if (r->ops->create(r->engine, &r->spec, &r->io.child, &r->sandbox, e) < 0)
		return -1;
	run_io_parent(&r->io);
	result = r->ops->start(r->sandbox, e);
	if (result == 0)
		result = loop(r, e);
	if (result < 0)
		r->ops->kill(r->sandbox);
	if (r->ops->remove(r->sandbox, &r->result.facts, &late) < 0 && result == 0)
		result = err_move(e, &late);
	r->result.wall_ms = (monotonic_us() - r->started_us) / 1000;
	if (!r->spec.limits
			.unlimited) /* without a cgroup of its own it has no business looking for one */
		(void)r->ops->sweep(r->engine, &swept, &late);
	return result;
}

static int report(struct run *r, struct err *e)
{
	const struct options *o = r->o;
	_cleanup_buf_ struct buf out = { .max = (size_t)o->output_max_capture * 16 + (1 << 16) };

	r->result.reason = judge(r);
	log_end(r);
	if (!o->json || o->origin[OPTION_json_fd].kind == ORIGIN_FLAG)
		run_report_text(&r->result, o);
	if (o->origin[OPTION_json_fd].kind == ORIGIN_FLAG) {
		run_report_json(&out, &r->result, r->spec.id, &r->io, false);
		if (write_all((int)o->json_fd, out.data, out.len) < 0)
			return err_set(e, R_OUTPUT_FAILED, errno,
				"write the report to descriptor '%llu'",
				(unsigned long long)o->json_fd);
	} else if (o->json) {
		run_report_json(&out, &r->result, r->spec.id, &r->io, true);
		if (out.failed)
			return err_set(e, out.too_large ? R_OUTPUT_FAILED : R_NO_MEMORY,
				out.too_large ? EFBIG : ENOMEM, "make the report of sandbox '%s'",
				r->spec.id);
		if (cli_write(&out, e) < 0)
			return -1;
	}
	return run_exit_status(&r->result);
}

static void run_done(struct run *r)
{
	r->ops->free(r->sandbox);
	run_io_done(&r->io);
	r->signals = close_fd(r->signals);
	spec_done(&r->spec);
	free(r->env);
	run_strings_done(&r->strings);
	free(r->term);
	r->ops->close(r->engine);
}

int verb_run(struct options *o, int argc, char **argv, struct err *e)
{
	static struct run r; /* large: the feed's buffer */
	bool own_terminal = is_terminal_by_itself(o), tty = own_terminal || o->tty;
	const struct run_io_options io = { .interactive = o->interactive || tty,
		.tty = tty,
		.capture = o->json && o->origin[OPTION_json_fd].kind != ORIGIN_FLAG,
		.max_capture = o->output_max_capture };
	int result = -1;

	r.o = o;
	r.workspace_fd = r.signals = -1;
	r.ops = &engine_native;
	spec_init(&r.spec);
	image_init(&r.strings.request.image);
	if (tty && o->json && o->origin[OPTION_json_fd].kind != ORIGIN_FLAG)
		return err_set(e, R_USAGE, 0,
			"use '--tty' with '--json': a terminal's output can't be captured");
	if (prepare(&r, argc ? argv : NULL, tty, e) == 0 && cli_open_engine(o, &r.engine, e) == 0 &&
		run_io_open(&r.io, &io, e) == 0 && (r.signals = cli_open_signals(e)) >= 0) {
		run_log_hatches(o, r.spec.id);
		result = execute(&r, e);
		if (result == 0)
			result = report(&r, e);
	}
	run_done(&r);
	return result;
}
