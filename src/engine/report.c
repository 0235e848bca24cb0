/* Owns the JSON form of an engine's report. */
#include "engine/report.h"

#include "base/json.h"

static const char *const verdicts[] = {
	[VERDICT_OK] = "ok", [VERDICT_WEAKER] = "weaker", [VERDICT_FAIL] = "fail"
};

void engine_report_json(struct buf *out, const char *engine, const struct engine_report *r)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_string(&j, "engine", engine);
	json_bool(&j, "usable", r->usable);
	json_array_begin(&j, "checks");
	for (unsigned i = 0; i < r->n_checks; i++) {
		const struct engine_check *c = &r->checks[i];

		json_object_begin(&j, NULL);
		json_string(&j, "check", c->name);
		json_string(&j, "verdict", verdicts[c->verdict]);
		json_string(&j, "result", c->result);
		json_string(&j, "consequence", *c->consequence ? c->consequence : NULL);
		json_string(&j, "remedy", *c->remedy ? c->remedy : NULL);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	(void)buf_puts(out, "\n");
}
