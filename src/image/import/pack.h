/* A tree as a tar: the same tree gives the same bytes. */
#pragma once
#include <sys/types.h>

#include "image/import/stream.h"

/* Takes root_fd; writes to out_fd, which is borrowed.  Sockets are left out.  R_OUTPUT_FAILED,
 * R_BUSY when the tree is changed meanwhile, and what walk_next() gives. */
int pack_tree(int root_fd, int out_fd, struct err *e);

/* A tar that is written member by member to fd, which is borrowed. */
struct archive *pack_open(int fd, struct err *e);
/* A name that ends in '/' is a directory. */
int pack_member(struct archive *a, const char *name, const void *p, size_t n, struct err *e);
int pack_file(struct archive *a, const char *name, int fd, uint64_t size, struct err *e);
int pack_close(struct archive *a, struct err *e);
