/* Between the files of the reader.  Internal to the room. */
#pragma once
#include "archive/archive.h"

enum reader_state {
	READ_HEADER,
	READ_PAX,       /* the records of a pax header */
	READ_LONG,      /* a GNU long name or link */
	READ_EXTRA_PAD, /* zeros behind either */
	READ_OLD_MAP,   /* blocks that continue the map of an old GNU sparse file */
	READ_MAP,       /* the map of a GNU sparse 1.0 file */
	READ_MAP_PAD,
	READ_DATA,
	READ_PADDING,
	READ_ENDED,
	READ_REFUSED,
};

/* Bits of sparse_keys: which GNU.sparse records there were. */
enum sparse_key {
	SPARSE_MAJOR = 1,
	SPARSE_MINOR = 2,
	SPARSE_SIZE = 4,
	SPARSE_NAME = 8,
	SPARSE_NEEDED = SPARSE_MAJOR | SPARSE_MINOR | SPARSE_SIZE,
};

#define ARCHIVE_FAILED_KEY "BAILEY.failed"

/* --- numbers (numbers.c) --- */

/* An octal field, or base 256; false on garbage, on a negative number and on more than 2^62 - 1. */
bool archive_field(const uint8_t *field, size_t width, uint64_t *ret);

/* The same for times, which may be negative; nanoseconds, clamped. */
bool archive_time_field(const uint8_t *field, size_t width, int64_t *ret);
bool archive_decimal(const char *s, size_t n, uint64_t *ret);
bool archive_decimal_time(const char *s, size_t n, int64_t *ret);

/* --- pax (pax.c): each 0 or a cause --- */
void archive_pax_begin(struct archive_reader *r, bool global);

/* Takes what belongs to the records from the window. */
enum archive_cause archive_pax_feed(struct archive_reader *r, const uint8_t **p, size_t *n);
enum archive_cause archive_pax_end(const struct archive_reader *r);

/* --- holes (sparse.c): each 0 or a cause --- */

/* The pieces in a header or in a block that continues it; archive_map_check() compares their sum. */
enum archive_cause archive_old_map(struct archive_reader *r, const uint8_t *at, unsigned pieces);

/* Takes what belongs to a map of 1.0 from the window; it is whole once sparse_ready is set and map_numbers is 0. */
enum archive_cause archive_map_feed(struct archive_reader *r, const uint8_t **p, size_t *n);
enum archive_cause archive_map_check(const struct archive_reader *r);
