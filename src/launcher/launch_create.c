/* Owns the parameters of profile `create` between a client and a launcher.  Must hold on the launcher's side: every descriptor
 * was admitted for the one who asks, and the spec comes from the profile function alone. */
#include "launcher/launch_create.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "launcher/admit.h"

/* --- the client's side --- */

static void put(struct launch_out *o, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	launch_put(o, key);
	launch_put(o, value);
}

static void put_number(struct launch_out *o, const char *key, uint64_t value)
{
	char text[32];

	if (value)
		put(o, key, FMT(text, "%llu", (unsigned long long)value));
}

static void put_fd(struct launch_out *o, const char *key, const char *value, int fd)
{
	if (fd < 0)
		return;
	launch_put(o, key);
	launch_put(o, value);
	launch_put_fd(o, fd);
}

static void put_binds(struct launch_out *o, const struct run_request *r)
{
	char value[SPEC_MAX_TARGET + 8];

	for (unsigned i = 0; i < r->n_binds; i++) {
		const struct spec_bind *b = &r->binds[i];
		const char *mode = b->cow ? "cow" : b->writable ? "rw" : "ro";

		if (i == 0 && r->has_workspace)
			put_fd(o, "@workspace", mode, b->fd);
		else if (b->kind == BIND_SOCKET)
			put_fd(o, "@socket", b->target, b->fd);
		else
			put_fd(o, "@mount", FMT(value, "%s:%s", mode, b->target), b->fd);
	}
}

static void put_print(struct launch_out *o, const uint8_t *print)
{
	char hex[2 * SPEC_PRINT_LEN + 1];

	if (!print)
		return;
	for (unsigned i = 0; i < SPEC_PRINT_LEN; i++)
		str_format(hex + 2 * i, 3, "%02x", print[i]);
	put(o, "print", hex);
}

int launch_create_put(struct launch_out *o, const struct run_request *r,
	const struct pack_request *rest, const char *engine, struct err *e)
{
	if (r->limits.unlimited)
		return err_set(e, R_NOT_ALLOWED, 0, "make a sandbox without limits by a launcher");
	launch_put(o, "create");
	put(o, "engine", engine);
	put(o, "name", rest->name);
	put(o, "image", rest->image);
	put(o, "workspace", rest->workspace);
	put(o, "hostname", rest->spec.hostname);
	put(o, "workdir", r->workdir);
	put_number(o, "keep", rest->keep);
	put_number(o, "spool_max", rest->spool_max);
	put_number(o, "memory", r->limits.memory_bytes);
	put_number(o, "cpus", r->limits.cpu_millis);
	put_number(o, "pids", r->limits.pids);
	put_number(o, "tmp_size", r->tmp_size);
	put_number(o, "disk", r->disk_bytes);
	put_number(o, "ttl", r->ttl_ms);
	put_number(o, "uid", r->uid);
	put_number(o, "gid", r->gid);
	put_number(o, "read_only", r->read_only);
	put_number(o, "allow_setgid", r->allow_setgid);
	put_number(o, "model_relay", r->model_relay);
	put_print(o, r->workspace_print);
	put_fd(o, "@image", "", r->image_fd);
	put_fd(o, "@image_lock", "", r->image_lock_fd > 0 ? r->image_lock_fd : -1);
	put_binds(o, r);
	for (unsigned i = 0; i < r->n_env; i++)
		put(o, "env", r->env[i]);
	for (char *const *word = rest->command; word && *word; word++) {
		launch_put(o, "command");
		launch_put(o, *word);
	}
	return o->failed
		? err_set(e, R_OUT_OF_RANGE, 0,
			  "ask the launcher: the command and its environment are over %d bytes",
			  LAUNCH_MAX)
		: 0;
}

/* --- the launcher's side --- */

void launch_create_done(struct launch_create *c)
{
	struct run_request *r = &c->request;

	r->image_fd = close_fd(r->image_fd);
	r->image_lock_fd = close_fd(r->image_lock_fd);
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		r->binds[i].fd = close_fd(r->binds[i].fd);
}

enum kind { TEXT, U32, U64, FLAG };

static const struct {
	const char *key;
	enum kind kind;
	size_t offset;
} keys[] = {
#define KEY(key, kind, member) { key, kind, offsetof(struct launch_create, member) }
	KEY("name", TEXT, name),
	KEY("image", TEXT, image),
	KEY("workspace", TEXT, workspace),
	KEY("hostname", TEXT, hostname),
	KEY("engine", TEXT, engine),
	KEY("workdir", TEXT, request.workdir),
	KEY("keep", FLAG, keep),
	KEY("spool_max", U64, spool_max),
	KEY("memory", U64, request.limits.memory_bytes),
	KEY("cpus", U32, request.limits.cpu_millis),
	KEY("pids", U32, request.limits.pids),
	KEY("tmp_size", U64, request.tmp_size),
	KEY("disk", U64, request.disk_bytes),
	KEY("ttl", U64, request.ttl_ms),
	KEY("uid", U32, request.uid),
	KEY("gid", U32, request.gid),
	KEY("read_only", FLAG, request.read_only),
	KEY("allow_setgid", FLAG, request.allow_setgid),
	KEY("model_relay", FLAG, request.model_relay),
#undef KEY
};

