/* The verbs of bailey-image.  Each prints to `out`, which main() writes. */
#pragma once
#include "base/buf.h"
#include "image/import/import.h"

struct arguments {
	const char *name, *ref, *debian, *packages, *mirror, *max_size;
	bool json, replace, insecure_registry;
	char **words; /* what is left */
	int n_words;
};

typedef int verb_fn(const struct arguments *a, struct buf *out, struct err *e);

verb_fn verb_import, verb_build, verb_pull, verb_ls, verb_inspect, verb_rm, verb_export;

/* Limits as the arguments have them. */
int verb_limits(const struct arguments *a, struct limits *ret, struct err *e);

/* What import, build and pull print: the name alone, or all of the record. */
void verb_say(const struct arguments *a, const struct image *i, struct buf *out);

/* Writes out and empties it. */
int verb_flush(struct buf *out, struct err *e);
