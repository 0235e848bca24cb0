/* Feeds arbitrary bytes to the frame decoder as any side; what decodes must encode to the same bytes. */
#include "wire/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct wire_frame *f, size_t used, const uint8_t *raw)
{
	static uint8_t out[WIRE_HEADER + WIRE_MAX_BODY];
	size_t n;

	switch ((enum wire_type)f->type) {
#define MESSAGE(id, name, number, senders, stream_, rest_, fields, doc) \
	case WIRE_##id: { \
		struct wire_##name m; \
\
		if (!wire_get_##name(f, &m)) \
			return; \
		n = wire_put_##name(out, sizeof out, &m); \
		if (n != used || memcmp(out, raw, n) != 0) \
			__builtin_trap(); \
		return; \
	}
#include "wire/messages.def"
#undef MESSAGE
	case WIRE_NONE:
		__builtin_trap();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum wire_side from;

	if (!size)
		return 0;
	from = (enum wire_side)(1u << (data[0] & 3));
	data++;
	size--;
	while (size) {
		struct wire_frame f;
		size_t used;

		if (wire_parse(data, size, from, &f, &used) != WIRE_OK)
			return 0;
		if (used > size)
			__builtin_trap();
		check(&f, used, data);
		data += used;
		size -= used;
	}
	return 0;
}
