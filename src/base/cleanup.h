/* Scope-bound release of what a function owns, and the two moves that show where ownership leaves. */
#pragma once
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Closes a descriptor without disturbing errno; -1 is fine.  Always returns -1: `fd = close_fd(fd)`. */
static inline int close_fd(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		(void)close(fd);
		errno = saved;
	}
	return -1;
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	(void)close_fd(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* Hands a descriptor or pointer to a new owner and leaves nothing behind for the cleanup to release. */
static inline int move_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

#define move_ptr(p) \
	(__extension__({ \
		__typeof__(p) moved_ = (p); \
		(p) = NULL; \
		moved_; \
	}))
