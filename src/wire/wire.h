/* Frames between Bailey's processes: a 12-byte header (type, stream, length; each u32, little-endian) and a body.
 *
 * Freestanding: bailey-guest links it without a C library.  No allocation; nothing here trusts a length.
 * docs/wire.md has the prose, messages.def the table. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WIRE_MAGIC = 0x594c4942, /* "BILY" */
	WIRE_VERSION = 2,
	WIRE_HEADER = 12,
	WIRE_MAX_BODY = 64
		<< 10, /* of any frame, also of unknown future ones: a longer one ends the connection */
	WIRE_CONTROL_FD = 3, /* where bailey-guest finds its channel */

	WIRE_WINDOW =
		4 << 20, /* bytes of a stream that may be under way; the first limit of each */
	WIRE_MAX_STREAMS = 1024, /* open at once on one connection */
	WIRE_MAX_ARGS = 2
		<< 20, /* bytes of one command's arguments and environment, as execve's own limit */
	WIRE_MAX_PATH = 4096,
	WIRE_STDERR =
		(int)0x80000000u, /* this bit set in a command's stream number: its standard error */
	WIRE_GUEST_STREAM = 0x40000000, /* this bit: numbered by the guest (INCOMING) */
	WIRE_SAME_ID = -1,              /* as a u32: the sandbox's own */
};

/* How a guest that dials ends when its mounts are not what its host meant. */
enum wire_exit {
	WIRE_EXIT_OBJECT = 121, /* another object than the one that was checked */
	WIRE_EXIT_TMPFS = 122,  /* other ids, or a mode that the guest can't set */
};

enum wire_hello_flags {
	WIRE_HELLO_FRESH = 1, /* the sender remembers no earlier connection */
	WIRE_HELLO_ALL = 1,
};

/* A RUN's rest, behind the bytes of the ARGS before it: strings, a NUL behind each.  First the working directory (empty: the
 * sandbox's own), then the number of arguments in decimal, the arguments, and NAME=VALUE entries that are set on top of the
 * sandbox's environment. */
enum wire_run_flags {
	WIRE_RUN_TERMINAL = 1, /* one terminal as all three streams */
	WIRE_RUN_STDIN =
		2, /* DATA and EOF of the asker are its standard input; else that is empty */
	WIRE_RUN_DETACHED = 4, /* between client and engine: nobody waits for its output */
	WIRE_RUN_ALL = 7,
};

enum wire_ended_flags {
	WIRE_ENDED_TIMEOUT = 1, /* its own timeout ended it */
	WIRE_ENDED_KILLED = 2,  /* a KILL of the whole tree did */
	WIRE_ENDED_OOM = 4,     /* set by the engine, from the kernel's counters */
	WIRE_ENDED_ALL = 7,
};

enum wire_kill_flags {
	WIRE_KILL_TREE = 1, /* every process of the command; RESULT's value is how many survived */
	WIRE_KILL_ALL = 1,
};

enum wire_file_flags {
	WIRE_FILE_PARENTS = 1,   /* MKDIR, WRITE, TAR_IN: make missing directories */
	WIRE_FILE_RECURSIVE = 2, /* REMOVE */
	WIRE_FILE_FOLLOW = 4,    /* STAT, TAR_OUT: a link at the end of the path is followed */
	WIRE_FILE_EXCLUSIVE = 8, /* WRITE: refuse to replace */
	WIRE_FILE_CONTENT = 16,  /* CHANGES: an archive (OCI layer format) instead of records */
	WIRE_FILE_COW =
		32, /* CHANGES: of the copy-on-write workspace alone, paths relative to it */
	WIRE_FILE_OWNERS = 64, /* TAR_IN: keep the archive's ids, where that is allowed */
	WIRE_FILE_ALL = 127,
};

enum wire_search_flags {
	WIRE_SEARCH_IGNORE_CASE = 1, /* ASCII only */
	WIRE_SEARCH_HIDDEN = 2,      /* names that begin with a dot, too */
	WIRE_SEARCH_ALL = 3,
};

enum wire_net { WIRE_NET_TCP = 0, WIRE_NET_UNIX = 1, WIRE_NET_LAST = WIRE_NET_UNIX };

enum wire_result_flags {
	WIRE_RESULT_TRUNCATED = 1, /* more was there than the request allowed */
	WIRE_RESULT_REASON =
		2,          /* from an engine: the rest is reason, NUL, message, NUL, remedy, NUL */
	WIRE_RESULT_FD = 4, /* from an engine: a descriptor came with this frame */
	WIRE_RESULT_ALL = 7,
};

