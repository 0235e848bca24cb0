/* Owns the way to libnettle, which libarchive brings along anyway. */
#include "image/import/digest.h"

#include <stdint.h>

void digest_init(struct digest *d)
{
	sha256_init(&d->ctx);
}

void digest_add(struct digest *d, const void *p, size_t n)
{
	sha256_update(&d->ctx, n, p);
}

void digest_hex(struct digest *d, char ret[static IMAGE_HEX])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t raw[SHA256_DIGEST_SIZE];

	sha256_digest(&d->ctx, sizeof raw, raw);
	for (size_t i = 0; i < sizeof raw; i++) {
		ret[2 * i] = digits[raw[i] >> 4];
		ret[2 * i + 1] = digits[raw[i] & 15];
	}
	ret[2 * sizeof raw] = '\0';
}

void digest_of(const void *p, size_t n, char ret[static IMAGE_HEX])
{
	struct digest d;

	digest_init(&d);
	digest_add(&d, p, n);
	digest_hex(&d, ret);
}
