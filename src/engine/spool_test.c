/* Output that is kept: order and counts exact, bounded, found again after a death in the middle of a write, readable when the
 * disk is full. */
#include "engine/spool.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"

enum { BUF = SPOOL_RECORD_MAX + SPOOL_RECORD_HEAD };

struct box {
	char dir[64];
	int fd;
	struct spool s;
	struct spool_output o;
};

static const uint64_t none[2] = { 0, 0 };

static void open_box(struct box *b, uint64_t max)
{
	memset(b, 0, sizeof *b);
	FMT(b->dir, "/tmp/bailey-spool-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	b->fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(b->fd >= 0);
	assert_int_equal(spool_open(&b->s, b->fd, max), 0);
	output_init(&b->o, 7);
	b->o.loaded = true;
}

static void close_box(struct box *b)
{
	output_remove(&b->s, &b->o);
	assert_int_equal(faccessat(b->fd, "7.0", F_OK, 0), -1);
	assert_int_equal(faccessat(b->fd, "7.1", F_OK, 0), -1);
	assert_int_equal(b->s.kept, 0);
	spool_close(&b->s);
	(void)unlinkat(b->fd, "index", 0);
	(void)close(b->fd);
	assert_int_equal(rmdir(b->dir), 0);
}

/* As another process would find it. */
static void load_again(struct box *b, const uint64_t came[2])
{
	for (unsigned i = 0; i < 2; i++)
		b->o.segments[i].fd = close_fd(b->o.segments[i].fd);
	b->s.kept = 0;
	output_init(&b->o, 7);
	output_load(&b->s, &b->o, came);
	for (unsigned i = 0; i < 2; i++)
		b->s.kept += b->o.segments[i].fd >= 0 ? b->o.segments[i].size : 0;
}

static uint8_t byte_at(unsigned lane, uint64_t at)
{
	return (uint8_t)(at * 31 + at / 251 + lane * 7);
}

static void put(struct box *b, unsigned lane, size_t n)
{
	static uint8_t data[SPOOL_RECORD_MAX];

	for (size_t i = 0; i < n; i++)
		data[i] = byte_at(lane, b->o.total[lane] + i);
	output_append(&b->s, &b->o, lane, data, n, true);
}

/* Reads all, in pieces of `step`; each byte must be the one that was written there.  from: where the lanes begin. */
static void check_all(struct box *b, size_t step, uint64_t from0, uint64_t from1)
{
	static uint8_t buf[BUF];
	uint64_t at_lane[2] = { from0, from1 };
	struct spool_cursor c;
	size_t n;

	cursor_begin(&b->o, &c);
	assert_int_equal(c.pos, from0 + from1);
	assert_int_equal(c.dropped, from0 + from1);
	while ((n = cursor_read(&b->o, &c, buf, sizeof buf))) {
		size_t at = 0, left;
		const uint8_t *p;
		unsigned lane;
		bool any = false;

		while (record_next(&c, buf, n, &at, &lane, &p, &left)) {
			const size_t take = left < step ? left : step;

			any = true;
			for (size_t i = 0; i < take; i++)
				assert_int_equal(p[i], byte_at(lane, at_lane[lane] + i));
			at_lane[lane] += take;
			cursor_used(&c, take, left - take);
			if (take < left)
				break;
		}
		assert_true(any);
	}
	assert_int_equal(at_lane[0], b->o.total[0]);
	assert_int_equal(at_lane[1], b->o.total[1]);
	assert_int_equal(c.pos, output_pos(&b->o));
}

/* ... from where the oldest segment that is kept begins. */
static void check_kept(struct box *b, size_t step)
{
	const struct spool_segment *g = &b->o.segments[!b->o.current];

	if (g->fd < 0)
		g = &b->o.segments[b->o.current];
	check_all(b, step, g->start[0], g->start[1]);
}

static void test_replay(void **state)
{
	struct box b;

	(void)state;
	open_box(&b, 1 << 20);
	for (unsigned i = 1; i < 200; i++)
		put(&b, i % 3 == 0, i * 7 % 1000 + 1);
	check_all(&b, SIZE_MAX, 0, 0);
	check_all(&b, 1, 0, 0);
	check_all(&b, 333, 0, 0);
	assert_int_equal(output_dropped(&b.o), 0);
	load_again(&b, none);
	check_all(&b, 333, 0, 0);
	close_box(&b);
}

/* Whatever comes, between half of the maximum and all of it is kept, and what went is counted. */
static void test_bounded(void **state)
{
	const uint64_t max = 128 << 10;
	struct spool_cursor c;
	uint8_t buf[BUF];
	struct box b;

	(void)state;
	open_box(&b, max);
	cursor_begin(&b.o, &c);
	for (unsigned i = 0; i < 3000; i++) {
		put(&b, i % 5 == 0, 1000);
		assert_true(b.s.kept <= max + BUF);
	}
	assert_true(b.s.kept >= max / 2);
	assert_int_equal(output_pos(&b.o), 3000000);
	assert_true(
		output_dropped(&b.o) > 2800000 && output_dropped(&b.o) < 3000000 - max / 2 + BUF);
	check_kept(&b, SIZE_MAX);
	/* a reader that was left behind is told how much it missed */
	assert_true(cursor_read(&b.o, &c, buf, sizeof buf) > 0);
	assert_int_equal(c.dropped, output_dropped(&b.o));
	load_again(&b, none);
	assert_int_equal(output_pos(&b.o), 3000000);
	check_kept(&b, 77);
	close_box(&b);
}

/* Somebody waits for every byte: then nothing is dropped. */
static void test_held(void **state)
{
	uint8_t data[1000];
	struct box b;

	(void)state;
	open_box(&b, 128 << 10);
	for (unsigned i = 0; i < 500; i++) {
		for (size_t k = 0; k < sizeof data; k++)
			data[k] = byte_at(0, b.o.total[0] + k);
		output_append(&b.s, &b.o, 0, data, sizeof data, false);
	}
	assert_true(output_full(&b.s, &b.o));
	assert_int_equal(output_dropped(&b.o), 0);
	check_all(&b, SIZE_MAX, 0, 0);
	close_box(&b);
}

/* Cut at every byte of the last record: what was whole before is found, and written on from there. */
static void test_cut(void **state)
{
	struct box b;
	struct stat st;
	off_t whole;

	(void)state;
	for (unsigned cut = 1; cut <= 100 + SPOOL_RECORD_HEAD; cut++) {
		open_box(&b, 1 << 20);
		put(&b, 0, 5000);
		put(&b, 1, 60);
		assert_int_equal(fstat(b.o.segments[0].fd, &st), 0);
		whole = st.st_size;
		put(&b, 0, 100);
		assert_int_equal(
			ftruncate(b.o.segments[0].fd, whole + 100 + SPOOL_RECORD_HEAD - (off_t)cut),
			0);
		load_again(&b, none);
		assert_int_equal(b.o.total[0], 5000);
		assert_int_equal(b.o.total[1], 60);
		put(&b, 0, 100);
		check_all(&b, SIZE_MAX, 0, 0);
		load_again(&b, none);
		assert_int_equal(b.o.total[0], 5100);
		check_all(&b, 50, 0, 0);
		close_box(&b);
	}
}

/* A writer that is killed at any moment. */
static void test_killed(void **state)
{
	struct box b;
	unsigned with_data = 0;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		pid_t pid;

		open_box(&b, 1 << 20);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			for (unsigned k = 0;; k++)
				put(&b, k & 1, 1 + k * 997 % 60000);
		(void)usleep(500 + i * 200);
		(void)kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		load_again(&b, none);
		with_data += output_pos(&b.o) > 0;
		check_kept(&b, SIZE_MAX);
		put(&b, 0, 1000);
		load_again(&b, none);
		close_box(&b);
	}
	assert_true(with_data > 20);
}

