/* Processes of the host: an outsider of the same user, and a process of another sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static struct verdict read_proc(char **arg)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%s/%s", arg[0], arg[1]);
	return steal(path);
}

static struct verdict signal_process(char **arg)
{
	return by_errno(kill((pid_t)number(arg[0]), (int)number(arg[1])));
}

static struct verdict open_pidfd(char **arg)
{
	return by_errno(syscall(SYS_pidfd_open, (pid_t)number(arg[0]), 0));
}

static struct verdict get_pidfd_file(char **arg)
{
	int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)number(arg[0]), 0);

	if (pidfd < 0)
		return by_errno(-1);
	return by_errno(syscall(SYS_pidfd_getfd, pidfd, (int)number(arg[1]), 0));
}

static struct verdict read_memory(char **arg)
{
	char out[16];
	struct iovec mine = { .iov_base = out, .iov_len = sizeof out };
	struct {
		uint64_t base, len; /* an iovec with another process's address */
	} theirs = { number(arg[1]), sizeof out };

	return by_errno(
		syscall(SYS_process_vm_readv, (pid_t)number(arg[0]), &mine, 1L, &theirs, 1L, 0L));
}

static struct verdict attach(char **arg)
{
	pid_t pid = (pid_t)number(arg[0]);
	long rc = ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	struct verdict v = by_errno(rc);

	if (rc == 0) /* a detach needs a stop; the end of this process detaches anyway */
		(void)ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	if (rc == 0 && waitpid(pid, NULL, __WALL) == pid)
		(void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
	return v;
}

/* CVE-2019-5736: the running binary of whoever started the sandbox, opened through /proc and
 * written once it isn't busy. The byte written is the one that is there. */
static struct verdict overwrite_exe(char **arg)
{
	pid_t pid = (pid_t)number(arg[0]);
	char path[64], byte;
	int fd, out;

	(void)snprintf(path, sizeof path, "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return by_errno(-1);
	if (read(fd, &byte, 1) != 1)
		return broken("read");
	(void)kill(pid, SIGKILL);
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (int i = 0; i < 100; i++) {
		out = open(path, O_WRONLY | O_CLOEXEC);
		if (out >= 0)
			return by_errno(pwrite(out, &byte, 1, 0));
		if (errno != ETXTBSY)
			return by_errno(-1);
		(void)usleep(20000);
	}
	return by_errno(-1);
}

static struct verdict open_mem(char **arg)
{
	return open_to_write(arg[0]);
}

static struct verdict open_proc(char **arg)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof path, "/proc/%s/%s", arg[0], arg[1]);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		(void)close(fd);
	return by_errno(fd);
}

static struct verdict read_root(char **arg)
{
	char path[512];

	(void)snprintf(path, sizeof path, "/proc/%s/root%s", arg[0], arg[1]);
	return steal(path);
}

static struct verdict hold(char **arg)
{
	(void)arg;
	return wait_as_peer("hold");
}

/* Every process that can be seen and isn't this one, by its command line. */
static struct verdict find_process(char **arg)
{
	char path[64], line[256];

	for (int pid = 2; pid < 65536; pid++) {
		(void)snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
		FILE *f = pid == getpid() ? NULL : fopen(path, "re");

		if (!f)
			continue;
		size_t n = fread(line, 1, sizeof line - 1, f);

		(void)fclose(f);
		for (size_t i = 0; i < n; i++)
			if (!line[i])
				line[i] = ' ';
		line[n] = 0;
		if (__builtin_strstr(line, arg[0]) && !__builtin_strstr(line, "see-other-sandbox"))
			return success("process %d", pid);
	}
	return blocked("unseen");
}

const struct probe_case procs_cases[] = {
	{ .name = "outsider-see",
		.about = "See a process of the host in /proc",
		.args = "@HELPER@ cmdline",
		.expect = "ENOENT",
		.run = read_proc },
	{ .name = "outsider-environ",
		.about = "Read a host process's environment",
		.args = "@HELPER@ environ",
		.expect = "ENOENT",
		.run = read_proc },
	{ .name = "outsider-kill",
		.about = "Signal a process of the host",
		.args = "@HELPER@ 0",
		.expect = "ESRCH",
		.run = signal_process },
	{ .name = "outsider-ptrace",
		.about = "Trace a process of the host",
		.args = "@HELPER@",
		.expect = "ESRCH",
		.run = attach },
	{ .name = "outsider-pidfd",
		.about = "pidfd_open on a process of the host",
		.args = "@HELPER@",
		.expect = "ESRCH",
		.run = open_pidfd },
	{ .name = "outsider-getfd",
		.about = "pidfd_getfd: take a descriptor of a host process",
		.args = "@HELPER@ @HELPERFD@",
		.expect = "ESRCH",
		.run = get_pidfd_file },
	{ .name = "outsider-memory",
		.about = "process_vm_readv on a host process",
		.args = "@HELPER@ @HELPERADDR@",
		.expect = "ESRCH",
		.run = read_memory },
	{ .name = "see-other-sandbox",
		.about = "See a process of another sandbox",
		.args = "hold",
		.peer = "hold",
		.expect = "unseen",
		.run = find_process },
	{ .name = "hold", .about = "Peer: a process that waits", .flags = HELPER, .run = hold },
	{ .name = NULL },
};

/* PID 1 inside is Bailey's guest; outside, the runner's helper (or a victim of its own) stands for
 * it. */
const struct probe_case guest_cases[] = {
	{ .name = "guest-exe",
		.about = "CVE-2019-5736: overwrite the runtime's binary through /proc/PID/exe",
		.args = "<@PEERPID@|1>",
		.peer = "hold",
		.expect = "EACCES",
		.run = overwrite_exe },
	{ .name = "guest-mem",
		.about = "Write the memory of PID 1 by /proc/PID/mem",
		.args = "/proc/<@HELPER@|1>/mem",
		.expect = "EACCES",
		.run = open_mem },
	{ .name = "guest-maps",
		.about = "Read the address map of PID 1",
		.args = "<@HELPER@|1> maps",
		.expect = "EACCES",
		.run = read_proc },
	{ .name = "guest-fds",
		.about = "Open the input of PID 1 by /proc/PID/fd",
		.args = "<@HELPER@|1> fd/0",
		.expect = "EACCES",
		.run = open_proc },
	{ .name = "guest-environ",
		.about = "Read the environment of PID 1",
		.args = "<@HELPER@|1> environ",
		.expect = "EACCES",
		.run = read_proc },
	{ .name = "guest-ptrace",
		.about = "Trace PID 1",
		.args = "<@HELPER@|1>",
		.expect = "EPERM",
		.run = attach },
	{ .name = "guest-getfd",
		.about = "pidfd_getfd: take a descriptor of PID 1",
		.args = "<@HELPER@|1> 0",
		.expect = "EPERM",
		.run = get_pidfd_file },
	{ .name = "guest-vm-read",
		.about = "process_vm_readv on PID 1",
		.args = "<@HELPER@|1> @HELPERADDR@",
		.expect = "EPERM",
		.run = read_memory },
	{ .name = "guest-root",
		.about = "Leave through /proc/PID/root",
		.args = "<@HELPER@|1> @SECRET@",
		.expect = "EACCES",
		.run = read_root },
	{ .name = NULL },
};
