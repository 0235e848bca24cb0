/* Lies about files: descriptions, listings and contents that can't be, requests never answered. */
#include <string.h>
#include <sys/stat.h>

#include "hostile.h"

static void never(struct peer *p, const struct wire_frame *f)
{
	(void)p;
	(void)f;
}

static void stat_lies(struct peer *p, const struct wire_frame *f)
{
	static char link[8000];

	memset(link, 'l', sizeof link);
	if (the_lie->argument == 0)
		(void)send_stated(p, f->stream, 0xffffffff, UINT64_MAX, NULL, 0);
	else if (the_lie->argument == 1)
		(void)send_stated(p, f->stream, S_IFLNK | 0777, 8000, link, sizeof link);
	else
		(void)send_stated(p, f->stream, S_IFLNK | 0777, 3, "a\0b", 3);
	(void)send_result(p, f->stream, 0, 0);
}

static void stat_flood(struct peer *p, const struct wire_frame *f)
{
	for (int i = 0; i < 300000; i++)
		if (!send_stated(p, f->stream, S_IFREG | 0644, 6, NULL, 0))
			return;
}

static void errno_lies(struct peer *p, const struct wire_frame *f)
{
	(void)send_result(p, f->stream, the_lie->argument, UINT64_MAX);
}

static void wrong_answer(struct peer *p, const struct wire_frame *f)
{
	(void)(send_begun(p, f->stream) && send_ended(p, f->stream, WIRE_HOW_EXITED, 0, 0));
}

static size_t put(uint8_t *p, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
	return n;
}

/* A record of LIST and SEARCH with lengths as given. */
static size_t record(
	uint8_t *out, size_t claimed, size_t claimed_name, const void *name, size_t name_length)
{
	size_t n = 2;

	n += put(out + n, S_IFREG | 0644, 4);
	n += put(out + n, 0, 8);
	n += put(out + n, 6, 8);
	n += put(out + n, 0, 8);
	n += put(out + n, claimed_name, 2);
	memcpy(out + n, name, name_length);
	n += name_length;
	(void)put(out, claimed ? claimed : n, 2);
	return n;
}

static void list_end(struct peer *p, uint32_t stream, const uint8_t *records, size_t n)
{
	(void)(send_data(p, stream, records, n) && send_eof(p, stream, n) &&
		send_result(p, stream, 0, 1));
}

static void list_lies(struct peer *p, const struct wire_frame *f)
{
	static const struct {
		size_t claimed, claimed_name;
		const char *name;
		size_t n;
	} lies[] = { { 0, 2, "..", 2 }, { 0, 9, "../../etc", 9 }, { 0, 4, "/etc", 4 },
		{ 0, 3, "a\0b", 3 }, { 0, 7, "\033[31mx\n", 7 }, { 0, 0, "", 0 },
		{ 0, 60000, "x", 1 }, { 65535, 1, "x", 1 }, { 3, 1, "x", 1 },
		{ 36, 65535, "x", 1 } };
	uint8_t records[512];

	list_end(p, f->stream, records,
		record(records, lies[the_lie->argument].claimed,
			lies[the_lie->argument].claimed_name, lies[the_lie->argument].name,
			lies[the_lie->argument].n));
}

static void list_zeros(struct peer *p, const struct wire_frame *f)
{
	static const uint8_t records[4096];

	list_end(p, f->stream, records, sizeof records);
}

/* Records that never end, as fast as they are taken. */
static void list_endless(struct peer *p, const struct wire_frame *f)
{
	static uint8_t records[60000];
	size_t n = 0;

	while (n + 64 < sizeof records)
		n += record(records + n, 0, 1, "x", 1);
	while (send_data(p, f->stream, records, n))
		;
}

static void read_endless(struct peer *p, const struct wire_frame *f)
{
	flood(p, f->stream, 512u << 20);
}

/* fewer bytes than the end of data claims */
static void read_short(struct peer *p, const struct wire_frame *f)
{
	(void)(send_data(p, f->stream, "words\n", 6) && send_eof(p, f->stream, 1u << 30) &&
		send_result(p, f->stream, 0, 1u << 30));
}

