/* Many sandboxes that live and do nothing: how long they take to make and to remove, and what memory each keeps, owner,
 * channel process, guest and kernel together, by what the kernel says is available.  Called by bench.c. */
#include <bailey.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "door/cli/bench.h"

enum { SETTLE_IDLE_US = 1000000 };

struct bench_idle bench_idle;

uint64_t bench_available_kib(void)
{
	uint64_t kib = 0;
	char text[8192];
	const char *p;

	if (read_file_at(AT_FDCWD, "/proc/meminfo", text, sizeof text) < 0)
		return UINT64_MAX;
	p = strstr(text, "MemAvailable:");
	if (!p)
		return UINT64_MAX;
	for (p += strcspn(p, "0123456789\n"); *p >= '0' && *p <= '9'; p++)
		kib = kib * 10 + (uint64_t)(*p - '0');
	return kib;
}

int bench_idle_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	if (bench_available_kib() < 3 << 20)
		return bench_leave_out(row, BENCH_ABSENT, "needs 3 GiB of free memory");
	return bench_live_open(b, e);
}

static int make_all(char (*ids)[BAILEY_ID_SIZE], struct err *e)
{
	struct bailey_error failure;

	for (bench_idle.n = 0; bench_idle.n < BENCH_IDLE; bench_idle.n++) {
		if (bench_stop)
			return bench_interrupted(e);
		if (bailey_create(bench_live_home(), NULL, ids[bench_idle.n], &failure) < 0)
			return bench_live_failed(&failure, e);
	}
	return 0;
}

static int remove_all(char (*ids)[BAILEY_ID_SIZE], struct err *e)
{
	struct bailey_error failure;
	int r = 0;

	for (unsigned i = 0; i < bench_idle.n; i++)
		if (bailey_remove_sandbox(bench_live_home(), ids[i], 0, 1, &failure) < 0 && r == 0)
			r = bench_live_failed(&failure, e);
	return r;
}

/* The first call, which warms up, is the measurement: there is but one sample. */
int bench_idle_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	char(*ids)[BAILEY_ID_SIZE];
	uint64_t before, start;
	_cleanup_err_ struct err second = ERR_INIT;
	int r;

	(void)b;
	(void)row;
	if (bench_idle.create_ns) {
		*ret = bench_idle.create_ns;
		return 0;
	}
	ids = xcalloc(BENCH_IDLE, sizeof *ids);
	before = bench_available_kib();
	start = clock_ns(CLOCK_MONOTONIC);
	r = make_all(ids, e);
	if (r == 0) {
		uint64_t now;

		bench_idle.create_ns = clock_ns(CLOCK_MONOTONIC) - start;
		*ret = bench_idle.create_ns;
		(void)usleep(SETTLE_IDLE_US);
		now = bench_available_kib();
		bench_idle.kib_each = before > now ? (before - now) / BENCH_IDLE : 0;
	}
	start = clock_ns(CLOCK_MONOTONIC);
	if (remove_all(ids, r == 0 ? e : &second) < 0)
		r = -1;
	bench_idle.remove_ns = clock_ns(CLOCK_MONOTONIC) - start;
	free(ids);
	return r;
}
