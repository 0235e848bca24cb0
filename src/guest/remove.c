/* Removes a file or a tree.  Called by the link; a tree goes a few entries at a time.  Must hold: nothing outside the tree is
 * touched, whatever is swapped for a link meanwhile, and no mount is entered. */
#include <errno.h>
#include <fcntl.h>

#include "guest/walk.h"

enum { MAX_REWINDS = 64 }; /* of one directory in which others keep making files */

struct removal {
	struct walk walk;
	uint32_t rewinds;
	uint64_t n, n_then; /* removed; at the last rewind */
	int parent;
	char name[256];
};

static bool step(struct stream *s);
static void give_up(struct stream *s);

static const struct stream_ops remove_ops = { .lanes = 0, .step = step, .close = give_up };

static void give_up(struct stream *s)
{
	struct removal *r = s->memory;

	if (!r)
		return;
	walk_end(&r->walk);
	if (r->parent >= 0)
		close_quietly(r->parent);
	r->parent = -1;
}

static void end(struct stream *s, long error)
{
	struct removal *r = s->memory;

	give_up(s);
	stream_result(s, (uint32_t)-error, r->n);
}

/* Removes what `name` is, a full directory excepted: that gives -ENOTEMPTY. */
static long remove_one(int dir, const char *name)
{
	long r = sys3(SYS_unlinkat, dir, name, 0);

	if (r != -EISDIR && r != -EPERM)
		return r;
	r = sys3(SYS_unlinkat, dir, name, AT_REMOVEDIR);
	if (r == -EEXIST)
		return -ENOTEMPTY;
	return r == -ENOTDIR ? -EPERM : r;
}

/* Others may make files while we remove them, and old kernels pass over some: again, but not for ever. */
static bool may_rewind(struct removal *r)
{
	if (r->n > r->n_then)
		r->rewinds = 0;
	r->n_then = r->n;
	return r->rewinds++ < MAX_REWINDS;
}

static long enter(struct removal *r, const char *name)
{
	uint64_t dev = r->walk.dev;
	long e = walk_enter(&r->walk, name);

	return e == 0 && r->walk.dev != dev ? -EXDEV : e;
}

static long visit(struct removal *r, const char *name)
{
	long e = remove_one(r->walk.dir, name);

	if (e == -ENOTEMPTY)
		return enter(r, name);
	if (e == 0)
		r->n++;
	return e == -ENOENT ? 0 : e;
}

/* The directory that was left should be empty now: its name still stands behind the path. */
static long left(struct removal *r)
{
	char name[256];
	size_t n = 0;
	long e;

	for (const char *p = r->walk.path + r->walk.path_len; p[n] != '/'; n++)
		name[n] = p[n];
	name[n] = 0;
	e = remove_one(r->walk.dir, name);
	if (e == -ENOTEMPTY)
		return may_rewind(r) ? enter(r, name) : e;
	r->n += e == 0;
	return e == -ENOENT ? 0 : e;
}

static bool finish(struct stream *s, struct removal *r)
{
	long e = sys3(SYS_unlinkat, r->parent, r->name, AT_REMOVEDIR);

	if ((e == -ENOTEMPTY || e == -EEXIST) && may_rewind(r)) {
		walk_rewind(&r->walk);
		return true;
	}
	r->n += e == 0;
	end(s, e);
	return false;
}

static bool step(struct stream *s)
{
	struct removal *r = s->memory;

	for (int i = 0; i < STEP_ENTRIES; i++) {
		const struct walk_entry *e;
		uint32_t error = 0;
		long result = 0;

		switch (walk_next(&r->walk, &e, &error)) {
		case WALK_ENTRY:
			result = visit(r, e->name);
			break;
		case WALK_LEFT:
			result = left(r);
			break;
		case WALK_END:
			return finish(s, r);
		case WALK_FAILED:
			result = -(long)error;
			break;
		}
		if (result < 0) {
			end(s, result);
			return false;
		}
	}
	return true;
}

static long begin(struct removal *r, char *path, bool recursive)
{
	const char *name;
	long fd = path_parent(path, false, &name), e;

	r->walk.dir = r->parent = -1;
	if (fd < 0)
		return fd;
	r->parent = (int)fd;
	memcpy(r->name, name, text_len(name) + 1);
	e = remove_one(r->parent, name);
	if (e != -ENOTEMPTY || !recursive) {
		r->n = e == 0;
		return e;
	}
	fd = sys4(SYS_openat, r->parent, name,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	e = walk_begin(&r->walk, (int)fd);
	return e < 0 ? e : 1;
}

bool files_remove(const struct wire_frame *f)
{
	char path[WIRE_MAX_PATH];
	struct wire_remove m;
	struct removal *r;
	struct stream *s;
	long e;

	if (!wire_get_remove(f, &m))
		return false;
	if (!(s = request_new(f, &remove_ops)))
		return true;
	r = stream_memory(s, sizeof *r);
	if (!r) {
		stream_result(s, ENOMEM, 0);
		return true;
	}
	path_copy(path, m.rest, m.rest_len);
	e = begin(r, path, m.flags & WIRE_FILE_RECURSIVE);
	if (e <= 0)
		end(s, e);
	else
		stream_work(s);
	return true;
}
