/* Archives that lie, sent in answer to TAR_OUT: the names, links and sizes of tests/archives come
 * from inside here, where a caller believes to copy a tree that it asked for. */
#include <stdio.h>
#include <string.h>

#include "hostile.h"

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[8], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};

static uint64_t sent;

static void put_octal(char *field, size_t n, uint64_t v)
{
	char text[32];

	(void)snprintf(text, sizeof text, "%0*llo", (int)n - 1, (unsigned long long)v);
	memcpy(field, text, n - 1);
}

static bool entry(struct peer *p, uint32_t stream, const char *name, char type, const char *link,
	uint32_t mode, uint64_t size)
{
	struct header h = { .type = type, .magic = { 'u', 's', 't', 'a', 'r', 0, '0', '0' } };
	const uint8_t *b = (const uint8_t *)&h;
	unsigned sum = 0;

	memcpy(h.name, name, strnlen(name, sizeof h.name));
	memcpy(h.link, link, strnlen(link, sizeof h.link));
	put_octal(h.mode, sizeof h.mode, mode);
	put_octal(h.uid, sizeof h.uid, 0);
	put_octal(h.gid, sizeof h.gid, 0);
	put_octal(h.size, sizeof h.size, size);
	put_octal(h.mtime, sizeof h.mtime, 1000000000);
	put_octal(h.major, sizeof h.major, 1);
	put_octal(h.minor, sizeof h.minor, 3);
	memset(h.sum, ' ', sizeof h.sum);
	for (size_t i = 0; i < sizeof h; i++)
		sum += b[i];
	put_octal(h.sum, 7, sum);
	sent += sizeof h;
	return send_data(p, stream, &h, sizeof h);
}

static bool file(struct peer *p, uint32_t stream, const char *name, uint32_t mode)
{
	char block[512] = "harm\n";

	sent += sizeof block;
	return entry(p, stream, name, '0', "", mode, 5) &&
		send_data(p, stream, block, sizeof block);
}

static void end(struct peer *p, uint32_t stream)
{
	static const char zeros[1024];

	(void)(send_data(p, stream, zeros, sizeof zeros) &&
		send_eof(p, stream, sent + sizeof zeros) && send_result(p, stream, 0, 0));
	sent = 0;
}

/* One file of that name, behind whatever the lie needs in front of it.  The tree that was asked
 * for is called d. */
static void named(struct peer *p, const struct wire_frame *f)
{
	static const char *const names[] = { "/var/tmp/bailey-hostile-landed", "../landed",
		"d/../../landed", "./../landed", "d/x\033[31m\nforged line", "", ".", "..",
		"d/.." };

	sent = 0;
	(void)(entry(p, f->stream, "d/", '5', "", 0755, 0) &&
		file(p, f->stream, names[the_lie->argument], 0644));
	end(p, f->stream);
}

/* A link, then a file through it; the landing place lies beside the target. */
static void through_link(struct peer *p, const struct wire_frame *f)
{
	static const char *const targets[] = { "../landing", "/var/tmp", "..",
		"/proc/self/cwd/.." };

	sent = 0;
	(void)(entry(p, f->stream, "d/", '5', "", 0755, 0) &&
		entry(p, f->stream, "d/l", '2', targets[the_lie->argument], 0777, 0) &&
		file(p, f->stream, "d/l/bailey-hostile-landed", 0644));
	end(p, f->stream);
}

/* The tree itself is a link; what is asked for is a directory. */
static void root_link(struct peer *p, const struct wire_frame *f)
{
	sent = 0;
	(void)(entry(p, f->stream, "d", '2', "../landing", 0777, 0) &&
		file(p, f->stream, "d/landed", 0644) && file(p, f->stream, "landed", 0644));
	end(p, f->stream);
}

/* A hard link to a file outside, then data through it. */
static void hard_link(struct peer *p, const struct wire_frame *f)
{
	static const char *const targets[] = { "../canary", "/etc/passwd", "d/none" };

	sent = 0;
	(void)(entry(p, f->stream, "d/", '5', "", 0755, 0) &&
		entry(p, f->stream, "d/h", '1', targets[the_lie->argument], 0644, 0) &&
		file(p, f->stream, "d/h", 0644));
	end(p, f->stream);
}

