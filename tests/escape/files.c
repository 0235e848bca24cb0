/* Files of the host: reading, writing through read-only mounts, links that lead out, descriptors
 * that leaked in. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

static struct verdict read_file(char **arg)
{
	return steal(arg[0]);
}

static struct verdict list_dir(char **arg)
{
	DIR *d = opendir(arg[0]);
	unsigned n = 0;

	if (!d)
		return by_errno(-1);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n > 2 ? success("%u entries", n) : blocked("empty");
}

/* Up from the working directory, as from a container whose cwd the runtime left outside its root
 * (CVE-2024-21626). */
static struct verdict read_up_from_cwd(char **arg)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof path, "../../../../../../../../..%s", arg[0]);
	return steal(path);
}

static struct verdict leaked_fds(char **arg)
{
	char path[64], target[256];
	struct verdict v = blocked("none");

	(void)arg;
	for (int fd = 3; fd < 1024; fd++) {
		(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, target, sizeof target - 1);

		if (n < 0)
			continue;
		target[n] = 0;
		v = success("descriptor %d is %s", fd, target);
	}
	return v;
}

static struct verdict env_secret(char **arg)
{
	return getenv(arg[0]) ? success("%s is set", arg[0]) : blocked("absent");
}

static struct verdict write_file(char **arg)
{
	return open_to_write(arg[0]);
}

