/* What is written reads back the same, in pieces of any size; what is malformed is refused for the right cause. */
#include "archive/archive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "archive/format.h"

enum { OUT = ARCHIVE_HEADER_CAP(ARCHIVE_MAX_RANGES) + (1 << 20) };

static struct archive_reader reader;
static uint8_t out[OUT];
static size_t out_len;
static char got_data[1 << 16];
static uint64_t got_len;
static char name_buf[ARCHIVE_MAX_NAME + 2], link_buf[ARCHIVE_MAX_NAME + 2];

static void begin(void)
{
	out_len = 0;
	memset(out, 0xaa, sizeof out);
}

static void add(
	const struct archive_entry *e, const char *data, const struct archive_range *r, size_t n)
{
	size_t head = archive_put(out + out_len, sizeof out - out_len, e, r, n);
	uint64_t stored = 0;

	assert_int_not_equal(head, 0);
	assert_int_equal(head % ARCHIVE_BLOCK, 0);
	out_len += head;
	if (!data)
		return;
	for (size_t i = 0; i < (r ? n : 1); i++) {
		uint64_t k = r ? r[i].length : e->size;

		memcpy(out + out_len, data + stored, k);
		out_len += k;
		stored += k;
	}
	memset(out + out_len, 0, archive_padding(stored));
	out_len += archive_padding(stored);
}

static void end(void)
{
	memset(out + out_len, 0, ARCHIVE_END_SIZE);
	out_len += ARCHIVE_END_SIZE;
}

struct seen {
	unsigned entries, ends;
	bool end;
	enum archive_cause cause;
	struct archive_entry e;
};

/* Reads all, `piece` bytes at a time; the last entry's data are in got_data. */
static struct seen read_all(size_t piece)
{
	struct seen s = { .entries = 0 };

	archive_reader_init(&reader);
	for (size_t at = 0; at < out_len;) {
		size_t n = piece < out_len - at ? piece : out_len - at;
		const uint8_t *p = out + at;
		enum archive_event ev;

		at += n;
		while ((ev = archive_next(&reader, &p, &n)) != ARCHIVE_MORE) {
			if (ev == ARCHIVE_ENTRY) {
				s.entries++;
				s.e = reader.entry;
				memset(got_data, 0, sizeof got_data);
				got_len = 0;
				snprintf(name_buf, sizeof name_buf, "%s", reader.entry.name);
				snprintf(link_buf, sizeof link_buf, "%s", reader.entry.link);
			} else if (ev == ARCHIVE_DATA) {
				assert_true(reader.offset + reader.data_len <= reader.entry.size);
				if (reader.offset + reader.data_len <= sizeof got_data)
					memcpy(got_data + reader.offset, reader.data,
						reader.data_len);
				got_len += reader.data_len;
			} else if (ev == ARCHIVE_ENTRY_END) {
				s.ends++;
			} else if (ev == ARCHIVE_END) {
				s.end = true;
			} else {
				s.cause = reader.cause;
				assert_int_equal(archive_next(&reader, &p, &n), ARCHIVE_REFUSED);
				return s;
			}
		}
		assert_int_equal(n, 0);
	}
	if (!archive_finish(&reader))
		s.cause = reader.cause;
	return s;
}

static void same(const struct archive_entry *a, const struct seen *s)
{
	size_t n = strlen(a->name);

	assert_int_equal(s->cause, ARCHIVE_CAUSE_NONE);
	assert_int_equal(s->entries, 1);
	assert_int_equal(s->ends, 1);
	assert_true(s->end);
	assert_int_equal(s->e.type, a->type);
	assert_int_equal(s->e.mode, a->mode);
	assert_int_equal(s->e.uid, a->uid);
	assert_int_equal(s->e.gid, a->gid);
	assert_int_equal(s->e.major, a->major);
	assert_int_equal(s->e.minor, a->minor);
	assert_true(s->e.size == a->size);
	assert_true(s->e.mtime_ns == a->mtime_ns);
	if (a->type == ARCHIVE_DIR && name_buf[n] == '/')
		name_buf[n] = 0;
	assert_string_equal(name_buf, a->name);
	assert_string_equal(link_buf, a->link ? a->link : "");
}

