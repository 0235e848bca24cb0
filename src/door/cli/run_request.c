/* From the texts of the command line to the options of a new sandbox, and for `run` to its request.  What paths lead to is
 * looked at in client/request.c. */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "door/cli/run.h"

enum { ENV_FILE_MAX = 4 << 20 };

void strlist_done(struct strlist *l)
{
	for (unsigned i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct strlist){ NULL, 0 };
}

void create_strings_done(struct create_strings *s)
{
	strlist_done(&s->env);
	free(s->workspace);
	for (unsigned i = 0; i < s->n_mounts; i++)
		free(s->sources[i]);
	*s = (struct create_strings){ .n_mounts = 0 };
}

void run_strings_done(struct run_strings *s)
{
	create_strings_done(&s->texts);
	request_strings_done(&s->request);
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

/* The last entry is a NULL that the list doesn't count. */
static int fill_env(const struct options *o, struct strlist *env, struct err *e)
{
	char **grown;

	if (o->env_file && read_env_file(env, o->env_file, e) < 0)
		return -1;
	for (unsigned i = 0; i < o->env.n; i++)
		if (add_env(env, o->env.v[i], e) < 0)
			return -1;
	grown = realloc(env->v, (env->n + 1) * sizeof *grown);
	if (!grown)
		abort();
	env->v = grown;
	env->v[env->n] = NULL;
	return 0;
}

/* Cuts ":ro", ":rw" or, where that may be, ":cow" off the end. */
static void cut_mode(char *text, bool cow, enum bailey_mode *ret)
{
	static const struct {
		const char *text;
		enum bailey_mode mode;
	} modes[] = { { ":ro", BAILEY_RO }, { ":rw", BAILEY_RW }, { ":cow", BAILEY_COW } };
	const size_t n = strlen(text);

	for (size_t i = 0; i < (cow ? 3u : 2u); i++) {
		const size_t len = strlen(modes[i].text);

		if (n < len || !streq(text + n - len, modes[i].text))
			continue;
		text[n - len] = '\0';
		*ret = modes[i].mode;
		return;
	}
}

static int add_mount(struct create_strings *own, const char *text, struct err *e)
{
	_cleanup_free_ char *source = xstrdup(text);
	struct bailey_mount m = { .mode = BAILEY_RO };
	char *colon;

	if (own->n_mounts == SPEC_MAX_BINDS)
		return err_set(e, R_OUT_OF_RANGE, 0, "mount '%.128s': over %d mounts", text,
			SPEC_MAX_BINDS);
	cut_mode(source, false, &m.mode);
	colon = strrchr(source, ':');
	if (!colon || colon == source || !colon[1])
		return err_set(
			e, R_BAD_VALUE, 0, "read mount '%.128s': not SRC:DST or SRC:DST:rw", text);
	*colon = '\0';
	m.target = colon + 1;
	m.source = source;
	own->sources[own->n_mounts] = move_ptr(source);
	own->mounts[own->n_mounts++] = m;
	return 0;
}

int create_options_fill(struct bailey_create_options *ret, const struct options *o, bool cow,
	struct create_strings *own, struct err *e)
{
	*ret = (struct bailey_create_options)BAILEY_CREATE_OPTIONS_INIT;
	*own = (struct create_strings){ .n_mounts = 0 };
	ret->flags = (o->unlimited ? BAILEY_UNLIMITED : 0u) |
		(o->allow_setgid ? BAILEY_ALLOW_SETGID : 0u) |
		(o->root_workspace ? BAILEY_ROOT_WORKSPACE : 0u);
	ret->image = o->image;
	ret->workdir = o->workdir;
	/* the default gives way to the image's own user */
	ret->user = o->origin[OPTION_user].kind == ORIGIN_DEFAULT ? NULL : o->user;
	ret->network = o->network;
	ret->model_socket = o->model_socket;
	ret->memory = o->memory;
	ret->cpu_millis = o->cpus;
	ret->pids = (uint32_t)o->pids;
	ret->tmp_size = o->tmp_size;
	ret->spool_max = o->output_spool_max;
	if (fill_env(o, &own->env, e) < 0)
		return -1;
	ret->env = (const char *const *)own->env.v;
	if (o->workspace) {
		own->workspace = xstrdup(o->workspace);
		cut_mode(own->workspace, cow, &ret->workspace_mode);
		ret->workspace = own->workspace;
	}
	for (unsigned i = 0; i < o->mount.n; i++)
		if (add_mount(own, o->mount.v[i], e) < 0)
			return -1;
	ret->mounts = own->mounts;
	ret->n_mounts = own->n_mounts;
	return 0;
}

/* No command: the image's, entrypoint and arguments. */
static int fill_command(struct run_request *r, struct run_strings *own, struct err *e)
{
	const struct image *i = &own->request.image;
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

int run_request_fill(struct run_request *r, const struct options *o, char **argv,
	struct run_strings *own, struct err *e)
{
	_cleanup_free_ char *home = NULL;
	struct bailey_create_options c;

	request_init(r, &own->request);
	if (create_options_fill(&c, o, false, &own->texts, e) < 0 || home_path(&home, e) < 0 ||
		request_fill(r, home, &c, &own->request, e) < 0)
		return -1;
	r->argv = argv;
	r->limits.timeout_ms = o->timeout;
	return fill_command(r, own, e);
}
