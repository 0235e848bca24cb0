/* Owns the way from a stream of bytes to whole lines and records.  Called with what an engine says and with what a pipe of
 * its workers gives; both may be wrong about every length. */
#include <poll.h>
#include <string.h>

#include "base/str.h"
#include "client/client.h"

uint16_t get_le16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t get_le32(const uint8_t *p)
{
	return get_le16(p) | (uint32_t)get_le16(p + 2) << 16;
}

uint64_t get_le64(const uint8_t *p)
{
	return get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}

/* Length of the piece at p, 0 when it isn't all there, -1 when it can't be one. */
static ssize_t piece_length(const struct pieces *s, const uint8_t *p, size_t n)
{
	const uint8_t *end;

	if (s->kind == PIECES_LINES) {
		end = memchr(p, '\n', n);
		if (!end)
			return n >= CLIENT_MAX_LINE ? -1 : 0;
		return end - p >= CLIENT_MAX_LINE ? -1 : end - p + 1;
	}
	if (n < 2)
		return 0;
	if (get_le16(p) < 2)
		return -1;
	return get_le16(p) <= n ? get_le16(p) : 0;
}

/* Gives out the whole pieces at p; returns how many bytes they were, -1 with *e. */
static ssize_t give_out(struct pieces *s, uint8_t *p, size_t n, struct err *e)
{
	size_t done = 0;

	while (done < n && !s->ended) {
		ssize_t len = piece_length(s, p + done, n - done);
		size_t text;
		int r;

		if (len == 0)
			break;
		if (len < 0)
			return err_set(e, R_WIRE_MALFORMED, 0,
				"read an answer: a %s of a wrong length",
				s->kind == PIECES_LINES ? "line" : "record");
		text = (size_t)len;
		if (s->kind == PIECES_LINES)
			p[done + --text] = '\0';
		r = s->each(s->arg, p + done, text, e);
		if (r < 0)
			return -1;
		s->ended = r > 0;
		done += (size_t)len;
	}
	return (ssize_t)(s->ended ? n : done);
}

int pieces_feed(struct pieces *s, const uint8_t *p, size_t n, struct err *e)
{
	ssize_t used;

	if (s->ended)
		return 0;
	s->held.max = (128 << 10) + CLIENT_IN_BYTES;
	if (!buf_add(&s->held, p, n))
		return err_set(e, R_NO_MEMORY, 0, "read an answer");
	used = give_out(s, (uint8_t *)s->held.data, s->held.len, e);
	if (used < 0)
		return -1;
	memmove(s->held.data, s->held.data + used, s->held.len - (size_t)used);
	s->held.len -= (size_t)used;
	return 0;
}

int pieces_end(struct pieces *s, struct err *e)
{
	if (s->ended || !s->held.len)
		return 0;
	return err_set(e, R_WIRE_MALFORMED, 0, "read an answer: it ends inside a %s",
		s->kind == PIECES_LINES ? "line" : "record");
}

void pieces_done(struct pieces *s)
{
	buf_done(&s->held);
}

static int take_data(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e)
{
	struct pieces *s = &((struct pieces_stream *)st)->pieces;

	(void)lane;
	if (pieces_feed(s, p, n, e) < 0)
		return -1;
	st->paused = s->ended;
	return 0;
}

const struct stream_ops pieces_ops = { .data = take_data };

int pieces_read_fd(struct pieces *s, int fd, uint64_t timeout_ms, struct err *e)
{
	_cleanup_free_ uint8_t *data = malloc(64 << 10);

	if (!data)
		return err_set(e, R_NO_MEMORY, ENOMEM, "read an answer");
	while (!s->ended) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int r = poll(&p, 1, timeout_ms ? (int)timeout_ms : -1);
		ssize_t n;

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0)
			return err_set(e, R_TIMEOUT, 0, "read an answer: nothing for %llu ms",
				(unsigned long long)timeout_ms);
		n = read(fd, data, 64 << 10);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, R_IO_FAILED, errno, "read an answer");
		if (n == 0)
			return pieces_end(s, e);
		if (pieces_feed(s, data, (size_t)n, e) < 0)
			return -1;
	}
	return 0;
}

bool leads_out(const char *name, bool path)
{
	for (const char *part = name;; part++) {
		const size_t n = strcspn(part, "/");

		if (n == 0 || (n <= 2 && strncmp(part, "..", n) == 0))
			return true;
		part += n;
		if (!*part)
			return false;
		if (!path)
			return true;
	}
}

static void unescape(char *value)
{
	char *to = value;

	for (const char *p = value; *p; p++) {
		if (*p == '\\' && (p[1] == 'n' || p[1] == '\\'))
			*to++ = *++p == 'n' ? '\n' : '\\';
		else
			*to++ = *p;
	}
	*to = '\0';
}

bool line_split(char *line, char **ret_key, char **ret_value)
{
	char *space = strchr(line, ' ');

	if (!space || space == line)
		return false;
	*space = '\0';
	for (const char *p = line; *p; p++)
		if ((*p < 'a' || *p > 'z') && *p != '_' && (*p < '0' || *p > '9'))
			return false;
	unescape(space + 1);
	*ret_key = line;
	*ret_value = space + 1;
	return true;
}
