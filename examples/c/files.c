/* Files inside: write, read, list, search, archives, and trees copied in and out.
 *
 *     ./files SANDBOX DIRECTORY        (DIRECTORY of the host: copied in, and out again beside itself) */
#include <bailey.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct bailey_error e;

static int must(int r)
{
	if (r >= 0)
		return r;
	(void)fprintf(stderr, "files: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
	exit(1);
}

static int print_entry(void *arg, const struct bailey_entry *entry)
{
	(void)printf("%s %s", (const char *)arg, entry->name);
	if (entry->line)
		(void)printf(":%llu: %.*s", (unsigned long long)entry->line, (int)entry->text_size,
			entry->text);
	(void)printf("\n");
	return 0;
}

static void small_files(struct bailey_sandbox *s)
{
	static char listed[] = "listed", found[] = "found";
	struct bailey_search_options search = BAILEY_SEARCH_OPTIONS_INIT;
	struct bailey_stat st;
	char data[64];
	ssize_t n;

	must(bailey_mkdir(s, "/tmp/example/a/b", 0, BAILEY_PARENTS, &e));
	must(bailey_write(s, "/tmp/example/a/note", "first\nsecond\n", 13, 0600, 0, &e));
	must(bailey_stat(s, "/tmp/example/a/note", 0, &st, &e));
	(void)printf("%llu bytes, mode %o\n", (unsigned long long)st.size, st.mode & 0777);
	n = bailey_read(s, "/tmp/example/a/note", 6, data, sizeof data, &e);
	must((int)n);
	(void)printf("from byte 6: %.*s", (int)n, data);
	must(bailey_rename(s, "/tmp/example/a/note", "/tmp/example/a/letter", &e));
	must(bailey_list(s, "/tmp/example/a", 0, print_entry, listed, &e));
	search.path = "/tmp/example";
	search.pattern = "l*";
	search.text = "second";
	must(bailey_search(s, &search, print_entry, found, &e));
	if (bailey_unlink(s, "/tmp/example/none", 0, &e) < 0)
		(void)printf("as expected: %s\n", e.reason);
}

static void archives(struct bailey_sandbox *s)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		exit(1);
	must(bailey_tar_out(s, "/tmp/example/a", 0, fd, &e));
	if (lseek(fd, 0, SEEK_SET) < 0)
		exit(1);
	must(bailey_mkdir(s, "/tmp/example/copy", 0, 0, &e));
	must(bailey_tar_in(s, "/tmp/example/copy", 0, fd, &e));
	(void)close(fd);
	must(bailey_unlink(s, "/tmp/example", BAILEY_RECURSIVE, &e));
}

static void take_progress(void *arg, uint64_t bytes)
{
	*(uint64_t *)arg = bytes;
}

static void trees(struct bailey_sandbox *s, const char *dir)
{
	struct bailey_copied copied;
	uint64_t moved = 0;
	char out[4096];

	bailey_on_progress(s, take_progress, &moved);
	must(bailey_copy_in(s, dir, "/tmp/tree", 0, &copied, &e));
	bailey_on_progress(s, NULL, NULL);
	(void)printf("as an archive of %llu bytes\n", (unsigned long long)moved);
	(void)printf("in: %llu entries, %llu bytes\n", (unsigned long long)copied.entries,
		(unsigned long long)copied.bytes);
	(void)snprintf(out, sizeof out, "%s.out", dir);
	must(bailey_copy_out(s, "/tmp/tree", out, 0, &copied, &e));
	(void)printf("out: %llu entries, %llu bytes\n", (unsigned long long)copied.entries,
		(unsigned long long)copied.bytes);
	must(bailey_unlink(s, "/tmp/tree", BAILEY_RECURSIVE, &e));
}

int main(int argc, char **argv)
{
	struct bailey_sandbox *s;
	struct bailey *b;

	if (argc != 3)
		return 2;
	must(bailey_open(NULL, &b, &e));
	must(bailey_connect(b, argv[1], &s, &e));
	small_files(s);
	archives(s);
	trees(s, argv[2]);
	bailey_disconnect(s);
	bailey_close(b);
	return 0;
}
