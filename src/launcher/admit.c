/* Owns the list of what is never shown in a sandbox.  Called by whoever opens a client's path (today the CLI itself).
 *
 * Two kinds of entries.  A tree: refused when the source is it, lies inside it, or contains it.  A whole: refused only when
 * the source is exactly it (a home directory as such; a project below it is fine). */
#include "launcher/admit.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/home.h"
#include "base/str.h"
#include "base/sys.h"

enum {
	MAX_DEPTH = 128,	  /* of a path */
	MAX_HOMES = 64,		  /* home directories looked at */
	MIN_FREE = 1 << 20,	  /* bytes a writable workspace's file system must have free */
	FIRST_USER_ID = 1000,	  /* login.defs: ids below belong to system users */
};

struct object {
	dev_t dev;
	ino_t ino;
};

/* The object and everything above it, up to the root. */
struct chain {
	struct object at[MAX_DEPTH];
	unsigned n;
};

static const char *const system_trees[] = { "/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run" };
static const char *const system_wholes[] = { "/", "/root", "/home" };

/* Sockets that would give the host away, whatever directory they lie in. */
static const char *const sockets[] = { "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
	"/run/crio/crio.sock", "/run/bailey/launcher.sock", "/run/dbus/system_bus_socket", "/run/systemd/private" };
static const char *const runtime_sockets[] = { "docker.sock", "podman/podman.sock", "bailey/launcher.sock", "bus",
	"systemd/private", "gnupg/S.gpg-agent" };
static const char *const socket_variables[] = { "DOCKER_HOST", "CONTAINER_HOST", "SSH_AUTH_SOCK" };

/* Below a home directory: keys, and the credential files of the agents' own CLIs. */
static const char *const home_trees[] = { ".ssh", ".aws", ".gnupg", ".docker", ".config/gcloud", ".azure", ".kube",
	".netrc", ".npmrc", ".git-credentials", ".claude", ".claude.json", ".codex", ".gemini", ".grok", ".qwen",
	".config/opencode", ".local/share/opencode", ".config/gh", ".antigravity", ".local/share/bailey" };

static bool same(struct object a, struct object b)
{
	return a.dev == b.dev && a.ino == b.ino;
}

static int chain_of(int fd, struct chain *c)
{
	_cleanup_close_ int at = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	c->n = 0;
	while (at >= 0) {
		struct stat st;
		int up;

		if (fstat(at, &st) < 0)
			return -1;
		if (c->n && same(c->at[c->n - 1], (struct object){ st.st_dev, st.st_ino }))
			return 0; /* the root is its own parent */
		if (c->n == MAX_DEPTH) {
			errno = ELOOP;
			return -1;
		}
		c->at[c->n++] = (struct object){ st.st_dev, st.st_ino };
		if (!S_ISDIR(st.st_mode))
			return 0; /* a socket or file: its directory is added by the caller */
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		at = close_fd(at);
		at = up;
	}
	return -1;
}

static bool contains(const struct chain *c, struct object o)
{
	for (unsigned i = 0; i < c->n; i++)
		if (same(c->at[i], o))
			return true;
	return false;
}

static int refuse(const struct admit *a, const char *what, const char *object, struct err *e)
{
	return err_set(e, R_MOUNT_FORBIDDEN, 0, "show '%s' in a sandbox: it %s '%s'", a->path, what, object);
}

/* Checks one forbidden path; absent ones are no danger. */
static int check_tree(const struct admit *a, const struct chain *source, const char *path, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct chain up;

	if (fd < 0 || chain_of(fd, &up) < 0 || !up.n)
		return 0;
	if (same(source->at[0], up.at[0]))
		return refuse(a, "is", path, e);
	if (contains(source, up.at[0]))
		return refuse(a, "lies inside", path, e);
	if (contains(&up, source->at[0]))
		return refuse(a, "contains", path, e);
	return 0;
}

static int check_whole(const struct admit *a, const struct chain *source, const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st) < 0 || st.st_dev != source->at[0].dev || st.st_ino != source->at[0].ino)
		return 0;
	return refuse(a, "is, as a whole,", path, e);
}

