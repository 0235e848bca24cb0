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
	SENDER_CLIENT = WIRE_FROM_CLIENT,
	SENDER_ENGINE = WIRE_FROM_ENGINE,
	SENDER_ANY_PEER = WIRE_FROM_HOST | WIRE_FROM_GUEST,
	SENDER_ASKER = WIRE_FROM_HOST | WIRE_FROM_CLIENT,
	SENDER_ANSWERER = WIRE_FROM_GUEST | WIRE_FROM_ENGINE,
	SENDER_ALL = SENDER_ASKER | SENDER_ANSWERER,
};
enum { STREAM_NONE, STREAM_SOME };
enum { BODY_FIXED, BODY_REST };

/* the permit table: who may send what, and how long it is */
#define FIELD_SIZE(type, member) +SIZE_##type
static const struct {
	uint32_t type, length;
	unsigned senders;
	bool streamed, has_rest;
	const char *name;
} rows[] = {
#define MESSAGE(id, name, number, senders, stream, rest, fields, doc) \
	{ number, 0 fields(FIELD_SIZE), SENDER_##senders, STREAM_##stream, BODY_##rest, #id },
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

enum wire_parsed wire_parse(
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
		if (!(rows[i].senders & (unsigned)from) || (f.stream != 0) != rows[i].streamed ||
			f.length < rows[i].length ||
			(f.length > rows[i].length && !rows[i].has_rest))
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
	return m->magic == WIRE_MAGIC && m->version >= 1 && !(m->flags & ~WIRE_HELLO_ALL) &&
		m->epoch >= 1;
}

static bool valid_come(const struct wire_come *m)
{
	return m->epoch >= 1;
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

static bool valid_ids(uint32_t uid, uint32_t gid)
{
	return uid <= 65534 && gid <= 65534;
}

static bool valid_session(const struct wire_session *m)
{
	return valid_ids(m->uid, m->gid) && !(m->flags & ~(uint32_t)WIRE_EXEC_RELAY) &&
		m->max_streams >= 1 && m->max_streams <= WIRE_MAX_STREAMS;
}

static bool valid_connect(const struct wire_connect *m)
{
	return m->epoch >= 1;
}

/* a stream that nobody could carry: 2^62 bytes and more would overflow sums */
static bool valid_count(uint64_t n)
{
	return n < 1ull << 62;
}

static bool valid_eof(const struct wire_eof *m)
{
	return valid_count(m->total);
}

static bool valid_ack(const struct wire_ack *m)
{
	return valid_count(m->limit) && m->received <= m->limit;
}

static bool valid_resume(const struct wire_resume *m)
{
	return valid_count(m->limit) && m->received <= m->limit;
}

static bool valid_result(const struct wire_result *m)
{
	return m->error <= 4095 && !(m->flags & ~(uint32_t)WIRE_RESULT_ALL);
}

static bool valid_run(const struct wire_run *m)
{
	return !(m->flags & ~(uint32_t)WIRE_RUN_ALL) &&
		(m->uid <= 65534 || m->uid == (uint32_t)WIRE_SAME_ID) &&
		(m->gid <= 65534 || m->gid == (uint32_t)WIRE_SAME_ID) && valid_count(m->timeout_ms);
}

static bool valid_ended(const struct wire_ended *m)
{
	const struct wire_exited same = { .how = m->how, .status = m->status };

	return valid_exited(&same) && !(m->flags & ~(uint32_t)WIRE_ENDED_ALL);
}

static bool valid_kill(const struct wire_kill *m)
{
	return m->command && m->signal >= 1 && m->signal <= 64 &&
		!(m->flags & ~(uint32_t)WIRE_KILL_ALL);
}

/* Absolute, without a NUL, not longer than the kernel takes. */
static bool valid_path(const uint8_t *p, uint32_t n)
{
	if (n == 0 || n >= WIRE_MAX_PATH || p[0] != '/')
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (p[i] == 0)
			return false;
	return true;
}

static bool valid_file_flags(uint32_t flags)
{
	return !(flags & ~(uint32_t)WIRE_FILE_ALL);
}

static bool valid_stat(const struct wire_stat *m)
{
	return valid_file_flags(m->flags) && valid_path(m->rest, m->rest_len);
}

static bool valid_stated(const struct wire_stated *m)
{
	return valid_count(m->size) && m->rest_len <= WIRE_MAX_PATH;
}

static bool valid_list(const struct wire_list *m)
{
	return valid_file_flags(m->flags) && m->max && valid_path(m->rest, m->rest_len);
}

static bool valid_read(const struct wire_read *m)
{
	return valid_count(m->offset) && valid_count(m->length) && valid_path(m->rest, m->rest_len);
}

static bool valid_write(const struct wire_write *m)
{
	return valid_file_flags(m->flags) && m->mode <= 0777 && valid_path(m->rest, m->rest_len);
}

static bool valid_mkdir(const struct wire_mkdir *m)
{
	return valid_file_flags(m->flags) && m->mode <= 0777 && valid_path(m->rest, m->rest_len);
}

static bool valid_remove(const struct wire_remove *m)
{
	return valid_file_flags(m->flags) && valid_path(m->rest, m->rest_len);
}

static bool valid_rename(const struct wire_rename *m)
{
	uint32_t n = 0;

	while (n < m->rest_len && m->rest[n])
		n++;
	return n < m->rest_len && valid_file_flags(m->flags) && valid_path(m->rest, n) &&
		valid_path(m->rest + n + 1, m->rest_len - n - 1);
}

static bool valid_search(const struct wire_search *m)
{
	uint32_t n = 0, nuls = 0;

	while (n < m->rest_len && m->rest[n])
		n++;
	for (uint32_t i = 0; i < m->rest_len; i++)
		nuls += m->rest[i] == 0;
	return nuls == 2 && !(m->flags & ~(uint32_t)WIRE_SEARCH_ALL) && m->max &&
		valid_path(m->rest, n);
}

static bool valid_tar_out(const struct wire_tar_out *m)
{
	return valid_file_flags(m->flags) && valid_path(m->rest, m->rest_len);
}

static bool valid_tar_in(const struct wire_tar_in *m)
{
	return valid_file_flags(m->flags) && valid_path(m->rest, m->rest_len);
}

static bool valid_address(uint32_t kind, uint32_t port, const uint8_t *p, uint32_t n)
{
	if (kind == WIRE_NET_TCP)
		return port <= 65535 && n == 0;
	return kind == WIRE_NET_UNIX && port == 0 && n < 108 && valid_path(p, n);
}

static bool valid_dial(const struct wire_dial *m)
{
	return valid_address(m->kind, m->port, m->rest, m->rest_len) &&
		(m->kind != WIRE_NET_TCP || m->port);
}

static bool valid_listen(const struct wire_listen *m)
{
	return valid_address(m->kind, m->port, m->rest, m->rest_len);
}

static bool valid_incoming(const struct wire_incoming *m)
{
	return m->listener && m->stream & WIRE_GUEST_STREAM && !(m->stream & (uint32_t)WIRE_STDERR);
}

static bool valid_attach(const struct wire_attach *m)
{
	return m->command && !(m->flags & ~(uint32_t)WIRE_ATTACH_ALL);
}

static bool valid_control(const struct wire_control *m)
{
	return m->verb >= 1 && m->verb <= WIRE_CONTROL_LAST && valid_count(m->grace_ms) &&
		!(m->flags & ~(uint32_t)WIRE_CONTROL_FLAGS_ALL);
}

static bool valid_command_info(const struct wire_command_info *m)
{
	return m->command && m->state <= WIRE_STATE_LAST && m->how <= WIRE_HOW_LAST;
}

static bool valid_changes(const struct wire_changes *m)
{
	return valid_file_flags(m->flags);
}

static bool valid_events(const struct wire_events *m)
{
	return valid_file_flags(m->flags);
}

/* nothing to hold against these */
#define VALID_ANY(name) \
	static bool valid_##name(const struct wire_##name *m) \
	{ \
		(void)m; \
		return true; \
	}
VALID_ANY(token)
VALID_ANY(resumed)
VALID_ANY(data)
VALID_ANY(close)
VALID_ANY(args)
VALID_ANY(begun)
VALID_ANY(resize)
VALID_ANY(ps)
VALID_ANY(inspect)

void wire_put_header(uint8_t *out, uint32_t type, uint32_t stream, uint32_t length)
{
	put_u32(out, type);
	put_u32(out + 4, stream);
	put_u32(out + 8, length);
}

#define PUT_FIELD(type, member) \
	put_##type(p, m->member); \
	p += SIZE_##type;
#define GET_FIELD(type, member) \
	m->member = get_##type(p); \
	p += SIZE_##type;
#define REST_LEN_REST m->rest_len
#define REST_LEN_FIXED 0u
#define PUT_REST_REST \
	for (uint32_t i = 0; i < m->rest_len; i++) \
		*p++ = m->rest[i];
#define PUT_REST_FIXED
#define GET_REST_REST \
	m->rest = p; \
	m->rest_len = f->length - (uint32_t)(p - f->body);
#define GET_REST_FIXED (void)p;
#define MESSAGE(id, name, number, senders, stream_, rest_, fields, doc) \
	size_t wire_put_##name(uint8_t *out, size_t cap, const struct wire_##name *m) \
	{ \
		uint8_t *p = out + WIRE_HEADER; \
		const size_t body = (0 fields(FIELD_SIZE)) + (size_t)REST_LEN_##rest_; \
\
		if (body > WIRE_MAX_BODY || cap < WIRE_HEADER + body) \
			return 0; \
		wire_put_header(out, number, m->stream, (uint32_t)body); \
		fields(PUT_FIELD) PUT_REST_##rest_ return (size_t)(p - out); \
	} \
\
	bool wire_get_##name(const struct wire_frame *f, struct wire_##name *m) \
	{ \
		const uint8_t *p = f->body; \
\
		if (f->type != number) \
			return false; \
		m->stream = f->stream; \
		fields(GET_FIELD) GET_REST_##rest_ return valid_##name(m); \
	}
#include "wire/messages.def"
#undef MESSAGE
