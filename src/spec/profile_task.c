/* What the profiles of tasks have in common.  Called by profile_agent.c, profile_check.c, profile_git_helper.c,
 * profile_handoff.c and profile_script.c.
 *
 * Must hold: no string of a request gets into the environment or the command unchecked, and a descriptor has one owner at
 * any time: the request until profile_end() succeeds, the spec from then on. */
#include <string.h>

#include "base/str.h"
#include "spec/profile_parts.h"

enum { MAX_VALUE = 4096 }; /* bytes of a variable's value */

const char *const profile_task_env[] = {
	"ANTHROPIC_AUTH_TOKEN",
	"CLAUDE_CODE_MAX_OUTPUT_TOKENS",
	"AGENT_NO_GUIDE",
	"MAX_THINKING_TOKENS",
	/* from here on ids of models */
	"ANTHROPIC_MODEL",
	"ANTHROPIC_DEFAULT_OPUS_MODEL",
	"ANTHROPIC_DEFAULT_SONNET_MODEL",
	"ANTHROPIC_DEFAULT_HAIKU_MODEL",
	"ANTHROPIC_SMALL_FAST_MODEL",
	"CLAUDE_CODE_SUBAGENT_MODEL",
};
const unsigned n_profile_task_env = sizeof profile_task_env / sizeof *profile_task_env;
enum { FIRST_MODEL_ENV = 4 };
_Static_assert(sizeof profile_task_env / sizeof *profile_task_env <= PROFILE_MAX_TASK_ENV,
	"a request has room for each");

/* --- environment and command --- */

void profile_lists_done(struct profile_lists *l)
{
	buf_done(&l->env);
	buf_done(&l->command);
}

void profile_env(struct profile_lists *l, const char *name, const char *value)
{
	(void)buf_printf(&l->env, "%s=%s", name, value);
	(void)buf_add(&l->env, "", 1);
	l->n_env++;
}

void profile_argument(struct profile_lists *l, const char *argument)
{
	(void)buf_add(&l->command, argument, strlen(argument) + 1);
	l->n_command++;
}

int profile_env_check(const char *name, const char *value, bool with_models, struct err *e)
{
	unsigned i = 0;

	while (i < n_profile_task_env && !streq(name, profile_task_env[i]))
		i++;
	if (i >= (with_models ? n_profile_task_env : (unsigned)FIRST_MODEL_ENV))
		return err_set(e, R_BAD_VALUE, 0,
			"set variable '%.64s': not one that a task may have", name);
	if (strlen(value) > MAX_VALUE || str_has_control(value))
		return err_set(e, R_BAD_VALUE, 0,
			"set variable '%s': over %d bytes, or with control characters", name,
			MAX_VALUE);
	return 0;
}

int profile_task_env_put(struct profile_lists *l, const struct profile_env *env, unsigned n,
	bool with_models, bool has_venv, struct err *e)
{
	if (n > PROFILE_MAX_TASK_ENV)
		return err_set(e, R_OUT_OF_RANGE, 0, "set '%u' variables: over %d", n,
			PROFILE_MAX_TASK_ENV);
	profile_env(l, "PATH", has_venv ? PROFILE_VENV "/bin:" PROFILE_PATH : PROFILE_PATH);
	profile_env(l, "HOME", PROFILE_HOME);
	profile_env(l, "LANG", "C.UTF-8");
	profile_env(l, "PYTHONDONTWRITEBYTECODE", "1");
	if (has_venv)
		profile_env(l, "VIRTUAL_ENV", PROFILE_VENV);
	for (unsigned i = 0; i < n; i++) {
		if (profile_env_check(env[i].name, env[i].value, with_models, e) < 0)
			return -1;
		for (unsigned k = 0; k < i; k++)
			if (streq(env[i].name, env[k].name))
				return err_set(e, R_BAD_VALUE, 0,
					"set variable '%s': it is set twice", env[i].name);
		profile_env(l, env[i].name, env[i].value);
	}
	return 0;
}

/* --- the spec --- */

int profile_labels(struct sandbox_spec *s, const char *tid, const char *model, struct err *e)
{
	if (tid && !spec_tid_is_valid(tid))
		return err_set(e, R_BAD_VALUE, 0,
			"use task id '%.64s': not of [0-9a-z][0-9a-z-]{0,63}", tid);
	if (model && strlen(model) >= sizeof s->model)
		return err_set(e, R_BAD_VALUE, 0, "use model '%.64s...': over %d bytes", model,
			SPEC_MODEL - 1);
	str_format(s->tid, sizeof s->tid, "%s", tid ? tid : "");
	str_format(s->model, sizeof s->model, "%s", model ? model : "");
	return 0;
}

