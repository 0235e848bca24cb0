/* Owns tables on standard output: columns that are as wide as what is in them, one row a line.  Called by the verbs that
 * list; pure but for the clock. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum { GAP = 2, TABLE_MAX_TEXT = 256 << 20 };

void table_done(struct table *t)
{
	buf_done(&t->text);
}

/* Characters, not bytes: what cli_escape() leaves is printable UTF-8. */
static size_t characters(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static void add(struct table *t, const char *text)
{
	const unsigned column = t->filled % t->columns;
	const size_t n = characters(text);

	if (n > t->width[column])
		t->width[column] = n;
	buf_add(&t->text, text, strlen(text) + 1);
	t->filled++;
}

void table_begin(struct table *t, const char *headers)
{
	_cleanup_free_ char *words = xstrdup(headers);
	char *save = NULL;

	memset(t, 0, sizeof *t);
	t->text.max = TABLE_MAX_TEXT;
	t->columns = TABLE_MAX_COLUMNS;
	for (char *word = strtok_r(words, " ", &save); word && t->filled < TABLE_MAX_COLUMNS;
		word = strtok_r(NULL, " ", &save)) {
		t->right[t->filled] = *word == '>';
		add(t, *word == '>' ? word + 1 : word);
	}
	t->columns = t->filled;
}

void table_cell(struct table *t, const char *text)
{
	_cleanup_buf_ struct buf shown = { .max = TABLE_MAX_TEXT };

	if (text)
		cli_escape(&shown, text, strlen(text));
	add(t, shown.len ? shown.data : "-");
}

void table_number(struct table *t, uint64_t v)
{
	char text[24];

	add(t, v == UINT64_MAX ? "-" : FMT(text, "%llu", (unsigned long long)v));
}

void bytes_add(struct buf *out, uint64_t v)
{
	static const char units[] = "kmgt";
	uint64_t tenths;
	size_t unit = 0;

	if (v < 1024) {
		buf_printf(out, "%llu", (unsigned long long)v);
		return;
	}
	while (v >= 1024 * 1024 && unit < 3) {
		v /= 1024;
		unit++;
	}
	tenths = v / 1024 * 10 + v % 1024 * 10 / 1024;
	buf_printf(out, "%llu.%llu%c", (unsigned long long)tenths / 10,
		(unsigned long long)tenths % 10, units[unit]);
}

void table_bytes(struct table *t, uint64_t v)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (v == UINT64_MAX)
		buf_puts(&text, "-");
	else
		bytes_add(&text, v);
	add(t, text.data);
}

void table_age(struct table *t, uint64_t since_ms)
{
	static const struct {
		uint64_t seconds;
		char unit;
	} steps[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	const uint64_t now = clock_ns(CLOCK_REALTIME) / 1000000;
	const uint64_t age = now > since_ms ? (now - since_ms) / 1000 : 0;
	char text[32] = "0s";

	if (!since_ms) {
		add(t, "-");
		return;
	}
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		if (age < steps[i].seconds)
			continue;
		FMT(text, "%llu%c", (unsigned long long)(age / steps[i].seconds), steps[i].unit);
		break;
	}
	add(t, text);
}

/* The last column is as long as its text: nothing stands behind it. */
void table_put(struct table *t, struct buf *out)
{
	const char *cell = t->text.data;

	out->max = TABLE_MAX_TEXT;
	if (t->text.failed) {
		out->failed = true;
		return;
	}
	for (unsigned i = 0; i < t->filled; i++, cell += strlen(cell) + 1) {
		const unsigned column = i % t->columns;
		const bool last = column + 1 == t->columns;
		const int space = (int)(t->width[column] - characters(cell));

		if (t->right[column])
			buf_printf(out, "%*s%s", space, "", cell);
		else
			buf_printf(out, "%s%*s", cell, last ? 0 : space, "");
		if (last)
			buf_puts(out, "\n");
		else
			buf_printf(out, "%*s", GAP, "");
	}
}
