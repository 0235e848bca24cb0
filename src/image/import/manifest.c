/* Owns the indexes and manifests of images: OCI layouts, and what `docker save` writes in either of its forms.  All of it
 * is hostile; a digest is checked over the very bytes that are then read. */
#include "image/import/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "image/import/digest.h"
#include "image/import/parse.h"

enum { MAX_NESTING = 4, MAX_MANIFESTS = 4096 };

enum media { MEDIA_INDEX, MEDIA_MANIFEST, MEDIA_CONFIG, MEDIA_LAYER };

static const struct {
	const char *type;
	enum media media;
	enum compression compression;
} types[] = {
	{ "application/vnd.oci.image.index.v1+json", MEDIA_INDEX, COMPRESSION_NONE },
	{ "application/vnd.docker.distribution.manifest.list.v2+json", MEDIA_INDEX,
		COMPRESSION_NONE },
	{ "application/vnd.oci.image.manifest.v1+json", MEDIA_MANIFEST, COMPRESSION_NONE },
	{ "application/vnd.docker.distribution.manifest.v2+json", MEDIA_MANIFEST,
		COMPRESSION_NONE },
	{ "application/vnd.oci.image.config.v1+json", MEDIA_CONFIG, COMPRESSION_NONE },
	{ "application/vnd.docker.container.image.v1+json", MEDIA_CONFIG, COMPRESSION_NONE },
	{ "application/vnd.oci.image.layer.v1.tar", MEDIA_LAYER, COMPRESSION_NONE },
	{ "application/vnd.oci.image.layer.v1.tar+gzip", MEDIA_LAYER, COMPRESSION_GZIP },
	{ "application/vnd.oci.image.layer.v1.tar+zstd", MEDIA_LAYER, COMPRESSION_ZSTD },
	{ "application/vnd.docker.image.rootfs.diff.tar", MEDIA_LAYER, COMPRESSION_NONE },
	{ "application/vnd.docker.image.rootfs.diff.tar.gzip", MEDIA_LAYER, COMPRESSION_GZIP },
	{ "application/vnd.docker.image.rootfs.diff.tar.zstd", MEDIA_LAYER, COMPRESSION_ZSTD },
};

void manifest_done(struct manifest *m)
{
	free(m->layers);
	free(m->reference);
	*m = (struct manifest){ .layers = NULL };
}

const char *manifest_machine(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
#error "name this machine as the OCI image specification does"
#endif
}

static int invalid(struct err *e, const char *why)
{
	return err_set(e, R_IMAGE_INVALID, 0, "read the image: %s", why);
}

int manifest_load(const struct source *s, const struct blob *b, struct buf *ret, struct err *e)
{
	_cleanup_close_ int fd = -1;
	char hex[IMAGE_HEX];

	ret->max = MANIFEST_MAX_JSON;
	if (source_file(s, b->name, &fd, e) < 0)
		return -1;
	if (read_all(fd, ret) < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "read '%.128s' of the image", b->name);
	if (!*b->digest)
		return 0;
	digest_of(ret->data, ret->len, hex);
	if (!streq(hex, b->digest) || ret->len != b->size)
		return err_set(e, R_DIGEST_MISMATCH, 0,
			"check '%.128s' of the image: its bytes are not those that its digest names",
			b->name);
	return 0;
}

/* A descriptor: media type, digest, size.  The type must be one of `wanted`. */
static int read_blob(const json_t *descriptor, enum media wanted, struct blob *ret, struct err *e)
{
	const char *type = parse_text(descriptor, "mediaType");
	const char *hex = image_digest_hex(parse_text(descriptor, "digest"));
	json_int_t size = json_integer_value(json_object_get(descriptor, "size"));

	if (!hex)
		return invalid(e, "a blob without a SHA-256 digest");
	if (!json_is_integer(json_object_get(descriptor, "size")) || size < 0)
		return invalid(e, "a blob without a size");
	for (size_t i = 0; type && i < sizeof types / sizeof *types; i++) {
		if (!streq(types[i].type, type) || types[i].media != wanted)
			continue;
		FMT(ret->name, "blobs/sha256/%s", hex);
		FMT(ret->digest, "%s", hex);
		ret->size = (uint64_t)size;
		ret->compression = types[i].compression;
		return 0;
	}
	return err_set(e, R_IMAGE_INVALID, 0, "read the image: media type '%.128s' is not known",
		type ?: "(none)");
}

