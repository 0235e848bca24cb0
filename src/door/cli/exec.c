/* Owns `exec`.  Called by main.c.  Nothing is read but the sandbox's name: a start of a command must cost little. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

/* The command's environment on top of the sandbox's; the strings are borrowed, or in `own`. */
struct variables {
	const char **v;
	char **own;
	size_t n, n_own;
};

static void variables_done(struct variables *env)
{
	for (size_t i = 0; i < env->n_own; i++)
		free(env->own[i]);
	free((void *)env->own);
	free((void *)env->v);
}

static const char *keep(struct variables *env, char *entry)
{
	env->own[env->n_own++] = entry;
	return entry;
}

/* NAME alone takes the value that it has here. */
static int add_variable(struct variables *env, const char *entry, struct err *e)
{
	const char *eq = strchr(entry, '='), *value;

	if (eq == entry)
		return err_set(
			e, R_BAD_VALUE, 0, "read environment variable '%.64s': no name", entry);
	if (!eq) {
		value = getenv(entry);
		if (!value)
			return err_set(e, R_BAD_VALUE, 0,
				"pass environment variable '%.64s': not set here", entry);
		entry = keep(env, xasprintf("%s=%s", entry, value));
	}
	env->v[env->n++] = entry;
	return 0;
}

static int fill_variables(const struct options *o, struct variables *env, struct err *e)
{
	const char *term = getenv("TERM");

	env->v = (const char **)xcalloc((size_t)o->env.n + 2, sizeof *env->v);
	env->own = (char **)xcalloc((size_t)o->env.n + 1, sizeof *env->own);
	/* first: what the caller gives comes after it and wins */
	if (o->tty)
		env->v[env->n++] = keep(
			env, xasprintf("TERM=%s", term && !str_has_control(term) ? term : "dumb"));
	for (unsigned i = 0; i < o->env.n; i++)
		if (add_variable(env, o->env.v[i], e) < 0)
			return -1;
	return 0;
}

/* What a command didn't start for is an errno alone, which exec(2) gives for other things too: where it was to start is no
 * directory, or whom it was to run as has no id here. */
static int name_cause(const struct options *o, struct err *e)
{
	if (e->reason != R_COMMAND_NOT_EXEC)
		return -1;
	if (o->workdir && e->sys_errno == ENOTDIR) {
		err_done(e);
		return err_set(e, R_NOT_A_DIRECTORY, ENOTDIR, "start in '%.256s'", o->workdir);
	}
	if (o->exec_user && (e->sys_errno == EPERM || e->sys_errno == EINVAL)) {
		err_done(e);
		(void)err_set(e, R_PERMISSION_DENIED, 0,
			"run as user '%.32s': the sandbox has no such id", o->exec_user);
		return err_remedy(e,
			"Leave out --user: a sandbox that a normal user made has one id, unless it was given ids by root.");
	}
	return -1;
}

static int print_started(const struct options *o, const char *id, uint32_t command, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	if (!o->json) {
		buf_printf(&out, "%u\n", command);
		return cli_write(&out, e);
	}
	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_string(&j, "id", id);
	json_uint(&j, "command", command);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

static int run_detached(const struct options *o, struct bailey_sandbox *s,
	struct bailey_exec_options *x, struct err *e)
{
	struct bailey_command *c = NULL;
	struct bailey_error failure;
	int r;

	x->flags |= BAILEY_DETACHED;
	if (live_give(bailey_exec(s, x, &c, &failure), &failure, e) < 0)
		return name_cause(o, e);
	r = print_started(o, bailey_sandbox_id(s), bailey_command_id(c), e);
	bailey_command_free(c);
	return r;
}

static int run_served(const struct options *o, struct bailey_sandbox *s,
	struct bailey_exec_options *x, struct err *e)
{
	_cleanup_serve_ struct serve serve = SERVE_INIT;
	_cleanup_(output_done) struct output captured = { .max = 0 };
	const uint64_t started = monotonic_us();
	struct bailey_command *c = NULL;
	struct bailey_error failure;
	int r;

	output_init(&captured, o->output_max_capture);
	if (serve_open(&serve, s, o->tty, o->json ? &captured : NULL, e) < 0)
		return -1;
	serve_streams(&serve, x->flags & BAILEY_STDIN, &x->streams);
	if (live_give(bailey_exec(s, x, &c, &failure), &failure, e) < 0)
		return -1;
	r = serve_run(&serve, c, e);
	if (r != 0)
		return r < 0 ? -1 : r - 1;
	r = result_report(o, bailey_sandbox_id(s), &serve.result, x->argv[0],
		o->json ? &captured : NULL, (monotonic_us() - started) / 1000, e);
	return r < 0 ? name_cause(o, e) : r;
}

static int check_usage(const struct options *o, int argc, struct err *e)
{
	if (argc < 2) {
		(void)err_set(e, R_USAGE, 0, "run 'bailey exec': no command");
		return err_remedy(e, "Write 'bailey exec %s'.", op_table[VERB_EXEC].usage);
	}
	if (o->tty && o->json && !o->detach)
		return err_set(e, R_USAGE, 0,
			"use '--tty' with '--json': a terminal's output can't be captured");
	return 0;
}

int verb_exec(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_(variables_done) struct variables env = { .n = 0 };
	struct bailey_exec_options x = BAILEY_EXEC_OPTIONS_INIT;
	_cleanup_live_ struct live l = { NULL, NULL };

	if (check_usage(o, argc, e) < 0)
		return -1;
	x.argv = (const char *const *)argv + 1;
	x.workdir = o->workdir;
	x.user = o->exec_user;
	x.timeout_ms = o->exec_timeout;
	if (o->tty || o->interactive)
		x.flags |= BAILEY_STDIN;
	if (o->tty) {
		x.flags |= BAILEY_TERMINAL;
		serve_size(&x.rows, &x.columns);
	}
	if (fill_variables(o, &env, e) < 0 || live_connect(&l, o, argv[0], e) < 0)
		return -1;
	x.env = env.v;
	return o->detach ? run_detached(o, l.s, &x, e) : run_served(o, l.s, &x, e);
}
