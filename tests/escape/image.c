/* What a sandbox is made from: images with symlinks where the runtime mounts and writes, and mounts
 * of forbidden things. The control is a naive open of the same path, or reading the same thing
 * where the caller can. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "probe.h"

/* Plants a file at arg[0] and looks whether it came out at arg[1], the host directory that the
 * image's link points to. */
static struct verdict plant(char **arg)
{
	int fd = open(arg[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return by_errno(-1);
	(void)close(fd);
	if (access(arg[1], F_OK) < 0)
		return blocked("stayed-inside");
	(void)unlink(arg[1]);
	return success("landed in %s", arg[1]);
}

static struct verdict read_it(char **arg)
{
	return steal(arg[0]);
}

/* From a working directory outside the root, '..' leads through the host's tree. */
static struct verdict climb(char **arg)
{
	char path[512];

	if (chdir(arg[0]) < 0)
		return by_errno(-1);
	(void)snprintf(path, sizeof path, "../../../../../../../../..%s", arg[1]);
	return steal(path);
}

static struct verdict list_it(char **arg)
{
	return access(arg[0], R_OK | X_OK) < 0 ? by_errno(-1) : success("open");
}

#define IMAGE_OUTCOMES \
	"refused:image_invalid|refused:mount_target_invalid|stayed-inside|EACCES|EROFS|ENOENT"

/* CVE-2025-31133 and its kin: the runtime would mount over, or create below, a path that the image
 * chose. */
#define IMAGE(n, text, entry) \
	{ .name = n, \
		.about = text, \
		.args = "<@SCRATCH@/image-" entry "|>/" entry \
			"/planted @SCRATCH@/landing/planted", \
		.options = "--image @SCRATCH@/image-" entry, \
		.run = plant, \
		.expect = IMAGE_OUTCOMES }

#define REFUSED(n, text, option, what) \
	{ .name = n, \
		.about = text, \
		.args = what, \
		.options = option, \
		.run = read_it, \
		.expect = "refused:mount_forbidden" }

const struct probe_case image_cases[] = {
	IMAGE("image-dev", "CVE-2025-31133: the image's /dev is a symlink to a host directory",
		"dev"),
	{ .name = "image-null",
		.about = "CVE-2025-31133: the image's /dev/null is a symlink to a host file",
		.args = "<@SCRATCH@/image-null|>/dev/null @SCRATCH@/landing/planted",
		.options = "--image @SCRATCH@/image-null",
		.expect = IMAGE_OUTCOMES,
		.run = plant },
	IMAGE("image-proc", "CVE-2025-52881: the image's /proc is a symlink to a host directory",
		"proc"),
	IMAGE("image-etc", "The image's /etc is a symlink to a host directory", "etc"),
	IMAGE("image-tmp", "The image's /tmp is a symlink to a host directory", "tmp"),
	IMAGE("image-home", "The image's /home is a symlink to a host directory", "home"),
	IMAGE("image-run", "The image's /run is a symlink to a host directory", "run"),
	IMAGE("image-workspace", "The image's /workspace is a symlink to a host directory",
		"workspace"),
	REFUSED("forbidden-etc", "Mount the host's /etc", "--mount /etc:/mnt",
		"</etc|/mnt>/passwd"),
	REFUSED("forbidden-etc-link", "Mount the host's /etc by a symlink",
		"--mount @SCRATCH@/etc-link:/mnt", "<@SCRATCH@/etc-link|/mnt>/passwd"),
	REFUSED("forbidden-root", "Mount the host's root", "--mount /:/mnt", "<|/mnt>/etc/passwd"),
	REFUSED("forbidden-home", "Mount the whole home directory", "--mount @HOME@:/mnt",
		"<@HOME@|/mnt>/@SECRETNAME@"),
	REFUSED("forbidden-proc", "Mount the host's /proc", "--mount /proc:/mnt",
		"</proc|/mnt>/version"),
	REFUSED("forbidden-sys", "Mount the host's /sys", "--mount /sys:/mnt",
		"</sys|/mnt>/kernel/mm/transparent_hugepage/enabled"),
	REFUSED("forbidden-workspace", "Take the whole home directory as the workspace",
		"--workspace @HOME@:rw", "<@HOME@|/workspace>/@SECRETNAME@"),
	{ .name = "forbidden-run",
		.about = "Mount the host's /run, where its sockets are",
		.args = "</run|/mnt>",
		.options = "--mount /run:/mnt",
		.expect = "refused:mount_forbidden",
		.run = list_it },
	{ .name = "forbidden-dev",
		.about = "Mount the host's /dev",
		.args = "</dev|/mnt>",
		.options = "--mount /dev:/mnt",
		.expect = "refused:mount_forbidden",
		.run = list_it },
	{ .name = "workdir-fd",
		.about = "CVE-2024-21626: start in a directory of the host by a leaked descriptor",
		.args = "/proc/self/fd/@LEAKDIR@/secret",
		.options = "--workdir /proc/self/fd/@LEAKDIR@",
		.expect = "refused:bad_value|refused:mount_target_invalid",
		.run = read_it },
	{ .name = "workdir-link",
		.about =
			"CVE-2024-21626: --workdir names a symlink, planted in the workspace, to a "
			"descriptor that the runtime still has open",
		.args = "<@SCRATCH@/ws/cwd|.> @SCRATCH@/secret",
		.options = "--workdir /workspace/cwd",
		.expect = "refused:mount_target_invalid|ENOENT",
		.flags = EACH_FD,
		.run = climb },
	{ .name = "mount-target-link",
		.about = "A mount target below a planted symlink to a host directory",
		.args = "<@SCRATCH@/ws|/workspace>/out/planted @SCRATCH@/landing/planted",
		.options = "--mount @SCRATCH@/ro:/workspace/out/sub",
		.expect = "refused:mount_target_invalid",
		.run = plant },
	{ .name = NULL },
};
