/* What an engine says: any bytes, while one of each kind of request waits for its answer.  Nothing may be read or written
 * out of bounds, and no more than the windows allow may be kept. */
#include "client/client.h"

#include <fcntl.h>
#include <string.h>

#include "client/command.h"
#include "client/control.h"
#include "client/file.h"

static int null_fd = -1;

static void output(void *arg, int stream, const void *data, size_t n)
{
	(void)arg;
	if ((stream != 1 && stream != 2) || !data || !n)
		__builtin_trap();
}

static void ended(void *arg, const struct bailey_result *r)
{
	unsigned *times = arg;

	if (++*times > 1 || r->status < 0 || r->status > 255)
		__builtin_trap();
}

static int event(void *arg, const struct bailey_event *e)
{
	(void)arg;
	if (!e->id || !e->kind || !e->rest || strchr(e->id, ' '))
		__builtin_trap();
	return 0;
}

/* Both kinds of records; whatever parses keeps its promises. */
static int piece(void *arg, uint8_t *p, size_t n, struct err *e)
{
	char path[WIRE_MAX_PATH + 1];
	struct bailey_change change;
	struct bailey_entry entry;
	struct entry_text text;

	(void)arg;
	if (n > 65535 || get_le16(p) != n)
		__builtin_trap();
	if (entry_parse(p, n, n & 1, &text, &entry, e) == 0 &&
		(!*entry.name || *entry.name == '/' || strcmp(entry.name, "..") == 0 ||
			strstr(entry.name, "/../") || strlen(entry.name) > WIRE_MAX_PATH))
		__builtin_trap();
	if (change_parse(p, n, path, &change, e) == 0 && (!*path || *path == '/'))
		__builtin_trap();
	return 0;
}

/* Takes `data` in two parts: pieces are cut anywhere. */
static void speak(struct bailey_sandbox *c, const uint8_t *data, size_t size)
{
	_cleanup_err_ struct err e = ERR_INIT;
	size_t used = 0, half = size / 2, more = 0;

	c->depth++;
	if (conn_take(c, data, half, &used, &e) < 0 ||
		conn_take(c, data + used, size - used, &more, &e) < 0)
		(void)conn_break(c, &e);
	c->depth--;
	if (used > half || more > size - used)
		__builtin_trap();
	for (const struct stream *st = c->streams; st; st = st->next)
		for (int i = 0; i < 2; i++)
			if (st->lanes[i].end - st->lanes[i].start > WIRE_WINDOW)
				__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bailey_streams streams = BAILEY_STREAMS_INIT;
	struct pieces_stream list = { .pieces = { .kind = PIECES_RECORDS, .each = piece } };
	struct bailey_command *c1 = NULL, *c2 = NULL;
	_cleanup_err_ struct err e = ERR_INIT;
	unsigned ends[2] = { 0, 0 };
	struct bailey_sandbox *c;

	if (null_fd < 0)
		null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (conn_new(&c, -1, "b0123456789abcdef", &e) < 0)
		return 0;
	c->hello = size & 1;
	streams.on_output = output;
	streams.on_ended = ended;
	streams.arg = &ends[0];
	if (command_attach(c, 7, BAILEY_ATTACH_INPUT, &streams, &c1, &e) < 0)
		__builtin_trap();
	streams.arg = &ends[1];
	streams.out = null_fd;
	if (command_attach(c, 8, 0, &streams, &c2, &e) < 0)
		__builtin_trap();
	if (bailey_on_event(c, event, NULL, NULL) < 0)
		__builtin_trap();
	stream_begin(c, &list.st, &pieces_ops);
	speak(c, data, size);
	stream_end(&list.st);
	pieces_done(&list.pieces);
	bailey_command_free(c1);
	conn_free(c);
	return 0;
}
