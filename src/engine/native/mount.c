/* The calls of the new mount interface (Linux 5.2), as layers.c, sources.c and their like use them.  Owns nothing. */
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

int mount_option(int fs, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0);
}

int mount_flag(int fs, const char *key)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, key, NULL, 0);
}

/* Makes the file system and a detached mount of it. */
int mount_make(int fs, int *ret)
{
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	*ret = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return *ret < 0 ? -1 : 0;
}

/* One "key=value" or "flag". */
static int set_option(int fs, char *option)
{
	char *value = strchr(option, '=');

	if (!value)
		return mount_flag(fs, option);
	*value++ = '\0';
	return mount_option(fs, option, value);
}

int mount_new(const char *type, const char *options, unsigned attributes)
{
	_cleanup_close_ int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	char copy[256], *save = NULL;

	/* what mountinfo names as the source */
	if (fs < 0 || mount_option(fs, "source", type) < 0)
		return -1;
	str_format(copy, sizeof copy, "%s", options);
	for (char *o = strtok_r(copy, ",", &save); o; o = strtok_r(NULL, ",", &save))
		if (set_option(fs, o) < 0)
			return -1;
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
}

int mount_tmpfs(uint64_t bytes, uint64_t inodes, const char *mode, int *ret)
{
	_cleanup_close_ int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	char size[32], count[32];

	if (fs < 0 || mount_option(fs, "size", FMT(size, "%llu", (unsigned long long)bytes)) < 0 ||
		mount_option(fs, "nr_inodes", FMT(count, "%llu", (unsigned long long)inodes)) < 0 ||
		mount_option(fs, "mode", mode) < 0)
		return -1;
	return mount_make(fs, ret);
}

/* Puts a detached mount at a name of the frame, made for it. */
int mount_attach(int frame, const char *name, int tree)
{
	struct stat st;
	int r;

	if (fstat(tree, &st) < 0)
		return -1;
	r = S_ISDIR(st.st_mode) ? mkdirat(frame, name, 0700)
				: mknodat(frame, name, S_IFREG | 0600, 0);
	if (r < 0 && errno != EEXIST)
		return -1;
	return (int)syscall(SYS_move_mount, tree, "", frame, name, MOVE_MOUNT_F_EMPTY_PATH);
}

int mount_clone(int frame, const char *name, bool recursive)
{
	return (int)syscall(SYS_open_tree, frame, name,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW |
			(recursive ? AT_RECURSIVE : 0));
}

int mount_map(int tree, int userns)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP,
		.userns_fd = (unsigned long long)userns };

	return (int)syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr);
}

int mount_view(int frame, const char *name, bool recursive)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	_cleanup_close_ int tree = mount_clone(frame, name, recursive);

	if (tree < 0 ||
		syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0),
			&attr, sizeof attr) < 0)
		return -1;
	return move_fd(&tree);
}

int mount_seal(int frame, const char *name, bool on)
{
	_cleanup_close_ int fs = (int)syscall(SYS_fspick, frame, name,
		FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW | FSPICK_NO_AUTOMOUNT);

	if (fs < 0 || mount_flag(fs, on ? "ro" : "rw") < 0)
		return -1;
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
}

int mount_move(int from, const char *name, int to, const char *to_name)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if ((S_ISDIR(st.st_mode) ? mkdirat(to, to_name, 0700)
				 : mknodat(to, to_name, S_IFREG | 0600, 0)) < 0 &&
		errno != EEXIST)
		return -1;
	return (int)syscall(SYS_move_mount, from, name, to, to_name, 0);
}
