/* The probe's frame: finds the row, runs it, prints one line.  Called by run.sh, on both sides.
 *
 *     escape-probe CASE [ARG...]   prints "CASE success|blocked|done|broken DETAIL";
 *                                  exit 0, 10, 0, 20
 *     escape-probe --list          the cases, for people
 *     escape-probe --table         the rows, fields separated by 0x1f, for run.sh
 *
 * and what run.sh needs around them: --helper, --with-session-key, --with-tty, --handle. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

static const struct probe_case *const tables[] = {
	files_cases,
	procs_cases,
	guest_cases,
	ns_cases,
	mountapi_cases,
	syscalls_cases,
	abi_cases,
	setid_cases,
	creds_cases,
	devices_cases,
	procfs_cases,
	net_cases,
	tty_cases,
	ipc_cases,
	limits_cases,
	outlive_cases,
	hogs_cases,
	inherited_cases,
	image_cases,
};

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

static void print_rows(bool table)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		for (const struct probe_case *c = tables[i]; c->name; c++) {
			if (table)
				printf("%s\x1f%u\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\n",
					c->name, c->flags, or_empty(c->args), or_empty(c->expect),
					or_empty(c->options), or_empty(c->peer), or_empty(c->after),
					or_empty(c->wrap), c->about);
			else if (!(c->flags & HELPER))
				printf("%-24s %s\n", c->name, c->about);
		}
	}
}

static const struct probe_case *find_row(const char *name)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct probe_case *c = tables[i]; c->name; c++)
			if (strcmp(c->name, name) == 0)
				return c;
	return NULL;
}

/* Words that the row's args promise; a missing one would be a NULL that the case reads. */
static int count_words(const char *s)
{
	int n = 0;
	bool in_word = false;

	for (; s && *s; s++) {
		if (*s != ' ' && !in_word)
			n++;
		in_word = *s != ' ';
	}
	return n;
}

static int run_row(const struct probe_case *c, int n_args, char **arg)
{
	static const char *const words[] = { "success", "blocked", "done", "broken" };
	static const int codes[] = { 0, 10, 0, 20 };
	struct verdict v;

	if (n_args != count_words(c->args))
		v = broken("wrong number of arguments");
	else
		v = c->run(arg);
	printf("%s %s %s\n", c->name, words[v.outcome], v.detail);
	return fflush(stdout) == 0 ? codes[v.outcome] : 20;
}

int main(int argc, char **argv)
{
	const struct probe_case *c;

	if (argc >= 2 && strcmp(argv[1], "--helper") == 0)
		return helper_main(argv + 2);
	if (argc >= 3 && strcmp(argv[1], "--with-session-key") == 0)
		return with_session_key_main(argv + 2);
	if (argc >= 3 && strcmp(argv[1], "--with-tty") == 0)
		return with_tty_main(argv + 2);
	if (argc == 3 && strcmp(argv[1], "--handle") == 0)
		return print_handle_main(argv[2]);
	if (argc == 2 && (strcmp(argv[1], "--list") == 0 || strcmp(argv[1], "--table") == 0)) {
		print_rows(strcmp(argv[1], "--table") == 0);
		return 0;
	}
	c = argc >= 2 ? find_row(argv[1]) : NULL;
	if (!c) {
		(void)fputs("usage: escape-probe CASE [ARG...] | --list | --table\n", stderr);
		return 2;
	}
	return run_row(c, argc - 2, argv + 2);
}
