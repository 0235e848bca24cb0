/* Owns the decision what may be shown in a sandbox.  Called by whoever opens a client's path (today the CLI itself).
 *
 * The objects are those of forbidden.def.  For a normal user the kernel shows what is mounted below a source as well, so each
 * mount there is looked at as if it were named. */
#include "launcher/admit.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/str.h"
#include "base/sys.h"
#include "launcher/chain.h"
#include "launcher/forbidden.h"
#include "launcher/mounts.h"
#include "launcher/sockets.h"

enum {
	MIN_FREE = 1 << 20, /* bytes a writable workspace's file system must have free */
	MAX_NESTED = 512,   /* mounts below a source */
};

/* Looked up once for all sources of a command. */
static struct forbidden *table;

void admit_forget(void)
{
	forbidden_free(table);
	table = NULL;
}

static int refuse(const struct admit *a, const struct refusal *r, struct err *e)
{
	(void)err_set(e, R_MOUNT_FORBIDDEN, 0, "show '%s' in a sandbox: it %s '%s'", a->path,
		r->how, r->path);
	if (r->writable_only)
		(void)err_remedy(e,
			"Mount it read-only, or give a project directory that doesn't hold '%s'.",
			r->path);
	return -1;
}

static bool has_mounts(const struct chain *c)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->at[i].mount_root && i != c->root)
			return true;
	return false;
}

/* True and *r set when the object may not be shown.  The mounts are NULL where none is part of the chain. */
static bool is_forbidden(const struct mounts *m, struct chain *c, bool writable, struct refusal *r)
{
	return forbidden_directory(table, c, writable, r) ||
		(m && (mounts_add_aliases(m, c, r) || forbidden_directory(table, c, writable, r)));
}

static int refuse_nested(
	const struct admit *a, const char *point, const struct refusal *r, struct err *e)
{
	(void)err_set(e, R_MOUNT_FORBIDDEN, 0,
		"show '%s' in a sandbox: '%s' is mounted in it, and that %s '%s'", a->path, point,
		r->how, r->path);
	return err_remedy(e, "Unmount '%s', or mount a directory that doesn't hold it.", point);
}

static int check_nested(const struct admit *a, const struct mounts *m, const char *point,
	struct object *ret, struct err *e)
{
	_cleanup_close_ int fd = open(point, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct refusal r;
	struct chain c;

	*ret = (struct object){ .ino = 0 };
	/* what we may not reach a sandbox with our ids can't either */
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (fd < 0 || (chain_of(fd, &c) < 0 && errno != EACCES)) {
		(void)err_set(e, R_MOUNT_FORBIDDEN, errno, "look at '%s', which is mounted in '%s'",
			point, a->path);
		return err_remedy(
			e, "Unmount '%s', or mount a directory that doesn't hold it.", point);
	}
	if (!c.n)
		return 0;
	*ret = c.at[0];
	if (S_ISSOCK(c.at[0].mode)) {
		r = (struct refusal){ .how = "is", .path = "a socket" };
		return refuse_nested(a, point, &r, e);
	}
	return is_forbidden(m, &c, a->writable, &r) ? refuse_nested(a, point, &r, e) : 0;
}

static int check_all_nested(const struct admit *a, const struct mounts *m, const char *path,
	struct shown *v, size_t *n, struct err *e)
{
	for (size_t i = 0; i < m->n; i++) {
		const char *rest = below(m->v[i].point, path);

		if (!rest || !*rest)
			continue;
		if (*n == MAX_NESTED)
			return err_set(e, R_MOUNT_FORBIDDEN, 0,
				"show '%s' in a sandbox: over %d mounts lie in it", a->path,
				MAX_NESTED);
		v[*n] = (struct shown){ .path = m->v[i].point, .fd = -1 };
		if (check_nested(a, m, m->v[i].point, &v[(*n)++].object, e) < 0)
			return -1;
	}
	return 0;
}

static int check_sockets(const struct admit *a, const struct shown *v, size_t n, struct err *e)
{
	_cleanup_free_ char *name = NULL;

	if (sockets_below(v, n, &name, e) < 0)
		return -1;
	if (!name)
		return 0;
	(void)err_set(e, R_MOUNT_FORBIDDEN, 0,
		"show '%s' in a sandbox: a program of the host has the socket '%s' in it", a->path,
		name);
	return err_remedy(e,
		"Stop the program that '%s' belongs to, or mount a directory without it: a sandbox could have "
		"it run commands, even through a read-only mount.",
		name);
}

static int check_directory(const struct admit *a, int fd, struct err *e)
{
	_cleanup_mounts_ struct mounts mounts = MOUNTS_INIT;
	_cleanup_free_ struct shown *v = NULL;
	bool recursive = geteuid() != 0, need;
	char path[PATH_MAX];
	struct refusal r;
	struct chain c;
	size_t n = 1;
	int failed = chain_of(fd, &c) < 0 ? errno : 0;

	path_of(fd, path);
	if (!c.n || !*path)
		return err_set(e, R_MOUNT_FORBIDDEN, failed, "find what lies above '%s'", a->path);
	/* what stands in the table is named so even when there is no right to go up from it */
	if (is_forbidden(NULL, &c, a->writable, &r))
		return refuse(a, &r, e);
	r = (struct refusal){ .how = "lies in, or is, a directory named",
		.path = forbidden_name(path) };
	if (r.path)
		return refuse(a, &r, e);
	if (failed)
		return err_set(e, R_MOUNT_FORBIDDEN, failed, "find what lies above '%s'", a->path);
	need = recursive || has_mounts(&c);
	if (need && mounts_load(&mounts, e) < 0)
		return -1;
	if (need && is_forbidden(&mounts, &c, a->writable, &r))
		return refuse(a, &r, e);
	v = xcalloc(MAX_NESTED, sizeof *v);
	v[0] = (struct shown){ .object = c.at[0], .path = path, .fd = fd };
	if (recursive && check_all_nested(a, &mounts, path, v, &n, e) < 0)
		return -1;
	return check_sockets(a, v, n, e);
}

static int check_socket(const struct admit *a, int fd, struct err *e)
{
	char path[PATH_MAX];
	struct refusal r;
	struct chain c;
	int failed = chain_of(fd, &c) < 0 ? errno : 0;

	if (!c.n || !S_ISSOCK(c.at[0].mode))
		return err_set(e, R_SOCKET_MISSING, 0, "use model socket '%s': not a Unix socket",
			a->path);
	path_of(fd, path);
	if (forbidden_socket(table, &c, path, &r))
		return refuse(a, &r, e);
	if (failed || !*path)
		return err_set(e, R_MOUNT_FORBIDDEN, failed, "find what lies above '%s'", a->path);
	return 0;
}

static int check_owner(const struct admit *a, int fd, struct err *e)
{
	const uid_t uid = a->for_other ? a->uid : geteuid();
	struct statvfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, R_MOUNT_SOURCE_MISSING, errno, "look at '%s'", a->path);
	if (st.st_uid != uid)
		return err_set(e, R_WORKSPACE_NOT_OWNED, 0,
			"make '%s' writable: it belongs to uid '%u', not '%u'", a->path, st.st_uid,
			uid);
	if (st.st_uid == 0 && !a->allow_root_owned)
		return err_set(e, R_WORKSPACE_ROOT_OWNED, 0,
			"make '%s' writable: it belongs to root", a->path);
	/* O_PATH descriptors can't be asked for their file system by fstatvfs before Linux 3.12; all we support can */
	if (fstatvfs(fd, &fs) == 0 && fs.f_blocks && (uint64_t)fs.f_bavail * fs.f_frsize < MIN_FREE)
		return err_set(e, R_DISK_FULL, ENOSPC,
			"make '%s' writable: its file system has under 1 MiB free", a->path);
	return 0;
}

