/* Profile `git-helper`: one of a few fixed scripts on the caller's repository, with the caller's ids and exactly the
 * directories that it needs.  The scripts (git_helper/) read the repository's objects and names, and none of its settings. */
#include <string.h>

#include "base/str.h"
#include "spec/profile_parts.h"
#include "spec/scripts.h"

#define REPO "/repo"
#define GIT_DIR "/git"
#define SHADOW "/shadow"

static const struct {
	const char *name, *script;
	bool repo, writes, shadow, venv, branch;
} operations[GIT_N_OPERATIONS] = {
	[GIT_PROBE] = { "probe", script_git_probe, .repo = true },
	[GIT_SNAPSHOT] = { "snapshot", script_git_snapshot, .repo = true, .shadow = true },
	[GIT_DELIVER] = { "deliver", script_git_deliver, .repo = true, .writes = true,
		.shadow = true, .branch = true },
	[GIT_DELETE_BRANCH] = { "delete-branch", script_git_delete_branch, .repo = true,
		.writes = true, .branch = true },
	[GIT_VENV] = { "venv", script_git_venv, .venv = true },
};

/* What git itself would forbid is refused there; these are bytes that mean something to a script or a terminal. */
static bool is_ref(const char *ref)
{
	const size_t n = strlen(ref);

	return n > 0 && n < 256 && ref[0] != '-' && ref[0] != '/' && ref[n - 1] != '/' &&
		!strstr(ref, "..") && !strstr(ref, "//") && !strstr(ref, "/.") && ref[0] != '.' &&
		strspn(ref,
			"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._/+@-") ==
		n;
}

static bool is_branch(const char *branch)
{
	const char *id = branch ? str_after(branch, "agent/") : NULL;

	return id && spec_tid_is_valid(id);
}

/* A descriptor is there exactly where the operation has a use for it. */
static int check_directory(
	const struct git_helper_request *r, int fd, bool wanted, const char *what, struct err *e)
{
	if ((fd >= 0) == wanted)
		return 0;
	return err_set(e, R_BAD_VALUE, 0, "do '%s' %s %s", operations[r->operation].name,
		wanted ? "without" : "with", what);
}

static int check(const struct git_helper_request *r, struct err *e)
{
	if ((unsigned)r->operation >= GIT_N_OPERATIONS)
		return err_set(e, R_BAD_VALUE, 0, "do git operation '%d': there is none",
			(int)r->operation);
	if (check_directory(r, r->repo, operations[r->operation].repo, "a repository", e) < 0 ||
		check_directory(r, r->shadow, operations[r->operation].shadow, "a shadow directory",
			e) < 0 ||
		check_directory(
			r, r->venv, operations[r->operation].venv, "a virtual environment", e) < 0)
		return -1;
	if (r->git_dir >= 0 &&
		check_directory(r, r->git_dir, operations[r->operation].repo,
			"a common git directory", e) < 0)
		return -1;
	if (operations[r->operation].branch ? !is_branch(r->branch) : r->branch != NULL)
		return err_set(e, R_BAD_VALUE, 0,
			"do '%s' with branch '%.80s': not agent/ and a task id",
			operations[r->operation].name, r->branch ? r->branch : "");
	if (r->ref && (r->operation != GIT_SNAPSHOT || !is_ref(r->ref)))
		return err_set(e, R_BAD_VALUE, 0,
			"do '%s' with ref '%.80s': not the name of a commit",
			operations[r->operation].name, r->ref);
	return 0;
}

static int bind_all(struct sandbox_spec *s, const struct git_helper_request *r, struct err *e)
{
	const bool writes = operations[r->operation].writes;

	if (r->repo >= 0 && profile_bind(s, r->repo, REPO, writes, true, "", e) < 0)
		return -1;
	if (r->git_dir >= 0 && profile_bind(s, r->git_dir, GIT_DIR, writes, true, "", e) < 0)
		return -1;
	if (r->shadow >= 0 &&
		profile_bind(s, r->shadow, SHADOW, r->operation == GIT_SNAPSHOT, true, "", e) < 0)
		return -1;
	return r->venv >= 0 ? profile_bind(s, r->venv, PROFILE_VENV, false, true, "", e) : 0;
}

static int fill(struct pack_request *p, struct git_helper_request *r, struct profile_lists *l,
	struct err *e)
{
	struct sandbox_spec *s = &p->spec;

	if (profile_begin(p, &r->base, SPEC_GIT_HELPER, r->timeout_ms, PROFILE_HELPER_MAX_MS, e) <
			0 ||
		check(r, e) < 0 || profile_labels(s, r->tid, NULL, e) < 0)
		return -1;
	s->limits =
		(struct spec_limits){ .memory_bytes = 1ull << 30, .cpu_millis = 1000, .pids = 64 };
	str_format(s->runtime, sizeof s->runtime, "runc");
	str_format(s->home, sizeof s->home, "/tmp");
	str_format(s->workdir, sizeof s->workdir, "/");
	profile_tmpfs(s, "/tmp", 64ull << 20, 01777);
	s->tmpfs[0].owned = false;
	if (bind_all(s, r, e) < 0)
		return -1;
	profile_env(l, "PATH", PROFILE_PATH);
	profile_env(l, "HOME", "/tmp");
	profile_env(l, "LANG", "C.UTF-8");
	profile_argument(l, "sh");
	profile_argument(l, "-c");
	profile_argument(l, operations[r->operation].script);
	profile_argument(l, operations[r->operation].name);
	if (r->operation == GIT_SNAPSHOT)
		profile_argument(l, r->ref ? r->ref : "HEAD");
	if (r->branch)
		profile_argument(l, r->branch);
	return 0;
}

int profile_git_helper(struct pack_request *p, struct git_helper_request *r, struct err *e)
{
	_cleanup_lists_ struct profile_lists lists = { .n_env = 0 };
	int *fds[4];
	unsigned n = 0;

	/* in the order of bind_all() */
	if (r->repo >= 0)
		fds[n++] = &r->repo;
	if (r->git_dir >= 0)
		fds[n++] = &r->git_dir;
	if (r->shadow >= 0)
		fds[n++] = &r->shadow;
	if (r->venv >= 0)
		fds[n++] = &r->venv;
	if (fill(p, r, &lists, e) == 0)
		return profile_end(p, &r->base, &lists, fds, e);
	profile_forget(p);
	return -1;
}
