/* Owns the text form of requests for profiles.  Called by libbailey and by a launcher, with what another party wrote.
 *
 * Must hold: a request is made only from keys of params.def with values that were checked; on failure no descriptor moved. */
#include "spec/params.h"

#include <string.h>

#include "base/str.h"
#include "spec/params_json.h"

#define P(profile) (1u << SPEC_##profile)
#define YES PARAM_YES
#define NO PARAM_NO
#define SOME PARAM_SOME
enum param_id {
#define PARAM(id, profiles, key, type, must, doc) PARAM_ID_##id,
#include "spec/params.def"
#undef PARAM
	N_PARAMS,
};

const struct param profile_params[] = {
#define PARAM(id, profiles, key, type, must, doc) { key, profiles, PARAM_##type, must, doc },
#include "spec/params.def"
#undef PARAM
};
const unsigned n_profile_params = N_PARAMS;

/* What was given, by the row of its parameter. */
struct given {
	enum spec_profile profile;
	const char *text[N_PARAMS];
	struct profile_fd *dir[N_PARAMS];
	uint64_t time; /* milliseconds; 0: not given.  A profile has one. */
	struct profile_env env[PROFILE_MAX_TASK_ENV];
	unsigned n_env;
	char **argv;
};

const struct param *param_find(enum spec_profile profile, const char *key)
{
	for (unsigned i = 0; i < N_PARAMS; i++)
		if ((profile_params[i].profiles & 1u << profile) &&
			streq(profile_params[i].key, key))
			return &profile_params[i];
	return NULL;
}

static int refuse(const struct given *g, const char *key, const char *why, struct err *e)
{
	return err_set(e, R_BAD_VALUE, 0, "use parameter '%.64s' of profile '%s': %s", key,
		spec_profile_name(g->profile), why);
}

/* --- one key at a time --- */

static int take_env(struct given *g, const char *name, const struct profile_param *p, struct err *e)
{
	if (g->profile != SPEC_AGENT && g->profile != SPEC_CHECK)
		return refuse(g, p->key, "it has none of that name", e);
	for (unsigned i = 0; i < g->n_env; i++)
		if (streq(g->env[i].name, name))
			return refuse(g, p->key, "it is given twice", e);
	if (g->n_env == PROFILE_MAX_TASK_ENV)
		return refuse(g, p->key, "too many variables", e);
	if (profile_env_check(name, p->value, g->profile == SPEC_AGENT, e) < 0)
		return err_wrap(e, "parameter '%.64s'", p->key);
	g->env[g->n_env++] = (struct profile_env){ name, p->value };
	return 0;
}

static uint64_t longest(enum spec_profile profile)
{
	static const uint64_t most[SPEC_N_PROFILES] = { [SPEC_AGENT] = PROFILE_AGENT_MAX_MS,
		[SPEC_CHECK] = PROFILE_CHECK_MAX_MS,
		[SPEC_GIT_HELPER] = PROFILE_HELPER_MAX_MS,
		[SPEC_HANDOFF] = PROFILE_HELPER_MAX_MS,
		[SPEC_SCRIPT] = PROFILE_SCRIPT_MAX_MS };

	return most[profile];
}

static int take_value(struct given *g, enum param_id id, const char *value, struct err *e)
{
	const struct param *p = &profile_params[id];

	g->text[id] = value;
	if (p->type == PARAM_DIR)
		return refuse(g, p->key, "a directory comes as a descriptor", e);
	if (p->type == PARAM_TIME)
		return parse_duration(
			value, 1, longest(g->profile), "parameter 'timeout'", &g->time, e);
	if (p->type == PARAM_ARGV && param_get_words(value, &g->argv, e) < 0)
		return err_wrap(e, "parameter '%s'", p->key);
	return 0;
}

static int take(struct given *g, const struct profile_param *p, struct err *e)
{
	const char *name = str_after(p->key, "env.");
	const struct param *param;
	enum param_id id;

	if (strlen(p->value) > PARAM_MAX_VALUE)
		return refuse(g, p->key, "its value is over 1 MiB", e);
	if (name)
		return take_env(g, name, p, e);
	param = param_find(g->profile, p->key);
	if (!param)
		return refuse(g, p->key, "it has none of that name", e);
	id = (enum param_id)(param - profile_params);
	if (g->text[id])
		return refuse(g, p->key, "it is given twice", e);
	if (!*p->value)
		return refuse(g, p->key, "its value is empty", e);
	return take_value(g, id, p->value, e);
}

static int take_fd(struct given *g, struct profile_fd *f, struct err *e)
{
	const struct param *param = param_find(g->profile, f->key);
	enum param_id id;

	if (!param || param->type != PARAM_DIR || f->fd < 0)
		return refuse(g, f->key, "no directory has that name", e);
	id = (enum param_id)(param - profile_params);
	if (g->dir[id])
		return refuse(g, f->key, "it is given twice", e);
	g->dir[id] = f;
	return 0;
}

