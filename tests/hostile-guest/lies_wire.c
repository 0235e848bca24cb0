/* Lies about the connection itself: versions, lengths, types, broken frames. */
#include <string.h>
#include <unistd.h>

#include "hostile.h"

static void put(uint8_t *p, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void hello(struct peer *p, uint32_t magic, uint16_t version, uint16_t flags, uint64_t epoch)
{
	uint8_t body[24] = { 0 };

	put(body, magic, 4);
	put(body + 4, version, 2);
	put(body + 6, flags, 2);
	put(body + 8, epoch, 8);
	(void)send_raw(p, WIRE_HELLO, 0, sizeof body, body, sizeof body);
}

static void bad_magic(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hello(p, 0x12345678, WIRE_VERSION, 0, p->epoch);
}

static void old_version(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hello(p, WIRE_MAGIC, (uint16_t)the_lie->argument, 0, p->epoch);
}

static void bad_epoch(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hello(p, WIRE_MAGIC, WIRE_VERSION, 0, p->epoch + 1000);
}

static void bad_flags(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hello(p, WIRE_MAGIC, WIRE_VERSION, 0xffff, p->epoch);
}

static void silent(struct peer *p, const struct wire_frame *f)
{
	(void)p;
	(void)f;
}

static void garbage(struct peer *p, const struct wire_frame *f)
{
	uint8_t body[4096];

	(void)f;
	for (size_t i = 0; i < sizeof body; i++)
		body[i] = (uint8_t)(i * 131 + 7);
	(void)send_bytes(p, body, sizeof body);
}

static void leave(struct peer *p, const struct wire_frame *f)
{
	(void)p;
	(void)f;
	_exit((int)the_lie->argument);
}

static void setup_failed(struct peer *p, const struct wire_frame *f)
{
	uint8_t body[12];

	(void)f;
	memset(body, 0xff, sizeof body);
	(void)send_raw(p, WIRE_SETUP_FAILED, 0, sizeof body, body, sizeof body);
}

static void flood_owner(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	answer_hello(p);
	for (int i = 0; i < 200000; i++) {
		uint8_t body[8] = { 1, 0, 0, 0, 1 };

		if (!send_raw(p, WIRE_STARTED, 0, sizeof body, body, sizeof body))
			return;
	}
}

static void hello_twice(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	answer_hello(p);
	answer_hello(p);
}

static void hello_alone(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hello(p, WIRE_MAGIC, WIRE_VERSION, 0, p->epoch);
}

static void close_after(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	p->shut_after = the_lie->argument;
	answer_hello(p);
}

static void cut_after(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	p->shut_after = the_lie->argument;
	p->cut = true;
	answer_hello(p);
}

static void close_at_once(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hang_up(p);
}

/* RESUME of streams that nobody asked for, with counts that can't be */
static void resume(struct peer *p, uint32_t stream, uint64_t received, uint64_t limit)
{
	uint8_t body[16];

	put(body, received, 8);
	put(body + 8, limit, 8);
	(void)send_raw(p, WIRE_RESUME, stream, sizeof body, body, sizeof body);
}

static void resume_lies(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hello(p, WIRE_MAGIC, WIRE_VERSION, 0, p->epoch);
	resume(p, 1, UINT64_MAX, UINT64_MAX);
	resume(p, 1, 0, 0);
	resume(p, 0x80000001u, 12345678901, 1);
	(void)send_raw(p, WIRE_RESUMED, 0, 0, NULL, 0);
}

static void resume_flood(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	hello(p, WIRE_MAGIC, WIRE_VERSION, 0, p->epoch);
	for (uint32_t i = 1; i < 300000 && p->fd >= 0; i++)
		resume(p, i, i, i);
	(void)send_raw(p, WIRE_RESUMED, 0, 0, NULL, 0);
}

/* a frame with a header of its own, in answer to a RUN */
static void odd_frame(struct peer *p, const struct wire_frame *f)
{
	static const uint8_t body[1024];
	static const struct {
		uint32_t type, claimed;
	} odd[] = { { WIRE_DATA, 0xffffffff }, { WIRE_DATA, WIRE_MAX_BODY + 1 }, { 9999, 8 },
		{ 0, 0 }, { WIRE_RUN, 24 }, { WIRE_CONNECT, 8 }, { WIRE_BEGUN, 3 },
		{ WIRE_ENDED, 900 }, { WIRE_COMMAND_INFO, 1024 }, { WIRE_EOF, 0 },
		{ WIRE_CONTROL, 16 } };
	uint32_t i = the_lie->argument;

	(void)send_raw(p, odd[i].type, f->stream, odd[i].claimed, body,
		odd[i].claimed < sizeof body ? odd[i].claimed : sizeof body);
}

static void stream_zero(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	(void)send_data(p, 0, "x", 1);
}

static void half_and_wait(struct peer *p, const struct wire_frame *f)
{
	uint8_t header[WIRE_HEADER];

	wire_put_header(header, WIRE_DATA, f->stream, 60000);
	(void)(send_begun(p, f->stream) && send_bytes(p, header, sizeof header) &&
		send_bytes(p, header, sizeof header));
}

const struct lie wire_lies[] = {
	{ "boot-silent", WIRE_NONE, silent, 0 },
	{ "boot-magic", WIRE_NONE, bad_magic, 0 },
	{ "boot-version-0", WIRE_NONE, old_version, 0 },
	{ "boot-version-900", WIRE_NONE, old_version, 900 },
	{ "boot-flags", WIRE_NONE, bad_flags, 0 },
	{ "boot-garbage", WIRE_NONE, garbage, 0 },
	{ "boot-exit-0", WIRE_NONE, leave, 0 },
	{ "boot-exit-125", WIRE_NONE, leave, 125 },
	{ "boot-setup-failed", WIRE_NONE, setup_failed, 0 },
	{ "boot-flood", WIRE_NONE, flood_owner, 0 },
	{ "hello-silent", WIRE_HELLO, silent, 0 },
	{ "hello-magic", WIRE_HELLO, bad_magic, 0 },
	{ "hello-version-0", WIRE_HELLO, old_version, 0 },
	{ "hello-version-900", WIRE_HELLO, old_version, 900 },
	{ "hello-epoch", WIRE_HELLO, bad_epoch, 0 },
	{ "hello-flags", WIRE_HELLO, bad_flags, 0 },
	{ "hello-garbage", WIRE_HELLO, garbage, 0 },
	{ "hello-exit", WIRE_HELLO, leave, 0 },
	{ "hello-twice", WIRE_HELLO, hello_twice, 0 },
	{ "hello-alone", WIRE_HELLO, hello_alone, 0 },
	{ "close-0", WIRE_HELLO, close_at_once, 0 },
	{ "close-1", WIRE_HELLO, close_after, 1 },
	{ "close-2", WIRE_HELLO, close_after, 2 },
	{ "close-3", WIRE_HELLO, close_after, 3 },
	{ "close-4", WIRE_HELLO, close_after, 4 },
	{ "close-5", WIRE_HELLO, close_after, 5 },
	{ "close-6", WIRE_HELLO, close_after, 6 },
	{ "cut-1", WIRE_HELLO, cut_after, 1 },
	{ "cut-2", WIRE_HELLO, cut_after, 2 },
	{ "cut-3", WIRE_HELLO, cut_after, 3 },
	{ "cut-4", WIRE_HELLO, cut_after, 4 },
	{ "cut-5", WIRE_HELLO, cut_after, 5 },
	{ "cut-6", WIRE_HELLO, cut_after, 6 },
	{ "resume-lies", WIRE_HELLO, resume_lies, 0 },
	{ "resume-flood", WIRE_HELLO, resume_flood, 0 },
	{ "frame-length-max", WIRE_RUN, odd_frame, 0 },
	{ "frame-length-over", WIRE_RUN, odd_frame, 1 },
	{ "frame-type-unknown", WIRE_RUN, odd_frame, 2 },
	{ "frame-type-0", WIRE_RUN, odd_frame, 3 },
	{ "frame-of-the-host", WIRE_RUN, odd_frame, 4 },
	{ "frame-of-the-owner", WIRE_RUN, odd_frame, 5 },
	{ "frame-too-short", WIRE_RUN, odd_frame, 6 },
	{ "frame-too-long", WIRE_RUN, odd_frame, 7 },
	{ "frame-of-the-engine", WIRE_RUN, odd_frame, 8 },
	{ "frame-without-body", WIRE_RUN, odd_frame, 9 },
	{ "frame-of-a-client", WIRE_RUN, odd_frame, 10 },
	{ "frame-stream-0", WIRE_RUN, stream_zero, 0 },
	{ "frame-half", WIRE_RUN, half_and_wait, 0 },
	{ NULL, 0, NULL, 0 },
};
