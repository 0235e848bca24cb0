/* Owns the removal of what dead owners left with a daemon: containers, and directories of runs that have none.  Called by docker.c.
 * Must hold: only what has this home's label; nothing at all when the list can't be had or has one entry that is not of our
 * form; never by its age what has no readable deadline; every failure is in the audit log. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/docker.h"
#include "engine/rundir.h"
#include "store/audit.h"

enum { OVERDUE_MS = 600000, OLD_S = 600, SWEEP_MAX = 256 };

static void say_failed(const char *reason, uint64_t count)
{
	const struct audit_task_sandbox_cleanup_failed p = {
		.reason = reason, .count = count, .runtime = "docker"
	};
	_cleanup_err_ struct err ignored = ERR_INIT;

	(void)audit_task_sandbox_cleanup_failed(NULL, &p, &ignored);
}

bool docker_used(const char *runs)
{
	_cleanup_free_ char *path = xasprintf("%s/../docker", runs);

	return access(path, F_OK) == 0;
}

void docker_unreachable(void)
{
	say_failed("docker_unreachable", 1);
}

int docker_home_containers(struct engine *g, json_t **ret, struct err *e)
{
	struct docker *d = engine_daemon(g, e);
	char label[32];

	if (!d)
		return -1;
	return docker_list(d, FMT(label, "bailey.home=%s", g->home_hash), ret, e);
}

bool docker_owner_lives(const struct engine *g, const char *id)
{
	_cleanup_close_ int runs = open(g->runs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct rundir_facts facts;

	return runs >= 0 && rundir_read_facts(runs, id, &facts) && facts.owner > 0;
}

static const char *id_of(const json_t *one)
{
	return docker_json_text(json_object_get(one, "Labels"), "bailey.id");
}

static bool is_of_our_form(const struct engine *g, const json_t *one)
{
	const char *id = id_of(one), *state = docker_json_text(one, "State");
	const char *home = docker_json_text(json_object_get(one, "Labels"), "bailey.home");
	const char *container = docker_json_text(one, "Id");

	return id && rundir_id_is_plain(id) && state && *state && home &&
		streq(home, g->home_hash) && container && strlen(container) == DOCKER_ID - 1 &&
		strspn(container, "0123456789abcdef") == DOCKER_ID - 1;
}

static bool has_kept(const struct engine *g, const char *id)
{
	_cleanup_free_ char *path = xasprintf("%s/%s/kept", g->runs, id);

	return access(path, F_OK) == 0;
}

/* One that may be taken over is left for that until its time is long past. */
static bool is_left_over(const struct engine *g, const json_t *one)
{
	const char *state = docker_json_text(one, "State"), *id = id_of(one);
	const char *deadline = docker_json_text(json_object_get(one, "Labels"), "bailey.deadline");
	const uint64_t now = clock_ns(CLOCK_REALTIME) / 1000000u;
	_cleanup_err_ struct err ignored = ERR_INIT;
	uint64_t at = 0;

	if (docker_owner_lives(g, id))
		return false;
	if (deadline && parse_u64(deadline, 1, UINT64_MAX / 2, "deadline", &at, &ignored) == 0 &&
		now > at + OVERDUE_MS)
		return true;
	return !has_kept(g, id) &&
		(streq(state, "exited") || streq(state, "dead") || streq(state, "created"));
}

static int sweep_containers(
	struct engine *g, const json_t *all, unsigned *ret_removed, struct err *e)
{
	_cleanup_err_ struct err one_failed = ERR_INIT;
	unsigned tried = 0, failed = 0;
	const json_t *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		if (tried == SWEEP_MAX)
			break;
		if (!is_left_over(g, one))
			continue;
		tried++;
		err_done(&one_failed);
		if (docker_remove(g->docker, docker_json_text(one, "Id"), true, true, &one_failed) <
			0) {
			failed++;
			continue;
		}
		container_ctl_remove(g, id_of(one));
		++*ret_removed;
	}
	if (!failed)
		return 0;
	say_failed("container_remove_failed", failed);
	return err_move(e, &one_failed);
}

static bool is_listed(const json_t *all, const char *id)
{
	const json_t *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		if (streq(id_of(one), id))
			return true;
	}
	return false;
}

/* A directory without a container, whose owner died ten minutes ago or earlier. */
static bool is_old(const struct engine *g, const struct rundirs *d, const char *id)
{
	struct rundir_facts facts;
	struct stat st;

	return rundir_read_facts(d->runs, id, &facts) && streq(facts.engine, "docker") &&
		!facts.owner && !has_kept(g, id) &&
		fstatat(d->runs, id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
		(uint64_t)st.st_mtime + OLD_S < clock_ns(CLOCK_REALTIME) / 1000000000u;
}

static int sweep_directories(
	struct engine *g, const json_t *all, unsigned *ret_removed, struct err *e)
{
	_cleanup_closedir_ DIR *list = opendir(g->runs);
	struct rundirs dirs = RUNDIRS_INIT;
	unsigned failed = 0, tried = 0;
	const struct dirent *f;

	if (!list || rundirs_open(&dirs, e) < 0)
		return list ? -1 : 0;
	while (tried < SWEEP_MAX && (f = readdir(list))) {
		const char *id = f->d_name;

		if (!rundir_id_is_plain(id) || is_listed(all, id) || !is_old(g, &dirs, id))
			continue;
		tried++;
		rundir_remove(&dirs, id, "");
		if (faccessat(dirs.runs, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			failed++;
		else
			++*ret_removed;
	}
	rundirs_done(&dirs);
	if (!failed)
		return 0;
	say_failed("directory_remove_failed", failed);
	return err_set(e, R_STATE_UNWRITABLE, 0, "remove %u directories of sandboxes", failed);
}

int docker_sweep(struct engine *g, unsigned *ret_removed, struct err *e)
{
	_cleanup_json_ json_t *all = NULL;
	const json_t *one;
	size_t i;

	if (!g->runs || !docker_used(g->runs))
		return 0;
	if (docker_home_containers(g, &all, e) < 0) {
		say_failed(
			e->reason == R_DOCKER_BAD_RESPONSE ? "list_invalid" : "docker_unreachable",
			1);
		return -1;
	}
	json_array_foreach(all, i, one)
	{
		if (is_of_our_form(g, one))
			continue;
		say_failed("list_invalid", 1);
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"list the containers of this home: one is not of the form that Bailey makes");
	}
	if (sweep_containers(g, all, ret_removed, e) < 0 ||
		sweep_directories(g, all, ret_removed, e) < 0)
		return -1;
	docker_layers_sweep(g);
	return 0;
}
