/* Owns watching what happens: the file of a home's events, and the events of one sandbox over its connection.  Called by
 * users of the library. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "client/client.h"

struct bailey_watch {
	int dir;    /* $HOME/sandbox */
	int file;   /* the events; -1: none yet */
	int notify; /* inotify over dir */
	ino_t inode;
	bool from_start;
	struct pieces pieces;
	bailey_event_fn *fn;
	void *arg;
	int n;
};

/* TIME_MS ID KIND[ REST] */
static int event_parse(char *line, char *copy, size_t cap, struct bailey_event *ret)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	char *save = NULL, *time, *id, *kind, *rest;

	*ret = (struct bailey_event){ .size = sizeof *ret, .line = line, .rest = "" };
	if (strlen(line) >= cap)
		return -1;
	str_format(copy, cap, "%s", line);
	time = strtok_r(copy, " ", &save);
	id = strtok_r(NULL, " ", &save);
	kind = strtok_r(NULL, " ", &save);
	rest = strtok_r(NULL, "", &save);
	if (!kind || parse_u64(time, 0, UINT64_MAX, "time", &ret->time_ms, &ignored) < 0)
		return -1;
	ret->id = id;
	ret->kind = kind;
	if (rest)
		ret->rest = rest;
	return 0;
}

/* A line that isn't an event is passed over: the file is appended to by many processes, one of which may be killed. */
static int take_line(void *arg, uint8_t *p, size_t n, struct err *e)
{
	struct bailey_watch *w = arg;
	char copy[4096];
	struct bailey_event event;

	(void)e;
	if (strlen((char *)p) != n || event_parse((char *)p, copy, sizeof copy, &event) < 0)
		return 0;
	w->n++;
	/* the lines behind it are given at the next call all the same */
	(void)w->fn(w->arg, &event);
	return 0;
}

