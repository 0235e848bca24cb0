/* Owns --help, --version and the verbs of these names.  Called by main.c; everything comes from the tables. */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "door/cli/verb.h"

enum { FLAG_COLUMN = 30, VERB_COLUMN = 16, HELP_WIDTH = 92 };

/* Adds text from column `start` on, behind what fills the line up to `at`, broken between words. */
static void add_wrapped(struct buf *out, size_t at, int start, const char *text)
{
	size_t left = (size_t)start, column = at;

	if (at + 2 > left) {
		buf_puts(out, "\n");
		column = 0;
	}
	buf_printf(out, "%*s", (int)(left - column), "");
	column = left;
	while (*text) {
		size_t n = strcspn(text, " ");

		if (column > left && column + 1 + n > HELP_WIDTH) {
			buf_printf(out, "\n%*s", start, "");
			column = left;
		} else if (column > left) {
			buf_puts(out, " ");
			column++;
		}
		buf_add(out, text, n);
		column += n;
		text += n;
		text += strspn(text, " ");
	}
	buf_puts(out, "\n");
}

static void add_flag(enum option i, struct buf *out)
{
	const struct option_info *info = &option_table[i];
	_cleanup_buf_ struct buf left = BUF_INIT, right = BUF_INIT;

	if (info->letter)
		buf_printf(&left, "  -%c, --%s", info->letter, info->flag);
	else
		buf_printf(&left, "      --%s", info->flag);
	if (info->metavar)
		buf_printf(&left, " %s", info->metavar);
	buf_puts(&right, info->doc);
	if (info->text) {
		buf_printf(&right, " [%s]", info->text);
	} else if (info->number) {
		buf_puts(&right, " [");
		option_format_number(info->type, info->number, &right);
		buf_puts(&right, "]");
	}
	buf_puts(out, left.data ?: "");
	add_wrapped(out, left.len, FLAG_COLUMN, right.data ?: "");
}

static bool is_sub_verb(enum verb v, enum verb of)
{
	const char *rest = str_after(op_table[v].name, op_table[of].name);

	if (v == of || !*op_table[v].name)
		return false;
	return of == VERB_BAILEY ? !strchr(op_table[v].name, ' ') : rest && *rest == ' ';
}

static void add_verbs(enum verb of, struct buf *out)
{
	bool first = true;

	for (enum verb v = 0; v < VERB_MAX; v++) {
		size_t before;

		if (!is_sub_verb(v, of) || !verb_is_built(v))
			continue;
		if (first)
			buf_puts(out, "\nVerbs:\n");
		first = false;
		before = out->len;
		buf_printf(out, "  %s", op_table[v].name);
		add_wrapped(out, out->len - before, VERB_COLUMN, op_table[v].summary);
	}
}

void help_add(enum verb v, struct buf *out)
{
	const struct op_info *op = &op_table[v];
	const char *space = *op->name ? " " : "";
	bool defaults = false;

	buf_printf(out, "bailey%s%s: %s\n\nUsage: bailey%s%s %s\n", space, op->name, op->summary,
		space, op->name, op->usage);
	add_verbs(v, out);
	buf_puts(out, "\nFlags:\n");
	for (enum option i = 0; i < OPTION_MAX; i++) {
		if (!option_in_verb(i, v))
			continue;
		add_flag(i, out);
		defaults = defaults || option_table[i].text || option_table[i].number;
	}
	if (defaults)
		buf_puts(out, "\nIn [brackets]: the value that holds unless another is given.\n");
	if (v == VERB_BAILEY)
		buf_puts(out,
			"\n'bailey VERB --help' says more about a verb; so do the man pages.\n");
}

int verb_help(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_free_ char *name = argc > 1 ? xasprintf("%s %s", argv[0], argv[1])
		: argc                       ? xstrdup(argv[0])
					     : NULL;
	_cleanup_buf_ struct buf out = BUF_INIT;
	enum verb v = name ? verb_by_name(name) : VERB_BAILEY;

	(void)o;
	if (name && str_has_control(name))
		return err_set(e, R_USAGE, 0, "find the verb: its name holds control bytes");
	if (v == VERB_MAX || (v != VERB_BAILEY && !verb_is_built(v))) {
		err_set(e, R_USAGE, 0, "find help on '%.64s': no such verb", name);
		return err_remedy(e, "Run 'bailey --help': it lists the verbs.");
	}
	help_add(v, &out);
	return cli_write(&out, e);
}

int verb_version(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	(void)argc;
	(void)argv;
	if (!o->json) {
		buf_puts(&out, "bailey " BAILEY_VERSION "\n");
		return cli_write(&out, e);
	}
	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_string(&j, "version", BAILEY_VERSION);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}
