/* Prints what can be known from the tables: the man pages, and lists of flags and verbs for tests.  Run by the build, never
 * installed.  It links the tables that bailey itself links, so that a page can't tell of a flag that doesn't exist.
 *
 *     gendoc bailey | bailey-VERB | bailey.toml     a page in mdoc(7)
 *     gendoc flags                                  "VERB<tab>FLAG" for each flag of each verb
 *     gendoc keys                                   the keys of config.toml
 *     gendoc verbs                                  the verbs, sub-verbs too
 *     gendoc params                                 the parameters of profiles, as rows of docs/profiles.md */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/options.h"
#include "spec/params.h"

#define MAN_DATE "November 30, 2026"

static char upper(char c)
{
	static const char from[] = "abcdefghijklmnopqrstuvwxyz",
			  to[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const char *p = c ? strchr(from, c) : NULL;

	if (!p)
		return c;
	return to[p - from];
}

/* Adds n bytes so that roff takes none of them for its own. */
static void put_text(struct buf *b, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool line_start = !b->len || b->data[b->len - 1] == '\n';

		if (s[i] == '\\')
			buf_puts(b, "\\e");
		else if (s[i] == '-')
			buf_puts(b, "\\-");
		else if (line_start && (s[i] == '.' || s[i] == '\''))
			buf_printf(b, "\\&%c", s[i]);
		else if (s[i] == '\'')
			buf_puts(b, "\\(aq");
		else
			buf_add(b, s + i, 1);
	}
}

/* Each sentence on a line of its own, as mdoc wants it: blanks between them are roff's business. */
static void put_sentences(struct buf *b, const char *s, size_t n)
{
	const char *end = s + n;

	while (s < end) {
		const char *p = s;

		while (p < end &&
			!(*p == '.' && p + 1 < end && p[1] == ' ' && p + 2 < end &&
				(p[2] == ' ' || p[2] == upper(p[2]))))
			p++;
		put_text(b, s, (size_t)(p - s) + (p < end));
		buf_puts(b, "\n");
		s = p + (p < end);
		while (s < end && *s == ' ')
			s++;
	}
}

/* Paragraphs, and examples where lines begin with four blanks. */
static void put_prose(struct buf *b, const char *text)
{
	bool literal = false, first = true;

	while (*text) {
		size_t n = strcspn(text, "\n");
		const char *example = str_after(text, "    ");

		if (example && !literal)
			buf_puts(b, ".Bd -literal -offset indent\n");
		if (!example && literal)
			buf_puts(b, ".Ed\n");
		literal = example != NULL;
		if (example) {
			put_text(b, example, n - 4);
			buf_puts(b, "\n");
		} else if (n) {
			if (!first)
				buf_puts(b, ".Pp\n");
			put_sentences(b, text, n);
		}
		first = false;
		text += n + (text[n] == '\n');
		/* an empty line between an example and what follows it would be one break too many */
		while (literal && *text == '\n' && (text[1] == '\n' || !str_after(text, "\n    ")))
			text++;
	}
	if (literal)
		buf_puts(b, ".Ed\n");
}

static void put_head(struct buf *b, const char *name, int section, const char *summary)
{
	buf_puts(b,
		".\\\" Made from the tables in src/config by tools/gendoc.c.\n.Dd " MAN_DATE
		"\n.Dt ");
	for (const char *s = name; *s; s++)
		buf_printf(b, "%c", upper(*s));
	buf_printf(b, " %d\n.Os Bailey " BAILEY_VERSION "\n.Sh NAME\n.Nm %s\n.Nd %s\n", section,
		name, summary);
}

static void put_range(struct buf *b, const struct option_info *info)
{
	if (info->type == OPT_BOOL || info->type == OPT_STRING || info->type == OPT_LIST)
		return;
	buf_puts(b, "From ");
	option_format_number(info->type, info->min, b);
	buf_puts(b, " to ");
	option_format_number(info->type, info->max, b);
	buf_puts(b, "; the default is ");
	option_format_number(info->type, info->number, b);
	buf_puts(b, ".\n");
}

static void put_about(struct buf *b, const struct option_info *info)
{
	put_sentences(b, info->doc, strlen(info->doc));
	put_range(b, info);
	if (info->text) {
		buf_puts(b, "The default is ");
		put_text(b, info->text, strlen(info->text));
		buf_puts(b, ".\n");
	}
}

static void put_flag(struct buf *b, enum option i)
{
	const struct option_info *info = &option_table[i];

	buf_puts(b, ".It ");
	if (info->letter)
		buf_printf(b, "Fl %c , ", info->letter);
	buf_puts(b, "Fl \\-");
	put_text(b, info->flag, strlen(info->flag));
	if (info->metavar) {
		buf_puts(b, " Ar ");
		put_text(b, info->metavar, strlen(info->metavar));
	}
	buf_puts(b, "\n");
	put_about(b, info);
	if (info->key && info->who & (OPT_USER | OPT_SYSTEM)) {
		buf_printf(b, "Also the key\n.Va %s\nand the variable\n.Ev %s .\n", info->key,
			info->env);
	} else if (info->key) {
		buf_puts(b, "No config file and no variable can set it.\n");
	}
}