static int check_all_there(const struct given *g, struct err *e)
{
	for (unsigned i = 0; i < N_PARAMS; i++) {
		const struct param *p = &profile_params[i];

		if (p->must == PARAM_YES && (p->profiles & 1u << g->profile) && !g->text[i] &&
			!g->dir[i])
			return refuse(g, p->key, "it is missing", e);
	}
	return 0;
}

static int choose(const struct given *g, enum param_id id, const char *const *names, unsigned n,
	struct err *e)
{
	for (unsigned i = 0; i < n; i++)
		if (streq(g->text[id], names[i]))
			return (int)i;
	return refuse(g, profile_params[id].key, profile_params[id].doc, e);
}

/* --- a request of each profile --- */

#define TEXT(g, id) ((g)->text[PARAM_ID_##id])

/* The descriptor stays where it is until all is well. */
static int peek(const struct given *g, enum param_id id)
{
	return g->dir[id] ? g->dir[id]->fd : -1;
}

static int fill_agent(struct profile_request *r, const struct given *g,
	const struct profile_operator *o, struct err *e)
{
	struct agent_request *a = &r->agent;

	(void)e;
	*a = (struct agent_request){ .base = o->base,
		.tid = TEXT(g, TID),
		.model = TEXT(g, MODEL),
		.command = g->argv,
		.n_env = g->n_env,
		.timeout_ms = g->time ? g->time : PROFILE_AGENT_MAX_MS,
		.worktree = peek(g, PARAM_ID_WORKTREE),
		.sockets = peek(g, PARAM_ID_SOCKETS),
		.venv = peek(g, PARAM_ID_VENV) };
	memcpy(a->env, g->env, sizeof a->env);
	a->base.uid = o->agent_uid;
	a->base.gid = o->agent_gid;
	return 0;
}

static int fill_check(struct profile_request *r, const struct given *g,
	const struct profile_operator *o, struct err *e)
{
	struct check_request *c = &r->check;

	(void)e;
	*c = (struct check_request){ .base = o->base,
		.tid = TEXT(g, TID),
		.command = TEXT(g, COMMAND),
		.model = TEXT(g, MODEL_LABEL),
		.n_env = g->n_env,
		.timeout_ms = g->time ? g->time : PROFILE_CHECK_MAX_MS,
		.worktree = peek(g, PARAM_ID_WORKTREE),
		.venv = peek(g, PARAM_ID_VENV) };
	memcpy(c->env, g->env, sizeof c->env);
	c->base.uid = o->agent_uid;
	c->base.gid = o->agent_gid;
	return 0;
}

enum { HELPER_MS = 120000 };

static int fill_git_helper(struct profile_request *r, const struct given *g,
	const struct profile_operator *o, struct err *e)
{
	static const char *const names[GIT_N_OPERATIONS] = { "probe", "snapshot", "deliver",
		"delete-branch", "venv" };
	int operation = choose(g, PARAM_ID_OPERATION, names, GIT_N_OPERATIONS, e);
	struct git_helper_request *h = &r->git_helper;

	if (operation < 0)
		return -1;
	*h = (struct git_helper_request){ .base = o->base,
		.operation = (enum git_operation)operation,
		.tid = TEXT(g, TASK),
		.ref = TEXT(g, REF),
		.branch = TEXT(g, BRANCH),
		.timeout_ms = g->time ? g->time : HELPER_MS,
		.repo = peek(g, PARAM_ID_REPO),
		.git_dir = peek(g, PARAM_ID_GIT_DIR),
		.shadow = peek(g, PARAM_ID_SHADOW),
		.venv = peek(g, PARAM_ID_HELPER_VENV) };
	h->base.uid = o->caller_uid;
	h->base.gid = o->caller_gid;
	return 0;
}

static int fill_handoff(struct profile_request *r, const struct given *g,
	const struct profile_operator *o, struct err *e)
{
	static const char *const names[] = { "agent", "caller" };
	int to = choose(g, PARAM_ID_TO, names, 2, e);
	struct handoff_request *h = &r->handoff;

	if (to < 0)
		return -1;
	*h = (struct handoff_request){ .base = o->base,
		.tid = TEXT(g, TASK),
		.timeout_ms = g->time ? g->time : HELPER_MS,
		.workspace = peek(g, PARAM_ID_WORKSPACE),
		.to_uid = to == 0 ? o->agent_uid : o->caller_uid,
		.to_gid = to == 0 ? o->agent_gid : o->caller_gid,
		.same_user = o->same_user };
	h->base.uid = o->caller_uid;
	h->base.gid = o->caller_gid;
	return handoff_object(h, e);
}

