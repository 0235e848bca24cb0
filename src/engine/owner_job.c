/* Owns work in processes of its own: forks and snapshots, each of which becomes the owner of a new sandbox, and the list of
 * changes.  Called by the owner's loop.  Must hold: the client hears once, of what really came of it; a process that dies
 * leaves neither a paused sandbox nor half a directory. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/owner.h"
#include "wire/wire.h"

enum { ERROR_TEXT = 3500, PROGRESS_BYTES = 64 << 20 };

bool jobs_copy(const struct owner *o)
{
	for (unsigned i = 0; i < OWNER_JOBS; i++)
		if (o->jobs[i].kind == JOB_FORK)
			return true;
	return false;
}

static struct job *job_new(struct owner *o, enum job_kind kind, uint64_t ref, struct err *e)
{
	for (unsigned i = 0; i < OWNER_JOBS; i++) {
		struct job *j = &o->jobs[i];

		if (j->kind != JOB_NONE)
			continue;
		*j = (struct job){ .kind = kind, .ref = ref, .fd = -1 };
		return j;
	}
	err_set(e, R_BUSY, 0, "ask sandbox '%s': %d requests are worked on already", o->record.id,
		OWNER_JOBS);
	return NULL;
}

static void job_done(struct job *j)
{
	j->fd = close_fd(j->fd);
	j->kind = JOB_NONE;
}

/* In a forked process: what is the old owner's alone. */
static void leave_owner(struct owner *o)
{
	o->pair = close_fd(o->pair);
	o->listener = close_fd(o->listener);
	o->creator = close_fd(o->creator);
	o->dir = close_fd(o->dir);
	for (unsigned i = 0; i < OWNER_JOBS; i++)
		job_done(&o->jobs[i]);
	o->channel = -1;
	o->n_waiters = 0;
	o->ending = ENDING_NONE;
	o->end_at = o->drain_at = 0;
}

/* --- forks and snapshots --- */

static void new_record(struct owner *o, const struct job *j)
{
	struct run_record *r = &o->record;

	str_format(r->parent, sizeof r->parent, "%s", r->id);
	str_format(r->id, sizeof r->id, "%s", j->id);
	str_format(r->name, sizeof r->name, "%s", j->name);
	/* a name may hold what a host name can't */
	str_format(r->hostname, sizeof r->hostname, "%s", r->id);
	r->snapshot = j->snapshot;
	r->state = STATE_CREATING;
	r->exit_reason = REASON_NONE;
	r->keep = true;
	r->created_ms = owner_now_ms();
	r->started_ms = r->stopped_ms = 0;
	r->owner_pid = getpid();
	r->owner_start = process_start(r->owner_pid);
	if (j->snapshot)
		r->ttl_ms = 0;
	o->deadline = r->ttl_ms ? boottime_ms() + r->ttl_ms : 0;
	r->deadline_ms = r->ttl_ms ? r->created_ms + r->ttl_ms : 0;
}

/* A long copy is heard of. */
static void tell_progress(void *arg, uint64_t bytes)
{
	static uint64_t told;
	struct owner *o = arg;
	char rest[96];

	if (bytes < told + PROGRESS_BYTES)
		return;
	told = bytes;
	owner_event(o, "copying",
		FMT(rest, "parent=%s bytes=%llu", o->record.parent, (unsigned long long)bytes));
}

/* Until *ret_adopted the engine's sandbox is the old owner's: it must not be ended here. */
static int take_over(
	struct owner *o, const struct job *j, bool copy, bool *ret_adopted, struct err *e)
{
	new_record(o, j);
	if (rundir_open(&o->dirs, o->record.id, &o->dir, e) < 0 || owner_write(o, e) < 0)
		return -1;
	if (copy && o->ops->copy(o->sb, tell_progress, o, e) < 0)
		return -1;
	if (o->ops->adopt(o->sb, o->record.id, o->record.hostname, e) < 0)
		return -1;
	*ret_adopted = true;
	o->booted = false;
	o->sealed = !copy;
	o->epoch = 0;
	o->has_first = false;
	if (rundir_listen(o->dir, &o->listener, e) < 0 || channel_start(o, e) < 0)
		return -1;
	if (!j->snapshot && state_boot(o, e) < 0)
		return -1;
	o->record.state = j->snapshot ? STATE_SNAPSHOT : STATE_RUNNING;
	return owner_write(o, e);
}