static int missing(const struct admit *a, struct err *e)
{
	static const enum reason reasons[] = { [ADMIT_WORKSPACE] = R_MOUNT_SOURCE_MISSING,
		[ADMIT_MOUNT] = R_MOUNT_SOURCE_MISSING,
		[ADMIT_IMAGE] = R_IMAGE_MISSING,
		[ADMIT_SOCKET] = R_SOCKET_MISSING };

	return err_set(e, reasons[a->use], errno, "open '%s'", a->path);
}

/* A current directory that somebody has removed: it opens, but nothing can be made of it. */
static int check_deleted(const struct admit *a, int fd, struct err *e)
{
	const size_t mark = strlen(" (deleted)");
	char path[PATH_MAX];
	struct stat st;
	size_t n;

	if (fstat(fd, &st) < 0 || st.st_nlink)
		return 0;
	path_of(fd, path);
	n = strlen(path);
	if (n <= mark || !streq(path + n - mark, " (deleted)"))
		return 0; /* some file systems always count 0 */
	errno = ENOENT;
	return missing(a, e);
}

static int check(const struct admit *a, int fd, struct err *e)
{
	const bool directory = a->use != ADMIT_SOCKET;

	if (check_deleted(a, fd, e) < 0)
		return -1;
	if (!table && forbidden_load(&table, e) < 0)
		return -1;
	if ((directory ? check_directory(a, fd, e) : check_socket(a, fd, e)) < 0)
		return -1;
	return a->writable && directory ? check_owner(a, fd, e) : 0;
}

int admit_open(const struct admit *a, int *ret_fd, struct err *e)
{
	_cleanup_close_ int fd = -1;
	bool directory = a->use != ADMIT_SOCKET;

	if (!*a->path || str_has_control(a->path) || strlen(a->path) >= PATH_MAX)
		return err_set(e, R_BAD_VALUE, 0,
			"use path '%.64s': empty, too long, or with control characters", a->path);
	if (a->use == ADMIT_MOUNT && a->path[0] != '/')
		return err_set(e, R_MOUNT_SOURCE_RELATIVE, 0,
			"use mount source '%s': not an absolute path", a->path);
	/* no magic links: /proc/self/fd/N or /proc/PID/root would lead out of the name space that is checked */
	fd = sys_openat2(AT_FDCWD, a->path, O_PATH | (directory ? O_DIRECTORY : 0u), 0,
		RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return missing(a, e);
	if (check(a, fd, e) < 0)
		return -1;
	*ret_fd = move_fd(&fd);
	return 0;
}

int admit_fd(const struct admit *a, int given, int *ret_fd, struct err *e)
{
	_cleanup_close_ int fd = -1;
	char link[64];
	struct stat st;

	/* whatever else the descriptor could do is left behind */
	fd = open(FMT(link, "/proc/self/fd/%d", given), O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return missing(a, e);
	if (a->use == ADMIT_SOCKET ? !S_ISSOCK(st.st_mode) : !S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return missing(a, e);
	}
	if (check(a, fd, e) < 0)
		return -1;
	*ret_fd = move_fd(&fd);
	return 0;
}

void admit_use_sockets(int fd)
{
	sockets_from(fd);
}
