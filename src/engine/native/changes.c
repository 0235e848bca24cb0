/* The layers of a native sandbox as its changes are listed: which directories, and what the worker keeps.  Called in a worker that
 * the owner forked for it. */
#include "engine/changes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "engine/native/native.h"
#include "engine/worker.h"

static int open_top(const struct sandbox *sb, bool cow, struct changes_place *p)
{
	const struct layers *l = &sb->layers;

	for (unsigned i = l->n_sealed + (l->pending ? 0 : 1); i-- > 0;) {
		int fd = layers_view(l, i, cow ? "cow" : "upper");

		if (fd < 0)
			return -1;
		p->writable[p->n_writable++] = (struct changes_side){ fd, l->ids[i] };
	}
	for (unsigned i = 0; i < CHANGES_LOWER; i++) {
		uid_t ids = 0;
		int fd = layers_view_lower(sb, cow, i, &ids);

		if (fd == -1)
			return -1;
		if (fd >= 0)
			p->lower[p->n_lower++] = (struct changes_side){ fd, ids };
	}
	return 0;
}

/* Read-only but for this owner: nothing ever lies in it. */
static int empty_dir(const struct sandbox *sb)
{
	if (mkdirat(sb->layers.frame, "empty", 0500) < 0 && errno != EEXIST)
		return -1;
	return openat(sb->layers.frame, "empty", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int changes_confine(const struct sandbox *sb, const int *fds, unsigned n, struct err *e)
{
	const int empty = empty_dir(sb); /* closed with all others */
	const struct worker_walls walls = { .empty = empty,
		.root = sb->engine->root,
		.uid = session_channel_uid(sb),
		.trusted = sb->layers.marks == MARKS_TRUSTED };

	if (empty < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make an empty directory");
	return worker_confine(&walls, fds, n, e);
}

static int confine(const struct sandbox *sb, const struct changes_place *p, int out, struct err *e)
{
	int keep[CHANGES_FDS];

	return changes_confine(sb, keep, changes_fds(p, out, keep), e);
}

int native_changes(struct sandbox *sb, int out_fd, uint32_t flags, struct err *e)
{
	bool cow = flags & ENGINE_CHANGES_COW;
	struct changes_place top = { .n_writable = 0 };
	struct changes_how how;
	int r;

	if (getpid() == sb->owner)
		return err_set(e, R_SETUP_FAILED, EINVAL,
			"list the changes of sandbox '%s' in its own owner", sb->id);
	if (!sb->layers.writable || (cow && layers_cow(sb) < 0) || (!cow && sb->spec->read_only))
		return err_set(e, R_BAD_VALUE, 0, "list the changes of sandbox '%s': %s", sb->id,
			cow ? "it has no copy-on-write directory" : "its root is read-only");
	if (open_top(sb, cow, &top) < 0) {
		(void)err_set(e, R_SETUP_FAILED, errno, "open the layers of '%s'", sb->id);
		changes_place_done(&top);
		return -1;
	}
	how = (struct changes_how){ .out = out_fd,
		.content = flags & ENGINE_CHANGES_CONTENT,
		.own = sb->engine->root,
		.uid = sb->uid,
		.gid = sb->gid,
		.ids = NATIVE_ID_MAPPED,
		.marks = sb->layers.marks,
		.left = sb->spec->disk_bytes * CHANGES_GROWTH * (sb->layers.n_sealed + 1) };
	r = confine(sb, &top, out_fd, e);
	if (r == 0)
		r = changes_write(&top, &how, e);
	changes_place_done(&top);
	return r;
}