static void round_trip(const struct archive_entry *e, const char *data)
{
	static const size_t pieces[] = { 1, 7, 511, 512, 513, 4096, OUT };

	begin();
	add(e, data, NULL, 0);
	end();
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		struct seen s = read_all(pieces[i]);

		same(e, &s);
		if (data) {
			assert_int_equal(got_len, e->size);
			assert_memory_equal(got_data, data, e->size);
		}
	}
}

static void names_of_every_length(void **state)
{
	static const size_t lengths[] = { 1, 2, 98, 99, 100, 101, 102, 154, 155, 156, 157, 254, 255,
		256, 257, 258, 511, 512, 513, 1000, 4000, 4093, 4094 };
	static const char *const texts[] = { "abcdefghi/",
		"\x80\x9f\xa0\xbf\xff\xfe\xc0\xe0\xf0\x81" };
	static char name[ARCHIVE_MAX_NAME + 1];

	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
			size_t n = lengths[i];
			struct archive_entry e = { .type = kind == 1 ? ARCHIVE_DIR : ARCHIVE_FILE,
				.mode = 0640,
				.name = name };

			for (size_t k = 0; k < n; k++)
				name[k] = texts[kind == 2][k % 10];
			if (name[n - 1] == '/')
				name[n - 1] = 'z';
			name[n] = 0;
			round_trip(&e, kind == 1 ? NULL : "");
		}
	}
	memset(name, 'n', ARCHIVE_MAX_NAME);
	name[ARCHIVE_MAX_NAME] = 0;
	round_trip(&(struct archive_entry){ .name = name }, "");
}

static void every_type(void **state)
{
	static const struct archive_entry entries[] = {
		{ .type = ARCHIVE_DIR, .mode = 01777, .name = "." },
		{ .type = ARCHIVE_DIR, .mode = 0, .name = "a b" },
		{ .type = ARCHIVE_SYMLINK, .mode = 0777, .name = "l", .link = "/etc/passwd" },
		{ .type = ARCHIVE_SYMLINK, .mode = 0777, .name = "l", .link = "\xff\xfe\n" },
		{ .type = ARCHIVE_HARDLINK, .mode = 04755, .name = "h", .link = "x/y" },
		{ .type = ARCHIVE_FIFO, .mode = 0600, .name = "f" },
		{ .type = ARCHIVE_CHAR, .mode = 0666, .name = "null", .major = 1, .minor = 3 },
		{ .type = ARCHIVE_BLOCK_DEVICE,
			.mode = 0660,
			.name = "sda",
			.major = 2000000,
			.minor = 2097151 },
	};
	static char link[ARCHIVE_MAX_NAME + 1];

	(void)state;
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		round_trip(&entries[i], NULL);
	for (size_t n = 99; n <= ARCHIVE_MAX_NAME; n += n < 102 ? 1 : 1331) {
		memset(link, 'l', n);
		link[n] = 0;
		round_trip(
			&(struct archive_entry){
				.type = ARCHIVE_SYMLINK, .name = "s", .link = link },
			NULL);
	}
}

static void numbers_at_their_edges(void **state)
{
	static const uint32_t ids[] = { 0, 1000, 2097151, 2097152, 0x70000000, ARCHIVE_MAX_ID };
	static const int64_t times[] = { 0, 1, -1, 999999999, 1000000000, -1000000000, -1500000000,
		1764547200123456789, 8589934591000000000, 8589934592000000000,
		INT64_MAX - 2000000000, -9223372034000000000 };
	struct archive_entry e = { .mode = 07777, .name = "n" };

	(void)state;
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		e.uid = ids[i];
		e.gid = ARCHIVE_MAX_ID - ids[i];
		round_trip(&e, "");
	}
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		e.mtime_ns = times[i];
		round_trip(&e, "");
	}
}

/* Sizes that no test can store: the header alone, then the end is missed. */
static void great_sizes(void **state)
{
	static const uint64_t sizes[] = { (1ull << 33) - 1, 1ull << 33, 1ull << 40,
		(1ull << 62) - 1 };

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct archive_entry e = { .size = sizes[i], .name = "big" };
		struct seen s;

		begin();
		add(&e, NULL, NULL, 0);
		s = read_all(100);
		assert_int_equal(s.cause, ARCHIVE_TRUNCATED);
		assert_int_equal(s.entries, 1);
		assert_true(s.e.size == sizes[i]);
	}
}

