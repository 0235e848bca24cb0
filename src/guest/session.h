/* A session: what the files that serve it share.  Internal to the room.
 *
 * One loop (session.c) waits for descriptors.  The link (link.c) carries frames; a stream (streams.c) is one request and
 * what flows for it.  A kind of request is a struct stream_ops: exec.c, files.c, write.c, list.c, search.c, tar_out.c,
 * tar_in.c, forward.c.  Nobody sends frames but the link: the others put bytes into lanes and say which answers are due, so
 * that whatever a broken connection lost is known and is sent again. */
#pragma once
#include <sys/stat.h>

#include "guest/guest.h"
#include "guest/sys.h"
#include "guest/text.h"
#include "wire/wire.h"

enum {
	GUEST_STREAMS = 256, /* of the guest's own numbering, beside the host's */
	MAX_TABLE = WIRE_MAX_STREAMS + GUEST_STREAMS,
	STEP_BYTES = 256 << 10, /* that one stream moves before the others have their turn */
	STEP_ENTRIES = 64,
	NOTE_MAX = 512,
	ACK_EVERY = 64 << 10,
	LOOK_NS = 2000000, /* a command that ran this long is no short one */
};

/* --- rings: WIRE_WINDOW bytes, mapped at the first use, given back when empty --- */
struct ring {
	uint8_t *mem;
	uint32_t start, len;
	uint32_t high; /* bytes from the start of mem that were ever written */
};

/* The free bytes that lie in one piece: 0 when full or when there is no memory. */
uint32_t ring_space(struct ring *r, uint8_t **ret);
void ring_filled(struct ring *r, uint32_t n);
uint32_t ring_free_bytes(const struct ring *r);
/* Copies n bytes in, which must fit; false when there is no memory. */
bool ring_put(struct ring *r, const void *p, uint32_t n);
/* The bytes behind the first `skip` that lie in one piece. */
uint32_t ring_peek(const struct ring *r, uint32_t skip, const uint8_t **ret);
void ring_drop(struct ring *r, uint32_t n);
void ring_done(struct ring *r);

/* --- streams --- */

/* From here to the host.  The ring holds what the host has not acknowledged: [acked, acked + ring.len). */
struct lane {
	struct ring ring;
	uint64_t acked, sent, limit;
	uint64_t mark; /* ENDED waits until this much was sent */
	bool ended;    /* nothing is written any more */
	bool eof;      /* an EOF frame follows the last byte */
	bool eof_sent;
	bool resumed;
};

/* From the host.  The ring holds what arrived and was not taken yet. */
struct intake {
	struct ring ring;
	uint64_t received, limit, acked;
	bool ended;     /* EOF arrived */
	bool delivered; /* and was passed on */
	bool discard;   /* nobody wants the bytes: take and forget them */
};

/* Answers, in the order in which they are sent. */
enum answer {
	ANSWER_INCOMING = 1,
	ANSWER_ACK = 2,
	ANSWER_BEGUN = 4,
	ANSWER_STATED = 8,
	ANSWER_ENDED = 16,
	ANSWER_RESULT = 32,
};

struct stream;
struct command;

/* A kind of request.  Every function may be NULL. */
struct stream_ops {
	unsigned lanes; /* to the host: 0 to 2 */
	/* a watched descriptor: slot 0 and 1 are the sources of the lanes, 2 is the sink */
	void (*ready)(struct stream *s, unsigned slot, uint32_t events);
	/* bytes of the host: says how many it took; the rest is kept and offered again by stream_offer() */
	size_t (*take)(struct stream *s, const uint8_t *p, size_t n);
	void (*take_end)(struct stream *s); /* after all of them */
	bool (*step)(struct stream *s);     /* work in small pieces: true, go on in the next turn */
	void (*room)(struct stream *s);     /* the host took bytes: lanes have room again */
	void (*close)(struct stream *s);    /* the end, by whatever: release what is its own */
};

