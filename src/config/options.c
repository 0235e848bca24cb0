/* Owns the tables of options and verbs and the struct they fill.  Called by args.c and load.c, and for its tables by every
 * door that prints help.  Pure. */
#include "config/options.h"

#include <string.h>

#include "base/str.h"

#define V(id) (1ull << VERB_##id)
#define V_ALL ((1ull << VERB_MAX) - 1)

_Static_assert(VERB_MAX < 64, "a verb is a bit of option_info.verbs");

#define NUMBER_BOOL(d) (d)
#define NUMBER_UINT(d) (d)
#define NUMBER_SIZE(d) (d)
#define NUMBER_DURATION(d) (d)
#define NUMBER_CPUS(d) (d)
#define NUMBER_STRING(d) 0
#define NUMBER_LIST(d) 0
#define TEXT_BOOL(d) NULL
#define TEXT_UINT(d) NULL
#define TEXT_SIZE(d) NULL
#define TEXT_DURATION(d) NULL
#define TEXT_CPUS(d) NULL
#define TEXT_STRING(d) d
#define TEXT_LIST(d) NULL
#define IN_RANGE_NUMBER(d, min, max) ((d) - (min) + 0ull <= (max) - (min) + 0ull)
#define IN_RANGE_BOOL IN_RANGE_NUMBER
#define IN_RANGE_UINT IN_RANGE_NUMBER
#define IN_RANGE_SIZE IN_RANGE_NUMBER
#define IN_RANGE_DURATION IN_RANGE_NUMBER
#define IN_RANGE_CPUS IN_RANGE_NUMBER
#define IN_RANGE_STRING(d, min, max) ((min) <= (max))
#define IN_RANGE_LIST(d, min, max) ((min) <= (max))