/* A file or socket: its chain ends at itself, so what lies above it is found by the directory of its resolved path. */
static int check_file(const struct admit *a, const struct chain *source, const char *path, int fd, struct err *e)
{
	char link[64], real[PATH_MAX];
	ssize_t n = readlink(FMT(link, "/proc/self/fd/%d", fd), real, sizeof real - 1);
	_cleanup_close_ int dir = -1;
	struct chain up;
	char *slash;

	if (n <= 0)
		return 0;
	real[n] = '\0';
	slash = strrchr(real, '/');
	if (!slash)
		return 0;
	*slash = '\0';
	dir = open(*real ? real : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || chain_of(dir, &up) < 0)
		return 0;
	return contains(&up, source->at[0]) ? refuse(a, "contains", path, e) : 0;
}

/* Checks one forbidden object, directory or not; absent ones are no danger. */
static int check_object(const struct admit *a, const struct chain *source, const char *path, struct err *e)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	return S_ISDIR(st.st_mode) ? check_tree(a, source, path, e) : check_file(a, source, path, fd, e);
}

/* A home directory as such, or what lies above it. */
static int check_home_whole(const struct admit *a, const struct chain *source, const char *home, struct err *e)
{
	_cleanup_close_ int fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct chain up;

	if (fd < 0 || chain_of(fd, &up) < 0 || up.n < 2)
		return 0;
	if (same(up.at[0], source->at[0]))
		return refuse(a, "is, as a whole,", home, e);
	return contains(&up, source->at[0]) ? refuse(a, "contains", home, e) : 0;
}

static int check_home(const struct admit *a, const struct chain *source, const char *home, struct err *e)
{
	if (check_home_whole(a, source, home, e) < 0)
		return -1;
	for (size_t i = 0; i < sizeof home_trees / sizeof *home_trees; i++) {
		char path[PATH_MAX];

		if (strlen(home) + strlen(home_trees[i]) + 2 > sizeof path)
			continue;
		if (check_object(a, source, FMT(path, "%s/%s", home, home_trees[i]), e) < 0)
			return -1;
	}
	return 0;
}

/* The caller's home by both ways of naming it, and every user's of this host. */
static int check_homes(const struct admit *a, const struct chain *source, struct err *e)
{
	_cleanup_fclose_ FILE *f = fopen("/etc/passwd", "re");
	const char *home = secure_getenv("HOME");
	unsigned seen = 0;

	if (home && *home == '/' && check_home(a, source, home, e) < 0)
		return -1;
	for (struct passwd *pw = f ? fgetpwent(f) : NULL; pw && seen < MAX_HOMES; pw = fgetpwent(f)) {
		if ((pw->pw_uid < FIRST_USER_ID && pw->pw_uid != 0) || pw->pw_uid == 65534 || streq(pw->pw_dir, "/"))
			continue;
		seen++;
		if (check_home(a, source, pw->pw_dir, e) < 0)
			return -1;
	}
	return 0;
}

static int check_bailey_home(const struct admit *a, const struct chain *source, struct err *e)
{
	_cleanup_free_ char *home = NULL;

	if (home_path(&home, e) < 0)
		return -1;
	return check_tree(a, source, home, e);
}

typedef int check_fn(const struct admit *a, const void *arg, const char *path, struct err *e);

/* Every socket that would give the host away. */
static int each_socket(const struct admit *a, check_fn *check, const void *arg, struct err *e)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof sockets / sizeof *sockets; i++)
		if (check(a, arg, sockets[i], e) < 0)
			return -1;
	for (size_t i = 0; runtime && strlen(runtime) < 1024 && i < sizeof runtime_sockets / sizeof *runtime_sockets; i++)
		if (check(a, arg, FMT(path, "%s/%s", runtime, runtime_sockets[i]), e) < 0)
			return -1;
	for (size_t i = 0; i < sizeof socket_variables / sizeof *socket_variables; i++) {
		const char *value = secure_getenv(socket_variables[i]);

		if (value && check(a, arg, str_after(value, "unix://") ?: value, e) < 0)
			return -1;
	}
	return 0;
}