/* Garbage in the files is never taken for output. */
static void test_damaged(void **state)
{
	uint8_t junk[4096];
	struct box b;
	int fd;

	(void)state;
	memset(junk, 0xa5, sizeof junk);
	open_box(&b, 1 << 20);
	put(&b, 0, 3000);
	put(&b, 0, 3000);
	fd = b.o.segments[0].fd;
	/* in the second record */
	assert_int_equal(pwrite(fd, junk, 20, SPOOL_HEAD + SPOOL_RECORD_HEAD + 3000), 20);
	load_again(&b, none);
	assert_int_equal(b.o.total[0], 3000);
	/* in the head */
	assert_int_equal(pwrite(b.o.segments[0].fd, junk, 8, 8), 8);
	load_again(&b, none);
	assert_int_equal(output_pos(&b.o), 0);
	assert_int_equal(b.o.segments[0].fd, -1);
	/* what is known to have come counts as dropped then */
	load_again(&b, (const uint64_t[2]){ 3000, 5 });
	assert_int_equal(output_pos(&b.o), 3005);
	assert_int_equal(output_dropped(&b.o), 3005);
	put(&b, 0, 10);
	check_all(&b, SIZE_MAX, 3000, 5);
	close_box(&b);
}

static void test_index(void **state)
{
	struct spool_slot slot = { .id = 9, .state = 1, .status = 3, .args_len = 6 }, got;
	char args[SPOOL_ARGS];
	struct box b;

	(void)state;
	open_box(&b, 1 << 20);
	assert_int_equal(spool_read_slot(&b.s, 3, &got), 0);
	assert_int_equal(spool_write_slot(&b.s, 3, &slot, "a\0bcd\0"), 0);
	assert_int_equal(spool_read_slot(&b.s, 3, &got), 1);
	assert_int_equal(got.status, 3);
	assert_int_equal(spool_read_args(&b.s, 3, &got, args), 6);
	assert_memory_equal(args, "a\0bcd\0", 6);
	slot.status = 4;
	assert_int_equal(spool_write_slot(&b.s, 3, &slot, NULL), 0);
	assert_int_equal(spool_read_slot(&b.s, 3, &got), 1);
	assert_int_equal(got.status, 4);
	assert_int_equal(spool_read_args(&b.s, 3, &got, args), 6);
	assert_memory_equal(args, "a\0bcd\0", 6);
	assert_int_equal(spool_read_slot(&b.s, 2, &got), 0);
	assert_int_equal(pwrite(b.s.index, "x", 1, 3 * SPOOL_SLOT + 20), 1);
	assert_int_equal(spool_read_slot(&b.s, 3, &got), 0);
	close_box(&b);
}

