/* The verbs that every engine's program has.  Called by the engines' main(); `bailey` links engines and does not need it. */
#include "engine/engine_main.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/owner.h"
#include "engine/report.h"

enum {
	IDS_BASE = 0x70000000,
	IDS_COUNT = 4096,
	EXIT_UNUSABLE = 1,
	EXIT_USAGE = 2,
	REQUEST_FD = 3,
	ANSWER_FD = 4
};

static int env_u32(const char *name, uint32_t fallback, uint32_t *ret, struct err *e)
{
	const char *text = secure_getenv(name);
	uint64_t v = fallback;

	if (text && *text && parse_u64(text, 1, UINT32_MAX, name, &v, e) < 0)
		return -1;
	*ret = (uint32_t)v;
	return 0;
}

static const char *env_text(const char *name)
{
	const char *text = secure_getenv(name);

	return text && *text ? text : NULL;
}

int engine_env_fill(struct engine_env *ret, char **ret_guest, struct err *e)
{
	*ret = (struct engine_env){ .cgroup_parent = secure_getenv("BAILEY_CGROUP_PARENT"),
		.layers = env_text("BAILEY_NATIVE_LAYERS"),
		.layer_store = env_text("BAILEY_NATIVE_LAYER_STORE") };
	if (libexec_path("bailey-guest", ret_guest, e) < 0 || home_hash(ret->home_hash, e) < 0 ||
		env_u32("BAILEY_IDS_BASE", IDS_BASE, &ret->ids_base, e) < 0 ||
		env_u32("BAILEY_IDS_COUNT", IDS_COUNT, &ret->ids_count, e) < 0)
		return -1;
	ret->guest = *ret_guest;
	return 0;
}

/* With the place of sessions: what they leave in hierarchies that a run does not use is swept too. */
static int open_engine(const struct engine_ops *ops, bool sweeps, char **ret_guest, char **ret_runs,
	struct engine **ret, struct err *e)
{
	_cleanup_free_ char *home = NULL;
	struct engine_env env;

	if (engine_env_fill(&env, ret_guest, e) < 0 || home_path(&home, e) < 0)
		return -1;
	env.runs = *ret_runs = xasprintf("%s/sandbox/runs", home);
	if (sweeps && ops->used && !ops->used(env.runs))
		return 0;
	if (ops->open(ret, &env, e) == 0)
		return 0;
	if (sweeps && ops->unreachable)
		ops->unreachable();
	return -1;
}

static int do_probe(
	struct engine *engine, const struct engine_ops *ops, struct buf *out, struct err *e)
{
	static struct engine_report report; /* too large for the stack */

	if (ops->probe(engine, &report, e) < 0)
		return -1;
	engine_report_json(out, ops->name, &report);
	return report.usable ? 0 : EXIT_UNUSABLE;
}

static void put_listed(void *arg, const char *id, bool alive)
{
	struct buf *out = arg;
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_string(&j, "id", id);
	json_bool(&j, "alive", alive);
	json_object_end(&j);
	(void)buf_puts(out, "\n");
}

static int do_sweep(
	struct engine *engine, const struct engine_ops *ops, struct buf *out, struct err *e)
{
	struct rundirs dirs = RUNDIRS_INIT;
	unsigned removed = 0;
	int r;

	if ((engine && ops->sweep(engine, &removed, e) < 0) || rundirs_open(&dirs, e) < 0)
		return -1;
	owner_adopt_all(ops, &dirs);
	r = rundirs_sweep(&dirs, &removed, e);
	rundirs_done(&dirs);
	if (r < 0)
		return -1;
	(void)buf_printf(out, "{\"removed\":%u}\n", removed);
	return 0;
}

/* One whose deadline has passed and whose owner did not see to it. */
static int do_kill(struct engine *engine, const struct engine_ops *ops, const char *id,
	struct buf *out, struct err *e)
{
	struct rundirs dirs = RUNDIRS_INIT;
	int r;

	if (rundirs_open(&dirs, e) < 0)
		return -1;
	r = rundir_kill_owner(&dirs, id, e);
	rundirs_done(&dirs);
	if (r == 0 && ops->end)
		r = ops->end(engine, id, e);
	return r < 0 ? -1 : do_sweep(engine, ops, out, e);
}

static int run_verb(struct engine *engine, const struct engine_ops *ops, const char *verb,
	struct buf *out, struct err *e)
{
	if (streq(verb, "probe"))
		return do_probe(engine, ops, out, e);
	if (streq(verb, "list"))
		return ops->list(engine, put_listed, out, e);
	return do_sweep(engine, ops, out, e);
}

static bool is_usage(int argc, char **argv)
{
	if (argc == 3)
		return streq(argv[1], "kill");
	return argc == 2 &&
		(streq(argv[1], "probe") || streq(argv[1], "list") || streq(argv[1], "sweep"));
}

int engine_main(const struct engine_ops *ops, int argc, char **argv)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char *guest = NULL, *runs = NULL;
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct engine *engine = NULL;
	int status = -1;

	if (argc == 2 && streq(argv[1], "run"))
		return owner_run(ops, REQUEST_FD, REQUEST_FD);
	/* from a launcher: the client waits for the answer elsewhere */
	if (argc == 2 && streq(argv[1], "run-for"))
		return owner_run(ops, REQUEST_FD, ANSWER_FD);
	if (argc == 3 && streq(argv[1], "adopt"))
		return owner_adopt(ops, argv[2], fcntl(REQUEST_FD, F_GETFD) < 0 ? -1 : REQUEST_FD);
	if (!is_usage(argc, argv)) {
		(void)fprintf(stderr,
			"usage: bailey-engine-%s probe|list|sweep|kill ID|adopt ID|run|run-for\n",
			ops->name);
		return EXIT_USAGE;
	}
	if (open_engine(ops, streq(argv[1], "sweep"), &guest, &runs, &engine, &e) == 0)
		status = argc == 3 ? do_kill(engine, ops, argv[2], &out, &e)
				   : run_verb(engine, ops, argv[1], &out, &e);
	if (status >= 0 && out.len && write_all(STDOUT_FILENO, out.data, out.len) < 0)
		status = err_set(&e, R_OUTPUT_FAILED, errno, "write to standard output");
	if (engine)
		ops->close(engine);
	if (status >= 0)
		return status;
	(void)fprintf(stderr, "bailey-engine-%s: %s [%s]\n  try: %s\n", ops->name, e.message ?: "",
		reason_name(e.reason), err_get_remedy(&e));
	return reason_exit(e.reason);
}