static int socket_is_not(const struct admit *a, const void *arg, const char *path, struct err *e)
{
	const struct stat *st = arg;
	struct stat other;

	if (stat(path, &other) < 0 || other.st_dev != st->st_dev || other.st_ino != st->st_ino)
		return 0;
	return refuse(a, "is", path, e);
}

static int source_holds_not(const struct admit *a, const void *arg, const char *path, struct err *e)
{
	return check_object(a, arg, path, e);
}

static int check_socket(const struct admit *a, int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return err_set(e, R_SOCKET_MISSING, 0, "use model socket '%s': not a Unix socket", a->path);
	return each_socket(a, socket_is_not, &st, e);
}

static int check_directory(const struct admit *a, int fd, struct err *e)
{
	struct chain source;

	if (chain_of(fd, &source) < 0)
		return err_set(e, R_MOUNT_FORBIDDEN, errno, "find what lies above '%s'", a->path);
	for (size_t i = 0; i < sizeof system_wholes / sizeof *system_wholes; i++)
		if (check_whole(a, &source, system_wholes[i], e) < 0)
			return -1;
	for (size_t i = 0; i < sizeof system_trees / sizeof *system_trees; i++)
		if (check_tree(a, &source, system_trees[i], e) < 0)
			return -1;
	if (check_homes(a, &source, e) < 0 || each_socket(a, source_holds_not, &source, e) < 0)
		return -1;
	return check_bailey_home(a, &source, e);
}

static int check_owner(const struct admit *a, int fd, struct err *e)
{
	struct statvfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, R_MOUNT_SOURCE_MISSING, errno, "look at '%s'", a->path);
	if (st.st_uid != geteuid())
		return err_set(e, R_WORKSPACE_NOT_OWNED, 0, "make '%s' writable: it belongs to uid '%u', not '%u'", a->path,
			st.st_uid, geteuid());
	if (st.st_uid == 0 && !a->allow_root_owned)
		return err_set(e, R_WORKSPACE_ROOT_OWNED, 0, "make '%s' writable: it belongs to root", a->path);
	/* O_PATH descriptors can't be asked for their file system by fstatvfs before Linux 3.12; all we support can */
	if (fstatvfs(fd, &fs) == 0 && fs.f_blocks && (uint64_t)fs.f_bavail * fs.f_frsize < MIN_FREE)
		return err_set(e, R_DISK_FULL, ENOSPC, "make '%s' writable: its file system has under 1 MiB free", a->path);
	return 0;
}

static int missing(const struct admit *a, struct err *e)
{
	static const enum reason reasons[] = { [ADMIT_WORKSPACE] = R_MOUNT_SOURCE_MISSING,
		[ADMIT_MOUNT] = R_MOUNT_SOURCE_MISSING, [ADMIT_IMAGE] = R_IMAGE_MISSING, [ADMIT_SOCKET] = R_SOCKET_MISSING };

	return err_set(e, reasons[a->use], errno, "open '%s'", a->path);
}

int admit_open(const struct admit *a, int *ret_fd, struct err *e)
{
	_cleanup_close_ int fd = -1;
	bool directory = a->use != ADMIT_SOCKET;

	if (!*a->path || str_has_control(a->path) || strlen(a->path) >= PATH_MAX)
		return err_set(e, R_BAD_VALUE, 0, "use path '%.64s': empty, too long, or with control characters", a->path);
	if (a->use == ADMIT_MOUNT && a->path[0] != '/')
		return err_set(e, R_MOUNT_SOURCE_RELATIVE, 0, "use mount source '%s': not an absolute path", a->path);
	/* no magic links: /proc/self/fd/N or /proc/PID/root would lead out of the name space that is checked */
	fd = sys_openat2(AT_FDCWD, a->path, O_PATH | (directory ? O_DIRECTORY : 0u), 0, RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return missing(a, e);
	if ((directory ? check_directory(a, fd, e) : check_socket(a, fd, e)) < 0)
		return -1;
	if (a->writable && directory && check_owner(a, fd, e) < 0)
		return -1;
	*ret_fd = move_fd(&fd);
	return 0;
}
