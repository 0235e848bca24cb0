/* What the parts of libbailey share.  include/bailey.h is what others see.
 *
 * A connection (struct bailey_sandbox) carries streams; a stream is one request and its answers.  Bytes flow through lanes
 * (from the engine) and a feed (to it), each with credit.  All waiting is done by conn_turn(). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bailey.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/wire.h"

#define CLIENT_VISIBLE __attribute__((visibility("default")))

enum {
	CLIENT_CONNECT_MS = 2000, /* connect and HELLO */
	CLIENT_TIMEOUT_MS =
		15000,          /* a request without progress, unless the caller says otherwise */
	CLIENT_SLOW_FACTOR = 8, /* ... of one that may work long between two answers */
	CLIENT_IN_BYTES = 256 << 10,
	CLIENT_OUT_HIGH = 256 << 10, /* feeds add nothing while this much waits to be sent */
	CLIENT_OUT_MAX = 8 << 20,    /* of everything; a caller that passes it is told "busy" */
	CLIENT_ACK_BYTES = 256 << 10,
	CLIENT_MAX_FDS = 4, /* descriptors that came and wait for their RESULT */
	CLIENT_MAX_LINE = 64 << 10,
	CLIENT_MAX_META = 256 << 10, /* bytes of a sandbox's record */
	CLIENT_MAX_TIMEOUT_MS = 1 << 30,
	CLIENT_EVENTS = 16,
};

struct bailey {
	char *home, *libexec, *cgroup_parent; /* libexec, cgroup_parent: NULL when not given */
	char *launcher;                       /* its socket, where one is used; NULL: none */
	uint32_t ids_base, ids_count;         /* 0: the default */
	uint32_t agent_uid, agent_gid;
	char *layers, *layer_store;                                   /* NULL: not given */
	char *engine;                                                 /* never NULL */
	char *runtime, *docker_host, *docker_cert_path, *docker_disk; /* NULL: not given */
};

/* --- launch.c ------------------------------------------------------------------------------------------------------ */

struct launch_out;

/* The launcher to use, if any; *ret is the caller's to free. */
int launcher_find(const struct bailey_options *o, char **ret, struct err *e);

/* The directory in which the caller's sandboxes lie; -1: he has none yet. */
int launcher_home(const struct bailey *b, int *ret, struct err *e);

/* Sends what was put into *o; the answer comes on the other end of `answer`. */
int launcher_create(const struct bailey *b, struct launch_out *o, int answer, struct err *e);

/* --- errors.c ------------------------------------------------------------------------------------------------------ */

/* Copies *err to *e (may be NULL), empties it, and returns -1. */
int client_fail(struct bailey_error *e, struct err *err);

/* r as it is; when that is -1, with *e filled. */
int client_give(int r, struct bailey_error *e, struct err *err);

/* The error of a RESULT: what an engine says in words, or else errno, told as "what 'object'". */
int client_result_error(
	const struct wire_result *m, const char *what, const char *object, struct err *e);

/* The reason of an errno that came from inside. */
enum reason client_reason(uint32_t error);

/* Copies a struct of options of the caller's size over *ours, which has its defaults. */
int client_options(void *ours, size_t size, const void *theirs, const char *what, struct err *e);

/* --- conn.c -------------------------------------------------------------------------------------------------------- */

struct stream;

/* A descriptor that the connection's epoll looks at. */
struct source {
	int fd; /* -1: none; owned */
	uint32_t want;
	bool always; /* a regular file: epoll takes none, and it never blocks */
	struct stream *stream;
};

/* Bytes of a stream from the engine. */
struct lane {
	struct source sink; /* where they go; none: ops->data gets them */
	uint8_t *queue;     /* what the sink doesn't take yet */
	size_t start, end, cap;
	uint64_t received, taken, limit;
	bool eof;        /* the engine said so */
	bool closed;     /* the sink refused: the rest is dropped */
	bool no_wait;    /* pwritev2 takes RWF_NOWAIT here */
	bool half_close; /* shutdown() the sink at the end */
	int error;       /* errno of the sink */
	mode_t type;
};

