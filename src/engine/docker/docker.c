/* The Docker engine as engine_ops: opening, sandboxes as a whole, what dead owners left.  Called by the owner process and by
 * the verbs of bailey-engine-docker.  Must hold: only containers with this home's label are touched. */
#include "engine/docker/docker.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/rundir.h"
#include "spec/profile.h"

enum { CHANNEL_UID = 0x6fffffff };

/* --- the engine ---------------------------------------------------------------------------------------------------- */

/* After a fork the parent's connection is the parent's. */
struct docker *engine_daemon(struct engine *g, struct err *e)
{
	const struct docker_config c = { .host = g->host, .cert_path = g->cert_path };

	if (g->docker && g->pid == getpid())
		return g->docker;
	if (g->docker)
		docker_free_forked(g->docker);
	g->docker = NULL;
	g->pid = getpid();
	return docker_open(&g->docker, &c, e) < 0 ? NULL : g->docker;
}

static char *setting(const char *name)
{
	const char *v = secure_getenv(name);

	return v && *v ? xstrdup(v) : NULL;
}

/* A home without this file never asks a daemon for what is left there. */
static void note_use(const struct engine *g)
{
	_cleanup_free_ char *path = xasprintf("%s/../docker", g->runs);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)close_fd(fd);
}

static void close_engine(struct engine *g)
{
	if (!g)
		return;
	if (g->docker && g->pid == getpid())
		docker_free(g->docker);
	else if (g->docker)
		docker_free_forked(g->docker);
	free(g->host);
	free(g->cert_path);
	free(g->guest);
	free(g->runs);
	free(g);
}

static int open_engine(struct engine **ret, const struct engine_env *env, struct err *e)
{
	struct engine *g = xcalloc(1, sizeof *g);
	_cleanup_free_ char *disk = setting("BAILEY_DOCKER_DISK");
	char *guest = realpath(env->guest, NULL);

	g->host = setting("BAILEY_DOCKER_HOST");
	g->cert_path = setting("BAILEY_DOCKER_CERT_PATH");
	g->guest = guest ? guest : xstrdup(env->guest);
	g->runs = env->runs ? xstrdup(env->runs) : NULL;
	g->shown = env->shown;
	g->watch_disk = disk && streq(disk, "watch");
	memcpy(g->home_hash, env->home_hash, sizeof g->home_hash);
	if (engine_daemon(g, e) && docker_info(g->docker, &g->info, e) == 0) {
		*ret = g;
		return 0;
	}
	close_engine(g);
	return -1;
}

static int probe_engine(struct engine *g, struct engine_report *ret, struct err *e)
{
	struct engine_check *c = &ret->checks[0];

	(void)e;
	memset(ret, 0, sizeof *ret);
	c->name = "docker.daemon";
	c->verdict = VERDICT_OK;
	str_format(c->result, sizeof c->result, "%s %.40s, API %.8s, at %.200s",
		g->info.podman ? "podman" : "docker", g->info.version, docker_api(g->docker),
		docker_host(g->docker));
	ret->n_checks = 1;
	ret->usable = true;
	return 0;
}

/* --- sandboxes ----------------------------------------------------------------------------------------------------- */

static char *const *copy_words(char *const *words)
{
	size_t n = 0, bytes = 0;
	char **copy, *p;

	while (words && words[n])
		bytes += strlen(words[n++]) + 1;
	copy = xcalloc(1, (n + 1) * sizeof *copy + bytes);
	p = (char *)(copy + n + 1);
	for (size_t i = 0; i < n; i++) {
		const size_t len = strlen(words[i]) + 1;

		copy[i] = memcpy(p, words[i], len);
		p += len;
	}
	return copy;
}

struct sandbox_spec *spec_copy(const struct sandbox_spec *s, struct err *e)
{
	struct sandbox_spec *c = xcalloc(1, sizeof *c);

	*c = *s;
	c->env = copy_words(s->env);
	c->image_fd = c->image_lock_fd = -1;
	for (unsigned i = 0; i < s->n_binds; i++) {
		c->binds[i].fd = fcntl(s->binds[i].fd, F_DUPFD_CLOEXEC, 3);
		if (c->binds[i].fd < 0)
			err_set(e, R_SETUP_FAILED, errno, "keep the sandbox's descriptors");
	}
	return c;
}

static void free_words(char *const *words)
{
	union {
		char *const *in;
		void *out;
	} u = { .in = words };

	free(u.out);
}

static void free_memory(struct sandbox *sb)
{
	dial_done(sb);
	if (sb->spec) {
		free_words(sb->spec->env);
		spec_done(sb->spec);
		free(sb->spec);
	}
	free_words(sb->command);
	free(sb);
}

