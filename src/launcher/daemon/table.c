/* Owns what the launcher knows of sandboxes: how many there are, what they may use in all, when they must end.  Must hold: what
 * is in the table was made by us or was found in a home of ours; a sandbox past its deadline is ended although its owner is
 * stuck, and although the launcher was started after it. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/rundir.h"
#include "launcher/daemon/daemon.h"

enum {
	MAX_KNOWN = 100000,
	LOOK_MS = 100,     /* and 1 ms for each sandbox: a look reads every record */
	UNSEEN_MS = 60000, /* until a sandbox that was asked for has a record */
	AGAIN_MS = 30000,  /* until an end is asked for once more */
	MINUTE_MS = 60000,
};

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / 1000000u;
}

/* runs of a caller's home; -1: there is none yet. */
static int open_runs(const struct launcher *l, uid_t uid)
{
	_cleanup_free_ char *home = daemon_home(l->home, uid);
	_cleanup_free_ char *path = xasprintf("%s/sandbox/runs", home);

	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* --- counts --- */

unsigned table_count(const struct launcher *l, uid_t uid)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->n_known; i++)
		n += l->known[i].uid == uid;
	return n;
}

static int check_rate(struct launcher *l, uid_t uid, struct err *e)
{
	const uint64_t minute = boottime_ms() / MINUTE_MS;
	unsigned i = 0;

	while (i < DAEMON_MAX_UIDS - 1 && l->rates[i].n && l->rates[i].uid != uid)
		i++;
	if (l->rates[i].uid != uid || l->rates[i].minute != minute)
		l->rates[i].n = 0;
	l->rates[i].uid = uid;
	l->rates[i].minute = minute;
	if (++l->rates[i].n > l->ceiling.per_minute)
		return err_set(e, R_TOO_MANY_SANDBOXES, 0,
			"make a sandbox: uid '%u' has made '%llu' in this minute", uid,
			(unsigned long long)l->ceiling.per_minute);
	return 0;
}

int table_admit(
	struct launcher *l, const struct peer *p, const struct pack_request *r, struct err *e)
{
	uint64_t memory = r->spec.limits.memory_bytes, cpus = r->spec.limits.cpu_millis;

	if (check_rate(l, p->uid, e) < 0)
		return -1;
	if (l->n_known >= l->ceiling.sandboxes || l->n_known == MAX_KNOWN)
		return err_set(e, R_TOO_MANY_SANDBOXES, 0,
			"make a sandbox: there are '%u', 'max-sandboxes' of the ceiling",
			l->n_known);
	if (table_count(l, p->uid) >= l->ceiling.sandboxes_per_uid)
		return err_set(e, R_TOO_MANY_SANDBOXES, 0,
			"make a sandbox: uid '%u' has '%llu', 'max-sandboxes-per-uid' of the ceiling",
			p->uid, (unsigned long long)l->ceiling.sandboxes_per_uid);
	for (unsigned i = 0; i < l->n_known; i++) {
		memory += l->known[i].memory_bytes;
		cpus += l->known[i].cpu_millis;
	}
	if (memory > l->ceiling.total_memory || cpus > l->ceiling.total_cpu_millis)
		return err_set(e, R_TOO_MANY_SANDBOXES, 0,
			"make a sandbox: with it all would have more than '%s' of the ceiling",
			memory > l->ceiling.total_memory ? "total-memory" : "total-cpus");
	return 0;
}

static void add(struct launcher *l, const struct known *k)
{
	struct known *grown;

	if (l->n_known % 64 == 0) {
		grown = realloc(l->known, (l->n_known + 64) * sizeof *grown);
		if (!grown)
			abort();
		l->known = grown;
	}
	l->known[l->n_known++] = *k;
}

void table_add(struct launcher *l, const struct peer *p, const struct pack_request *r,
	enum spawn_engine engine)
{
	struct known k = { .uid = p->uid,
		.engine = engine,
		.memory_bytes = r->spec.limits.memory_bytes,
		.cpu_millis = r->spec.limits.cpu_millis,
		.deadline_ms = r->spec.ttl_ms ? now_ms() + r->spec.ttl_ms : 0,
		.since = boottime_ms() };

	str_format(k.id, sizeof k.id, "%s", r->spec.id);
	add(l, &k);
}

/* --- what is there --- */

static bool is_known(const struct launcher *l, const char *id)
{
	for (unsigned i = 0; i < l->n_known; i++)
		if (streq(l->known[i].id, id))
			return true;
	return false;
}

