/* Owns the directories of a profile's request: where they lie, who may own them, that no link leads elsewhere.  Called by
 * bailey_create().
 *
 * Must hold: a path is opened once, and what is checked is what was opened.  Directories that follow from a task's id lie
 * beneath Bailey's home, and no component on the way is a link. */
#include "client/profile.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "client/client.h"
#include "client/request.h"
#include "launcher/admit.h"
#include "launcher/launch.h"
#include "spec/params.h"

#define MODEL_SOCKET "llm.sock"
enum { MAX_ID = 65534, DEFAULT_ID = 1000 };

/* What is collected for the parser. */
struct task {
	const struct bailey *b;
	const struct bailey_create_options *o;
	enum spec_profile profile;
	struct profile_param *params;
	unsigned n_params;
	struct profile_fd dirs[PARAM_MAX_DIRS];
	unsigned n_dirs;
	const char *tid, *operation;
	char workspace[PACK_PATH]; /* how the first directory is called */
	struct buf words;
	struct image image;
	struct profile_operator operator;
};

static void task_done(struct task *t)
{
	for (unsigned i = 0; i < t->n_dirs; i++)
		t->dirs[i].fd = close_fd(t->dirs[i].fd);
	t->operator.base.image_fd = close_fd(t->operator.base.image_fd);
	t->operator.base.image_lock_fd = close_fd(t->operator.base.image_lock_fd);
	image_done(&t->image);
	buf_done(&t->words);
	free(t->params);
}

/* --- options ------------------------------------------------------------------------------------------------------- */

static int check_options(const struct task *t, struct err *e)
{
	const struct bailey_create_options *o = t->o;
	const struct {
		bool set;
		const char *name;
	} others[] = {
		{ o->workspace, "workspace" },
		{ o->n_mounts, "mount" },
		{ o->env && *o->env, "env" },
		{ o->workdir, "workdir" },
		{ o->user, "user" },
		{ o->hostname, "hostname" },
		{ o->network && !streq(o->network, "none"), "network" },
		{ o->model_socket, "model-socket" },
		{ o->memory, "memory" },
		{ o->cpu_millis, "cpus" },
		{ o->pids, "pids" },
		{ o->disk, "disk" },
		{ o->tmp_size, "tmp-size" },
		{ o->ttl_ms, "ttl" },
		{ o->flags & BAILEY_READ_ONLY, "read-only" },
		{ o->flags & BAILEY_UNLIMITED, "unlimited" },
		{ o->flags & BAILEY_ALLOW_SETGID, "allow-setgid" },
		{ o->command && t->profile != SPEC_AGENT, "command" },
	};

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i].set)
			return err_set(e, R_BAD_VALUE, 0,
				"use '%s' with profile '%s': its settings are built in",
				others[i].name, spec_profile_name(t->profile));
	return 0;
}

/* --- directories --------------------------------------------------------------------------------------------------- */

static bool is_written(const struct task *t, const char *key)
{
	static const char *const read[] = { "venv", "script" };
	const char *op = t->operation ? t->operation : "";

	for (size_t i = 0; i < sizeof read / sizeof *read; i++)
		if (streq(key, read[i]))
			return false;
	if (streq(key, "repo") || streq(key, "git_dir"))
		return streq(op, "deliver") || streq(op, "delete-branch");
	return !streq(key, "shadow") || streq(op, "snapshot");
}

static bool by_docker(const struct task *t)
{
	return streq(t->b->engine, "docker");
}

/* Where agents have an id of the host's that isn't the caller's. */
static bool has_agent_id(const struct task *t)
{
	return geteuid() == 0 || t->b->launcher || by_docker(t);
}

/* A directory may have been handed over already; a launcher looks itself whose it was. */
static bool is_agents(const struct task *t, const struct stat *st)
{
	return has_agent_id(t) && st->st_uid == t->operator.agent_uid;
}

static int add_dir(struct task *t, const char *key, int fd, const char *path, struct err *e)
{
	if (t->n_dirs == PARAM_MAX_DIRS) {
		(void)close_fd(fd);
		return err_set(
			e, R_BAD_VALUE, 0, "use parameter '%.64s': too many directories", key);
	}
	if (!streq(key, "sockets") && !streq(key, "venv"))
		str_format(t->workspace, sizeof t->workspace, "%s", path);
	t->dirs[t->n_dirs++] = (struct profile_fd){ key, fd };
	return 0;
}

