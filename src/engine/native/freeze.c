/* Holds every process of a sandbox that lives, and lets it go.  Called by session.c, with the sandbox's cgroup.
 *
 * cgroup v2 and the freezer hierarchy of v1 hold also what is forked meanwhile.  Without either the processes are stopped one
 * by one until a whole round finds none that still ran: a workload can see that, and what it had stopped itself runs
 * afterwards. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

enum { FREEZE_TRIES = 2000, FREEZE_PAUSE_US = 500, STOP_ROUNDS = 400, WAITING_ROUNDS = 20 };

/* v2: cgroup.events says when the last process is held; thawing needs no waiting. */
static int freeze_v2(int dir, bool on, struct err *e)
{
	uint64_t frozen = 0;

	if (write_file_at(dir, "cgroup.freeze", on ? "1" : "0") < 0)
		return err_set(e, R_SETUP_FAILED, errno, "write 'cgroup.freeze'");
	for (int i = 0; on && i < FREEZE_TRIES; i++) {
		if (cgroup_read_key(dir, "cgroup.events", "frozen", &frozen) == 0 && frozen)
			return 0;
		(void)usleep(FREEZE_PAUSE_US);
	}
	if (!on)
		return 0;
	(void)write_file_at(dir, "cgroup.freeze", "0");
	return err_set(e, R_SETUP_FAILED, ETIMEDOUT, "pause the sandbox's processes");
}

/* v1: reading the state again is what makes the kernel look whether all are held. */
static int freeze_v1(int dir, bool on, struct err *e)
{
	const char *want = on ? "FROZEN" : "THAWED";
	char state[32];

	for (int i = 0; i < FREEZE_TRIES; i++) {
		if (write_file_at(dir, "freezer.state", want) < 0)
			return err_set(e, R_SETUP_FAILED, errno, "write 'freezer.state'");
		if (read_file_at(dir, "freezer.state", state, sizeof state) > 0 &&
			str_after(state, want))
			return 0;
		(void)usleep(FREEZE_PAUSE_US);
	}
	(void)write_file_at(dir, "freezer.state", "THAWED");
	return err_set(e, R_SETUP_FAILED, ETIMEDOUT, "pause the sandbox's processes");
}

static bool lists_pid(const char *text, const char *pid, size_t n)
{
	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (strncmp(p, pid, n) == 0 && (p[n] == '\n' || p[n] == '\0'))
			return true;
	return false;
}

/* The letter that /proc has for a process: 'T' is stopped, 't' held by a tracer, 'Z' and 'X' dead (or not there), 'D' waits in
 * the kernel. */
static char state_of(const char *pid, size_t n)
{
	struct proc_stat s;
	char text[16];

	if (n >= sizeof text || proc_stat(FMT(text, "%.*s", (int)n, pid), &s) < 0)
		return 'X';
	return s.state;
}

/* A number may be another process's by the time it is used: the handle is opened first, and used when the number still
 * stands in the cgroup. */
static int signal_round(const struct cgroup *c, int sig, bool *ret_runs, bool *ret_waits)
{
	_cleanup_buf_ struct buf list = BUF_INIT, again = BUF_INIT;

	*ret_runs = *ret_waits = false;
	if (cgroup_pids(c, &list) < 0)
		return -1;
	for (const char *p = list.data; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		size_t n = strcspn(p, "\n");
		_cleanup_close_ int fd = -1;
		char state = state_of(p, n);

		if (strchr("ZX", state) || (sig == SIGSTOP && strchr("Tt", state)))
			continue;
		fd = sys_pidfd_open((pid_t)strtoull(p, NULL, 10));
		if (fd < 0)
			continue;
		if (cgroup_pids(c, &again) < 0)
			return -1;
		if (!again.data || !lists_pid(again.data, p, n))
			continue;
		(void)sys_pidfd_send_signal(fd, sig);
		if (state == 'D')
			*ret_waits = true;
		else
			*ret_runs = true;
	}
	return 0;
}

/* Who waits in the kernel with the signal pending runs no more of its program; who waits for the child of a vfork that is
 * stopped never gets there. */
static int stop_all(const struct cgroup *c, bool on, struct err *e)
{
	bool runs = true, waits = true;

	for (int i = 0, waiting = 0; i < (on ? STOP_ROUNDS : 1); i++) {
		if (signal_round(c, on ? SIGSTOP : SIGCONT, &runs, &waits) < 0)
			return err_set(e, R_SETUP_FAILED, errno, "list the sandbox's processes");
		waiting = runs ? 0 : waiting + 1;
		if (!on || (!runs && (!waits || waiting == WAITING_ROUNDS)))
			return 0;
		(void)usleep(FREEZE_PAUSE_US);
	}
	(void)signal_round(c, SIGCONT, &runs, &waits);
	return err_set(e, R_SETUP_FAILED, ETIMEDOUT,
		"pause the sandbox's processes: it starts new ones faster than they can be stopped");
}

int cgroup_freeze(const struct cgroup *c, const struct cgroup_tree *t, bool on,
	enum engine_pause *kind, struct err *e)
{
	enum engine_pause how = on ? ENGINE_PAUSE_SIGNALS : *kind;
	int r;

	if (on && t->kind == CGROUP_V2)
		how = ENGINE_PAUSE_CGROUP;
	else if (on && t->has_freezer)
		how = ENGINE_PAUSE_FREEZER;
	if (how == ENGINE_PAUSE_CGROUP)
		r = freeze_v2(c->dir[0], on, e);
	else if (how == ENGINE_PAUSE_FREEZER)
		r = freeze_v1(c->dir[c->n - 1], on, e);
	else
		r = stop_all(c, on, e);
	if (r == 0)
		*kind = on ? how : ENGINE_PAUSE_NONE;
	return r;
}
