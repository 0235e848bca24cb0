/* The channel process: what its files share.
 *
 * A line is a request on the guest channel and what flows for it; a command is a line that outlives its asker.  An ask is a
 * request of a client.  Frames that are due are written by the pumps at the end of a turn (lines to the guest, asks that
 * follow a command to their client), so that the order is always: spool, index, then whoever is told. */
#pragma once
#include "base/err.h"
#include "engine/engine.h"
#include "engine/pair.h"
#include "engine/ring.h"
#include "engine/sock.h"
#include "engine/spool.h"
#include "spec/pack.h"
#include "wire/wire.h"

enum {
	CHANNEL_CLIENTS = 256,
	CHANNEL_REFUSED = 64,   /* more that are told that it is busy */
	CHANNEL_LINES = 1000,   /* open at once; the guest takes WIRE_MAX_STREAMS, some are ours */
	CHANNEL_ENDED = 256,    /* commands kept after their end */
	CLOSES_AT_ONCE = 64,    /* that don't wait for company */
	CHANNEL_CLOSES = 4096,  /* streams of the guest that are to be closed */
	CHANNEL_HASH = 256,     /* buckets */
	CHANNEL_INCOMING = 256, /* connections from listeners inside, at once */

	OUT_HIGH = 256 << 10,          /* a pump adds nothing while this much waits to be sent */
	CLIENT_STOP_READING = 8 << 20, /* ... and a client that doesn't read is asked no more */
	CLIENT_ARGS_MAX = 4 << 20,     /* of RUNs that aren't whole yet */
	ACK_BYTES = 64 << 10,
	LATE_MS = 3000,   /* behind a time-out that the guest should have kept */
	STUCK_MS = 10000, /* a frame may be under way */
	HAPPENED_MS = 50, /* events of commands are told to the owner in batches */

	FIRST_PASS = 0x20000000, /* numbers of lines that are no commands */
};

/* --- lines ---------------------------------------------------------------------------------------------------------- */

enum line_kind {
	LINE_COMMAND,
	LINE_PASS,     /* frames go through to one client and back */
	LINE_INCOMING, /* the same, numbered by the guest */
	LINE_END,      /* a KILL of ours */
};

/* From the guest. */
struct line_lane {
	uint64_t received, granted, told; /* granted: the limit; told: `received` of the last ACK */
	bool eof, ack_due;
	bool eof_again; /* the guest said so on this connection */
};

/* What epoll says; else it is a client's address. */
enum { EVENT_OWNER = 1, EVENT_LISTENER, EVENT_GUEST };

struct client;
struct ask;

struct line {
	uint32_t number;
	uint8_t kind;
	uint32_t type; /* of the request */
	bool asked;    /* the request went out on this connection */
	bool known;    /* the guest spoke of it: the request needs not be sent again */
	bool resumed;  /* the guest named it when this connection began */
	bool begun, stated;
	bool begun_again; /* it said so on this connection */
	uint8_t *request; /* frames, owned */
	size_t request_len;
	struct line_lane lanes[2];
	unsigned n_lanes;

	struct ring ring; /* to the guest */
	uint64_t sent, limit;
	bool eof, eof_sent, resize_due;
	uint16_t rows, columns;

	struct ask *ask; /* of LINE_PASS and LINE_INCOMING */
	struct line *next_hash, *next_dirty, *next, *prev;
	bool dirty;
};

/* --- commands ------------------------------------------------------------------------------------------------------- */

struct command {
	struct line line; /* first; in the table of lines until the guest was told to forget it */
	struct spool_slot record;
	struct spool_output output;
	unsigned slot;
	bool slot_dirty;
	bool ending;      /* it ended; the owner is asked whether the kernel did that for memory */
	uint64_t end_pos; /* what had been written when it ended */
	struct ask *followers;
	struct ask *starter; /* the client that waits for it: bytes wait for that one */
	struct ask *writer;  /* whose bytes are its standard input */
	uint64_t timeout_ms;
	uint64_t
		deadline; /* CLOCK_BOOTTIME ms; 0: none.  The guest keeps it; this is for one that doesn't */
	struct command *next_hash, *next_write, *next, *prev; /* next, prev: by age */
	char *args; /* until they stand in the index; owned */
};

