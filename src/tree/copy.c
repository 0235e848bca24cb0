/* Owns what a hard link becomes where the file system has none, or where the two names lie on different ones: a copy.  Called by
 * write.c, with a file that this archive brought. */
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>

#include "base/fd.h"
#include "base/str.h"
#include "tree/write.h"

enum { PROC_PATH = 40 };

/* All data, and the holes between them. */
static int copy_data(int from, int to, off_t size)
{
	off_t at = 0;

	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
		if (hole < 0 || lseek(to, data, SEEK_SET) < 0)
			return -1;
		for (at = data; at < hole;) {
			ssize_t n = sendfile(to, from, &at, (size_t)(hole - at));

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return -1;
			if (n == 0) /* it became shorter */
				return ftruncate(to, size);
		}
	}
	return ftruncate(to, size);
}

int tree_copy_file(struct tree_writer *w, int file, const char *name, struct err *e)
{
	_cleanup_close_ int from = -1, to = -1;
	char proc[PROC_PATH];
	struct stat st;

	if (fstat(file, &st) < 0)
		return tree_failed(e, errno, "look at", w->link);
	if (!S_ISREG(st.st_mode))
		return tree_failed(e, EPERM, "create", w->path);
	if (tree_count_bytes(w, (uint64_t)st.st_blocks * 512, e) < 0)
		return -1;
	from = open(FMT(proc, "/proc/self/fd/%d", file), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (from < 0)
		return tree_failed(e, errno, "open", w->link);
	to = openat(w->dir_fd, name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
	if (to < 0)
		return tree_failed(e, errno, "create", w->path);
	if (copy_data(from, to, st.st_size) == 0 && fchmod(to, st.st_mode & 0777) == 0 &&
		futimens(to, (const struct timespec[]){ { .tv_nsec = UTIME_OMIT }, st.st_mtim }) ==
			0 &&
		fstat(to, &st) == 0) {
		if (tree_note(w, &st, e) == 0)
			return 0;
	} else {
		tree_failed(e, errno, "write", w->path);
	}
	(void)unlinkat(w->dir_fd, name, 0);
	return -1;
}
