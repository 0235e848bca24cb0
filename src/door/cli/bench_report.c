/* From samples to the table, the verdicts and JSON.  Called by bench.c. */
#include <string.h>
#include <sys/utsname.h>

#include "base/json.h"
#include "base/str.h"
#include "door/cli/bench.h"

struct summary {
	uint64_t median, p10, p90, min;
	uint64_t ratio; /* thousandths of the group's first row; 0: none */
};

struct verdict {
	const char *name;
	char text[160];
	uint64_t value, bound; /* thousandths, or MiB/s */
	bool at_most;
};

enum { MAX_VERDICTS = 24 };

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool measured(const struct bench_row *row)
{
	return row->wanted && row->state == BENCH_READY && row->n_samples > 0;
}

static uint64_t quantile(const struct bench_row *row, unsigned percent)
{
	return row->samples[(uint64_t)(row->n_samples - 1) * percent / 100];
}

static const struct bench_row *find(const struct bench_row *rows, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (streq(rows[i].name, name))
			return measured(&rows[i]) ? &rows[i] : NULL;
	return NULL;
}

static const struct bench_row *first_of(
	const struct bench_row *rows, unsigned n, enum bench_group group)
{
	for (unsigned i = 0; i < n; i++)
		if (rows[i].group == group)
			return measured(&rows[i]) ? &rows[i] : NULL;
	return NULL;
}

static struct summary summarize(
	const struct bench_row *rows, unsigned n, const struct bench_row *row)
{
	const struct bench_row *first = first_of(rows, n, row->group);
	struct summary s = { .median = quantile(row, 50),
		.p10 = quantile(row, 10),
		.p90 = quantile(row, 90),
		.min = row->samples[0] };

	if (first && quantile(first, 50))
		s.ratio = s.median * 1000 / quantile(first, 50);
	return s;
}

/* --- verdicts ------------------------------------------------------------------------------------------------------- */

static bool holds(const struct verdict *v)
{
	return v->at_most ? v->value <= v->bound : v->value >= v->bound;
}

static unsigned in_process(const struct bench_row *floor, const struct bench_row *engine,
	const char *name, const char *what, struct verdict *v)
{
	if (!floor || !engine)
		return 0;
	*v = (struct verdict){ .name = name,
		.value = quantile(engine, 50) * 1000 / (quantile(floor, 50) ?: 1),
		.bound = BENCH_MAX_IN_PROCESS,
		.at_most = true };
	(void)FMT(v->text, "in process, %s: %.2f x floor (at most %.1f)", what,
		(double)v->value / 1000, (double)v->bound / 1000);
	return 1;
}

static unsigned command(
	const struct bench_row *floor, const struct bench_row *run, struct verdict *v)
{
	uint64_t bound;

	if (!floor || !run)
		return 0;
	bound = quantile(floor, 50) * BENCH_MAX_COMMAND / 1000 + BENCH_COMMAND_EXTRA_NS;
	*v = (struct verdict){
		.name = "command", .value = quantile(run, 50), .bound = bound, .at_most = true
	};
	(void)FMT(v->text, "command: %.2f ms (at most 2 x floor + 1.5 ms = %.2f ms)",
		(double)v->value / 1e6, (double)bound / 1e6);
	return 1;
}

static unsigned peer(const struct bench_row *run, const struct bench_row *other, uint64_t bound,
	struct verdict *v)
{
	if (!run || !other)
		return 0;
	*v = (struct verdict){ .name = other->name,
		.value = quantile(other, 50) * 1000 / (quantile(run, 50) ?: 1),
		.bound = bound };
	if (bound)
		(void)FMT(v->text, "%s / bailey: %.2f (at least %.0f)", other->name,
			(double)v->value / 1000, (double)bound / 1000);
	else
		(void)FMT(v->text, "%s / bailey: %.2f", other->name, (double)v->value / 1000);
	return 1;
}

