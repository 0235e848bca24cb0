/* From options to a run_request.  This is the only place where a path that the user names is opened. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "door/cli/run.h"
#include "launcher/admit.h"

enum { ENV_FILE_MAX = 4 << 20 };

void strlist_done(struct strlist *l)
{
	for (unsigned i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct strlist){ NULL, 0 };
}

void run_strings_done(struct run_strings *s)
{
	strlist_done(&s->env);
	image_done(&s->image);
	free(s->command);
	s->command = NULL;
}

static int add_env(struct strlist *l, const char *entry, struct err *e)
{
	const char *eq = strchr(entry, '='), *value;
	char **grown;
	char *copy;

	if (l->n >= PROFILE_MAX_EXTRA_ENV)
		return err_set(e, R_OUT_OF_RANGE, 0, "pass environment variables: over %d",
			PROFILE_MAX_EXTRA_ENV);
	if (!*entry || eq == entry)
		return err_set(
			e, R_BAD_VALUE, 0, "read environment variable '%.64s': no name", entry);
	for (const char *p = entry; *p && p != eq; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f)
			return err_set(e, R_BAD_VALUE, 0,
				"read environment variable '%.32s': its name has a control character",
				entry);
	if (eq) {
		copy = xstrdup(entry);
	} else {
		value = getenv(entry);
		if (!value)
			return err_set(e, R_BAD_VALUE, 0,
				"pass environment variable '%s': not set here", entry);
		copy = xasprintf("%s=%s", entry, value);
	}
	grown = realloc(l->v, (l->n + 1) * sizeof *grown);
	if (!grown)
		abort();
	l->v = grown;
	l->v[l->n++] = copy;
	return 0;
}

/* NAME=VALUE lines; empty ones and those that begin with '#' are skipped. */
static int read_env_file(struct strlist *l, const char *path, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_buf_ struct buf text = { .max = ENV_FILE_MAX };
	char *save = NULL;

	if (fd < 0)
		return err_set(e, R_BAD_VALUE, errno, "open environment file '%s'", path);
	if (read_all(fd, &text) < 0)
		return err_set(e, R_BAD_VALUE, errno, "read environment file '%s'", path);
	if (text.data && strlen(text.data) != text.len)
		return err_set(
			e, R_BAD_VALUE, 0, "read environment file '%s': it holds a NUL byte", path);
	for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL; line;
		line = strtok_r(NULL, "\n", &save)) {
		if (*line == '#' || !*line)
			continue;
		if (add_env(l, line, e) < 0)
			return err_wrap(e, "environment file '%s'", path);
	}
	return 0;
}

/* The image's own first: what the caller sets comes on top. */
static int fill_env(
	struct run_request *r, const struct options *o, struct run_strings *own, struct err *e)
{
	struct strlist *env = &own->env;

	for (unsigned i = 0; i < own->image.env.n; i++)
		if (add_env(env, own->image.env.v[i], e) < 0)
			return err_wrap(e, "image '%s'", own->image.name);
	if (o->env_file && read_env_file(env, o->env_file, e) < 0)
		return -1;
	for (unsigned i = 0; i < o->env.n; i++)
		if (add_env(env, o->env.v[i], e) < 0)
			return -1;
	r->env = env->v;
	r->n_env = env->n;
	return 0;
}

/* Cuts ":rw" or ":ro" off the end; true when there was one. */
static bool cut_mode(char *text, bool *ret_writable)
{
	size_t n = strlen(text);

	if (n < 3 || text[n - 3] != ':' || text[n - 2] != 'r' ||
		(text[n - 1] != 'w' && text[n - 1] != 'o'))
		return false;
	*ret_writable = text[n - 1] == 'w';
	text[n - 3] = '\0';
	return true;
}

static int add_bind(struct run_request *r, const struct admit *a, const char *target,
	enum spec_bind_kind kind, struct err *e)
{
	struct spec_bind *b = &r->binds[r->n_binds];

	if (r->n_binds == SPEC_MAX_BINDS)
		return err_set(e, R_OUT_OF_RANGE, 0, "mount '%s': over %d mounts", a->path,
			SPEC_MAX_BINDS);
	if (strlen(target) >= sizeof b->target)
		return err_set(e, R_MOUNT_TARGET_INVALID, 0,
			"use mount target '%.64s...': too long", target);
	if (admit_open(a, &b->fd, e) < 0)
		return -1;
	b->kind = kind;
	b->writable = a->writable;
	b->idmap = geteuid() == 0;
	str_format(b->target, sizeof b->target, "%s", target);
	r->n_binds++;
	return 0;
}

static int fill_workspace(struct run_request *r, const struct options *o, struct err *e)
{
	_cleanup_free_ char *dir = NULL;
	struct admit a = { .use = ADMIT_WORKSPACE, .allow_root_owned = o->root_workspace };

	if (!o->workspace)
		return 0;
	dir = xstrdup(o->workspace);
	(void)cut_mode(dir, &a.writable);
	a.path = dir;
	r->has_workspace = true;
	return add_bind(r, &a, "/workspace", BIND_DIR, e);
}

static int fill_mount(
	struct run_request *r, const struct options *o, const char *text, struct err *e)
{
	_cleanup_free_ char *source = xstrdup(text);
	struct admit a = {
		.use = ADMIT_MOUNT, .path = source, .allow_root_owned = o->root_workspace
	};
	char *colon;

