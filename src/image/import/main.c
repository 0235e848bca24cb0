/* bailey-image: the images of Bailey.  `bailey image ...` runs it, since it links libarchive and jansson, which `bailey`
 * must not.  It reads hostile archives with the user's own rights and nothing else: it makes no sandbox.
 *
 * usage: bailey-image import|build|pull|ls|inspect|rm|export [FLAG ...] [ARGUMENT ...] */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "image/import/describe.h"
#include "image/import/verbs.h"

enum flag_kind { FLAG_TEXT, FLAG_BOOL };

#define IN(verb) (1u << VERB_##verb)
enum { VERB_IMPORT, VERB_BUILD, VERB_PULL, VERB_LS, VERB_INSPECT, VERB_RM, VERB_EXPORT, VERBS };

static const struct {
	const char *name, *usage;
	verb_fn *run;
	int min, max;
} verbs[VERBS] = {
	{ "import", "[--name NAME] [--ref NAME] [--replace] [--max-size SIZE] [--json] FILE|DIR|-",
		verb_import, 1, 1 },
	{ "build",
		"--debian RELEASE [--packages A,B] [--mirror URL] [--name NAME] [--replace] "
		"[--max-size SIZE] [--json]",
		verb_build, 0, 0 },
	{ "pull",
		"[--name NAME] [--replace] [--max-size SIZE] [--insecure-registry] [--json] REFERENCE",
		verb_pull, 1, 1 },
	{ "ls", "[--json]", verb_ls, 0, 0 },
	{ "inspect", "[--json] NAME", verb_inspect, 1, 1 },
	{ "rm", "[--json] NAME...", verb_rm, 1, 4096 },
	{ "export", "[--json] NAME FILE|-", verb_export, 2, 2 },
};

static const struct {
	const char *name;
	enum flag_kind kind;
	size_t offset;
	unsigned verbs;
} flags[] = {
	{ "--name", FLAG_TEXT, offsetof(struct arguments, name),
		IN(IMPORT) | IN(BUILD) | IN(PULL) },
	{ "--replace", FLAG_BOOL, offsetof(struct arguments, replace),
		IN(IMPORT) | IN(BUILD) | IN(PULL) },
	{ "--max-size", FLAG_TEXT, offsetof(struct arguments, max_size),
		IN(IMPORT) | IN(BUILD) | IN(PULL) },
	{ "--ref", FLAG_TEXT, offsetof(struct arguments, ref), IN(IMPORT) },
	{ "--debian", FLAG_TEXT, offsetof(struct arguments, debian), IN(BUILD) },
	{ "--packages", FLAG_TEXT, offsetof(struct arguments, packages), IN(BUILD) },
	{ "--mirror", FLAG_TEXT, offsetof(struct arguments, mirror), IN(BUILD) },
	{ "--insecure-registry", FLAG_BOOL, offsetof(struct arguments, insecure_registry),
		IN(PULL) },
	{ "--json", FLAG_BOOL, offsetof(struct arguments, json), ~0u },
};

static int usage(unsigned v, const char *what, const char *word, struct err *e)
{
	(void)err_set(e, R_USAGE, 0, "run 'bailey image%s%s': %s '%.64s'", v < VERBS ? " " : "",
		v < VERBS ? verbs[v].name : "", what, word);
	if (v < VERBS)
		return err_remedy(e, "Write 'bailey image %s %s'.", verbs[v].name, verbs[v].usage);
	return err_remedy(e, "Use one of import, build, pull, ls, inspect, rm, export.");
}

/* One flag, as "--flag value" or "--flag=value"; *i moves over what was used. */
static int take_flag(unsigned v, char **argv, int argc, int *i, struct arguments *a, struct err *e)
{
	const char *word = argv[*i], *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : strlen(word);

	for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
		char *at = (char *)a + flags[f].offset;

		if (strlen(flags[f].name) != n || memcmp(flags[f].name, word, n) != 0 ||
			!(flags[f].verbs & (1u << v)))
			continue;
		if (flags[f].kind == FLAG_BOOL) {
			if (eq)
				return usage(v, "no value belongs to", flags[f].name, e);
			*(bool *)at = true;
			return 0;
		}
		if (!eq && *i + 1 == argc)
			return usage(v, "a value is missing behind", word, e);
		word = eq ? eq + 1 : argv[++*i];
		memcpy(at, &word, sizeof word);
		return 0;
	}
	return usage(v, "no such flag:", word, e);
}

/* Flags may stand anywhere before '--'; "-" is an argument. */
static int read_arguments(unsigned v, int argc, char **argv, struct arguments *a, struct err *e)
{
	bool only_words = false;

	for (int i = 0; i < argc; i++) {
		if (!only_words && streq(argv[i], "--"))
			only_words = true;
		else if (only_words || argv[i][0] != '-' || !argv[i][1])
			a->words[a->n_words++] = argv[i];
		else if (take_flag(v, argv, argc, &i, a, e) < 0)
			return -1;
	}
	if (a->n_words < verbs[v].min || a->n_words > verbs[v].max)
		return usage(v, "too few or too many arguments behind",
			a->n_words ? a->words[a->n_words - 1] : "it", e);
	return 0;
}

static int report(const struct err *e, bool json)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *texts[] = { e->message ?: "no memory for the message", err_get_remedy(e) };

	if (json) {
		json_add_err(&out, e);
		if (write_all(STDOUT_FILENO, out.data ?: "", out.len) == 0)
			return reason_exit(e->reason);
		buf_clear(&out);
	}
	/* names of a hostile image may be in it: nothing that moves a terminal */
	for (int t = 0; t < 2; t++) {
		buf_puts(&out, t ? "  try: " : "bailey: ");
		for (const char *p = texts[t]; *p; p++) {
			if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
				buf_printf(&out, "\\x%02x", (unsigned char)*p);
			else
				buf_add(&out, p, 1);
		}
		if (!t)
			buf_printf(&out, " [%s]", reason_name(e->reason));
		buf_puts(&out, "\n");
	}
	(void)write_all(STDERR_FILENO, out.data ?: "", out.len);
	return reason_exit(e->reason);
}

static int run(unsigned v, int argc, char **argv, struct arguments *a, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (v == VERBS)
		return usage(v, "no such sub-verb:", argc > 1 ? argv[1] : "", e);
	if (read_arguments(v, argc - 2, argv + 2, a, e) < 0 || verbs[v].run(a, &out, e) < 0)
		return -1;
	return verb_flush(&out, e);
}

/* A closed one would be taken by the next open, and then get what is meant for a terminal. */
static void fill_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR); /* not O_CLOEXEC: children need them too */
	while (fd >= 0 && fd <= 2);
	(void)close_fd(fd);
}

/* Deep trees are walked with two descriptors a level. */
static void raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max < 4096 ? r.rlim_max : 4096;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

int main(int argc, char **argv)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_free_ char **words = xcalloc((size_t)argc + 1, sizeof *words);
	struct arguments a = { .words = words };
	unsigned v = 0;

	/* names in archives are bytes; libarchive turns them into the locale's letters and back */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	fill_standard_fds();
	(void)umask(022);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL);
	raise_files();
	while (v < VERBS && (argc < 2 || !streq(argv[1], verbs[v].name)))
		v++;
	if (run(v, argc, argv, &a, &e) == 0)
		return 0;
	for (int i = 2; i < argc && !a.json; i++)
		a.json = streq(argv[i], "--json");
	return report(&e, a.json);
}
