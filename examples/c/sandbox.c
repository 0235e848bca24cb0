/* Sandboxes as a whole: make one, find it, ask about it, pause, stop, start and remove it; list what there is. */
#include <bailey.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bailey_error e;

/* Every call answers -1 and says why. */
static int must(int r)
{
	if (r >= 0)
		return r;
	(void)fprintf(stderr, "sandbox: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
	exit(1);
}

static int print_sandbox(void *arg, const struct bailey_info *info)
{
	(void)printf("%s %s %s%s\n", info->id, info->name, info->state,
		strcmp(info->id, arg) == 0 ? " <" : "");
	return 0;
}

static int print_state(void *arg, const char *key, const char *value)
{
	(void)arg;
	if (strcmp(key, "state") != 0)
		return 0;
	(void)printf("state %s\n", value);
	return 1;
}

static int print_usage(void *arg, const char *kind, const char *name, uint64_t bytes)
{
	(void)arg;
	(void)printf("%s %s %llu\n", kind, name, (unsigned long long)bytes);
	return 0;
}

int main(void)
{
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	char id[BAILEY_ID_SIZE], found[BAILEY_ID_SIZE];
	struct bailey_sandbox *s;
	struct bailey_stats stats;
	struct bailey *b;

	must(bailey_open(NULL, &b, &e));
	o.name = "example";
	o.disk = 256ull << 20;
	o.ttl_ms = 10 * 60000;
	must(bailey_create(b, &o, id, &e));
	must(bailey_find(b, "example", found, &e));
	must(bailey_list_sandboxes(b, print_sandbox, found, &e));

	must(bailey_connect(b, id, &s, &e));
	must(bailey_stats(s, &stats, &e));
	(void)printf("disk %llu\n", (unsigned long long)stats.disk_max_bytes);
	must(bailey_pause(s, &e));
	must(bailey_inspect(s, print_state, NULL, &e));
	must(bailey_resume(s, &e));
	must(bailey_stop(s, 1000, &e));
	must(bailey_inspect(s, print_state, NULL, &e));
	must(bailey_start(s, &e));
	must(bailey_inspect(s, print_state, NULL, &e));
	must(bailey_set_ttl(s, 60000, &e));
	must(bailey_remove(s, 0, 1, &e));
	bailey_disconnect(s);

	must(bailey_prune(b, 0, NULL, NULL, &e));
	must(bailey_df(b, print_usage, NULL, &e));
	bailey_close(b);
	return 0;
}
