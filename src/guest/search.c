/* Searches a tree: names by a pattern, and lines of files by a plain text.  Called by the link; goes on a few entries or one
 * piece of a file at a time.  Must hold: no link is followed, /proc and /sys are left out, and only regular files that the
 * workload may read are opened; what can't be read is passed over. */
#include <errno.h>
#include <fcntl.h>

#include "guest/glob.h"
#include "guest/walk.h"

enum {
	MAX_TEXT = 1024,
	MAX_LINE = 512, /* bytes of a line that are told */
	PIECE = 64 << 10,
};

struct search {
	struct walk walk;
	uint32_t flags, max, n;
	uint64_t max_size;
	char pattern[256];
	bool whole_path; /* the pattern has a slash */
	char text[MAX_TEXT];
	size_t text_len;
	/* the file that is read */
	int fd; /* -1: none */
	struct stat st;
	uint64_t line;
	bool told;  /* the present line was */
	bool first; /* nothing was read yet */
	size_t have;
	char path[WIRE_MAX_PATH];
	uint32_t path_len;
	uint8_t record[RECORD_MAX];
	uint8_t buffer[PIECE + MAX_TEXT];
};

static bool step(struct stream *s);
static void work(struct stream *s);
static void give_up(struct stream *s);

static const struct stream_ops search_ops = {
	.lanes = 1, .step = step, .room = work, .close = give_up
};

static void work(struct stream *s)
{
	stream_work(s);
}

static void close_file(struct search *q)
{
	if (q->fd >= 0)
		close_quietly(q->fd);
	q->fd = -1;
}

static void give_up(struct stream *s)
{
	struct search *q = s->memory;

	if (!q)
		return;
	close_file(q);
	walk_end(&q->walk);
}

static void end(struct stream *s, uint32_t error)
{
	give_up(s);
	stream_result(s, error, ((struct search *)s->memory)->n);
}

/* False when that was one too many. */
static bool put(struct stream *s, struct search *q, uint64_t size, const uint8_t *line, size_t len)
{
	struct record r = { .name = q->path,
		.name_len = q->path_len,
		.target = (const char *)line,
		.target_len = (uint32_t)len,
		.size = size };

	if (q->n == q->max) {
		s->flags |= WIRE_RESULT_TRUNCATED;
		return false;
	}
	q->n++;
	return lane_put(s, 0, q->record, record_put(q->record, &q->st, &r));
}

/* --- lines --- */

static bool ignores_case(const struct search *q)
{
	return q->flags & WIRE_SEARCH_IGNORE_CASE;
}

/* A line, or as much of it as there is. */
static bool look_at_line(struct stream *s, struct search *q, const uint8_t *p, size_t n)
{
	if (q->told || text_find(p, n, q->text, q->text_len, ignores_case(q)) < 0)
		return true;
	q->told = true;
	return put(s, q, q->line, p, min_u64(n, MAX_LINE));
}

static size_t line_length(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] != '\n')
		i++;
	return i;
}

/* Looks at the lines in the buffer; what may go on stays there.  More than one step's worth of matches can't be in it: a record
 * is longer than its line's part in the buffer by the path at most, for which room is checked before. */
static bool look_at_lines(struct stream *s, struct search *q, bool at_end)
{
	size_t at = 0, n;

	while (at < q->have) {
		const uint8_t *p = q->buffer + at;

		if (lane_room(&s->out[0]) < RECORD_MAX)
			break;
		n = line_length(p, q->have - at);
		if (at + n == q->have && !at_end)
			break;
		if (!look_at_line(s, q, p, n))
			return false;
		at += min_u64(n + 1, q->have - at);
		q->line++;
		q->told = false;
	}
	q->have -= at;
	memmove(q->buffer, q->buffer + at, q->have);
	return true;
}

/* A line that fills the buffer: its beginning is looked at and goes, but for what a match could begin in. */
static bool shorten_line(struct stream *s, struct search *q)
{
	size_t keep = q->text_len - 1;

	if (line_length(q->buffer, q->have) < q->have)
		return true;
	if (!look_at_line(s, q, q->buffer, q->have))
		return false;
	memmove(q->buffer, q->buffer + q->have - keep, keep);
	q->have = keep;
	return true;
}

static bool has_nul(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!p[i])
			return true;
	return false;
}

