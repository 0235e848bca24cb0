/* Owns `events`.  Called by main.c. */
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum { MAX_FIELDS = 64 };

struct printer {
	const struct options *o;
	struct buf out;
};

static void put_time(struct buf *out, uint64_t time_ms)
{
	const time_t seconds = (time_t)(time_ms / 1000);
	struct tm tm;
	char text[32];

	if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm)) {
		buf_printf(out, "%llu", (unsigned long long)time_ms);
		return;
	}
	buf_printf(out, "%s.%03uZ", text, (unsigned)(time_ms % 1000));
}

static void put_text(struct buf *out, const struct bailey_event *event)
{
	put_time(out, event->time_ms);
	buf_puts(out, " ");
	cli_escape(out, event->id, strlen(event->id));
	buf_puts(out, " ");
	cli_escape(out, event->kind, strlen(event->kind));
	if (*event->rest) {
		buf_puts(out, " ");
		cli_escape(out, event->rest, strlen(event->rest));
	}
	buf_puts(out, "\n");
}

/* KEY=VALUE words; the rest of a word without '=' is its own value. */
static void put_fields(struct json *j, const char *rest)
{
	_cleanup_free_ char *copy = xstrdup(rest);
	char *save = NULL;
	unsigned n = 0;

	json_object_begin(j, "fields");
	for (char *word = strtok_r(copy, " ", &save); word && n < MAX_FIELDS;
		word = strtok_r(NULL, " ", &save), n++) {
		char *value = strchr(word, '=');

		if (value)
			*value++ = '\0';
		json_string(j, word, value ? value : "");
	}
	json_object_end(j);
}

static void put_json(struct buf *out, const struct bailey_event *event)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_uint(&j, "time_ms", event->time_ms);
	json_string(&j, "id", event->id);
	json_string(&j, "event", event->kind);
	put_fields(&j, event->rest);
	json_object_end(&j);
	buf_puts(out, "\n");
}

static int take_event(void *arg, const struct bailey_event *event)
{
	struct printer *p = arg;

	if (p->o->json)
		put_json(&p->out, event);
	else
		put_text(&p->out, event);
	return 0;
}

/* A reader of standard output that goes away ends it too, however long nothing happens. */
static int wait_for_more(const struct bailey_watch *w, struct err *e)
{
	struct pollfd fds[] = { { .fd = bailey_watch_fd(w), .events = POLLIN },
		{ .fd = STDOUT_FILENO } };

	if (poll(fds, 2, -1) < 0 && errno != EINTR)
		return err_set(e, R_IO_FAILED, errno, "wait for events");
	if (fds[1].revents & (POLLERR | POLLNVAL))
		return err_set(
			e, R_OUTPUT_FAILED, 0, "write to standard output: its reader has gone");
	return 0;
}

static int print_all(struct printer *p, struct bailey_watch *w, struct err *e)
{
	struct bailey_error failure;

	for (;;) {
		if (live_give(bailey_watch_next(w, 0, take_event, p, &failure), &failure, e) < 0)
			return -1;
		if (live_flush(&p->out, true, e) < 0)
			return -1;
		if (!p->o->follow)
			return 0;
		if (wait_for_more(w, e) < 0)
			return -1;
	}
}

int verb_events(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	struct printer p = { .o = o };
	struct bailey_watch *w = NULL;
	struct bailey_error failure;
	int r;

	(void)argc;
	(void)argv;
	cli_take_interrupts();
	if (live_open(&l, o, e) < 0 ||
		live_give(bailey_watch(l.home, 1, &w, &failure), &failure, e) < 0)
		return -1;
	r = print_all(&p, w, e);
	bailey_watch_free(w);
	buf_done(&p.out);
	return r;
}
