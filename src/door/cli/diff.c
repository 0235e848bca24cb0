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
	_cleanup_buf_ struct buf out = { .max = 4ul << 30 };
	struct bailey_error failure;
	struct json j;

	(void)argc;
	if (live_connect(&l, o, argv[0], e) < 0 ||
		live_give(bailey_changes(l.s, o->diff_workspace, take_change, &c, &failure),
			&failure, e) < 0)
		return -1;
	if (c.failed)
		return err_set(e, R_NO_MEMORY, ENOMEM, "list the changes of '%s'", argv[0]);
	changes_sort(&c);
	if (o->json) {
		json_init(&j, &out);
		changes_put_json(&j, NULL, &c);
		buf_puts(&out, "\n");
	} else {
		changes_put_text(&c, &out);
	}
	return cli_write(&out, e);
}