static int read_layers(const json_t *list, struct manifest *m, struct err *e)
{
	size_t n = json_array_size(list);

	if (n == 0 || n > MANIFEST_MAX_LAYERS)
		return invalid(e, "it has no layers, or too many");
	m->layers = xcalloc(n, sizeof *m->layers);
	for (size_t i = 0; i < n; i++)
		if (read_blob(json_array_get(list, i), MEDIA_LAYER, &m->layers[i], e) < 0)
			return -1;
	m->n_layers = (unsigned)n;
	return 0;
}

static int read_manifest(
	const struct source *s, const struct blob *blob, struct manifest *m, struct err *e)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_json_ json_t *j = NULL;

	if (manifest_load(s, blob, &text, e) < 0 ||
		parse_json(&text, "the manifest of the image", &j, e) < 0)
		return -1;
	if (json_integer_value(json_object_get(j, "schemaVersion")) != 2)
		return invalid(e, "its manifest is not of version 2");
	FMT(m->digest, "%s", blob->digest);
	if (read_blob(json_object_get(j, "config"), MEDIA_CONFIG, &m->config, e) < 0)
		return -1;
	return read_layers(json_object_get(j, "layers"), m, e);
}

static const char *reference_of(const json_t *descriptor)
{
	const json_t *notes = json_object_get(descriptor, "annotations");
	const char *full = parse_text(notes, "io.containerd.image.name");

	return full ?: parse_text(notes, "org.opencontainers.image.ref.name");
}

/* Entries without a platform are for any. */
static bool fits_machine(const json_t *descriptor)
{
	const json_t *platform = json_object_get(descriptor, "platform");
	const char *os = parse_text(platform, "os"), *arch = parse_text(platform, "architecture");

	if (!platform)
		return true;
	return os && arch && streq(os, "linux") && streq(arch, manifest_machine());
}

/* The one entry of an index that is meant; *ret NULL when none is. */
static int choose(const json_t *list, const char *reference, const json_t **ret, struct err *e)
{
	size_t n = json_array_size(list);

	*ret = NULL;
	if (n > MAX_MANIFESTS)
		return invalid(e, "its index is too long");
	for (size_t i = 0; i < n; i++) {
		const json_t *d = json_array_get(list, i);
		const char *own = reference_of(d);

		if (!fits_machine(d) || (reference && (!own || !streq(own, reference))))
			continue;
		if (*ret) {
			(void)invalid(e, "it holds several images");
			return err_remedy(e, "Choose one with --ref.");
		}
		*ret = d;
	}
	if (*ret)
		return 0;
	if (reference)
		return err_set(e, R_IMAGE_NOT_FOUND, 0,
			"find '%.128s' in the archive: no image for this machine has that name",
			reference);
	return err_set(e, R_IMAGE_INVALID, 0, "read the image: none in it is for linux/%s",
		manifest_machine());
}

static bool is_index(const json_t *descriptor)
{
	const char *type = parse_text(descriptor, "mediaType");

	for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
		if (types[i].media == MEDIA_INDEX && streq(types[i].type, type))
			return true;
	return false;
}

/* From the index down through indexes of indexes to a manifest. */
static int read_layout(
	const struct source *s, const char *reference, struct manifest *m, struct err *e)
{
	struct blob blob = { .name = "index.json" };

	for (unsigned depth = 0; depth < MAX_NESTING; depth++) {
		_cleanup_buf_ struct buf text = BUF_INIT;
		_cleanup_json_ json_t *j = NULL;
		const json_t *d = NULL;
		const char *own;
		bool nested;

		if (manifest_load(s, &blob, &text, e) < 0 ||
			parse_json(&text, "the index of the image", &j, e) < 0 ||
			choose(json_object_get(j, "manifests"), depth ? NULL : reference, &d, e) <
				0)
			return -1;
		own = reference_of(d);
		if (own && !m->reference)
			m->reference = xstrdup(own);
		nested = is_index(d);
		if (read_blob(d, nested ? MEDIA_INDEX : MEDIA_MANIFEST, &blob, e) < 0)
			return -1;
		if (!nested)
			return read_manifest(s, &blob, m, e);
	}
	return invalid(e, "indexes in indexes, too deep");
}

