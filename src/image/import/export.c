/* Owns `bailey image export`: an archive that OCI tools and docker load take, made from the tree.  It is one layer,
 * whatever the image came from; what import left out is not in it. */
#include <archive.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/home.h"
#include "base/str.h"
#include "image/import/config.h"
#include "image/import/describe.h"
#include "image/import/digest.h"
#include "image/import/pack.h"
#include "image/import/verbs.h"
#include "image/walk.h"

struct export
{
	char layer[IMAGE_HEX], config[IMAGE_HEX], manifest[IMAGE_HEX];
	uint64_t layer_size;
	int layer_fd;
	struct buf config_text, manifest_text;
};

static void export_done(struct export *x)
{
	x->layer_fd = close_fd(x->layer_fd);
	buf_done(&x->config_text);
	buf_done(&x->manifest_text);
}

/* The layer goes to a file first: its digest and size stand before it in the archive. */
static int make_layer(struct store *store, const struct image *i, struct export *x, struct err *e)
{
	_cleanup_free_ char *buffer = xcalloc(1, 1 << 18);
	struct digest d;
	ssize_t n;
	int root = openat(i->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return store_failed(e, errno, "open the tree of image '%s'", i->name);
	x->layer_fd = openat(store->work, "layer", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (x->layer_fd < 0) {
		(void)close_fd(root);
		return store_failed(e, errno, "write into the image store");
	}
	if (pack_tree(root, x->layer_fd, e) < 0)
		return -1;
	digest_init(&d);
	for (off_t at = 0; (n = pread(x->layer_fd, buffer, 1 << 18, at)) > 0; at += n) {
		digest_add(&d, buffer, (size_t)n);
		x->layer_size += (uint64_t)n;
	}
	if (n < 0 || lseek(x->layer_fd, 0, SEEK_SET) < 0)
		return store_failed(e, errno, "read from the image store");
	digest_hex(&d, x->layer);
	return 0;
}

static int make_manifest(const struct image *i, struct export *x, struct err *e)
{
	if (config_write(i, x->layer, &x->config_text, e) < 0)
		return -1;
	digest_of(x->config_text.data, x->config_text.len, x->config);
	buf_printf(&x->manifest_text,
		"{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
		"\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\","
		"\"digest\":\"sha256:%s\",\"size\":%zu},"
		"\"layers\":[{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\","
		"\"digest\":\"sha256:%s\",\"size\":%llu}]}",
		x->config, x->config_text.len, x->layer, (unsigned long long)x->layer_size);
	if (x->manifest_text.failed)
		return err_set(e, R_NO_MEMORY, ENOMEM, "write a manifest");
	digest_of(x->manifest_text.data, x->manifest_text.len, x->manifest);
	return 0;
}

/* Both forms in one: index.json for OCI tools, manifest.json for docker load.  Names of images need no escaping. */
static int write_indexes(
	struct archive *a, const struct image *i, const struct export *x, struct err *e)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	_cleanup_buf_ struct buf index = BUF_INIT, saved = BUF_INIT;
	const char *tag = strchr(i->name, ':') ? "" : ":latest";

	buf_printf(&index,
		"{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\","
		"\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
		"\"digest\":\"sha256:%s\",\"size\":%zu,"
		"\"annotations\":{\"org.opencontainers.image.ref.name\":\"%s\"},"
		"\"platform\":{\"architecture\":\"%s\",\"os\":\"linux\"}}]}",
		x->manifest, x->manifest_text.len, i->name, manifest_machine());
	buf_printf(&saved,
		"[{\"Config\":\"blobs/sha256/%s\",\"RepoTags\":[\"%s%s\"],"
		"\"Layers\":[\"blobs/sha256/%s\"]}]",
		x->config, i->name, tag, x->layer);
	if (index.failed || saved.failed)
		return err_set(e, R_NO_MEMORY, ENOMEM, "write an index");
	if (pack_member(a, "oci-layout", layout, sizeof layout - 1, e) < 0 ||
		pack_member(a, "index.json", index.data, index.len, e) < 0)
		return -1;
	return pack_member(a, "manifest.json", saved.data, saved.len, e);
}

static int write_blobs(struct archive *a, const struct export *x, struct err *e)
{
	char name[IMAGE_HEX + 16];

	if (pack_member(a, "blobs/", NULL, 0, e) < 0 ||
		pack_member(a, "blobs/sha256/", NULL, 0, e) < 0 ||
		pack_member(a, FMT(name, "blobs/sha256/%s", x->config), x->config_text.data,
			x->config_text.len, e) < 0 ||
		pack_member(a, FMT(name, "blobs/sha256/%s", x->manifest), x->manifest_text.data,
			x->manifest_text.len, e) < 0)
		return -1;
	return pack_file(a, FMT(name, "blobs/sha256/%s", x->layer), x->layer_fd, x->layer_size, e);
}

static int write_archive(int fd, const struct image *i, const struct export *x, struct err *e)
{
	struct archive *a = pack_open(fd, e);

	if (!a)
		return -1;
	if (write_indexes(a, i, x, e) < 0 || write_blobs(a, x, e) < 0) {
		(void)archive_write_fail(a);
		(void)archive_write_free(a);
		return -1;
	}
	return pack_close(a, e);
}

/* A file is written beside its place and moved there, so that a failure leaves what was there. */
static int write_to(const char *path, const struct image *i, const struct export *x, struct err *e)
{
	_cleanup_free_ char *aside = xasprintf("%s.%d.new", path, getpid());
	_cleanup_close_ int fd = -1;

	if (streq(path, "-"))
		return write_archive(STDOUT_FILENO, i, x, e);
	fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return err_set(e, R_OUTPUT_FAILED, errno, "write '%.256s'", path);
	if (write_archive(fd, i, x, e) == 0 && rename(aside, path) == 0)
		return 0;
	if (!e->reason)
		(void)err_set(e, R_OUTPUT_FAILED, errno, "write '%.256s'", path);
	(void)unlink(aside);
	return -1;
}

static int export_image(struct store *store, const struct arguments *a, struct image *i,
	struct export *x, struct err *e)
{
	_cleanup_free_ char *home = NULL;

	if (home_path(&home, e) < 0 || image_open(home, a->words[0], i, e) < 0 ||
		make_layer(store, i, x, e) < 0 || make_manifest(i, x, e) < 0)
		return -1;
	return write_to(a->words[1], i, x, e);
}

int verb_export(const struct arguments *a, struct buf *out, struct err *e)
{
	_cleanup_store_ struct store store;
	_cleanup_image_ struct image i;
	struct export x = { .layer_fd = -1 };
	int r;

	store_init(&store);
	image_init(&i);
	if (streq(a->words[1], "-") && (a->json || isatty(STDOUT_FILENO)))
		return err_set(e, R_USAGE, 0,
			"export to standard output: it is a terminal, or --json is written there");
	if (store_open(&store, true, e) < 0)
		return -1;
	r = export_image(&store, a, &i, &x, e);
	if (r == 0 && a->json)
		describe_image(&i, out);
	export_done(&x);
	return r;
}
