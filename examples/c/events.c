/* What happens to the sandboxes of a home, until one is removed.
 *
 *     ./events [SANDBOX]       (with a SANDBOX: its own events, over its connection, until it stops) */
#include <bailey.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bailey_error e;

static int must(int r)
{
	if (r >= 0)
		return r;
	(void)fprintf(stderr, "events: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
	exit(1);
}

static int print_event(void *arg, const struct bailey_event *event)
{
	int *last = arg;

	(void)printf("%s %s %s\n", event->id, event->kind, event->rest);
	(void)fflush(stdout);
	if (strcmp(event->kind, "removed") == 0 || strcmp(event->kind, "stopped") == 0)
		*last = 1;
	return 0;
}

int main(int argc, char **argv)
{
	struct bailey_sandbox *s;
	struct bailey_watch *w;
	struct bailey *b;
	int last = 0;

	must(bailey_open(NULL, &b, &e));
	if (argc == 2) {
		must(bailey_connect(b, argv[1], &s, &e));
		must(bailey_on_event(s, print_event, &last, &e));
		while (!last)
			must(bailey_dispatch(s, -1, &e));
		bailey_disconnect(s);
	} else {
		must(bailey_watch(b, 1, &w, &e));
		while (!last)
			must(bailey_watch_next(w, -1, print_event, &last, &e));
		bailey_watch_free(w);
	}
	bailey_close(b);
	return 0;
}
