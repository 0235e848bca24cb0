/* Owns `pause`, `resume`, `stop` and `start`.  Called by main.c. */
#include "door/cli/live.h"
#include "door/cli/verb.h"

/* Connects for one sandbox of several; what was open before is let go. */
static int connect_to(struct live *l, const char *sandbox, struct err *e)
{
	struct bailey_error failure;

	bailey_disconnect(l->s);
	l->s = NULL;
	return live_give(bailey_connect(l->home, sandbox, &l->s, &failure), &failure, e);
}

static int pause_one(struct live *l, const struct options *o, const char *sandbox, struct err *e)
{
	struct bailey_error failure;

	(void)o;
	if (connect_to(l, sandbox, e) < 0)
		return -1;
	return live_give(bailey_pause(l->s, &failure), &failure, e);
}

static int resume_one(struct live *l, const struct options *o, const char *sandbox, struct err *e)
{
	struct bailey_error failure;

	(void)o;
	if (connect_to(l, sandbox, e) < 0)
		return -1;
	return live_give(bailey_resume(l->s, &failure), &failure, e);
}

static int stop_one(struct live *l, const struct options *o, const char *sandbox, struct err *e)
{
	struct bailey_error failure;

	if (connect_to(l, sandbox, e) < 0)
		return -1;
	return live_give(bailey_stop(l->s, o->grace, &failure), &failure, e);
}

static int start_one(struct live *l, const struct options *o, const char *sandbox, struct err *e)
{
	struct bailey_error failure;

	(void)o;
	if (connect_to(l, sandbox, e) < 0)
		return -1;
	return live_give(bailey_start(l->s, &failure), &failure, e);
}

int verb_pause(struct options *o, int argc, char **argv, struct err *e)
{
	return live_each(o, argc, argv, pause_one, e);
}

int verb_resume(struct options *o, int argc, char **argv, struct err *e)
{
	return live_each(o, argc, argv, resume_one, e);
}

int verb_stop(struct options *o, int argc, char **argv, struct err *e)
{
	return live_each(o, argc, argv, stop_one, e);
}

int verb_start(struct options *o, int argc, char **argv, struct err *e)
{
	return live_each(o, argc, argv, start_one, e);
}
