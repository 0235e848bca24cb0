/* SHA-256, the one digest that images use here. */
#pragma once
#include <nettle/sha2.h>
#include <stddef.h>

#include "image/image.h"

struct digest {
	struct sha256_ctx ctx;
};

void digest_init(struct digest *d);
void digest_add(struct digest *d, const void *p, size_t n);

/* Ends it: lower-case hex. */
void digest_hex(struct digest *d, char ret[static IMAGE_HEX]);
void digest_of(const void *p, size_t n, char ret[static IMAGE_HEX]);