static struct verdict create_file(char **arg)
{
	int fd = open(arg[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return by_errno(-1);
	(void)close(fd);
	(void)unlink(arg[0]);
	return success("created");
}

static struct verdict reopen_to_write(char **arg)
{
	char path[64];
	int fd = open(arg[0], O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return by_errno(-1);
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return open_to_write(path);
}

static struct verdict delete_file(char **arg)
{
	return by_errno(unlink(arg[0]));
}

static struct verdict touch_file(char **arg)
{
	return by_errno(utimensat(AT_FDCWD, arg[0], NULL, 0));
}

static struct verdict change_mode(char **arg)
{
	return by_errno(chmod(arg[0], 0777));
}

static struct verdict link_file(char **arg)
{
	return by_errno(link(arg[0], arg[1]));
}

static struct verdict rename_file(char **arg)
{
	return by_errno(rename(arg[0], arg[1]));
}

/* struct file_handle with the room that its flexible member needs. */
struct handle {
	unsigned bytes;
	int type;
	unsigned char data[MAX_HANDLE_SZ];
};

static int name_to_handle(const char *path, struct handle *h)
{
	int mount_id;

	h->bytes = sizeof h->data;
	return (int)syscall(SYS_name_to_handle_at, AT_FDCWD, path, h, &mount_id, 0);
}

/* A handle in hex, for handle_open; made by run.sh outside. */
int print_handle_main(const char *path)
{
	struct handle h;

	if (name_to_handle(path, &h) < 0)
		return 1;
	printf("%d:", h.type);
	for (unsigned i = 0; i < h.bytes && i < sizeof h.data; i++)
		printf("%02x", h.data[i]);
	printf("\n");
	return 0;
}

static struct verdict handle_name(char **arg)
{
	struct handle h;

	return by_errno(name_to_handle(arg[0], &h));
}

/* The "Shocker" attack: any directory of the file system and a guessed handle give any file of it.
 */
static struct verdict handle_open(char **arg)
{
	struct handle h = { .bytes = 0 };
	char *hex, byte[3] = "";
	int dir, fd;

	h.type = (int)strtoumax(arg[1], &hex, 10);
	if (*hex != ':')
		return broken("no handle");
	for (hex++; h.bytes < sizeof h.data && hex[0] && hex[1]; hex += 2) {
		memcpy(byte, hex, 2);
		h.data[h.bytes++] = (unsigned char)strtoumax(byte, NULL, 16);
	}
	dir = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return broken("directory");
	fd = (int)syscall(SYS_open_by_handle_at, dir, &h, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? by_errno(-1) : steal_fd(fd);
}

const struct probe_case files_cases[] = {
	{ .name = "host-secret",
		.about = "Read a file of the caller's home",
		.args = "@SECRET@",
		.expect = "ENOENT",
		.run = read_file },
	{ .name = "host-shadow",
		.about = "Read the host's password hashes",
		.args = "/etc/shadow",
		.expect = "ENOENT",
		.run = read_file },
	{ .name = "host-home",
		.about = "List the caller's home directory",
		.args = "@HOME@",
		.expect = "ENOENT|EACCES",
		.run = list_dir },
	{ .name = "host-file",
		.about = "Read a file of the host outside the mounts",
		.args = "@SCRATCH@/secret",
		.expect = "ENOENT",
		.run = read_file },
	{ .name = "cwd-outside",
		.about = "CVE-2024-21626: climb out of a working directory left outside the root",
		.args = "@SECRET@",
		.expect = "ENOENT",
		.run = read_up_from_cwd },
	{ .name = "leaked-fds",
		.about = "CVE-2024-21626: use descriptors that the caller had open",
		.expect = "none",
		.run = leaked_fds },
	{ .name = "leaked-fd-read",
		.about = "CVE-2024-21626: read through the number of a descriptor of the caller",
		.args = "/proc/self/fd/@LEAKFILE@",
		.expect = "ENOENT",
		.run = read_file },
	{ .name = "env-secret",
		.about = "Read a secret from the caller's environment",
		.args = "BAILEY_ESCAPE_SECRET",
		.expect = "absent",
		.run = env_secret },
	{ .name = "symlink-out",
		.about = "Follow a symlink in the workspace to a file of the host",
		.args = "@WS@/link",
		.expect = "ENOENT",
		.run = read_file },
	{ .name = "usr-write",
		.about = "Plant a file in the host's /usr",
		.args = "/usr/.bailey-escape-@TAG@",
		.expect = "EROFS",
		.run = create_file },
	{ .name = "root-write",
		.about = "Plant a file in the root directory",
		.args = "/.bailey-escape-@TAG@",
		.expect = "EROFS|EACCES",
		.run = create_file },
	{ .name = "ro-open",
		.about = "Open a file of a read-only mount for writing",
		.args = "@RO@/victim",
		.expect = "EROFS",
		.run = write_file },
	{ .name = "ro-reopen",
		.about = "Reopen a descriptor of a read-only mount for writing by /proc/self/fd",
		.args = "@RO@/victim",
		.expect = "EROFS",
		.run = reopen_to_write },
	{ .name = "ro-delete",
		.about = "Delete a file of a read-only mount",
		.args = "@RO@/victim",
		.expect = "EROFS",
		.run = delete_file },
	{ .name = "ro-touch",
		.about = "Change times on a read-only mount (Landlock doesn't cover this)",
		.args = "@RO@/victim",
		.expect = "EROFS",
		.run = touch_file },
	{ .name = "ro-chmod",
		.about = "Change a mode on a read-only mount (Landlock doesn't cover this)",
		.args = "@RO@/victim",
		.expect = "EROFS",
		.run = change_mode },
	{ .name = "hardlink-out",
		.about = "Hard-link a read-only file into the writable workspace",
		.args = "@RO@/victim @WS@/hard",
		.expect = "EXDEV",
		.run = link_file },
	{ .name = "rename-out",
		.about = "Move a file out of a read-only mount",
		.args = "@RO@/victim @WS@/moved",
		.expect = "EXDEV",
		.run = rename_file },
	{ .name = "handle-name",
		.about = "name_to_handle_at: learn a file handle",
		.args = "@WS@",
		.expect = "EPERM",
		.run = handle_name },
	{ .name = "handle-open",
		.about = "open_by_handle_at: open any file of the file system by handle (Shocker)",
		.args = "@WS@ @HANDLE@",
		.expect = "EPERM",
		.run = handle_open },
	{ .name = NULL },
};
