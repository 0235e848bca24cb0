/* Owns the file of events.  Called by owner processes, many at once: each line is one write at the end of the file.  When the
 * file has grown it is renamed, once, under a lock, and a new one begins. */
#include "engine/events.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

static int open_events(int dir)
{
	return sys_openat2(dir, "events", O_WRONLY | O_APPEND | O_CREAT, 0600,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Whoever gets the lock looks again: another may have done it. */
static void rotate(int dir, int fd)
{
	struct stat st, now;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	if (fstat(fd, &st) == 0 && fstatat(dir, "events", &now, AT_SYMLINK_NOFOLLOW) == 0 &&
		st.st_ino == now.st_ino && st.st_dev == now.st_dev)
		(void)renameat(dir, "events", dir, "events.1");
}

size_t events_write(
	int dir, const char *id, const char *kind, const char *rest, char line[static EVENTS_LINE])
{
	_cleanup_close_ int fd = open_events(dir);
	struct stat st;
	size_t n;

	str_format(line, EVENTS_LINE, "%llu %s %s%s%.400s\n",
		(unsigned long long)(clock_ns(CLOCK_REALTIME) / 1000000u), id, kind,
		*rest ? " " : "", rest);
	n = strlen(line);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= EVENTS_MAX_BYTES) {
		rotate(dir, fd);
		(void)close_fd(fd);
		fd = open_events(dir);
	}
	if (fd >= 0)
		(void)write_all(fd, line, n);
	return n;
}
