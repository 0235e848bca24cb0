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
	WIRE_VERSION = 1,
	WIRE_HEADER = 12,
	WIRE_MAX_BODY = 64
		<< 10, /* of any frame, also of unknown future ones: a longer one ends the connection */
	WIRE_CONTROL_FD = 3, /* where bailey-guest finds its channel */
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

enum wire_side { WIRE_FROM_HOST = 1, WIRE_FROM_GUEST = 2 };

enum wire_type {
	WIRE_NONE = 0,
#define MESSAGE(id, name, number, sender, fields, doc) WIRE_##id = number,
#include "wire/messages.def"
#undef MESSAGE
};

typedef uint16_t wire_u16;
typedef uint32_t wire_u32;
typedef uint64_t wire_u64;

#define WIRE_MEMBER(type, member) wire_##type member;
#define MESSAGE(id, name, number, sender, fields, doc) \
	struct wire_##name { \
		fields(WIRE_MEMBER) \
	};
#include "wire/messages.def"
#undef MESSAGE

struct wire_frame {
	uint32_t type, stream, length;
	const uint8_t *body;
};

enum wire_result {
	WIRE_OK,
	WIRE_SHORT,   /* need more bytes */
	WIRE_REFUSED, /* unknown type, wrong sender, wrong length: end the connection */
};

/* Parses one frame at p (n bytes there).  On WIRE_OK *ret points into p and *ret_used is the frame's whole length.
 * `from` is who sent these bytes; a type that this side may not send is refused. */
enum wire_result wire_parse(
	const uint8_t *p, size_t n, enum wire_side from, struct wire_frame *ret, size_t *ret_used);

/* wire_put_NAME(out, cap, &m): writes header and body, returns their length or 0 when cap is too small.
 * wire_get_NAME(frame, &m): decodes a parsed frame of that type; false on a value outside its range. */
#define MESSAGE(id, name, number, sender, fields, doc) \
	size_t wire_put_##name(uint8_t *out, size_t cap, const struct wire_##name *m); \
	bool wire_get_##name(const struct wire_frame *f, struct wire_##name *m);
#include "wire/messages.def"
#undef MESSAGE

/* "EXEC" and its like, for messages; "?" when unknown. */
const char *wire_type_name(uint32_t type);
