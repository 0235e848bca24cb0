/* Owns the completion scripts.  Called by main.c, and by the build for the installed ones; all words come from the tables, but
 * for the names of sandboxes, which `bailey ls` gives.  Flags are offered by verb; behind the command of `run`, `create` and
 * `exec` the shell completes as if the command stood alone. */
#include <ctype.h>
#include <string.h>

#include "base/str.h"
#include "door/cli/verb.h"

/* Paths are completed where the value is one, which its metavar tells. */
static bool is_path(enum option i)
{
	static const char *const starts[] = { "DIR", "SRC", "FILE", "SOCKET", "IMAGE" };

	for (size_t k = 0; option_table[i].metavar && k < sizeof starts / sizeof *starts; k++)
		if (str_after(option_table[i].metavar, starts[k]))
			return true;
	return false;
}

static void add_flags(enum verb v, bool with_value_only, const char *between, struct buf *out)
{
	bool first = true;

	for (enum option i = 0; i < OPTION_MAX; i++) {
		const struct option_info *info = &option_table[i];

		if (!option_in_verb(i, v) || (with_value_only && info->type == OPT_BOOL))
			continue;
		buf_printf(out, "%s--%s", first ? "" : between, info->flag);
		if (info->letter)
			buf_printf(out, "%s-%c", between, info->letter);
		first = false;
	}
}

/* The names of the verbs, or of the sub-verbs of a group, as words. */
static void add_names(enum verb of, struct buf *out)
{
	bool first = true;

	for (enum verb v = 0; v < VERB_MAX; v++) {
		const char *name = op_table[v].name, *sub = str_after(name, op_table[of].name);

		if (v == of || !*name || !verb_is_built(v))
			continue;
		if (of == VERB_BAILEY ? strchr(name, ' ') != NULL : !sub || *sub != ' ')
			continue;
		buf_printf(out, "%s%s", first ? "" : " ", of == VERB_BAILEY ? name : sub + 1);
		first = false;
	}
}

/* The choices a usage line names, such as bash|zsh|fish. */
static void add_choices(enum verb v, struct buf *out)
{
	const char *usage = op_table[v].usage;

	if (!isalpha((unsigned char)*usage) || !islower((unsigned char)*usage))
		return;
	for (; *usage && *usage != ' '; usage++)
		buf_printf(out, "%c", *usage == '|' ? ' ' : *usage);
}

/* Names and ids, as the first column and the second have them. */
#define SANDBOX_NAMES \
	"bailey ls --all 2>/dev/null </dev/null | awk 'NR > 1 { print $1; if ($2 != \"-\") print $2 }'"

/* Whether sandboxes stand behind its flags: all of its arguments, or the first. */
static bool takes_sandboxes(enum verb v)
{
	return strstr(op_table[v].usage, "SANDBOX") != NULL;
}

static bool takes_command(enum verb v)
{
	return v == VERB_RUN || v == VERB_CREATE || v == VERB_EXEC;
}

/* What may follow the flags of a verb, or "" for nothing. */
static void add_words(enum verb v, struct buf *out)
{
	if (v == VERB_BAILEY || verb_is_group(v))
		add_names(v, out);
	else if (v == VERB_HELP)
		add_names(VERB_BAILEY, out);
	else
		add_choices(v, out);
}

/* Behind the words of each verb: finds verb and flag in front of the cursor. */
static const char bash_walk[] =
	"\t\tesac\n"
	"\t\t((i == COMP_CWORD)) && break\n"
	"\t\tw=${COMP_WORDS[i]}\n"
	"\t\tif [[ -n $value ]]; then\n"
	"\t\t\t[[ $w == = ]] || value=''\n"
	"\t\telif [[ $w == -* ]]; then\n"
	"\t\t\t[[ $w != -- || $verb != @(run|create|exec) ]] || { ((i++)); verb='run --'; break; }\n"
	"\t\t\t[[ $valued != *\" $w \"* ]] || value=$w\n"
	"\t\telif [[ $verb == @(run|create) || ($verb == exec && -n $sandbox) ]]; then\n"
	"\t\t\tverb='run --'; break\n"
	"\t\telif [[ $verb == exec ]]; then\n"
	"\t\t\tsandbox=$w\n"
	"\t\telif [[ -z $verb || \" $words \" == *\" $w \"* ]]; then\n"
	"\t\t\tverb=\"${verb:+$verb }$w\"\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif [[ $verb == 'run --' ]]; then\n"
	"\t\tif ((i >= COMP_CWORD)); then\n"
	"\t\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	"\t\telse\n"
	"\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\t\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tfi\n"
	"\telif [[ -n $value ]]; then\n"
	"\t\tcase $value in\n\t\t";

