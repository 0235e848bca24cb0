/* Owns `attach` and `wait`, which both end as a command does.  Called by main.c. */
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

struct wanted {
	uint32_t id;
	bool terminal;
};

static int look_at(void *arg, const struct bailey_command_info *info)
{
	struct wanted *w = arg;

	if (info->id != w->id)
		return 0;
	w->terminal = info->exec_flags & BAILEY_TERMINAL;
	return 1;
}

/* Whether the client's terminal is to become the command's. */
static int takes_terminal(
	const struct options *o, struct bailey_sandbox *s, uint32_t id, bool *ret, struct err *e)
{
	struct wanted w = { .id = id };
	struct bailey_error failure;

	*ret = false;
	if (!o->interactive || o->json || !isatty(STDIN_FILENO))
		return 0;
	if (live_give(bailey_ps(s, look_at, &w, &failure), &failure, e) < 0)
		return -1;
	*ret = w.terminal;
	return 0;
}

static int attach(const struct options *o, struct bailey_sandbox *s, uint32_t id, const char *name,
	struct err *e)
{
	_cleanup_serve_ struct serve serve = SERVE_INIT;
	_cleanup_(output_done) struct output captured = { .max = 0 };
	const unsigned flags = o->interactive ? BAILEY_ATTACH_INPUT : 0;
	const uint64_t started = monotonic_us();
	struct bailey_command *c = NULL;
	struct bailey_streams streams;
	struct bailey_error failure;
	uint16_t rows, columns;
	bool terminal;
	int r;

	output_init(&captured, o->output_max_capture);
	if (takes_terminal(o, s, id, &terminal, e) < 0 ||
		serve_open(&serve, s, terminal, o->json ? &captured : NULL, e) < 0)
		return -1;
	serve_streams(&serve, o->interactive, &streams);
	if (live_give(bailey_attach(s, id, flags, &streams, &c, &failure), &failure, e) < 0)
		return -1;
	serve_size(&rows, &columns);
	if (terminal && rows)
		(void)bailey_command_resize(c, rows, columns, NULL);
	r = serve_run(&serve, c, e);
	if (r != 0)
		return r < 0 ? -1 : r - 1;
	return result_report(o, bailey_sandbox_id(s), &serve.result, name,
		o->json ? &captured : NULL, (monotonic_us() - started) / 1000, e);
}

int verb_attach(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	uint32_t id;

	(void)argc;
	if (live_command_id(argv[1], &id, e) < 0 || live_connect(&l, o, argv[0], e) < 0)
		return -1;
	return attach(o, l.s, id, argv[1], e);
}

int verb_wait(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	struct bailey_error failure;
	struct bailey_result result;
	uint32_t id;

	(void)argc;
	if (live_command_id(argv[1], &id, e) < 0 || live_connect(&l, o, argv[0], e) < 0)
		return -1;
	if (live_give(bailey_wait(l.s, id, -1, &result, &failure), &failure, e) < 0)
		return -1;
	return result_report(o, bailey_sandbox_id(l.s), &result, argv[1], NULL, 0, e);
}