int profile_bind(struct sandbox_spec *s, int fd, const char *target, bool writable, bool idmap,
	const char *what, struct err *e)
{
	struct spec_bind *b = &s->binds[s->n_binds];

	if (fd < 0)
		return err_set(e, R_BAD_VALUE, 0, "use profile '%s' without %s",
			spec_profile_name(s->profile), what);
	b->fd = fd;
	b->kind = BIND_DIR;
	b->writable = writable;
	b->idmap = idmap;
	str_format(b->target, sizeof b->target, "%s", target);
	s->n_binds++;
	return 0;
}

int profile_begin(struct pack_request *p, const struct profile_base *b, enum spec_profile profile,
	uint64_t timeout_ms, uint64_t max_ms, struct err *e)
{
	struct sandbox_spec *s = &p->spec;

	memset(p, 0, sizeof *p);
	spec_init(s);
	if (timeout_ms == 0 || timeout_ms > max_ms)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"use timeout '%llu' ms with profile '%s': outside 1 to %llu",
			(unsigned long long)timeout_ms, spec_profile_name(profile),
			(unsigned long long)max_ms);
	if ((b->image_ref && strlen(b->image_ref) >= sizeof s->image_ref) ||
		(b->runtime && strlen(b->runtime) >= sizeof s->runtime))
		return err_set(
			e, R_BAD_VALUE, 0, "use an image or a runtime: its name is too long");
	s->profile = profile;
	s->session = s->read_only = true;
	s->ttl_ms = timeout_ms;
	s->deadline_ms = b->now_ms ? b->now_ms + timeout_ms : 0;
	s->uid = b->uid;
	s->gid = b->gid;
	str_format(s->home, sizeof s->home, "%s", PROFILE_HOME);
	str_format(s->image_ref, sizeof s->image_ref, "%s", b->image_ref ? b->image_ref : "");
	str_format(s->runtime, sizeof s->runtime, "%s", b->runtime ? b->runtime : "");
	if (spec_new_id(s->id, e) < 0)
		return -1;
	str_format(s->hostname, sizeof s->hostname, "%s", s->id);
	return 0;
}

void profile_task_walls(struct sandbox_spec *s, const struct profile_base *b)
{
	s->limits =
		(struct spec_limits){ .memory_bytes = 8ull << 30, .cpu_millis = 4000, .pids = 512 };
	s->nofile = 4096;
	s->init = true;
	s->log_bytes = 20000000;
	s->log_files = 2;
	s->uid = b->uid;
	s->gid = b->gid;
	str_format(s->workdir, sizeof s->workdir, "%s", "/workspace");
	profile_tmpfs(s, "/tmp", 2ull << 30, 01777);
	s->tmpfs[0].owned = false;
	profile_tmpfs(s, PROFILE_HOME, 1ull << 30, 0700);
	/* what Docker gives a container by itself */
	profile_tmpfs(s, "/dev/shm", 64ull << 20, 01777);
	s->tmpfs[2].owned = false;
}

static char **copy_list(char ***at, char **text, const struct buf *from)
{
	char **list = *at;

	if (from->len)
		memcpy(*text, from->data, from->len);
	for (size_t i = 0; i < from->len; i += strlen(*text + i) + 1)
		*(*at)++ = *text + i;
	*(*at)++ = NULL;
	*text += from->len;
	return list;
}

static int take_lists(struct pack_request *p, struct profile_lists *l, struct err *e)
{
	const size_t pointers = l->n_env + l->n_command + 2u;
	char **at, *text;

	if (l->env.failed || l->command.failed)
		return err_set(e, R_NO_MEMORY, ENOMEM, "make a sandbox's command");
	at = xcalloc(1, pointers * sizeof *at + l->env.len + l->command.len + 1);
	p->memory = at;
	text = (char *)(at + pointers);
	p->spec.env = copy_list(&at, &text, &l->env);
	p->command = copy_list(&at, &text, &l->command);
	return 0;
}

int profile_end(struct pack_request *p, struct profile_base *b, struct profile_lists *l,
	int *const *fds, struct err *e)
{
	struct sandbox_spec *s = &p->spec;
	unsigned n = s->n_binds;

	if (take_lists(p, l, e) == 0 && spec_check(s, e) == 0) {
		s->image_fd = move_fd(&b->image_fd);
		s->image_lock_fd = move_fd(&b->image_lock_fd);
		for (unsigned i = 0; i < n; i++)
			*fds[i] = -1;
		return 0;
	}
	profile_forget(p);
	return -1;
}

void profile_forget(struct pack_request *p)
{
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		p->spec.binds[i].fd = -1;
	pack_done(p);
}