/* One piece of the file; false: the search is over. */
static bool read_piece(struct stream *s, struct search *q)
{
	long n;

	if (q->have == sizeof q->buffer && !shorten_line(s, q))
		return false;
	/* full of lines for which the lane had no room: those first */
	if (q->have == sizeof q->buffer)
		return look_at_lines(s, q, false);
	n = sys3(SYS_read, q->fd, q->buffer + q->have, sizeof q->buffer - q->have);
	/* binary files are no text */
	if (n < 0 || (q->first && n > 0 && has_nul(q->buffer, (size_t)n))) {
		close_file(q);
		return true;
	}
	q->first = false;
	q->have += (size_t)n;
	if (!look_at_lines(s, q, n == 0))
		return false;
	if (n == 0 && !q->have)
		close_file(q);
	return true;
}

static void open_file(struct search *q, const char *name)
{
	long fd;

	if (!S_ISREG(q->st.st_mode) || (uint64_t)q->st.st_size > q->max_size)
		return;
	fd = sys4(SYS_openat, q->walk.dir, name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	q->fd = (int)fd;
	if (sys2(SYS_fstat, fd, &q->st) < 0 || !S_ISREG(q->st.st_mode))
		close_file(q);
	q->line = 1;
	q->have = 0;
	q->told = false;
	q->first = true;
}

/* --- names --- */

static bool matches(const struct search *q, const char *name)
{
	return !q->pattern[0] ||
		glob_match(q->pattern, q->whole_path ? q->path : name, ignores_case(q));
}

static bool visit(struct stream *s, struct search *q, const struct walk_entry *e)
{
	const char *name = e->name;

	if ((name[0] == '.' && !(q->flags & WIRE_SEARCH_HIDDEN)) ||
		!(q->path_len = walk_path(&q->walk, name, q->path)) ||
		stat_at(q->walk.dir, name, &q->st) < 0)
		return true;
	if (matches(q, name)) {
		if (q->text_len)
			open_file(q, name);
		else if (!put(s, q, q->st.st_size > 0 ? (uint64_t)q->st.st_size : 0, NULL, 0))
			return false;
	}
	if (S_ISDIR(q->st.st_mode))
		(void)walk_enter(&q->walk, name);
	return true;
}

static bool step(struct stream *s)
{
	struct search *q = s->memory;

	for (int i = 0; i < STEP_ENTRIES; i++) {
		const struct walk_entry *e;
		uint32_t error = 0;
		bool go_on = true;

		if (lane_room(&s->out[0]) < RECORD_MAX)
			return false;
		if (q->fd >= 0) {
			go_on = read_piece(s, q);
			i += STEP_ENTRIES / 4;
		} else {
			switch (walk_next(&q->walk, &e, &error)) {
			case WALK_ENTRY:
				go_on = visit(s, q, e);
				break;
			case WALK_LEFT:
				break;
			case WALK_END:
			case WALK_FAILED:
				go_on = false;
				break;
			}
		}
		if (!go_on) {
			end(s, error);
			return false;
		}
	}
	return true;
}

/* --- the request --- */

static long begin(struct search *q, const struct wire_search *m)
{
	const char *p = (const char *)m->rest, *pattern = p + text_len(p) + 1;
	const char *text = pattern + text_len(pattern) + 1;
	size_t n = text_len(pattern);
	long fd;

	q->fd = q->walk.dir = -1;
	q->text_len = m->rest_len - (size_t)(text - p);
	if (n >= sizeof q->pattern || q->text_len >= sizeof q->text)
		return -E2BIG;
	memcpy(q->pattern, pattern, n + 1);
	for (size_t i = 0; i < n; i++)
		q->whole_path = q->whole_path || pattern[i] == '/';
	memcpy(q->text, text, q->text_len);
	q->flags = m->flags;
	q->max = m->max;
	q->max_size = m->max_size;
	fd = sys4(SYS_openat, AT_FDCWD, p, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
	return fd < 0 ? fd : walk_begin(&q->walk, (int)fd);
}

bool files_search(const struct wire_frame *f)
{
	struct wire_search m;
	struct search *q;
	struct stream *s;
	long r;

	if (!wire_get_search(f, &m))
		return false;
	if (!(s = request_new(f, &search_ops)))
		return true;
	q = stream_memory(s, sizeof *q);
	if (!q) {
		stream_result(s, ENOMEM, 0);
		return true;
	}
	r = begin(q, &m);
	if (r < 0)
		end(s, (uint32_t)-r);
	else
		stream_work(s);
	return true;
}
