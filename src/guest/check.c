/* Owns what a container's first process looks at before it serves: that its mounts are what its host meant.  Called by dial.c.
 *
 * The daemon between them opens paths by itself, later than the host did, and gives a tmpfs the mode of the directory that it
 * covers.  The first is found out here, the second put right where the guest may.  Must hold: nothing was started yet. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "guest/dial.h"
#include "guest/session.h"

enum { CHECK_MAX = 16 << 10, MODE_BITS = 07777 };

struct line {
	char *at;
};

/* The next word, ended by a NUL in place; a path is the whole rest. */
static char *word(struct line *l, bool rest)
{
	char *begin = l->at;

	while (*l->at && (rest || *l->at != ' '))
		l->at++;
	if (*l->at)
		*l->at++ = 0;
	return begin;
}

static bool octal(const char *s, uint32_t *ret)
{
	uint32_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '7' || v > MODE_BITS)
			return false;
		v = v * 8 + (uint32_t)(*s - '0');
	}
	*ret = v;
	return v <= MODE_BITS;
}

/* Whoever owns a directory may change its mode, and the guest may be whoever it wants, or is the owner. */
static void set_mode(const char *path, uint32_t mode, uint64_t uid, uint64_t gid)
{
	(void)sys1(SYS_setfsgid, gid);
	(void)sys1(SYS_setfsuid, uid);
	(void)sys2(SYS_chmod, path, mode);
	(void)sys1(SYS_setfsuid, sys0(SYS_geteuid));
	(void)sys1(SYS_setfsgid, sys0(SYS_getegid));
	/* the kernel forgets it with each change of ids */
	guest_arm_parent_death();
}

static int check_tmpfs(struct line *l)
{
	struct stat st = { .st_mode = 0 };
	uint64_t uid, gid;
	uint32_t mode;
	const char *path;

	if (!octal(word(l, false), &mode) || !text_parse(word(l, false), 65534, &uid) ||
		!text_parse(word(l, false), 65534, &gid))
		return GUEST_EXIT_BROKEN;
	path = word(l, true);
	if (stat_at(AT_FDCWD, path, &st) == 0 && (st.st_mode & MODE_BITS) != mode) {
		set_mode(path, mode, uid, gid);
		(void)stat_at(AT_FDCWD, path, &st);
	}
	if ((st.st_mode & S_IFMT) != S_IFDIR || (st.st_mode & MODE_BITS) != mode ||
		st.st_uid != uid || st.st_gid != gid)
		return WIRE_EXIT_TMPFS;
	return 0;
}

static int check_object(struct line *l)
{
	struct stat st;
	uint64_t dev, ino;

	if (!text_parse(word(l, false), UINT64_MAX / 16, &dev) ||
		!text_parse(word(l, false), UINT64_MAX / 16, &ino))
		return GUEST_EXIT_BROKEN;
	if (stat_at(AT_FDCWD, word(l, true), &st) < 0 || st.st_dev != dev || st.st_ino != ino)
		return WIRE_EXIT_OBJECT;
	return 0;
}

static int check_line(char *text)
{
	struct line l = { text };
	const char *what = word(&l, false);

	if (text_same(what, "tmpfs"))
		return check_tmpfs(&l);
	if (text_same(what, "object"))
		return check_object(&l);
	return GUEST_EXIT_BROKEN;
}

/* 0, or the exit status. */
int check_mounts(const char *path)
{
	static char text[CHECK_MAX];
	long fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0), n;
	int r = 0;

	if (fd < 0)
		return fd == -ENOENT ? 0 : GUEST_EXIT_BROKEN;
	n = sys3(SYS_read, fd, text, sizeof text);
	close_quietly((int)fd);
	/* one that fills the buffer may go on */
	if (n < 0 || n == (long)sizeof text)
		return GUEST_EXIT_BROKEN;
	for (long at = 0, end; at < n && r == 0; at = end + 1) {
		end = at;
		while (end < n && text[end] != '\n')
			end++;
		text[end] = 0;
		r = check_line(text + at);
	}
	return r;
}