struct getting {
	struct launch_create *c;
	const struct launch_in *m;
	uid_t uid;
	unsigned at_fd;
	uint64_t seen;
};

static int take_value(struct getting *g, size_t i, const char *value, struct err *e)
{
	void *at = (char *)g->c + keys[i].offset;
	const uint64_t max = keys[i].kind == FLAG ? 1
		: keys[i].kind == U32             ? UINT32_MAX
						  : UINT64_MAX;
	uint64_t v;

	if (g->seen & 1ull << i)
		return err_set(
			e, R_BAD_VALUE, 0, "use parameter '%s': it is given twice", keys[i].key);
	g->seen |= 1ull << i;
	if (keys[i].kind == TEXT) {
		memcpy(at, &value, sizeof value);
		return 0;
	}
	if (parse_u64(value, 0, max, keys[i].key, &v, e) < 0)
		return -1;
	if (keys[i].kind == U64)
		memcpy(at, &v, sizeof v);
	else if (keys[i].kind == U32)
		memcpy(at, &(uint32_t){ (uint32_t)v }, sizeof(uint32_t));
	else
		*(bool *)at = v == 1;
	return 0;
}

static int next_fd(struct getting *g, const char *key, int *ret, struct err *e)
{
	/* the last one is the answer's */
	if (g->at_fd + 1 >= g->m->n_fds)
		return err_set(e, R_BAD_VALUE, 0,
			"use parameter '%.64s': no descriptor came with it", key);
	*ret = g->m->fds[g->at_fd++];
	return 0;
}

/* Readable by whoever holds it; all that is done with it is that it stays open. */
static int take_lock(struct getting *g, int given, struct err *e)
{
	struct run_request *r = &g->c->request;
	struct stat st;

	if (fstat(given, &st) < 0 || !S_ISREG(st.st_mode) || r->image_lock_fd >= 0)
		return err_set(e, R_BAD_VALUE, 0, "use parameter '@image_lock': not one file");
	r->image_lock_fd = fcntl(given, F_DUPFD_CLOEXEC, 3);
	return r->image_lock_fd < 0 ? err_set(e, R_NO_MEMORY, errno, "keep a descriptor") : 0;
}

static int add_bind(struct getting *g, const struct admit *a, int given, const char *target,
	bool cow, struct err *e)
{
	struct run_request *r = &g->c->request;
	struct spec_bind *b = &r->binds[r->n_binds];

	if (r->n_binds == SPEC_MAX_BINDS || strlen(target) >= sizeof b->target)
		return err_set(
			e, R_OUT_OF_RANGE, 0, "mount at '%.64s': too many, or too long", target);
	if (admit_fd(a, given, &b->fd, e) < 0)
		return -1;
	b->kind = a->use == ADMIT_SOCKET ? BIND_SOCKET : BIND_DIR;
	b->writable = a->writable;
	b->cow = cow;
	b->idmap = geteuid() == 0;
	str_format(b->target, sizeof b->target, "%s", target);
	r->n_binds++;
	return 0;
}

static int take_workspace(struct getting *g, int given, const char *mode, struct err *e)
{
	const struct admit a = { .path = "workspace",
		.use = ADMIT_WORKSPACE,
		.writable = streq(mode, "rw"),
		.for_other = true,
		.uid = g->uid };

	if (g->c->request.n_binds)
		return err_set(
			e, R_BAD_VALUE, 0, "use parameter '@workspace': it is not the first mount");
	if (!streq(mode, "ro") && !streq(mode, "rw") && !streq(mode, "cow"))
		return err_set(
			e, R_BAD_VALUE, 0, "use parameter '@workspace': '%.16s' is no mode", mode);
	g->c->request.has_workspace = true;
	return add_bind(g, &a, given, "/workspace", streq(mode, "cow"), e);
}

static int take_mount(struct getting *g, int given, const char *value, struct err *e)
{
	const struct admit a = { .path = "mount",
		.use = ADMIT_MOUNT,
		.writable = str_after(value, "rw:") != NULL,
		.for_other = true,
		.uid = g->uid };

	if (!str_after(value, "rw:") && !str_after(value, "ro:"))
		return err_set(
			e, R_BAD_VALUE, 0, "use parameter '@mount': '%.64s' has no mode", value);
	return add_bind(g, &a, given, value + 3, false, e);
}