/* --- docker save ---------------------------------------------------------------------------------------------------- */

static bool has_tag(const json_t *image, const char *tag)
{
	const json_t *tags = json_object_get(image, "RepoTags");

	for (size_t i = 0; i < json_array_size(tags); i++)
		if (streq(json_string_value(json_array_get(tags, i)) ?: "", tag))
			return true;
	return false;
}

static int choose_saved(const json_t *list, const char *tag, const json_t **ret, struct err *e)
{
	size_t n = json_array_size(list);

	*ret = NULL;
	if (n > MAX_MANIFESTS)
		return invalid(e, "its manifest.json is too long");
	for (size_t i = 0; i < n && !*ret; i++)
		if (!tag || has_tag(json_array_get(list, i), tag))
			*ret = json_array_get(list, i);
	if (!*ret && tag)
		return err_set(e, R_IMAGE_NOT_FOUND, 0,
			"find '%.128s' in the archive: no image has that name", tag);
	if (!*ret)
		return invalid(e, "its manifest.json names none");
	if (!tag && n > 1) {
		(void)invalid(e, "it holds several images");
		return err_remedy(e, "Choose one with --ref.");
	}
	return 0;
}

/* A file that manifest.json names.  Where the name is a digest, the bytes must be those. */
static int saved_blob(const struct source *s, const char *name, struct blob *ret,
	uint64_t *ret_size, struct err *e)
{
	_cleanup_close_ int fd = -1;
	const char *last;
	size_t dir;
	off_t size;

	if (!name)
		return invalid(e, "its manifest.json has a name that is no text");
	if (name_clean(name, ret->name, e) < 0 || source_file(s, ret->name, &fd, e) < 0)
		return -1;
	size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return invalid(e, "one of its files can't be read");
	*ret_size = (uint64_t)size;
	ret->compression = COMPRESSION_ANY;
	last = name_last(ret->name, &dir);
	if (dir == strlen("blobs/sha256") && !memcmp(ret->name, "blobs/sha256", dir) &&
		strlen(last) == IMAGE_HEX - 1) {
		FMT(ret->digest, "%s", last);
		ret->size = *ret_size;
	}
	return 0;
}

static int read_saved(
	const struct source *s, const char *reference, struct manifest *m, struct err *e)
{
	const struct blob blob = { .name = "manifest.json" };
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_json_ json_t *j = NULL;
	const json_t *image, *layers;
	const char *tag;
	uint64_t size;
	size_t n;

	if (manifest_load(s, &blob, &text, e) < 0 ||
		parse_json(&text, "manifest.json of the image", &j, e) < 0 ||
		choose_saved(j, reference, &image, e) < 0 ||
		saved_blob(s, parse_text(image, "Config"), &m->config, &size, e) < 0)
		return -1;
	/* HEX.json, as older versions have it */
	if (strlen(m->config.name) == IMAGE_HEX - 1 + 5 && streq(m->config.name + 64, ".json")) {
		FMT(m->config.digest, "%.64s", m->config.name);
		m->config.size = size;
	}
	layers = json_object_get(image, "Layers");
	n = json_array_size(layers);
	if (n == 0 || n > MANIFEST_MAX_LAYERS)
		return invalid(e, "it has no layers, or too many");
	m->layers = xcalloc(n, sizeof *m->layers);
	m->n_layers = (unsigned)n;
	for (size_t i = 0; i < n; i++)
		if (saved_blob(s, json_string_value(json_array_get(layers, i)), &m->layers[i],
			    &size, e) < 0)
			return -1;
	tag = json_string_value(json_array_get(json_object_get(image, "RepoTags"), 0));
	if (reference || tag)
		m->reference = xstrdup(reference ?: tag);
	return 0;
}

int manifest_read(
	const struct source *s, const char *reference, struct manifest *ret, struct err *e)
{
	return s->kind == SOURCE_DOCKER ? read_saved(s, reference, ret, e)
					: read_layout(s, reference, ret, e);
}
