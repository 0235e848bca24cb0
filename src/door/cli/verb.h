/* What the verbs of the command line share.  One verb, one file; main.c has the table. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "config/options.h"
#include "engine/engine.h"

/* A verb gets the arguments behind its flags and returns its exit status, or -1 with *e set: main.c then prints the error.
 * argv is NULL-terminated.  SIGCHLD is at its default; 0, 1 and 2 are open, if need be on something that refuses. */
typedef int verb_fn(struct options *o, int argc, char **argv, struct err *e);

verb_fn verb_run, verb_doctor, verb_bench;
verb_fn verb_create, verb_exec, verb_ps, verb_attach, verb_kill, verb_wait, verb_logs, verb_ls;
verb_fn verb_inspect, verb_stats, verb_pause, verb_resume, verb_stop, verb_start, verb_cp,
	verb_port;
verb_fn verb_snapshot, verb_fork, verb_diff, verb_apply, verb_rm, verb_events, verb_prune, verb_df;
verb_fn verb_image_import, verb_image_build, verb_image_pull, verb_image_ls, verb_image_inspect;
verb_fn verb_image_rm, verb_image_export;
verb_fn verb_launcher;
verb_fn verb_audit_verify, verb_audit_show;
verb_fn verb_config_show, verb_config_check, verb_log, verb_completion, verb_help, verb_version;

/* Writes all of b to standard output.  A reader that has gone is an error like any other, not a signal. */
int cli_write(const struct buf *b, struct err *e);

/* Waits for a time; -1 when the reader of standard output goes away meanwhile. */
int cli_wait(int ms, struct err *e);

/* Prints the last lines of a file of JSON lines and, with --follow, what is added to it, also when it is renamed to PATH.1 and begun
 * anew.  One that isn't there is empty. */
int cli_tail(const struct options *o, const char *path, struct err *e);

/* Lets an interrupt end the program although it was started with that ignored, as shells do behind '&': for a verb that goes on
 * until it is interrupted. */
void cli_take_interrupts(void);

/* The two lines of an error, on standard error. */
void cli_report(const struct err *e);

/* A descriptor, the caller's to close, from which the signals that end or resize are read; they are blocked from now on. */
int cli_open_signals(struct err *e);

/* Adds n bytes of text with everything that could change a terminal shown as \xNN. */
void cli_escape(struct buf *out, const char *text, size_t n);

/* Opens the native engine with what the options say of ids and cgroups; the caller closes *ret. */
int cli_open_engine(const struct options *o, struct engine **ret, struct err *e);

/* Adds the help of a verb; VERB_BAILEY is the list of verbs. */
void help_add(enum verb v, struct buf *out);

/* True when this program was built with the verb. */
bool verb_is_built(enum verb v);

/* Adds the completion script for "bash", "zsh" or "fish". */
int completion_add(const char *shell, struct buf *out, struct err *e);