	(void)cut_mode(source, &a.writable);
	colon = strrchr(source, ':');
	if (!colon || colon == source || !colon[1])
		return err_set(
			e, R_BAD_VALUE, 0, "read mount '%.128s': not SRC:DST or SRC:DST:rw", text);
	*colon = '\0';
	if (spec_check_target(colon + 1, e) < 0)
		return -1;
	return add_bind(r, &a, colon + 1, BIND_DIR, e);
}

static int fill_socket(struct run_request *r, const struct options *o, struct err *e)
{
	const struct admit a = { .use = ADMIT_SOCKET, .path = o->model_socket, .writable = true };

	if (!o->model_socket)
		return 0;
	r->model_relay = true;
	return add_bind(r, &a, SPEC_MODEL_SOCKET, BIND_SOCKET, e);
}

static int open_directory(struct run_request *r, const struct options *o, struct err *e)
{
	const struct admit a = { .use = ADMIT_IMAGE, .path = o->image };
	struct stat st;

	if (admit_open(&a, &r->image_fd, e) < 0)
		return -1;
	if (fstatat(r->image_fd, "usr", &st, AT_SYMLINK_NOFOLLOW) < 0 &&
		fstatat(r->image_fd, "bin", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, R_IMAGE_INVALID, 0,
			"use image '%s': neither 'usr' nor 'bin' is in it", o->image);
	return 0;
}

/* 'host', a directory by a path, else a name in the store. */
static int fill_image(
	struct run_request *r, const struct options *o, struct run_strings *own, struct err *e)
{
	_cleanup_free_ char *home = NULL;
	struct image *i = &own->image;

	if (!o->image || streq(o->image, "host"))
		return 0;
	if (strchr(o->image, '/'))
		return open_directory(r, o, e);
	if (home_path(&home, e) < 0 || image_open(home, o->image, i, e) < 0)
		return -1;
	r->image_fd = move_fd(&i->root_fd);
	r->image_lock_fd = move_fd(&i->lock_fd);
	if (!r->workdir && !o->workspace)
		r->workdir = i->workdir;
	if (i->has_user && o->origin[OPTION_user].kind == ORIGIN_DEFAULT) {
		r->uid = (uid_t)i->uid;
		r->gid = (gid_t)i->gid;
	}
	return 0;
}

/* No command: the image's, entrypoint and arguments. */
static int fill_command(struct run_request *r, struct run_strings *own, struct err *e)
{
	const struct image *i = &own->image;
	size_t n = (size_t)i->entrypoint.n + i->cmd.n;

	if (r->argv)
		return 0;
	if (!n) {
		if (i->name)
			(void)err_set(e, R_USAGE, 0,
				"run 'bailey run': no command, and image '%s' has none", i->name);
		else
			(void)err_set(e, R_USAGE, 0, "run 'bailey run': no command");
		return err_remedy(e, "Write 'bailey run [FLAG ...] [--] COMMAND [ARGUMENT ...]'.");
	}
	own->command = xcalloc(n + 1, sizeof *own->command);
	for (unsigned k = 0; k < i->entrypoint.n; k++)
		own->command[k] = i->entrypoint.v[k];
	for (unsigned k = 0; k < i->cmd.n; k++)
		own->command[i->entrypoint.n + k] = i->cmd.v[k];
	r->argv = own->command;
	return 0;
}

static int fill_user(struct run_request *r, const char *text, struct err *e)
{
	_cleanup_free_ char *copy = xstrdup(text);
	char *colon = strchr(copy, ':');
	uint64_t uid, gid;

	if (colon)
		*colon++ = '\0';
	if (parse_u64(copy, 0, 65534, "user", &uid, e) < 0 ||
		parse_u64(colon ? colon : copy, 0, 65534, "group", &gid, e) < 0)
		return -1;
	r->uid = (uid_t)uid;
	r->gid = (gid_t)gid;
	return 0;
}

int run_request_fill(struct run_request *r, const struct options *o, char **argv,
	struct run_strings *own, struct err *e)
{
	memset(r, 0, sizeof *r);
	r->image_fd = r->image_lock_fd = -1;
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		r->binds[i].fd = -1;
	r->argv = argv;
	r->workdir = o->workdir;
	r->allow_setgid = o->allow_setgid;
	r->tmp_size = o->tmp_size;
	r->limits = (struct spec_limits){ .memory_bytes = o->memory,
		.cpu_millis = o->cpus,
		.pids = (uint32_t)o->pids,
		.timeout_ms = o->timeout,
		.unlimited = o->unlimited };
	if (!streq(o->network, "none"))
		return err_set(e, R_NETWORK_UNSUPPORTED, 0,
			"use network '%.64s': only 'none' exists", o->network);
	if (fill_user(r, o->user, e) < 0 || fill_image(r, o, own, e) < 0 ||
		fill_command(r, own, e) < 0 || fill_env(r, o, own, e) < 0 ||
		fill_workspace(r, o, e) < 0)
		return -1;
	for (unsigned i = 0; i < o->mount.n; i++)
		if (fill_mount(r, o, o->mount.v[i], e) < 0)
			return -1;
	return fill_socket(r, o, e);
}

void run_request_done(struct run_request *r)
{
	r->image_fd = close_fd(r->image_fd);
	if (r->image_lock_fd > 0)
		r->image_lock_fd = close_fd(r->image_lock_fd);
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		r->binds[i].fd = close_fd(r->binds[i].fd);
}
