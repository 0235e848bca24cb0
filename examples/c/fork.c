/* Two ways from one state: fork a sandbox, change each, see what changed; a snapshot as a point to come back to.
 *
 *     ./fork SANDBOX */
#include <bailey.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct bailey_error e;

static int must(int r)
{
	if (r >= 0)
		return r;
	(void)fprintf(stderr, "fork: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
	exit(1);
}

static int print_change(void *arg, const struct bailey_change *change)
{
	if (strstr(change->path, "way"))
		(void)printf("%s: %c %s\n", (const char *)arg, change->kind, change->path);
	return 0;
}

static size_t count_bytes(int fd)
{
	char data[65536];
	size_t all = 0;
	ssize_t n;

	while ((n = read(fd, data, sizeof data)) > 0)
		all += (size_t)n;
	(void)close(fd);
	return all;
}

int main(int argc, char **argv)
{
	static char first[] = "original", second[] = "fork";
	char id[BAILEY_ID_SIZE], snapshot[BAILEY_ID_SIZE];
	struct bailey_sandbox *s, *f;
	struct bailey *b;
	int fd;

	if (argc != 2)
		return 2;
	must(bailey_open(NULL, &b, &e));
	must(bailey_connect(b, argv[1], &s, &e));
	must(bailey_write(s, "/home/agent/way", "common", 6, 0, 0, &e));
	must(bailey_snapshot(s, NULL, snapshot, &e));
	must(bailey_fork(s, "second-way", id, &e));
	must(bailey_connect(b, id, &f, &e));
	must(bailey_write(s, "/home/agent/way-1", "one", 3, 0, 0, &e));
	must(bailey_write(f, "/home/agent/way-2", "two", 3, 0, 0, &e));
	must(bailey_changes(s, 0, print_change, first, &e));
	must(bailey_changes(f, 0, print_change, second, &e));
	must(bailey_changes_archive(f, 0, &fd, &e));
	(void)printf("the fork's changes as an archive: %s\n",
		count_bytes(fd) > 1024 ? "there" : "empty");
	bailey_disconnect(f);
	bailey_disconnect(s);
	must(bailey_remove_sandbox(b, "second-way", 0, 1, &e));
	must(bailey_remove_sandbox(b, snapshot, 0, 1, &e));
	bailey_close(b);
	return 0;
}
