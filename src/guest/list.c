/* Lists a directory: one record per entry.  Called by the link; goes on a few entries at a time while the host takes them. */
#include <errno.h>
#include <fcntl.h>

#include "guest/walk.h"

struct listing {
	struct walk walk;
	uint32_t max, n;
	uint8_t record[RECORD_MAX];
};

static bool step(struct stream *s);
static void work(struct stream *s);
static void give_up(struct stream *s);

static const struct stream_ops list_ops = {
	.lanes = 1, .step = step, .room = work, .close = give_up
};

static void work(struct stream *s)
{
	stream_work(s);
}

static void give_up(struct stream *s)
{
	struct listing *l = s->memory;

	if (l)
		walk_end(&l->walk);
}

static bool put_entry(struct stream *s, struct listing *l, const char *name)
{
	char target[WIRE_MAX_PATH];
	struct record r = { .name = name, .target = target, .name_len = (uint32_t)text_len(name) };
	struct stat st;
	long n;

	/* removed meanwhile */
	if (stat_at(l->walk.dir, name, &st) < 0)
		return true;
	r.size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	if (S_ISLNK(st.st_mode)) {
		n = sys4(SYS_readlinkat, l->walk.dir, name, target, sizeof target);
		r.target_len = n > 0 ? (uint32_t)n : 0;
	}
	l->n++;
	return lane_put(s, 0, l->record, record_put(l->record, &st, &r));
}

static bool step(struct stream *s)
{
	struct listing *l = s->memory;

	for (int i = 0; i < STEP_ENTRIES; i++) {
		const struct walk_entry *e;
		enum walk_step what;
		uint32_t error = 0;

		if (lane_room(&s->out[0]) < RECORD_MAX)
			return false;
		what = walk_next(&l->walk, &e, &error);
		if (what == WALK_ENTRY && l->n < l->max) {
			if (put_entry(s, l, e->name))
				continue;
			error = ENOMEM;
		} else if (what == WALK_ENTRY) {
			s->flags |= WIRE_RESULT_TRUNCATED;
		}
		walk_end(&l->walk);
		stream_result(s, error, l->n);
		return false;
	}
	return true;
}

static long begin(struct stream *s, const struct wire_list *m)
{
	char path[WIRE_MAX_PATH];
	struct listing *l = stream_memory(s, sizeof *l);
	long fd;

	if (!l)
		return -ENOMEM;
	l->walk.dir = -1;
	l->max = m->max;
	path_copy(path, m->rest, m->rest_len);
	fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
	return fd < 0 ? fd : walk_begin(&l->walk, (int)fd);
}

bool files_list(const struct wire_frame *f)
{
	struct wire_list m;
	struct stream *s;
	long r;

	if (!wire_get_list(f, &m))
		return false;
	if (!(s = request_new(f, &list_ops)))
		return true;
	r = begin(s, &m);
	if (r < 0)
		stream_result(s, (uint32_t)-r, 0);
	else
		stream_work(s);
	return true;
}
