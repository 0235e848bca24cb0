/* Owns `create`.  Called by main.c. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/run.h"
#include "door/cli/verb.h"

static int create(struct options *o, const struct bailey_create_options *c, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	struct bailey_error failure;
	char id[BAILEY_ID_SIZE];

	if (live_open(&l, o, e) < 0 ||
		live_give(bailey_create(l.home, c, id, &failure), &failure, e) < 0)
		return -1;
	run_log_hatches(o, id);
	return live_print_id(o, id, o->name, e);
}

/* --- with a profile ------------------------------------------------------------------------------------------------ */

static int check_flags(const struct options *o, struct err *e)
{
	static const enum option its[] = { OPTION_profile, OPTION_param, OPTION_name, OPTION_image,
		OPTION_keep, OPTION_root_workspace, OPTION_json, OPTION_engine, OPTION_runtime };

	for (enum option i = 0; i < OPTION_MAX; i++) {
		bool known = o->origin[i].kind != ORIGIN_FLAG || !option_in_verb(i, VERB_CREATE);

		for (size_t k = 0; k < sizeof its / sizeof *its; k++)
			known = known || its[k] == i;
		if (!known)
			return err_set(e, R_USAGE, 0,
				"use --%s with --profile %s: its settings are built in",
				option_table[i].flag, o->profile);
	}
	return 0;
}

/* "KEY=VALUE" is cut at its '='. */
static int split(struct options *o, struct bailey_param *params, struct err *e)
{
	for (unsigned i = 0; i < o->param.n; i++) {
		char *eq = strchr(o->param.v[i], '=');

		if (!eq || eq == o->param.v[i])
			return err_set(
				e, R_USAGE, 0, "use --param '%.64s': not KEY=VALUE", o->param.v[i]);
		*eq = '\0';
		params[i] = (struct bailey_param){ o->param.v[i], eq + 1 };
	}
	return 0;
}

static int create_profile(struct options *o, int argc, char **argv, struct err *e)
{
	struct bailey_create_options c = BAILEY_CREATE_OPTIONS_INIT;
	_cleanup_free_ struct bailey_param *params = xcalloc(o->param.n + 1, sizeof *params);

	if (check_flags(o, e) < 0 || split(o, params, e) < 0)
		return -1;
	c.flags = (o->keep ? BAILEY_KEEP : 0u) | (o->root_workspace ? BAILEY_ROOT_WORKSPACE : 0u);
	c.name = o->name;
	c.image = o->origin[OPTION_image].kind == ORIGIN_FLAG ? o->image : NULL;
	c.spool_max = o->output_spool_max;
	c.profile = o->profile;
	c.params = params;
	c.n_params = o->param.n;
	if (argc)
		c.command = (const char *const *)argv;
	return create(o, &c, e);
}

int verb_create(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_(create_strings_done) struct create_strings own = { .n_mounts = 0 };
	struct bailey_create_options c;

	if (o->profile)
		return create_profile(o, argc, argv, e);
	if (o->param.n)
		return err_set(e, R_USAGE, 0, "use --param without --profile");
	if (create_options_fill(&c, o, true, &own, e) < 0)
		return -1;
	c.flags |= (o->read_only ? BAILEY_READ_ONLY : 0u) | (o->keep ? BAILEY_KEEP : 0u);
	c.name = o->name;
	/* what memory leaves room for is the library's to say */
	c.disk = o->origin[OPTION_disk].kind == ORIGIN_DEFAULT ? 0 : o->disk;
	c.tmp_size = o->origin[OPTION_tmp_size].kind == ORIGIN_DEFAULT ? 0 : o->tmp_size;
	c.ttl_ms = o->ttl;
	if (argc)
		c.command = (const char *const *)argv;
	return create(o, &c, e);
}
