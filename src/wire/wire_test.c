/* Every message: round trip, wrong sender, wrong length, values outside their range. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void every_message_survives_a_round_trip(void **state)
{
	uint8_t out[256];
	struct wire_frame f;
	size_t used;

	(void)state;
#define MESSAGE(id, name, number, sender, fields, doc) \
	{ \
		struct wire_##name a, b; \
		size_t n; \
\
		memset(&a, 0, sizeof a); \
		memset(&b, 0xff, sizeof b); \
		memset(&a, 1, sizeof a); \
		n = wire_put_##name(out, sizeof out, &a); \
		assert_int_not_equal(n, 0); \
		assert_int_equal( \
			wire_parse(out, n, (*#sender == 'G') ? WIRE_FROM_GUEST : WIRE_FROM_HOST, \
				&f, &used), \
			WIRE_OK); \
		assert_int_equal(used, n); \
		(void)wire_get_##name(&f, &b); \
		assert_memory_equal(&a, &b, sizeof a); \
		assert_int_equal(wire_put_##name(out, n - 1, &a), 0); \
		for (size_t k = 0; k < n; k++) \
			assert_int_equal( \
				wire_parse(out, k, \
					(*#sender == 'G') ? WIRE_FROM_GUEST : WIRE_FROM_HOST, &f, \
					&used), \
				WIRE_SHORT); \
		if (*#sender != 'B') \
			assert_int_equal( \
				wire_parse(out, n, \
					(*#sender == 'G') ? WIRE_FROM_HOST : WIRE_FROM_GUEST, &f, \
					&used), \
				WIRE_REFUSED); \
		out[8]++; \
		assert_int_equal(wire_parse(out, n + 1, WIRE_FROM_HOST, &f, &used), WIRE_REFUSED); \
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_survives_a_round_trip),
		cmocka_unit_test(unknown_types_and_huge_lengths_are_refused),
		cmocka_unit_test(values_outside_their_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