static const char bash_end[] =
	") paths=y ;;\n"
	"\t\tesac\n"
	"\t\t[[ $cur != = ]] || cur=''\n"
	"\t\tif [[ -n $paths ]]; then\n"
	"\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\t\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tfi\n"
	"\telif [[ $cur == -* ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$cur\")\n"
	"\telif [[ $verb == @(run|create) || ($verb == exec && -n $sandbox) ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	"\telif [[ -n $named ]]; then\n"
	"\t\twords=$(" SANDBOX_NAMES ")\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	"\telse\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	"\tfi\n"
	"}\n"
	"complete -o bashdefault -F _bailey bailey\n";

static void bash_add(struct buf *out)
{
	buf_puts(out,
		"# bash completion for bailey\n"
		"_bailey()\n"
		"{\n"
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} verb='' flags words valued named='' sandbox='' paths='' i w value=''\n"
		"\tCOMPREPLY=()\n"
		"\tfor ((i = 1; i <= COMP_CWORD; i++)); do\n"
		"\t\tcase $verb in\n");
	for (enum verb v = 0; v < VERB_MAX; v++) {
		if (!verb_is_built(v) && v != VERB_BAILEY)
			continue;
		buf_printf(out, "\t\t'%s')\n\t\t\tflags='", op_table[v].name);
		add_flags(v, false, " ", out);
		buf_puts(out, "' words='");
		add_words(v, out);
		buf_printf(out, "' named=%s valued=' ", takes_sandboxes(v) ? "y" : "''");
		add_flags(v, true, " ", out);
		buf_puts(out, " ' ;;\n");
	}
	buf_puts(out, bash_walk);
	for (enum option i = 0, n = 0; i < OPTION_MAX; i++)
		if (is_path(i) && option_table[i].flag)
			buf_printf(out, "%s--%s", n++ ? "|" : "", option_table[i].flag);
	buf_puts(out, bash_end);
}

/* Text inside single quotes of zsh's _arguments: colons and brackets part its fields. */
static void zsh_text(struct buf *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '\'')
			buf_puts(out, "'\\''");
		else
			buf_printf(out, "%s%c", strchr(":[]\\", *s) ? "\\" : "", *s);
	}
}

static void zsh_flag(enum option i, struct buf *out)
{
	const struct option_info *info = &option_table[i];
	const char *again = info->type == OPT_LIST ? "*" : "";

	for (int form = info->letter ? 0 : 1; form < 2; form++) {
		buf_printf(out, " \\\n\t\t'%s", again);
		if (form)
			buf_printf(out, "--%s%s[", info->flag, info->type == OPT_BOOL ? "" : "=");
		else
			buf_printf(out, "-%c%s[", info->letter, info->type == OPT_BOOL ? "" : "+");
		zsh_text(out, info->doc);
		buf_puts(out, "]");
		if (info->metavar) {
			buf_puts(out, ":");
			zsh_text(out, info->metavar);
			buf_puts(out, is_path(i) ? ":_files" : ":");
		}
		buf_puts(out, "'");
	}
}

static const char *function_name(enum verb v, struct buf *name)
{
	buf_puts(name, "_bailey");
	for (const char *s = v == VERB_BAILEY ? "" : "_", *n = op_table[v].name; *s || *n;
		*s ? s++ : n++)
		buf_printf(name, "%c", *s ? *s : *n == ' ' ? '_' : *n);
	return name->data;
}

static void zsh_verb(enum verb v, struct buf *out)
{
	_cleanup_buf_ struct buf name = BUF_INIT, words = BUF_INIT;

	add_words(v, &words);
	buf_printf(out, "%s() {\n", function_name(v, &name));
	if (v == VERB_BAILEY || verb_is_group(v))
		buf_puts(out, "\tlocal curcontext=$curcontext state line\n\ttypeset -A opt_args\n");
	buf_puts(out, "\t_arguments -s -S");
	if (v == VERB_BAILEY || verb_is_group(v))
		buf_puts(out, " -C");
	for (enum option i = 0; i < OPTION_MAX; i++)
		if (option_in_verb(i, v))
			zsh_flag(i, out);
	if (takes_sandboxes(v))
		buf_printf(out, " \\\n\t\t'%s:sandbox:_bailey_sandboxes'",
			takes_command(v) ? "1" : "*");
	if (takes_command(v))
		buf_puts(out,
			" \\\n\t\t'(-):command: _command_names -e' \\\n\t\t'*::argument: _normal'");
	else if (words.len)
		buf_printf(out, " \\\n\t\t'1:verb:(%s)'", words.data);
	if (v == VERB_BAILEY || verb_is_group(v))
		buf_printf(out,
			" \\\n\t\t'*::argument:->rest'\n"
			"\t[[ $state == rest ]] || return\n"
			"\t(( $+functions[%s_$line[1]] )) && %s_$line[1]",
			name.data, name.data);
	buf_puts(out, "\n}\n\n");
}

