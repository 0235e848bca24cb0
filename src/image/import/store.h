/* The store as its writer sees it.  Nothing half-made is ever visible: a tree is made in tmp/ and moved, a record is
 * written aside and moved.  Whoever makes holds the store's lock shared, whoever frees trees holds it alone. */
#pragma once
#include "image/image.h"
#include "image/import/layer.h"

struct store {
	char *path; /* .../images */
	int dir, refs, trees, tmp;
	int lock;      /* -1: for reading */
	int work;      /* a directory of our own in tmp/; -1: none yet */
	int work_lock; /* held: it is in use */
	char work_name[24];
};

void store_init(struct store *s);
void store_done(struct store *s); /* removes the work directory and what nobody needs */
#define _cleanup_store_ _cleanup_(store_done)

/* Opens the store of Bailey's home.  To write: it is made when missing, what killed makers left is removed, and a work
 * directory is made. */
int store_open(struct store *s, bool write, struct err *e);

/* An absolute path of the work directory with "/name" behind it; the caller frees it. */
char *store_work_path(const struct store *s, const char *name);

/* A new empty directory NAME/root in the work directory; *ret_fd is the root. */
int store_new_tree(struct store *s, const char *name, int *ret_fd, struct err *e);

bool store_has_tree(const struct store *s, const char *hex);
int store_open_tree(const struct store *s, const char *hex, int *ret_fd, struct err *e);

/* What a tree's info file says. */
struct tree_info {
	char parent[IMAGE_HEX];   /* "": none */
	struct layer_facts facts; /* of the whole chain */
};
int store_read_info(const struct store *s, const char *hex, struct tree_info *ret, struct err *e);
int store_write_info(
	const struct store *s, const char *work_name, const struct tree_info *info, struct err *e);

/* Moves NAME of the work directory to trees/HEX; when somebody else was first, theirs is kept. */
int store_publish(struct store *s, const char *work_name, const char *hex, struct err *e);

/* Writes the record.  R_IMAGE_EXISTS when the name stands for another image and replace is false. */
int store_write_ref(struct store *s, const struct image *i, bool replace, struct err *e);

/* All names, sorted. */
int store_names(const struct store *s, struct image_list *ret, struct err *e);

/* R_IMAGE_NOT_FOUND, R_BUSY while a sandbox uses the image and no other name stands for its tree. */
int store_remove(struct store *s, const char *name, struct err *e);
