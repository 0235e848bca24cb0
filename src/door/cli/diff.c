/* Owns `diff`.  Called by main.c. */
#include "door/cli/live.h"
#include "door/cli/verb.h"

static int take_change(void *arg, const struct bailey_change *change)
{
	struct changes *c = arg;

	changes_add(c, change->kind, change->mode, change->size, change->path);
	return c->failed;
}

int verb_diff(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_changes_ struct changes c = { .n = 0 };
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct bailey_error failure;
	struct json j;

	(void)argc;
	if (live_connect(&l, o, argv[0], e) < 0 ||
		live_give(bailey_changes(l.s, o->diff_workspace, take_change, &c, &failure),
			&failure, e) < 0)
		return -1;
	if (changes_check(&c, argv[0], e) < 0)
		return -1;
	changes_sort(&c);
	json_init(&j, &out);
	if ((o->json ? changes_put_json(&j, NULL, &c, e) : changes_put_text(&c, &out, e)) < 0)
		return -1;
	if (o->json)
		buf_puts(&out, "\n");
	return cli_write(&out, e);
}
