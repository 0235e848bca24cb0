/* A setuid file left in a writable workspace is its owner's power for every user of the host,
 * whatever the mount flags inside.  Each row tries one way to set the bits; `after` looks on the
 * host for any that stayed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probe.h"

enum { NR_FCHMODAT2 = 452 };

static struct verdict do_chmod(char **arg)
{
	return by_errno(syscall(SYS_chmod, arg[0], (mode_t)number(arg[1])));
}

static struct verdict do_fchmod(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_CLOEXEC);

	return fd < 0 ? broken("open") : by_errno(fchmod(fd, (mode_t)number(arg[1])));
}

static struct verdict do_fchmodat(char **arg)
{
	return by_errno(syscall(SYS_fchmodat, AT_FDCWD, arg[0], (mode_t)number(arg[1])));
}

static struct verdict do_fchmodat2(char **arg)
{
	return by_errno(syscall(NR_FCHMODAT2, AT_FDCWD, arg[0], (mode_t)number(arg[1]), 0));
}

static struct verdict do_open(char **arg)
{
	return by_errno(
		syscall(SYS_open, arg[0], O_CREAT | O_WRONLY | O_CLOEXEC, (mode_t)number(arg[1])));
}

static struct verdict do_openat(char **arg)
{
	return by_errno(syscall(SYS_openat, AT_FDCWD, arg[0], O_CREAT | O_WRONLY | O_CLOEXEC,
		(mode_t)number(arg[1])));
}

static struct verdict do_openat2(char **arg)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = { O_CREAT | O_WRONLY | O_CLOEXEC, number(arg[1]), 0 };

	return by_errno(syscall(SYS_openat2, AT_FDCWD, arg[0], &how, sizeof how));
}

/* An unnamed file, given its name afterwards. */
static struct verdict do_tmpfile(char **arg)
{
	char path[64];
	int fd = open(arg[0], O_TMPFILE | O_RDWR | O_CLOEXEC, (mode_t)number(arg[1]));

	if (fd < 0)
		return by_errno(-1);
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return by_errno(linkat(AT_FDCWD, path, AT_FDCWD, arg[2], AT_SYMLINK_FOLLOW));
}

static struct verdict do_creat(char **arg)
{
	return by_errno(syscall(SYS_creat, arg[0], (mode_t)number(arg[1])));
}

/* mkdir drops the two bits by itself; mknod keeps them. */
static struct verdict do_mknod(char **arg)
{
	return by_errno(syscall(SYS_mknod, arg[0], S_IFREG | (mode_t)number(arg[1]), 0));
}

static struct verdict do_mknodat(char **arg)
{
	return by_errno(
		syscall(SYS_mknodat, AT_FDCWD, arg[0], S_IFREG | (mode_t)number(arg[1]), 0));
}

/* cap_setuid=ep, as setcap writes it. */
static struct verdict do_file_caps(char **arg)
{
	static const unsigned char caps[20] = { 1, 0, 0, 2, 0x80 };

	return by_errno(setxattr(arg[0], "security.capability", caps, sizeof caps, 0));
}

static struct verdict find_setid(char **arg)
{
	int fd = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;
	struct verdict v = blocked("no-bit");

	if (!d)
		return broken("opendir");
	while ((e = readdir(d)) != NULL)
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode) &&
			(st.st_mode & (S_ISUID | S_ISGID)))
			v = success("'%s' has mode %04o", e->d_name, st.st_mode & 07777u);
	(void)closedir(d);
	return v;
}

#define ROW(n, text, arguments, errnos, f) \
	{ .name = n, \
		.about = text, \
		.args = arguments, \
		.expect = errnos, \
		.after = "setid-left @HOSTWS@", \
		.run = f }

const struct probe_case setid_cases[] = {
	ROW("setuid-chmod", "chmod u+s in the workspace", "@WS@/victim 04755", "EPERM", do_chmod),
	ROW("setgid-chmod", "chmod g+s in the workspace", "@WS@/victim 02755", "EPERM", do_chmod),
	ROW("setgid-chmod-dir", "chmod g+s on a directory of the workspace", "@WS@/dir 02755",
		"EPERM", do_chmod),
	ROW("setuid-fchmod", "fchmod u+s in the workspace", "@WS@/victim 04755", "EPERM",
		do_fchmod),
	ROW("setuid-fchmodat", "fchmodat u+s in the workspace", "@WS@/victim 04755", "EPERM",
		do_fchmodat),
	ROW("setuid-fchmodat2", "fchmodat2 (Linux 6.6) u+s in the workspace", "@WS@/victim 04755",
		"ENOSYS", do_fchmodat2),
	ROW("setuid-open", "open with O_CREAT and mode 04755", "@WS@/new 04755", "EPERM", do_open),
	ROW("setuid-openat", "openat with O_CREAT and mode 04755", "@WS@/new 04755", "EPERM",
		do_openat),
	ROW("setuid-openat2", "openat2, whose mode a filter can't read", "@WS@/new 04755", "ENOSYS",
		do_openat2),
	ROW("setuid-tmpfile", "O_TMPFILE with mode 04755, then a link", "@WS@ 04755 @WS@/new",
		"EPERM", do_tmpfile),
	ROW("setuid-creat", "creat with mode 04755", "@WS@/new 04755", "EPERM", do_creat),
	ROW("setuid-mknod", "mknod of a regular file with mode 04755", "@WS@/new 04755", "EPERM",
		do_mknod),
	ROW("setuid-mknodat", "mknodat of a regular file with mode 06755", "@WS@/new 06755",
		"EPERM", do_mknodat),
	{ .name = "file-caps",
		.about = "A file capability in the workspace",
		.args = "@WS@/victim",
		.expect = "EPERM",
		.run = do_file_caps },
	{ .name = "setid-left",
		.about = "After: a file with a setuid or setgid bit is there",
		.args = "DIR",
		.flags = HELPER,
		.run = find_setid },
	{ .name = NULL },
};
