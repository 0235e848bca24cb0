/* Owns finding a user in an image's own files: bounded, by descriptor, no library that would ask the host's databases. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "image/import/config.h"

enum { MAX_FILE = 1 << 20, MAX_ID = 65534 };

/* One of the two files; an absent one is empty.  A link, a FIFO or a large file is refused. */
static int load(int root_fd, const char *path, struct buf *ret, struct err *e)
{
	_cleanup_close_ int fd = sys_openat2(root_fd, path, O_RDONLY | O_NONBLOCK, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	ret->max = MAX_FILE;
	if (fd < 0 && errno == ENOENT)
		return buf_puts(ret, "") ? 0 : err_set(e, R_NO_MEMORY, ENOMEM, "read '%s'", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "read '/%s' of the image", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, R_IMAGE_INVALID, 0, "read '/%s' of the image: no file", path);
	if (read_all(fd, ret) < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "read '/%s' of the image", path);
	return 0;
}

static bool is_number(const char *s)
{
	return *s && strspn(s, "0123456789") == strlen(s);
}

static int number(const char *s, const char *what, uint64_t *ret, struct err *e)
{
	_cleanup_err_ struct err why = ERR_INIT;

	if (parse_u64(s, 0, MAX_ID, what, ret, &why) < 0)
		return err_set(e, R_IMAGE_INVALID, 0,
			"use the image's %s '%.64s': not within 0 and %d", what, s, MAX_ID);
	return 0;
}

/* Cuts a line of passwd or group into its first fields; how many there were. */
static unsigned cut(char *line, char **fields, unsigned max)
{
	unsigned n = 0;

	while (n < max) {
		fields[n++] = line;
		line = strchr(line, ':');
		if (!line)
			break;
		*line++ = '\0';
	}
	return n;
}

/* The line whose field `by` is `text`; its fields lie in the buffer.  0: there is none. */
static unsigned find_line(
	struct buf *file, const char *text, unsigned by, char **fields, unsigned max)
{
	char *save = NULL;

	for (char *line = strtok_r(file->data, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		unsigned n = cut(line, fields, max);

		if (n > by && streq(fields[by], text))
			return n;
	}
	return 0;
}

static int find_group(struct image *i, int root_fd, const char *name, struct err *e)
{
	_cleanup_buf_ struct buf file = BUF_INIT;
	char *fields[4];

	if (is_number(name))
		return number(name, "group", &i->gid, e);
	if (load(root_fd, "etc/group", &file, e) < 0)
		return -1;
	if (find_line(&file, name, 0, fields, 4) < 3)
		return err_set(e, R_IMAGE_INVALID, 0,
			"find the image's group '%.64s': its /etc/group hasn't it", name);
	return number(fields[2], "group", &i->gid, e);
}

int config_find_user(struct image *i, int root_fd, struct err *e)
{
	_cleanup_free_ char *user = NULL;
	_cleanup_buf_ struct buf file = BUF_INIT;
	char *fields[5], *group;
	unsigned n;

	if (!i->user)
		return 0;
	user = xstrdup(i->user);
	group = strchr(user, ':');
	if (group)
		*group++ = '\0';
	if (load(root_fd, "etc/passwd", &file, e) < 0)
		return -1;
	n = find_line(&file, user, is_number(user) ? 2 : 0, fields, 5);
	if (n < 4 && !is_number(user))
		return err_set(e, R_IMAGE_INVALID, 0,
			"find the image's user '%.64s': its /etc/passwd hasn't it", user);
	/* a number without a line is a user all the same, with group 0, as elsewhere */
	if (number(n < 4 ? user : fields[2], "user", &i->uid, e) < 0 ||
		number(n < 4 ? "0" : fields[3], "group", &i->gid, e) < 0)
		return -1;
	i->has_user = true;
	return group && *group ? find_group(i, root_fd, group, e) : 0;
}