static int fill_script(struct profile_request *r, const struct given *g,
	const struct profile_operator *o, struct err *e)
{
	static const char *const names[] = { "python", "bash" };
	int language = choose(g, PARAM_ID_LANGUAGE, names, 2, e);
	struct script_request *s = &r->script;

	if (language < 0)
		return -1;
	*s = (struct script_request){ .base = o->base,
		.tid = TEXT(g, TASK),
		.language = (enum script_language)language,
		.timeout_ms = g->time ? g->time : PROFILE_SCRIPT_MAX_MS,
		.script = peek(g, PARAM_ID_SCRIPT) };
	s->base.uid = o->caller_uid;
	s->base.gid = o->caller_gid;
	return 0;
}

typedef int fill_fn(struct profile_request *, const struct given *, const struct profile_operator *,
	struct err *);
static fill_fn *const fillers[SPEC_N_PROFILES] = { [SPEC_AGENT] = fill_agent,
	[SPEC_CHECK] = fill_check,
	[SPEC_GIT_HELPER] = fill_git_helper,
	[SPEC_HANDOFF] = fill_handoff,
	[SPEC_SCRIPT] = fill_script };

static int collect(struct given *g, const struct profile_param *params, unsigned n,
	struct profile_fd *fds, unsigned n_fds, struct err *e)
{
	for (unsigned i = 0; i < n; i++)
		if (take(g, &params[i], e) < 0)
			return -1;
	for (unsigned i = 0; i < n_fds; i++)
		if (take_fd(g, &fds[i], e) < 0)
			return -1;
	return check_all_there(g, e);
}

/* NOLINTNEXTLINE(readability-function-size): two lists, and what they mean */
int profile_from_params(struct profile_request *ret, const char *profile,
	const struct profile_param *params, unsigned n, struct profile_fd *fds, unsigned n_fds,
	const struct profile_operator *o, struct err *e)
{
	const int found = spec_profile_find(profile);
	struct given g = { .profile = found < 0 ? SPEC_RUN : (enum spec_profile)found };

	if (found < 0 || !fillers[found])
		return err_set(e, R_BAD_VALUE, 0,
			"use profile '%.64s': not agent, check, git-helper, handoff or script",
			profile);
	memset(ret, 0, sizeof *ret);
	ret->profile = g.profile;
	if (collect(&g, params, n, fds, n_fds, e) < 0 || fillers[found](ret, &g, o, e) < 0) {
		free(g.argv);
		return -1;
	}
	ret->memory = g.argv;
	for (unsigned i = 0; i < n_fds; i++)
		fds[i].fd = -1;
	return 0;
}

/* --- from a request on --- */

static struct profile_base *base_of(struct profile_request *r)
{
	/* each begins with it */
	return &r->agent.base;
}

static void close_all(int *const *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		*fds[i] = close_fd(*fds[i]);
}

void profile_request_done(struct profile_request *r)
{
	int *const agent[] = { &r->agent.worktree, &r->agent.sockets, &r->agent.venv };
	int *const check[] = { &r->check.worktree, &r->check.venv };
	int *const helper[] = { &r->git_helper.repo, &r->git_helper.git_dir, &r->git_helper.shadow,
		&r->git_helper.venv };
	int *const handoff[] = { &r->handoff.workspace };
	int *const script[] = { &r->script.script };
	struct profile_base *b = base_of(r);

	switch (r->profile) {
	case SPEC_AGENT:
		close_all(agent, 3);
		break;
	case SPEC_CHECK:
		close_all(check, 2);
		break;
	case SPEC_GIT_HELPER:
		close_all(helper, 4);
		break;
	case SPEC_HANDOFF:
		close_all(handoff, 1);
		break;
	case SPEC_SCRIPT:
		close_all(script, 1);
		break;
	case SPEC_RUN:
	case SPEC_CREATE:
		return;
	}
	b->image_fd = close_fd(b->image_fd);
	b->image_lock_fd = close_fd(b->image_lock_fd);
	free(r->memory);
	r->memory = NULL;
	r->profile = SPEC_RUN;
}

int profile_build(struct pack_request *p, struct profile_request *r, struct err *e)
{
	switch (r->profile) {
	case SPEC_AGENT:
		return profile_agent(p, &r->agent, e);
	case SPEC_CHECK:
		return profile_check(p, &r->check, e);
	case SPEC_GIT_HELPER:
		return profile_git_helper(p, &r->git_helper, e);
	case SPEC_HANDOFF:
		return profile_handoff(p, &r->handoff, e);
	case SPEC_SCRIPT:
		return profile_script(p, &r->script, e);
	case SPEC_RUN:
	case SPEC_CREATE:
		break;
	}
	memset(p, 0, sizeof *p);
	spec_init(&p->spec);
	return err_set(e, R_BAD_VALUE, 0, "build a profile from an empty request");
}