static void data_come_back(void **state)
{
	static char data[40000];

	(void)state;
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i * 31 + i / 255);
	for (size_t n = 0; n < 1100; n += n < 3 ? 1 : 127)
		round_trip(&(struct archive_entry){ .size = n, .mtime_ns = 5, .name = "d" }, data);
	round_trip(&(struct archive_entry){ .size = sizeof data, .name = "d" }, data);
}

static void holes_come_back(void **state)
{
	static const struct archive_range some[] = { { 0, 3 }, { 4096, 100 }, { 30000, 0 } };
	static const struct archive_range none[] = { { 1ull << 40, 0 } };
	static struct archive_range many[ARCHIVE_MAX_RANGES];
	static char data[ARCHIVE_MAX_RANGES];
	struct archive_entry e = { .size = 30000, .name = "d/holes" };
	struct seen s;

	(void)state;
	begin();
	add(&e, "abcHIJ", some, 1);
	begin();
	memset(data, 'x', sizeof data);
	add(&e, data, some, 3);
	end();
	for (size_t piece = 1; piece < 2000; piece = piece * 3 + 1) {
		s = read_all(piece);
		same(&e, &s);
		assert_true(s.e.sparse);
		assert_int_equal(got_len, 103);
		assert_memory_equal(got_data + 4096, data, 100);
		assert_int_equal(got_data[3], 0);
		assert_int_equal(got_data[4196], 0);
	}
	e.size = 1ull << 40;
	begin();
	add(&e, "", none, 1);
	end();
	s = read_all(512);
	same(&e, &s);
	assert_int_equal(got_len, 0);

	for (size_t i = 0; i < ARCHIVE_MAX_RANGES; i++)
		many[i] = (struct archive_range){ 1 + 3 * i, 1 };
	e.size = 3 * ARCHIVE_MAX_RANGES;
	begin();
	add(&e, data, many, ARCHIVE_MAX_RANGES);
	end();
	s = read_all(10000);
	same(&e, &s);
	assert_int_equal(got_len, ARCHIVE_MAX_RANGES);
	for (size_t i = 0; i < ARCHIVE_MAX_RANGES; i++)
		assert_memory_equal(got_data + 3 * i, "\0x", 2);
}

static void the_writer_refuses(void **state)
{
	static const struct archive_range wrong[] = { { 5, 5 }, { 9, 1 } },
					  outside[] = { { 5, 6 } };
	static char name[ARCHIVE_MAX_NAME + 2];
	static uint8_t big[ARCHIVE_HEADER_CAP(2)];
	struct archive_entry bad[] = {
		{ .name = "" },
		{ .name = name },
		{ .type = ARCHIVE_SYMLINK, .name = "s", .link = "" },
		{ .type = ARCHIVE_SYMLINK, .name = "s", .link = name },
		{ .type = ARCHIVE_DIR, .name = "d", .size = 1 },
		{ .name = "f", .link = "x" },
		{ .name = "f", .uid = ARCHIVE_MAX_ID + 1u },
		{ .name = "f", .size = 1ull << 62 },
	};
	struct archive_entry e = { .size = 10, .name = "f" };

	(void)state;
	memset(name, 'n', sizeof name - 1);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(archive_put(big, sizeof big, &bad[i], NULL, 0), 0);
	assert_int_equal(archive_put(big, sizeof big, &e, wrong, 2), 0);
	assert_int_equal(archive_put(big, sizeof big, &e, outside, 1), 0);
	assert_int_equal(archive_put(big, ARCHIVE_HEADER_CAP(0) - 1, &e, NULL, 0), 0);
	assert_int_equal(archive_put(big, sizeof big, &e, NULL, 0), 512);
}

/* --- made by hand --- */

static void set(uint8_t *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)from[i];
}

static uint8_t *raw(char type, const char *name, const char *size)
{
	uint8_t *b = out + out_len;

	memset(b, 0, ARCHIVE_BLOCK);
	set(b, name, strlen(name));
	set(b + F_MODE, "0000644", 8);
	set(b + F_SIZE, size, strlen(size));
	set(b + F_MAGIC, "ustar\00000", 8);
	b[F_TYPE] = (uint8_t)type;
	out_len += ARCHIVE_BLOCK;
	return b;
}

static void seal(uint8_t *b)
{
	char text[16];
	unsigned sum = 0;

	memset(b + F_SUM, ' ', 8);
	for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
		sum += b[i];
	snprintf(text, sizeof text, "%06o", sum);
	memcpy(b + F_SUM, text, 7);
}

