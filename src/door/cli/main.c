/* Owns the program `bailey`: finds the verb, reads its options, prints its error.  Links libc and nothing else, because
 * every library costs each start of a sandbox; what needs more is a program of its own in libexec. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "door/cli/verb.h"

static const struct {
	const char *name;
	verb_fn *run;
} verbs[VERB_MAX] = {
	[VERB_RUN] = { "run", verb_run },
	[VERB_CREATE] = { "create", verb_create },
	[VERB_EXEC] = { "exec", verb_exec },
	[VERB_PS] = { "ps", verb_ps },
	[VERB_ATTACH] = { "attach", verb_attach },
	[VERB_KILL] = { "kill", verb_kill },
	[VERB_WAIT] = { "wait", verb_wait },
	[VERB_LOGS] = { "logs", verb_logs },
	[VERB_LS] = { "ls", verb_ls },
	[VERB_INSPECT] = { "inspect", verb_inspect },
	[VERB_STATS] = { "stats", verb_stats },
	[VERB_PAUSE] = { "pause", verb_pause },
	[VERB_RESUME] = { "resume", verb_resume },
	[VERB_STOP] = { "stop", verb_stop },
	[VERB_START] = { "start", verb_start },
	[VERB_CP] = { "cp", verb_cp },
	[VERB_PORT] = { "port", verb_port },
	[VERB_SNAPSHOT] = { "snapshot", verb_snapshot },
	[VERB_FORK] = { "fork", verb_fork },
	[VERB_DIFF] = { "diff", verb_diff },
	[VERB_APPLY] = { "apply", verb_apply },
	[VERB_RM] = { "rm", verb_rm },
	[VERB_EVENTS] = { "events", verb_events },
	[VERB_PRUNE] = { "prune", verb_prune },
	[VERB_DF] = { "df", verb_df },
	[VERB_IMAGE_IMPORT] = { "image import", verb_image_import },
	[VERB_IMAGE_BUILD] = { "image build", verb_image_build },
	[VERB_IMAGE_PULL] = { "image pull", verb_image_pull },
	[VERB_IMAGE_LS] = { "image ls", verb_image_ls },
	[VERB_IMAGE_INSPECT] = { "image inspect", verb_image_inspect },
	[VERB_IMAGE_RM] = { "image rm", verb_image_rm },
	[VERB_IMAGE_EXPORT] = { "image export", verb_image_export },
	[VERB_DOCTOR] = { "doctor", verb_doctor },
	[VERB_BENCH] = { "bench", verb_bench },
	[VERB_CONFIG_SHOW] = { "config show", verb_config_show },
	[VERB_CONFIG_CHECK] = { "config check", verb_config_check },
	[VERB_LOG] = { "log", verb_log },
	[VERB_LAUNCHER] = { "launcher", verb_launcher },
	[VERB_AUDIT_VERIFY] = { "audit verify", verb_audit_verify },
	[VERB_AUDIT_SHOW] = { "audit show", verb_audit_show },
	[VERB_COMPLETION] = { "completion", verb_completion },
	[VERB_HELP] = { "help", verb_help },
	[VERB_VERSION] = { "version", verb_version },
};

enum { EXIT_TIMEOUT = 124, EXIT_OURS = 125, EXIT_NOT_EXEC = 126, EXIT_NOT_FOUND = 127 };

bool verb_is_built(enum verb v)
{
	return verbs[v].run || verb_is_group(v);
}

/* A descriptor below 3 that is closed would be taken by the next open, which would then get what is meant for a terminal.
 * /dev/null fills it: empty as input, read-only as output, so that a write fails as it would have. */
static void fill_standard_fds(void)
{
	struct pollfd fds[3] = { { .fd = 0 }, { .fd = 1 }, { .fd = 2 } };

	if (poll(fds, 3, 0) <= 0)
		return;
	for (int i = 0; i < 3; i++)
		if (fds[i].revents & POLLNVAL &&
			open("/dev/null", O_RDONLY) !=
				i) /* not O_CLOEXEC: children need them too */
			_exit(EXIT_OURS);
}

/* Verbs that end with the status of a command keep the small numbers for it. */
static int exit_status(enum verb v, enum reason r)
{
	if (v != VERB_RUN && v != VERB_EXEC && v != VERB_ATTACH && v != VERB_WAIT)
		return reason_exit(r);
	if (v == VERB_RUN && r == R_TIMEOUT)
		return EXIT_TIMEOUT;
	return r == R_COMMAND_NOT_EXEC     ? EXIT_NOT_EXEC
		: r == R_COMMAND_NOT_FOUND ? EXIT_NOT_FOUND
					   : EXIT_OURS;
}

static int report_json(const struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_err_ struct err failed = ERR_INIT;

	json_add_err(&out, e);
	return cli_write(&out, &failed);
}

void cli_report(const struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *message = e->message ?: "no memory for the message",
		   *remedy = err_get_remedy(e);

	buf_puts(&out, "bailey: ");
	cli_escape(&out, message, strlen(message));
	buf_printf(&out, " [%s]\n  try: ", reason_name(e->reason));
	cli_escape(&out, remedy, strlen(remedy));
	buf_puts(&out, "\n");
	(void)write_all(STDERR_FILENO, out.data ?: "", out.len);
}

