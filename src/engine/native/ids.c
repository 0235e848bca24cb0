/* Owns the id ranges of root-made sandboxes and the maps of user namespaces.  Called by native.c and probe.c.
 *
 * A range is held by an open-file-description lock on one byte of a file in /run/bailey: it is released by the kernel when
 * the owner dies, whatever kills it, and all homes of a host share the files, so two never get the same ids.  There are
 * several files, since each close of one, in each process that inherited it, walks the list of all locks on it. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

#define IDS_DIR "/run/bailey"

enum { IDS_FILES = 16 };

static char *file_path(char out[static 32], uint64_t place)
{
	return str_format(out, 32, "%s/ids.%x", IDS_DIR, (unsigned)(place % IDS_FILES));
}

static int make_files(struct err *e)
{
	char path[32];

	if (mkdir(IDS_DIR, 0755) < 0 && errno != EEXIST)
		return err_set(e, R_STATE_UNWRITABLE, errno, "create directory '%s'", IDS_DIR);
	for (unsigned i = 0; i < IDS_FILES; i++) {
		_cleanup_close_ int fd =
			open(file_path(path, i), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return err_set(e, R_STATE_UNWRITABLE, errno, "create '%s'", path);
	}
	return 0;
}

/* The file for a place among all ids, made with all others when it is the first. */
static int open_file(uint64_t place, struct err *e)
{
	char path[32];
	int fd = open(file_path(path, place), O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT) {
		if (make_files(e) < 0)
			return -1;
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	}
	return fd < 0 ? err_set(e, R_STATE_UNWRITABLE, errno, "open '%s'", path) : fd;
}

int ids_take(struct id_range *ret, uint32_t base, uint32_t count, struct err *e)
{
	uint32_t start = (uint32_t)getpid() % count;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t n = (start + i) % count;
		/* the byte is the range's place among all ids, so that regions that overlap share their locks */
		struct flock l = { .l_type = F_WRLCK,
			.l_whence = SEEK_SET,
			.l_start = base / NATIVE_ID_RANGE + n,
			.l_len = 1 };
		_cleanup_close_ int fd = open_file((uint64_t)l.l_start, e);

		if (fd < 0)
			return -1;
		if (fcntl(fd, F_OFD_SETLK, &l) == 0) {
			ret->lock_fd = move_fd(&fd);
			ret->base = base + n * NATIVE_ID_RANGE;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return err_set(e, R_STATE_UNWRITABLE, errno, "lock a range of ids in '%s'",
				IDS_DIR);
	}
	return err_set(
		e, R_ID_RANGE_EXHAUSTED, 0, "take a range of ids: all '%u' are in use", count);
}

void ids_release(struct id_range *r)
{
	r->lock_fd = close_fd(r->lock_fd);
}

/* One line of subuid, subgid (name:start:count) or passwd or group (name:x:id:...). */
static int check_line(
	char *line, const char *file, bool is_passwd, uint64_t lo, uint64_t hi, struct err *e)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	char *save = NULL, *name = strtok_r(line, ":\n", &save),
	     *second = strtok_r(NULL, ":\n", &save);
	char *third = strtok_r(NULL, ":\n", &save);
	uint64_t first, n = 1;

	if (!name || !second || !third)
		return 0;
	if (parse_u64(is_passwd ? third : second, 0, UINT32_MAX, "id", &first, &ignored) < 0)
		return 0;
	if (!is_passwd && parse_u64(third, 0, UINT32_MAX, "count", &n, &ignored) < 0)
		return 0;
	if (n == 0 || first >= hi || first + n <= lo)
		return 0;
	return err_set(e, R_ID_RANGE_CONFLICT, 0, "use ids %llu to %llu: '%s' gives %llu to '%s'",
		(unsigned long long)lo, (unsigned long long)hi - 1, file, (unsigned long long)first,
		name);
}

static int check_file(const char *file, bool is_passwd, uint64_t lo, uint64_t hi, struct err *e)
{
	_cleanup_fclose_ FILE *f = fopen(file, "re");
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;

	if (!f)
		return 0; /* no such table: nothing in it */
	while (getline(&line, &cap, f) > 0)
		if (check_line(line, file, is_passwd, lo, hi, e) < 0)
			return -1;
	return 0;
}

int ids_check_region(uint32_t base, uint32_t count, struct err *e)
{
	uint64_t lo = base, hi = lo + (uint64_t)count * NATIVE_ID_RANGE;

	if (base < NATIVE_ID_RANGE || count == 0 || hi > UINT32_MAX)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"use ids.base '%u' and ids.count '%u': outside 65536 to 4294967295", base,
			count);
	if (base % NATIVE_ID_RANGE)
		return err_set(e, R_OUT_OF_RANGE, 0, "use ids.base '%u': not a multiple of %d",
			base, NATIVE_ID_RANGE);
	if (check_file("/etc/subuid", false, lo, hi, e) < 0 ||
		check_file("/etc/subgid", false, lo, hi, e) < 0 ||
		check_file("/etc/passwd", true, lo, hi, e) < 0 ||
		check_file("/etc/group", true, lo, hi, e) < 0)
		return -1;
	return 0;
}

int ids_write_maps(pid_t pid, const char *uid_map, const char *gid_map, struct err *e)
{
	char path[64];
	_cleanup_close_ int proc =
		open(FMT(path, "/proc/%d", pid), O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open '/proc/%d'", pid);
	if (write_file_at(proc, "uid_map", uid_map) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "write uid map '%s'", uid_map);
	if (write_file_at(proc, "gid_map", gid_map) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "write gid map '%s'", gid_map);
	return 0;
}

static int open_mapping(const char *uid_map, const char *gid_map, int *ret, struct err *e)
{
	char path[64];
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	pid_t pid, parent = getpid();
	int fd, r;

	/* a process whose only purpose is to hold the namespace until it is opened; no memory is shared */
	pid = sys_clone3(&args);
	if (pid < 0)
		return explain_userns(errno, e);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent) /* it may have died before the signal was asked for */
			(void)pause();
		_exit(0);
	}
	r = ids_write_maps(pid, uid_map, gid_map, e);
	fd = r < 0 ? -1 : open(FMT(path, "/proc/%d/ns/user", pid), O_RDONLY | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = err_set(e, R_SETUP_FAILED, errno, "open '%s'", path);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	if (r == 0)
		*ret = fd;
	return r;
}

int ids_open_mapping(
	uid_t uid, gid_t gid, uid_t to_uid, gid_t to_gid, uint32_t n, int *ret, struct err *e)
{
	char uid_map[64], gid_map[64];

	return open_mapping(FMT(uid_map, "%u %u %u", uid, to_uid, n),
		FMT(gid_map, "%u %u %u", gid, to_gid, n), ret, e);
}

int ids_open_shift(uid_t from, uid_t to, int *ret, struct err *e)
{
	char map[64];

	FMT(map, "0 0 1\n%u %u %d", from, to, NATIVE_ID_MAPPED);
	return open_mapping(map, map, ret, e);
}