/* Nothing else may be in it: all that it holds is an agent's way out. */
static int check_only_socket(int dir, const char *path, struct err *e)
{
	_cleanup_closedir_ DIR *d = NULL;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		(void)close_fd(fd);
		return err_set(e, R_SOCKET_MISSING, errno, "read '%s'", path);
	}
	for (;;) {
		struct dirent *entry = readdir(d);

		if (!entry)
			return 0;
		if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..") &&
			!streq(entry->d_name, MODEL_SOCKET))
			return err_set(e, R_MOUNT_FORBIDDEN, 0,
				"give an agent '%s': it holds more than '" MODEL_SOCKET "'", path);
	}
}

static int check_socket(const struct task *t, int dir, const char *path, struct err *e)
{
	_cleanup_free_ char *name = xasprintf("%s/" MODEL_SOCKET, path);
	_cleanup_close_ int fd = openat(dir, MODEL_SOCKET, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, above;

	if (check_only_socket(dir, path, e) < 0)
		return -1;
	if (fd < 0 || fstat(fd, &st) < 0 || fstat(dir, &above) < 0 || !S_ISSOCK(st.st_mode))
		return err_set(e, R_SOCKET_MISSING, fd < 0 ? errno : 0,
			"use model socket '%s': not a Unix socket", name);
	if ((geteuid() == 0 || by_docker(t)) &&
		!((st.st_mode & S_IWOTH || is_agents(t, &st)) &&
			(above.st_mode & S_IXOTH || is_agents(t, &above)))) {
		(void)err_set(e, R_PERMISSION_DENIED, EACCES,
			"use model socket '%s': uid '%u' could not connect to it", name,
			t->operator.agent_uid);
		return err_remedy(
			e, "Run 'chmod o+x' on '%s' and 'chmod o+w' on the socket in it.", path);
	}
	return 0;
}

/* One that a parameter names may be any program's. */
static int admit_socket(int dir, const char *path, struct err *e)
{
	_cleanup_free_ char *name = xasprintf("%s/" MODEL_SOCKET, path);
	const struct admit a = { .use = ADMIT_SOCKET, .path = name, .writable = true };
	_cleanup_close_ int fd = openat(dir, MODEL_SOCKET, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int checked = -1;

	if (fd < 0)
		return err_set(e, R_SOCKET_MISSING, errno, "open '%s'", name);
	return request_admit(&a, fd, &checked, e);
}

static int check_owner(const struct task *t, int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "look at '%s'", path);
	if (st.st_uid == geteuid() || is_agents(t, &st))
		return 0;
	return err_set(e, R_WORKSPACE_NOT_OWNED, 0, "use '%s': it belongs to uid '%u', not '%u'",
		path, st.st_uid, geteuid());
}

/* A directory that a parameter names. */
static int open_named(struct task *t, const char *key, const char *path, struct err *e)
{
	struct admit a = { .use = ADMIT_WORKSPACE,
		.path = path,
		.writable = is_written(t, key),
		.allow_root_owned = t->o->flags & BAILEY_ROOT_WORKSPACE };
	_cleanup_close_ int fd = -1;
	struct stat st;
	int checked = -1;

	if (!*path || str_has_control(path) || strlen(path) >= PACK_PATH)
		return err_set(e, R_BAD_VALUE, 0,
			"use parameter '%.64s': its path is empty, too long, or with control characters",
			key);
	fd = sys_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)err_set(e, R_MOUNT_SOURCE_MISSING, errno, "open '%s'", path);
		return err_wrap(e, "parameter '%.64s'", key);
	}
	if (streq(key, "sockets"))
		return check_owner(t, fd, path, e) < 0 || check_socket(t, fd, path, e) < 0 ||
				admit_socket(fd, path, e) < 0
			? -1
			: add_dir(t, key, move_fd(&fd), path, e);
	if (is_agents(t, &st)) {
		a.for_other = true;
		a.uid = st.st_uid;
	}
	if (request_admit(&a, fd, &checked, e) < 0)
		return err_wrap(e, "parameter '%.64s'", key);
	return add_dir(t, key, checked, path, e);
}

