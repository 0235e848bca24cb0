/* One compressed or plain tar: its bytes are counted and digested on both sides of the compression. */
#pragma once
#include <archive.h>
#include <stdint.h>

#include "base/err.h"
#include "image/image.h"

enum {
	LIMIT_ENTRIES = 2000000,
	LIMIT_RATIO = 200, /* times what was read; holds beyond LIMIT_RATIO_FREE */
	LIMIT_RATIO_FREE = 256 << 20,
};
#define LIMIT_BYTES_DEFAULT ((uint64_t)64 << 30)

/* What one import may take, in all. */
struct limits {
	uint64_t max_bytes;
	uint64_t bytes, entries; /* taken so far */
};

enum compression { COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_ZSTD, COMPRESSION_ANY };

struct stream;

/* Reads fd from where it stands; fd is borrowed.  limits bounds what comes out of the compression. */
int stream_open(struct stream **ret, int fd, const struct limits *limits, struct err *e);

/* The last block may be cut short, as umoci writes it: only where a digest says that all bytes are there. */
void stream_allow_short(struct stream *s);

/* The next entry, NULL at the end. */
int stream_next(struct stream *s, struct archive_entry **ret, struct err *e);

/* The next piece of the entry's data; *ret_n 0 at the end.  Pieces come in order, with holes between them. */
int stream_data(
	struct stream *s, const void **ret, size_t *ret_n, uint64_t *ret_offset, struct err *e);

/* Takes what lies behind the last entry too; the digests of all bytes as they were read and as they came out. */
struct stream_end {
	char packed[IMAGE_HEX], plain[IMAGE_HEX];
	uint64_t packed_bytes;
	enum compression compression;
};
int stream_finish(struct stream *s, struct stream_end *ret, struct err *e);
void stream_free(struct stream *s);

static inline void cleanup_stream(struct stream **s)
{
	stream_free(*s);
}
#define _cleanup_stream_ _cleanup_(cleanup_stream)
