/* Owns `rm` and `prune`.  Called by main.c. */
#include "door/cli/live.h"
#include "door/cli/verb.h"

static int remove_one(struct live *l, const struct options *o, const char *sandbox, struct err *e)
{
	struct bailey_error failure;

	return live_give(bailey_remove_sandbox(l->home, sandbox, o->grace, o->rm_force, &failure),
		&failure, e);
}

int verb_rm(struct options *o, int argc, char **argv, struct err *e)
{
	return live_each(o, argc, argv, remove_one, e);
}

struct pruned {
	const struct options *o;
	struct buf *out;
	struct json json;
};

static int take_pruned(void *arg, const struct bailey_info *info)
{
	struct pruned *p = arg;

	if (!p->o->json) {
		buf_printf(p->out, "%s %s\n", info->id, info->state);
		return 0;
	}
	json_object_begin(&p->json, NULL);
	json_string(&p->json, "id", info->id);
	json_string(&p->json, "name", *info->name ? info->name : NULL);
	json_string(&p->json, "state", info->state);
	json_object_end(&p->json);
	return 0;
}

int verb_prune(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct pruned p = { .o = o, .out = &out };
	struct bailey_error failure;
	int r;

	(void)argc;
	(void)argv;
	if (live_open(&l, o, e) < 0)
		return -1;
	json_init(&p.json, &out);
	if (o->json)
		json_array_begin(&p.json, NULL);
	r = live_give(bailey_prune(l.home, o->stopped, take_pruned, &p, &failure), &failure, e);
	if (o->json && r < 0)
		return -1;
	if (o->json) {
		json_array_end(&p.json);
		buf_puts(&out, "\n");
	}
	/* what is gone is said although a later one could not be removed */
	return cli_write(&out, e) < 0 || r < 0 ? -1 : 0;
}
