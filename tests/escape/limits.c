/* Bombs, each bounded so that the control is harmless to the host.  The sandbox gets a limit below
 * what the bomb needs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

enum { MIB = 1 << 20, MAX_FORKS = 200 };

static struct verdict fork_bomb(char **arg)
{
	pid_t child[MAX_FORKS];
	unsigned n = 0, wanted = (unsigned)number(arg[0]);
	int saved = 0;

	for (; n < wanted && n < MAX_FORKS; n++) {
		child[n] = fork();
		if (child[n] < 0) {
			saved = errno;
			break;
		}
		if (child[n] == 0) {
			(void)pause();
			_exit(0);
		}
	}
	for (unsigned i = 0; i < n; i++) {
		(void)kill(child[i], SIGKILL);
		(void)waitpid(child[i], NULL, 0);
	}
	errno = saved;
	return saved ? by_errno(-1) : success("%u processes", n);
}

static struct verdict child_memory(char **arg)
{
	size_t n = (size_t)number(arg[0]) * MIB;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return by_errno(-1);
	memset(p, 0x5a, n);
	return success("%s MiB", arg[0]);
}

static struct verdict memory_bomb(char **arg)
{
	return in_child(child_memory, arg);
}

/* Writes to a new file until it is full or the bomb is. */
static struct verdict disk_bomb(char **arg)
{
	static char block[MIB];
	char path[512];
	int fd;
	unsigned n = 0, wanted = (unsigned)number(arg[1]);
	struct verdict v;

	(void)snprintf(path, sizeof path, "%s/bailey-escape-bomb", arg[0]);
	memset(block, 0x5a, sizeof block);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return by_errno(-1);
	while (n < wanted && write(fd, block, sizeof block) == (ssize_t)sizeof block)
		n++;
	v = n < wanted ? by_errno(-1) : success("%u MiB", n);
	(void)close(fd);
	(void)unlink(path);
	return v;
}

static struct verdict inode_bomb(char **arg)
{
	char path[512];
	unsigned n = 0, wanted = (unsigned)number(arg[1]);
	struct verdict v;

	for (; n < wanted; n++) {
		(void)snprintf(path, sizeof path, "%s/bailey-escape-i%u", arg[0], n);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0)
			break;
		(void)close(fd);
	}
	v = n < wanted ? by_errno(-1) : success("%u files", n);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(path, sizeof path, "%s/bailey-escape-i%u", arg[0], i);
		(void)unlink(path);
	}
	return v;
}

/* memfd pages are the sandbox's memory too. */
static struct verdict child_memfd(char **arg)
{
	static char block[MIB];
	int fd = memfd_create("bomb", MFD_CLOEXEC);
	unsigned wanted = (unsigned)number(arg[0]);

	if (fd < 0)
		return by_errno(-1);
	memset(block, 0x5a, sizeof block);
	for (unsigned n = 0; n < wanted; n++)
		if (write(fd, block, sizeof block) < 0)
			return by_errno(-1);
	return success("%u MiB", wanted);
}

static struct verdict memfd_bomb(char **arg)
{
	return in_child(child_memfd, arg);
}

const struct probe_case limits_cases[] = {
	{ .name = "fork-bomb",
		.about = "200 processes under --pids 64",
		.args = "200",
		.options = "--pids 64",
		.expect = "EAGAIN",
		.flags = NEEDS_LIMITS,
		.run = fork_bomb },
	{ .name = "memory-bomb",
		.about = "200 MiB under --memory 64m",
		.args = "200",
		.options = "--memory 64m",
		.expect = "SIGKILL|exit137",
		.flags = NEEDS_LIMITS,
		.run = memory_bomb },
	{ .name = "memfd-bomb",
		.about = "200 MiB of memfd under --memory 64m",
		.args = "200",
		.options = "--memory 64m",
		.expect = "SIGKILL|exit137",
		.flags = NEEDS_LIMITS,
		.run = memfd_bomb },
	{ .name = "disk-bomb",
		.about = "32 MiB in /tmp under --tmp-size 8m",
		.args = "<@SCRATCH@|/tmp> 32",
		.options = "--tmp-size 8m",
		.expect = "ENOSPC",
		.run = disk_bomb },
	{ .name = "dev-shm-bomb",
		.about = "160 MiB in /dev/shm",
		.args = "/dev/shm 160",
		.expect = "ENOSPC",
		.run = disk_bomb },
	{ .name = "home-bomb",
		.about = "160 MiB in the home directory",
		.args = "<@SCRATCH@|/home/agent> 160",
		.expect = "ENOSPC",
		.run = disk_bomb },
	{ .name = "inode-bomb",
		.about = "20,000 empty files in /tmp under --tmp-size 8m",
		.args = "<@SCRATCH@/inodes|/tmp> 20000",
		.options = "--tmp-size 8m",
		.expect = "ENOSPC",
		.run = inode_bomb },
	{ .name = NULL },
};
