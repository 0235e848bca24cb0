/* How fast a command's output reaches the caller: dd writes blocks of 128 KiB inside, the caller drains a pipe by splice, or
 * the output is /dev/null or a file.  Called by bench.c. */
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "door/cli/bench.h"

enum {
	STREAM_MIB = 4096,
	STREAM_FILE_MIB = 512, /* stays in the page cache of a small machine */
	BLOCKS_PER_MIB = 8,    /* of 128 KiB, the size that cat(1) writes */
};

static uint64_t size_mib(const struct bench_row *row)
{
	return streq(row->name, "stream-file") ? STREAM_FILE_MIB : STREAM_MIB;
}

int bench_stream_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	(void)e;
	if (!streq(row->name, "stream-bare")) {
		bench_arg(&row->args, "%s", b->bailey);
		bench_arg(&row->args, "run");
		bench_arg(&row->args, "--");
	}
	bench_arg(&row->args, "/usr/bin/dd");
	bench_arg(&row->args, "if=/dev/zero");
	bench_arg(&row->args, "bs=128k");
	bench_arg(&row->args, "count=%llu", (unsigned long long)size_mib(row) * BLOCKS_PER_MIB);
	bench_arg(&row->args, "status=none");
	return 0;
}

/* Everything up to the end; the bytes that came. */
static uint64_t drain(int from)
{
	_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	uint64_t total = 0;

	for (;;) {
		ssize_t n = splice(from, NULL, null, NULL, 1 << 20, SPLICE_F_MOVE);

		if (n < 0 && errno == EINTR && !bench_stop)
			continue;
		if (n <= 0)
			return total;
		total += (uint64_t)n;
	}
}

static int through_pipe(struct bench *b, struct bench_row *row, uint64_t *ret_bytes, struct err *e)
{
	_cleanup_close_ int from = -1, to = -1;
	pid_t pid;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	from = p[0];
	to = p[1];
	if (bench_spawn(b, row->args.v, to, &pid, e) < 0)
		return -1;
	to = close_fd(to);
	*ret_bytes = drain(from);
	from = close_fd(from);
	return bench_wait(pid, e);
}

static int into_file(struct bench *b, struct bench_row *row, uint64_t *ret_bytes, struct err *e)
{
	_cleanup_close_ int file = -1;
	off_t end;
	pid_t pid;
	int status;

	if (streq(row->name, "stream-file"))
		file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	else
		file = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open what the output goes to");
	if (bench_spawn(b, row->args.v, file, &pid, e) < 0)
		return -1;
	status = bench_wait(pid, e);
	end = lseek(file, 0, SEEK_END);
	*ret_bytes = streq(row->name, "stream-file") ? (uint64_t)(end > 0 ? end : 0)
						     : size_mib(row) << 20;
	return status;
}

int bench_stream_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), bytes = 0, ns;
	bool piped = streq(row->name, "stream-pipe") || streq(row->name, "stream-bare");
	int status = piped ? through_pipe(b, row, &bytes, e) : into_file(b, row, &bytes, e);

	if (status < 0)
		return -1;
	ns = clock_ns(CLOCK_MONOTONIC) - start;
	if (bench_stop)
		return bench_interrupted(e);
	if (status != 0 || bytes != size_mib(row) << 20)
		return err_set(e, R_SETUP_FAILED, 0,
			"measure '%s': wait status %d, %llu bytes of %llu", row->name, status,
			(unsigned long long)bytes, (unsigned long long)size_mib(row) << 20);
	*ret = size_mib(row) * 1000000000u / (ns ?: 1);
	return 0;
}
