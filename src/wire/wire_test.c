/* Every message: round trip, wrong sender, wrong length, values outside their range. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static enum wire_side any_of(unsigned senders)
{
	return (enum wire_side)(senders & ~(senders - 1));
}

enum {
	HOST = WIRE_FROM_HOST,
	GUEST = WIRE_FROM_GUEST,
	CLIENT = WIRE_FROM_CLIENT,
	ENGINE = WIRE_FROM_ENGINE,
	ANY_PEER = HOST | GUEST,
	ASKER = HOST | CLIENT,
	ANSWERER = GUEST | ENGINE,
	ALL = ASKER | ANSWERER,
};
enum { NONE, SOME };
enum { FIXED, REST };
#define SET_REST_FIXED(m)
#define SET_REST_REST(m) \
	(m).rest = (const uint8_t *)"/a/b"; \
	(m).rest_len = 4;
#define SAME_REST_FIXED(a, b)
#define SAME_REST_REST(a, b) \
	assert_int_equal((b).rest_len, (a).rest_len); \
	assert_memory_equal((b).rest, (a).rest, (a).rest_len);
#define SAME_FIELD(type, member) assert_true(a.member == b.member);

static void every_message_survives_a_round_trip(void **state)
{
	uint8_t out[256];
	struct wire_frame f;
	size_t used;

	(void)state;
#define MESSAGE(id, name, number, senders, stream_, rest_, fields, doc) \
	{ \
		const unsigned from = senders; \
		struct wire_##name a, b; \
		size_t n; \
\
		memset(&b, 0xff, sizeof b); \
		memset(&a, 1, sizeof a); \
		a.stream = (stream_) == SOME ? 7 : 0; \
		SET_REST_##rest_(a) n = wire_put_##name(out, sizeof out, &a); \
		assert_int_not_equal(n, 0); \
		assert_int_equal(wire_parse(out, n, any_of(from), &f, &used), WIRE_OK); \
		assert_int_equal(used, n); \
		(void)wire_get_##name(&f, &b); \
		assert_int_equal(a.stream, b.stream); \
		fields(SAME_FIELD) SAME_REST_##rest_(a, b); \
		assert_int_equal(wire_put_##name(out, n - 1, &a), 0); \
		for (size_t k = 0; k < n; k++) \
			assert_int_equal(wire_parse(out, k, any_of(from), &f, &used), WIRE_SHORT); \
		if (from != ALL) \
			assert_int_equal( \
				wire_parse(out, n, any_of(ALL & ~from), &f, &used), WIRE_REFUSED); \
		out[4] = (stream_) == SOME ? 0 : 7; \
		assert_int_equal(wire_parse(out, n, any_of(from), &f, &used), WIRE_REFUSED); \
		out[4] = (stream_) == SOME ? 7 : 0; \
		if ((rest_) == REST) { \
			out[10] = 2; /* over WIRE_MAX_BODY */ \
			assert_int_equal( \
				wire_parse(out, n, any_of(from), &f, &used), WIRE_REFUSED); \
		} else { \
			out[8]++; \
			assert_int_equal( \
				wire_parse(out, n + 1, any_of(from), &f, &used), WIRE_REFUSED); \
		} \
	}
#include "wire/messages.def"
#undef MESSAGE
}

static void unknown_types_and_huge_lengths_are_refused(void **state)
{
	uint8_t frame[WIRE_HEADER] = { 99 };
	struct wire_frame f;
	size_t used;

	(void)state;
	assert_int_equal(wire_parse(frame, sizeof frame, WIRE_FROM_GUEST, &f, &used), WIRE_REFUSED);
	memset(frame, 0, sizeof frame);
	frame[0] = WIRE_EXITED;
	frame[11] = 0x7f;
	assert_int_equal(wire_parse(frame, sizeof frame, WIRE_FROM_GUEST, &f, &used), WIRE_REFUSED);
}

static void values_outside_their_range_are_refused(void **state)
{
	struct wire_hello hello = { .magic = WIRE_MAGIC + 1, .version = 1, .epoch = 1 };
	struct wire_exec exec = { .uid = 65535 };
	struct wire_signal sig = { .signal = 65 };
	struct wire_exited exited = { .how = WIRE_HOW_LAST + 1 };
	uint8_t out[64];
	struct wire_frame f;
	size_t used, n;

	(void)state;
	n = wire_put_hello(out, sizeof out, &hello);
	assert_int_equal(wire_parse(out, n, WIRE_FROM_HOST, &f, &used), WIRE_OK);
	assert_false(wire_get_hello(&f, &hello));
	n = wire_put_exec(out, sizeof out, &exec);
	assert_int_equal(wire_parse(out, n, WIRE_FROM_HOST, &f, &used), WIRE_OK);
	assert_false(wire_get_exec(&f, &exec));
	n = wire_put_signal(out, sizeof out, &sig);
	assert_int_equal(wire_parse(out, n, WIRE_FROM_HOST, &f, &used), WIRE_OK);
	assert_false(wire_get_signal(&f, &sig));
	n = wire_put_exited(out, sizeof out, &exited);
	assert_int_equal(wire_parse(out, n, WIRE_FROM_GUEST, &f, &used), WIRE_OK);
	assert_false(wire_get_exited(&f, &exited));
}

static bool stat_of(const char *path, uint32_t n)
{
	struct wire_stat m = { .stream = 1, .rest = (const uint8_t *)path, .rest_len = n };
	uint8_t out[8192];
	struct wire_frame f;
	size_t used, size = wire_put_stat(out, sizeof out, &m);

	assert_int_equal(wire_parse(out, size, WIRE_FROM_CLIENT, &f, &used), WIRE_OK);
	return wire_get_stat(&f, &m);
}

static void paths_are_absolute_bounded_and_without_nul(void **state)
{
	static char long_path[WIRE_MAX_PATH + 1];

	(void)state;
	memset(long_path, '/', sizeof long_path);
	assert_true(stat_of("/a", 2));
	assert_true(stat_of(long_path, WIRE_MAX_PATH - 1));
	assert_false(stat_of(long_path, WIRE_MAX_PATH));
	assert_false(stat_of("", 0));
	assert_false(stat_of("a", 1));
	assert_false(stat_of("/a\0b", 4));
}

static void a_stream_that_would_overflow_sums_is_refused(void **state)
{
	struct wire_ack m = { .stream = 1, .received = 5, .limit = 4 };
	uint8_t out[64];
	struct wire_frame f;
	size_t used, n = wire_put_ack(out, sizeof out, &m);

	(void)state;
	assert_int_equal(wire_parse(out, n, WIRE_FROM_GUEST, &f, &used), WIRE_OK);
	assert_false(wire_get_ack(&f, &m));
	m = (struct wire_ack){ .stream = 1, .received = 1, .limit = 1ull << 62 };
	n = wire_put_ack(out, sizeof out, &m);
	assert_int_equal(wire_parse(out, n, WIRE_FROM_GUEST, &f, &used), WIRE_OK);
	assert_false(wire_get_ack(&f, &m));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_survives_a_round_trip),
		cmocka_unit_test(unknown_types_and_huge_lengths_are_refused),
		cmocka_unit_test(values_outside_their_range_are_refused),
		cmocka_unit_test(paths_are_absolute_bounded_and_without_nul),
		cmocka_unit_test(a_stream_that_would_overflow_sums_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
