/* Many sandboxes that live and do nothing: how long they take to make and to remove, by as many callers at a time as there
 * are processors, and what memory each keeps, owner, channel process, guest and kernel together, by what the kernel says is
 * available.  Called by bench.c. */
#include <bailey.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "door/cli/bench.h"

enum { SETTLE_IDLE_US = 1000000, MAX_WORKERS = 8 };

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

/* What the processes that make and remove share with the one that measures. */
struct shared {
	char ids[BENCH_IDLE][BAILEY_ID_SIZE];
	struct bailey_error failure; /* of whichever failed first */
	int failed;
};

static struct shared *shared;

static void note_failure(const struct bailey_error *failure)
{
	int no = 0;

	if (__atomic_compare_exchange_n(
		    &shared->failed, &no, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		shared->failure = *failure;
}

/* Each of the workers takes every n-th: one process at a time would leave the other processors idle. */
static _Noreturn void work(unsigned first, unsigned step, bool removes)
{
	struct bailey_error failure;

	for (unsigned i = first; i < BENCH_IDLE && (removes || !bench_stop); i += step) {
		char *id = shared->ids[i];

		if (removes && !*id)
			continue;
		if (removes ? bailey_remove_sandbox(bench_live_home(), id, 0, 1, &failure) < 0
			    : bailey_create(bench_live_home(), NULL, id, &failure) < 0) {
			*id = '\0';
			note_failure(&failure);
			if (!removes)
				_exit(1);
		}
	}
	_exit(0);
}

static unsigned n_workers(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > MAX_WORKERS ? MAX_WORKERS : (unsigned)n;
}

static int run_all(bool removes, struct err *e)
{
	unsigned step = n_workers(), n = 0;
	pid_t pids[MAX_WORKERS];

	shared->failed = 0;
	for (; n < step; n++) {
		pids[n] = fork();
		if (pids[n] == 0)
			work(n, step, removes);
		if (pids[n] < 0)
			break;
	}
	for (unsigned i = 0; i < n; i++)
		do
			if (bench_stop)
				(void)kill(pids[i], SIGTERM);
		while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR);
	if (n < step)
		return err_set(e, R_SETUP_FAILED, errno, "start a process");
	if (shared->failed)
		return bench_live_failed(&shared->failure, e);
	return bench_stop && !removes ? bench_interrupted(e) : 0;
}

static unsigned count_made(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < BENCH_IDLE; i++)
		n += *shared->ids[i] != '\0';
	return n;
}

static int measure(uint64_t *ret, struct err *e)
{
	_cleanup_err_ struct err second = ERR_INIT;
	uint64_t before = bench_available_kib(), start = clock_ns(CLOCK_MONOTONIC);
	int r = run_all(false, e);

	bench_idle.n = count_made();
	if (r == 0) {
		uint64_t now;

		bench_idle.create_ns = clock_ns(CLOCK_MONOTONIC) - start;
		*ret = bench_idle.create_ns;
		(void)usleep(SETTLE_IDLE_US);
		now = bench_available_kib();
		bench_idle.kib_each = before > now ? (before - now) / BENCH_IDLE : 0;
	}
	start = clock_ns(CLOCK_MONOTONIC);
	if (run_all(true, r == 0 ? e : &second) < 0)
		r = -1;
	bench_idle.remove_ns = clock_ns(CLOCK_MONOTONIC) - start;
	return r;
}

/* The first call, which warms up, is the measurement: there is but one sample. */
int bench_idle_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	int r;

	(void)b;
	(void)row;
	if (bench_idle.create_ns) {
		*ret = bench_idle.create_ns;
		return 0;
	}
	shared = mmap(
		NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return err_set(e, R_NO_MEMORY, errno, "share memory");
	r = measure(ret, e);
	(void)munmap(shared, sizeof *shared);
	return r;
}
