/* Owns what is kept of a sandbox that outlives its owner (runs/ID/kept), and the taking over of one.  Called by the owner at
 * each change of its record, and by engine_main() for the verb `adopt` and for a sweep.  Must hold: one process at a time takes
 * a sandbox over; what was kept is readable for its owner alone, since it holds the guest's token. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/answer.h"
#include "engine/owner.h"

enum { KEPT_MAGIC = 0x4b4c4142, KEPT_VERSION = 1, KEPT_MAX = 8 << 20, CHANNEL_END_MS = 5000 };

/* Then the engine's bytes, the paths of the descriptors, each with its NUL, and the packed request. */
struct kept {
	uint32_t magic, version, size, engine_bytes, path_bytes, pack_bytes;
	uint32_t state, exit_reason, uid;
	uint8_t snapshot, disk_watched, disk_loop, has_first, answered, booted, sealed, for_other;
	uint64_t created_ms, started_ms, stopped_ms, ttl_ms, deadline_ms, oom_seen;
	char parent[SPEC_ID_LEN];
};

/* --- keeping ------------------------------------------------------------------------------------------------------- */

static struct kept head_of(const struct owner *o)
{
	const struct run_record *r = &o->record;
	struct kept k;

	memset(&k, 0, sizeof k);
	k.magic = KEPT_MAGIC;
	k.version = KEPT_VERSION;
	k.size = sizeof k;
	k.state = r->state;
	k.exit_reason = r->exit_reason;
	k.uid = o->uid;
	k.snapshot = r->snapshot;
	k.disk_watched = r->disk_watched;
	k.disk_loop = r->disk_loop;
	k.has_first = o->has_first;
	k.answered = o->creator < 0;
	k.booted = o->booted;
	k.sealed = o->sealed;
	k.for_other = o->dirs.for_other;
	k.created_ms = r->created_ms;
	k.started_ms = r->started_ms;
	k.stopped_ms = r->stopped_ms;
	k.ttl_ms = r->ttl_ms;
	k.deadline_ms = r->deadline_ms;
	k.oom_seen = o->oom_seen;
	memcpy(k.parent, r->parent, sizeof k.parent);
	return k;
}

/* Where the objects are that its descriptors hold; an engine that finds another one there refuses it. */
static void put_paths(struct buf *out, const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char link[64], path[PACK_PATH];
		ssize_t r = readlink(FMT(link, "/proc/self/fd/%d", fds[i]), path, sizeof path);

		if (r > 0 && r < (ssize_t)sizeof path)
			(void)buf_add(out, path, (size_t)r);
		(void)buf_add(out, "", 1);
	}
}

static int put_request(const struct owner *o, struct buf *paths, struct buf *out, struct err *e)
{
	_cleanup_free_ struct pack_request *q = xcalloc(1, sizeof *q);
	const struct run_record *r = &o->record;
	int fds[PACK_MAX_FDS];
	unsigned n;

	q->spec = *o->ops->spec(o->sb, &q->command);
	/* the engine counts these from the creation; the owner has set them anew since */
	str_format(q->name, sizeof q->name, "%s", r->name);
	str_format(q->image, sizeof q->image, "%s", r->image);
	str_format(q->workspace, sizeof q->workspace, "%s", r->workspace);
	q->keep = r->keep;
	q->spool_max = r->spool_max;
	if (pack_put(q, out, fds, &n, e) < 0)
		return -1;
	put_paths(paths, fds, n);
	return 0;
}

int owner_keep(struct owner *o, struct err *e)
{
	_cleanup_buf_ struct buf engine = BUF_INIT, paths = BUF_INIT, pack = BUF_INIT;
	_cleanup_buf_ struct buf all = { .max = KEPT_MAX };
	struct kept k;

	if (!o->ops->keep || !o->sb || o->dir < 0)
		return 0;
	k = head_of(o);
	o->ops->keep(o->sb, &engine);
	if (put_request(o, &paths, &pack, e) < 0)
		return -1;
	k.engine_bytes = (uint32_t)engine.len;
	k.path_bytes = (uint32_t)paths.len;
	k.pack_bytes = (uint32_t)pack.len;
	(void)buf_add(&all, &k, sizeof k);
	(void)buf_add(&all, engine.data, engine.len);
	if (paths.len)
		(void)buf_add(&all, paths.data, paths.len);
	(void)buf_add(&all, pack.data, pack.len);
	if (all.failed)
		return err_set(e, R_NO_MEMORY, 0, "keep what sandbox '%s' is", o->record.id);
	return rundir_write_secret(o->dir, "kept", &all, e);
}

