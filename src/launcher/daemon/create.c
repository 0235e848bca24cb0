/* Owns what a client may ask to be made: from names, values and descriptors to a request that a profile has built.  Called by
 * serve.c.  Must hold: every descriptor that goes into a sandbox was admitted here, every value was checked by the one parser
 * of its kind, and nothing that a profile decides can be said by a client. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"
#include "launcher/admit.h"
#include "launcher/daemon/daemon.h"
#include "launcher/launch_create.h"

#define MODEL_SOCKET "llm.sock"

struct asking {
	const struct launcher *l;
	const struct peer *peer;
	struct launch_in *m;
	unsigned at_fd;
	const char *name; /* of the sandbox; NULL: none */
	const char *image;
	uid_t agent_uid;
	char workspace[PACK_PATH]; /* how the client calls the first directory; told only */
};

/* --- what every profile has --- */

static int take_engine(const char *value, enum spawn_engine *ret, struct err *e)
{
	if (streq(value, "native"))
		*ret = SPAWN_NATIVE;
	else if (streq(value, "docker"))
		*ret = SPAWN_DOCKER;
	else
		return err_set(
			e, R_BAD_VALUE, 0, "use engine '%.32s': there is none of that name", value);
	return 0;
}

static int next_fd(struct asking *a, const char *key, int *ret, struct err *e)
{
	/* the last one is the answer's */
	if (a->at_fd + 1 >= a->m->n_fds)
		return err_set(e, R_BAD_VALUE, 0,
			"use parameter '%.64s': no descriptor came with it", key);
	*ret = a->m->fds[a->at_fd++];
	return 0;
}

/* --- tasks: the profiles of params.def --- */