/* Forks, and whatever an earlier launcher made. */
static void find_new(struct launcher *l, uid_t uid)
{
	int fd = open_runs(l, uid);
	_cleanup_closedir_ DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *f;
	struct rundir_facts facts;

	while (list && l->n_known < MAX_KNOWN && (f = readdir(list))) {
		struct known k = { .uid = uid, .seen = true, .since = boottime_ms() };

		if (!rundir_id_is_plain(f->d_name) || is_known(l, f->d_name) ||
			!rundir_read_facts(fd, f->d_name, &facts))
			continue;
		str_format(k.id, sizeof k.id, "%s", f->d_name);
		k.engine = streq(facts.engine, "docker") ? SPAWN_DOCKER : SPAWN_NATIVE;
		if (!facts.owner && k.engine == SPAWN_NATIVE)
			continue;
		k.memory_bytes = facts.memory_bytes;
		k.cpu_millis = facts.cpu_millis;
		k.deadline_ms = facts.deadline_ms;
		add(l, &k);
	}
}

static void find_all(struct launcher *l)
{
	find_new(l, geteuid());
	for (unsigned i = 0; i < l->options->n_uids; i++)
		if (l->options->uids[i] != geteuid())
			find_new(l, l->options->uids[i]);
}

/* One whose record is gone, or that never got one, counts no more. */
static bool still_there(struct launcher *l, struct known *k)
{
	_cleanup_close_ int runs = open_runs(l, k->uid);
	struct rundir_facts facts;

	if (runs < 0 || !rundir_read_facts(runs, k->id, &facts))
		return !k->seen && boottime_ms() < k->since + UNSEEN_MS;
	k->seen = true;
	/* its owner may have been given more time, or less */
	k->deadline_ms = facts.deadline_ms;
	/* what a dead owner leaves is the sweep's; a container may have outlived it */
	return facts.owner || k->engine == SPAWN_DOCKER;
}

static void end_late(struct launcher *l, struct known *k)
{
	struct spawn_message m = {
		.magic = SPAWN_MAGIC, .op = SPAWN_KILL, .engine = k->engine, .uid = k->uid
	};
	const uint64_t now = boottime_ms();

	if (!k->deadline_ms || now_ms() < k->deadline_ms + DAEMON_LATE_MS ||
		(k->killed && now < k->killed + AGAIN_MS))
		return;
	k->killed = now;
	l->killed++;
	str_format(m.id, sizeof m.id, "%s", k->id);
	log_event(LOG_WARNING, "launcher.deadline", "id", k->id, NULL);
	if (spawn_send(l->spawner, &m, -1) < 0)
		_exit(1);
}

static void sweep(struct launcher *l, uid_t uid)
{
	for (unsigned i = 0; i < SPAWN_N_ENGINES; i++) {
		const struct spawn_message m = {
			.magic = SPAWN_MAGIC, .op = SPAWN_SWEEP, .engine = i, .uid = uid
		};
		_cleanup_close_ int runs = open_runs(l, uid);

		/* a home that never had a sandbox is left alone */
		if (runs < 0 || (i == SPAWN_DOCKER && !l->ceiling.docker))
			continue;
		if (spawn_send(l->spawner, &m, -1) < 0)
			_exit(1);
	}
}

static void sweep_all(struct launcher *l)
{
	l->swept_at = boottime_ms();
	sweep(l, geteuid());
	for (unsigned i = 0; i < l->options->n_uids; i++)
		if (l->options->uids[i] != geteuid())
			sweep(l, l->options->uids[i]);
}

void table_load(struct launcher *l)
{
	find_all(l);
	sweep_all(l);
}

/* One that was made a moment ago is looked for before its caller can ask for its end: it must not count when it is gone. */
static bool has_unseen(const struct launcher *l)
{
	for (unsigned i = 0; i < l->n_known; i++)
		if (!l->known[i].seen)
			return true;
	return false;
}

void table_turn(struct launcher *l)
{
	const uint64_t now = boottime_ms();
	unsigned kept = 0;

	if (now < l->looked_at + LOOK_MS + l->n_known && !has_unseen(l))
		return;
	l->looked_at = now;
	for (unsigned i = 0; i < l->n_known; i++)
		if (still_there(l, &l->known[i]))
			l->known[kept++] = l->known[i];
	l->n_known = kept;
	find_all(l);
	for (unsigned i = 0; i < l->n_known; i++)
		end_late(l, &l->known[i]);
	if (now >= l->swept_at + DAEMON_SWEEP_MS)
		sweep_all(l);
}
