/* Owns the files that layers lie in where native.layers is 'loop' (docs/decisions/0014).  Called by layers.c, as root.
 *
 * An image is a file without a name: it is gone with the last process that holds it and the last mount of it, whatever ended
 * them.  Its space is taken when it is made.  The one kind of file with a name is the template of a size, an empty file system
 * that mkfs.ext4 wrote once.
 *
 * What must hold: the kernel is given no file system that came from elsewhere.  Templates are believed only in a directory
 * that nobody but root can write to, as root's own files of the right size. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/home.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

enum {
	RECIPE = 1, /* in the names of templates: another recipe makes other ones */
	TAIL_BYTES = 1
		<< 20, /* behind the file system: where RAID and others keep what udev would look for */
	FD_MKFS = 3,
	MIN_INODES = 256,
	MAX_INODES = 1 << 24,
	BYTES_PER_INODE = 8192,
	MIN_JOURNAL_MIB = 4,
	MAX_JOURNAL_MIB = 64,
	JOURNAL_PART = 64,
};

/* --- the directory ------------------------------------------------------------------------------------------------- */

static int open_store(struct engine *n, struct err *e)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (n->store >= 0)
		return 0;
	if (n->env.layer_store)
		path = xstrdup(n->env.layer_store);
	else if (home_subdir("layers", &path, e) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)err_set(e, R_STATE_UNWRITABLE, errno, "open the layer store '%s'", path);
		return err_remedy(
			e, "Make that directory, or name another with native.layer_store.");
	}
	if (st.st_uid != 0 || (st.st_mode & 022)) {
		(void)err_set(e, R_STATE_UNWRITABLE, 0,
			"use the layer store '%s': others than root can write to it", path);
		return err_remedy(e,
			"Give it to root with mode 0700, or name another with "
			"native.layer_store.");
	}
	n->store = move_fd(&fd);
	return 0;
}

static int no_space(int sys_errno, const char *what, struct err *e)
{
	if (sys_errno != ENOSPC && sys_errno != EDQUOT && sys_errno != EFBIG)
		return err_set(e, R_SETUP_FAILED, sys_errno, "%s in the layer store", what);
	(void)err_set(e, R_DISK_FULL, sys_errno, "%s in the layer store", what);
	return err_remedy(e,
		"Remove sandboxes, ask for a smaller --disk, or free space on the "
		"file system of the layer store.");
}

/* Not copied on write where that can be had (btrfs): what was reserved can then be written again and again. */
static int open_unnamed(const struct engine *n, struct err *e)
{
	int fd = openat(n->store, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), flags = 0;

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		(void)err_set(e, R_LAYER_UNSUPPORTED, errno, "make a file in the layer store");
		return err_remedy(e,
			"Name a directory of a local file system with "
			"native.layer_store, or set native.layers to 'tmpfs'.");
	}
	if (fd < 0)
		return no_space(errno, "make a file", e);
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_NOCOW_FL;
		(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
	return fd;
}

/* --- templates ----------------------------------------------------------------------------------------------------- */

static uint64_t journal_mib(uint64_t bytes)
{
	uint64_t mib = bytes / JOURNAL_PART >> 20;

	if (bytes < STORE_MIN_JOURNALED)
		return 0;
	if (mib < MIN_JOURNAL_MIB)
		return MIN_JOURNAL_MIB;
	return mib < MAX_JOURNAL_MIB ? mib : MAX_JOURNAL_MIB;
}

static uint64_t inodes(uint64_t bytes)
{
	uint64_t n = bytes / BYTES_PER_INODE;

	if (n < MIN_INODES)
		return MIN_INODES;
	return n < MAX_INODES ? n : MAX_INODES;
}

static _Noreturn void exec_mkfs(int file, uint64_t bytes)
{
	/* every feature by name, and no file of the host's that could add one */
	static const char features[] =
		"none,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,"
		"large_file,huge_file,uninit_bg,dir_nlink,extra_isize";
	static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		    none[] = "MKE2FS_CONFIG=/dev/null";
	char *const env[] = { path, none, NULL };
	char list[256], journal[32], count[32], blocks[32];
	uint64_t mib = journal_mib(bytes);
	const char *words[] = { "mkfs.ext4", "-q", "-F", "-b", "4096", "-I", "256", "-m", "0", "-N",
		count, "-O", list, "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
		"/proc/self/fd/3", blocks, mib ? "-J" : NULL, journal, NULL };
	union {
		const char *const *in;
		char *const *out;
	} argv = { words };
	int null = open("/dev/null", O_RDWR);

	FMT(list, "%s%s", features, mib ? ",has_journal" : "");
	FMT(journal, "size=%llu", (unsigned long long)(mib ?: MIN_JOURNAL_MIB));
	FMT(count, "%llu", (unsigned long long)inodes(bytes));
	FMT(blocks, "%llu", (unsigned long long)(bytes / STORE_BLOCK));
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
		dup2(file, FD_MKFS) < 0 || fcntl(FD_MKFS, F_SETFD, 0) < 0)
		_exit(126);
	(void)execve("/usr/sbin/mkfs.ext4", argv.out, env);
	(void)execve("/sbin/mkfs.ext4", argv.out, env);
	_exit(127);
}

