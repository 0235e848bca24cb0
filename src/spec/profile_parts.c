/* What the profiles of `run` and `create` have in common: environment, user, limits, mounts.  Called by both. */
#include "spec/profile_parts.h"

#include <string.h>

#include "base/str.h"

/* Everything the command finds in its environment, besides what the caller names. */
static char *const base_env[] = {
	(char[]){ "PATH=" PROFILE_PATH },
	(char[]){ "HOME=" PROFILE_HOME },
	(char[]){ "LANG=C.UTF-8" },
};

/* How the agents' CLIs find the relay (their own documentation; research by running each). */
static char *const model_env[] = {
	(char[]){ "ANTHROPIC_BASE_URL=http://127.0.0.1:4000" },
	(char[]){ "OPENAI_BASE_URL=http://127.0.0.1:4000/v1" },
	(char[]){ "OPENAI_API_BASE=http://127.0.0.1:4000/v1" },
	(char[]){ "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000" },
	(char[]){ "GROK_MODELS_BASE_URL=http://127.0.0.1:4000/v1" },
};

void profile_model_env(struct profile_lists *l)
{
	for (size_t i = 0; i < sizeof model_env / sizeof *model_env; i++) {
		(void)buf_add(&l->env, model_env[i], strlen(model_env[i]) + 1);
		l->n_env++;
	}
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

static void put(char **env, unsigned *n, char *entry)
{
	for (unsigned i = 0; i < *n; i++) {
		if (same_name(env[i], entry)) {
			env[i] = entry;
			return;
		}
	}
	env[(*n)++] = entry;
}

/* The caller's entries: the last of a name wins, and replaces one of ours.  Quadratic only in our own few. */
static int make_env(const struct run_request *r, char ***ret, struct err *e)
{
	const unsigned ours =
		sizeof base_env / sizeof *base_env + sizeof model_env / sizeof *model_env + 1;
	char **env;
	unsigned n = 0;

	if (r->n_env > PROFILE_MAX_EXTRA_ENV)
		return err_set(e, R_OUT_OF_RANGE, 0, "pass '%u' environment variables: over %d",
			r->n_env, PROFILE_MAX_EXTRA_ENV);
	env = xcalloc(ours + r->n_env + 1, sizeof *env);
	for (size_t i = 0; i < sizeof base_env / sizeof *base_env; i++)
		env[n++] = base_env[i];
	for (size_t i = 0; r->model_relay && i < sizeof model_env / sizeof *model_env; i++)
		env[n++] = model_env[i];
	if (r->term)
		env[n++] = r->term;
	for (unsigned i = 0; i < r->n_env; i++)
		put(env, &n, r->env[i]);
	*ret = env;
	return 0;
}

void profile_tmpfs(struct sandbox_spec *s, const char *target, uint64_t size, uint32_t mode)
{
	struct spec_tmpfs *t = &s->tmpfs[s->n_tmpfs++];

	str_format(t->target, sizeof t->target, "%s", target);
	t->size = size;
	/* one inode per 2 KiB: a tree of small files fills both at about the same time */
	t->inodes = size / 2048 < 1024 ? 1024 : size / 2048;
	t->mode = mode;
	t->owned = true;
}

int profile_fill(struct sandbox_spec *s, struct run_request *r, const char *workdir,
	char ***ret_env, struct err *e)
{
	if (workdir[0] != '/' || strlen(workdir) >= SPEC_MAX_TARGET || strstr(workdir, "/../") ||
		str_has_control(workdir))
		return err_set(e, R_MOUNT_TARGET_INVALID, 0,
			"use working directory '%.64s': not a plain absolute path", workdir);
	if (str_after(workdir, "/proc"))
		return err_set(e, R_MOUNT_TARGET_INVALID, 0,
			"use working directory '%s': it lies in /proc", workdir);
	if (make_env(r, ret_env, e) < 0)
		return -1;
	spec_init(s);
	str_format(s->hostname, sizeof s->hostname, "bailey");
	str_format(s->home, sizeof s->home, "%s", PROFILE_HOME);
	str_format(s->workdir, sizeof s->workdir, "%s", workdir);
	s->limits = r->limits;
	s->uid = r->uid;
	s->gid = r->gid;
	s->allow_setgid = r->allow_setgid;
	s->model_relay = r->model_relay;
	s->env = *ret_env;
	return 0;
}

int profile_finish(struct sandbox_spec *s, struct run_request *r, char ***ret_env, struct err *e)
{
	s->image_fd = move_fd(&r->image_fd);
	if (r->image_lock_fd > 0)
		s->image_lock_fd = move_fd(&r->image_lock_fd);
	for (unsigned i = 0; i < r->n_binds; i++) {
		s->binds[i] = r->binds[i];
		r->binds[i].fd = -1;
	}
	s->n_binds = r->n_binds;
	s->workspace = r->has_workspace ? 0 : -1;
	r->n_binds = 0;
	if (spec_check(s, e) == 0)
		return 0;
	spec_done(s);
	free(*ret_env);
	*ret_env = NULL;
	return -1;
}
