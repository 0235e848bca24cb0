/* Owns the reading of /proc/net/unix.  Called by admit.c.
 *
 * A read-only mount doesn't keep anyone from connecting, and the one who listens is a program outside.  The kernel lists
 * each bound name of this network namespace, so the directory needn't be searched. */
#include "launcher/sockets.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "launcher/mounts.h"

enum { MAX_LINES = 1 << 20, CONNECTED = 3 };

/* "ADDRESS: COUNT PROTOCOL FLAGS TYPE STATE INODE NAME": the name, when others could connect or send to it. */
static char *bound_name(char *line)
{
	char *field = line;

	line[strcspn(line, "\n")] = '\0';
	for (unsigned i = 0; i < 7; i++) {
		char *end = field + strcspn(field, " ");

		/* what accept() returned has the name of the one that listens, which has a line of its own */
		if (i == 5 && field[0] == '0' && field[1] == '0' + CONNECTED &&
			!str_after(field - 5, "0002"))
			return NULL;
		field = end + strspn(end, " ");
	}
	return *field && *field != '@' ? field : NULL;
}

static bool is_socket(int dirfd, const char *name, struct object *ret)
{
	return object_at(dirfd, name, ret) == 0 && S_ISSOCK(ret->mode);
}

static bool lies_in(const struct shown *v, size_t n, const char *name)
{
	_cleanup_close_ int dir = -1;
	bool near = false, inside = false;
	struct object o;
	struct chain c;

	if (*name != '/')
		return v[0].fd >= 0 && is_socket(v[0].fd, name, &o);
	if (!is_socket(AT_FDCWD, name, &o))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (below(name, v[i].path))
			return true;
		near = near || v[i].object.dev == o.dev;
	}
	if (near) {
		_cleanup_free_ char *path = xstrdup(name);

		/* bound by another name of the directory: through a link, or a mount */
		dir = open_parent(path);
		c.n = c.root = 0;
		if (dir < 0 || chain_add(&c, dir, 0) < 0)
			return false;
		for (size_t i = 0; i < n; i++)
			for (unsigned j = 0; j < c.n; j++)
				inside = inside || same_object(&v[i].object, &c.at[j]);
	}
	return inside;
}

static int held = -1;

void sockets_from(int fd)
{
	held = fd;
}

static FILE *open_list(void)
{
	FILE *f;
	int fd;

	if (held < 0)
		return fopen("/proc/net/unix", "re");
	fd = fcntl(held, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 || !(f = fdopen(fd, "r"))) {
		(void)close_fd(fd);
		return NULL;
	}
	return f;
}

int sockets_below(const struct shown *v, size_t n, char **ret, struct err *e)
{
	_cleanup_fclose_ FILE *f = open_list();
	char line[512]; /* a name has 107 bytes at most */

	*ret = NULL;
	if (!f)
		return err_set(e, R_SETUP_FAILED, errno, "read '/proc/net/unix'");
	for (unsigned i = 0; fgets(line, sizeof line, f); i++) {
		const char *name = i ? bound_name(line) : NULL; /* the first is the heading */

		if (i == MAX_LINES)
			return err_set(e, R_SETUP_FAILED, 0,
				"read '/proc/net/unix': over %d sockets", MAX_LINES);
		if (name && lies_in(v, n, name)) {
			*ret = xstrdup(name);
			return 0;
		}
	}
	if (ferror(f))
		return err_set(e, R_SETUP_FAILED, errno, "read '/proc/net/unix'");
	return 0;
}