/* Bytes of a stream to the engine. */
struct feed {
	struct source source; /* where they come from; none: the caller gives them */
	uint64_t sent, limit;
	bool open;
	bool whole; /* an error of the source must not pass for its end, nor an answer come before it */
	bool eof;  /* the end was sent */
	int error; /* errno of the source */
};

struct stream_ops {
	bool two_lanes; /* the second is standard error */

	/* n bytes of a lane without a sink; all are taken. */
	int (*data)(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e);

	/* A frame that is neither DATA, EOF, ACK nor RESULT.  -1: the engine says nonsense. */
	int (*frame)(struct stream *st, const struct wire_frame *f, struct err *e);

	/* RESULT came and all data were delivered, or the connection ended.  Called once. */
	void (*done)(struct stream *st);

	/* Frees the object around a stream that was let go; NULL: it is the caller's. */
	void (*free)(struct stream *st);
};

struct stream {
	const struct stream_ops *ops;
	struct bailey_sandbox *conn;
	struct stream *next; /* in the connection's list, or among those that wait to be freed */
	uint32_t number;
	struct lane lanes[2];
	struct feed feed;
	uint64_t progress; /* changes with everything that happens */
	uint64_t most;     /* bytes that may come; 0: any number */
	bool linked;
	bool answered; /* RESULT came */
	bool over;     /* done() was called */
	bool paused;   /* ops->data wants nothing more; what comes is dropped */
	struct wire_result result;
	int result_fd; /* that came with it; owned */
	uint8_t *rest; /* of the RESULT; owned */
};

struct bailey_sandbox {
	char id[BAILEY_ID_SIZE];
	struct source sock;
	int poll_fd;
	uint32_t next_number;
	struct stream *streams;
	struct stream *dropped; /* freed when no callback runs any more */
	unsigned depth;         /* conn_turn() runs */
	bool hello, wrapped;    /* wrapped: stream numbers began again at 1 */
	uint8_t *in;
	size_t in_start, in_end;
	uint8_t *out;
	size_t out_start, out_end, out_cap;
	int fds[CLIENT_MAX_FDS];
	unsigned n_fds;
	struct err broken; /* why the connection is of no use any more */
	uint64_t timeout_ms;
	struct stream *events; /* of bailey_on_event() */
	bailey_progress_fn *progress;
	void *progress_arg;
};

/* Connects to the socket of a run directory and says HELLO. */
int conn_open(struct bailey_sandbox **ret, int run_fd, const char *id, struct err *e);

/* The same by name, id or prefix. */
int connect_sandbox(
	const struct bailey *b, const char *sandbox, struct bailey_sandbox **ret, struct err *e);

/* The same without waiting for the engine's HELLO, for bailey_list_sandboxes(), which opens many at once. */
int conn_begin(struct bailey_sandbox **ret, int run_fd, const char *id, struct err *e);

/* A connection over any socket (owned by it from now on). */
int conn_new(struct bailey_sandbox **ret, int fd, const char *id, struct err *e);
void conn_free(struct bailey_sandbox *c);

/* Sends and receives what is ready, after waiting for it up to timeout_ms (-1: for ever).  Returns 1 when something was
 * done, 0 after the time, -1 when the connection is broken. */
int conn_turn(struct bailey_sandbox *c, int timeout_ms, struct err *e);

/* Refuses a call that waits from inside a callback, and any on a broken connection. */
int conn_check(struct bailey_sandbox *c, struct err *e);

/* Takes bytes that the engine sent, up to the last whole frame.  *ret_used of the n. */
int conn_take(
	struct bailey_sandbox *c, const uint8_t *p, size_t n, size_t *ret_used, struct err *e);

/* Ends the connection for good and every stream with it; returns -1 with *e. */
int conn_break(struct bailey_sandbox *c, struct err *e);

/* Room for a frame of n body bytes at the end of what is to be sent; NULL with *e when too much waits.  conn_commit() says
 * how many bytes were written there. */