struct stream {
	uint32_t number;
	const struct stream_ops *ops; /* NULL: free */
	uint16_t next_dirty, next_job, hash_next, next_live, prev_live;
	bool dirty, job, job_wanted;
	uint8_t has, owes; /* of enum answer */
	struct lane out[2];
	struct intake in;
	int source[2], sink;   /* -1: none.  The sink may be the descriptor of source[0] */
	uint32_t watched[3];   /* events that epoll was told */
	bool connecting;       /* the sink is a socket that isn't connected yet */
	uint32_t value_begun;  /* BEGUN */
	struct wire_ended end; /* ENDED */
	uint32_t error, flags; /* RESULT */
	uint64_t value;
	void *memory; /* of the request's kind, memory_size bytes mapped */
	size_t memory_size;
	const char *note; /* RESULT's rest, in memory */
	uint32_t note_len;
	uint32_t parent;         /* INCOMING: number of the listener; KILL: of the command */
	uint32_t ask;            /* KILL: see exec.h */
	uint64_t position, left; /* of a file that is read */
	struct command *command;
};

struct stream *stream_find(uint32_t number);
/* NULL: the table is full. */
struct stream *stream_new(uint32_t number, const struct stream_ops *ops);
/* Closes what it has and forgets it. */
void stream_forget(struct stream *s);
/* Zeroed memory of the stream's own; NULL when there is none. */
void *stream_memory(struct stream *s, size_t size);
/* All of them: take stream_after() before the present one is forgotten. */
struct stream *stream_first(void);
struct stream *stream_after(const struct stream *s);

/* What epoll says of a descriptor of a stream; NULL: the stream is gone. */
uint64_t stream_event(const struct stream *s, unsigned slot);
struct stream *stream_of_event(uint64_t data, unsigned *ret_slot);

/* Something is to be sent; an urgent one within this turn, else within LAZY_NS. */
void stream_touch(struct stream *s, bool urgent);
struct stream *stream_next_dirty(void); /* takes it from the list */

/* Has step() called in the turns to come. */
void stream_work(struct stream *s);
bool streams_work(void); /* one step of each; true: there is more */

void stream_answer(struct stream *s, enum answer a);
/* The final answer.  error 0: EOF of every lane comes before it. */
void stream_result(struct stream *s, uint32_t error, uint64_t value);
/* The same with the name of what failed and why. */
void stream_result_note(struct stream *s, uint32_t error, const char *what, const char *why);

/* --- lanes --- */
uint32_t lane_room(const struct lane *l);
/* n bytes, which must have room; false: no memory. */
bool lane_put(struct stream *s, unsigned lane, const void *p, uint32_t n);
uint32_t lane_space(struct lane *l, uint8_t **ret);
void lane_filled(struct stream *s, unsigned lane, uint32_t n);
uint64_t lane_written(const struct lane *l);

/* --- descriptors of streams --- */
void stream_watch(struct stream *s); /* tells epoll what is wanted now */
void stream_close_source(struct stream *s, unsigned lane);
void stream_close_sink(struct stream *s);
/* Reads once from a source; true while more may come at once.  End-of-file ends the lane, errors too (returned in *ret_error). */
bool stream_pump(struct stream *s, unsigned lane, uint32_t *ret_error);
/* Writes to the sink what the intake holds. */
void stream_offer(struct stream *s);
/* take() of streams with a sink. */
size_t stream_take_sink(struct stream *s, const uint8_t *p, size_t n);
/* Bytes left the intake: credit for more. */
void stream_taken(struct stream *s);

/* --- the link --- */
void link_open(int fd, uint64_t epoch);
void link_ready(uint32_t events);
void link_flush(void);
void link_end(void);
void link_rest(void);       /* nothing to do: gives memory back that much traffic took */
bool link_wants_turn(void); /* frames were read and not served yet */
void link_refuse(
	uint32_t number, bool run, uint32_t error); /* the answer for a stream that can't be */

