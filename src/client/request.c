/* Owns the one place where a path that a client names is opened.  Called by bailey_create() and by `bailey run`.
 *
 * Must hold: what a path leads to is decided here, with the rights of whoever names it; everything behind works on the
 * descriptor. */
#include "client/request.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "launcher/admit.h"
#include "tree/tree.h"

enum { DEFAULT_PIDS = 256, DEFAULT_CPU_MILLIS = 1000, DEFAULT_ID = 1000 };
#define DEFAULT_MEMORY (2ull << 30)
#define DEFAULT_DISK (1ull << 30)
#define DEFAULT_TMP (64ull << 20)
#define MIN_DISK (1ull << 20)

/* admit_open() looks up once for the whole process what is forbidden. */
static pthread_mutex_t admit_lock = PTHREAD_MUTEX_INITIALIZER;

void request_strings_done(struct request_strings *s)
{
	for (unsigned i = 0; i < s->n_env; i++)
		free(s->env[i]);
	free(s->env);
	s->env = NULL;
	s->n_env = 0;
	image_done(&s->image);
}

void request_done(struct run_request *r)
{
	r->image_fd = close_fd(r->image_fd);
	if (r->image_lock_fd > 0)
		r->image_lock_fd = close_fd(r->image_lock_fd);
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		r->binds[i].fd = close_fd(r->binds[i].fd);
}

static int add_env(struct request_strings *s, const char *entry, struct err *e)
{
	const char *eq = strchr(entry, '=');
	char **grown;

	if (s->n_env >= PROFILE_MAX_EXTRA_ENV)
		return err_set(e, R_OUT_OF_RANGE, 0, "pass environment variables: over %d",
			PROFILE_MAX_EXTRA_ENV);
	if (!eq || eq == entry)
		return err_set(e, R_BAD_VALUE, 0,
			"pass environment variable '%.64s': not NAME=VALUE", entry);
	for (const char *p = entry; p < eq; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f)
			return err_set(e, R_BAD_VALUE, 0,
				"read environment variable '%.32s': its name has a control character",
				entry);
	grown = realloc(s->env, (s->n_env + 1) * sizeof *grown);
	if (!grown)
		return err_set(e, R_NO_MEMORY, ENOMEM, "pass environment variables");
	s->env = grown;
	s->env[s->n_env++] = xstrdup(entry);
	return 0;
}

/* The image's own first: what the caller sets comes on top. */
static int fill_env(struct run_request *r, const struct bailey_create_options *o,
	struct request_strings *own, struct err *e)
{
	for (unsigned i = 0; i < own->image.env.n; i++)
		if (add_env(own, own->image.env.v[i], e) < 0)
			return err_wrap(e, "image '%s'", own->image.name);
	for (const char *const *p = o->env; p && *p; p++)
		if (add_env(own, *p, e) < 0)
			return -1;
	r->env = own->env;
	r->n_env = own->n_env;
	return 0;
}

static int add_bind(struct run_request *r, const struct admit *a, const char *target,
	enum spec_bind_kind kind, bool cow, struct err *e)
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
	b->cow = cow;
	b->idmap = geteuid() == 0;
	str_format(b->target, sizeof b->target, "%s", target);
	r->n_binds++;
	return 0;
}

static int take_print(
	struct run_request *r, int fd, const char *path, struct request_strings *own, struct err *e)
{
	_cleanup_close_ int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree_fingerprint print;

	if (dir < 0)
		return err_set(e, R_MOUNT_FORBIDDEN, errno, "read workspace '%s'", path);
	if (tree_fingerprint(dir, &print, e) < 0)
		return err_wrap(e, "workspace '%s'", path);
	memcpy(own->print, print.sum, sizeof own->print);
	r->workspace_print = own->print;
	return 0;
}

