/* Counts lines, words and bytes of a stream. */
#pragma once
#include <stdio.h>

struct count {
	unsigned long lines;
	unsigned long words;
	unsigned long bytes;
};

/* Reads f to its end through a buffer of chunk bytes (at most COUNT_MAX_CHUNK); 0, or -1 when reading failed. */
enum { COUNT_MAX_CHUNK = 65536 };
int count_stream(FILE *f, size_t chunk, struct count *c);