static void put_flags(struct buf *b, enum verb v)
{
	buf_puts(b, ".Bl -tag -width Ds\n");
	for (enum option i = 0; i < OPTION_MAX; i++)
		if (option_in_verb(i, v))
			put_flag(b, i);
	buf_puts(b, ".El\n");
}

static const char *const must_text[] = {
	[PARAM_NO] = "no", [PARAM_YES] = "yes", [PARAM_SOME] = "some"
};

static void put_params(struct buf *b)
{
	buf_puts(b, ".Sh PARAMETERS\nWhat\n.Fl \\-param\nsets for each profile.\n");
	for (unsigned p = SPEC_AGENT; p < SPEC_N_PROFILES; p++) {
		const char *name = spec_profile_name((enum spec_profile)p);

		buf_puts(b, ".Ss Profile ");
		put_text(b, name, strlen(name));
		buf_puts(b, "\n.Bl -tag -width Ds\n");
		for (unsigned i = 0; i < n_profile_params; i++) {
			const struct param *param = &profile_params[i];

			if (!(param->profiles & 1u << p))
				continue;
			buf_printf(b, ".It Cm %s\n", param->key);
			put_sentences(b, param->doc, strlen(param->doc));
			if (param->must == PARAM_YES && param->type != PARAM_DIR)
				buf_puts(b, "It must be given.\n");
		}
		buf_puts(b, ".El\n");
	}
	buf_puts(b,
		".Ss Variables\nProfile agent takes these as\n.Cm env.NAME ,\nand profile check those "
		"that name no model:\n");
	for (unsigned i = 0; i < n_profile_task_env; i++)
		buf_printf(b, ".Ev %s%s\n", profile_task_env[i],
			i + 1 < n_profile_task_env ? " ," : " .");
}

static void put_env(struct buf *b, enum verb v)
{
	buf_puts(b,
		".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
		".It Ev BAILEY_HOME\nThe directory that holds Bailey\\(aqs state, as an absolute path.\n"
		"The default is\n.Pa /var/lib/bailey\nfor root, and\n.Pa bailey\nin\n.Ev XDG_DATA_HOME\nor\n"
		".Pa ~/.local/share\nfor other users.\n"
		".It Ev BAILEY_LIBEXEC\nThe directory that holds Bailey\\(aqs other programs.\n");
	for (enum option i = 0; i < OPTION_MAX; i++) {
		const struct option_info *info = &option_table[i];

		if (!info->env || !(info->who & OPT_USER) ||
			(v != VERB_BAILEY && !option_in_verb(i, v)))
			continue;
		buf_printf(b, ".It Ev %s\nThe same as the key\n.Va %s .\n", info->env, info->key);
	}
	buf_puts(b, ".El\n");
}

static void put_exit(struct buf *b, enum verb v)
{
	buf_puts(b, ".Sh EXIT STATUS\n.Bl -tag -width Ds\n");
	if (v == VERB_RUN || v == VERB_EXEC || v == VERB_ATTACH || v == VERB_WAIT) {
		buf_puts(b,
			".It 124\nThe time given with\n.Fl \\-timeout\nhad passed.\n"
			".It 125\nBailey failed; the reason is on standard error.\n"
			".It 126\nThe command exists and can\\(aqt be executed.\n"
			".It 127\nThe command was not found.\n"
			".It 128+n\nSignal n ended the command.\n"
			".It other\nThe command\\(aqs own status.\n.El\n");
		return;
	}
	buf_puts(b,
		".It 0\nThe verb did what it was asked for.\n.It other\nThe status of the reason; see\n");
	buf_puts(b, v == VERB_BAILEY ? ".Sx REASONS .\n" : ".Sx REASONS\nin\n.Xr bailey 1 .\n");
	if (v == VERB_BAILEY)
		buf_puts(b,
			"With\n.Cm run , exec , attach\nand\n.Cm wait\na failure of Bailey is 125, see\n.Xr bailey-run 1 .\n");
	buf_puts(b, ".El\n");
}

static void put_reasons(struct buf *b)
{
	buf_puts(b,
		".Sh REASONS\nEach failure has a reason, whose name never changes.\n"
		"It stands in brackets behind the message, and with\n.Fl \\-json\nin\n.Va error.reason .\n"
		"The number is the exit status.\n"
		".Bl -tag -width Ds\n");
	for (unsigned r = REASON_NONE + 1; r < REASON_MAX; r++) {
		struct err e = { .reason = (enum reason)r };
		const char *remedy = err_get_remedy(&e);

		buf_printf(b, ".It Er %s , No %d\n", reason_name(e.reason), reason_exit(e.reason));
		put_sentences(b, remedy, strlen(remedy));
	}
	buf_puts(b, ".El\n");
}

