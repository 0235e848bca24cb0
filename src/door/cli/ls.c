/* Owns `ls`.  Called by main.c. */
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

struct ls {
	const struct options *o;
	struct table *table;
	struct json json;
	unsigned hidden;
};

static int take_sandbox(void *arg, const struct bailey_info *info)
{
	struct ls *l = arg;

	if (!l->o->all && (streq(info->state, "lost") || streq(info->kind, "snapshot"))) {
		l->hidden++;
		return 0;
	}
	if (l->o->json) {
		json_object_begin(&l->json, NULL);
		record_put_all(&l->json, info);
		json_object_end(&l->json);
		return 0;
	}
	table_cell(l->table, info->id);
	table_cell(l->table, *info->name ? info->name : NULL);
	table_cell(l->table, info->state);
	table_age(l->table, info->created_ms);
	table_cell(l->table, bailey_info_get(info, "image"));
	table_cell(l->table, bailey_info_get(info, "workspace"));
	return 0;
}

int verb_ls(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_buf_ struct buf out = { .max = 1 << 30 };
	_cleanup_table_ struct table table;
	struct ls ls = { .o = o, .table = &table };
	struct bailey_error failure;

	(void)argc;
	(void)argv;
	table_begin(&table, "ID NAME STATE AGE IMAGE WORKSPACE");
	json_init(&ls.json, &out);
	if (live_open(&l, o, e) < 0)
		return -1;
	if (o->json)
		json_array_begin(&ls.json, NULL);
	if (live_give(bailey_list_sandboxes(l.home, take_sandbox, &ls, &failure), &failure, e) < 0)
		return -1;
	if (o->json) {
		json_array_end(&ls.json);
		buf_puts(&out, "\n");
	} else {
		table_put(&table, &out);
	}
	if (cli_write(&out, e) < 0)
		return -1;
	if (ls.hidden && !o->json && isatty(STDERR_FILENO))
		(void)fprintf(
			stderr, "%u more: lost, or snapshots ('bailey ls --all')\n", ls.hidden);
	return 0;
}
