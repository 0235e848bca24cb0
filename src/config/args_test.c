/* Tests the grammar of flags, and that the tables keep the rules they state. */
#include "config/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <cmocka.h>

#include "base/str.h"

#define MAX_WORDS 16

/* Parses `words` behind the verb's name; options and error stay for the caller to look at. */
struct parsed {
	struct options o;
	struct err e;
	char *argv[MAX_WORDS + 1], *own[MAX_WORDS]; /* parsing moves the words of argv */
	int argc, rest, result;
};

static void parse(struct parsed *p, enum verb v, const char *const *words)
{
	memset(p, 0, sizeof *p);
	p->argv[0] = p->own[0] = xstrdup(op_table[v].name);
	p->argc++;
	while (words[p->argc - 1]) {
		assert_true(p->argc < MAX_WORDS);
		p->argv[p->argc] = p->own[p->argc] = xstrdup(words[p->argc - 1]);
		p->argc++;
	}
	options_init(&p->o);
	p->result = args_parse(&p->o, v, p->argc, p->argv, &p->rest, &p->e);
}

static void done(struct parsed *p)
{
	for (int i = 0; i < p->argc; i++)
		free(p->own[i]);
	options_done(&p->o);
	err_done(&p->e);
}

#define PARSE(p, v, ...) parse((p), (v), (const char *const[]){ __VA_ARGS__, NULL })

static void fails(enum verb v, enum reason reason, const char *message, const char *remedy,
	const char *const *words)
{
	struct parsed p;

	parse(&p, v, words);
	assert_int_equal(p.result, -1);
	assert_string_equal(reason_name(p.e.reason), reason_name(reason));
	if (!strstr(p.e.message, message))
		fail_msg("'%s' is not in '%s'", message, p.e.message);
	if (!strstr(err_get_remedy(&p.e), remedy))
		fail_msg("'%s' is not in '%s'", remedy, err_get_remedy(&p.e));
	assert_false(str_has_control(p.e.message));
	done(&p);
}

#define FAILS(v, reason, message, remedy, ...) \
	fails((v), (reason), (message), (remedy), (const char *const[]){ __VA_ARGS__, NULL })

static void test_defaults(void **state)
{
	_cleanup_options_ struct options o;

	(void)state;
	options_init(&o);
	assert_string_equal(o.image, "host");
	assert_string_equal(o.user, "1000:1000");
	assert_string_equal(o.network, "none");
	assert_int_equal(o.memory, 2ull << 30);
	assert_int_equal(o.cpus, 1000);
	assert_int_equal(o.pids, 256);
	assert_int_equal(o.tmp_size, 64 << 20);
	assert_int_equal(o.timeout, 0);
	assert_int_equal(o.ids_base, 0x70000000);
	assert_null(o.workspace);
	assert_false(o.unlimited || o.root_workspace || o.allow_setgid);
}

static void test_forms(void **state)
{
	struct parsed p;

	(void)state;
	PARSE(&p, VERB_RUN, "--memory", "3g", "--cpus=0.5", "--timeout=30s", "-it", "--env", "A=1",
		"--env=B=x\ny", "ls", "--json");
	assert_int_equal(p.result, 0);
	assert_int_equal(p.o.memory, 3ull << 30);
	assert_int_equal(p.o.cpus, 500);
	assert_int_equal(p.o.timeout, 30000);
	assert_true(p.o.interactive && p.o.tty && !p.o.json);
	assert_int_equal(p.o.env.n, 2);
	assert_string_equal(p.o.env.v[1], "B=x\ny");
	assert_string_equal(p.argv[p.rest], "ls");
	assert_int_equal(p.argc - p.rest, 2);
	assert_int_equal(p.o.origin[OPTION_memory].kind, ORIGIN_FLAG);
	assert_int_equal(p.o.origin[OPTION_pids].kind, ORIGIN_DEFAULT);
	done(&p);
}

static void test_end_of_flags(void **state)
{
	struct parsed p;

	(void)state;
	PARSE(&p, VERB_RUN, "--json", "--", "--memory");
	assert_int_equal(p.result, 0);
	assert_string_equal(p.argv[p.rest], "--memory");
	done(&p);
	PARSE(&p, VERB_RUN, "--json", "-");
	assert_int_equal(p.result, 0);
	assert_string_equal(p.argv[p.rest], "-");
	done(&p);
	PARSE(&p, VERB_RUN, "--json");
	assert_int_equal(p.result, 0);
	assert_int_equal(p.rest, p.argc);
	done(&p);
}

