/* Profile `check`: a command of the task's author on the worktree, behind an agent's walls and without its socket. */
#include "base/str.h"
#include "spec/profile_parts.h"

static int fill(
	struct pack_request *p, struct check_request *r, struct profile_lists *l, struct err *e)
{
	struct sandbox_spec *s = &p->spec;

	if (profile_begin(p, &r->base, SPEC_CHECK, r->timeout_ms, PROFILE_CHECK_MAX_MS, e) < 0)
		return -1;
	if (!r->tid || !r->command || !*r->command)
		return err_set(e, R_BAD_VALUE, 0, "use profile 'check' without %s",
			r->tid ? "a command" : "a task id");
	if (profile_labels(s, r->tid, r->model, e) < 0)
		return -1;
	profile_task_walls(s, &r->base);
	if (profile_bind(s, r->worktree, "/workspace", true, true, "a worktree", e) < 0)
		return -1;
	if (r->venv >= 0 && profile_bind(s, r->venv, PROFILE_VENV, false, false, "", e) < 0)
		return -1;
	s->workspace = 0;
	profile_argument(l, "bash");
	profile_argument(l, "-c");
	profile_argument(l, r->command);
	return profile_task_env_put(l, r->env, r->n_env, false, r->venv >= 0, e);
}

int profile_check(struct pack_request *p, struct check_request *r, struct err *e)
{
	_cleanup_lists_ struct profile_lists lists = { .n_env = 0 };
	int *const fds[] = { &r->worktree, &r->venv };

	if (fill(p, r, &lists, e) == 0)
		return profile_end(p, &r->base, &lists, fds, e);
	profile_forget(p);
	return -1;
}