static int take_fd(struct getting *g, const char *key, const char *value, struct err *e)
{
	const struct admit image = {
		.path = "image", .use = ADMIT_IMAGE, .for_other = true, .uid = g->uid
	};
	const struct admit sock = { .path = "model socket",
		.use = ADMIT_SOCKET,
		.writable = true,
		.for_other = true,
		.uid = g->uid };
	int given;

	if (next_fd(g, key, &given, e) < 0)
		return -1;
	if (streq(key, "@image"))
		return g->c->request.image_fd >= 0
			? err_set(e, R_BAD_VALUE, 0, "use parameter '@image': it is given twice")
			: admit_fd(&image, given, &g->c->request.image_fd, e);
	if (streq(key, "@image_lock"))
		return take_lock(g, given, e);
	if (streq(key, "@workspace"))
		return take_workspace(g, given, value, e);
	if (streq(key, "@mount"))
		return take_mount(g, given, value, e);
	if (streq(key, "@socket"))
		return add_bind(g, &sock, given, value, false, e);
	return err_set(e, R_BAD_VALUE, 0, "use parameter '%.64s': there is none of that name", key);
}

static int take_print(struct getting *g, const char *hex, struct err *e)
{
	static const char digits[] = "0123456789abcdef";

	if (strlen(hex) != 2 * SPEC_PRINT_LEN || strspn(hex, digits) != 2 * SPEC_PRINT_LEN)
		return err_set(e, R_BAD_VALUE, 0, "use parameter 'print': not %d hex digits",
			2 * SPEC_PRINT_LEN);
	for (unsigned i = 0; i < SPEC_PRINT_LEN; i++)
		g->c->print[i] = (uint8_t)((strchr(digits, hex[2 * i]) - digits) << 4 |
			(strchr(digits, hex[2 * i + 1]) - digits));
	g->c->request.workspace_print = g->c->print;
	return 0;
}

/* The arrays have room for every string of a message. */
static void take_word(char **list, unsigned *n, const char *value)
{
	union {
		const char *in;
		char *out;
	} word = { .in = value };

	list[(*n)++] = word.out;
	list[*n] = NULL;
}

static int take_pair(struct getting *g, const char *key, const char *value, struct err *e)
{
	if (*key == '@')
		return take_fd(g, key, value, e);
	if (streq(key, "print"))
		return take_print(g, value, e);
	if (streq(key, "env") && strchr(value, '=') && *value != '=') {
		take_word(g->c->env, &g->c->n_env, value);
		return 0;
	}
	if (streq(key, "command")) {
		take_word(g->c->command, &g->c->n_command, value);
		return 0;
	}
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (streq(keys[i].key, key))
			return take_value(g, i, value, e);
	return err_set(e, R_BAD_VALUE, 0,
		"use parameter '%.64s' of profile 'create': there is none of that name, or its value is none",
		key);
}

int launch_create_get(struct launch_create *c, const struct launch_in *m, uid_t uid, struct err *e)
{
	struct getting g = { .c = c, .m = m, .uid = uid };

	memset(c, 0, offsetof(struct launch_create, env));
	c->n_env = c->n_command = 0;
	c->request.image_fd = c->request.image_lock_fd = -1;
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		c->request.binds[i].fd = -1;
	for (uint32_t i = 1; i + 1 < m->n; i += 2)
		if (take_pair(&g, m->v[i], m->v[i + 1], e) < 0)
			return -1;
	c->request.env = c->env;
	c->request.n_env = c->n_env;
	if (c->name && !pack_name_is_valid(c->name))
		return err_set(e, R_BAD_VALUE, 0,
			"use name '%.64s': not of [a-z0-9][a-z0-9._-]{0,62}", c->name);
	return 0;
}

static int put_text(char *out, size_t cap, const char *text, const char *what, struct err *e)
{
	if (text && strlen(text) >= cap)
		return err_set(e, R_OUT_OF_RANGE, 0, "use %s '%.64s...': too long", what, text);
	str_format(out, cap, "%s", text ?: "");
	return 0;
}

/* Both lists in one allocation, as pack_done() wants it. */
static void put_lists(struct launch_create *c, struct pack_request *p, char **env)
{
	unsigned n = 0;
	char **list;

	while (env[n])
		n++;
	list = xcalloc(n + 1 + c->n_command + 1, sizeof *list);
	memcpy(list, env, n * sizeof *list);
	memcpy(list + n + 1, c->command, c->n_command * sizeof *list);
	p->spec.env = list;
	p->command = c->n_command ? list + n + 1 : NULL;
	p->memory = list;
}

int launch_create_build(struct launch_create *c, struct pack_request *ret, struct err *e)
{
	_cleanup_free_ char **env = NULL;

	*ret = (struct pack_request){ .keep = c->keep || !c->n_command, .spool_max = c->spool_max };
	spec_init(&ret->spec);
	if (profile_create(&ret->spec, &c->request, &env, e) < 0)
		return -1;
	put_lists(c, ret, env);
	if (put_text(ret->name, sizeof ret->name, c->name, "name", e) == 0 &&
		put_text(ret->image, sizeof ret->image, c->image ?: "host", "image", e) == 0 &&
		put_text(ret->workspace, sizeof ret->workspace, c->workspace, "workspace", e) ==
			0 &&
		(!c->hostname ||
			put_text(ret->spec.hostname, sizeof ret->spec.hostname, c->hostname,
				"host name", e) == 0))
		return 0;
	pack_done(ret);
	return -1;
}
