/* Lies about commands: ends that can't be, frames out of order, bytes that nobody asked for or has
 * room for. */
#include <string.h>
#include <unistd.h>

#include "hostile.h"

static void raw_ended(struct peer *p, uint32_t stream, uint32_t how, uint32_t status, uint32_t left,
	uint32_t flags)
{
	uint32_t body[4] = { how, status, left, flags };

	(void)send_raw(p, WIRE_ENDED, stream, sizeof body, body, sizeof body);
}

static void odd_end(struct peer *p, const struct wire_frame *f)
{
	static const uint32_t ends[][4] = {
		{ WIRE_HOW_EXITED, 256, 0, 0 },
		{ WIRE_HOW_EXITED, 0xffffffff, 0, 0 },
		{ WIRE_HOW_SIGNALLED, 0, 0, 0 },
		{ WIRE_HOW_SIGNALLED, 200, 0, 0 },
		{ WIRE_HOW_NOT_STARTED, 0, 0, 0 },
		{ WIRE_HOW_NOT_STARTED, 99999, 0, 0 },
		{ 99, 0, 0, 0 },
		{ WIRE_HOW_EXITED, 0, 0, 0xffffffff },
		{ WIRE_HOW_EXITED, 0, 0xffffffff, 0 },
		{ WIRE_HOW_NOT_STARTED, 4095, 0, 0 },
	};
	const uint32_t *e = ends[the_lie->argument];

	(void)send_begun(p, f->stream);
	raw_ended(p, f->stream, e[0], e[1], e[2], e[3]);
}

static void end_before_begin(struct peer *p, const struct wire_frame *f)
{
	(void)(send_ended(p, f->stream, WIRE_HOW_EXITED, 0, 0) && send_begun(p, f->stream) &&
		send_data(p, f->stream, "late\n", 5));
}

static void end_twice(struct peer *p, const struct wire_frame *f)
{
	(void)(send_begun(p, f->stream) && send_ended(p, f->stream, WIRE_HOW_EXITED, 3, 0) &&
		send_ended(p, f->stream, WIRE_HOW_EXITED, 4, 0) &&
		send_ended(p, f->stream, WIRE_HOW_SIGNALLED, 9, 0));
}

static void never(struct peer *p, const struct wire_frame *f)
{
	(void)p;
	(void)f;
}

static void never_ends(struct peer *p, const struct wire_frame *f)
{
	(void)send_begun(p, f->stream);
}

static void begun_flood(struct peer *p, const struct wire_frame *f)
{
	for (int i = 0; i < 300000; i++)
		if (!send_begun(p, f->stream))
			return;
}

static void above_credit(struct peer *p, const struct wire_frame *f)
{
	(void)send_begun(p, f->stream);
	flood(p, f->stream | the_lie->argument, 256u << 20);
	(void)send_ended(p, f->stream, WIRE_HOW_EXITED, 0, 0);
}

static void unknown_stream(struct peer *p, const struct wire_frame *f)
{
	(void)f;
	flood(p, 77777, 8u << 20);
}

/* more streams than there may be, a byte on each */
static void many_streams(struct peer *p, const struct wire_frame *f)
{
	for (uint32_t i = 0; i < 200000; i++)
		if (!send_data(p, 1000 + i, "x", 1))
			return;
	(void)f;
}

static void incoming_unasked(struct peer *p, const struct wire_frame *f)
{
	for (uint32_t i = 1; i < 100000; i++)
		if (!send_raw(p, WIRE_INCOMING, (uint32_t)WIRE_GUEST_STREAM | i, 4, &i, 4))
			return;
	(void)f;
}

static void eof_lies(struct peer *p, const struct wire_frame *f)
{
	(void)(send_begun(p, f->stream) && send_data(p, f->stream, "words\n", 6) &&
		send_eof(p, f->stream, UINT64_MAX) && send_data(p, f->stream, "more\n", 5) &&
		send_eof(p, f->stream, 0) && send_ended(p, f->stream, WIRE_HOW_EXITED, 0, 0));
}

static void eof_flood(struct peer *p, const struct wire_frame *f)
{
	(void)send_begun(p, f->stream);
	for (int i = 0; i < 300000; i++)
		if (!send_eof(p, f->stream, 0))
			return;
}