static void put_files(struct buf *b)
{
	buf_puts(b,
		".Sh FILES\n.Bl -tag -width Ds\n"
		".It Pa /etc/bailey/config.toml\nThe configuration of the host.\n"
		".It Pa $BAILEY_HOME/config.toml\nThe configuration of the user, which has precedence.\n"
		".It Pa $BAILEY_HOME/log/bailey.jsonl\nThe log; a full one becomes\n.Pa bailey.jsonl.1 .\n.El\n");
}

static void put_page_name(struct buf *b, enum verb v)
{
	buf_printf(b, "bailey-%s", op_table[v].name);
}

/* "Nm bailey Cm run ..." with the usage line as it stands in the table. */
static void put_synopsis(struct buf *b, enum verb v)
{
	const struct op_info *op = &op_table[v];

	buf_puts(b, ".Nm bailey\n");
	if (*op->name)
		buf_printf(b, ".Cm %s\n", op->name);
	put_text(b, op->usage, strlen(op->usage));
	buf_puts(b, "\n");
}

static bool is_top(enum verb v)
{
	return *op_table[v].name && !strchr(op_table[v].name, ' ');
}

/* The verb whose name follows that of v in the alphabet, or VERB_MAX: mdoc wants references sorted. */
static enum verb next_by_name(enum verb v)
{
	enum verb best = VERB_MAX;

	for (enum verb w = 0; w < VERB_MAX; w++)
		if (is_top(w) && strcmp(op_table[w].name, op_table[v].name) > 0 &&
			(best == VERB_MAX || strcmp(op_table[w].name, op_table[best].name) < 0))
			best = w;
	return best;
}

static void put_verbs(struct buf *b)
{
	buf_puts(b, ".Sh VERBS\n.Bl -tag -width Ds\n");
	for (enum verb v = 0; v < VERB_MAX; v++) {
		if (!is_top(v))
			continue;
		buf_printf(b, ".It Cm %s\n%c%s; see\n.Xr ", op_table[v].name,
			upper(op_table[v].summary[0]), op_table[v].summary + 1);
		put_page_name(b, v);
		buf_puts(b, " 1 .\n");
	}
	buf_puts(b, ".El\n");
}

static void page_bailey(struct buf *b)
{
	put_head(b, "bailey", 1, op_table[VERB_BAILEY].summary);
	buf_puts(b, ".Sh SYNOPSIS\n");
	put_synopsis(b, VERB_BAILEY);
	buf_puts(b, ".Sh DESCRIPTION\n");
	put_prose(b, op_table[VERB_BAILEY].text);
	put_verbs(b);
	buf_puts(b, ".Sh OPTIONS\n");
	put_flags(b, VERB_BAILEY);
	put_env(b, VERB_BAILEY);
	put_files(b);
	put_exit(b, VERB_BAILEY);
	put_reasons(b);
	buf_puts(b, ".Sh SEE ALSO\n");
	for (enum verb v = next_by_name(VERB_BAILEY); v < VERB_MAX; v = next_by_name(v)) {
		buf_puts(b, ".Xr ");
		put_page_name(b, v);
		buf_puts(b, " 1 ,\n");
	}
	buf_puts(b, ".Xr bailey.toml 5\n");
}

static void put_sub_verbs(struct buf *b, enum verb of)
{
	for (enum verb v = of + 1; v < VERB_MAX && str_after(op_table[v].name, op_table[of].name);
		v++) {
		buf_printf(b, ".Ss %s\n", op_table[v].name);
		put_prose(b, op_table[v].text);
		put_flags(b, v);
	}
}

static void page_verb(struct buf *b, enum verb v)
{
	char name[64];

	put_head(b, FMT(name, "bailey-%s", op_table[v].name), 1, op_table[v].summary);
	buf_puts(b, ".Sh SYNOPSIS\n");
	if (!verb_is_group(v))
		put_synopsis(b, v);
	for (enum verb sub = v + 1; verb_is_group(v) && sub < VERB_MAX &&
		str_after(op_table[sub].name, op_table[v].name);
		sub++)
		put_synopsis(b, sub);
	buf_puts(b, ".Sh DESCRIPTION\n");
	put_prose(b, op_table[v].text);
	if (verb_is_group(v))
		put_sub_verbs(b, v);
	buf_puts(b, ".Sh OPTIONS\n");
	put_flags(b, v);
	if (v == VERB_CREATE)
		put_params(b);
	if (op_table[v].config || verb_is_group(v) || v == VERB_LOG)
		put_env(b, v);
	put_exit(b, v);
	buf_puts(b, ".Sh SEE ALSO\n.Xr bailey 1 ,\n.Xr bailey.toml 5\n");
}