static int create_sandbox(struct engine *g, const struct sandbox_spec *s,
	const struct engine_io *io, struct sandbox **ret, struct err *e)
{
	struct sandbox *sb;

	(void)io;
	if (spec_check(s, e) < 0)
		return -1;
	if (!s->session || !g->runs)
		return err_set(e, R_SETUP_FAILED, 0, "make a container for one command alone");
	note_use(g);
	sb = xcalloc(1, sizeof *sb);
	sb->engine = g;
	sb->owner = getpid();
	sb->listener = sb->control = -1;
	str_format(sb->id, sizeof sb->id, "%s", s->id);
	str_format(sb->image, sizeof sb->image, "%s",
		*s->image_ref ? s->image_ref : PROFILE_AGENT_IMAGE);
	sb->spec = spec_copy(s, e);
	sb->command = copy_words(g->shown);
	/* what is to end whatever happens; of the others the owner alone keeps the time, since it may be set anew */
	if (s->ttl_ms && s->profile != SPEC_CREATE)
		sb->deadline = boottime_ms() + s->ttl_ms;
	if (s->ttl_ms && !s->deadline_ms)
		sb->spec->deadline_ms = clock_ns(CLOCK_REALTIME) / 1000000u + s->ttl_ms;
	if (e->reason || container_create(sb, e) < 0) {
		free_memory(sb);
		return -1;
	}
	*ret = sb;
	return 0;
}

static int pidfd_of(const struct sandbox *sb)
{
	return sb->running ? sb->control : -1;
}

static void kill_sandbox(struct sandbox *sb)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_facts facts;

	(void)docker_session_halt(sb, &facts, &ignored);
}

static int remove_sandbox(struct sandbox *sb, struct engine_facts *ret, struct err *e)
{
	memset(ret, 0, sizeof *ret);
	sb->running = false;
	return container_remove(sb, e);
}

static void free_sandbox(struct sandbox *sb)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_facts facts;

	if (!sb)
		return;
	if (sb->owner == getpid()) {
		(void)remove_sandbox(sb, &facts, &ignored);
		docker_layers_sweep(sb->engine);
	}
	free_memory(sb);
}

const char *docker_runtime(const struct sandbox *sb)
{
	return *sb->spec->runtime ? sb->spec->runtime : sb->engine->info.default_runtime;
}

bool docker_on_gvisor(const struct sandbox *sb)
{
	return str_after(docker_runtime(sb), "runsc") != NULL;
}

uid_t docker_channel_uid(const struct sandbox *sb)
{
	(void)sb;
	return geteuid() == 0 ? CHANNEL_UID : (uid_t)-1;
}

/* --- going on without an owner ------------------------------------------------------------------------------------- */

enum { KEPT_VERSION = 2, RESUME_MS = 5000 };

struct kept {
	uint32_t version, layers;
	char container[DOCKER_ID], image[DOCKER_REF], own_image[LAYER_REF];
	uint64_t hi, lo, deadline;
	bool rebased;
};

static const struct sandbox_spec *spec_of(const struct sandbox *sb, char *const **ret_shown)
{
	*ret_shown = sb->command;
	return sb->spec;
}

static void keep_sandbox(const struct sandbox *sb, struct buf *out)
{
	struct kept k;

	memset(&k, 0, sizeof k);
	k.version = KEPT_VERSION;
	k.layers = sb->layers;
	memcpy(k.container, sb->container, sizeof k.container);
	memcpy(k.image, sb->image, sizeof k.image);
	memcpy(k.own_image, sb->own_image, sizeof k.own_image);
	k.hi = sb->hi;
	k.lo = sb->lo;
	k.deadline = sb->deadline;
	k.rebased = sb->rebased;
	(void)buf_add(out, &k, sizeof k);
}

/* The owner died while the guest was being started: it has a token that was not kept yet. */
static void take_token(struct sandbox *sb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s/ctl/token", sb->engine->runs, sb->id);
	char text[40], hi[17];

	/* 32 digits, as dial.c writes them */
	if (read_file_at(AT_FDCWD, path, text, sizeof text) < 32 ||
		strspn(text, "0123456789abcdef") != 32)
		return;
	FMT(hi, "%.16s", text);
	text[32] = '\0';
	sb->hi = strtoull(hi, NULL, 16);
	sb->lo = strtoull(text + 16, NULL, 16);
}

