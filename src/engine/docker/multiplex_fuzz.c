/* Any bytes, cut anywhere: the decoder gives the same as one that sees them whole, and stays inside its buffer. */
#include "engine/docker/multiplex.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The payload of standard output, read in the plainest way, up to what is not this framing. */
static size_t plain(const uint8_t *p, size_t n, uint8_t *out, bool *ret_bad)
{
	size_t used = 0;

	while (n >= MULTIPLEX_HEAD) {
		size_t len = (size_t)p[4] << 24 | (size_t)p[5] << 16 | (size_t)p[6] << 8 | p[7];
		size_t part;

		if (p[0] > 2 || p[1] || p[2] || p[3] || len > MULTIPLEX_FRAME) {
			*ret_bad = true;
			return used;
		}
		n -= MULTIPLEX_HEAD;
		part = len < n ? len : n;
		if (p[0] == 1) {
			memcpy(out + used, p + MULTIPLEX_HEAD, part);
			used += part;
		}
		p += MULTIPLEX_HEAD + part;
		n -= part;
	}
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct multiplex m = { .head_n = 0 };
	uint8_t *want, *got;
	size_t want_n, got_n = 0, cut, r;
	bool bad = false;

	if (n < 1)
		return 0;
	cut = (size_t)data[0] % 23 + 1;
	data++;
	n--;
	want = malloc(n + 1);
	got = malloc(n + 1);
	if (!want || !got)
		abort();
	want_n = plain(data, n, want, &bad);
	for (size_t i = 0; i < n; i += cut) {
		size_t part = n - i < cut ? n - i : cut;
		uint8_t *p = malloc(part);

		if (!p)
			abort();
		memcpy(p, data + i, part);
		r = multiplex_decode(&m, p, part);
		memcpy(got + got_n, p, r);
		got_n += r;
		free(p);
	}
	if (m.bad != bad || got_n != want_n || memcmp(got, want, got_n))
		abort();
	free(want);
	free(got);
	return 0;
}
