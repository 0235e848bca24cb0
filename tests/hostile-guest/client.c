/* A client of libbailey for what no verb of the command line asks: lists, searches, reads.  Says
 * how it ended as the command line does, so that batch.sh can judge it. */
#include <bailey.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long long entries, odd;

/* A name that would leave the directory, or that isn't one, must never come this far. */
static int on_entry(void *arg, const struct bailey_entry *entry)
{
	const char *searching = arg;

	entries++;
	if (!*entry->name || *entry->name == '/' || strcmp(entry->name, ".") == 0 ||
		strcmp(entry->name, "..") == 0 || strstr(entry->name, "../") ||
		(!searching && strchr(entry->name, '/')))
		odd++;
	return 0;
}

static int do_search(struct bailey_sandbox *s, struct bailey_error *e)
{
	struct bailey_search_options o = BAILEY_SEARCH_OPTIONS_INIT;
	static char searching[] = "yes";

	o.path = "/d";
	return bailey_search(s, &o, on_entry, searching, e);
}

static int do_read(struct bailey_sandbox *s, struct bailey_error *e)
{
	char data[4096];
	ssize_t n = bailey_read(s, "/f", 0, data, sizeof data, e);

	if (n >= 0)
		(void)printf("read %zd\n", n);
	return n < 0 ? -1 : 0;
}

static int do_stat(struct bailey_sandbox *s, struct bailey_error *e)
{
	struct bailey_stat st;
	int r = bailey_stat(s, "/d", 0, &st, e);

	if (r == 0)
		(void)printf("mode %o size %llu\n", st.mode, (unsigned long long)st.size);
	return r;
}

static int do_write(struct bailey_sandbox *s, struct bailey_error *e)
{
	size_t n = 9u << 20;
	char *data = calloc(1, n);
	int r = data ? bailey_write(s, "/f", data, n, 0, 0, e) : -1;

	free(data);
	return r;
}

static int ask(struct bailey_sandbox *s, const char *what, struct bailey_error *e)
{
	if (strcmp(what, "list") == 0)
		return bailey_list(s, "/d", 0, on_entry, NULL, e);
	if (strcmp(what, "search") == 0)
		return do_search(s, e);
	if (strcmp(what, "read") == 0)
		return do_read(s, e);
	if (strcmp(what, "stat") == 0)
		return do_stat(s, e);
	return do_write(s, e);
}

int main(int argc, char **argv)
{
	struct bailey_error e = { .reason = "" };
	struct bailey_sandbox *s = NULL;
	struct bailey *b = NULL;
	int r = -1;

	if (argc != 3)
		return 2;
	if (bailey_open(NULL, &b, &e) == 0 && bailey_connect(b, argv[1], &s, &e) == 0)
		r = ask(s, argv[2], &e);
	bailey_disconnect(s);
	bailey_close(b);
	if (odd) {
		(void)printf("%llu names that are none\n", odd);
		return 99;
	}
	if (r < 0) {
		(void)fprintf(
			stderr, "bailey: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
		return e.exit ? e.exit : 1;
	}
	(void)printf("%llu entries\n", entries);
	return 0;
}
