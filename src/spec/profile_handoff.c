/* Profile `handoff`: root with three capabilities gives one directory to one user.  It runs no program of anybody's but its
 * image's, and only on the very object that was checked. */
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "spec/profile_parts.h"
#include "spec/scripts.h"

#define TARGET "/w"

int handoff_object(struct handoff_request *r, struct err *e)
{
	struct stat st;

	if (fstat(r->workspace, &st) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "look at the workspace");
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	return 0;
}

static void put_command(struct profile_lists *l, const struct handoff_request *r)
{
	char object[64], owner[64];

	profile_argument(l, "sh");
	profile_argument(l, "-c");
	profile_argument(l, r->same_user ? script_handoff_none : script_handoff);
	profile_argument(l, "handoff");
	if (r->same_user)
		return;
	profile_argument(l,
		FMT(object, "%llu:%llu", (unsigned long long)r->dev, (unsigned long long)r->ino));
	profile_argument(l, FMT(owner, "%u:%u", r->to_uid, r->to_gid));
}

static int fill(
	struct pack_request *p, struct handoff_request *r, struct profile_lists *l, struct err *e)
{
	struct sandbox_spec *s = &p->spec;

	if (profile_begin(p, &r->base, SPEC_HANDOFF, r->timeout_ms, PROFILE_HELPER_MAX_MS, e) < 0 ||
		profile_labels(s, r->tid, NULL, e) < 0)
		return -1;
	if (r->to_uid > 65534 || r->to_gid > 65534)
		return err_set(e, R_OUT_OF_RANGE, 0, "hand over to '%u:%u': outside 0 to 65534",
			r->to_uid, r->to_gid);
	s->limits = (struct spec_limits){
		.memory_bytes = 256ull << 20, .cpu_millis = 1000, .pids = 16
	};
	/* what a worker for the caller's own id range can't have, it doesn't need: it touches nothing */
	s->uid = r->same_user ? r->base.uid : 0;
	s->gid = r->same_user ? r->base.gid : 0;
	s->add_caps = r->same_user ? 0 : SPEC_HANDOFF_CAPS;
	str_format(s->runtime, sizeof s->runtime, "runc");
	str_format(s->home, sizeof s->home, "/");
	str_format(s->workdir, sizeof s->workdir, "/");
	if (profile_bind(s, r->workspace, TARGET, true, true, "a workspace", e) < 0)
		return -1;
	s->binds[0].has_object = true;
	s->binds[0].dev = r->dev;
	s->binds[0].ino = r->ino;
	profile_env(l, "PATH", PROFILE_PATH);
	profile_env(l, "LANG", "C.UTF-8");
	put_command(l, r);
	return 0;
}

int profile_handoff(struct pack_request *p, struct handoff_request *r, struct err *e)
{
	_cleanup_lists_ struct profile_lists lists = { .n_env = 0 };
	int *const fds[] = { &r->workspace };

	if (fill(p, r, &lists, e) == 0)
		return profile_end(p, &r->base, &lists, fds, e);
	profile_forget(p);
	return -1;
}
