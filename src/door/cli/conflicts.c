/* Owns finding what was changed on both sides: in a sandbox's view of a directory, and in the directory.  Called by apply.
 *
 * The change time of an inode is what nobody can set: one that is later than the sandbox's beginning was changed outside, for
 * nothing of the sandbox has reached the directory but by an apply.  What an earlier apply left is as the archive says, and
 * no conflict. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/archive.h"
#include "base/str.h"
#include "base/sys.h"
#include "door/cli/live.h"

enum { PIECE = 128 << 10, MODE_BITS = 0777 };

static uint64_t timespec_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

static int open_beneath(int dir, const char *path)
{
	return sys_openat2(dir, path, O_PATH | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Directories are merged: one counts only where it is removed or something else takes its place.  What has gone outside
 * can't be lost. */
static bool is_candidate(const struct change *c, int dir, uint64_t since_ns)
{
	_cleanup_close_ int fd = open_beneath(dir, c->path);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || timespec_ns(&st.st_ctim) <= since_ns)
		return false;
	return c->kind == 'D' || !S_ISDIR(st.st_mode) || !S_ISDIR(c->mode);
}

static bool same_link(int fd, const char *target)
{
	char text[ARCHIVE_MAX_NAME + 1];
	const ssize_t n = readlinkat(fd, "", text, sizeof text);

	return n >= 0 && (size_t)n == strlen(target) && memcmp(text, target, (size_t)n) == 0;
}

/* Whether the directory has it already as the archive says. */
static bool is_same(int dir, const char *path, const struct archive_entry *a)
{
	_cleanup_close_ int fd = open_beneath(dir, path);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || (int64_t)timespec_ns(&st.st_mtim) != a->mtime_ns)
		return false;
	switch (a->type) {
	case ARCHIVE_FILE:
		return S_ISREG(st.st_mode) && (uint64_t)st.st_size == a->size &&
			(st.st_mode & MODE_BITS) == (a->mode & MODE_BITS);
	case ARCHIVE_HARDLINK:
		return S_ISREG(st.st_mode);
	case ARCHIVE_SYMLINK:
		return S_ISLNK(st.st_mode) && same_link(fd, a->link);
	case ARCHIVE_DIR:
	case ARCHIVE_FIFO:
	case ARCHIVE_CHAR:
	case ARCHIVE_BLOCK_DEVICE:
		break;
	}
	return false;
}

static void take_entry(struct changes *c, int dir, const struct archive_entry *a)
{
	char path[ARCHIVE_MAX_NAME + 1];
	struct change *change;

	str_format(path, sizeof path, "%s", a->name);
	if (archive_clean_name(path) != ARCHIVE_CAUSE_NONE)
		return;
	change = changes_find(c, path);
	if (change && change->conflict && change->kind != 'D' && is_same(dir, path, a))
		change->conflict = false;
}

/* Clears the marks of what is already there. */
static int read_archive(struct changes *c, int dir, int fd, struct err *e)
{
	_cleanup_free_ struct archive_reader *r = malloc(sizeof *r);
	_cleanup_free_ uint8_t *data = malloc(PIECE);
	enum archive_event event;
	off_t at = 0;
	ssize_t n;

	if (!r || !data)
		return err_set(e, R_NO_MEMORY, ENOMEM, "read the changes");
	archive_reader_init(r);
	while ((n = pread(fd, data, PIECE, at)) > 0) {
		const uint8_t *p = data;
		size_t left = (size_t)n;

		at += n;
		while ((event = archive_next(r, &p, &left)) != ARCHIVE_MORE) {
			if (event == ARCHIVE_ENTRY)
				take_entry(c, dir, &r->entry);
			/* whoever writes the archive's files says what is wrong with it */
			if (event == ARCHIVE_REFUSED || event == ARCHIVE_END)
				return 0;
		}
	}
	return n < 0 ? err_set(e, R_IO_FAILED, errno, "read the changes") : 0;
}

int conflicts_mark(
	struct changes *c, int dir, uint64_t since_ms, int archive_fd, size_t *ret, struct err *e)
{
	size_t candidates = 0;

	*ret = 0;
	for (size_t i = 0; i < c->n; i++) {
		c->v[i].conflict = is_candidate(&c->v[i], dir, since_ms * 1000000);
		candidates += c->v[i].conflict;
	}
	if (!candidates)
		return 0;
	if (read_archive(c, dir, archive_fd, e) < 0)
		return -1;
	for (size_t i = 0; i < c->n; i++)
		*ret += c->v[i].conflict;
	return 0;
}
