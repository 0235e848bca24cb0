/* Owns `inspect`.  Called by main.c. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

struct printer {
	const struct options *o;
	struct buf *out;
	struct json json;
	bool live;
};

static void put_text(struct buf *out, const char *key, const char *value)
{
	buf_printf(out, "%-16s ", key);
	cli_escape(out, *value ? value : "-", *value ? strlen(value) : 1);
	buf_puts(out, "\n");
}

static int take_value(void *arg, const char *key, const char *value)
{
	struct printer *p = arg;

	if (p->o->json)
		record_put(&p->json, key, value);
	else
		put_text(p->out, key, value);
	return 0;
}

static int take_record(void *arg, const struct bailey_info *info)
{
	const char *key, *value;
	struct printer *p = arg;

	if (p->o->json) {
		record_put_all(&p->json, info);
		return 0;
	}
	put_text(p->out, "id", info->id);
	put_text(p->out, "state", info->state);
	for (size_t i = 0; bailey_info_at(info, i, &key, &value) == 0; i++)
		if (!streq(key, "id") && !streq(key, "state"))
			put_text(p->out, key, value);
	return 0;
}

/* From the engine, or where none answers from the record. */
static int print(struct live *l, const char *sandbox, struct printer *p, struct err *e)
{
	struct bailey_error failure;

	if (bailey_connect(l->home, sandbox, &l->s, &failure) == 0) {
		if (p->o->json)
			json_bool(&p->json, "live", true);
		return live_give(bailey_inspect(l->s, take_value, p, &failure), &failure, e);
	}
	if (!streq(failure.reason, "sandbox_lost") && !streq(failure.reason, "engine_lost"))
		return live_give(-1, &failure, e);
	return live_give(bailey_record(l->home, sandbox, take_record, p, &failure), &failure, e);
}

int verb_inspect(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct printer p = { .o = o, .out = &out };

	(void)argc;
	json_init(&p.json, &out);
	if (o->json)
		json_object_begin(&p.json, NULL);
	if (live_open(&l, o, e) < 0 || print(&l, argv[0], &p, e) < 0)
		return -1;
	if (o->json) {
		json_object_end(&p.json);
		buf_puts(&out, "\n");
	}
	return cli_write(&out, e);
}