static void body(const char *text, size_t n)
{
	set(out + out_len, text, n);
	memset(out + out_len + n, 0, archive_padding(n));
	out_len += n + archive_padding(n);
}

static void extra(char type, const char *text, size_t n)
{
	char size[32];

	snprintf(size, sizeof size, "%011o", (unsigned)n);
	seal(raw(type, "PaxHeaders/x", size));
	body(text, n);
}

static void refused_as(enum archive_cause want)
{
	static const size_t pieces[] = { 1, 300, OUT };

	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		struct seen s = read_all(pieces[i]);

		if (s.cause != want)
			fail_msg("'%s' instead of '%s'", archive_cause_text(s.cause),
				archive_cause_text(want));
	}
}

static void pax_is(const char *records, enum archive_cause want)
{
	begin();
	extra('x', records, strlen(records));
	seal(raw('0', "f", "0"));
	end();
	refused_as(want);
}

static void pax_records(void **state)
{
	(void)state;
	pax_is("", ARCHIVE_CAUSE_NONE);
	pax_is("9 path=x\n", ARCHIVE_CAUSE_NONE);
	assert_string_equal(name_buf, "x");
	pax_is("9 path=x\n9 path=y\n", ARCHIVE_CAUSE_NONE);
	assert_string_equal(name_buf, "y");
	pax_is("009 path=\n", ARCHIVE_BAD_PAX);
	pax_is("010 path=\n", ARCHIVE_NAME_EMPTY);
	pax_is("8 path=x\n", ARCHIVE_BAD_PAX);
	pax_is("11 path=x\n", ARCHIVE_BAD_PAX);
	pax_is("9999999 path=x\n", ARCHIVE_BAD_PAX);
	pax_is("99999999999999999999 path=x\n", ARCHIVE_BAD_PAX);
	pax_is("-9 path=x\n", ARCHIVE_BAD_PAX);
	pax_is("0 path=x\n", ARCHIVE_BAD_PAX);
	pax_is(" 9 path=x\n", ARCHIVE_BAD_PAX);
	pax_is("9 pathxx\n", ARCHIVE_BAD_PAX);
	pax_is("9 path=xy", ARCHIVE_BAD_PAX);
	pax_is("5 =x\n", ARCHIVE_BAD_PAX);
	pax_is("9 path=x", ARCHIVE_BAD_PAX);
	pax_is("9 path=x\n5", ARCHIVE_BAD_PAX);
	pax_is("8 path=\n", ARCHIVE_NAME_EMPTY);
	pax_is("11 size=-1\n", ARCHIVE_BAD_NUMBER);
	pax_is("29 size=99999999999999999999\n", ARCHIVE_BAD_NUMBER);
	pax_is("18 uid=4294967296\n", ARCHIVE_BAD_NUMBER);
	pax_is("12 mtime=1.\n", ARCHIVE_CAUSE_NONE);
	pax_is("13 mtime=.5x\n", ARCHIVE_BAD_NUMBER);
	pax_is("34 mtime=99999999999999999999.5e3\n", ARCHIVE_BAD_NUMBER);
	pax_is("13 comment=x\n", ARCHIVE_CAUSE_NONE);
	pax_is("22 SCHILY.xattr.user=\n", ARCHIVE_CAUSE_NONE);
	assert_true(reader.entry.dropped);
	pax_is("20 GNU.sparse.map=0\n", ARCHIVE_OLD_SPARSE);
	pax_is("22 GNU.sparse.major=1\n", ARCHIVE_BAD_SPARSE);
	pax_is("22 GNU.sparse.major=2\n", ARCHIVE_OLD_SPARSE);
	begin();
	extra('x', "10 path=x\0\n", 11);
	refused_as(ARCHIVE_BAD_PAX);
	begin();
	extra('x', "11 path=x\0y\n", 12);
	refused_as(ARCHIVE_BAD_PAX);
	begin();
	extra('x', "12 path=x\0y\n", 12);
	refused_as(ARCHIVE_BAD_PAX);
}

