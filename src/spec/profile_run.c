/* Profile `run`: one command, no network, a read-only root, bounded tmpfs. */
#include "spec/profile_parts.h"

int profile_run(struct sandbox_spec *s, struct run_request *r, char ***ret_env, struct err *e)
{
	const char *workdir = r->workdir ? r->workdir
		: r->has_workspace       ? "/workspace"
					 : PROFILE_HOME;
	char **env = NULL;

	if (profile_fill(s, r, workdir, &env, e) < 0)
		return -1;
	s->terminal = r->terminal;
	s->argv = r->argv;
	profile_tmpfs(s, "/tmp", r->tmp_size, 01777);
	profile_tmpfs(s, PROFILE_HOME, r->tmp_size, 0700);
	profile_tmpfs(s, "/dev/shm", r->tmp_size, 01777);
	if (spec_new_id(s->id, e) < 0) {
		free(env);
		return -1;
	}
	if (profile_finish(s, r, &env, e) < 0)
		return -1;
	*ret_env = env;
	return 0;
}