/* --- clients -------------------------------------------------------------------------------------------------------- */

enum ask_kind {
	ASK_ARGS,   /* of a RUN that isn't whole */
	ASK_FOLLOW, /* RUN, ATTACH */
	ASK_PASS,
	ASK_OWNER,
	ASK_EVENTS,
};

struct ask {
	uint32_t number;
	uint8_t kind;
	struct client *client;
	struct ask *next, *prev; /* of the client */

	/* ASK_ARGS */
	uint8_t *frames;
	size_t frames_len;

	/* ASK_FOLLOW, ASK_PASS: bytes of the client */
	uint64_t in_received, in_limit;

	/* ASK_PASS */
	struct line *line;
	uint64_t passed; /* bytes of the guest */

	/* ASK_FOLLOW */
	struct command *command;
	struct ask *next_follower, *next_dirty;
	struct spool_cursor cursor;
	uint64_t sent[2], limit[2];
	uint64_t mark;       /* where it ends, unless it follows */
	uint64_t input_base; /* of the command's standard input when it became the writer */
	bool run, detached, follow, silent, info_sent, begun_sent, eof_sent[2], dirty;

	enum reason lost; /* the end that it waits for is not the command's own */

	/* ASK_OWNER */
	uint64_t ref;
};

struct client {
	struct sock sock;
	struct client *next, *prev;
	struct ask *asks;
	unsigned n_asks;
	size_t args_bytes;
	bool greeted, dead;
	bool refused; /* there are too many */
};

/* --- the process ---------------------------------------------------------------------------------------------------- */

enum guest_state { GUEST_DOWN, GUEST_GREETING, GUEST_RESUMING, GUEST_UP };

struct channel {
	int owner, listener, epoll;
	const char *id;
	uid_t uid; /* whose clients are served, beside root's */
	enum pair_state state;

	struct spool spool;
	uint8_t slots[SPOOL_SLOTS / 8];

	struct sock guest;
	uint64_t
		stuck_at; /* when it is broken off for a frame that has no end; 0: none is under way */
	enum guest_state guest_state;
	uint64_t epoch;
	bool fresh;     /* this process remembers nothing of the guest */
	bool recovered; /* but of one before it, something may run there */

	struct line *lines, *line_hash[CHANNEL_HASH], *dirty_head, *dirty_tail;
	unsigned n_lines, n_incoming;
	uint32_t next_pass;
	uint32_t *closes;
	unsigned n_closes;

	struct command *oldest, *newest, *command_hash[CHANNEL_HASH];
	unsigned n_running, n_ended;
	uint32_t next_id;
	uint64_t next_deadline;   /* of all commands; 0: none */
	bool end_all;             /* tell the owner when nothing runs */
	struct command *to_write; /* to the index */
	struct ask *dirty_asks;

	struct client *clients, *dead_clients;
	unsigned n_clients;
	uint64_t next_ref;

	struct pair_happened happened[64];
	unsigned n_happened;
	uint64_t happened_at; /* when the first of them was put there; ms */

	bool has_first;     /* command 1 is that of the creation */
	char *const *first; /* until it has begun */
	bool draining, busy, shrunk;
	bool quiet; /* nothing happened for a moment */
	uint64_t drain_until;
	uint8_t *in; /* SOCK_IN + WIRE_MAX_BODY: bytes just read; between turns: of the spool */
};

struct channel_start {
	int owner, listener, spool;
	const char *id;
	bool has_first;
	char *const *first;
	uint64_t spool_max;
	uid_t uid;    /* whose clients are served */
	uid_t become; /* (uid_t)-1: stays who it is */
};

/* Serves until the owner says so or is gone; never returns.  Called in a process forked for it. */
_Noreturn void channel_run(const struct channel_start *start);

/* --- channel_guard.c --- */

/* Gives up everything but what the loop needs: uid, groups, capabilities, the view of files, system calls. */
int channel_guard(const struct channel_start *start, int epoll, struct err *e);

