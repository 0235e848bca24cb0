/* Owns the grammar of the command line.  Called by load.c.  Pure: reads argv and fills options. */
#include "config/args.h"

#include <string.h>

#include "base/str.h"

/* A flag as typed: '--name=value' has its value attached, '-n5' too, '-it' is two flags. */
struct args {
	struct options *o;
	enum verb verb;
	int argc, next;
	char **argv;
};

static const char *space(enum verb v)
{
	return *op_table[v].name ? " " : "";
}

static int refuse(const struct args *a, const char *flag, const char *cause, struct err *e)
{
	err_set(e, R_USAGE, 0, "read flag '%.64s' of 'bailey%s%s': %s", flag, space(a->verb),
		op_table[a->verb].name, cause);
	return err_remedy(e, "Run 'bailey%s%s --help': it lists the flags.", space(a->verb),
		op_table[a->verb].name);
}

static int unknown(const struct args *a, const char *name, struct err *e)
{
	struct nearest near = { .word = name };
	char flag[80];

	if (str_has_control(name) || strlen(name) > 62)
		return refuse(a, "--", "not the name of a flag", e);
	for (enum option i = 0; i < OPTION_MAX; i++)
		if (option_in_verb(i, a->verb))
			nearest_offer(&near, option_table[i].flag);
	refuse(a, FMT(flag, "--%s", name), "no such flag", e);
	if (!near.best)
		return -1;
	return err_remedy(e, "Use '--%s' if you meant that; 'bailey%s%s --help' lists the flags.",
		near.best, space(a->verb), op_table[a->verb].name);
}

/* One flag with its value, or with NULL for none: a BOOL takes none, all others one. */
static int apply(struct args *a, enum option i, const char *value, struct err *e)
{
	const struct option_info *info = &option_table[i];
	char what[80];

	FMT(what, "--%s", info->flag);
	if (info->type != OPT_LIST && a->o->origin[i].kind == ORIGIN_FLAG) {
		refuse(a, what, "given twice", e);
		return err_remedy(e, "Give --%s once.", info->flag);
	}
	if (info->type == OPT_BOOL) {
		if (value)
			return refuse(a, what, "takes no value", e);
		value = "true";
	}
	/* a value that looks like a flag is far more often a forgotten one */
	if (!value && a->next < a->argc && !str_after(a->argv[a->next], "--"))
		value = a->argv[a->next++];
	if (!value) {
		refuse(a, what, "no value behind it", e);
		return err_remedy(e, "Write --%s=%s.", info->flag, info->metavar);
	}
	return options_set(a->o, i, value, (struct origin){ .kind = ORIGIN_FLAG }, what, e);
}

static int long_flag(struct args *a, const char *arg, struct err *e)
{
	const char *equals = strchr(arg, '=');
	size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
	_cleanup_free_ char *name = xasprintf("%.*s", n > 100 ? 100 : (int)n, arg);

	for (enum option i = 0; i < OPTION_MAX; i++)
		if (option_in_verb(i, a->verb) && streq(option_table[i].flag, name))
			return apply(a, i, equals ? equals + 1 : NULL, e);
	return unknown(a, name, e);
}

static enum option by_letter(enum verb v, char c)
{
	enum option i;

	for (i = 0; i < OPTION_MAX; i++)
		if (option_in_verb(i, v) && option_table[i].letter == c)
			break;
	return i;
}

static int short_flags(struct args *a, const char *arg, struct err *e)
{
	for (; *arg; arg++) {
		enum option i = by_letter(a->verb, *arg);
		bool last = option_table[i < OPTION_MAX ? i : 0].type != OPT_BOOL;
		char flag[3] = { '-', *arg, '\0' };

		if (i == OPTION_MAX)
			return refuse(a, str_has_control(flag) ? "-" : flag, "no such flag", e);
		if (apply(a, i, last && arg[1] ? arg + 1 : NULL, e) < 0)
			return -1;
		if (last)
			break;
	}
	return 0;
}

/* How many words stand in front of the command, whose own flags are none of ours; -1: the verb takes no command. */
static int words_before_command(enum verb v)
{
	if (v == VERB_RUN || v == VERB_CREATE)
		return 0;
	return v == VERB_EXEC ? 1 : -1;
}

int args_parse(struct options *o, enum verb v, int argc, char **argv, int *ret_rest, struct err *e)
{
	const int before = words_before_command(v);
	struct args a = { .o = o, .verb = v, .argc = argc, .next = 1, .argv = argv };
	_cleanup_free_ char **kept = (char **)xcalloc((size_t)argc + 1, sizeof *kept);
	int n = 0;

	while (a.next < argc) {
		char *arg = argv[a.next];
		const char *name = str_after(arg, "--");

		if (before == n && (*arg != '-' || !arg[1]))
			break;
		a.next++;
		if (name && !*name)
			break;
		if (*arg != '-' || !arg[1])
			kept[n++] = arg;
		else if (name ? long_flag(&a, name, e) < 0 : short_flags(&a, arg + 1, e) < 0)
			return -1;
	}
	/* the arguments that stood between flags join those behind them, in their order */
	*ret_rest = a.next - n;
	for (int i = 0; i < n; i++)
		argv[*ret_rest + i] = kept[i];
	return 0;
}