static int fill_workspace(struct run_request *r, const struct bailey_create_options *o,
	struct request_strings *own, struct err *e)
{
	const struct admit a = { .use = ADMIT_WORKSPACE,
		.path = o->workspace,
		.writable = o->workspace_mode == BAILEY_RW,
		.allow_root_owned = o->flags & BAILEY_ROOT_WORKSPACE };
	const bool cow = o->workspace_mode == BAILEY_COW;

	if (!o->workspace)
		return 0;
	r->has_workspace = true;
	if (add_bind(r, &a, "/workspace", BIND_DIR, cow, e) < 0)
		return -1;
	return cow ? take_print(r, r->binds[0].fd, o->workspace, own, e) : 0;
}

static int fill_mounts(struct run_request *r, const struct bailey_create_options *o, struct err *e)
{
	for (size_t i = 0; i < o->n_mounts; i++) {
		const struct bailey_mount *m = &o->mounts[i];
		const struct admit a = { .use = ADMIT_MOUNT,
			.path = m->source ? m->source : "",
			.writable = m->mode == BAILEY_RW,
			.allow_root_owned = o->flags & BAILEY_ROOT_WORKSPACE };

		if (m->mode != BAILEY_RO && m->mode != BAILEY_RW)
			return err_set(e, R_BAD_VALUE, 0,
				"mount '%.128s': only a workspace can be copy-on-write", a.path);
		if (!m->target || spec_check_target(m->target, e) < 0)
			return m->target ? -1
					 : err_set(e, R_MOUNT_TARGET_INVALID, 0,
						   "mount '%.128s': no target", a.path);
		if (add_bind(r, &a, m->target, BIND_DIR, false, e) < 0)
			return -1;
	}
	return 0;
}

static int fill_socket(struct run_request *r, const struct bailey_create_options *o, struct err *e)
{
	const struct admit a = { .use = ADMIT_SOCKET, .path = o->model_socket, .writable = true };

	if (!o->model_socket)
		return 0;
	r->model_relay = true;
	return add_bind(r, &a, SPEC_MODEL_SOCKET, BIND_SOCKET, false, e);
}