static void say_outcome(int fd, const struct err *e)
{
	char text[ERROR_TEXT + 1];
	uint32_t n = 0;

	text[0] = e ? 'e' : 'k';
	if (e)
		n = pair_put_error(text + 1, ERROR_TEXT, e);
	(void)write_all(fd, text, n + 1);
}

/* The new owner; never returns. */
static _Noreturn void run_fork(struct owner *o, const struct job *given, int out, bool copy)
{
	_cleanup_err_ struct err e = ERR_INIT;
	const struct job j = *given;
	bool adopted = false;
	char rest[64];

	leave_owner(o);
	(void)setsid();
	if (take_over(o, &j, copy, &adopted, &e) < 0) {
		if (o->channel > 0)
			channel_stop(o);
		if (adopted)
			o->ops->free(o->sb);
		rundir_remove(&o->dirs, o->record.id, o->record.name);
		say_outcome(out, &e);
		_exit(1);
	}
	channel_state(o);
	owner_event(o, "created", FMT(rest, "parent=%s", o->record.parent));
	if (!j.snapshot)
		owner_event(o, "started", "");
	say_outcome(out, NULL);
	(void)close_fd(out);
	owner_loop(o);
}

/* Not a child of the old owner: the new one must not wait for it to be reaped. */
static int start_fork(struct owner *o, struct job *j, bool copy, struct err *e)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	pid = fork();
	if (pid == 0) {
		(void)close_fd(ends[0]);
		if (fork() == 0)
			run_fork(o, j, ends[1], copy);
		_exit(0);
	}
	(void)close_fd(ends[1]);
	if (pid < 0) {
		(void)close_fd(ends[0]);
		return err_set(
			e, R_SETUP_FAILED, errno, "fork the owner of sandbox '%s'", o->record.id);
	}
	(void)waitpid(pid, NULL, 0);
	j->fd = ends[0];
	return 0;
}

/* Where layers can be shared a stopped sandbox's is; else, and of a running one, it is copied. */
static int freeze(struct owner *o, bool *ret_copy, struct err *e)
{
	*ret_copy = true;
	if (o->booted)
		return 0;
	*ret_copy = false;
	if (o->sealed)
		return 0;
	if (o->ops->seal(o->sb, e) == 0) {
		o->sealed = true;
		return 0;
	}
	if (e->reason != R_LAYER_UNSUPPORTED)
		return -1;
	err_done(e);
	*ret_copy = true;
	return 0;
}

static int take_names(const struct pair_message *m, struct job *j, struct err *e)
{
	const char *id = m->text, *name;
	const size_t n = strnlen(id, m->text_len);

	name = n < m->text_len ? id + n + 1 : NULL;
	if (!name || n >= SPEC_ID_LEN || m->text_len - n - 1 > PACK_NAME ||
		memchr(name, '\0', m->text_len - n - 1) != m->text + m->text_len - 1)
		return err_set(e, R_BAD_VALUE, 0, "fork a sandbox: the new id and name are none");
	str_format(j->id, sizeof j->id, "%s", id);
	str_format(j->name, sizeof j->name, "%s", name);
	return 0;
}

static int begin_fork(struct owner *o, const struct pair_message *m, struct err *e)
{
	struct job *j;
	bool copy;

	if (o->ending || jobs_copy(o))
		return err_set(e, R_BUSY, 0, "fork sandbox '%s': %s", o->record.id,
			o->ending ? "it is ending" : "a copy of it is being made");
	j = job_new(o, JOB_FORK, m->ref, e);
	if (!j)
		return -1;
	j->snapshot = m->a == WIRE_CONTROL_SNAPSHOT;
	j->paused = o->record.state == STATE_PAUSED;
	if (take_names(m, j, e) == 0 && freeze(o, &copy, e) == 0 &&
		rundir_make(&o->dirs, j->id, j->name, e) == 0) {
		if (start_fork(o, j, copy, e) == 0)
			return 0;
		rundir_remove(&o->dirs, j->id, j->name);
	}
	job_done(j);
	return -1;
}