static void test_flags_before_a_command(void **state)
{
	struct parsed p;

	(void)state;
	PARSE(&p, VERB_EXEC, "--json", "box", "--detach", "ls", "--json", "-i");
	assert_int_equal(p.result, 0);
	assert_true(p.o.json && p.o.detach && !p.o.interactive);
	assert_int_equal(p.argc - p.rest, 4);
	assert_string_equal(p.argv[p.rest], "box");
	assert_string_equal(p.argv[p.rest + 1], "ls");
	done(&p);
	PARSE(&p, VERB_EXEC, "box", "-i", "--", "--json");
	assert_int_equal(p.result, 0);
	assert_true(p.o.interactive && !p.o.json);
	assert_string_equal(p.argv[p.rest], "box");
	assert_string_equal(p.argv[p.rest + 1], "--json");
	done(&p);
	PARSE(&p, VERB_CREATE, "--keep", "ls", "--json");
	assert_int_equal(p.result, 0);
	assert_true(p.o.keep && !p.o.json);
	assert_int_equal(p.argc - p.rest, 2);
	done(&p);
}

static void test_flags_between(void **state)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;
	char words[][8] = { "log", "a", "-n5", "b", "--json", "c", "--", "-f" };
	char *argv[] = { words[0], words[1], words[2], words[3], words[4], words[5], words[6],
		words[7], NULL };
	int rest;

	(void)state;
	options_init(&o);
	assert_int_equal(args_parse(&o, VERB_LOG, 8, argv, &rest, &e), 0);
	assert_int_equal(o.lines, 5);
	assert_true(o.json && !o.follow);
	assert_int_equal(rest, 4);
	assert_string_equal(argv[4], "a");
	assert_string_equal(argv[5], "b");
	assert_string_equal(argv[6], "c");
	assert_string_equal(argv[7], "-f");
}

static void test_refusals(void **state)
{
	(void)state;
	FAILS(VERB_RUN, R_USAGE, "'--memroy'", "'--memory'", "--memroy", "1g");
	FAILS(VERB_RUN, R_USAGE, "'--mem'", "'--memory'", "--mem=1g");
	FAILS(VERB_RUN, R_USAGE, "'--follow'", "--help", "--follow");
	FAILS(VERB_RUN, R_USAGE, "'-x'", "bailey run --help", "-x");
	FAILS(VERB_RUN, R_USAGE, "given twice", "once", "--memory=1g", "--memory=2g");
	FAILS(VERB_RUN, R_USAGE, "given twice", "once", "--json", "--json");
	FAILS(VERB_RUN, R_USAGE, "takes no value", "--help", "--unlimited=yes");
	FAILS(VERB_RUN, R_USAGE, "no value", "--workdir=PATH", "--workdir", "--", "ls");
	FAILS(VERB_RUN, R_USAGE, "no value", "--memory=SIZE", "--memory");
	FAILS(VERB_RUN, R_OUT_OF_RANGE, "--memory '1k'", "range", "--memory=1k");
	FAILS(VERB_RUN, R_OUT_OF_RANGE, "1 to 65536", "range", "--pids=0");
	FAILS(VERB_RUN, R_BAD_VALUE, "--pids 'many'", "form", "--pids=many");
	FAILS(VERB_RUN, R_OUT_OF_RANGE, "2592000s", "range", "--timeout=31d");
	FAILS(VERB_RUN, R_OUT_OF_RANGE, "length of 0", "range", "--image=");
	FAILS(VERB_RUN, R_BAD_VALUE, "control bytes", "form", "--image=a\nb");
	FAILS(VERB_RUN, R_BAD_VALUE, "control bytes", "form", "--env=A\nB=c");
	FAILS(VERB_RUN, R_USAGE, "not the name", "--help", "--ima\nge=x");
	FAILS(VERB_RUN, R_USAGE, "no such flag", "--help", "-\x1b");
	FAILS(VERB_LOG, R_OUT_OF_RANGE, "--lines '0'", "range", "-n0");
}

