/* Owns encoding and decoding of every frame.  Linked by bailey-guest (no C library), by engines and by the fuzzer. */
#include "wire/wire.h"

static void put_u16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static void put_u32(uint8_t *p, uint32_t v)
{
	put_u16(p, (uint16_t)v);
	put_u16(p + 2, (uint16_t)(v >> 16));
}

static void put_u64(uint8_t *p, uint64_t v)
{
	put_u32(p, (uint32_t)v);
	put_u32(p + 4, (uint32_t)(v >> 32));
}

static uint16_t get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get_u32(const uint8_t *p)
{
	return get_u16(p) | (uint32_t)get_u16(p + 2) << 16;
}

static uint64_t get_u64(const uint8_t *p)
{
	return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

enum { SIZE_u16 = 2, SIZE_u32 = 4, SIZE_u64 = 8 };
enum {
	SENDER_HOST = WIRE_FROM_HOST,
	SENDER_GUEST = WIRE_FROM_GUEST,
	SENDER_BOTH = WIRE_FROM_HOST | WIRE_FROM_GUEST
};

/* the permit table: who may send what, and how long it is */
#define FIELD_SIZE(type, member) +SIZE_##type
static const struct {
	uint32_t type, length;
	unsigned sender;
	const char *name;
} rows[] = {
#define MESSAGE(id, name, number, sender, fields, doc) \
	{ number, 0 fields(FIELD_SIZE), SENDER_##sender, #id },
#include "wire/messages.def"
#undef MESSAGE
};

#define N_ROWS (sizeof rows / sizeof *rows)

const char *wire_type_name(uint32_t type)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].type == type)
			return rows[i].name;
	return "?";
}

enum wire_result wire_parse(
	const uint8_t *p, size_t n, enum wire_side from, struct wire_frame *ret, size_t *ret_used)
{
	struct wire_frame f;

	if (n < WIRE_HEADER)
		return WIRE_SHORT;
	f.type = get_u32(p);
	f.stream = get_u32(p + 4);
	f.length = get_u32(p + 8);
	if (f.length > WIRE_MAX_BODY)
		return WIRE_REFUSED;
	for (size_t i = 0; i < N_ROWS; i++) {
		if (rows[i].type != f.type)
			continue;
		if (!(rows[i].sender & (unsigned)from) || rows[i].length != f.length ||
			f.stream != 0)
			return WIRE_REFUSED;
		if (n - WIRE_HEADER < f.length)
			return WIRE_SHORT;
		f.body = p + WIRE_HEADER;
		*ret = f;
		*ret_used = WIRE_HEADER + f.length;
		return WIRE_OK;
	}
	return WIRE_REFUSED;
}

/* what a field may hold beyond its type */
static bool valid_hello(const struct wire_hello *m)
{
	return m->magic == WIRE_MAGIC && m->version >= 1 && m->flags == 0 && m->epoch >= 1;
}

static bool valid_exec(const struct wire_exec *m)
{
	return m->uid <= 65534 && m->gid <= 65534 && !(m->flags & ~(uint32_t)WIRE_EXEC_ALL);
}

static bool valid_started(const struct wire_started *m)
{
	return m->pid != 0;
}

static bool valid_exited(const struct wire_exited *m)
{
	static const struct {
		uint32_t lo, hi;
	} status[] = { [WIRE_HOW_EXITED] = { 0, 255 },
		[WIRE_HOW_SIGNALLED] = { 1, 64 },
		[WIRE_HOW_NOT_STARTED] = { 1, 4095 },
		[WIRE_HOW_DEADLINE] = { 0, 0 } };

	return m->how <= WIRE_HOW_LAST && m->status >= status[m->how].lo &&
		m->status <= status[m->how].hi;
}

static bool valid_signal(const struct wire_signal *m)
{
	return m->signal >= 1 && m->signal <= 64;
}

static bool valid_setup_failed(const struct wire_setup_failed *m)
{
	return m->error <= 4095;
}

#define PUT_FIELD(type, member) \
	put_##type(p, m->member); \
	p += SIZE_##type;
#define GET_FIELD(type, member) \
	m->member = get_##type(p); \
	p += SIZE_##type;
#define MESSAGE(id, name, number, sender, fields, doc) \
	size_t wire_put_##name(uint8_t *out, size_t cap, const struct wire_##name *m) \
	{ \
		uint8_t *p = out + WIRE_HEADER; \
		const size_t body = 0 fields(FIELD_SIZE); \
\
		if (cap < WIRE_HEADER + body) \
			return 0; \
		put_u32(out, number); \
		put_u32(out + 4, 0); \
		put_u32(out + 8, (uint32_t)body); \
		fields(PUT_FIELD) return (size_t)(p - out); \
	} \
\
	bool wire_get_##name(const struct wire_frame *f, struct wire_##name *m) \
	{ \
		const uint8_t *p = f->body; \
\
		if (f->type != number) \
			return false; \
		fields(GET_FIELD)(void) p; \
		return valid_##name(m); \
	}
#include "wire/messages.def"
#undef MESSAGE
