/* Owns `snapshot` and `fork`.  Called by main.c. */
#include "door/cli/live.h"
#include "door/cli/verb.h"

typedef int copy_fn(struct bailey_sandbox *s, const char *name, char ret_id[BAILEY_ID_SIZE],
	struct bailey_error *e);

static int copy(const struct options *o, const char *sandbox, copy_fn *fn, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	struct bailey_error failure;
	char id[BAILEY_ID_SIZE];

	if (live_connect(&l, o, sandbox, e) < 0 ||
		live_give(fn(l.s, o->name, id, &failure), &failure, e) < 0)
		return -1;
	return live_print_id(o, id, o->name, e);
}

int verb_snapshot(struct options *o, int argc, char **argv, struct err *e)
{
	(void)argc;
	return copy(o, argv[0], bailey_snapshot, e);
}

int verb_fork(struct options *o, int argc, char **argv, struct err *e)
{
	(void)argc;
	return copy(o, argv[0], bailey_fork, e);
}
