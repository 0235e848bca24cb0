/* Owns the verbs `image ...`: each becomes the program bailey-image, which links what `bailey` must not.  Called by main.c.
 * Flags were checked against the tables already; they are passed on as they were read. */
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "base/str.h"
#include "door/cli/verb.h"

static char *flag_word(const struct options *o, enum option i)
{
	_cleanup_buf_ struct buf value = BUF_INIT;

	if (option_table[i].type == OPT_BOOL)
		return xasprintf("--%s", option_table[i].flag);
	options_format(o, i, &value);
	return xasprintf("--%s=%s", option_table[i].flag, value.data ? value.data : "");
}

static int become(
	const struct options *o, enum verb v, const char *sub, int argc, char **argv, struct err *e)
{
	_cleanup_free_ char *program = NULL;
	_cleanup_free_ char **words =
		(char **)xcalloc((size_t)argc + OPTION_MAX + 4, sizeof *words);
	char name[] = "bailey-image", end[] = "--";
	_cleanup_free_ char *verb = xstrdup(sub);
	unsigned n = 0, flags;

	if (libexec_path("bailey-image", &program, e) < 0)
		return -1;
	words[n++] = name;
	words[n++] = verb;
	for (enum option i = 0; i < OPTION_MAX; i++)
		if (option_in_verb(i, v) && o->origin[i].kind == ORIGIN_FLAG)
			words[n++] = flag_word(o, i);
	flags = n;
	words[n++] = end;
	for (int i = 0; i < argc; i++)
		words[n++] = argv[i];
	(void)execv(program, words);
	(void)err_set(e, R_TOOL_MISSING, errno, "run '%s'", program);
	for (unsigned i = 2; i < flags; i++)
		free(words[i]);
	return err_remedy(
		e, "Install Bailey with its images (they need libarchive, jansson and nettle).");
}

int verb_image_import(struct options *o, int argc, char **argv, struct err *e)
{
	return become(o, VERB_IMAGE_IMPORT, "import", argc, argv, e);
}

int verb_image_build(struct options *o, int argc, char **argv, struct err *e)
{
	return become(o, VERB_IMAGE_BUILD, "build", argc, argv, e);
}

int verb_image_pull(struct options *o, int argc, char **argv, struct err *e)
{
	return become(o, VERB_IMAGE_PULL, "pull", argc, argv, e);
}

int verb_image_ls(struct options *o, int argc, char **argv, struct err *e)
{
	return become(o, VERB_IMAGE_LS, "ls", argc, argv, e);
}

int verb_image_inspect(struct options *o, int argc, char **argv, struct err *e)
{
	return become(o, VERB_IMAGE_INSPECT, "inspect", argc, argv, e);
}

int verb_image_rm(struct options *o, int argc, char **argv, struct err *e)
{
	return become(o, VERB_IMAGE_RM, "rm", argc, argv, e);
}

int verb_image_export(struct options *o, int argc, char **argv, struct err *e)
{
	return become(o, VERB_IMAGE_EXPORT, "export", argc, argv, e);
}