static void test_list_maximum(void **state)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;
	struct origin flag = { .kind = ORIGIN_FLAG };

	(void)state;
	options_init(&o);
	for (unsigned i = 0; i < OPT_LIST_MAX; i++)
		assert_int_equal(options_set(&o, OPTION_env, "A=b", flag, "--env", &e), 0);
	assert_int_equal(options_set(&o, OPTION_env, "A=b", flag, "--env", &e), -1);
	assert_int_equal(e.reason, R_OUT_OF_RANGE);
	assert_int_equal(o.env.n, OPT_LIST_MAX);
}

static void check_format(enum opt_type type, uint64_t v, const char *text)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	option_format_number(type, v, &b);
	assert_string_equal(b.data, text);
}

static void test_format(void **state)
{
	(void)state;
	check_format(OPT_SIZE, 2ull << 30, "2g");
	check_format(OPT_SIZE, 1000, "1000");
	check_format(OPT_DURATION, 0, "0s");
	check_format(OPT_DURATION, 90000, "90s");
	check_format(OPT_DURATION, 86400000, "1d");
	check_format(OPT_DURATION, 1500, "1500ms");
	check_format(OPT_CPUS, 1000, "1");
	check_format(OPT_CPUS, 500, "0.5");
	check_format(OPT_CPUS, 2250, "2.25");
	check_format(OPT_CPUS, 10, "0.01");
	check_format(OPT_CPUS, 1001, "1.001");
}

/* The variable is made from the key, so that nobody has to look it up. */
static void check_variable(const struct option_info *info)
{
	_cleanup_free_ char *made = xasprintf("BAILEY_%s", info->key);
	char *dot = strchr(made, '.');

	assert_non_null(dot);
	*dot = '_';
	assert_int_equal(strcasecmp(info->env, made), 0);
	assert_int_equal(strspn(info->env, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), strlen(made));
}

/* Rules of the table that the compiler can't see. */
static void check_row(const struct option_info *info)
{
	size_t text = info->text ? strlen(info->text) : info->min;

	assert_true(strlen(info->doc) > 5 && info->doc[strlen(info->doc) - 1] == '.');
	assert_int_equal(!(info->who & OPT_FLAG), !info->flag);
	assert_int_equal(!info->flag, !info->verbs);
	assert_int_equal(info->type == OPT_BOOL, !info->metavar);
	assert_int_equal(!info->key, !info->env);
	assert_in_range(text, info->min, info->max);
	if (info->key)
		check_variable(info);
	else
		assert_int_equal(info->who & (OPT_USER | OPT_SYSTEM), 0);
}

static void test_table(void **state)
{
	(void)state;
	for (enum option i = 0; i < OPTION_MAX; i++)
		check_row(&option_table[i]);
	assert_int_equal(option_table[OPTION_root_workspace].who, OPT_FLAG);
	assert_int_equal(option_table[OPTION_allow_setgid].who, OPT_FLAG);
	assert_int_equal(option_table[OPTION_unlimited].who, OPT_FLAG);
}

static void test_table_names_differ(void **state)
{
	(void)state;
	for (enum option i = 0; i < OPTION_MAX; i++) {
		for (enum option k = i + 1; k < OPTION_MAX; k++) {
			const struct option_info *a = &option_table[i], *b = &option_table[k];

			if (a->verbs & b->verbs)
				assert_true(!streq(a->flag, b->flag) &&
					(!a->letter || a->letter != b->letter));
			if (a->key && b->key)
				assert_string_not_equal(a->key, b->key);
		}
	}
	for (enum verb v = 0; v < VERB_MAX; v++)
		for (enum verb w = v + 1; w < VERB_MAX; w++)
			assert_string_not_equal(op_table[v].name, op_table[w].name);
}

static void test_verbs(void **state)
{
	(void)state;
	assert_int_equal(verb_by_name("run"), VERB_RUN);
	assert_int_equal(verb_by_name("config show"), VERB_CONFIG_SHOW);
	assert_int_equal(verb_by_name(""), VERB_MAX);
	assert_int_equal(verb_by_name("rum"), VERB_MAX);
	assert_true(verb_is_group(VERB_CONFIG));
	assert_false(verb_is_group(VERB_RUN) || verb_is_group(VERB_CONFIG_SHOW) ||
		verb_is_group(VERB_VERSION));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_end_of_flags),
		cmocka_unit_test(test_flags_before_a_command),
		cmocka_unit_test(test_flags_between),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_list_maximum),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_table_names_differ),
		cmocka_unit_test(test_verbs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
