/* Owns `launcher`: becomes the program bailey-launcher.  Called by main.c. */
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "base/str.h"
#include "door/cli/verb.h"

static char *flag(const char *name, const char *value)
{
	return xasprintf("--%s=%s", name, value);
}

int verb_launcher(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_free_ char *program = NULL;
	_cleanup_free_ char **words = (char **)xcalloc(o->allow_uid.n + 4, sizeof *words);
	char name[] = "bailey-launcher";
	unsigned n = 0;

	(void)argc;
	(void)argv;
	if (libexec_path("bailey-launcher", &program, e) < 0)
		return -1;
	words[n++] = name;
	if (o->socket)
		words[n++] = flag("socket", o->socket);
	if (o->ceiling)
		words[n++] = flag("ceiling", o->ceiling);
	for (unsigned i = 0; i < o->allow_uid.n; i++)
		words[n++] = flag("allow-uid", o->allow_uid.v[i]);
	(void)execv(program, words);
	return err_set(e, R_TOOL_MISSING, errno, "run '%s'", program);
}