static void zsh_add(struct buf *out)
{
	buf_puts(out,
		"#compdef bailey\n# zsh completion for bailey\n\n"
		"_bailey_sandboxes() {\n"
		"\tlocal -a names\n"
		"\tnames=(${(f)\"$(" SANDBOX_NAMES ")\"})\n"
		"\tcompadd -a names\n"
		"\t_files\n}\n\n");
	for (enum verb v = 0; v < VERB_MAX; v++)
		if (verb_is_built(v) || v == VERB_BAILEY)
			zsh_verb(v, out);
	buf_puts(out,
		"if [[ $funcstack[1] == _bailey ]]; then\n\t_bailey \"$@\"\nelse\n\tcompdef _bailey bailey\nfi\n");
}

static void fish_text(struct buf *out, const char *s)
{
	buf_puts(out, "'");
	for (; *s; s++)
		buf_printf(out, "%s%c", *s == '\'' || *s == '\\' ? "\\" : "", *s);
	buf_puts(out, "'");
}

/* The condition under which the words of verb v are offered. */
static void fish_condition(enum verb v, struct buf *out)
{
	const char *name = op_table[v].name, *sub = strchr(name, ' ');

	buf_puts(out, "complete -c bailey -n '");
	if (v == VERB_BAILEY)
		buf_puts(out, "__fish_use_subcommand");
	else if (sub)
		buf_printf(out,
			"__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s",
			(int)(sub - name), name, sub + 1);
	else
		buf_printf(out, "__fish_seen_subcommand_from %s", name);
	buf_puts(out, "'");
}

static void fish_flags(enum verb v, struct buf *out)
{
	for (enum option i = 0; i < OPTION_MAX; i++) {
		const struct option_info *info = &option_table[i];

		if (!option_in_verb(i, v))
			continue;
		fish_condition(v, out);
		buf_printf(out, " -l %s", info->flag);
		if (info->letter)
			buf_printf(out, " -s %c", info->letter);
		buf_puts(out,
			info->type == OPT_BOOL ? " -d "
				: is_path(i)   ? " -r -F -d "
					       : " -x -d ");
		fish_text(out, info->doc);
		buf_puts(out, "\n");
	}
}

static void fish_verbs(enum verb v, struct buf *out)
{
	const char *name = op_table[v].name, *sub = strchr(name, ' ');
	_cleanup_buf_ struct buf words = BUF_INIT;

	if (*name && sub) {
		buf_printf(out,
			"complete -c bailey -n '__fish_seen_subcommand_from %.*s; and not __fish_seen_subcommand_from",
			(int)(sub - name), name);
		for (enum verb other = 0; other < VERB_MAX; other++)
			if (!strncmp(op_table[other].name, name, (size_t)(sub - name) + 1))
				buf_puts(out, strchr(op_table[other].name, ' '));
		buf_printf(out, "' -a %s -d ", sub + 1);
		fish_text(out, op_table[v].summary);
		buf_puts(out, "\n");
	} else if (*name) {
		buf_printf(out, "complete -c bailey -n __fish_use_subcommand -a %s -d ", name);
		fish_text(out, op_table[v].summary);
		buf_puts(out, "\n");
		if (!verb_is_group(v))
			add_words(v, &words);
	}
	if (words.len) {
		fish_condition(v, out);
		buf_printf(out, " -a '%s'\n", words.data);
	}
}

static void fish_add(struct buf *out)
{
	buf_puts(out,
		"# fish completion for bailey\ncomplete -c bailey -f\n"
		"function __bailey_sandboxes\n"
		"\t" SANDBOX_NAMES "\nend\n");
	for (enum verb v = 0; v < VERB_MAX; v++) {
		if (!verb_is_built(v) && v != VERB_BAILEY)
			continue;
		fish_verbs(v, out);
		fish_flags(v, out);
		if (takes_sandboxes(v)) {
			fish_condition(v, out);
			buf_puts(out, " -a '(__bailey_sandboxes)'\n");
		}
		if (takes_command(v)) {
			fish_condition(v, out);
			buf_printf(out, " -a '(__fish_complete_subcommand --fcs-skip=%d)'\n",
				v == VERB_EXEC ? 3 : 2);
		}
	}
}

int completion_add(const char *shell, struct buf *out, struct err *e)
{
	if (streq(shell, "bash"))
		bash_add(out);
	else if (streq(shell, "zsh"))
		zsh_add(out);
	else if (streq(shell, "fish"))
		fish_add(out);
	else
		return err_set(e, R_BAD_VALUE, 0,
			"make the completion for '%.32s': not bash, zsh or fish", shell);
	return 0;
}

int verb_completion(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	(void)o;
	(void)argc;
	if (completion_add(argv[0], &out, e) < 0)
		return -1;
	return cli_write(&out, e);
}