static void pax_for_all(void **state)
{
	static const char global[] = "7 uid=5\n", times[] = "11 mtime=7\n", name[] = "9 path=x\n";
	struct seen s;

	(void)state;
	begin();
	extra('g', global, 8);
	refused_as(ARCHIVE_BAD_PAX);
	begin();
	extra('g', "8 uid=5\n", 8);
	extra('x', times, 11);
	seal(raw('0', "f", "0"));
	end();
	s = read_all(512);
	assert_int_equal(s.cause, ARCHIVE_CAUSE_NONE);
	assert_int_equal(s.e.uid, 5);
	assert_true(s.e.mtime_ns == 7000000000);
	begin();
	extra('g', name, 9);
	refused_as(ARCHIVE_BAD_PAX);
	begin();
	for (unsigned i = 0; i <= ARCHIVE_MAX_EXTRAS; i++)
		extra('g', "", 0);
	refused_as(ARCHIVE_TOO_MANY);
}

static void gnu_names(void **state)
{
	struct seen s;

	(void)state;
	begin();
	extra('L', "long/name", 10);
	extra('K', "target", 6);
	seal(raw('2', "short", "0"));
	end();
	s = read_all(1);
	assert_int_equal(s.cause, ARCHIVE_CAUSE_NONE);
	assert_string_equal(name_buf, "long/name");
	begin();
	extra('L', "a\0b", 4);
	refused_as(ARCHIVE_BAD_LONG_NAME);
	begin();
	extra('L', "\0\0\0", 3);
	refused_as(ARCHIVE_BAD_LONG_NAME);
	begin();
	extra('L', "", 0);
	refused_as(ARCHIVE_BAD_LONG_NAME);
	begin();
	seal(raw('L', "x", "0000777777"));
	refused_as(ARCHIVE_TOO_LONG);
	begin();
	seal(raw('K', "x", "0000010001"));
	refused_as(ARCHIVE_TOO_LONG);
	begin();
	extra('L', "x", 2);
	extra('L', "y", 2);
	refused_as(ARCHIVE_AMBIGUOUS);
	begin();
	extra('L', "x", 2);
	extra('x', "9 path=y\n", 9);
	refused_as(ARCHIVE_AMBIGUOUS);
	begin();
	extra('x', "9 path=y\n", 9);
	extra('L', "x", 2);
	refused_as(ARCHIVE_AMBIGUOUS);
	begin();
	extra('x', "", 0);
	extra('x', "", 0);
	refused_as(ARCHIVE_AMBIGUOUS);
	begin();
	extra('L', "x", 2);
	end();
	refused_as(ARCHIVE_TRUNCATED);
}

static void one_header(char type, const char *name, const char *size, enum archive_cause want)
{
	begin();
	seal(raw(type, name, size));
	end();
	refused_as(want);
}

