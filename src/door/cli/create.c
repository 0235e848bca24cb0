/* Owns `create`.  Called by main.c. */
#include "door/cli/live.h"
#include "door/cli/run.h"
#include "door/cli/verb.h"

int verb_create(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_(create_strings_done) struct create_strings own = { .n_mounts = 0 };
	_cleanup_live_ struct live l = { NULL, NULL };
	struct bailey_create_options c;
	struct bailey_error failure;
	char id[BAILEY_ID_SIZE];

	if (create_options_fill(&c, o, true, &own, e) < 0 || live_open(&l, o, e) < 0)
		return -1;
	c.flags |= (o->read_only ? BAILEY_READ_ONLY : 0u) | (o->keep ? BAILEY_KEEP : 0u);
	c.name = o->name;
	c.disk = o->disk;
	c.ttl_ms = o->ttl;
	if (argc)
		c.command = (const char *const *)argv;
	if (live_give(bailey_create(l.home, &c, id, &failure), &failure, e) < 0)
		return -1;
	run_log_hatches(o, id);
	return live_print_id(o, id, o->name, e);
}