static int check_root(int fd, const char *image, struct err *e)
{
	struct stat st;

	if (fstatat(fd, "usr", &st, AT_SYMLINK_NOFOLLOW) < 0 &&
		fstatat(fd, "bin", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, R_IMAGE_INVALID, 0,
			"use image '%s': neither 'usr' nor 'bin' is in it", image);
	return 0;
}

int request_image(const char *home, const char *name, int *ret_fd, int *ret_lock_fd,
	struct image *own, struct err *e)
{
	const struct admit a = { .use = ADMIT_IMAGE, .path = name };

	if (!name || streq(name, "host"))
		return 0;
	if (strchr(name, '/') && !image_is_ours(name))
		return admit_open(&a, ret_fd, e) < 0 ? -1 : check_root(*ret_fd, name, e);
	/* one made from a single program has neither usr nor bin, and says itself what to start */
	if (image_open(home, name, own, e) < 0)
		return -1;
	*ret_fd = move_fd(&own->root_fd);
	*ret_lock_fd = move_fd(&own->lock_fd);
	return 0;
}

static int fill_image(struct run_request *r, const char *home,
	const struct bailey_create_options *o, struct request_strings *own, struct err *e)
{
	if (request_image(home, o->image, &r->image_fd, &r->image_lock_fd, &own->image, e) < 0)
		return -1;
	if (!o->workdir && own->image.workdir && *own->image.workdir && !o->workspace)
		r->workdir = own->image.workdir;
	return 0;
}

int user_parse(const char *text, uint32_t *ret_uid, uint32_t *ret_gid, struct err *e)
{
	char copy[32], *colon;
	uint64_t uid, gid;

	if (strlen(text) >= sizeof copy)
		return err_set(e, R_BAD_VALUE, 0, "use user '%.64s': not UID or UID:GID", text);
	str_format(copy, sizeof copy, "%s", text);
	colon = strchr(copy, ':');
	if (colon)
		*colon++ = '\0';
	if (parse_u64(copy, 0, 65534, "user", &uid, e) < 0 ||
		parse_u64(colon ? colon : copy, 0, 65534, "group", &gid, e) < 0)
		return -1;
	*ret_uid = (uint32_t)uid;
	*ret_gid = (uint32_t)gid;
	return 0;
}

static int fill_user(
	struct run_request *r, const char *text, const struct image *image, struct err *e)
{
	r->uid = image->has_user ? (uid_t)image->uid : DEFAULT_ID;
	r->gid = image->has_user ? (gid_t)image->gid : DEFAULT_ID;
	return text ? user_parse(text, &r->uid, &r->gid, e) : 0;
}

static void fill_limits(struct run_request *r, const struct bailey_create_options *o)
{
	r->limits = (struct spec_limits){ .memory_bytes = o->memory ? o->memory : DEFAULT_MEMORY,
		.cpu_millis = o->cpu_millis ? o->cpu_millis : DEFAULT_CPU_MILLIS,
		.pids = o->pids ? o->pids : DEFAULT_PIDS,
		.unlimited = o->flags & BAILEY_UNLIMITED };
	r->tmp_size = o->tmp_size ? o->tmp_size : DEFAULT_TMP;
	r->disk_bytes = o->disk ? o->disk : DEFAULT_DISK;
	r->ttl_ms = o->ttl_ms;
	r->read_only = o->flags & BAILEY_READ_ONLY;
	r->allow_setgid = o->flags & BAILEY_ALLOW_SETGID;
}

/* Files of a tmpfs are memory of the sandbox: what nobody chose leaves a quarter of it free, so that no copy can end it. */
void request_fit(struct bailey_create_options *o, bool layers_are_memory)
{
	uint64_t memory = o->memory ? o->memory : DEFAULT_MEMORY, disk = memory / 2;

	if (o->flags & BAILEY_UNLIMITED)
		return;
	if (!o->tmp_size && memory / 8 < DEFAULT_TMP)
		o->tmp_size = memory / 8;
	if (!o->disk && layers_are_memory && disk < DEFAULT_DISK)
		o->disk = disk < MIN_DISK ? MIN_DISK : disk;
}

void request_init(struct run_request *r, struct request_strings *own)
{
	memset(r, 0, sizeof *r);
	memset(own, 0, sizeof *own);
	image_init(&own->image);
	r->image_fd = r->image_lock_fd = -1;
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		r->binds[i].fd = -1;
}

static int fill_paths(struct run_request *r, const char *home,
	const struct bailey_create_options *o, struct request_strings *own, struct err *e)
{
	if (fill_image(r, home, o, own, e) < 0 || fill_user(r, o->user, &own->image, e) < 0 ||
		fill_env(r, o, own, e) < 0 || fill_workspace(r, o, own, e) < 0 ||
		fill_mounts(r, o, e) < 0)
		return -1;
	return fill_socket(r, o, e);
}

int request_admit(const struct admit *a, int fd, int *ret_fd, struct err *e)
{
	int result;

	(void)pthread_mutex_lock(&admit_lock);
	admit_forget();
	result = admit_fd(a, fd, ret_fd, e);
	(void)pthread_mutex_unlock(&admit_lock);
	return result;
}

int request_fill(struct run_request *r, const char *home, const struct bailey_create_options *o,
	struct request_strings *own, struct err *e)
{
	int result;

	r->workdir = o->workdir;
	fill_limits(r, o);
	if (o->network && !streq(o->network, "none"))
		return err_set(e, R_NETWORK_UNSUPPORTED, 0,
			"use network '%.64s': only 'none' exists", o->network);
	(void)pthread_mutex_lock(&admit_lock);
	/* a program that lives on must see what has become forbidden since */
	admit_forget();
	result = fill_paths(r, home, o, own, e);
	(void)pthread_mutex_unlock(&admit_lock);
	return result;
}
