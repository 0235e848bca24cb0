/* `bailey doctor`: what this host enforces, each line found by doing it; see engine/native/probe.c. */
#include <string.h>

#include "door/cli/verb.h"
#include "engine/engine.h"
#include "engine/report.h"

enum { EXIT_UNUSABLE = 1 };

static const char *const verdicts[] = {
	[VERDICT_OK] = "ok", [VERDICT_WEAKER] = "weaker", [VERDICT_FAIL] = "FAIL"
};

static void put_text(struct buf *out, const struct engine_report *r)
{
	for (unsigned i = 0; i < r->n_checks; i++) {
		const struct engine_check *c = &r->checks[i];

		(void)buf_printf(out, "%-6s  %-16s  ", verdicts[c->verdict], c->name);
		cli_escape(out, c->result, strlen(c->result));
		if (*c->consequence)
			(void)buf_printf(out, "\n%26s%s", "", c->consequence);
		if (*c->remedy)
			(void)buf_printf(out, "\n%26stry: %s", "", c->remedy);
		(void)buf_puts(out, "\n");
	}
	(void)buf_puts(out,
		r->usable
			? "\nThe default profile of the native engine can run here.\n"
			: "\nThe default profile of the native engine can't run here: mend what fails above.\n");
}

int verb_doctor(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	static struct engine_report report; /* 40 lines of text: too much for the stack */
	struct engine *engine;
	int r;

	(void)argc;
	(void)argv;
	if (cli_open_engine(o, &engine, e) < 0)
		return -1;
	r = engine_native.probe(engine, &report, e);
	engine_native.close(engine);
	if (r < 0)
		return -1;
	if (o->json)
		engine_report_json(&out, engine_native.name, &report);
	else
		put_text(&out, &report);
	if (cli_write(&out, e) < 0)
		return -1;
	return report.usable ? 0 : EXIT_UNUSABLE;
}
