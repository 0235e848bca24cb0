/* From a source to an image in the store. */
#pragma once
#include "image/import/source.h"

struct import {
	const char *name;      /* NULL: what the source calls it */
	const char *fallback;  /* when that is nothing either; NULL: then a name is asked for */
	const char *reference; /* which image of several, or NULL */
	const char *source;    /* how it came, for the record; NULL: by the kind of source */
	const char *known_as;  /* the record's reference; NULL: what the source says */
	bool replace;
	struct limits limits;
};

/* Makes the image; *ret is its record.  `store` is open for writing.  All that is read is read behind walls. */
int import_image(struct store *store, const struct source *s, struct import *how, struct image *ret,
	struct err *e);

/* The same within the walls, from anything that was looked at but a directory. */
int import_source(struct store *store, const struct source *s, struct import *how,
	struct image *ret, struct err *e);

/* A name made of a reference or a file's name: the last part, without digest, ':latest' and the ends of archives; NULL
 * when nothing usable is left.  The caller frees it. */
char *import_name(const char *text);