/* --- the session --- */
struct session {
	uint32_t uid, gid, max_streams;
	char **env;
	int epoll, notify; /* notify: an eventfd that runners write to */
	int null;          /* /dev/null */
	uint32_t umask;    /* of commands; the guest's own is 0 */
	bool urgent, lazy; /* frames wait to be sent */
	uint32_t starting; /* commands of which exec_look() may have news */
};
extern struct session session;

enum {
	EVENT_CONTROL,
	EVENT_SIGNAL,
	EVENT_DEADLINE,
	EVENT_TIMER,
	EVENT_NOTIFY,
	EVENT_LINK,
	EVENT_DIAL,
	EVENT_STREAM = 16
};

int epoll_set(int fd, uint32_t before, uint32_t events, uint64_t data);
uint64_t boottime_ms(void);
void session_arm(int fd, uint64_t when_ms); /* a timer of CLOCK_BOOTTIME; 0: none */

/* Serves a session whose control connection dial.c makes; timer is dial.c's. */
void session_dialled(char **env, int timer);
/* A control connection, on which the TOKEN was sent; false: it ended at once and is closed. */
bool session_control(int fd);
/* From now on files are touched as this user.  The session's own is always restored afterwards. */
void session_act_as(uint32_t uid, uint32_t gid);
/* The timer fires for the earliest of the commands' time-outs. */
void session_set_timer(uint64_t when_ms);

void *map_memory(size_t n); /* NULL: none */
void unmap_memory(void *p, size_t n);
void close_quietly(int fd);

/* --- requests.  Each is called with a frame whose stream is new (or, for ARGS and RUN, holds arguments alone); they answer
 * by themselves.  false: the frame is malformed and the connection ends. --- */
bool exec_args(const struct wire_frame *f);
bool exec_run(const struct wire_frame *f);
bool exec_kill(const struct wire_frame *f);
bool exec_resize(const struct wire_frame *f);
void exec_notified(void);
void exec_look(void); /* at commands that have run for a while */
void exec_prepare(void);
void exec_timer(void);
bool exec_reaped(int pid, int status); /* a child of the guest died: was it of a command? */
bool exec_is_command(const struct stream *s);
bool exec_is_args(const struct stream *s);

/* --- files --- */

/* A new stream for a request, or NULL: refused. */
struct stream *request_new(const struct wire_frame *f, const struct stream_ops *ops);

/* A path of a frame with a NUL behind it; out has WIRE_MAX_PATH bytes. */
void path_copy(char *out, const uint8_t *p, uint32_t n);

/* Cuts the path into a directory, which is opened (-errno), and its last part, which is no dots (else -EINVAL). */
long path_parent(char *path, bool make, const char **ret_name);

/* mkdir -p of all, of mode 0755; 0 or -errno. */
long path_make(char *path);

/* A file's kind, id and times, without following a link: 0 or -errno. */
long stat_at(int dir, const char *name, struct stat *ret);
uint64_t stat_mtime(const struct stat *st);

/* An unpredictable name in a directory: ".bailey-" and 16 digits.  out has TEMP_NAME bytes. */
enum { TEMP_NAME = 32 };
void temp_name(char *out);

enum { RECORD_MAX = 40 + 2 * WIRE_MAX_PATH };
/* A record of LIST and SEARCH; returns its length. */
struct record {
	const char *name, *target;
	uint32_t name_len, target_len;
	uint64_t size;
};
uint32_t record_put(uint8_t *out, const struct stat *st, const struct record *r);

bool files_stat(const struct wire_frame *f);
bool files_read(const struct wire_frame *f);
bool files_mkdir(const struct wire_frame *f);
bool files_remove(const struct wire_frame *f);
bool files_rename(const struct wire_frame *f);
bool files_write(const struct wire_frame *f);
bool files_list(const struct wire_frame *f);
bool files_search(const struct wire_frame *f);
bool files_tar_out(const struct wire_frame *f);
bool files_tar_in(const struct wire_frame *f);
bool forward_dial(const struct wire_frame *f);
bool forward_listen(const struct wire_frame *f);
