/* Owns who reads what when an image is made.  This process opens the source and the store and reads neither's content: one
 * behind walls unpacks it into the store, another packs a directory for that one.  Called by the verbs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "image/import/import.h"
#include "image/import/pack.h"
#include "image/import/worker.h"

/* Of the process that unpacks. */
struct unpack {
	struct store *store;
	struct source source;
	struct import *how;
};

static int unpack(void *arg, struct buf *reply, struct err *e)
{
	struct unpack *u = arg;
	_cleanup_image_ struct image i;

	image_init(&i);
	if (source_look(&u->source, u->store, &u->how->limits, e) < 0 ||
		import_source(u->store, &u->source, u->how, &i, e) < 0)
		return -1;
	(void)buf_add(reply, i.name, strlen(i.name) + 1);
	image_format(&i, reply);
	return 0;
}

/* Of the process that packs. */
struct pack {
	int root, out;
};

static int pack(void *arg, struct buf *reply, struct err *e)
{
	const struct pack *p = arg;

	(void)reply;
	return pack_tree(p->root, p->out, e);
}

static int start_packer(int root, struct worker *packer, int *ret_fd, struct err *e)
{
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(e, R_NO_MEMORY, errno, "make a pipe");
	*ret_fd = fds[0];
	r = worker_start(packer,
		&(struct guard){ .write = -1, .read = root, .keep = { root, fds[1] }, .n_keep = 2 },
		pack, &(struct pack){ root, fds[1] }, e);
	(void)close_fd(fds[1]);
	return r;
}

static int start_unpacker(struct unpack *u, struct worker *unpacker, struct err *e)
{
	const struct store *s = u->store;
	const bool beneath = u->source.kind == SOURCE_LAYOUT;
	const struct guard g = { .write = s->dir,
		.read = beneath ? u->source.fd : -1,
		.keep = { s->dir, s->refs, s->trees, s->tmp, s->lock, s->work, s->work_lock,
			u->source.fd },
		.n_keep = 8,
		.max_file = u->how->limits.max_bytes };

	return worker_start(unpacker, &g, unpack, u, e);
}

static int take_image(struct buf *reply, struct image *ret, struct err *e)
{
	const size_t n = reply->data ? strlen(reply->data) + 1 : 0;
	_cleanup_buf_ struct buf record = { .max = IMAGE_MAX_RECORD };

	if (!n || n > reply->len || !buf_add(&record, reply->data + n, reply->len - n))
		return err_set(e, R_IO_FAILED, 0, "read what became of the image: no record");
	return image_parse(reply->data, &record, ret, e);
}

/* What the packer says is the cause of what the other one then said, unless it is only that nobody reads any more. */
static int finish_packer(struct worker *packer, struct err *e)
{
	_cleanup_err_ struct err why = ERR_INIT;

	if (worker_finish(packer, NULL, &why) == 0 || (e->reason && why.reason == R_OUTPUT_FAILED))
		return e->reason ? -1 : 0;
	err_done(e);
	return err_move(e, &why);
}

int import_image(struct store *store, const struct source *s, struct import *how, struct image *ret,
	struct err *e)
{
	_cleanup_buf_ struct buf reply = { .max = 2 * IMAGE_MAX_RECORD };
	struct worker packer = WORKER_NONE, unpacker = WORKER_NONE;
	struct unpack u = { .store = store, .source = *s, .how = how };
	_cleanup_close_ int from = -1;
	int r = 0;

	if (s->kind == SOURCE_TREE) {
		how->source = how->source ?: "directory";
		r = start_packer(s->fd, &packer, &from, e);
		u.source.kind = SOURCE_TAR;
		u.source.fd = from;
	}
	if (r == 0)
		r = start_unpacker(&u, &unpacker, e);
	from = close_fd(from);
	if (r == 0)
		r = worker_finish(&unpacker, &reply, e);
	if (finish_packer(&packer, e) < 0 || r < 0)
		return -1;
	return take_image(&reply, ret, e);
}
