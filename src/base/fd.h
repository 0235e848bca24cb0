/* Reading and writing descriptors whole, and small files by path. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Writes all n bytes, restarting on EINTR and short writes; -1 with errno. */
int write_all(int fd, const void *p, size_t n);

/* Appends everything up to end-of-file to b, within b's maximum (EFBIG when it does not fit); -1 with errno. */
int read_all(int fd, struct buf *b);

/* Writes `text` in one write(2) to an existing file beneath dirfd (never created, links not followed): the way
 * cgroup and proc files want it.  -1 with errno. */
int write_file_at(int dirfd, const char *path, const char *text);

/* Reads a small file (at most cap - 1 bytes) as a string; returns its length or -1 with errno. */
ssize_t read_file_at(int dirfd, const char *path, char *out, size_t cap);

/* Whether somebody may listen at the socket `name` beneath dirfd: false only when it is certain that nobody does. */
bool socket_listens(int dirfd, const char *name);

/* mkdir -p beneath the root, mode 0700 for what it creates. */
int make_dirs(const char *path, struct err *e);
int set_nonblocking(int fd, bool on);