static int make_file_system(int file, uint64_t bytes, struct err *e)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		exec_mkfs(file, bytes);
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			break;
	if (pid < 0)
		return err_set(e, R_SETUP_FAILED, errno, "run mkfs.ext4");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
		(void)err_set(e, R_TOOL_MISSING, 0, "run mkfs.ext4 for a writable layer");
		return err_remedy(e, "Install e2fsprogs, or set native.layers to 'tmpfs'.");
	}
	if (status != 0) {
		(void)err_set(e, R_TOOL_FAILED, 0,
			"make a file system of %llu bytes: mkfs.ext4 failed",
			(unsigned long long)bytes);
		return err_remedy(e, "Check that the file system of the layer store has space.");
	}
	return 0;
}

static int open_template(
	const struct engine *n, const char *name, uint64_t bytes, int *ret, struct err *e)
{
	_cleanup_close_ int fd = sys_openat2(n->store, name, O_RDONLY, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open '%s' of the layer store", name);
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 077) || st.st_nlink != 1 ||
		(uint64_t)st.st_size != bytes + TAIL_BYTES) {
		(void)err_set(e, R_STATE_UNWRITABLE, 0,
			"use '%s' of the layer store: it is not as it was made", name);
		return err_remedy(e, "Remove that file; the next 'bailey create' makes it anew.");
	}
	*ret = move_fd(&fd);
	return 1;
}

/* Two that make the same one at once: the first one's is used by both. */
static int make_template(const struct engine *n, const char *name, uint64_t bytes, struct err *e)
{
	_cleanup_close_ int fd = open_unnamed(n, e);
	char link[64];

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)(bytes + TAIL_BYTES)) < 0)
		return no_space(errno, "make a template", e);
	if (make_file_system(fd, bytes, e) < 0)
		return -1;
	FMT(link, "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, link, n->store, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST)
		return no_space(errno, "keep a template", e);
	return 0;
}

static int get_template(const struct engine *n, uint64_t bytes, int *ret, struct err *e)
{
	char name[64];
	int r;

	FMT(name, "template-%d-%llu", RECIPE, (unsigned long long)bytes);
	r = open_template(n, name, bytes, ret, e);
	if (r != 0)
		return r;
	if (make_template(n, name, bytes, e) < 0)
		return -1;
	r = open_template(n, name, bytes, ret, e);
	return r != 0 ? r : err_set(e, R_STATE_UNWRITABLE, ENOENT, "keep '%s'", name);
}

/* --- images -------------------------------------------------------------------------------------------------------- */

/* By reading and writing: copy_file_range() would share blocks with the template, which have to be found anew when they are
 * written to. */
static int copy_range(int from, int to, off_t at, off_t end)
{
	char bytes[16 << 10];

	while (at < end) {
		size_t want = end - at < (off_t)sizeof bytes ? (size_t)(end - at) : sizeof bytes;
		ssize_t n = pread(from, bytes, want, at);

		if (n > 0)
			n = pwrite(to, bytes, (size_t)n, at);
		if (n == 0)
			errno = EIO;
		if (n <= 0)
			return -1;
		at += n;
	}
	return 0;
}

static int copy_data(int from, int to)
{
	off_t at = 0;

	for (;;) {
		off_t data = lseek(from, at, SEEK_DATA);

		if (data < 0)
			return errno == ENXIO ? 0 : -1;
		at = lseek(from, data, SEEK_HOLE);
		if (at < 0 || copy_range(from, to, data, at) < 0)
			return -1;
	}
}

/* The tail stays a hole: the file system ends before it. */
static int reserve(int fd, uint64_t bytes)
{
	if (ftruncate(fd, (off_t)(bytes + TAIL_BYTES)) < 0)
		return -1;
	return fallocate(fd, 0, 0, (off_t)bytes);
}

int store_new(struct engine *n, uint64_t bytes, int *ret, struct err *e)
{
	_cleanup_close_ int model = -1, fd = -1;

	bytes -= bytes % STORE_BLOCK;
	if (open_store(n, e) < 0 || get_template(n, bytes, &model, e) < 0)
		return -1;
	fd = open_unnamed(n, e);
	if (fd < 0)
		return -1;
	if (reserve(fd, bytes) < 0)
		return no_space(errno, "reserve a layer's space", e);
	if (copy_data(model, fd) < 0)
		return no_space(errno, "write a layer's first blocks", e);
	*ret = move_fd(&fd);
	return 0;
}

int store_clone(struct engine *n, int image, uint64_t used, int *ret, struct err *e)
{
	_cleanup_close_ int fd = -1;
	struct statvfs fs;
	struct stat st;

	if (fstat(image, &st) < 0 || (uint64_t)st.st_size < STORE_MIN_JOURNALED + TAIL_BYTES)
		return 0;
	fd = open_unnamed(n, e);
	if (fd < 0)
		return -1;
	if (ioctl(fd, FICLONE, image) < 0)
		return errno == ENOSPC ? no_space(errno, "clone a layer", e) : 0;
	if (reserve(fd, (uint64_t)st.st_size - TAIL_BYTES) < 0)
		return no_space(errno, "reserve a layer's space", e);
	if (fstatvfs(fd, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < used)
		return no_space(ENOSPC, "clone a layer", e);
	*ret = move_fd(&fd);
	return 1;
}
