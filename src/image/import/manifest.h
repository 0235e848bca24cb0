/* Which configuration and which layers make the image that was asked for. */
#pragma once
#include "image/import/source.h"

enum { MANIFEST_MAX_LAYERS = 256, MANIFEST_MAX_JSON = 8 << 20 };

struct blob {
	char name[NAME_MAX_PATH];     /* in the source */
	char digest[IMAGE_HEX];       /* of its bytes as they lie there; "": not said */
	uint64_t size;                /* checked when digest is */
	enum compression compression; /* as its media type says */
};

struct manifest {
	struct blob config;
	struct blob *layers;
	unsigned n_layers;
	char digest[IMAGE_HEX]; /* its own; "": it has none */
	char *reference;        /* what the source calls it; NULL: nothing */
};

void manifest_done(struct manifest *m);
#define _cleanup_manifest_ _cleanup_(manifest_done)

/* Reads the index of a SOURCE_LAYOUT or SOURCE_DOCKER; `reference` chooses among several images, NULL when there must be
 * only one.  Of images for several machines, the one for this kind of machine.  R_IMAGE_INVALID, R_DIGEST_MISMATCH,
 * R_IMAGE_NOT_FOUND when the reference isn't in it. */
int manifest_read(
	const struct source *s, const char *reference, struct manifest *ret, struct err *e);

/* "amd64" and its like: this machine, as images name it. */
const char *manifest_machine(void);

/* All of a small file of the source, its digest checked when the blob has one; NUL-terminated. */
int manifest_load(const struct source *s, const struct blob *b, struct buf *ret, struct err *e);
