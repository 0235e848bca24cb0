/* Owns whole-descriptor I/O.  Called everywhere; keeps no state. */
#include "base/fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/str.h"
#include "base/sys.h"

int write_all(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n) {
		ssize_t w = write(fd, s, n);

		if (w < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		s += w;
		n -= (size_t)w;
	}
	return 0;
}

int read_all(int fd, struct buf *b)
{
	for (;;) {
		ssize_t n;

		if (!buf_reserve(b, 16384)) {
			errno = EFBIG;
			return -1;
		}
		n = read(fd, b->data + b->len, 16384);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		b->len += (size_t)n;
		b->data[b->len] = '\0';
		if (!n)
			return 0;
	}
}

int write_file_at(int dirfd, const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	if (n < 0)
		return -1;
	if ((size_t)n != strlen(text)) {
		errno = EIO;
		return -1;
	}
	return 0;
}

ssize_t read_file_at(int dirfd, const char *path, char *out, size_t cap)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -1;
	while (len < cap - 1) {
		ssize_t n = read(fd, out + len, cap - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		len += (size_t)n;
	}
	out[len] = '\0';
	return (ssize_t)len;
}

bool socket_listens(int dirfd, const char *name)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (fd < 0)
		return true;
	FMT(a.sun_path, "/proc/self/fd/%d/%s", dirfd, name);
	return connect(fd, (const struct sockaddr *)&a, sizeof a) == 0 ||
		(errno != ECONNREFUSED && errno != ENOENT);
}

int make_dirs(const char *path, struct err *e)
{
	_cleanup_free_ char *copy = xstrdup(path);

	for (char *p = copy + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			return err_set(e,
				errno == ENOSPC || errno == EDQUOT ? R_DISK_FULL
								   : R_STATE_UNWRITABLE,
				errno, "create directory '%s'", copy);
		if (!c)
			return 0;
		*p = c;
	}
}

int set_nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}