static unsigned stream(const struct bench_row *row, struct verdict *v)
{
	if (!row)
		return 0;
	*v = (struct verdict){
		.name = row->name, .value = quantile(row, 50), .bound = BENCH_MIN_STREAM_MIB
	};
	(void)FMT(
		v->text, "output %s: %.2f GiB/s (at least 1)", row->what, (double)v->value / 1024);
	return 1;
}

/* A time that must not be passed, in ms. */
static unsigned at_most(const struct bench_row *row, unsigned percent, uint64_t bound,
	const char *name, struct verdict *v)
{
	if (!row)
		return 0;
	*v = (struct verdict){
		.name = name, .value = quantile(row, percent), .bound = bound, .at_most = true
	};
	(void)FMT(v->text, "%s%s: %.2f ms (at most %.2f)", row->name, percent == 99 ? ", p99" : "",
		(double)v->value / 1e6, (double)bound / 1e6);
	return 1;
}

/* No more than so many thousandths of another row. */
static unsigned no_more_than(const struct bench_row *row, const struct bench_row *other,
	uint64_t bound, struct verdict *v)
{
	if (!row || !other)
		return 0;
	*v = (struct verdict){ .name = row->name,
		.value = quantile(row, 50) * 1000 / (quantile(other, 50) ?: 1),
		.bound = bound,
		.at_most = true };
	(void)FMT(v->text, "%s: %.2f x %s (at most %.1f)", row->what, (double)v->value / 1000,
		other->what, (double)bound / 1000);
	return 1;
}

static unsigned copy_speed(const struct bench_row *row, struct verdict *v)
{
	if (!row)
		return 0;
	*v = (struct verdict){
		.name = row->name, .value = quantile(row, 50), .bound = BENCH_MIN_STREAM_MIB
	};
	(void)FMT(v->text, "%s: %.2f GiB/s (at least 1)", row->what, (double)v->value / 1024);
	return 1;
}

static unsigned idle(const struct bench_row *row, struct verdict *v)
{
	const struct bench_idle *n = &bench_idle;

	if (!row)
		return 0;
	v[0] = (struct verdict){ .name = "idle_create",
		.value = n->create_ns / 1000000,
		.bound = BENCH_IDLE_MS,
		.at_most = true };
	v[1] = (struct verdict){ .name = "idle_memory",
		.value = n->kib_each,
		.bound = BENCH_IDLE_KIB,
		.at_most = true };
	v[2] = (struct verdict){ .name = "idle_remove",
		.value = n->remove_ns / 1000000,
		.bound = BENCH_IDLE_MS,
		.at_most = true };
	(void)FMT(v[0].text, "%u idle sandboxes: made in %.2f s (at most 4)", n->n,
		(double)v[0].value / 1000);
	(void)FMT(v[1].text, "each keeps %.2f MiB (at most 1.3)", (double)v[1].value / 1024);
	(void)FMT(v[2].text, "removed in %.2f s (at most 4)", (double)v[2].value / 1000);
	return 3;
}

static unsigned judge_live(const struct bench_row *rows, unsigned n, struct verdict *v)
{
	const struct bench_row *tar = find(rows, n, "tar-bare");
	unsigned k = 0;

	k += at_most(find(rows, n, "exec-nop"), 50, BENCH_EXEC_NS, "exec_nop", v + k);
	k += at_most(find(rows, n, "exec"), 50, BENCH_EXEC_NS, "exec", v + k);
	k += at_most(find(rows, n, "exec"), 99, BENCH_EXEC_P99_NS, "exec_p99", v + k);
	k += at_most(
		find(rows, n, "exec-command"), 50, BENCH_EXEC_COMMAND_NS, "exec_command", v + k);
	k += at_most(find(rows, n, "fork-stopped"), 50, BENCH_FORK_NS, "fork_stopped", v + k);
	k += no_more_than(find(rows, n, "fork-running"), find(rows, n, "copy-bare"), 1000, v + k);
	k += at_most(find(rows, n, "diff"), 50, BENCH_DIFF_NS, "diff", v + k);
	k += idle(find(rows, n, "idle"), v + k);
	k += no_more_than(find(rows, n, "cp-in"), tar, BENCH_MAX_TAR, v + k);
	k += no_more_than(find(rows, n, "cp-out"), tar, BENCH_MAX_TAR, v + k);
	k += copy_speed(find(rows, n, "cp-file-in"), v + k);
	k += copy_speed(find(rows, n, "cp-file-out"), v + k);
	return k;
}