enum wire_attach_flags {
	WIRE_ATTACH_FOLLOW = 1,    /* go on until the command ends */
	WIRE_ATTACH_STDIN = 2,     /* this client's DATA is its standard input from now on */
	WIRE_ATTACH_NO_OUTPUT = 4, /* only the end matters */
	WIRE_ATTACH_ALL = 7,
};

enum wire_control_verb {
	WIRE_CONTROL_STOP = 1,
	WIRE_CONTROL_START,
	WIRE_CONTROL_PAUSE,
	WIRE_CONTROL_RESUME,
	WIRE_CONTROL_REMOVE,
	WIRE_CONTROL_SNAPSHOT, /* rest: the new id, NUL, the new name (may be empty), NUL */
	WIRE_CONTROL_FORK,     /* rest: as SNAPSHOT */
	WIRE_CONTROL_TOUCH,    /* grace_ms: the time to live from now on; 0 none */
	WIRE_CONTROL_LAST = WIRE_CONTROL_TOUCH,
};

enum wire_control_flags { WIRE_CONTROL_FORCE = 1, WIRE_CONTROL_FLAGS_ALL = 1 };

enum wire_state {
	WIRE_STATE_STARTING,
	WIRE_STATE_RUNNING,
	WIRE_STATE_ENDED,
	WIRE_STATE_LAST = WIRE_STATE_ENDED
};

enum wire_exec_flags {
	WIRE_EXEC_TERMINAL = 1 << 0, /* standard input is a terminal: make it the controlling one */
	WIRE_EXEC_RELAY = 1 << 1,    /* relay 127.0.0.1:4000 to /run/gw/llm.sock */
	WIRE_EXEC_ALL = 3,
};

enum wire_how {
	WIRE_HOW_EXITED = 0,
	WIRE_HOW_SIGNALLED = 1,
	WIRE_HOW_NOT_STARTED = 2, /* fork or exec failed */
	WIRE_HOW_DEADLINE = 3,    /* the guest's own timer */
	WIRE_HOW_LAST = WIRE_HOW_DEADLINE,
};

enum wire_side {
	WIRE_FROM_HOST = 1,
	WIRE_FROM_GUEST = 2,
	WIRE_FROM_CLIENT = 4,
	WIRE_FROM_ENGINE = 8
};

enum wire_type {
	WIRE_NONE = 0,
#define MESSAGE(id, name, number, senders, stream_, rest_, fields, doc) WIRE_##id = number,
#include "wire/messages.def"
#undef MESSAGE
};

typedef uint16_t wire_u16;
typedef uint32_t wire_u32;
typedef uint64_t wire_u64;

#define WIRE_MEMBER(type, member) wire_##type member;
/* Borrowed: of the buffer that was parsed, or of whoever encodes. */
#define WIRE_MEMBERS_REST \
	const uint8_t *rest; \
	wire_u32 rest_len;
#define WIRE_MEMBERS_FIXED
#define MESSAGE(id, name, number, senders, stream_, rest_, fields, doc) \
	struct wire_##name { \
		wire_u32 stream; \
		fields(WIRE_MEMBER) WIRE_MEMBERS_##rest_ \
	};
#include "wire/messages.def"
#undef MESSAGE

struct wire_frame {
	uint32_t type, stream, length;
	const uint8_t *body;
};

enum wire_parsed {
	WIRE_OK,
	WIRE_SHORT,   /* need more bytes */
	WIRE_REFUSED, /* unknown type, wrong sender, wrong length: end the connection */
};

/* Parses one frame at p (n bytes there).  On WIRE_OK *ret points into p and *ret_used is the frame's whole length.
 * `from` is who sent these bytes; a type that this side may not send is refused. */
enum wire_parsed wire_parse(
	const uint8_t *p, size_t n, enum wire_side from, struct wire_frame *ret, size_t *ret_used);

/* wire_put_NAME(out, cap, &m): writes header and body, returns their length or 0 when cap is too small.
 * wire_get_NAME(frame, &m): decodes a parsed frame of that type; false on a value outside its range. */
#define MESSAGE(id, name, number, senders, stream_, rest_, fields, doc) \
	size_t wire_put_##name(uint8_t *out, size_t cap, const struct wire_##name *m); \
	bool wire_get_##name(const struct wire_frame *f, struct wire_##name *m);
#include "wire/messages.def"
#undef MESSAGE

/* Writes the header alone, for a body that lies elsewhere: out has WIRE_HEADER bytes. */
void wire_put_header(uint8_t *out, uint32_t type, uint32_t stream, uint32_t length);

/* "EXEC" and its like, for messages; "?" when unknown. */
const char *wire_type_name(uint32_t type);