void job_fork(struct owner *o, const struct pair_message *m)
{
	_cleanup_err_ struct err e = ERR_INIT;

	if (begin_fork(o, m, &e) < 0)
		owner_answer(o, m->ref, &e, NULL, -1);
}

/* It died in the middle: what it had frozen must not stay so, and what it made must go. */
static void clean_up(struct owner *o, const struct job *j)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	if (o->booted && !j->paused && o->ops->pause(o->sb, true, &ignored) == 0)
		(void)o->ops->pause(o->sb, false, &ignored);
	rundir_remove(&o->dirs, j->id, j->name);
}

static int read_outcome(struct job *j, struct err *e)
{
	char text[ERROR_TEXT + 2], *message, *remedy;
	ssize_t n;

	do
		n = read(j->fd, text, sizeof text - 1);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return err_set(e, R_ENGINE_LOST, 0, "make sandbox '%s': its owner died", j->id);
	if (text[0] == 'k')
		return 0;
	text[n] = '\0';
	message = text + 1 + strlen(text + 1) + 1;
	if (message > text + n)
		message = text + n;
	remedy = message + strlen(message) + 1;
	err_set(e, reason_by_name(text + 1) ?: R_SETUP_FAILED, 0, "%s", message);
	return remedy < text + n ? err_remedy(e, "%s", remedy) : -1;
}

static void fork_ready(struct owner *o, struct job *j)
{
	_cleanup_err_ struct err e = ERR_INIT;
	const int r = read_outcome(j, &e);
	char rest[64];

	if (r < 0 && e.reason == R_ENGINE_LOST)
		clean_up(o, j);
	if (r == 0)
		owner_event(o, j->snapshot ? "snapshot" : "forked", FMT(rest, "id=%s", j->id));
	owner_answer(o, j->ref, r < 0 ? &e : NULL, j->id, -1);
	job_done(j);
}

/* --- changes --- */

static int begin_changes(struct owner *o, const struct pair_message *m, struct err *e)
{
	const uint32_t flags = (m->b & WIRE_FILE_CONTENT ? ENGINE_CHANGES_CONTENT : 0u) |
		(m->b & WIRE_FILE_COW ? ENGINE_CHANGES_COW : 0u);
	struct job *j = job_new(o, JOB_CHANGES, m->ref, e);
	int ends[2];

	if (!j)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		job_done(j);
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	}
	j->pid = fork();
	if (j->pid == 0) {
		_cleanup_err_ struct err failed = ERR_INIT;

		(void)close_fd(ends[0]);
		leave_owner(o);
		_exit(o->ops->changes(o->sb, ends[1], flags, &failed) == 0 ? 0
									   : (int)failed.reason);
	}
	(void)close_fd(ends[1]);
	j->fd = ends[0];
	if (j->pid > 0)
		return 0;
	job_done(j);
	return err_set(e, R_SETUP_FAILED, errno, "fork a worker");
}

void job_changes(struct owner *o, const struct pair_message *m)
{
	_cleanup_err_ struct err e = ERR_INIT;

	if (begin_changes(o, m, &e) < 0)
		owner_answer(o, m->ref, &e, NULL, -1);
}

static enum reason reason_of_status(int status)
{
	const int code = WIFEXITED(status) ? WEXITSTATUS(status) : R_SETUP_FAILED;

	return code < REASON_MAX ? (enum reason)code : R_SETUP_FAILED;
}

/* The client gets the pipe when something is in it: until then the worker may say why there is nothing. */
static void changes_ready(struct owner *o, struct job *j)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct pollfd p = { .fd = j->fd, .events = POLLIN };
	enum reason why = REASON_NONE;
	int status = 0;

	if (poll(&p, 1, 0) > 0 && !(p.revents & POLLIN)) {
		if (waitpid(j->pid, &status, 0) == j->pid)
			why = reason_of_status(status);
		j->pid = -1;
	}
	if (why != REASON_NONE)
		err_set(&e, why, 0, "list the changes of sandbox '%s'", o->record.id);
	owner_answer(o, j->ref, why ? &e : NULL, NULL, why ? -1 : j->fd);
	job_done(j);
}

void job_ready(struct owner *o, struct job *j)
{
	if (j->kind == JOB_FORK)
		fork_ready(o, j);
	else
		changes_ready(o, j);
}
