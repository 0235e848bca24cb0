/* The image store as its readers see it: a name leads to a read-only tree and to how its command is meant to start.
 *
 * $BAILEY_HOME/images/
 *   refs/NAME            a record: lines "key value\n" (record.def), \n and \\ escaped; a '/' is written '%'
 *   trees/HEX/root       the files of one chain of layers, HEX being its chain id
 *   trees/HEX/lock       held shared by whoever uses the tree, exclusively by whoever removes it
 *   trees/HEX/info       its parent and what was left out
 *   tmp/                 trees in the making, each with a lock of its maker
 * Trees never change: files are shared between them by hard links.  libc only; bailey-image alone writes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	IMAGE_MAX_NAME = 128,       /* bytes of a name with its NUL */
	IMAGE_MAX_RECORD = 4 << 20, /* bytes of a record */
	IMAGE_MAX_LIST = 4096,      /* entries of env, entrypoint, cmd, each */
	IMAGE_HEX = 65,             /* a SHA-256 in hex with its NUL */
};

/* NULL-terminated once anything is in it; v is NULL when it is empty. */
struct image_list {
	char **v;
	unsigned n;
};

typedef char *image_TEXT; /* NULL: not known */
typedef uint64_t image_NUMBER;
typedef bool image_FLAG;
typedef struct image_list image_LIST;

/* Owned by its declarer; image_init() first, image_done() last. */
struct image {
	char *name;
#define FIELD(kind, member, meaning) image_##kind member;
#include "image/record.def"
#undef FIELD
	int root_fd; /* O_PATH of the tree; -1 unless image_open() made it */
	int lock_fd; /* keeps the tree from being removed as long as it is open, in whichever process */
};

void image_init(struct image *i);
void image_done(struct image *i);
#define _cleanup_image_ _cleanup_(image_done)

/* Appends a copy; false when the list is full. */
bool image_list_add(struct image_list *l, const char *text);
void image_list_done(struct image_list *l);

/* A name: letters, digits, '.', '_', '-' and ':', beginning with a letter or digit, and not 'host'; before it may stand
 * "bailey/", as in the names of the images that Bailey makes.  R_BAD_VALUE. */
int image_check_name(const char *name, struct err *e);

/* Whether "bailey/" stands before it.  Any other word with a '/' is a directory's path. */
bool image_is_ours(const char *name);

/* The name of its file in refs/, and back. */
void image_ref_file(const char *name, char ret[static IMAGE_MAX_NAME]);
void image_ref_name(const char *file, char ret[static IMAGE_MAX_NAME]);

/* R_IMAGE_NOT_FOUND, with what makes it; -1. */
int image_not_found(const char *name, struct err *e);

/* Finds an image of this Bailey home (home_path()) and holds its tree; ret->workdir is NULL where a sandbox won't have the
 * directory.  R_IMAGE_NOT_FOUND, R_BAD_VALUE, R_BUSY while it
 * is removed, R_STATE_UNWRITABLE when the store can't be read or its record is damaged. */
int image_open(const char *home, const char *name, struct image *ret, struct err *e);

/* The record alone; refs_fd is the directory refs/.  Reasons as image_open(). */
int image_read(int refs_fd, const char *name, struct image *ret, struct err *e);
void image_format(const struct image *i, struct buf *out);

/* The record from its text, which is cut to pieces. */
int image_parse(const char *name, struct buf *text, struct image *ret, struct err *e);

/* Checks "sha256:HEX" and returns HEX in it, or NULL. */
const char *image_digest_hex(const char *digest);

/* Bytes on the disk, of directories and files: for each image what it has alone, which its removal would free, then with
 * the name NULL what several share, once.  fn ends it by another answer than 0, which is returned. */
typedef int image_usage_fn(void *arg, const char *name, uint64_t bytes);
int image_usage(const char *home, image_usage_fn *fn, void *arg);
