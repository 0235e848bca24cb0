/* What the verbs of living sandboxes share.  They are thin over libbailey: what they add is texts, JSON and the terminal. */
#pragma once
#include <bailey.h>
#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "config/options.h"

/* --- live.c -------------------------------------------------------------------------------------------------------- */

/* r as it is; when that is -1, with *e filled from the library's error. */
int live_give(int r, const struct bailey_error *failure, struct err *e);

/* A home, and a connection to one sandbox of it where there is one.  Its declarer's. */
struct live {
	struct bailey *home;
	struct bailey_sandbox *s;
};
void live_done(struct live *l);
#define _cleanup_live_ _cleanup_(live_done)

int live_open(struct live *ret, const struct options *o, struct err *e);
int live_connect(struct live *ret, const struct options *o, const char *sandbox, struct err *e);

/* A command's id as it was typed. */
int live_command_id(const char *text, uint32_t *ret, struct err *e);

/* Writes b when it is long, or at the end; afterwards it is empty. */
int live_flush(struct buf *b, bool end, struct err *e);

/* {"id":ID,"name":NAME} or the id alone. */
int live_print_id(const struct options *o, const char *id, const char *name, struct err *e);

/* Does the same with each sandbox, goes on after a failure, and says what went wrong: the exit status is that of the first
 * failure. */
typedef int live_each_fn(
	struct live *home, const struct options *o, const char *sandbox, struct err *e);
int live_each(const struct options *o, int argc, char **argv, live_each_fn *fn, struct err *e);

/* --- record.c ------------------------------------------------------------------------------------------------------ */

/* A key of a sandbox's record with its value as what it is: a number, a truth or a text. */
void record_put(struct json *j, const char *key, const char *value);

/* The whole record as the members of an object that is open. */
void record_put_all(struct json *j, const struct bailey_info *info);

/* --- table.c ------------------------------------------------------------------------------------------------------- */

enum { TABLE_MAX_COLUMNS = 12 };

/* Rows of text, as wide as they need to be.  Its declarer's. */
struct table {
	unsigned columns, filled; /* cells of the last row */
	struct buf text;          /* every cell, a NUL behind each */
	size_t width[TABLE_MAX_COLUMNS];
	bool right[TABLE_MAX_COLUMNS];
};
void table_done(struct table *t);
#define _cleanup_table_ _cleanup_(table_done)

/* headers: words with a blank between them; one that begins with '>' has its column flush right. */
void table_begin(struct table *t, const char *headers);

/* The next cell; every byte that could change a terminal is shown escaped. */
void table_cell(struct table *t, const char *text);
void table_number(struct table *t, uint64_t v);
void table_bytes(struct table *t, uint64_t v);      /* "12.3m"; "-" for UINT64_MAX */
void table_age(struct table *t, uint64_t since_ms); /* "5m"; "-" for 0 */
void table_put(struct table *t, struct buf *out);

/* "512", "12.3m" */
void bytes_add(struct buf *out, uint64_t v);

/* --- output.c ------------------------------------------------------------------------------------------------------ */

enum { OUTPUT_OUT, OUTPUT_ERR, OUTPUTS };

/* Both streams of a command, kept up to a maximum each. */
struct output {
	struct buf stream[OUTPUTS];
	uint64_t max;
	bool truncated;
};
void output_init(struct output *o, uint64_t max);
void output_done(struct output *o);
bailey_output_fn output_take; /* arg: the struct output */
void output_put(struct json *j, const struct output *o);

/* NAME, and NAME_base64, true when the bytes are no text. */
void output_put_bytes(struct json *j, const char *name, const char *data, size_t n);

/* --- serve.c ----------------------------------------------------------------------------------------------------- */

/* The client's side of one command: its signals, its terminal, its output. */
struct serve {
	struct bailey_sandbox *s;
	struct bailey_command *c;
	struct bailey_result result;
	struct output *captured; /* NULL: output passes through */
	int signals;             /* signalfd; -1 */
	bool terminal, raw;
	struct termios saved;
	bool ended, let_go, input_over;
	bool said_dropped;
	unsigned times_signalled;
	uint64_t signalled_ms;
	bool held; /* ctrl-p was typed and not passed on yet */
	size_t start, end;
	char typed[4096];
};

/* Blocks the signals that serve_run() passes on.  terminal: the client's own is the command's. */
int serve_open(struct serve *ret, struct bailey_sandbox *s, bool terminal, struct output *captured,
	struct err *e);

/* Where the command's streams go; input: the client's is the command's. */
void serve_streams(struct serve *s, bool input, struct bailey_streams *ret);

/* Size of the client's terminal; 0 where there is none. */
void serve_size(uint16_t *ret_rows, uint16_t *ret_columns);

/* Serves the command up to its end: 0, with s->result.  Positive: the client ends before it, with that status less one. */
int serve_run(struct serve *s, struct bailey_command *c, struct err *e);

/* Puts the terminal back; a session that was never opened is fine when it is all zero but for signals -1. */
void serve_done(struct serve *s);
#define SERVE_INIT { .signals = -1 }
#define _cleanup_serve_ _cleanup_(serve_done)

/* --- result.c ------------------------------------------------------------------------------------------------------ */

/* What a verb that waited for a command ends with: its exit status, or -1 with *e when it was never started.  Prints two
 * lines on standard error for an end that needs words, or with --json the object. */
int result_report(const struct options *o, const char *id, const struct bailey_result *r,
	const char *name, const struct output *captured, uint64_t wall_ms, struct err *e);

/* --- changes.c ----------------------------------------------------------------------------------------------------- */

struct change {
	char kind; /* 'A', 'M' or 'D' */
	bool conflict;
	uint32_t mode;
	uint64_t size;
	char *path;
};

/* What a sandbox changed.  Its declarer's. */
struct changes {
	struct change *v;
	size_t n, cap;
	struct changes_block *paths;
	size_t path_bytes;
	bool failed, too_many; /* there was no room for all: for want of memory, or by the maxima */
};
void changes_done(struct changes *c);
#define _cleanup_changes_ _cleanup_(changes_done)

/* At most 4,194,304 entries and 256 MiB of paths, which is under 400 MB of memory; changes_check() says whether it was more. */
void changes_add(struct changes *c, char kind, uint32_t mode, uint64_t size, const char *path);
int changes_check(const struct changes *c, const char *sandbox, struct err *e);

/* By path: a directory comes before what is in it, and that before its neighbours. */
void changes_sort(struct changes *c);
struct change *changes_find(const struct changes *c, const char *path); /* sorted */

/* What is long is written to standard output on the way. */
int changes_put_text(const struct changes *c, struct buf *out, struct err *e);
int changes_put_json(struct json *j, const char *key, const struct changes *c, struct err *e);

/* --- conflicts.c --------------------------------------------------------------------------------------------------- */

/* Marks each change whose object in the directory was changed since then by somebody else, and is not already as the archive
 * says.  archive_fd is read from its start; *ret: how many. */
int conflicts_mark(
	struct changes *c, int dir, uint64_t since_ms, int archive_fd, size_t *ret, struct err *e);