static const char *type_text(enum opt_type type)
{
	switch (type) {
	case OPT_BOOL:
		return "true or false";
	case OPT_SIZE:
		return "a size: bytes, or a string such as \"512m\"";
	case OPT_DURATION:
		return "a time: seconds, or a string such as \"10m\"";
	case OPT_CPUS:
		return "a number such as 1 or 0.5";
	case OPT_STRING:
		return "a string";
	case OPT_UINT:
	case OPT_LIST:
		break;
	}
	return "a whole number";
}

static void page_toml(struct buf *b)
{
	put_head(b, "bailey.toml", 5, "configuration of Bailey");
	buf_puts(b,
		".Sh DESCRIPTION\n"
		"Bailey reads\n.Pa /etc/bailey/config.toml\nand then\n.Pa config.toml\nin its home, both in TOML 1.0.\n"
		"Neither has to exist.\n"
		"What the second sets has precedence over the first, an environment variable over both, and a flag over all.\n"
		"A key that doesn\\(aqt exist, a value outside its range, and a file that everyone may write to are errors: nothing "
		"runs with half a configuration.\n"
		".Pp\n"
		"What weakens a sandbox has no key here and is a flag of\n.Xr bailey-run 1\nalone.\n"
		".Sh KEYS\n.Bl -tag -width Ds\n");
	for (enum option i = 0; i < OPTION_MAX; i++) {
		const struct option_info *info = &option_table[i];

		if (!info->key || !(info->who & (OPT_USER | OPT_SYSTEM)))
			continue;
		buf_printf(b, ".It Va %s\n", info->key);
		put_about(b, info);
		buf_puts(b, "The value is ");
		put_text(b, type_text(info->type), strlen(type_text(info->type)));
		buf_printf(b, ".\nThe variable is\n.Ev %s .\n", info->env);
	}
	buf_puts(b, ".El\n");
	put_files(b);
	buf_puts(b,
		".Sh EXAMPLES\n.Bd -literal -offset indent\n[run]\nmemory = \"4g\"\ncpus = 2\ntimeout = \"1h\"\n.Ed\n"
		".Pp\nWhat holds and where it comes from:\n.Dl bailey config show \\-\\-origin\n"
		".Sh SEE ALSO\n.Xr bailey 1 ,\n.Xr bailey-config 1\n");
}

static void list_flags(struct buf *b)
{
	for (enum verb v = 0; v < VERB_MAX; v++)
		for (enum option i = 0; i < OPTION_MAX; i++)
			if (option_in_verb(i, v))
				buf_printf(b, "%s\t--%s\n", op_table[v].name, option_table[i].flag);
}

static void list_keys(struct buf *b)
{
	for (enum option i = 0; i < OPTION_MAX; i++)
		if (option_table[i].key && option_table[i].who & (OPT_USER | OPT_SYSTEM))
			buf_printf(b, "%s\t%s\n", option_table[i].key, option_table[i].env);
}

static void list_verbs(struct buf *b)
{
	for (enum verb v = 0; v < VERB_MAX; v++)
		if (*op_table[v].name)
			buf_printf(b, "%s\n", op_table[v].name);
}

static void list_params(struct buf *b)
{
	for (unsigned p = SPEC_AGENT; p < SPEC_N_PROFILES; p++)
		for (unsigned i = 0; i < n_profile_params; i++)
			if (profile_params[i].profiles & 1u << p)
				buf_printf(b, "| `%s` | `%s` | %s | %s |\n",
					spec_profile_name((enum spec_profile)p),
					profile_params[i].key, must_text[profile_params[i].must],
					profile_params[i].doc);
}

int main(int argc, char **argv)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const char *what = argc == 2 ? argv[1] : "", *verb = str_after(what, "bailey-");
	enum verb v = verb ? verb_by_name(verb) : VERB_MAX;

	if (streq(what, "bailey"))
		page_bailey(&b);
	else if (v < VERB_MAX && is_top(v))
		page_verb(&b, v);
	else if (streq(what, "bailey.toml"))
		page_toml(&b);
	else if (streq(what, "flags"))
		list_flags(&b);
	else if (streq(what, "keys"))
		list_keys(&b);
	else if (streq(what, "verbs"))
		list_verbs(&b);
	else if (streq(what, "params"))
		list_params(&b);
	if (b.failed || !b.len || write_all(STDOUT_FILENO, b.data, b.len) < 0) {
		(void)fprintf(stderr, "gendoc: cannot print '%s'\n", what);
		return 1;
	}
	return 0;
}