/* The one directory of a host with a socket in it that may be shown: a task's own, with llm.sock. */
static int admit_sockets(const struct asking *a, int given, int *ret, struct err *e)
{
	_cleanup_close_ int sock = openat(given, MODEL_SOCKET, O_PATH | O_NOFOLLOW | O_CLOEXEC),
			    checked = -1;
	const struct admit how = { .path = MODEL_SOCKET,
		.use = ADMIT_SOCKET,
		.writable = true,
		.for_other = true,
		.uid = a->peer->uid };
	struct stat st, of;
	char link[64];

	if (fstat(given, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != a->peer->uid)
		return err_set(e, R_NOT_ALLOWED, 0,
			"show the sockets of a task: not a directory of uid '%u'", a->peer->uid);
	if (sock < 0 || fstat(sock, &of) < 0 || !S_ISSOCK(of.st_mode))
		return err_set(e, R_SOCKET_MISSING, sock < 0 ? errno : 0,
			"show the sockets of a task: '" MODEL_SOCKET "' is not a Unix socket");
	if (geteuid() == 0 && !(of.st_mode & S_IWOTH && st.st_mode & S_IXOTH))
		return err_set(e, R_PERMISSION_DENIED, EACCES,
			"show the sockets of a task: the agents' user could not connect to '" MODEL_SOCKET
			"'");
	if (admit_fd(&how, sock, &checked, e) < 0)
		return -1;
	*ret = open(FMT(link, "/proc/self/fd/%d", given), O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_set(e, R_NO_MEMORY, errno, "keep a descriptor") : 0;
}

static int admit_dir(const struct asking *a, const char *key, int given, int *ret, struct err *e)
{
	struct admit how = { .path = key,
		.use = ADMIT_WORKSPACE,
		.writable = !streq(key, "venv") && !streq(key, "script"),
		.for_other = true,
		.uid = a->peer->uid };
	struct stat st;

	if (streq(key, "sockets"))
		return admit_sockets(a, given, ret, e);
	if (fstat(given, &st) < 0)
		return err_set(e, R_MOUNT_SOURCE_MISSING, errno, "look at '%s'", key);
	if (daemon_is_handed_over(given, a->peer->uid))
		how.uid = st.st_uid;
	return admit_fd(&how, given, ret, e);
}

struct task {
	struct profile_param params[LAUNCH_MAX_STRINGS / 2];
	unsigned n;
	struct profile_fd fds[PARAM_MAX_DIRS];
	unsigned n_fds;
	struct profile_operator operator;
};

static void task_done(struct task *t)
{
	for (unsigned i = 0; i < t->n_fds; i++)
		t->fds[i].fd = close_fd(t->fds[i].fd);
	t->operator.base.image_fd = close_fd(t->operator.base.image_fd);
	t->operator.base.image_lock_fd = close_fd(t->operator.base.image_lock_fd);
}

/* Readable by whoever holds it; all that is done with it is that it stays open. */
static int take_lock(struct asking *a, struct task *t, const char *key, struct err *e)
{
	int *lock = &t->operator.base.image_lock_fd, given;
	struct stat st;

	if (next_fd(a, key, &given, e) < 0)
		return -1;
	if (*lock >= 0 || fstat(given, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, R_BAD_VALUE, 0, "use parameter '%s': not one file", key);
	*lock = fcntl(given, F_DUPFD_CLOEXEC, 3);
	return *lock < 0 ? err_set(e, R_NO_MEMORY, errno, "keep a descriptor") : 0;
}

static int take_image(struct asking *a, struct task *t, const char *key, struct err *e)
{
	const struct admit how = {
		.path = "image", .use = ADMIT_IMAGE, .for_other = true, .uid = a->peer->uid
	};
	int given;

	if (t->operator.base.image_fd >= 0)
		return err_set(e, R_BAD_VALUE, 0, "use parameter '%s': it is given twice", key);
	return next_fd(a, key, &given, e) < 0
		? -1
		: admit_fd(&how, given, &t->operator.base.image_fd, e);
}

static int take_dir(
	struct asking *a, struct task *t, const char *key, const char *path, struct err *e)
{
	struct profile_fd *fd = &t->fds[t->n_fds];
	int given;

	if (t->n_fds == PARAM_MAX_DIRS)
		return err_set(
			e, R_BAD_VALUE, 0, "use parameter '%.64s': too many directories", key);
	*fd = (struct profile_fd){ .key = key + 1, .fd = -1 };
	if (next_fd(a, key, &given, e) < 0 || admit_dir(a, key + 1, given, &fd->fd, e) < 0)
		return -1;
	t->n_fds++;
	if (!streq(key, "@venv") && !streq(key, "@sockets") && strlen(path) < sizeof a->workspace)
		str_format(a->workspace, sizeof a->workspace, "%s", path);
	return 0;
}

static int take_pair(struct asking *a, struct task *t, const char *key, const char *value,
	enum spawn_engine *ret_engine, struct err *e)
{
	if (streq(key, "engine"))
		return take_engine(value, ret_engine, e);
	if (streq(key, "name")) {
		a->name = value;
		return 0;
	}
	if (streq(key, "@image")) {
		a->image = value;
		return take_image(a, t, key, e);
	}
	if (streq(key, "@image_lock"))
		return take_lock(a, t, key, e);
	if (*key == '@')
		return take_dir(a, t, key, value, e);
	t->params[t->n++] = (struct profile_param){ .key = key, .value = value };
	return 0;
}

static void set_operator(struct asking *a, struct profile_operator *o)
{
	*o = (struct profile_operator){ .base = PROFILE_BASE_INIT,
		.agent_uid = a->agent_uid,
		.agent_gid = daemon_agent_id("BAILEY_AGENT_GID"),
		.caller_uid = a->peer->uid,
		.caller_gid = a->peer->gid,
		.same_user = geteuid() != 0 };
	o->base.image_ref = secure_getenv("BAILEY_AGENT_IMAGE") ?: PROFILE_AGENT_IMAGE;
	o->base.runtime = secure_getenv("BAILEY_RUNTIME");
	o->base.now_ms = clock_ns(CLOCK_REALTIME) / 1000000u;
}

static int build_task(struct asking *a, struct task *t, struct pack_request *ret,
	enum spawn_engine *ret_engine, struct err *e)
{
	struct launch_in *m = a->m;
	_cleanup_profile_request_ struct profile_request request = { .memory = NULL };

	for (uint32_t i = 1; i + 1 < m->n; i += 2)
		if (take_pair(a, t, m->v[i], m->v[i + 1], ret_engine, e) < 0)
			return -1;
	if (profile_from_params(
		    &request, m->v[0], t->params, t->n, t->fds, t->n_fds, &t->operator, e) < 0)
		return -1;
	/* they are the request's now */
	t->operator.base.image_fd = t->operator.base.image_lock_fd = - 1;
	if (profile_build(ret, &request, e) < 0)
		return -1;
	str_format(ret->workspace, sizeof ret->workspace, "%s", a->workspace);
	str_format(ret->image, sizeof ret->image, "%s", *ret_engine == SPAWN_DOCKER ? t->operator.base.image_ref
		: a->image && *a->image && strlen(a->image) < sizeof ret->image ? a->image : "host");
	return 0;
}

/* --- sandboxes that live --- */

static int build_create(
	struct asking *a, struct pack_request *ret, enum spawn_engine *ret_engine, struct err *e)
{
	struct launch_create c;
	int r = launch_create_get(&c, a->m, a->peer->uid, e);

	if (r == 0)
		r = take_engine(c.engine ?: "native", ret_engine, e);
	if (r == 0)
		r = launch_create_build(&c, ret, e);
	launch_create_done(&c);
	return r;
}

/* --- all --- */

static int build(
	struct asking *a, struct pack_request *ret, enum spawn_engine *ret_engine, struct err *e)
{
	_cleanup_(task_done) struct task t = { .operator= { .base = PROFILE_BASE_INIT } };

	if (streq(a->m->v[0], "create"))
		return build_create(a, ret, ret_engine, e);
	set_operator(a, &t.operator);
	return build_task(a, &t, ret, ret_engine, e);
}

static int finish(const struct asking *a, struct pack_request *r, struct err *e)
{
	struct sandbox_spec *s = &r->spec;

	if (a->name && !pack_name_is_valid(a->name))
		return err_set(e, R_BAD_VALUE, 0,
			"use name '%.64s': not of [a-z0-9][a-z0-9._-]{0,62}", a->name);
	if (a->name)
		str_format(r->name, sizeof r->name, "%s", a->name);
	s->has_caller = a->peer->uid != geteuid();
	s->caller_uid = s->has_caller ? a->peer->uid : 0;
	s->caller_gid = s->has_caller ? a->peer->gid : 0;
	/* nothing made here is without an end */
	if (!s->ttl_ms)
		s->ttl_ms = a->l->ceiling.lifetime_ms;
	return ceiling_check(&a->l->ceiling, r, e);
}

int create_build(const struct launcher *l, const struct peer *p, struct launch_in *m,
	struct pack_request *ret, enum spawn_engine *ret_engine, struct err *e)
{
	struct asking a = {
		.l = l, .peer = p, .m = m, .agent_uid = daemon_agent_id("BAILEY_AGENT_UID")
	};

	*ret_engine = SPAWN_NATIVE;
	if (m->n % 2 == 0)
		return err_set(e, R_BAD_VALUE, 0, "make a sandbox: a parameter has no value");
	if (build(&a, ret, ret_engine, e) < 0)
		return -1;
	if (finish(&a, ret, e) == 0)
		return 0;
	pack_done(ret);
	return -1;
}
