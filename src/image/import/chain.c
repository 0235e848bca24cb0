/* Owns the making of trees from layers.  Called by import.c.
 *
 * Each tree begins as hard links to the one below, which costs some microseconds for every file there: an image of many
 * small layers would be linked over and over.  So a layer is laid into the tree of the one below as long as that is new
 * and has brought little; another image that shares the small layers then has its own copy of those. */
#include "image/import/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "image/import/digest.h"
#include "image/walk.h"

static struct chain_tree *top(struct chain *c)
{
	return &c->made[c->n_made - 1];
}

int chain_open(const struct chain *c, const struct store *store, int *ret_fd, struct err *e)
{
	char path[32];

	if (!c->n_made)
		return store_open_tree(store, c->hex, ret_fd, e);
	*ret_fd = openat(store->work, FMT(path, "%s/root", c->made[c->n_made - 1].work),
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? store_failed(e, errno, "open a tree") : 0;
}

/* A new tree that begins as what lies below. */
static int begin_tree(struct chain *c, struct store *store, int *ret_fd, struct err *e)
{
	_cleanup_close_ int root = -1;
	struct chain_tree next = { .work = "" };
	int below, copy;

	FMT(next.work, "t%u", c->n_made);
	FMT(next.info.parent, "%s", c->hex);
	if (store_new_tree(store, next.work, &root, e) < 0)
		return -1;
	if (*c->hex) {
		copy = fcntl(root, F_DUPFD_CLOEXEC, 3);
		if (chain_open(c, store, &below, e) < 0) {
			(void)close_fd(copy);
			return -1;
		}
		if (tree_clone(below, copy, &c->cloned, e) < 0)
			return -1;
	}
	c->made[c->n_made++] = next;
	c->since = 0;
	*ret_fd = move_fd(&root);
	return 0;
}

/* The tree that the next layer is laid into. */
static int open_tree(struct chain *c, struct store *store, int *ret_fd, struct err *e)
{
	if (!c->n_made || (c->since >= CHAIN_KEEP_BYTES && c->cloned < CHAIN_MAX_CLONED))
		return begin_tree(c, store, ret_fd, e);
	return chain_open(c, store, ret_fd, e);
}

static void chain_id(const char *below, const char *diff, char ret[static IMAGE_HEX])
{
	char text[2 * IMAGE_HEX + 32];

	if (!*below) {
		str_format(ret, IMAGE_HEX, "%s", diff);
		return;
	}
	FMT(text, "sha256:%s sha256:%s", below, diff);
	digest_of(text, strlen(text), ret);
}

/* The open tree now is that chain. */
static void advance(struct chain *c, const char *hex)
{
	str_format(c->hex, sizeof c->hex, "%s", hex);
	str_format(top(c)->hex, sizeof top(c)->hex, "%s", hex);
	top(c)->info.facts = c->facts;
}

/* The bytes are those that were announced, packed as announced. */
static int check_layer(
	const struct blob *b, const char *diff, const struct stream_end *end, struct err *e)
{
	if (*b->digest && (!streq(end->packed, b->digest) || end->packed_bytes != b->size))
		return err_set(e, R_DIGEST_MISMATCH, 0,
			"check the layer '%.19s': its bytes are not those that its digest names",
			b->digest);
	if (!streq(end->plain, diff))
		return err_set(e, R_DIGEST_MISMATCH, 0,
			"check the layer '%.19s': unpacked it is not what the configuration names",
			diff);
	if (b->compression != COMPRESSION_ANY && b->compression != end->compression)
		return err_set(e, R_IMAGE_INVALID, 0,
			"check the layer '%.19s': it is not packed as its media type says", diff);
	return 0;
}

static int lay_stream(struct chain *c, struct store *store, struct stream *in,
	struct limits *limits, struct stream_end *ret, struct err *e)
{
	_cleanup_close_ int root = -1;
	uint64_t before = limits->bytes;

	if (open_tree(c, store, &root, e) < 0 || layer_apply(in, root, limits, &c->facts, e) < 0 ||
		stream_finish(in, ret, e) < 0)
		return -1;
	c->since += limits->bytes - before;
	return 0;
}

static int lay(struct chain *c, struct store *store, const struct source *s, const struct blob *b,
	const char *diff, struct limits *limits, struct err *e)
{
	_cleanup_stream_ struct stream *in = NULL;
	_cleanup_close_ int fd = -1;
	struct stream_end end;
	char hex[IMAGE_HEX];

	chain_id(c->hex, diff, hex);
	if (source_file(s, b->name, &fd, e) < 0 || stream_open(&in, fd, limits, e) < 0)
		return -1;
	stream_allow_short(in);
	if (lay_stream(c, store, in, limits, &end, e) < 0 || check_layer(b, diff, &end, e) < 0)
		return -1;
	advance(c, hex);
	return 0;
}

/* The highest of the image's chains that the store has is taken as it is: its id says what is in it. */
static int find_below(struct chain *c, const struct store *store, const struct diff_ids *ids,
	unsigned *ret_laid, struct err *e)
{
	struct tree_info info;
	char hex[IMAGE_HEX] = "", next[IMAGE_HEX];

	*ret_laid = 0;
	for (unsigned i = 0; i < ids->n; i++) {
		chain_id(hex, ids->hex[i], next);
		memcpy(hex, next, sizeof hex);
		if (!store_has_tree(store, hex))
			continue;
		memcpy(c->hex, hex, sizeof hex);
		*ret_laid = i + 1;
	}
	if (!*ret_laid)
		return 0;
	if (store_read_info(store, c->hex, &info, e) < 0)
		return -1;
	c->facts = info.facts;
	return 0;
}

int chain_lay(struct chain *c, struct store *store, const struct source *s,
	const struct manifest *m, const struct diff_ids *ids, struct limits *limits, struct err *e)
{
	unsigned laid;

	if (find_below(c, store, ids, &laid, e) < 0)
		return -1;
	for (unsigned i = laid; i < m->n_layers; i++)
		if (lay(c, store, s, &m->layers[i], ids->hex[i], limits, e) < 0)
			return err_wrap(e, "layer '%.12s'", ids->hex[i]);
	return 0;
}

int chain_lay_tar(
	struct chain *c, struct store *store, int fd, struct limits *limits, struct err *e)
{
	_cleanup_stream_ struct stream *in = NULL;
	struct stream_end end;

	if (stream_open(&in, fd, limits, e) < 0 || lay_stream(c, store, in, limits, &end, e) < 0)
		return -1;
	advance(c, end.plain);
	return 0;
}

/* From the bottom up: a crash in between leaves whole trees, which the next removal frees. */
int chain_publish(struct chain *c, struct store *store, struct err *e)
{
	for (unsigned n = 0; n < c->n_made; n++)
		if (store_write_info(store, c->made[n].work, &c->made[n].info, e) < 0)
			return -1;
	if (c->n_made && syncfs(store->dir) < 0)
		return store_failed(e, errno, "write the image store");
	for (unsigned n = 0; n < c->n_made; n++)
		if (store_publish(store, c->made[n].work, c->made[n].hex, e) < 0)
			return -1;
	return 0;
}
