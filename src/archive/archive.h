/* Tar archives: a writer (ustar, pax where that doesn't fit) and an incremental reader (ustar, pax, GNU and v7).
 *
 * Freestanding: bailey-guest links it without a C library.  No allocation, no system call; nothing here trusts a byte.
 * Reader and writer agree: what one writes the other reads back, nanoseconds, holes and odd bytes in names included. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ARCHIVE_BLOCK = 512,
	ARCHIVE_MAX_NAME = 4095,     /* bytes of a name or a link's target, without the NUL */
	ARCHIVE_MAX_PART = 255,      /* bytes of a name between two slashes */
	ARCHIVE_MAX_DEPTH = 256,     /* parts of a name */
	ARCHIVE_MAX_RANGES = 4096,   /* pieces of data of a file with holes */
	ARCHIVE_MAX_EXTRA = 1 << 20, /* bytes of one pax or GNU header behind a header */
	ARCHIVE_MAX_EXTRAS = 16,     /* such headers in a row */
	ARCHIVE_MAX_ID = 0x7fffffff, /* uid and gid */
	ARCHIVE_END_SIZE = 2 * ARCHIVE_BLOCK,
	ARCHIVE_MAX_FAILURE = 3000,
	ARCHIVE_FAILURE_CAP = 8 * ARCHIVE_BLOCK,
};

/* What archive_put() writes at most: a pax header with name, sparse name, link and numbers; the header; the map. */
#define ARCHIVE_HEADER_CAP(n_ranges) (16384u + 44u * (size_t)(n_ranges))

enum archive_type {
	ARCHIVE_FILE,
	ARCHIVE_DIR,
	ARCHIVE_SYMLINK,
	ARCHIVE_HARDLINK, /* link names an earlier entry of the same archive */
	ARCHIVE_FIFO,
	ARCHIVE_CHAR,
	ARCHIVE_BLOCK_DEVICE,
};

/* Data of a file; what lies between two ranges is a hole. */
struct archive_range {
	uint64_t offset, length; /* bytes */
};

struct archive_entry {
	enum archive_type type;
	uint32_t mode; /* 07777 at most: no type bits */
	uint32_t uid, gid;
	uint32_t major, minor; /* devices */
	uint64_t size;         /* bytes, holes counted; 0 unless ARCHIVE_FILE */
	int64_t mtime_ns;      /* since 1970; clamped to what 64 bits hold (1678 to 2262) */
	/* NUL-terminated; borrowed: of the caller when writing, of the reader (until ARCHIVE_ENTRY_END was seen) when reading.  The reader
	 * gives them as they stand in the archive: archive_clean_name() before any use as a path. */
	const char *name;
	const char
		*link; /* target of a symbolic or hard link; "" otherwise (writing: may be NULL) */
	bool sparse;   /* reader: the data leave holes */
	bool dropped;  /* reader: had extended attributes or ACLs, which nothing here keeps */
};

/* --- writing --- */

/* Writes all that stands before the data of an entry: whole blocks.  Returns their length, or 0 when cap is below
 * ARCHIVE_HEADER_CAP(n_ranges) or the entry can't be written (name empty or too long, ids, ranges out of order).
 * ranges NULL: no holes.  Else sorted, apart, inside size; only they are then written behind the header (GNU sparse 1.0).
 * An entry named "." is the root of the tree. */
size_t archive_put(uint8_t *out, size_t cap, const struct archive_entry *e,
	const struct archive_range *ranges, size_t n_ranges);

/* Zero bytes that follow n bytes of data. */
static inline size_t archive_padding(uint64_t n)
{
	return (size_t)(-n & (ARCHIVE_BLOCK - 1));
}

/* The end of an archive: ARCHIVE_END_SIZE zero bytes. */

/* In place of the end: why there is none.  n bytes of text, without a NUL, ARCHIVE_MAX_FAILURE at most.  Returns the length, or
 * 0 when cap is below ARCHIVE_FAILURE_CAP or the text is too long.  A pax global header: archivers that don't know it then
 * miss the end mark. */
