/* Owns sending, and the answers of an honest guest. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"

static const char words[] = "words\n";
enum { WORDS = sizeof words - 1 };

bool send_bytes(struct peer *p, const void *bytes, size_t n)
{
	const uint8_t *b = bytes;

	while (n && p->fd >= 0) {
		ssize_t w = send(p->fd, b, n, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0) {
			if (p->fd != WIRE_CONTROL_FD)
				hang_up(p);
			return false;
		}
		b += w;
		n -= (size_t)w;
	}
	return n == 0;
}

/* Where the lie is a broken connection: after so many whole frames, or inside the next one. */
static bool send_whole(struct peer *p, const uint8_t *frame, size_t n)
{
	p->sent++;
	if (p->shut_after && p->sent > p->shut_after) {
		if (p->cut)
			(void)send_bytes(p, frame, n / 2);
		hang_up(p);
		return false;
	}
	return send_bytes(p, frame, n);
}

bool send_raw(struct peer *p, uint32_t type, uint32_t stream, uint32_t claimed, const void *body,
	size_t n)
{
	static uint8_t frame[WIRE_HEADER + 4 * WIRE_MAX_BODY];

	if (n > sizeof frame - WIRE_HEADER)
		return false;
	wire_put_header(frame, type, stream, claimed);
	if (n)
		memcpy(frame + WIRE_HEADER, body, n);
	return send_whole(p, frame, WIRE_HEADER + n);
}

#define SEND(p, type, ...) \
	do { \
		struct wire_##type m_ = __VA_ARGS__; \
		uint8_t out_[WIRE_HEADER + 8192]; \
		return send_whole(p, out_, wire_put_##type(out_, sizeof out_, &m_)); \
	} while (0)

bool send_data(struct peer *p, uint32_t stream, const void *bytes, size_t n)
{
	return send_raw(p, WIRE_DATA, stream, (uint32_t)n, bytes, n);
}

bool send_eof(struct peer *p, uint32_t stream, uint64_t total)
{
	SEND(p, eof, { .stream = stream, .total = total });
}

bool send_begun(struct peer *p, uint32_t stream)
{
	SEND(p, begun, { .stream = stream, .pid = 7 });
}

bool send_ended(struct peer *p, uint32_t stream, uint32_t how, uint32_t status, uint32_t flags)
{
	SEND(p, ended, { .stream = stream, .how = how, .status = status, .flags = flags });
}

bool send_result(struct peer *p, uint32_t stream, uint32_t error, uint64_t value)
{
	SEND(p, result, { .stream = stream, .error = error, .value = value });
}

bool send_ack(struct peer *p, uint32_t stream, uint64_t received, uint64_t limit)
{
	SEND(p, ack, { .stream = stream, .received = received, .limit = limit });
}

bool send_stated(
	struct peer *p, uint32_t stream, uint32_t mode, uint64_t size, const void *link, size_t n)
{
	SEND(p, stated,
		{ .stream = stream,
			.mode = mode,
			.links = 1,
			.size = size,
			.rest = link,
			.rest_len = (uint32_t)n });
}

static bool send_hello(struct peer *p)
{
	SEND(p, hello, { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = p->epoch });
}

static bool send_resumed(struct peer *p)
{
	SEND(p, resumed, { .stream = 0 });
}

void answer_hello(struct peer *p)
{
	if (send_hello(p) && p->fd != WIRE_CONTROL_FD)
		(void)send_resumed(p);
}

void flood(struct peer *p, uint32_t stream, uint64_t bytes)
{
	static uint8_t body[WIRE_MAX_BODY];

	memset(body, 'x', sizeof body);
	for (uint64_t n = 0; n < bytes; n += sizeof body)
		if (!send_data(p, stream, body, sizeof body))
			return;
}

static void answer_run(struct peer *p, uint32_t stream)
{
	(void)(send_begun(p, stream) && send_data(p, stream, words, WORDS) &&
		send_ended(p, stream, WIRE_HOW_EXITED, 0, 0) && send_eof(p, stream, WORDS) &&
		send_eof(p, stream | (uint32_t)WIRE_STDERR, 0));
}

/* A directory when its name ends in 'd', else a file. */
static void answer_stat(struct peer *p, const struct wire_frame *f)
{
	bool dir = f->length > 4 && f->body[f->length - 1] == 'd';

	(void)(send_stated(p, f->stream, dir ? S_IFDIR | 0755 : S_IFREG | 0644, dir ? 0 : WORDS,
		       NULL, 0) &&
		send_result(p, f->stream, 0, 0));
}

static void answer_bytes(struct peer *p, uint32_t stream, const void *bytes, size_t n)
{
	(void)((n == 0 || send_data(p, stream, bytes, n)) && send_eof(p, stream, n) &&
		send_result(p, stream, 0, n));
}

/* One stream's bytes are counted at a time, which is all that a test needs. */
static void take_data(struct peer *p, const struct wire_frame *f)
{
	static uint64_t taken[2];

	if (taken[0] != f->stream) {
		taken[0] = f->stream;
		taken[1] = 0;
	}
	taken[1] += f->length;
	(void)send_ack(p, f->stream, taken[1], taken[1] + WIRE_WINDOW);
}

void answer(struct peer *p, const struct wire_frame *f)
{
	static const uint8_t no_tar[1024];

	switch (f->type) {
	case WIRE_HELLO:
		answer_hello(p);
		break;
	case WIRE_RUN:
		answer_run(p, f->stream);
		break;
	case WIRE_STAT:
		answer_stat(p, f);
		break;
	case WIRE_READ:
		answer_bytes(p, f->stream, words, WORDS);
		break;
	case WIRE_TAR_OUT:
		answer_bytes(p, f->stream, no_tar, sizeof no_tar);
		break;
	case WIRE_LIST:
	case WIRE_SEARCH:
		answer_bytes(p, f->stream, NULL, 0);
		break;
	case WIRE_MKDIR:
	case WIRE_REMOVE:
	case WIRE_RENAME:
	case WIRE_KILL:
	case WIRE_EOF: /* of a TAR_IN or a WRITE */
		(void)send_result(p, f->stream, 0, 0);
		break;
	case WIRE_DATA:
		take_data(p, f);
		break;
	case WIRE_DIAL:
		(void)send_begun(p, f->stream);
		break;
	default:
		break;
	}
}
