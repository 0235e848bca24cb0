/* The parts of `bailey run`: options to a request, streams, the report.  Internal to the verb. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "base/buf.h"
#include "client/request.h"
#include "config/options.h"
#include "engine/engine.h"
#include "spec/profile.h"

/* --- run.c --------------------------------------------------------------------------------------------------------- */

/* Logs the hatches that the options open for a sandbox. */
void run_log_hatches(const struct options *o, const char *id);

/* --- run_request.c ------------------------------------------------------------------------------------------------ */

/* What the options of a new sandbox point to; its declarer's. */
struct create_strings {
	struct strlist env; /* a NULL stands behind the last */
	char *workspace;
	struct bailey_mount mounts[SPEC_MAX_BINDS];
	char *sources[SPEC_MAX_BINDS]; /* what the mounts' texts lie in */
	unsigned n_mounts;
};
void create_strings_done(struct create_strings *s);

/* The options that `run` and `create` share.  cow: a workspace may end in ":cow".  *ret points into *ret_own and *o. */
int create_options_fill(struct bailey_create_options *ret, const struct options *o, bool cow,
	struct create_strings *ret_own, struct err *e);

/* What a request's strings point to; it outlives the spec that is made from the request. */
struct run_strings {
	struct create_strings texts;
	struct request_strings request;
	char **command; /* the image's, when the caller gave none */
};

/* Opens every client path once and fills the request.  argv: NULL for the image's own command. */
int run_request_fill(struct run_request *r, const struct options *o, char **argv,
	struct run_strings *own, struct err *e);
void run_strings_done(struct run_strings *s);
void strlist_done(struct strlist *l);

/* --- run_io.c ------------------------------------------------------------------------------------------------------ */

enum { STREAM_OUT, STREAM_ERR, STREAMS };

/* One stream from the command to the caller.  from: our end of the command's pipe; to: the caller's descriptor, or -1 when
 * it is captured. */
struct stream {
	int from, to;
	bool open, no_splice, truncated;
	bool waiting;     /* `to` takes nothing at the moment */
	bool draining;    /* nobody writes any more: empty means the end */
	size_t copy_size; /* bytes that `to` takes at once without blocking */
	struct buf capture;
	uint64_t max_capture;
};

/* Standard input: from the caller to the command. */
struct feed {
	int from, to;
	bool open, source_eof;
	char data[65536];
	size_t start, end;
};

struct terminal {
	int master; /* -1: no terminal */
	bool raw;
	struct termios saved;
};

struct run_io {
	struct stream streams[STREAMS];
	struct feed feed;
	struct terminal terminal;
	struct engine_io child; /* the command's ends; owned, closed by run_io_parent() */
};

struct run_io_options {
	bool interactive, tty, capture;
	uint64_t max_capture;
};

int run_io_open(struct run_io *io, const struct run_io_options *o, struct err *e);
/* Closes the command's ends once it has them. */
void run_io_parent(struct run_io *io);
void run_io_done(struct run_io *io);
void run_io_resize(const struct run_io *io);

enum { RUN_IO_MAX_POLL = 5 };
struct pollfd;
size_t run_io_poll(const struct run_io *io, struct pollfd *fds);
int run_io_serve(struct run_io *io, const struct pollfd *fds, size_t n, struct err *e);
bool run_io_at_end(const struct run_io *io);

/* The last writer is gone: read what is left and take an empty pipe for its end. */
void run_io_drain(struct run_io *io);
bool run_io_waits(const struct run_io *io);
/* Drops what the caller's side does not take. */
void run_io_give_up(struct run_io *io);

/* --- run_report.c --------------------------------------------------------------------------------------------------- */

struct run_result {
	bool finished;      /* the command ran and ended */
	int exit_code;      /* of the command; -1 when a signal ended it */
	int signal;         /* 0: none */
	enum reason reason; /* REASON_NONE for an ordinary end */
	bool timed_out;
	uint64_t wall_ms;
	struct engine_facts facts;
};

/* What the caller's shell gets: the command's own status, 128+n, 124, 125 ... */
int run_exit_status(const struct run_result *r);
void run_report_json(struct buf *out, const struct run_result *r, const char *id,
	const struct run_io *io, bool with_output);
/* Two lines on stderr for an end that needs words; nothing for an ordinary one. */
void run_report_text(const struct run_result *r, const struct options *o);