size_t archive_put_failure(uint8_t *out, size_t cap, const char *text, size_t n);

/* --- reading --- */

enum archive_cause {
	ARCHIVE_CAUSE_NONE,
#define ARCHIVE_CAUSE(id, text) ARCHIVE_##id,
#include "archive/causes.def"
#undef ARCHIVE_CAUSE
};

/* "the checksum of a header is wrong" and its like. */
const char *archive_cause_text(enum archive_cause c);

enum archive_event {
	ARCHIVE_MORE, /* the window was consumed: call again with more bytes, or archive_finish() at the end of input */
	ARCHIVE_ENTRY, /* r->entry */
	ARCHIVE_DATA,  /* r->data, r->data_len at r->offset of the file; points into the window */
	ARCHIVE_ENTRY_END, /* exactly one per entry, after its data; r->entry is still valid */
	ARCHIVE_END,     /* the end mark was read; whatever is fed behind it is taken and ignored */
	ARCHIVE_REFUSED, /* r->cause; for good */
};

struct archive_meta {
	uint64_t size;
	int64_t mtime_ns;
	uint32_t uid, gid;
	bool has_size, has_mtime, has_uid, has_gid;
};

/* About 80 KiB, nothing in it owned.  The members above the line are for the caller to read. */
struct archive_reader {
	struct archive_entry entry;
	const uint8_t *data;
	size_t data_len;
	uint64_t offset;
	enum archive_cause cause;
	/* ---- */
	int state;
	size_t fill;     /* of block */
	uint64_t left;   /* bytes of an extra header or of an entry's data that follow */
	uint64_t stored; /* bytes of the entry's data in the archive */
	uint32_t padding;
	unsigned zeros; /* blocks in a row */
	bool any;       /* a header was right */
	/* what extra headers said about the next entry, or (defaults) about all */
	unsigned extras;
	struct archive_meta meta, defaults;
	bool has_name, has_link, gnu_name, gnu_link, pax_seen, dropped;
	/* the pax record being read */
	int pax_state;
	uint32_t record_left, value_len;
	uint8_t key_len, pax_key;
	bool global;
	/* holes */
	bool sparse_ready;
	uint8_t sparse_keys;
	uint64_t sparse_size, map_bytes, number, done;
	uint32_t map_numbers, map_digits, n_ranges, range;
	uint8_t block[ARCHIVE_BLOCK];
	char key[64];
	char name[ARCHIVE_MAX_NAME + 1];
	char link[ARCHIVE_MAX_NAME + 1];
	char value[ARCHIVE_MAX_NAME + 1];
	struct archive_range ranges[ARCHIVE_MAX_RANGES];
};

void archive_reader_init(struct archive_reader *r);

/* Reads on from the window *p, *n, which it moves.  Call until ARCHIVE_MORE (the window is then empty). */
enum archive_event archive_next(struct archive_reader *r, const uint8_t **p, size_t *n);

/* Bytes of the present file that come next in one piece, at *ret_offset: for a caller that moves them itself (splice) with an
 * empty window; 0 when the reader must see what comes next.  archive_skip() says that n of them were moved. */
uint64_t archive_pending(const struct archive_reader *r, uint64_t *ret_offset);
void archive_skip(struct archive_reader *r, uint64_t n);

/* At the end of input: true when the archive was whole, else r->cause. */
bool archive_finish(struct archive_reader *r);

/* What archive_put_failure() wrote, when the cause is ARCHIVE_GIVEN_UP; else "".  Of the maker's choice, like a name. */
const char *archive_failure(const struct archive_reader *r);

/* Makes a name of an archive safe to use beneath a directory, in place: "./" and doubled or trailing slashes go, the root
 * itself becomes ".".  Refused: empty, absolute, a part "..", a part or depth over the maxima. */
enum archive_cause archive_clean_name(char *name);