static void headers(void **state)
{
	static const char huge[] = "\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
	static const char negative[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

	(void)state;
	one_header('0', "f", "00000000000", ARCHIVE_CAUSE_NONE);
	one_header('0', "f", "          0 ", ARCHIVE_CAUSE_NONE);
	one_header('0', "f", "0000000000x", ARCHIVE_BAD_NUMBER);
	one_header('0', "f", "00000000009", ARCHIVE_BAD_NUMBER);
	one_header('0', "f", "-0000000001", ARCHIVE_BAD_NUMBER);
	one_header('0', "f", huge, ARCHIVE_BAD_NUMBER);
	one_header('0', "f", negative, ARCHIVE_BAD_NUMBER);
	one_header('5', "d", "1", ARCHIVE_BAD_SIZE);
	one_header('1', "h", "1", ARCHIVE_BAD_SIZE);
	one_header('0', "d/", "1", ARCHIVE_BAD_SIZE);
	one_header('1', "h", "0", ARCHIVE_LINK_EMPTY);
	one_header('2', "s", "0", ARCHIVE_LINK_EMPTY);
	one_header('0', "", "0", ARCHIVE_NAME_EMPTY);
	one_header('M', "m", "0", ARCHIVE_BAD_TYPE);
	one_header('S', "s", "0", ARCHIVE_BAD_TYPE);
	one_header('\x80', "s", "0", ARCHIVE_BAD_TYPE);
	begin();
	raw('0', "f", "0");
	end();
	refused_as(ARCHIVE_NOT_TAR);
	begin();
	seal(raw('0', "f", "0"));
	raw('0', "f", "0")[F_SUM] = '1';
	end();
	refused_as(ARCHIVE_BAD_CHECKSUM);
	begin();
	memset(out, 0, ARCHIVE_BLOCK);
	out_len = ARCHIVE_BLOCK;
	seal(raw('0', "f", "0"));
	refused_as(ARCHIVE_LONE_ZERO);
}

static void truncated_everywhere(void **state)
{
	static const struct archive_range some[] = { { 0, 600 }, { 4096, 100 } };
	static char data[1000];
	struct archive_entry e = { .size = 9000, .mtime_ns = 5, .name = "d/holes" };
	size_t whole;

	(void)state;
	begin();
	add(&e, data, some, 2);
	e.size = 1000;
	add(&e, data, NULL, 0);
	whole = out_len;
	end();
	for (size_t n = 0; n < whole + ARCHIVE_BLOCK; n += 37) {
		struct seen s;

		out_len = n;
		s = read_all(113);
		assert_int_equal(s.cause, ARCHIVE_TRUNCATED);
		assert_false(s.end);
	}
	out_len = whole + ARCHIVE_BLOCK; /* one block of the end mark is enough */
	assert_int_equal(read_all(113).cause, ARCHIVE_CAUSE_NONE);
}

static uint8_t *old_sparse(const char *stored, const char *real, bool more)
{
	uint8_t *b = raw('S', "s", stored);

	set(b + F_MAGIC, "ustar  ", 8);
	set(b + F_SPARSE, "00000000000\00000000000003", 23);
	set(b + F_SPARSE + 24, "00000001000\00000000000002", 23);
	set(b + F_REAL_SIZE, real, strlen(real));
	b[F_SPARSE_MORE] = more;
	return b;
}

static void old_holes(void **state)
{
	struct seen s;

	(void)state;
	begin();
	seal(old_sparse("00000000005", "00000002000", false));
	body("abcXY", 5);
	end();
	s = read_all(3);
	assert_int_equal(s.cause, ARCHIVE_CAUSE_NONE);
	assert_int_equal(s.e.size, 1024);
	assert_int_equal(got_len, 5);
	assert_memory_equal(got_data, "abc\0", 4);
	assert_memory_equal(got_data + 512, "XY", 3);

	begin();
	seal(old_sparse("00000000006", "00000002000", true));
	set(out + out_len, "00000001700\00000000000001", 23);
	memset(out + out_len + 23, 0, ARCHIVE_BLOCK - 23);
	out_len += ARCHIVE_BLOCK;
	body("abcXYZ", 6);
	end();
	s = read_all(3);
	assert_int_equal(s.cause, ARCHIVE_CAUSE_NONE);
	assert_int_equal(got_data[01700], 'Z');

	begin();
	seal(old_sparse("00000000006", "00000002000", false));
	refused_as(ARCHIVE_BAD_SPARSE);
	begin();
	seal(old_sparse("00000000005", "00000000777", false));
	refused_as(ARCHIVE_BAD_SPARSE);
	begin();
	seal(old_sparse("00000000005", "00000002000", true));
	for (unsigned i = 0; i < ARCHIVE_MAX_RANGES / 21 + 3; i++) {
		memset(out + out_len, 0, ARCHIVE_BLOCK);
		out[out_len + F_MORE_MORE] = 1;
		out_len += ARCHIVE_BLOCK;
	}
	refused_as(ARCHIVE_TOO_MANY);
}

static void map_is(const char *map, const char *size, enum archive_cause want)
{
	static const char records[] = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
				      "28 GNU.sparse.realsize=1000\n";

	begin();
	extra('x', records, sizeof records - 1);
	seal(raw('0', "s", size));
	body(map, strlen(map));
	body("abc", 3);
	end();
	refused_as(want);
}

static void maps(void **state)
{
	(void)state;
	map_is("1\n5\n3\n", "1003", ARCHIVE_CAUSE_NONE);
	assert_memory_equal(got_data + 5, "abc", 3);
	map_is("2\n5\n3\n1000\n0\n", "1003", ARCHIVE_CAUSE_NONE);
	map_is("1\n998\n3\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("2\n5\n2\n6\n1\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("2\n5\n2\n2\n1\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("1\n5\n2\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("1\n5\n4\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("1\n5\n3\n", "777", ARCHIVE_BAD_SPARSE);
	map_is("1\n5\n3\n", "3", ARCHIVE_BAD_SPARSE);
	map_is("1\n-5\n3\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("\n5\n3\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("99999\n", "1003", ARCHIVE_TOO_MANY);
	map_is("1\n18446744073709551615\n3\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("1\n5\n9223372036854775807\n", "1003", ARCHIVE_BAD_SPARSE);
	map_is("1\n1", "3", ARCHIVE_BAD_SPARSE);
}

static void clean(const char *in, const char *want)
{
	char name[ARCHIVE_MAX_NAME + 1];

	snprintf(name, sizeof name, "%s", in);
	assert_int_equal(archive_clean_name(name), ARCHIVE_CAUSE_NONE);
	assert_string_equal(name, want);
}

static void unclean(const char *in, enum archive_cause want)
{
	char name[ARCHIVE_MAX_NAME + 1];

	snprintf(name, sizeof name, "%s", in);
	assert_int_equal(archive_clean_name(name), want);
}

static void clean_names(void **state)
{
	char name[ARCHIVE_MAX_NAME + 1], deep[2 * ARCHIVE_MAX_DEPTH + 3];

	(void)state;
	clean("a", "a");
	clean("./a//b/", "a/b");
	clean("./", ".");
	clean(".", ".");
	clean("././", ".");
	clean("a/./.b/..c/...", "a/.b/..c/...");
	unclean("", ARCHIVE_NAME_EMPTY);
	unclean("/", ARCHIVE_NAME_ABSOLUTE);
	unclean("/a", ARCHIVE_NAME_ABSOLUTE);
	unclean("..", ARCHIVE_NAME_DOTDOT);
	unclean("a/../b", ARCHIVE_NAME_DOTDOT);
	unclean("a/..", ARCHIVE_NAME_DOTDOT);
	unclean("./../a", ARCHIVE_NAME_DOTDOT);
	memset(name, 'p', 256);
	name[255] = 0;
	clean(name, name);
	name[255] = 'p';
	name[256] = 0;
	unclean(name, ARCHIVE_NAME_PART);
	for (size_t i = 0; i < ARCHIVE_MAX_DEPTH + 1; i++)
		memcpy(deep + 2 * i, "d/", 3);
	unclean(deep, ARCHIVE_NAME_DEEP);
	deep[2 * ARCHIVE_MAX_DEPTH] = 0;
	assert_int_equal(archive_clean_name(deep), ARCHIVE_CAUSE_NONE);
}

static void given_up(void **state)
{
	static const char text[] = "archive_too_large\nDo this.\nover 4 times\xff what fits";
	static const struct archive_entry file = { .name = "f", .size = 3 };
	static char longest[ARCHIVE_MAX_FAILURE + 1];

	(void)state;
	memset(longest, 'x', sizeof longest);
	for (int i = 0; i < 2; i++) {
		const char *t = i ? longest : text;
		size_t n = i ? ARCHIVE_MAX_FAILURE : sizeof text - 1, head;

		begin();
		add(&file, "abc", NULL, 0);
		head = archive_put_failure(out + out_len, sizeof out - out_len, t, n);
		assert_true(head && head % ARCHIVE_BLOCK == 0 && head <= ARCHIVE_FAILURE_CAP);
		out_len += head;
		refused_as(ARCHIVE_GIVEN_UP);
		assert_int_equal(strlen(archive_failure(&reader)), n);
		assert_memory_equal(archive_failure(&reader), t, n);
	}
	assert_int_equal(archive_put_failure(out, sizeof out, longest, sizeof longest), 0);
	assert_int_equal(archive_put_failure(out, ARCHIVE_FAILURE_CAP - 1, text, 4), 0);
	pax_is("19 BAILEY.failed=x\n", ARCHIVE_GIVEN_UP);
	begin();
	refused_as(ARCHIVE_TRUNCATED);
	assert_string_equal(archive_failure(&reader), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_every_length),
		cmocka_unit_test(every_type),
		cmocka_unit_test(numbers_at_their_edges),
		cmocka_unit_test(great_sizes),
		cmocka_unit_test(data_come_back),
		cmocka_unit_test(holes_come_back),
		cmocka_unit_test(the_writer_refuses),
		cmocka_unit_test(pax_records),
		cmocka_unit_test(pax_for_all),
		cmocka_unit_test(gnu_names),
		cmocka_unit_test(headers),
		cmocka_unit_test(truncated_everywhere),
		cmocka_unit_test(given_up),
		cmocka_unit_test(old_holes),
		cmocka_unit_test(maps),
		cmocka_unit_test(clean_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