/* --- channel.c --- */
void channel_tell(struct channel *c, struct pair_message *m);
void channel_tell_only(
	struct channel *c, enum pair_type type, uint32_t a); /* one that has no more to it */
void channel_happened(struct channel *c, const struct command *k, bool ended);
uint64_t channel_now_ms(void); /* since the epoch */
void channel_watch(const struct channel *c, struct sock *s, uint64_t data, uint32_t events);

/* --- channel_line.c --- */
void line_add(struct channel *c, struct line *l, uint32_t number, enum line_kind kind);
struct line *line_find(const struct channel *c, uint32_t number);
uint32_t line_lane(const struct line *l, unsigned lane); /* its number on the wire */
/* A line that is no command; NULL: too many, or no memory.  Takes n bytes of a frame's body as its request. */
struct line *line_request(
	struct channel *c, enum line_kind kind, uint32_t type, const uint8_t *body, size_t n);
void line_touch(struct channel *c, struct line *l);
/* Takes it from the table; tell: the guest may forget it. */
void line_remove(struct channel *c, struct line *l, bool tell);
/* The same for lines that are no commands, and frees it. */
void line_free(struct channel *c, struct line *l, bool tell);
/* false: more streams are to be closed than an honest guest has. */
bool line_close_number(struct channel *c, uint32_t number);
void lines_pump(struct channel *c);

/* --- channel_guest.c --- */
void guest_connect(struct channel *c, int fd, uint64_t epoch, bool new_guest);
void guest_ready(struct channel *c);
void guest_break(struct channel *c, bool lie);
/* The guest is gone: all that waits for it is told. */
void guest_gone(struct channel *c, enum reason why);

/* --- channel_command.c --- */
int commands_load(struct channel *c);
struct command *command_find(const struct channel *c, uint32_t id);
/* NULL: too many. */
struct command *command_new(struct channel *c, uint32_t id, bool known);
void command_begun(struct channel *c, struct command *k, uint32_t pid);
void command_ended(struct channel *c, struct command *k, const struct wire_ended *m);
void command_oom(struct channel *c, struct command *k, bool oom);
void command_data(struct channel *c, struct command *k, unsigned lane, const uint8_t *p, size_t n);
void command_eof(struct channel *c, struct command *k, unsigned lane);
void command_gone(struct channel *c, struct command *k, enum reason why);
void command_grant(struct channel *c, struct command *k);
/* Frames ARGS... RUN of a client, as they came; takes the memory. */
struct command *command_run(
	struct channel *c, uint8_t *frames, size_t n, const struct wire_run *run);
int command_first(struct channel *c);
void commands_end_all(struct channel *c);
void commands_write(struct channel *c);
void commands_check_time(struct channel *c, uint64_t now);
void command_info(struct channel *c, struct command *k, struct client *to, uint32_t number);

/* --- channel_follow.c --- */
void follow_add(struct channel *c, struct ask *a, struct command *k);
void follow_remove(struct channel *c, struct ask *a);
void follow_touch(struct channel *c, struct ask *a);
void follow_touch_all(struct channel *c, struct command *k);
void follows_pump(struct channel *c);

/* --- channel_client.c --- */
void clients_accept(struct channel *c);
void client_ready(struct channel *c, struct client *l, uint32_t events);
void client_drop(struct channel *c, struct client *l);
void clients_flush(struct channel *c);
void clients_free_dead(struct channel *c);
struct ask *ask_new(struct client *l, uint32_t number, enum ask_kind kind);
struct ask *ask_find(const struct client *l, uint32_t number);
void ask_free(struct channel *c, struct ask *a);

/* --- channel_serve.c: what a client asks --- */
bool serve_client(struct channel *c, struct client *l, const struct wire_frame *f);
void serve_answer(struct channel *c, const struct pair_message *m, int fd);
void serve_lines(struct channel *c, const struct pair_message *m);
void serve_told(struct channel *c, const struct pair_message *m);
void refuse(struct client *l, uint32_t number, const struct err *e);
