/* Any bytes, cut anywhere: the decoder gives the same as one that sees them whole, and stays inside its buffer. */
#include "engine/docker/multiplex.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The payload of standard output, read in the plainest way; -1: not this framing. */
static ssize_t plain(const uint8_t *p, size_t n, uint8_t *out)
{
	size_t used = 0;

	while (n >= MULTIPLEX_HEAD) {
		size_t len = (size_t)p[4] << 24 | (size_t)p[5] << 16 | (size_t)p[6] << 8 | p[7];
		size_t part;

		if (p[0] > 2 || p[1] || p[2] || p[3] || len > MULTIPLEX_FRAME)
			return -1;
		n -= MULTIPLEX_HEAD;
		part = len < n ? len : n;
		if (p[0] == 1) {
			memcpy(out + used, p + MULTIPLEX_HEAD, part);
			used += part;
		}
		p += MULTIPLEX_HEAD + part;
		n -= part;
	}
	return (ssize_t)used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct multiplex m = { .head_n = 0 };
	uint8_t *want, *got;
	ssize_t want_n, r = 0;
	size_t got_n = 0, cut;

	if (n < 1)
		return 0;
	cut = (size_t)data[0] % 23 + 1;
	data++;
	n--;
	want = malloc(n + 1);
	got = malloc(n + 1);
	if (!want || !got)
		abort();
	want_n = plain(data, n, want);
	for (size_t i = 0; i < n && r >= 0; i += cut) {
		size_t part = n - i < cut ? n - i : cut;
		uint8_t *p = malloc(part);

		if (!p)
			abort();
		memcpy(p, data + i, part);
		r = multiplex_decode(&m, p, part);
		if (r > 0) {
			memcpy(got + got_n, p, (size_t)r);
			got_n += (size_t)r;
		}
		free(p);
	}
	if ((r < 0) != (want_n < 0))
		abort();
	if (r >= 0 && (got_n != (size_t)want_n || memcmp(got, want, got_n)))
		abort();
	free(want);
	free(got);
	return 0;
}
