/* Profile `create`: a sandbox that lives.  As `run`, but the root is writable in a layer of bounded size, the home directory
 * and /workspace are part of that layer, and commands come later.  With read_only nothing outlives a stop but mounts. */
#include <string.h>

#include "base/str.h"
#include "spec/profile_parts.h"

#define WORKSPACE "/workspace"

static bool has_target(const struct run_request *r, const char *target)
{
	for (unsigned i = 0; i < r->n_binds; i++)
		if (streq(r->binds[i].target, target))
			return true;
	return false;
}

static bool has_cow(const struct run_request *r)
{
	for (unsigned i = 0; i < r->n_binds; i++)
		if (r->binds[i].cow)
			return true;
	return false;
}

int profile_create(struct sandbox_spec *s, struct run_request *r, char ***ret_env, struct err *e)
{
	char **env = NULL;

	if (profile_fill(s, r, r->workdir ? r->workdir : WORKSPACE, &env, e) < 0)
		return -1;
	s->profile = SPEC_CREATE;
	s->session = true;
	s->read_only = r->read_only;
	s->disk_bytes = !r->read_only || has_cow(r) ? r->disk_bytes : 0;
	s->ttl_ms = r->ttl_ms;
	s->limits.timeout_ms = 0;
	if (r->workspace_print) {
		memcpy(s->workspace_print, r->workspace_print, sizeof s->workspace_print);
		s->has_workspace_print = true;
	}
	profile_tmpfs(s, "/tmp", r->tmp_size, 01777);
	profile_tmpfs(s, "/dev/shm", r->tmp_size, 01777);
	if (r->read_only && !has_target(r, PROFILE_HOME))
		profile_tmpfs(s, PROFILE_HOME, r->tmp_size, 0700);
	if (r->read_only && !has_target(r, WORKSPACE))
		profile_tmpfs(s, WORKSPACE, r->tmp_size, 0755);
	if (spec_new_id(s->id, e) < 0) {
		free(env);
		return -1;
	}
	str_format(s->hostname, sizeof s->hostname, "%s", s->id);
	if (profile_finish(s, r, &env, e) < 0)
		return -1;
	*ret_env = env;
	return 0;
}
