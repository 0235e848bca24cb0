/* Where Bailey keeps its state and finds its other programs. */
#pragma once
#include "base/err.h"

/* $BAILEY_HOME, else $XDG_DATA_HOME/bailey, else ~/.local/share/bailey (root: /var/lib/bailey).  Absolute or an
 * error.  *ret is the caller's to free; nothing is created. */
int home_path(char **ret, struct err *e);

/* The same path with "/sub" behind it; the directories up to it are created 0700. */
int home_subdir(const char *sub, char **ret, struct err *e);

/* A short stable name for the home (8 hex digits), so that two homes on one host never touch each other's cgroups. */
int home_hash(char ret[static 9], struct err *e);

/* The path of a helper program: $BAILEY_LIBEXEC when set, else ../libexec/bailey beside the running program. */
int libexec_path(const char *program, char **ret, struct err *e);