static void special(struct peer *p, const struct wire_frame *f)
{
	sent = 0;
	(void)(entry(p, f->stream, "d/", '5', "", 0755, 0) &&
		entry(p, f->stream, "d/s", (char)the_lie->argument, "", 0666, 0) &&
		file(p, f->stream, "d/f", 0644));
	end(p, f->stream);
}

static void setuid_file(struct peer *p, const struct wire_frame *f)
{
	sent = 0;
	(void)(entry(p, f->stream, "d/", '5', "", 07777, 0) &&
		file(p, f->stream, "d/setuid", 07777));
	end(p, f->stream);
}

/* A size that the host has no room for, and bytes without end. */
static void bomb(struct peer *p, const struct wire_frame *f)
{
	static uint8_t zeros[60000];

	sent = 0;
	if (!entry(p, f->stream, "d/", '5', "", 0755, 0) ||
		!entry(p, f->stream, "d/bomb", '0', "", 0644, 077777777777))
		return;
	for (uint64_t n = 0; n < 64ull << 20; n += sizeof zeros)
		if (!send_data(p, f->stream, zeros, sizeof zeros))
			return;
	(void)send_result(p, f->stream, 0, 0);
}

static void entries(struct peer *p, const struct wire_frame *f)
{
	sent = 0;
	while (entry(p, f->stream, "d/", '5', "", 0755, 0))
		;
}

static void deep(struct peer *p, const struct wire_frame *f)
{
	char name[100] = "";

	sent = 0;
	/* each level by a prefix of its own is not possible in a header: a record of pax says it */
	for (int i = 0; i < 48; i++) {
		name[2 * i] = 'd';
		name[2 * i + 1] = '/';
		if (!entry(p, f->stream, name, '5', "", 0755, 0))
			return;
	}
	(void)file(p, f->stream, "d/f", 0644);
	end(p, f->stream);
}

#define TEXT(s) { s, sizeof(s) - 1 }

/* A pax record whose length lies, or that says what a header may not. */
static void pax(struct peer *p, const struct wire_frame *f)
{
	static const struct {
		const char *text;
		size_t n;
	} records[] = { TEXT("99999999999 path=x\n"), TEXT("12 path=\0xx\n"),
		TEXT("21 path=../../landed\n"), TEXT("5 x\n"), TEXT("26 size=99999999999999999\n"),
		TEXT("-3 path=x\n") };
	char block[512] = "";
	size_t n = records[the_lie->argument].n;

	sent = 0;
	memcpy(block, records[the_lie->argument].text, n);
	(void)(entry(p, f->stream, "d/", '5', "", 0755, 0) &&
		entry(p, f->stream, "pax", 'x', "", 0644, n) &&
		send_data(p, f->stream, block, sizeof block) && file(p, f->stream, "d/f", 0644));
	sent += sizeof block;
	end(p, f->stream);
}

static void pax_huge(struct peer *p, const struct wire_frame *f)
{
	sent = 0;
	if (entry(p, f->stream, "pax", 'x', "", 0644, 1ull << 32))
		flood(p, f->stream, 64u << 20);
	(void)send_result(p, f->stream, 0, 0);
}

static void not_tar(struct peer *p, const struct wire_frame *f)
{
	static uint8_t junk[5000];

	memset(junk, 'j', sizeof junk);
	(void)(send_data(p, f->stream, junk, sizeof junk) && send_eof(p, f->stream, sizeof junk) &&
		send_result(p, f->stream, 0, 0));
}

static void cut(struct peer *p, const struct wire_frame *f)
{
	(void)(entry(p, f->stream, "d/", '5', "", 0755, 0) &&
		entry(p, f->stream, "d/f", '0', "", 0644, 100000) &&
		send_data(p, f->stream, "words", 5) && send_eof(p, f->stream, 1029) &&
		send_result(p, f->stream, 0, 0));
}

static void empty(struct peer *p, const struct wire_frame *f)
{
	(void)(send_eof(p, f->stream, 0) && send_result(p, f->stream, 0, 0));
}