/* A list has no order of precedence to merge by, so only flags make one. */
#define OPTION(id, type, key, flag, letter, env, def, min, max, who, verbs, metavar, doc) \
	_Static_assert( \
		IN_RANGE_##type(def, min, max), "the default of " #id " is outside its range"); \
	_Static_assert( \
		OPT_##type != OPT_CPUS || (max) <= UINT32_MAX, #id " does not fit its member"); \
	_Static_assert(OPT_##type != OPT_LIST || ((who) & OPT_ANYONE) == OPT_FLAG, \
		#id " is a list for flags only");
#include "config/options.def"
#undef OPTION

const struct option_info option_table[OPTION_MAX] = {
#define OPTION( \
	id_, type_, key_, flag_, letter_, env_, def_, min_, max_, who_, verbs_, metavar_, doc_) \
	[OPTION_##id_] = { \
		.key = key_, \
		.flag = flag_, \
		.env = env_, \
		.metavar = metavar_, \
		.doc = doc_, \
		.text = TEXT_##type_(def_), \
		.number = NUMBER_##type_(def_), \
		.min = min_, \
		.max = max_, \
		.verbs = verbs_, \
		.offset = offsetof(struct options, id_), \
		.type = OPT_##type_, \
		.who = who_, \
		.letter = letter_, \
	},
#include "config/options.def"
#undef OPTION
};

const struct op_info op_table[VERB_MAX] = {
#define OP(id_, name_, config_, min_, max_, usage_, summary_, text_) \
	[VERB_##id_] = { \
		.name = name_, \
		.usage = usage_, \
		.summary = summary_, \
		.text = text_, \
		.min = min_, \
		.max = max_, \
		.config = config_, \
	},
#include "config/ops.def"
#undef OP
};

static void *member(struct options *o, enum option i)
{
	return (char *)o + option_table[i].offset;
}

static void store_number(struct options *o, enum option i, uint64_t v)
{
	if (option_table[i].type == OPT_BOOL)
		*(bool *)member(o, i) = v != 0;
	else if (option_table[i].type == OPT_CPUS)
		*(uint32_t *)member(o, i) = (uint32_t)v;
	else
		*(uint64_t *)member(o, i) = v;
}

uint64_t options_number(const struct options *o, enum option i)
{
	const void *p = (const char *)o + option_table[i].offset;

	if (option_table[i].type == OPT_BOOL)
		return *(const bool *)p;
	if (option_table[i].type == OPT_CPUS)
		return *(const uint32_t *)p;
	return *(const uint64_t *)p;
}

const char *options_text(const struct options *o, enum option i)
{
	const void *p = (const char *)o + option_table[i].offset;

	return option_table[i].type == OPT_STRING ? *(char *const *)p : NULL;
}

static bool is_number(enum option i)
{
	return option_table[i].type != OPT_STRING && option_table[i].type != OPT_LIST;
}

void options_init(struct options *o)
{
	memset(o, 0, sizeof *o);
	for (enum option i = 0; i < OPTION_MAX; i++) {
		if (is_number(i))
			store_number(o, i, option_table[i].number);
		else if (option_table[i].text)
			*(char **)member(o, i) = xstrdup(option_table[i].text);
	}
}

void options_done(struct options *o)
{
	for (enum option i = 0; i < OPTION_MAX; i++) {
		struct strlist *list = member(o, i);

		if (option_table[i].type == OPT_STRING)
			free(*(char **)member(o, i));
		if (option_table[i].type != OPT_LIST)
			continue;
		for (unsigned k = 0; k < list->n; k++)
			free(list->v[k]);
		free((void *)list->v);
	}
	for (unsigned k = 0; k <= ORIGIN_USER; k++)
		free(o->file[k]);
	memset(o, 0, sizeof *o);
}

static int read_bool(const char *text, const char *what, uint64_t *ret, struct err *e)
{
	if (!streq(text, "true") && !streq(text, "false"))
		return err_set(
			e, R_BAD_VALUE, 0, "read %s '%.64s': not 'true' or 'false'", what, text);
	*ret = streq(text, "true");
	return 0;
}

static int read_number(
	enum option i, const char *text, const char *what, uint64_t *ret, struct err *e)
{
	const struct option_info *info = &option_table[i];

	switch (info->type) {
	case OPT_BOOL:
		return read_bool(text, what, ret, e);
	case OPT_SIZE:
		return parse_size(text, info->min, info->max, what, ret, e);
	case OPT_DURATION:
		return parse_duration(text, info->min, info->max, what, ret, e);
	case OPT_CPUS:
		return parse_cpus(text, info->min, info->max, what, ret, e);
	case OPT_UINT:
	case OPT_STRING:
	case OPT_LIST:
		break;
	}
	return parse_u64(text, info->min, info->max, what, ret, e);
}

static bool has_control(const char *s, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if ((unsigned char)s[k] < 0x20 || s[k] == 0x7f)
			return true;
	return false;
}

static int check_text(enum option i, const char *text, const char *what, struct err *e)
{
	const struct option_info *info = &option_table[i];
	size_t n = strlen(text), name = info->who & OPT_MULTILINE ? strcspn(text, "=") : n;

	if (n < info->min || n > info->max)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"read %s: its length of %zu bytes is outside the range %llu to %llu", what,
			n, (unsigned long long)info->min, (unsigned long long)info->max);
	if (has_control(text, name))
		return err_set(e, R_BAD_VALUE, 0,
			"read %s: not free of newlines and other control bytes", what);
	return 0;
}

static int append(struct strlist *list, const char *text, const char *what, struct err *e)
{
	if (list->n >= OPT_LIST_MAX)
		return err_set(e, R_OUT_OF_RANGE, 0, "read %s: given more than %d times", what,
			OPT_LIST_MAX);
	/* doubled whenever the count is a power of two */
	if (!(list->n & (list->n - 1))) {
		char **v = (char **)reallocarray(
			(void *)list->v, list->n ? 2u * list->n : 1u, sizeof *v);

		if (!v)
			abort();
		list->v = v;
	}
	list->v[list->n++] = xstrdup(text);
	return 0;
}

int options_set(struct options *o, enum option i, const char *text, struct origin where,
	const char *what, struct err *e)
{
	bool wins = where.kind >= o->origin[i].kind;
	uint64_t v = 0;

	if (is_number(i)) {
		if (read_number(i, text, what, &v, e) < 0)
			return -1;
		if (wins)
			store_number(o, i, v);
	} else {
		if (check_text(i, text, what, e) < 0)
			return -1;
		if (option_table[i].type == OPT_LIST) {
			if (append(member(o, i), text, what, e) < 0)
				return -1;
		} else if (wins) {
			free(*(char **)member(o, i));
			*(char **)member(o, i) = xstrdup(text);
		}
	}
	if (wins)
		o->origin[i] = where;
	return 0;
}

static void format_steps(
	uint64_t v, const uint64_t *steps, const char *const *units, struct buf *out)
{
	while (v && *steps && v % *steps == 0) {
		v /= *steps++;
		units++;
	}
	buf_printf(out, "%llu%s", (unsigned long long)v, *units);
}

void option_format_number(enum opt_type type, uint64_t v, struct buf *out)
{
	static const char *const sizes[] = { "", "k", "m", "g", "t" };
	static const uint64_t size_steps[] = { 1024, 1024, 1024, 1024, 0 };
	static const char *const times[] = { "ms", "s", "m", "h", "d" };
	static const uint64_t time_steps[] = { 1000, 60, 60, 24, 0 };

	if (type == OPT_BOOL)
		buf_puts(out, v ? "true" : "false");
	else if (type == OPT_SIZE)
		format_steps(v, size_steps, sizes, out);
	else if (type == OPT_DURATION && !v)
		buf_puts(out, "0s");
	else if (type == OPT_DURATION)
		format_steps(v, time_steps, times, out);
	else if (type == OPT_CPUS && v % 1000)
		buf_printf(out, "%llu.%0*llu", (unsigned long long)v / 1000,
			v % 100 ? v % 10 ? 3 : 2 : 1,
			(unsigned long long)(v % 1000 / (v % 100 ? v % 10 ? 1 : 10 : 100)));
	else
		buf_printf(out, "%llu", (unsigned long long)(type == OPT_CPUS ? v / 1000 : v));
}

void options_format(const struct options *o, enum option i, struct buf *out)
{
	const char *text = options_text(o, i);

	if (is_number(i))
		option_format_number(option_table[i].type, options_number(o, i), out);
	else if (text)
		buf_puts(out, text);
}

void options_origin(const struct options *o, enum option i, struct buf *out)
{
	switch (o->origin[i].kind) {
	case ORIGIN_SYSTEM:
	case ORIGIN_USER:
		buf_printf(out, "%s:%u", o->file[o->origin[i].kind], o->origin[i].line);
		return;
	case ORIGIN_ENV:
		buf_printf(out, "environment %s", option_table[i].env);
		return;
	case ORIGIN_FLAG:
		buf_printf(out, "flag --%s", option_table[i].flag);
		return;
	case ORIGIN_DEFAULT:
		break;
	}
	buf_puts(out, "default");
}

enum verb verb_by_name(const char *name)
{
	for (enum verb v = 0; v < VERB_MAX; v++)
		if (*name && streq(op_table[v].name, name))
			return v;
	return VERB_MAX;
}

bool verb_is_group(enum verb v)
{
	const char *rest = NULL;

	if (*op_table[v].name && v + 1 < VERB_MAX)
		rest = str_after(op_table[v + 1].name, op_table[v].name);
	return rest && *rest == ' ';
}

void nearest_offer(struct nearest *n, const char *name)
{
	unsigned d = str_distance(n->word, name);

	/* the start of a name is as near as one slip */
	if (strlen(n->word) > 1 && str_after(name, n->word))
		d = 1;
	if (d > 1 + strlen(n->word) / 4 || d >= strlen(name))
		return;
	if (!n->best || d < n->distance) {
		n->best = name;
		n->distance = d;
	}
}