static unsigned judge(const struct bench_row *rows, unsigned n, struct verdict *v)
{
	const struct bench_row *run = find(rows, n, "run");
	unsigned k = 0;

	k += in_process(find(rows, n, "floor"), find(rows, n, "engine"), "in_process",
		"a program that exits at once", v + k);
	k += in_process(find(rows, n, "floor-true"), find(rows, n, "engine-true"),
		"in_process_true", "/usr/bin/true", v + k);
	k += command(find(rows, n, "floor-command"), run, v + k);
	k += peer(run, find(rows, n, "bwrap"), 0, v + k);
	k += peer(run, find(rows, n, "runc"), BENCH_MIN_RUNC, v + k);
	k += stream(find(rows, n, "stream-pipe"), v + k);
	k += stream(find(rows, n, "stream-null"), v + k);
	k += stream(find(rows, n, "stream-file"), v + k);
	return k + judge_live(rows, n, v + k);
}

static void sort_samples(struct bench_row *rows, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (measured(&rows[i]))
			qsort(rows[i].samples, rows[i].n_samples, sizeof *rows[i].samples, compare);
}

/* --- text ----------------------------------------------------------------------------------------------------------- */

static void add_row(
	const struct bench_row *rows, unsigned n, const struct bench_row *row, struct buf *out)
{
	struct summary s = summarize(rows, n, row);
	double unit = row->group == GROUP_STREAM ? 1024 : 1e6;

	(void)buf_printf(out, "  %-30s %9.2f %9.2f %9.2f %9.2f", row->what, (double)s.median / unit,
		(double)s.p10 / unit, (double)s.p90 / unit, (double)s.min / unit);
	if (s.ratio)
		(void)buf_printf(out, " %8.2f", (double)s.ratio / 1000);
	(void)buf_puts(out, "\n");
}

static void add_title(const struct bench *b, enum bench_group group, struct buf *out)
{
	static const char *const titles[GROUP_MAX] = {
		[GROUP_NOP] = "In one process, ms: a program that exits at once",
		[GROUP_TRUE] = "In one process, ms: /usr/bin/true",
		[GROUP_COMMAND] = "As a command, ms: ",
		[GROUP_EXEC_NOP] = "In a sandbox that lives, ms: a program that exits at once",
		[GROUP_EXEC] = "In a sandbox that lives, ms: /usr/bin/true",
		[GROUP_FORK] = "Sandboxes that live, ms",
		[GROUP_COPY] = "Copies of 10,000 files, 100 MiB, ms",
		[GROUP_STREAM] = "Output of a command, and copies of a file, GiB/s",
	};

	(void)buf_printf(out, "\n%s", titles[group]);
	if (group == GROUP_COMMAND)
		(void)buf_puts(out, b->needs_mount ? b->command : "a program that exits at once");
	(void)buf_printf(
		out, "\n  %-30s %9s %9s %9s %9s %8s\n", "", "median", "p10", "p90", "min", "ratio");
}

static void add_group(const struct bench *b, const struct bench_row *rows, unsigned n,
	enum bench_group group, struct buf *out)
{
	bool any = false;

	for (unsigned i = 0; i < n; i++) {
		if (rows[i].group != group || !measured(&rows[i]))
			continue;
		if (!any)
			add_title(b, group, out);
		any = true;
		add_row(rows, n, &rows[i], out);
	}
}

static void add_head(const struct bench *b, struct buf *out)
{
	struct utsname u;

	(void)uname(&u);
	(void)buf_printf(out,
		"Linux %s, %ld CPUs, cgroup %s, uid %u, load %.2f before; %llu rounds\n", u.release,
		sysconf(_SC_NPROCESSORS_ONLN), b->tree.kind == CGROUP_V2 ? "v2" : "v1", geteuid(),
		(double)b->load_before / 100, (unsigned long long)b->o->iterations);
}