/* --- reading ------------------------------------------------------------------------------------------------------- */

static int damaged(const char *id, struct err *e)
{
	return err_set(e, R_SANDBOX_LOST, 0,
		"take over sandbox '%s': what was kept of it is damaged, or of another version",
		id);
}

static int read_kept(int dir, const char *id, struct buf *ret, struct kept *k, struct err *e)
{
	_cleanup_close_ int fd = sys_openat2(dir, "kept", O_RDONLY | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	ret->max = KEPT_MAX;
	if (fd < 0)
		return err_set(
			e, R_SANDBOX_LOST, errno, "take over sandbox '%s': nothing was kept", id);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		read_all(fd, ret) < 0 || ret->len < sizeof *k)
		return damaged(id, e);
	memcpy(k, ret->data, sizeof *k);
	if (k->magic != KEPT_MAGIC || k->version != KEPT_VERSION || k->size != sizeof *k ||
		k->state > STATE_SNAPSHOT ||
		(uint64_t)k->engine_bytes + k->path_bytes + k->pack_bytes + sizeof *k != ret->len ||
		(k->path_bytes && ret->data[sizeof *k + k->engine_bytes + k->path_bytes - 1]))
		return damaged(id, e);
	return 0;
}

/* One that has gone leaves a place that is none: the sandbox goes on, a copy of it can't be made. */
static unsigned open_paths(const char *p, size_t n, int fds[static PACK_MAX_FDS])
{
	unsigned count = 0;

	for (const char *end = p + n; p < end && count < PACK_MAX_FDS; p += strlen(p) + 1) {
		int fd = *p == '/' ? open(p, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;

		if (fd < 0)
			fd = open("/dev/null", O_PATH | O_CLOEXEC);
		fds[count++] = fd;
	}
	return count;
}

static int take_request(
	struct owner *o, const struct buf *all, const struct kept *k, const char *id, struct err *e)
{
	const char *p = (const char *)all->data + sizeof *k + k->engine_bytes;
	int fds[PACK_MAX_FDS];
	unsigned n = open_paths(p, k->path_bytes, fds);

	o->request = xcalloc(1, sizeof *o->request);
	if (pack_get(p + k->path_bytes, k->pack_bytes, fds, n, o->request, e) < 0) {
		free(o->request);
		o->request = NULL;
		return -1;
	}
	if (streq(o->request->spec.id, id))
		return 0;
	/* a copy whose maker died over it: it has no container of its own */
	(void)unlinkat(o->dir, "kept", 0);
	return damaged(id, e);
}

static void take_record(struct owner *o, const struct kept *k)
{
	struct run_record *r = &o->record;
	const uint64_t now = owner_now_ms();

	record_fill(r, o->request, o->ops->name);
	r->state = (enum sandbox_state)k->state;
	r->exit_reason = k->exit_reason ? (enum reason)k->exit_reason : REASON_NONE;
	r->snapshot = k->snapshot;
	r->created_ms = k->created_ms;
	r->started_ms = k->started_ms;
	r->stopped_ms = k->stopped_ms;
	r->ttl_ms = k->ttl_ms;
	r->deadline_ms = k->deadline_ms;
	memcpy(r->parent, k->parent, sizeof r->parent);
	r->parent[sizeof r->parent - 1] = '\0';
	r->owner_pid = getpid();
	r->owner_start = process_start(r->owner_pid);
	o->uid = k->uid;
	o->has_first = k->has_first;
	o->booted = k->booted;
	o->sealed = k->sealed;
	o->oom_seen = k->oom_seen;
	/* above any that the guest has heard of */
	o->epoch = boottime_ms();
	if (k->deadline_ms)
		o->deadline = boottime_ms() + (k->deadline_ms > now ? k->deadline_ms - now : 0);
}

/* --- taking over --------------------------------------------------------------------------------------------------- */

/* The old channel ends with its owner, and nobody is heard on two sockets. */
static int await_channel(int dir, const char *id, struct err *e)
{
	const uint64_t until = boottime_ms() + CHANNEL_END_MS;

	while (socket_listens(dir, "sock")) {
		if (boottime_ms() >= until)
			return err_set(e, R_BUSY, 0,
				"take over sandbox '%s': somebody still listens for it", id);
		(void)poll(NULL, 0, 20);
	}
	return 0;
}

static int resume(struct owner *o, const struct buf *all, const struct kept *k, struct err *e)
{
	int r;

	if (owner_open_engine(o, e) < 0)
		return -1;
	o->record.disk_watched = k->disk_watched;
	o->record.disk_loop = k->disk_loop;
	r = o->ops->resume(o->engine, &o->request->spec, o->request->command, all->data + sizeof *k,
		k->engine_bytes, &o->sb, e);
	if (r < 0 && e->reason == R_SANDBOX_NOT_FOUND)
		(void)unlinkat(o->dir, "kept", 0);
	if (r < 0 || (o->uid != 0 && owner_drop_rights(true, e) < 0) ||
		rundir_listen(o->dir, &o->listener, e) < 0)
		return -1;
	pack_done(o->request);
	free(o->request);
	o->request = NULL;
	return channel_start(o, e) < 0 || owner_write(o, e) < 0 ? -1 : 0;
}

/* Under the lock.  1: somebody has it already. */
static int take_over(struct owner *o, const char *id, struct kept *k, struct err *e)
{
	_cleanup_buf_ struct buf all = BUF_INIT;
	struct rundir_facts facts;

	if (!rundir_read_facts(o->dirs.runs, id, &facts) || !streq(facts.engine, o->ops->name))
		return err_set(e, R_SANDBOX_NOT_FOUND, 0, "take over sandbox '%s'", id);
	if (facts.owner)
		return 1;
	if (await_channel(o->dir, id, e) < 0 || read_kept(o->dir, id, &all, k, e) < 0 ||
		take_request(o, &all, k, id, e) < 0)
		return -1;
	o->dirs.for_other = k->for_other;
	take_record(o, k);
	return resume(o, &all, k, e);
}

static void go_on(struct owner *o, const struct kept *k)
{
	const bool was_booted = o->booted;

	channel_state(o);
	if (was_booted && o->ops->pidfd(o->sb) >= 0)
		channel_connect(o, false);
	else if (!was_booted)
		channel_say(o, PAIR_GONE, 0,
			o->record.state == STATE_LOST ? o->record.exit_reason
						      : R_SANDBOX_NOT_RUNNING);
	owner_event(o, "adopted", "");
	if (was_booted && o->ops->gone(o->sb))
		state_lost(o, R_GUEST_LOST);
	/* nobody was told that there is such a sandbox, or somebody that it goes */
	if (!k->answered || o->record.state == STATE_REMOVING)
		state_end(o, ENDING_REMOVE, 0);
}

int owner_adopt(const struct engine_ops *ops, const char *id, int answer)
{
	static struct owner o;
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int lock = -1;
	struct kept k;
	int r = -1;

	owner_start(&o, ops, -1);
	if (answer >= 0)
		(void)fcntl(answer, F_SETFD, FD_CLOEXEC);
	if (!ops->resume || !rundir_id_is_plain(id))
		err_set(&e, R_SANDBOX_LOST, 0, "take over sandbox '%.32s'", id);
	else if (owner_drop_rights(o.uid == 0, &e) == 0 && rundirs_open(&o.dirs, &e) == 0 &&
		owner_take_signals(&o, &e) == 0 && rundir_open(&o.dirs, id, &o.dir, &e) == 0) {
		lock = openat(o.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (lock < 0 || flock(lock, LOCK_EX) < 0)
			err_set(&e, R_STATE_UNWRITABLE, errno, "lock sandbox '%s'", id);
		else
			r = take_over(&o, id, &k, &e);
	}
	if (r < 0 && o.channel > 0)
		channel_stop(&o);
	/* a channel process that was forked meanwhile holds the same lock open */
	if (lock >= 0)
		(void)flock(lock, LOCK_UN);
	if (answer >= 0)
		answer_send(answer, r < 0 ? &e : NULL, id);
	(void)close_fd(answer);
	if (r != 0)
		return r < 0 ? reason_exit(e.reason) : 0;
	go_on(&o, &k);
	owner_loop(&o);
}

/* Each by a process of its own, which becomes the sandbox's owner. */
void owner_adopt_all(const struct engine_ops *ops, const struct rundirs *d)
{
	struct rundir_facts facts;
	char id[SPEC_ID_LEN];
	unsigned at = 0;

	while (ops->resume && rundirs_next_kept(d, &at, id)) {
		pid_t pid;

		if (!rundir_read_facts(d->runs, id, &facts) || facts.owner ||
			!streq(facts.engine, ops->name))
			continue;
		pid = fork();
		if (pid == 0) {
			pid = fork();
			_exit(pid == 0 ? owner_adopt(ops, id, -1) : 0);
		}
		if (pid > 0)
			(void)waitpid(pid, NULL, 0);
	}
}
