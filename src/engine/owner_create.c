/* Owns the making of a sandbox: from the request on a socket to the answer.  Called by engine_main().  Must hold: after a
 * failure nothing is left, on disk or running; whoever asked hears once, as soon as the sandbox can be used. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "engine/answer.h"
#include "engine/engine_main.h"
#include "engine/owner.h"

static void request_free(struct owner *o)
{
	if (!o->request)
		return;
	pack_done(o->request);
	free(o->request);
	o->request = NULL;
}

void owner_created(struct owner *o, const struct err *e)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	int creator = o->creator;

	o->creator = -1;
	/* first, so that no sandbox which somebody knows of passes for one that nobody does */
	if (creator >= 0 && !e)
		(void)owner_keep(o, &ignored);
	if (creator >= 0)
		answer_send(creator, e, o->record.id);
	(void)close_fd(creator);
	request_free(o);
}

/* --- the process --- */

#ifdef BAILEY_SANITIZED
enum { QUIET = 2 }; /* what a sanitizer says must be seen */
#else
enum { QUIET = 3 };
#endif

static void become_daemon(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	/* what must be private says so itself; the engine makes files that the sandbox reads */
	(void)umask(022);
	(void)!chdir("/");
	for (int i = 0; null >= 0 && i < QUIET; i++)
		if (null != i)
			(void)dup2(null, i);
	if (null > 2)
		(void)close_fd(null);
}

int owner_take_signals(struct owner *o, struct err *e)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	o->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return o->signals < 0 ? err_set(e, R_SETUP_FAILED, errno, "take signals") : 0;
}

int owner_open_engine(struct owner *o, struct err *e)
{
	const char *disk = secure_getenv("BAILEY_DOCKER_DISK");

	if (engine_env_fill(&o->env, &o->guest, e) < 0)
		return -1;
	o->env.runs = o->dirs.path;
	o->env.shown = o->request ? o->request->command : NULL;
	o->record.disk_loop = o->env.layers && streq(o->env.layers, "loop");
	o->record.disk_watched = o->ops->watch && disk && streq(disk, "watch");
	return o->ops->open(&o->engine, &o->env, e);
}

/* What dead owners left is removed now and then, beside the work and by a process of its own. */
static void sweep_beside(const struct owner *o)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	unsigned n = 0;
	pid_t pid;

	if (!rundirs_sweep_due(&o->dirs))
		return;
	pid = fork();
	if (pid == 0) {
		(void)close_fd(o->creator);
		if (fork() != 0)
			_exit(0);
		(void)o->ops->sweep(o->engine, &n, &ignored);
		err_done(&ignored);
		(void)rundirs_sweep(&o->dirs, &n, &ignored);
		_exit(0);
	}
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
}

static void fill_record(struct owner *o)
{
	struct run_record *r = &o->record;

	record_fill(r, o->request, o->ops->name);
	r->created_ms = owner_now_ms();
	r->owner_pid = getpid();
	r->owner_start = process_start(r->owner_pid);
	if (r->ttl_ms) {
		o->deadline = boottime_ms() + r->ttl_ms;
		r->deadline_ms = r->created_ms + r->ttl_ms;
	}
}

/* Everything up to a guest that waits for commands. */
static int make(struct owner *o, struct err *e)
{
	const struct engine_io none = { { -1, -1, -1 } };

	if (rundir_open(&o->dirs, o->record.id, &o->dir, e) < 0 || owner_write(o, e) < 0 ||
		owner_open_engine(o, e) < 0)
		return -1;
	sweep_beside(o);
	if (o->ops->create(o->engine, &o->request->spec, &none, &o->sb, e) < 0 ||
		(o->uid != 0 && owner_drop_rights(true, e) < 0))
		return -1;
	/* the engine has its own; the channel needs none of them */
	spec_done(&o->request->spec);
	if (rundir_listen(o->dir, &o->listener, e) < 0 || channel_start(o, e) < 0 ||
		state_boot(o, e) < 0)
		return -1;
	o->record.state = STATE_RUNNING;
	return owner_write(o, e);
}

static void unmake(struct owner *o)
{
	if (o->channel > 0)
		channel_stop(o);
	if (o->sb)
		o->ops->free(o->sb);
	if (o->engine)
		o->ops->close(o->engine);
	rundir_remove(&o->dirs, o->record.id, o->record.name);
}

static int create(struct owner *o, struct err *e)
{
	if (!(o->ops->can & ENGINE_CAN_SESSION))
		return err_set(e, R_SETUP_FAILED, 0, "make a sandbox that lives: engine '%s' can't",
			o->ops->name);
	if (o->request->spec.has_caller && o->request->spec.caller_uid != o->uid) {
		o->uid = o->request->spec.caller_uid;
		o->dirs.for_other = true;
	}
	if (rundirs_open(&o->dirs, e) < 0 || owner_take_signals(o, e) < 0)
		return -1;
	fill_record(o);
	o->has_first = o->request->command != NULL;
	if (rundir_make(&o->dirs, o->record.id, o->record.name, e) < 0)
		return -1;
	if (make(o, e) == 0)
		return 0;
	unmake(o);
	return -1;
}

static void owner_init(struct owner *o, const struct engine_ops *ops, int answer)
{
	memset(o, 0, sizeof *o);
	o->ops = ops;
	o->dirs = (struct rundirs)RUNDIRS_INIT;
	o->dir = o->listener = o->pair = o->signals = -1;
	o->channel = -1;
	o->creator = answer;
	o->uid = geteuid();
	for (unsigned i = 0; i < OWNER_JOBS; i++)
		o->jobs[i].fd = -1;
}

void owner_start(struct owner *o, const struct engine_ops *ops, int answer)
{
	become_daemon();
	owner_init(o, ops, answer);
}

int owner_run(const struct engine_ops *ops, int sock, int answer)
{
	static struct owner o;
	_cleanup_err_ struct err e = ERR_INIT;

	owner_start(&o, ops, answer);
	o.request = xcalloc(1, sizeof *o.request);
	if (owner_drop_rights(o.uid == 0, &e) < 0 || fcntl(sock, F_SETFD, FD_CLOEXEC) < 0 ||
		fcntl(answer, F_SETFD, FD_CLOEXEC) < 0 || pack_receive(sock, o.request, &e) < 0 ||
		create(&o, &e) < 0) {
		if (e.reason == REASON_NONE)
			err_set(&e, R_SETUP_FAILED, errno,
				"read what a sandbox is to be made from");
		answer_send(answer, &e, NULL);
		return reason_exit(e.reason);
	}
	if (sock != answer)
		(void)close_fd(sock);
	channel_state(&o);
	owner_event(&o, "created", "");
	owner_event(&o, "started", "");
	if (o.has_first) {
		o.creator_until = boottime_ms() + FIRST_MS;
		channel_say(&o, PAIR_FIRST, 0, 0);
	} else {
		owner_created(&o, NULL);
	}
	owner_loop(&o);
}