/* A file may not grow beyond 100 KB: as good as a full disk. */
static void test_full_disk(void **state)
{
	struct rlimit old, small = { 100000, RLIM_INFINITY };
	struct box b;
	uint64_t kept;

	(void)state;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small.rlim_max = old.rlim_max;
	open_box(&b, 1 << 20);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (unsigned i = 0; i < 95; i++)
		put(&b, 0, 1000);
	assert_false(output_in_memory(&b.o));
	kept = b.s.kept;
	for (unsigned i = 0; i < 60; i++) {
		put(&b, i & 1, 1000);
		assert_true(b.s.kept <= kept + 5000);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(output_pos(&b.o), 155000);
	assert_true(output_in_memory(&b.o));
	assert_int_equal(output_dropped(&b.o), 0);
	/* the part on disk and the newest part are there */
	check_all(&b, SIZE_MAX, 0, 0);
	for (unsigned i = 0; i < 1000; i++)
		put(&b, 0, 1000);
	assert_int_equal(output_pos(&b.o), 1155000);
	assert_true(output_dropped(&b.o) > 700000);
	assert_true(b.o.segments[!b.o.current].kept[0] >= 95000);
	close_box(&b);
}

static void check_all_of(const struct box *b, uint64_t want)
{
	static uint8_t buf[BUF];
	struct spool_cursor c;
	const uint8_t *p;
	uint64_t got = 0;
	unsigned lane;
	size_t n, left;

	cursor_begin(&b->o, &c);
	while ((n = cursor_read(&b->o, &c, buf, sizeof buf))) {
		size_t at = 0;

		while (record_next(&c, buf, n, &at, &lane, &p, &left)) {
			got += left;
			cursor_used(&c, left, 0);
		}
	}
	assert_int_equal(got, want);
	assert_int_equal(c.dropped, 0);
}

static void append(struct box *b, unsigned times, bool may_rotate)
{
	static const uint8_t data[1000];

	while (times--)
		output_append(&b->s, &b->o, 0, data, sizeof data, may_rotate);
}

/* The disk gets full while both segments are being read: the newest goes on in memory. */
static void test_full_disk_while_somebody_reads(void **state)
{
	struct spool_segment *newest;
	struct box b;
	char name[16];
	int fd;

	(void)state;
	open_box(&b, SPOOL_MIN);
	append(&b, 60, false);
	newest = &b.o.segments[b.o.current];
	assert_true(b.o.segments[!b.o.current].fd >= 0 && newest->fd >= 0);
	/* as good as a full disk: a descriptor that can't be written to */
	fd = openat(b.fd, FMT(name, "7.%u", b.o.current), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && dup3(fd, newest->fd, O_CLOEXEC) >= 0);
	(void)close(fd);
	append(&b, 100, false);
	assert_true(output_in_memory(&b.o));
	assert_false(b.o.segments[!b.o.current].memory);
	assert_int_equal(faccessat(b.fd, name, F_OK, 0), -1);
	assert_int_equal(output_pos(&b.o), 160000);
	assert_int_equal(output_dropped(&b.o), 0);
	check_all_of(&b, 160000);
	close_box(&b);
}

/* No room from the beginning: two segments in memory take turns, and a reader finds its way from one to the other. */
static void test_no_disk_at_all(void **state)
{
	struct spool_cursor c;
	struct box b;

	(void)state;
	open_box(&b, 1 << 20);
	b.s.dir = -1;
	append(&b, 1, true);
	cursor_begin(&b.o, &c);
	while (!output_full(&b.s, &b.o))
		append(&b, 1, true);
	append(&b, 1, true);
	assert_true(b.o.segments[0].memory && b.o.segments[1].memory);
	assert_int_equal(output_dropped(&b.o), 0);
	check_all_of(&b, output_pos(&b.o));
	append(&b, 600, true);
	assert_true(output_dropped(&b.o) > 0);
	b.s.dir = b.fd;
	close_box(&b);
}

/* A reader that had read the part on disk, and part of what followed in memory and is gone. */
static void test_reader_behind_what_is_gone(void **state)
{
	static uint8_t buf[BUF];
	struct spool_cursor c;
	struct box b;
	size_t n;

	(void)state;
	open_box(&b, SPOOL_MIN);
	append(&b, 33, true);
	b.s.dir = -1;
	append(&b, 1, true);
	assert_true(output_in_memory(&b.o));
	cursor_skip(&b.o, &c);
	c.dropped = 0;
	append(&b, 100, true);
	n = cursor_read(&b.o, &c, buf, sizeof buf);
	assert_true(n > 0 && c.seq == b.o.segments[b.o.current].seq);
	assert_true(c.dropped > 0);
	b.s.dir = b.fd;
	close_box(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_full_disk_while_somebody_reads),
		cmocka_unit_test(test_no_disk_at_all),
		cmocka_unit_test(test_reader_behind_what_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