uint8_t *conn_reserve(struct bailey_sandbox *c, size_t n, struct err *e);
void conn_commit(struct bailey_sandbox *c, size_t n);
size_t conn_waiting(const struct bailey_sandbox *c);
int conn_flush(struct bailey_sandbox *c, struct err *e);

/* conn_put(c, NAME, &m, e): a frame with what messages.def says. */
struct conn_space {
	uint8_t *p;
	size_t cap; /* 0: too much waits */
};
struct conn_space conn_space(struct bailey_sandbox *c);
int conn_put_done(struct bailey_sandbox *c, size_t n, struct err *e);
#define conn_put(c, name, m, e) \
	(__extension__({ \
		const struct conn_space space_ = conn_space(c); \
\
		conn_put_done((c), wire_put_##name(space_.p, space_.cap, (m)), (e)); \
	}))

/* Changes what epoll looks for. */
void source_want(struct bailey_sandbox *c, struct source *s, uint32_t want);
void source_close(struct bailey_sandbox *c, struct source *s);

/* --- stream.c ------------------------------------------------------------------------------------------------------ */

/* Takes a new number and links st, which the caller owns, into the connection.  conn_check() went before. */
void stream_begin(struct bailey_sandbox *c, struct stream *st, const struct stream_ops *ops);

/* ... under the engine's number */
void stream_adopt(
	struct bailey_sandbox *c, struct stream *st, const struct stream_ops *ops, uint32_t number);
struct stream *stream_find(const struct bailey_sandbox *c, uint32_t number);

/* Unlinks, tells the engine, closes what st owns.  ops->free is called when no callback runs any more. */
void stream_end(struct stream *st);

/* Gives a copy of fd to a lane as its sink, to the feed as its source. */
int stream_sink(struct stream *st, unsigned lane, int fd, struct err *e);
int stream_source(struct stream *st, int fd, struct err *e);

/* What conn_turn() calls: bytes for a lane, its end, and descriptors that are ready. */
int stream_data(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e);
void stream_eof(struct stream *st, unsigned lane);
int stream_ready(struct stream *st, struct source *s, struct err *e);

/* Sends of the source what credit and room allow. */
int stream_pump(struct stream *st, struct err *e);

/* Room for bytes of the caller's own, to be written there: 0 bytes when there is none now, -1 with *e.  stream_filled() says
 * how many were. */
int stream_space(struct stream *st, uint8_t **ret, size_t *ret_n, struct err *e);
int stream_filled(struct stream *st, size_t n, struct err *e);

/* Bytes of the caller's own; returns how many were taken. */
int stream_send(struct stream *st, const void *p, size_t n, size_t *ret_taken, struct err *e);
int stream_send_eof(struct stream *st, struct err *e);

/* Everything that came was delivered. */
bool stream_drained(const struct stream *st);

/* Calls done() once when RESULT came and all was delivered. */
void stream_settle(struct stream *st);

/* Turns until st is over (its RESULT came), and gives the error of that RESULT.  `slow` allows for long work between two
 * answers; its own sinks and sources may take any time.  On failure st is still linked. */
int stream_wait(struct stream *st, bool slow, const char *what, const char *object, struct err *e);

/* Turns until bytes of the caller's find room, or st is over. */
int stream_wait_room(struct stream *st, const char *what, const char *object, struct err *e);

/* Turns until cond() or timeout_ms without progress (0: for ever). */
int stream_wait_for(struct stream *st, bool (*cond)(const struct stream *), uint64_t timeout_ms,
	const char *what, const char *object, struct err *e);

/* --- pieces.c: records and lines out of a stream of bytes --------------------------------------------------------- */

enum pieces_kind { PIECES_LINES, PIECES_RECORDS };

/* Collects what may be split anywhere.  each() gets a whole record (its length field too) or a line (NUL-terminated, without
 * its end); not 0 ends it: 1 by the caller's wish, -1 with *e. */
struct pieces {
	enum pieces_kind kind;
	int (*each)(void *arg, uint8_t *p, size_t n, struct err *e);
	void *arg;
	struct buf held;
	bool ended; /* each() wants no more */
};
int pieces_feed(struct pieces *s, const uint8_t *p, size_t n, struct err *e);

/* -1 when the end came inside a record. */
int pieces_end(struct pieces *s, struct err *e);
void pieces_done(struct pieces *s);

/* Requests whose answer is pieces: sends nothing itself. */
struct pieces_stream {
	struct stream st;
	struct pieces pieces;
};
extern const struct stream_ops pieces_ops;

/* Reads records or lines from a descriptor up to its end, waiting at most timeout_ms for each part (0: for ever). */
int pieces_read_fd(struct pieces *s, int fd, uint64_t timeout_ms, struct err *e);

/* Little-endian numbers of a record. */
uint16_t get_le16(const uint8_t *p);
uint32_t get_le32(const uint8_t *p);
uint64_t get_le64(const uint8_t *p);

/* A name (path: or one beneath a directory) that is empty, absolute, or has a part '.', '..' or nothing: joined to a path of
 * the host it would lead elsewhere. */
bool leads_out(const char *name, bool path);

/* "key value" of a line; the escapes of the value are taken back in place. */
bool line_split(char *line, char **ret_key, char **ret_value);

/* --- record.c: the files of sandboxes ------------------------------------------------------------------------------ */

enum { RECORD_MAX_KEYS = 96 };

struct record {
	char *text; /* owned */
	const char *key[RECORD_MAX_KEYS], *value[RECORD_MAX_KEYS];
	unsigned n;
	char id[BAILEY_ID_SIZE];
	bool live;
	bool listened; /* its owner's number is nobody's here, but somebody listens */
};
void record_done(struct record *r);
#define _cleanup_record_ _cleanup_(record_done)
const char *record_get(const struct record *r, const char *key);
uint64_t record_number(const struct record *r, const char *key, uint64_t fallback);

/* $HOME/sandbox as a descriptor; -1 with errno in *e.  ENOENT: nothing was ever made there: *ret is -1 and 0 returned. */
int home_open_sandboxes(const struct bailey *b, int *ret, struct err *e);

/* runs/ID beneath it. */
int run_open(int sandboxes, const char *id, int *ret, struct err *e);
int record_read(int run_fd, const char *id, struct record *ret, struct err *e);

/* The process that owns the sandbox may be there; it has another number in another pid namespace. */
bool record_owner_lives(const struct record *r);
bool id_is_valid(const char *id);
bool name_is_valid(const char *name);

/* Calls each() for every id; not 0 ends it and is returned. */
int run_each(int sandboxes, int (*each)(void *arg, const char *id, struct err *e), void *arg,
	struct err *e);
int sandbox_find(
	const struct bailey *b, const char *text, char ret_id[BAILEY_ID_SIZE], struct err *e);

/* Removes runs/ID and the name that leads to it; only where no owner lives. */
int run_remove(int sandboxes, const struct record *r, struct err *e);

/* --- home.c and engine.c ------------------------------------------------------------------------------------------- */

/* The path of a program of Bailey's. */
int client_program(const struct bailey *b, const char *name, char **ret, struct err *e);

/* Starts the engine's program with a verb; fd becomes its descriptor 3.  It is not our child and outlives us. */
int engine_spawn(const struct bailey *b, const char *verb, int fd, struct err *e);

/* Has a sandbox that goes on without its owner taken over; returns when that is done.  false: it can't be. */
bool client_adopt(const struct bailey *b, int run, const struct record *r);

/* Has the engine remove what dead owners of this home left on the host; does not wait for it. */
int client_sweep(const struct bailey *b, struct err *e);

/* --- spawn.c ------------------------------------------------------------------------------------------------------- */

/* Starts a program that is not our child: argv[0] is its path, fd becomes its descriptor 3, the three standard ones are
 * /dev/null, everything else is closed, no signal is blocked or ignored.  env: NULL-terminated. */
int spawn_detached(char *const *argv, char *const *env, int fd, struct err *e);
