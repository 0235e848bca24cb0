/* What overlayfs notes in the layers of a tree.  Read by whoever copies or compares layers. */
#pragma once
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Directories below each other that are copied or compared. */
enum { OVERLAY_MAX_DEPTH = 1000 };

/* Where overlayfs notes that a directory hides the one below it. */
enum layer_marks {
	MARKS_USER,    /* user.overlay.*: tmpfs has them since Linux 6.6 */
	MARKS_TRUSTED, /* trusted.overlay.*: root only */
	MARKS_NONE,    /* nowhere: layers can't be shared */
};

/* What overlayfs shows as nothing. */
static inline bool layer_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static inline bool layer_is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Whether overlayfs would show nothing below this directory: 1, 0, or -1 with errno. */
int layer_is_opaque(int fd, enum layer_marks marks);
int layer_set_opaque(int fd, enum layer_marks marks);
/* The attribute's name; not of MARKS_NONE. */
const char *layer_opaque_name(enum layer_marks marks);