static void read_no_end(struct peer *p, const struct wire_frame *f)
{
	(void)(send_data(p, f->stream, "words\n", 6) && send_result(p, f->stream, 0, 6));
}

static void read_twice(struct peer *p, const struct wire_frame *f)
{
	for (int i = 0; i < 3; i++)
		(void)(send_data(p, f->stream, "words\n", 6) && send_eof(p, f->stream, 6) &&
			send_result(p, f->stream, 0, 6));
}

/* Takes nothing, or claims to have taken what was never sent. */
static void write_stalls(struct peer *p, const struct wire_frame *f)
{
	(void)p;
	(void)f;
}

static void write_ack_lies(struct peer *p, const struct wire_frame *f)
{
	(void)(send_ack(p, f->stream, UINT64_MAX, UINT64_MAX) &&
		send_ack(p, f->stream, 1ull << 40, 1) && send_ack(p, f->stream, 0, UINT64_MAX));
}

static void write_result_early(struct peer *p, const struct wire_frame *f)
{
	(void)send_result(p, f->stream, 0, 0);
}

static void dial_flood(struct peer *p, const struct wire_frame *f)
{
	(void)send_begun(p, f->stream);
	flood(p, f->stream, 256u << 20);
}

const struct lie file_lies[] = {
	{ "stat-never", WIRE_STAT, never, 0 },
	{ "stat-huge", WIRE_STAT, stat_lies, 0 },
	{ "stat-link-long", WIRE_STAT, stat_lies, 1 },
	{ "stat-link-nul", WIRE_STAT, stat_lies, 2 },
	{ "stat-flood", WIRE_STAT, stat_flood, 0 },
	{ "stat-errno", WIRE_STAT, errno_lies, 0xffffffff },
	{ "stat-errno-4096", WIRE_STAT, errno_lies, 4096 },
	{ "stat-ended", WIRE_STAT, wrong_answer, 0 },
	{ "list-never", WIRE_LIST, never, 0 },
	{ "list-dotdot", WIRE_LIST, list_lies, 0 },
	{ "list-path", WIRE_LIST, list_lies, 1 },
	{ "list-absolute", WIRE_LIST, list_lies, 2 },
	{ "list-nul", WIRE_LIST, list_lies, 3 },
	{ "list-control", WIRE_LIST, list_lies, 4 },
	{ "list-empty-name", WIRE_LIST, list_lies, 5 },
	{ "list-name-over", WIRE_LIST, list_lies, 6 },
	{ "list-record-over", WIRE_LIST, list_lies, 7 },
	{ "list-record-under", WIRE_LIST, list_lies, 8 },
	{ "list-both-over", WIRE_LIST, list_lies, 9 },
	{ "list-zeros", WIRE_LIST, list_zeros, 0 },
	{ "list-endless", WIRE_LIST, list_endless, 0 },
	{ "search-endless", WIRE_SEARCH, list_endless, 0 },
	{ "search-path", WIRE_SEARCH, list_lies, 1 },
	{ "search-record-over", WIRE_SEARCH, list_lies, 7 },
	{ "read-never", WIRE_READ, never, 0 },
	{ "read-endless", WIRE_READ, read_endless, 0 },
	{ "read-short", WIRE_READ, read_short, 0 },
	{ "read-no-end", WIRE_READ, read_no_end, 0 },
	{ "read-twice", WIRE_READ, read_twice, 0 },
	{ "read-errno", WIRE_READ, errno_lies, 0xffffffff },
	{ "write-stalls", WIRE_DATA, write_stalls, 0 },
	{ "write-ack-lies", WIRE_DATA, write_ack_lies, 0 },
	{ "write-result-early", WIRE_DATA, write_result_early, 0 },
	{ "write-never", WIRE_EOF, never, 0 },
	{ "dial-never", WIRE_DIAL, never, 0 },
	{ "dial-flood", WIRE_DIAL, dial_flood, 0 },
	{ NULL, 0, NULL, 0 },
};