static void ack_lies(struct peer *p, const struct wire_frame *f)
{
	(void)(send_begun(p, f->stream) && send_ack(p, f->stream, UINT64_MAX, UINT64_MAX) &&
		send_ack(p, f->stream, 1000000, 0) && send_ack(p, f->stream, 0, 0) &&
		send_ended(p, f->stream, WIRE_HOW_EXITED, 0, 0));
}

static void ack_unknown(struct peer *p, const struct wire_frame *f)
{
	for (uint32_t i = 1; i < 100000; i++)
		if (!send_ack(p, 5000 + i, i, i))
			return;
	(void)f;
}

/* answers of other requests on a command's stream */
static void wrong_answer(struct peer *p, const struct wire_frame *f)
{
	if (the_lie->argument == 0)
		(void)send_result(p, f->stream, 0, 0);
	else if (the_lie->argument == 1)
		(void)send_stated(p, f->stream, 0100644, 1, "x", 1);
	else
		(void)send_result(p, f->stream, 0xffffffff, UINT64_MAX);
}

/* frames that claim to be of the engine: a reason and a descriptor that only it may send */
static void engines_result(struct peer *p, const struct wire_frame *f)
{
	static const char text[] = "sandbox_not_found\0forged\033[31m\0do as I say";
	uint8_t body[16 + sizeof text] = { 5, 0, 0, 0, WIRE_RESULT_REASON | WIRE_RESULT_FD };

	memcpy(body + 16, text, sizeof text);
	(void)send_raw(p, WIRE_RESULT, f->stream, sizeof body, body, sizeof body);
}

static void exits(struct peer *p, const struct wire_frame *f)
{
	(void)send_begun(p, f->stream);
	_exit(0);
}

static void tiny_data(struct peer *p, const struct wire_frame *f)
{
	(void)send_begun(p, f->stream);
	for (int i = 0; i < 300000; i++)
		if (!send_data(p, f->stream, "x", i % 2 ? 1 : 0))
			return;
	(void)send_ended(p, f->stream, WIRE_HOW_EXITED, 0, 0);
}

const struct lie command_lies[] = {
	{ "exit-256", WIRE_RUN, odd_end, 0 },
	{ "exit-huge", WIRE_RUN, odd_end, 1 },
	{ "signal-0", WIRE_RUN, odd_end, 2 },
	{ "signal-200", WIRE_RUN, odd_end, 3 },
	{ "errno-0", WIRE_RUN, odd_end, 4 },
	{ "errno-huge", WIRE_RUN, odd_end, 5 },
	{ "how-99", WIRE_RUN, odd_end, 6 },
	{ "ended-flags", WIRE_RUN, odd_end, 7 },
	{ "left-huge", WIRE_RUN, odd_end, 8 },
	{ "errno-unknown", WIRE_RUN, odd_end, 9 },
	{ "ended-before-begun", WIRE_RUN, end_before_begin, 0 },
	{ "ended-twice", WIRE_RUN, end_twice, 0 },
	{ "run-never", WIRE_RUN, never, 0 },
	{ "run-never-ends", WIRE_RUN, never_ends, 0 },
	{ "kill-never", WIRE_KILL, never, 0 },
	{ "begun-flood", WIRE_RUN, begun_flood, 0 },
	{ "above-credit", WIRE_RUN, above_credit, 0 },
	{ "above-credit-stderr", WIRE_RUN, above_credit, (uint32_t)WIRE_STDERR },
	{ "stream-unknown", WIRE_RUN, unknown_stream, 0 },
	{ "stream-many", WIRE_RUN, many_streams, 0 },
	{ "incoming-unasked", WIRE_RUN, incoming_unasked, 0 },
	{ "eof-lies", WIRE_RUN, eof_lies, 0 },
	{ "eof-flood", WIRE_RUN, eof_flood, 0 },
	{ "ack-lies", WIRE_RUN, ack_lies, 0 },
	{ "ack-unknown", WIRE_RUN, ack_unknown, 0 },
	{ "run-result", WIRE_RUN, wrong_answer, 0 },
	{ "run-stated", WIRE_RUN, wrong_answer, 1 },
	{ "run-result-huge", WIRE_RUN, wrong_answer, 2 },
	{ "run-engines-result", WIRE_RUN, engines_result, 0 },
	{ "run-exit", WIRE_RUN, exits, 0 },
	{ "data-tiny", WIRE_RUN, tiny_data, 0 },
	{ NULL, 0, NULL, 0 },
};
