/* Owns the decoding of an attached stream; the relay calls it with whatever the daemon sent.
 * Must hold: a decoded byte never lies behind the one that was read, so one buffer serves. */
#include "engine/docker/multiplex.h"

#include <string.h>

enum { STREAM_STDIN, STREAM_STDOUT, STREAM_STDERR };

/* A whole head: false when it is none. */
static bool begin_frame(struct multiplex *m)
{
	const uint8_t *h = m->head;

	if (h[0] > STREAM_STDERR || h[1] || h[2] || h[3])
		return false;
	m->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	/* an empty frame is over at once */
	if (m->left == 0)
		m->head_n = 0;
	return m->left <= MULTIPLEX_FRAME;
}

size_t multiplex_decode(struct multiplex *m, uint8_t *p, size_t n)
{
	size_t in = 0, out = 0, part;

	while (in < n && !m->bad) {
		if (m->left == 0) {
			m->head[m->head_n++] = p[in++];
			if (m->head_n == MULTIPLEX_HEAD)
				m->bad = !begin_frame(m);
			continue;
		}
		part = n - in < m->left ? n - in : m->left;
		if (m->head[0] == STREAM_STDOUT) {
			memmove(p + out, p + in, part);
			out += part;
		}
		in += part;
		m->left -= (uint32_t)part;
		if (m->left == 0)
			m->head_n = 0;
	}
	return out;
}

bool multiplex_whole(const struct multiplex *m)
{
	return !m->bad && m->head_n == 0;
}