/* KEY's/TID in Bailey's home, where nothing else decides what it is. */
static int open_derived(struct task *t, const char *key, const char *place, struct err *e)
{
	_cleanup_free_ char *path = xasprintf("%s/%s/%s", t->b->home, place, t->tid);
	_cleanup_close_ int home = open(t->b->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	char below[SPEC_TID + 32];

	if (home >= 0)
		fd = sys_openat2(home, FMT(below, "%s/%s", place, t->tid), O_PATH | O_DIRECTORY, 0,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0) {
		(void)err_set(e, R_MOUNT_SOURCE_MISSING, errno, "open '%s'", path);
		return err_wrap(e, "parameter '%s' is not given", key);
	}
	if (check_owner(t, fd, path, e) < 0 ||
		(streq(key, "sockets") && check_socket(t, fd, path, e) < 0))
		return -1;
	return add_dir(t, key, move_fd(&fd), path, e);
}

static bool has_dir(const struct task *t, const char *key)
{
	for (unsigned i = 0; i < t->n_dirs; i++)
		if (streq(t->dirs[i].key, key))
			return true;
	return false;
}

static int open_defaults(struct task *t, struct err *e)
{
	static const struct {
		const char *key, *place;
	} derived[] = { { "worktree", "worktrees" }, { "sockets", "sockets" } };

	for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
		if (t->tid && spec_tid_is_valid(t->tid) && param_find(t->profile, derived[i].key) &&
			!has_dir(t, derived[i].key) &&
			open_derived(t, derived[i].key, derived[i].place, e) < 0)
			return -1;
	return 0;
}

/* --- parameters ---------------------------------------------------------------------------------------------------- */

static void note(struct task *t, const struct bailey_param *p)
{
	if (streq(p->key, "tid"))
		t->tid = p->value;
	if (streq(p->key, "operation"))
		t->operation = p->value;
}

/* The words of a command, where it is given as such. */
static int add_words(struct task *t, struct err *e)
{
	const char *const *words = t->o->command;

	for (size_t i = 0; words && words[i]; i++)
		if (!utf8_valid(words[i], strlen(words[i])))
			return err_set(e, R_BAD_VALUE, 0,
				"use a command: its argument %zu is not UTF-8", i);
	if (!words)
		return 0;
	param_put_words(&t->words, words);
	if (t->words.failed)
		return err_set(e, R_BAD_VALUE, 0, "use a command: it is too long");
	t->params[t->n_params++] = (struct profile_param){ "command", t->words.data };
	return 0;
}

static int take_params(struct task *t, struct err *e)
{
	const struct bailey_create_options *o = t->o;

	t->params = xcalloc(o->n_params + 1, sizeof *t->params);
	for (size_t i = 0; i < o->n_params; i++) {
		if (!o->params[i].key || !o->params[i].value)
			return err_set(
				e, R_BAD_VALUE, 0, "use a parameter without a key or a value");
		note(t, &o->params[i]);
	}
	for (size_t i = 0; i < o->n_params; i++) {
		const struct bailey_param *p = &o->params[i];
		const struct param *param = param_find(t->profile, p->key);

		if (!param || param->type != PARAM_DIR)
			t->params[t->n_params++] = (struct profile_param){ p->key, p->value };
		else if (has_dir(t, p->key))
			return err_set(
				e, R_BAD_VALUE, 0, "use parameter '%s': it is given twice", p->key);
		else if (open_named(t, p->key, p->value, e) < 0)
			return -1;
	}
	return add_words(t, e) < 0 ? -1 : open_defaults(t, e);
}

static int set_operator(struct task *t, struct err *e)
{
	struct profile_operator *op = &t->operator;

	op->agent_uid = t->b->agent_uid;
	op->agent_gid = t->b->agent_gid;
	/* inside there are no higher ones, and a normal user's own may have any */
	op->caller_uid = geteuid() > MAX_ID ? DEFAULT_ID : geteuid();
	op->caller_gid = getegid() > MAX_ID ? DEFAULT_ID : getegid();
	/* the native engine: a normal user's sandboxes have one id of the host's, the user's own */
	op->same_user = geteuid() != 0 && !by_docker(t);
	op->base.now_ms = clock_ns(CLOCK_REALTIME) / 1000000u;
	op->base.image_ref = PROFILE_AGENT_IMAGE;
	if (by_docker(t)) {
		/* it has images of its own: nothing of the host is opened for it */
		if (t->o->image && !streq(t->o->image, "host"))
			op->base.image_ref = t->o->image;
		op->base.runtime = t->b->runtime;
		return 0;
	}
	return request_image(
		t->b->home, t->o->image, &op->base.image_fd, &op->base.image_lock_fd, &t->image, e);
}

static int make(struct task *t, struct pack_request *ret, struct err *e)
{
	_cleanup_profile_request_ struct profile_request r = { .profile = SPEC_RUN };

	if (set_operator(t, e) < 0 || take_params(t, e) < 0 ||
		profile_from_params(&r, t->o->profile, t->params, t->n_params, t->dirs, t->n_dirs,
			&t->operator, e) < 0)
		return -1;
	/* they are the request's now */
	t->operator.base.image_fd = t->operator.base.image_lock_fd = - 1;
	if (profile_build(ret, &r, e) < 0)
		return -1;
	str_format(ret->workspace, sizeof ret->workspace, "%s", t->workspace);
	return 0;
}

/* --- by a launcher ------------------------------------------------------------------------------------------------ */

static void put_pair(struct launch_out *out, const char *key, const char *value)
{
	launch_put(out, key);
	launch_put(out, value);
}

static void put_fd(struct launch_out *out, const char *key, const char *value, int fd)
{
	char name[PARAM_MAX_KEY + 2];

	if (fd < 0)
		return;
	put_pair(out, FMT(name, "@%.*s", PARAM_MAX_KEY, key), value);
	launch_put_fd(out, fd);
}

static int put_all(struct task *t, struct launch_out *out, struct err *e)
{
	const struct bailey_create_options *o = t->o;

	if (o->name && !name_is_valid(o->name))
		return err_set(e, R_BAD_VALUE, 0,
			"use name '%.64s': not of [a-z0-9][a-z0-9._-]{0,62}", o->name);
	if (o->flags & BAILEY_KEEP)
		return err_set(e, R_NOT_ALLOWED, 0, "keep a task's sandbox that a launcher makes");
	launch_put(out, o->profile);
	if (o->name)
		put_pair(out, "name", o->name);
	put_fd(out, "image", o->image ? o->image : "host", t->operator.base.image_fd);
	put_fd(out, "image_lock", "", t->operator.base.image_lock_fd);
	for (unsigned i = 0; i < t->n_dirs; i++)
		put_fd(out, t->dirs[i].key, t->workspace, t->dirs[i].fd);
	for (unsigned i = 0; i < t->n_params; i++)
		put_pair(out, t->params[i].key, t->params[i].value);
	return 0;
}

static int ask(struct task *t, int (*send)(void *arg, struct launch_out *out, struct err *e),
	void *arg, struct err *e)
{
	_cleanup_launch_out_ struct launch_out out = LAUNCH_OUT_INIT;

	/* what is wrong with a path is found here, where it is named */
	if (check_options(t, e) < 0 || set_operator(t, e) < 0 || take_params(t, e) < 0 ||
		put_all(t, &out, e) < 0)
		return -1;
	return send(arg, &out, e);
}

static void task_init(struct task *t, const struct bailey *b, const struct bailey_create_options *o)
{
	const int found = spec_profile_find(o->profile);

	*t = (struct task){ .b = b,
		.o = o,
		.profile = found < 0 ? SPEC_RUN : (enum spec_profile)found,
		.operator= { .base = PROFILE_BASE_INIT },
		.words = { .max = PARAM_MAX_VALUE } };
	image_init(&t->image);
}

int client_profile_ask(const struct bailey *b, const struct bailey_create_options *o,
	int (*send)(void *arg, struct launch_out *out, struct err *e), void *arg, struct err *e)
{
	struct task t;
	int r;

	task_init(&t, b, o);
	r = ask(&t, send, arg, e);
	task_done(&t);
	return r;
}

int client_profile(const struct bailey *b, const struct bailey_create_options *o,
	struct pack_request *ret, struct err *e)
{
	struct task t;
	int r;

	task_init(&t, b, o);
	r = check_options(&t, e);
	if (r == 0)
		r = make(&t, ret, e);
	task_done(&t);
	return r;
}
