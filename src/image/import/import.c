/* Owns making an image: its name, its trees, its record.  All of it is made in the work directory, put on the disk, and
 * only then moved to where it can be seen. */
#include "image/import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "image/import/chain.h"
#include "image/import/digest.h"

char *import_name(const char *text)
{
	static const char *const ends[] = { ".gz", ".zst", ".tgz", ".tar", ".oci", ":latest" };
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_free_ char *copy = xstrdup(text);
	char *at = strchr(copy, '@'), *last;

	if (at)
		*at = '\0';
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	last = strrchr(copy, '/');
	last = last ? last + 1 : copy;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		size_t n = strlen(last), k = strlen(ends[i]);

		if (n > k && streq(last + n - k, ends[i]))
			last[n - k] = '\0';
	}
	return image_check_name(last, &ignored) == 0 ? xstrdup(last) : NULL;
}

static int choose_name(const struct import *how, struct image *i, struct err *e)
{
	if (how->name)
		i->name = xstrdup(how->name);
	else if (i->reference)
		i->name = import_name(i->reference);
	if (!i->name && how->fallback)
		i->name = import_name(how->fallback);
	if (i->name)
		return image_check_name(i->name, e);
	(void)err_set(e, R_BAD_VALUE, 0, "name the image: it has no name of its own");
	return err_remedy(e, "Give one with --name.");
}

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* The trees first, then the record. */
static int publish(
	struct store *store, struct import *how, struct chain *c, struct image *i, struct err *e)
{
	_cleanup_close_ int root = -1;

	if (chain_open(c, store, &root, e) < 0)
		return -1;
	i->chain = xasprintf("sha256:%s", c->hex);
	i->ids_kept = geteuid() == 0;
	i->special_skipped = c->facts.special;
	i->setid_stripped = c->facts.setid;
	i->xattrs_dropped = c->facts.xattrs;
	i->imported_ms = now_ms();
	if (config_find_user(i, root, e) < 0 ||
		tree_measure(move_fd(&root), &i->size_bytes, &i->entries, e) < 0 ||
		chain_publish(c, store, e) < 0)
		return -1;
	return store_write_ref(store, i, how->replace, e);
}

static int import_layers(struct store *store, const struct source *s, struct import *how,
	struct image *i, struct err *e)
{
	_cleanup_manifest_ struct manifest m = { .layers = NULL };
	_cleanup_diff_ids_ struct diff_ids ids = { NULL, 0 };
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_free_ struct chain *c = xcalloc(1, sizeof *c);

	if (manifest_read(s, how->reference, &m, e) < 0 ||
		manifest_load(s, &m.config, &text, e) < 0 || config_read(&text, i, &ids, e) < 0)
		return -1;
	if (ids.n != m.n_layers)
		return err_set(e, R_IMAGE_INVALID, 0,
			"read the image: %u layers, but its configuration names %u", m.n_layers,
			ids.n);
	if (how->known_as || m.reference)
		i->reference = xstrdup(how->known_as ?: m.reference);
	if (*m.digest)
		i->manifest = xasprintf("sha256:%s", m.digest);
	i->source = xstrdup(how->source ?: s->kind == SOURCE_DOCKER ? "docker" : "oci");
	if (choose_name(how, i, e) < 0 || chain_lay(c, store, s, &m, &ids, &how->limits, e) < 0)
		return -1;
	return publish(store, how, c, i, e);
}

/* What has neither is no root tree but something else that was given by mistake. */
static int check_tree(int root, struct err *e)
{
	struct stat st;

	if (fstatat(root, "usr", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		fstatat(root, "bin", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	(void)err_set(e, R_IMAGE_INVALID, 0,
		"take what was given for a root tree: neither 'usr' nor 'bin' is in it");
	return err_remedy(
		e, "Give a root file system, an OCI layout, or an archive of docker save.");
}

/* The id of a bare tree: that of the plainest configuration that names it. */
static int describe_tar(struct image *i, const char *diff, struct err *e)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char hex[IMAGE_HEX];

	if (config_write(i, diff, &text, e) < 0)
		return -1;
	digest_of(text.data, text.len, hex);
	i->id = xasprintf("sha256:%s", hex);
	i->layers = 1;
	return 0;
}

static int import_tar(
	struct store *store, int fd, struct import *how, struct image *ret, struct err *e)
{
	_cleanup_free_ struct chain *c = xcalloc(1, sizeof *c);
	_cleanup_close_ int root = -1;

	ret->source = xstrdup(how->source ?: "tar");
	if (how->known_as)
		ret->reference = xstrdup(how->known_as);
	if (choose_name(how, ret, e) < 0 || chain_lay_tar(c, store, fd, &how->limits, e) < 0 ||
		chain_open(c, store, &root, e) < 0 || check_tree(root, e) < 0 ||
		describe_tar(ret, c->hex, e) < 0)
		return -1;
	return publish(store, how, c, ret, e);
}

int import_source(struct store *store, const struct source *s, struct import *how,
	struct image *ret, struct err *e)
{
	if (s->kind == SOURCE_TAR)
		return import_tar(store, s->fd, how, ret, e);
	return import_layers(store, s, how, ret, e);
}