static int open_file(struct bailey_watch *w, bool at_end, struct err *e)
{
	struct stat st;

	w->file = sys_openat2(w->dir, "events", O_RDONLY | O_NONBLOCK, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (w->file < 0 && errno == ENOENT)
		return 0;
	if (w->file < 0 || fstat(w->file, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, R_IO_FAILED, errno, "open the events");
	w->inode = st.st_ino;
	if (at_end)
		(void)lseek(w->file, 0, SEEK_END);
	return 0;
}

static int make_home(const char *home, int *ret, struct err *e)
{
	_cleanup_free_ char *path = xasprintf("%s/sandbox", home);

	if (make_dirs(path, e) < 0)
		return -1;
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_set(e, R_STATE_UNWRITABLE, errno, "open '%s'", path) : 0;
}

static int watch(const struct bailey *b, bool from_start, struct bailey_watch **ret, struct err *e)
{
	struct bailey_watch *w = calloc(1, sizeof *w);
	char path[64];

	if (!w)
		return err_set(e, R_NO_MEMORY, ENOMEM, "watch events");
	w->dir = w->file = -1;
	w->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	w->pieces = (struct pieces){ .kind = PIECES_LINES, .each = take_line, .arg = w };
	if (w->notify < 0)
		err_set(e, R_NO_MEMORY, errno, "watch events");
	else if (make_home(b->home, &w->dir, e) < 0)
		;
	else if (inotify_add_watch(w->notify, FMT(path, "/proc/self/fd/%d", w->dir),
			 IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
		err_set(e, R_IO_FAILED, errno, "watch '%s/sandbox'", b->home);
	else if (open_file(w, !from_start, e) == 0) {
		*ret = w;
		return 0;
	}
	bailey_watch_free(w);
	return -1;
}

int bailey_watch(
	struct bailey *b, int from_start, struct bailey_watch **ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(watch(b, from_start != 0, ret, &err), e, &err);
}

int bailey_watch_fd(const struct bailey_watch *w)
{
	return w->notify;
}

/* What is there; then the file that took its place, if it was rotated. */
static int read_events(struct bailey_watch *w, struct err *e)
{
	char data[16384];
	struct stat st;
	ssize_t n;

	for (;;) {
		if (w->file < 0 && open_file(w, false, e) < 0)
			return -1;
		if (w->file < 0)
			return 0;
		while ((n = read(w->file, data, sizeof data)) > 0)
			if (pieces_feed(&w->pieces, (const uint8_t *)data, (size_t)n, e) < 0)
				return -1;
		if (n < 0)
			return err_set(e, R_IO_FAILED, errno, "read the events");
		if (fstatat(w->dir, "events", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			st.st_ino == w->inode)
			return 0;
		w->file = close_fd(w->file);
		buf_clear(&w->pieces.held);
	}
}

static int watch_next(struct bailey_watch *w, int timeout_ms, struct err *e)
{
	char drained[4096];
	struct pollfd p = { .fd = w->notify, .events = POLLIN };

	for (;;) {
		while (read(w->notify, drained, sizeof drained) > 0)
			;
		if (read_events(w, e) < 0)
			return -1;
		if (w->n || poll(&p, 1, timeout_ms) <= 0)
			return w->n;
	}
}

int bailey_watch_next(struct bailey_watch *w, int timeout_ms, bailey_event_fn *fn, void *arg,
	struct bailey_error *e)
{
	struct err err = ERR_INIT;

	w->fn = fn;
	w->arg = arg;
	w->n = 0;
	return client_give(watch_next(w, timeout_ms, &err), e, &err);
}

void bailey_watch_free(struct bailey_watch *w)
{
	if (!w)
		return;
	(void)close_fd(w->dir);
	(void)close_fd(w->file);
	(void)close_fd(w->notify);
	pieces_done(&w->pieces);
	free(w);
}

/* --- of one sandbox --- */

struct sandbox_events {
	struct pieces_stream p;
	bailey_event_fn *fn;
	void *arg;
};

static int take_told(void *arg, uint8_t *p, size_t n, struct err *e)
{
	struct sandbox_events *s = arg;
	char copy[4096];
	struct bailey_event event;

	if (strlen((char *)p) != n || event_parse((char *)p, copy, sizeof copy, &event) < 0)
		return err_set(e, R_WIRE_MALFORMED, 0, "read an event: a line is wrong");
	return s->fn(s->arg, &event) != 0;
}

static int told_data(struct stream *st, unsigned lane, const uint8_t *p, size_t n, struct err *e)
{
	return pieces_ops.data(st, lane, p, n, e);
}

static void told_free(struct stream *st)
{
	struct sandbox_events *s = (struct sandbox_events *)st;

	pieces_done(&s->p.pieces);
	free(s);
}

static void told_over(struct stream *st)
{
	if (st->conn->events == st)
		st->conn->events = NULL;
	stream_end(st);
}

static const struct stream_ops told_ops = {
	.data = told_data, .done = told_over, .free = told_free
};

static int on_event(struct bailey_sandbox *s, bailey_event_fn *fn, void *arg, struct err *e)
{
	struct wire_events m = { .flags = 0 };
	struct sandbox_events *o;

	if (s->events)
		told_over(s->events);
	if (!fn)
		return 0;
	if (conn_check(s, e) < 0)
		return -1;
	o = calloc(1, sizeof *o);
	if (!o)
		return err_set(e, R_NO_MEMORY, ENOMEM, "watch '%s'", s->id);
	o->fn = fn;
	o->arg = arg;
	o->p.pieces = (struct pieces){ .kind = PIECES_LINES, .each = take_told, .arg = o };
	stream_begin(s, &o->p.st, &told_ops);
	m.stream = o->p.st.number;
	s->events = &o->p.st;
	if (conn_put(s, events, &m, e) < 0 || conn_flush(s, e) < 0) {
		if (s->events)
			told_over(s->events);
		return -1;
	}
	return 0;
}

int bailey_on_event(
	struct bailey_sandbox *s, bailey_event_fn *fn, void *arg, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(on_event(s, fn, arg, &err), e, &err);
}
