/* What the files of this room share.  Internal to the room. */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "tree/tree.h"

enum {
	TREE_MAX_LEVELS = ARCHIVE_MAX_DEPTH + 1, /* directories held open by a walk */
	TREE_QUOTED = 512,
};

/* A name for a message: control bytes and what isn't UTF-8 as \xHH, cut at the size of the array. */
const char *tree_quote(char out[static TREE_QUOTED], const char *path);

/* Sets *e by errno: "can't DO 'PATH'"; returns -1. */
int tree_failed(struct err *e, int sys_errno, const char *what, const char *path);

/* Opens beneath dirfd, through no link and no magic link; -1 with errno. */
int tree_open_beneath(int dirfd, const char *path, int flags);

/* Opens a directory by one part of a name, not through a link; -1 with errno. */
int tree_open_dir(int dirfd, const char *name, bool same_mount);

static inline struct timespec tree_timespec(int64_t ns)
{
	int64_t s = ns / 1000000000, rest = ns % 1000000000;

	return (struct timespec){ .tv_sec = rest < 0 ? s - 1 : s,
		.tv_nsec = rest < 0 ? rest + 1000000000 : rest };
}

/* A buffer for whole pages, aligned like them: the kernel copies to and from others half as quick.  Free with free(). */
void *tree_pages(size_t size);

/* --- a set of numbers (inodes, hashes of paths), at most TREE_SET_MAX --- */

enum { TREE_SET_MAX = 32 << 20 };

struct tree_set {
	uint64_t *slots; /* 0: free */
	size_t n, cap;
};

void tree_set_done(struct tree_set *s);
int tree_set_add(struct tree_set *s, uint64_t key, struct err *e);
bool tree_set_has(const struct tree_set *s, uint64_t key);

static inline uint64_t tree_inode_key(const struct stat *st)
{
	uint64_t key = st->st_ino ^ st->st_dev * 0x9e3779b97f4a7c15u;

	return key ? key : 1;
}

/* --- a walk: directories held open, one below the other --- */

struct tree_level {
	DIR *dir;
	size_t len;   /* the walker's */
	uint64_t tag; /* the walker's */
	bool flag;    /* the walker's */
};

struct tree_walk {
	struct tree_level *levels; /* TREE_MAX_LEVELS; owned */
	unsigned depth;
};

void tree_walk_done(struct tree_walk *w);

/* Takes the descriptor of a directory, also when it fails; -1 with errno (ELOOP: too deep). */
int tree_walk_push(struct tree_walk *w, int fd);
void tree_walk_pop(struct tree_walk *w);

/* The next name in the deepest directory, or NULL at its end (errno 0) and on an error. */
struct dirent *tree_walk_next(struct tree_walk *w);

static inline struct tree_level *tree_walk_top(struct tree_walk *w)
{
	return &w->levels[w->depth - 1];
}

static inline int tree_walk_fd(struct tree_walk *w)
{
	return dirfd(tree_walk_top(w)->dir);
}

/* --- removing --- */

struct tree_remove {
	const struct tree_set
		*keep; /* inodes that stay, but not what is in such directories; NULL: none */
	uint64_t removed;
	/* of what failed, relative to where it began; the walk takes names from it, so it holds the deepest there can be */
	char path[(TREE_MAX_LEVELS + 1) * 256];
	size_t path_len;
};

/* `name` beneath dirfd with all in it; 0 also when nothing is there. -1 with errno. */
int tree_remove_name(struct tree_remove *r, int dirfd, const char *name);

/* All that is in a directory; takes dir_fd. */
int tree_remove_content(struct tree_remove *r, int dir_fd);
