/* Where an image comes from: a directory, an archive, or a pipe, and what of it lies there. */
#pragma once
#include "image/import/names.h"
#include "image/import/store.h"

enum source_kind {
	SOURCE_LAYOUT, /* blobs as an OCI layout has them */
	SOURCE_DOCKER, /* manifest.json and what it names, from `docker save` */
	SOURCE_TAR,    /* one tar that holds a root tree */
	SOURCE_TREE,   /* a directory that is a root tree */
	SOURCE_FILE,   /* an archive that was not looked at yet */
};

/* One file of an archive of images, kept aside under its number. */
struct spooled {
	char *name, *link; /* link: another name's file; NULL for a file of its own */
	unsigned number;
};

struct source {
	enum source_kind kind;
	int fd;    /* the directory, or the tar at its beginning; -1 with an archive of images */
	int spool; /* the directory of the spooled files; -1 without */
	struct spooled *files;
	unsigned n_files, cap_files;
};

void source_init(struct source *s);
void source_done(struct source *s);
#define _cleanup_source_ _cleanup_(source_done)

/* `path` as the user gave it; "-" is standard input.  Reads nothing of it. */
int source_open(struct source *s, const char *path, struct err *e);

/* Tells of a SOURCE_FILE which of the others it is, and unpacks an archive of images into the work directory. */
int source_look(struct source *s, struct store *store, struct limits *limits, struct err *e);

/* A file of a layout or archive; *ret_fd is open for reading.  R_IMAGE_INVALID when it isn't there. */
int source_file(const struct source *s, const char *name, int *ret_fd, struct err *e);
bool source_has(const struct source *s, const char *name);