void bench_report_text(const struct bench *b, struct bench_row *rows, unsigned n, struct buf *out)
{
	struct verdict v[MAX_VERDICTS];
	unsigned k;
	bool first = true;

	sort_samples(rows, n);
	add_head(b, out);
	for (enum bench_group g = 0; g < GROUP_MAX; g++)
		add_group(b, rows, n, g, out);
	k = judge(rows, n, v);
	if (k)
		(void)buf_puts(out, "\n");
	for (unsigned i = 0; i < k; i++)
		(void)buf_printf(out, "%-5s %s\n",
			!v[i].bound            ? ""
				: holds(&v[i]) ? "holds"
					       : "OVER",
			v[i].text);
	for (unsigned i = 0; i < n; i++) {
		if (!rows[i].wanted || rows[i].state == BENCH_READY)
			continue;
		if (first)
			(void)buf_puts(out, "\n");
		first = false;
		(void)buf_printf(out, "%s: %s%s\n", rows[i].name,
			rows[i].state == BENCH_FAILED ? "could not run: " : "", rows[i].why);
	}
}

/* --- JSON ----------------------------------------------------------------------------------------------------------- */

static void put_host(struct json *j, const struct bench *b)
{
	struct utsname u;

	(void)uname(&u);
	json_object_begin(j, "host");
	json_string(j, "kernel", u.release);
	json_int(j, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
	json_string(j, "cgroup", b->tree.kind == CGROUP_V2 ? "v2" : "v1");
	json_uint(j, "uid", geteuid());
	json_uint(j, "load_hundredths", b->load_before);
	json_object_end(j);
}

static void put_row(
	struct json *j, const struct bench_row *rows, unsigned n, const struct bench_row *row)
{
	struct summary s = summarize(rows, n, row);

	json_object_begin(j, NULL);
	json_string(j, "name", row->name);
	json_string(j, "unit", row->group == GROUP_STREAM ? "MiB/s" : "ns");
	json_uint(j, "samples", row->n_samples);
	json_uint(j, "median", s.median);
	json_uint(j, "p10", s.p10);
	json_uint(j, "p90", s.p90);
	json_uint(j, "min", s.min);
	if (s.ratio)
		json_uint(j, "ratio_thousandths", s.ratio);
	else
		json_null(j, "ratio_thousandths");
	json_object_end(j);
}

void bench_report_json(const struct bench *b, struct bench_row *rows, unsigned n, struct buf *out)
{
	struct verdict v[MAX_VERDICTS];
	struct json j;
	unsigned k;

	sort_samples(rows, n);
	json_init(&j, out);
	json_object_begin(&j, NULL);
	put_host(&j, b);
	json_uint(&j, "rounds", b->o->iterations);
	json_string(&j, "command", b->command);
	json_array_begin(&j, "measurements");
	for (unsigned i = 0; i < n; i++)
		if (measured(&rows[i]))
			put_row(&j, rows, n, &rows[i]);
	json_array_end(&j);
	json_array_begin(&j, "verdicts");
	k = judge(rows, n, v);
	for (unsigned i = 0; i < k; i++) {
		json_object_begin(&j, NULL);
		json_string(&j, "name", v[i].name);
		json_string(&j, "text", v[i].text);
		json_uint(&j, "value", v[i].value);
		if (v[i].bound) {
			json_uint(&j, v[i].at_most ? "at_most" : "at_least", v[i].bound);
			json_bool(&j, "holds", holds(&v[i]));
		}
		json_object_end(&j);
	}
	json_array_end(&j);
	json_array_begin(&j, "left_out");
	for (unsigned i = 0; i < n; i++) {
		if (!rows[i].wanted || rows[i].state == BENCH_READY)
			continue;
		json_object_begin(&j, NULL);
		json_string(&j, "name", rows[i].name);
		json_bool(&j, "failed", rows[i].state == BENCH_FAILED);
		json_string(&j, "why", rows[i].why);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	(void)buf_puts(out, "\n");
}