static void swap(struct peer *p, const struct wire_frame *f)
{
	sent = 0;
	(void)(entry(p, f->stream, "d/", '5', "", 0755, 0) &&
		entry(p, f->stream, "d/x/", '5', "", 0755, 0) &&
		file(p, f->stream, "d/x/f", 0644) &&
		entry(p, f->stream, "d/x", '2', "../../landing", 0777, 0) &&
		file(p, f->stream, "d/x/landed", 0644));
	end(p, f->stream);
}

static void never(struct peer *p, const struct wire_frame *f)
{
	(void)p;
	(void)f;
}

static void stops(struct peer *p, const struct wire_frame *f)
{
	sent = 0;
	(void)entry(p, f->stream, "d/", '5', "", 0755, 0);
}

const struct lie tar_lies[] = {
	{ "tar-absolute", WIRE_TAR_OUT, named, 0 },
	{ "tar-dotdot", WIRE_TAR_OUT, named, 1 },
	{ "tar-dotdot-inside", WIRE_TAR_OUT, named, 2 },
	{ "tar-dotdot-dot", WIRE_TAR_OUT, named, 3 },
	{ "tar-control", WIRE_TAR_OUT, named, 4 },
	{ "tar-empty-name", WIRE_TAR_OUT, named, 5 },
	{ "tar-dot", WIRE_TAR_OUT, named, 6 },
	{ "tar-just-dotdot", WIRE_TAR_OUT, named, 7 },
	{ "tar-ends-dotdot", WIRE_TAR_OUT, named, 8 },
	{ "tar-link-out", WIRE_TAR_OUT, through_link, 0 },
	{ "tar-link-absolute", WIRE_TAR_OUT, through_link, 1 },
	{ "tar-link-up", WIRE_TAR_OUT, through_link, 2 },
	{ "tar-link-magic", WIRE_TAR_OUT, through_link, 3 },
	{ "tar-root-link", WIRE_TAR_OUT, root_link, 0 },
	{ "tar-hard-link-out", WIRE_TAR_OUT, hard_link, 0 },
	{ "tar-hard-link-absolute", WIRE_TAR_OUT, hard_link, 1 },
	{ "tar-hard-link-none", WIRE_TAR_OUT, hard_link, 2 },
	{ "tar-char-device", WIRE_TAR_OUT, special, '3' },
	{ "tar-block-device", WIRE_TAR_OUT, special, '4' },
	{ "tar-fifo", WIRE_TAR_OUT, special, '6' },
	{ "tar-type-unknown", WIRE_TAR_OUT, special, 'Q' },
	{ "tar-setuid", WIRE_TAR_OUT, setuid_file, 0 },
	{ "tar-bomb", WIRE_TAR_OUT, bomb, 0 },
	{ "tar-entries", WIRE_TAR_OUT, entries, 0 },
	{ "tar-deep", WIRE_TAR_OUT, deep, 0 },
	{ "tar-pax-length", WIRE_TAR_OUT, pax, 0 },
	{ "tar-pax-nul", WIRE_TAR_OUT, pax, 1 },
	{ "tar-pax-dotdot", WIRE_TAR_OUT, pax, 2 },
	{ "tar-pax-short", WIRE_TAR_OUT, pax, 3 },
	{ "tar-pax-size", WIRE_TAR_OUT, pax, 4 },
	{ "tar-pax-negative", WIRE_TAR_OUT, pax, 5 },
	{ "tar-pax-huge", WIRE_TAR_OUT, pax_huge, 0 },
	{ "tar-junk", WIRE_TAR_OUT, not_tar, 0 },
	{ "tar-cut", WIRE_TAR_OUT, cut, 0 },
	{ "tar-nothing", WIRE_TAR_OUT, empty, 0 },
	{ "tar-swap", WIRE_TAR_OUT, swap, 0 },
	{ "tar-never", WIRE_TAR_OUT, never, 0 },
	{ "tar-stops", WIRE_TAR_OUT, stops, 0 },
	{ NULL, 0, NULL, 0 },
};
