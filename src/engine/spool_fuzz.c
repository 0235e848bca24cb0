/* Feeds any bytes as the files of a spool: found again, read to the end, written on, read again. */
#include "engine/spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int dir = -1;

static void open_dir(void)
{
	char path[] = "/dev/shm/bailey-spool-fuzz-XXXXXX";

	if (!mkdtemp(path) || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		abort();
}

static void put_file(const char *name, const uint8_t *p, size_t n)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	(void)close(fd);
}

/* Every byte that is said to be kept must come, and no other. */
static void read_all_of(const struct spool_output *o)
{
	static uint8_t buf[SPOOL_RECORD_MAX + SPOOL_RECORD_HEAD];
	struct spool_cursor c;
	uint64_t bytes = 0;
	size_t n;

	cursor_begin(o, &c);
	while ((n = cursor_read(o, &c, buf, sizeof buf))) {
		size_t at = 0, left;
		const uint8_t *p;
		unsigned lane;
		bool any = false;

		while (record_next(&c, buf, n, &at, &lane, &p, &left)) {
			any = true;
			bytes += left;
			cursor_used(&c, left, 0);
		}
		if (!any)
			abort();
	}
	if (bytes != output_pos(o) - output_dropped(o))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const uint64_t none[2] = { 0, 0 };
	struct spool s = { .index = -1 };
	struct spool_output o;
	struct spool_slot slot;
	size_t first;

	if (dir < 0)
		open_dir();
	if (n < 2)
		return 0;
	first = (size_t)(data[0] | data[1] << 8) % n;
	data += 2;
	n -= 2;
	if (first > n)
		first = n;
	put_file("1.0", data, first);
	put_file("1.1", data + first, n - first);
	put_file("index", data, n);
	if (spool_open(&s, dir, SPOOL_MIN) < 0)
		abort();
	for (unsigned i = 0; i < 4; i++)
		(void)spool_read_slot(&s, i, &slot);
	output_init(&o, 1);
	output_load(&s, &o, none);
	read_all_of(&o);
	output_append(&s, &o, 1, (const uint8_t *)"abc", 3, true);
	read_all_of(&o);
	output_remove(&s, &o);
	spool_close(&s);
	return 0;
}
