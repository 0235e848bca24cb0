/* Owns the way from a file of the layer store to a mounted file system: a loop device of its own, which the kernel takes back
 * with the last mount.  Called by layers.c, as root.
 *
 * What must hold: the file was made by store.c, or is a copy of one; nothing else ever reaches the kernel's reader of ext4. */
#include <fcntl.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

enum { TRIES = 256, LOOP_PATH = 32 };

static int no_loop(const char *path, int sys_errno, struct err *e)
{
	(void)err_set(e, R_LAYER_UNSUPPORTED, sys_errno, "open '%s' for a writable layer", path);
	return err_remedy(e,
		"Load the module 'loop' and, in a container, pass in /dev/loop-control and its loop devices; or set "
		"native.layers to 'tmpfs'.");
}

/* Another process may take the free device first: then there is another one. */
static int attach(int file, char path[static LOOP_PATH], int *ret, struct err *e)
{
	const struct loop_config config = { .fd = (uint32_t)file,
		.block_size = STORE_BLOCK,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR, .lo_file_name = "bailey layer" } };
	_cleanup_close_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return no_loop("/dev/loop-control", errno, e);
	for (int i = 0; i < TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE), fd;

		if (number < 0)
			return no_loop("/dev/loop-control", errno, e);
		str_format(path, LOOP_PATH, "/dev/loop%d", number);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return no_loop(path, errno, e);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			*ret = fd;
			return 0;
		}
		if (errno != EBUSY) {
			int error = errno;

			fd = close_fd(fd);
			return err_set(e, R_SETUP_FAILED, error, "attach '%s'", path);
		}
		fd = close_fd(fd);
	}
	return err_set(e, R_SETUP_FAILED, EBUSY, "attach a loop device");
}

/* What lies in a layer is gone with the host's last boot whatever is done: nothing is flushed to the disk for its own sake.
 * The tables of inodes are a hole and need no zeros. */
int loop_mount(int image, int *ret_tree, struct err *e)
{
	_cleanup_close_ int device = -1, fs = -1;
	char path[LOOP_PATH];

	if (attach(image, path, &device, e) < 0)
		return -1;
	fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
	if (fs < 0)
		return err_set(e, R_LAYER_UNSUPPORTED, errno, "use ext4 for a writable layer");
	if (mount_option(fs, "source", path) < 0 || mount_option(fs, "errors", "remount-ro") < 0 ||
		mount_flag(fs, "nobarrier") < 0 || mount_flag(fs, "noinit_itable") < 0 ||
		mount_flag(fs, "noauto_da_alloc") < 0 || mount_make(fs, ret_tree) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "mount the file system of a layer");
	return 0;
}
