/* Owns `df`.  Called by main.c. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

struct df {
	const struct options *o;
	struct live *l;
	struct table *table;
	struct json json;
};

static void put_row(
	struct df *d, const char *kind, const char *id, const char *name, uint64_t bytes)
{
	if (d->o->json) {
		json_object_begin(&d->json, NULL);
		json_string(&d->json, "kind", kind);
		json_string(&d->json, "id", id);
		json_string(&d->json, "name", name);
		json_uint(&d->json, "bytes", bytes);
		json_object_end(&d->json);
		return;
	}
	table_cell(d->table, kind);
	table_cell(d->table, id);
	table_cell(d->table, name);
	table_bytes(d->table, bytes);
}

static int take_name(void *arg, const struct bailey_info *info)
{
	if (*info->name)
		*(char **)arg = xstrdup(info->name);
	return 0;
}

static int take_usage(void *arg, const char *kind, const char *name, uint64_t bytes)
{
	_cleanup_free_ char *called = NULL;
	struct df *d = arg;

	if (streq(kind, "layer") || streq(kind, "spool")) {
		(void)bailey_record(d->l->home, name, take_name, &called, NULL);
		put_row(d, kind, name, called, bytes);
	} else {
		put_row(d, kind, NULL, *name ? name : NULL, bytes);
	}
	return 0;
}

int verb_df(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_buf_ struct buf out = { .max = 256 << 20 };
	_cleanup_table_ struct table table;
	struct df d = { .o = o, .l = &l, .table = &table };
	struct bailey_error failure;

	(void)argc;
	(void)argv;
	table_begin(&table, "KIND ID NAME >SIZE");
	json_init(&d.json, &out);
	if (live_open(&l, o, e) < 0)
		return -1;
	if (o->json)
		json_array_begin(&d.json, NULL);
	if (live_give(bailey_df(l.home, take_usage, &d, &failure), &failure, e) < 0)
		return -1;
	if (o->json) {
		json_array_end(&d.json);
		buf_puts(&out, "\n");
	} else {
		table_put(&table, &out);
	}
	return cli_write(&out, e);
}