/* Where JSON can't be written the error still goes to standard error: a failure is never silent. */
static int report(enum verb v, const struct err *e, bool json)
{
	if (json && report_json(e) == 0)
		return exit_status(v, e->reason);
	cli_report(e);
	return exit_status(v, e->reason);
}

/* Whether --json was meant, when reading the flags failed before it was reached. */
static bool wants_json(int argc, char **argv)
{
	for (int i = 1; i < argc && !streq(argv[i], "--"); i++)
		if (streq(argv[i], "--json"))
			return true;
	return false;
}

static int no_verb(const char *name, const char *group, struct err *e)
{
	_cleanup_free_ char *typed = xasprintf("%s%s%.64s", group, *group ? " " : "", name);
	struct nearest near = { .word = typed };

	if (str_has_control(name))
		return err_set(e, R_USAGE, 0, "find the verb: its name holds control bytes");
	for (enum verb v = 0; v < VERB_MAX; v++)
		if (verb_is_built(v) && !strchr(op_table[v].name, ' ') == !*group &&
			*op_table[v].name)
			nearest_offer(&near, op_table[v].name);
	err_set(e, R_USAGE, 0, "find the verb '%s': no such verb", typed);
	if (near.best)
		return err_remedy(e,
			"Run 'bailey %s' if you meant that; 'bailey --help' lists the verbs.",
			near.best);
	return err_remedy(e, "Run 'bailey --help': it lists the verbs.");
}

/* Finds the verb, and with a group the sub-verb behind it; *ret_used is how many words that took. */
static int find_verb(int argc, char **argv, enum verb *ret, int *ret_used, struct err *e)
{
	_cleanup_free_ char *whole = NULL;

	*ret_used = 1;
	*ret = VERB_BAILEY;
	if (argc < 2 || *argv[1] == '-')
		return 0;
	*ret = verb_by_name(argv[1]);
	if (*ret == VERB_MAX || !verb_is_built(*ret) || strchr(argv[1], ' '))
		return no_verb(argv[1], "", e);
	if (!verb_is_group(*ret)) {
		*ret_used = 2;
		return 0;
	}
	*ret_used = 2;
	if (argc < 3 || *argv[2] == '-')
		return 0;
	whole = xasprintf("%s %s", argv[1], argv[2]);
	*ret = verb_by_name(whole);
	if (*ret == VERB_MAX || !verb_is_built(*ret))
		return no_verb(argv[2], argv[1], e);
	*ret_used = 3;
	return 0;
}

static int check_count(enum verb v, int argc, struct err *e)
{
	const struct op_info *op = &op_table[v];

	if (!verbs[v].run) {
		err_set(e, R_USAGE, 0, "run 'bailey%s%s': no %sverb behind it",
			*op->name ? " " : "", op->name, *op->name ? "sub-" : "");
		return err_remedy(e, "Run 'bailey%s%s --help': it lists them.",
			*op->name ? " " : "", op->name);
	}
	if ((unsigned)argc >= op->min && (unsigned)argc <= op->max)
		return 0;
	err_set(e, R_USAGE, 0, "run 'bailey %s': %d arguments are too %s", op->name, argc,
		(unsigned)argc < op->min ? "few" : "many");
	return err_remedy(e, "Write 'bailey %s %s'.", op->name, op->usage);
}

static int dispatch(enum verb v, struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (o->help) {
		help_add(v, &out);
		return cli_write(&out, e);
	}
	if (o->version)
		return verb_version(o, 0, argv, e);
	if (check_count(v, argc, e) < 0)
		return -1;
	return verbs[v].run(o, argc, argv, e);
}

/* No argument at all is answered with the way on, on standard error: nothing was asked for, nothing was done. */
static int say_usage(void)
{
	static const char text[] = "usage: bailey VERB [FLAG ...] [ARGUMENT ...]\n"
				   "   try: bailey run -- echo hello\n"
				   "        bailey --help\n";

	(void)write_all(STDERR_FILENO, text, sizeof text - 1);
	return reason_exit(R_USAGE);
}

int main(int argc, char **argv)
{
	_cleanup_options_ struct options o;
	_cleanup_err_ struct err e = ERR_INIT;
	enum verb v = VERB_BAILEY;
	int used = 1, rest = 0, status = -1;
	bool read = false;

	options_init(&o);
	fill_standard_fds();
	if (argc < 2)
		return say_usage();
	/* inherited as ignored it would take the exit status of every child from us */
	(void)signal(SIGCHLD, SIG_DFL);
	if (find_verb(argc, argv, &v, &used, &e) == 0) {
		options_done(&o);
		read = options_load(&o, v, argc - used + 1, argv + used - 1, &rest, &e) == 0;
		if (read)
			status =
				dispatch(v, &o, argc - used + 1 - rest, argv + used - 1 + rest, &e);
	}
	if (status >= 0)
		return status;
	return report(
		v < VERB_MAX ? v : VERB_BAILEY, &e, o.json || (!read && wants_json(argc, argv)));
}
