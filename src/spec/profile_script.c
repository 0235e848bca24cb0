/* Profile `script`: one program that somebody wrote a moment ago, from a directory that it can't change. */
#include "base/str.h"
#include "spec/profile_parts.h"

static int fill(
	struct pack_request *p, struct script_request *r, struct profile_lists *l, struct err *e)
{
	const bool python = r->language == SCRIPT_PYTHON;
	struct sandbox_spec *s = &p->spec;

	if (profile_begin(p, &r->base, SPEC_SCRIPT, r->timeout_ms, PROFILE_SCRIPT_MAX_MS, e) < 0 ||
		profile_labels(s, r->tid, NULL, e) < 0)
		return -1;
	s->limits =
		(struct spec_limits){ .memory_bytes = 2ull << 30, .cpu_millis = 1000, .pids = 256 };
	s->log_bytes = 8 << 20;
	s->log_files = 1;
	/* never root: what was written a moment ago has no need of it */
	s->uid = s->uid ? s->uid : 1000;
	s->gid = s->gid ? s->gid : 1000;
	str_format(s->home, sizeof s->home, "/tmp");
	str_format(s->workdir, sizeof s->workdir, "/tmp");
	profile_tmpfs(s, "/tmp", 64ull << 20, 01777);
	s->tmpfs[0].owned = false;
	if (profile_bind(s, r->script, "/workspace", false, true, "the script's directory", e) < 0)
		return -1;
	s->workspace = 0;
	profile_env(l, "PATH", PROFILE_PATH);
	profile_env(l, "HOME", "/tmp");
	profile_env(l, "LANG", "C.UTF-8");
	profile_env(l, "PYTHONDONTWRITEBYTECODE", "1");
	profile_argument(l, python ? "python3" : "bash");
	profile_argument(l, python ? "/workspace/script.py" : "/workspace/script.sh");
	return 0;
}

int profile_script(struct pack_request *p, struct script_request *r, struct err *e)
{
	_cleanup_lists_ struct profile_lists lists = { .n_env = 0 };
	int *const fds[] = { &r->script };

	if (fill(p, r, &lists, e) == 0)
		return profile_end(p, &r->base, &lists, fds, e);
	profile_forget(p);
	return -1;
}