/* A guest that is frozen can't dial: whoever lets it go waits for it. */
static int find_it(struct sandbox *sb, struct err *e)
{
	struct docker *d = engine_daemon(sb->engine, e);
	_cleanup_json_ json_t *there = NULL;
	_cleanup_err_ struct err ignored = ERR_INIT;
	const json_t *state;

	if (!*sb->container)
		return 0;
	if (!d || docker_inspect(d, sb->container, &there, e) < 0)
		return -1;
	state = json_object_get(there, "State");
	sb->running = docker_json_true(state, "Running") || docker_json_true(state, "Paused");
	sb->paused = docker_json_true(state, "Paused");
	sb->first = (pid_t)docker_json_number(state, "Pid");
	if (!sb->running)
		return 0;
	take_token(sb);
	if (dial_listen(sb, e) < 0)
		return -1;
	/* one that does not come is found to be gone by whoever has it then */
	if (!sb->paused)
		(void)dial_await_control(sb, RESUME_MS, &ignored);
	return 0;
}

static int resume_sandbox(struct engine *g, const struct sandbox_spec *spec, char *const *shown,
	const void *kept, size_t n, struct sandbox **ret, struct err *e)
{
	struct sandbox *sb;
	struct kept k;

	if (n != sizeof k)
		return err_set(e, R_SANDBOX_LOST, 0, "take over sandbox '%s'", spec->id);
	memcpy(&k, kept, sizeof k);
	sb = xcalloc(1, sizeof *sb);
	sb->engine = g;
	sb->owner = getpid();
	sb->listener = sb->control = -1;
	str_format(sb->id, sizeof sb->id, "%s", spec->id);
	str_format(sb->container, sizeof sb->container, "%.*s", (int)sizeof k.container - 1,
		k.container);
	str_format(sb->image, sizeof sb->image, "%.*s", (int)sizeof k.image - 1, k.image);
	str_format(sb->own_image, sizeof sb->own_image, "%.*s", (int)sizeof k.own_image - 1,
		k.own_image);
	sb->layers = k.layers;
	sb->hi = k.hi;
	sb->lo = k.lo;
	sb->deadline = k.deadline;
	sb->rebased = k.rebased;
	sb->command = copy_words(shown);
	sb->spec = spec_copy(spec, e);
	if (k.version == KEPT_VERSION && !e->reason && find_it(sb, e) == 0) {
		*ret = sb;
		return 0;
	}
	if (!e->reason)
		err_set(e, R_SANDBOX_LOST, 0, "take over sandbox '%s'", sb->id);
	free_memory(sb);
	return -1;
}

/* --- those of dead owners ------------------------------------------------------------------------------------------ */

static int end_sandbox(struct engine *g, const char *id, struct err *e)
{
	struct docker *d = engine_daemon(g, e);
	char name[REQUEST_NAME];

	if (!d)
		return -1;
	if (!rundir_id_is_plain(id))
		return err_set(e, R_BAD_VALUE, 0, "end sandbox '%.32s': that is no id", id);
	request_name(name, g->home_hash, id);
	if (docker_remove(d, name, true, true, e) < 0)
		return -1;
	if (g->runs)
		container_ctl_remove(g, id);
	return 0;
}

static int list_engine(struct engine *g, void (*each)(void *arg, const char *id, bool alive),
	void *arg, struct err *e)
{
	_cleanup_json_ json_t *all = NULL;
	const json_t *one;
	size_t i;

	if (docker_home_containers(g, &all, e) < 0)
		return -1;
	json_array_foreach(all, i, one)
	{
		const char *id = docker_json_text(json_object_get(one, "Labels"), "bailey.id");

		if (id && rundir_id_is_plain(id))
			each(arg, id, g->runs && docker_owner_lives(g, id));
	}
	return 0;
}

const struct engine_ops engine_docker = {
	.name = "docker",
	.abi = ENGINE_ABI,
	.can = ENGINE_CAN_SESSION,
	.open = open_engine,
	.close = close_engine,
	.probe = probe_engine,
	.create = create_sandbox,
	.pidfd = pidfd_of,
	.kill = kill_sandbox,
	.remove = remove_sandbox,
	.free = free_sandbox,
	.boot = docker_session_boot,
	.connect = docker_session_connect,
	.halt = docker_session_halt,
	.gone = docker_session_gone,
	.watch = docker_session_watch,
	.pause = docker_session_pause,
	.stats = docker_session_stats,
	.seal = docker_layers_seal,
	.copy = docker_layers_copy,
	.adopt = docker_layers_adopt,
	.changes = docker_session_changes,
	.channel_uid = docker_channel_uid,
	.spec = spec_of,
	.keep = keep_sandbox,
	.resume = resume_sandbox,
	.used = docker_used,
	.unreachable = docker_unreachable,
	.sweep = docker_sweep,
	.end = end_sandbox,
	.list = list_engine,
};
