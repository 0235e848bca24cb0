/* Profile `agent`: the command line program of an agent on a worktree.  Its one way out is a socket behind which a model
 * answers. */
#include <string.h>

#include "base/str.h"
#include "spec/profile_parts.h"

/* Nothing else may be the first word of an agent's command. */
static const char *const clis[] = { "claude", "codex", "agy", "grok" };

/* These follow the model of the task where the request doesn't name another. */
static const char *const model_ids[] = { "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
	"ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
	"ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL" };

static int put_command(struct profile_lists *l, char *const *command, struct err *e)
{
	size_t i = 0;

	if (!command || !command[0])
		return err_set(e, R_BAD_VALUE, 0, "start an agent: no command is given");
	while (i < sizeof clis / sizeof *clis && !streq(command[0], clis[i]))
		i++;
	if (i == sizeof clis / sizeof *clis)
		return err_set(e, R_BAD_VALUE, 0,
			"start '%.64s' as an agent: not claude, codex, agy or grok", command[0]);
	for (char *const *p = command; *p; p++)
		profile_argument(l, *p);
	return 0;
}

static void put_model_ids(struct profile_lists *l, const struct agent_request *r)
{
	for (size_t i = 0; i < sizeof model_ids / sizeof *model_ids; i++) {
		bool given = false;

		for (unsigned k = 0; k < r->n_env; k++)
			given = given || streq(r->env[k].name, model_ids[i]);
		if (!given)
			profile_env(l, model_ids[i], r->model);
	}
}

static int fill(
	struct pack_request *p, struct agent_request *r, struct profile_lists *l, struct err *e)
{
	struct sandbox_spec *s = &p->spec;

	if (profile_begin(p, &r->base, SPEC_AGENT, r->timeout_ms, PROFILE_AGENT_MAX_MS, e) < 0)
		return -1;
	if (!r->tid || !r->model || !*r->model)
		return err_set(e, R_BAD_VALUE, 0, "use profile 'agent' without %s",
			r->tid ? "a model" : "a task id");
	if (profile_labels(s, r->tid, r->model, e) < 0)
		return -1;
	profile_task_walls(s, &r->base);
	s->model_relay = true;
	if (profile_bind(s, r->worktree, "/workspace", true, true, "a worktree", e) < 0 ||
		profile_bind(s, r->sockets, "/run/gw", true, false, "a directory of sockets", e) <
			0)
		return -1;
	if (r->venv >= 0 && profile_bind(s, r->venv, PROFILE_VENV, false, false, "", e) < 0)
		return -1;
	s->workspace = 0;
	if (profile_task_env_put(l, r->env, r->n_env, true, r->venv >= 0, e) < 0)
		return -1;
	profile_model_env(l);
	put_model_ids(l, r);
	return put_command(l, r->command, e);
}

int profile_agent(struct pack_request *p, struct agent_request *r, struct err *e)
{
	_cleanup_lists_ struct profile_lists lists = { .n_env = 0 };
	int *const fds[] = { &r->worktree, &r->sockets, &r->venv };

	if (fill(p, r, &lists, e) == 0)
		return profile_end(p, &r->base, &lists, fds, e);
	profile_forget(p);
	return -1;
}
