/* Owns `stats`.  Called by main.c. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum { EVERY_MS = 1000 };

static void put_number(struct json *j, const char *key, uint64_t v)
{
	if (v == UINT64_MAX)
		json_null(j, key);
	else
		json_uint(j, key, v);
}

static void put_json(struct buf *out, const char *id, const struct bailey_stats *s)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_string(&j, "id", id);
	put_number(&j, "cpu_us", s->cpu_us);
	put_number(&j, "memory_bytes", s->memory_bytes);
	put_number(&j, "memory_peak_bytes", s->memory_peak_bytes);
	put_number(&j, "memory_max_bytes", s->memory_max_bytes);
	put_number(&j, "pids", s->pids);
	put_number(&j, "pids_max", s->pids_max);
	put_number(&j, "pids_refused", s->pids_refused);
	put_number(&j, "disk_used_bytes", s->disk_used_bytes);
	put_number(&j, "disk_max_bytes", s->disk_max_bytes);
	put_number(&j, "oom_kills", s->oom_kills);
	put_number(&j, "spool_bytes", s->spool_bytes);
	json_object_end(&j);
	buf_puts(out, "\n");
}

static void add_bytes(struct buf *out, uint64_t v)
{
	if (v == UINT64_MAX)
		buf_puts(out, "-");
	else
		bytes_add(out, v);
}

/* One cell, as wide as its header: lines come one by one, so no width can be found out first. */
static void put_cell(struct buf *out, int width, struct buf *text)
{
	buf_printf(out, "%*s", width, text->data ? text->data : "-");
	buf_clear(text);
}

static void put_pair(struct buf *out, int width, uint64_t used, uint64_t max)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	add_bytes(&text, used);
	buf_puts(&text, " / ");
	add_bytes(&text, max);
	put_cell(out, width, &text);
}

static void put_line(struct buf *out, const struct bailey_stats *s)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (s->cpu_us != UINT64_MAX)
		buf_printf(&text, "%llu.%03llus", (unsigned long long)s->cpu_us / 1000000,
			(unsigned long long)s->cpu_us / 1000 % 1000);
	put_cell(out, 12, &text);
	put_pair(out, 19, s->memory_bytes, s->memory_max_bytes);
	add_bytes(&text, s->memory_peak_bytes);
	put_cell(out, 10, &text);
	if (s->pids != UINT64_MAX)
		buf_printf(&text, "%llu", (unsigned long long)s->pids);
	if (s->pids_max != UINT64_MAX)
		buf_printf(&text, " / %llu", (unsigned long long)s->pids_max);
	put_cell(out, 14, &text);
	put_pair(out, 19, s->disk_used_bytes, s->disk_max_bytes);
	add_bytes(&text, s->spool_bytes);
	put_cell(out, 10, &text);
	buf_puts(out, "\n");
}

static int print_once(const struct options *o, struct bailey_sandbox *s, bool header, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct bailey_error failure;
	struct bailey_stats stats;

	if (live_give(bailey_stats(s, &stats, &failure), &failure, e) < 0)
		return -1;
	if (header && !o->json)
		buf_printf(&out, "%12s%19s%10s%14s%19s%10s\n", "CPU", "MEMORY / MAX", "PEAK",
			"PIDS / MAX", "DISK / MAX", "OUTPUT");
	if (o->json)
		put_json(&out, bailey_sandbox_id(s), &stats);
	else
		put_line(&out, &stats);
	return cli_write(&out, e);
}

int verb_stats(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };

	(void)argc;
	if (live_connect(&l, o, argv[0], e) < 0 || print_once(o, l.s, true, e) < 0)
		return -1;
	cli_take_interrupts();
	while (o->follow) {
		if (cli_wait(EVERY_MS, e) < 0 || print_once(o, l.s, false, e) < 0)
			return -1;
	}
	return 0;
}
