/* System V and POSIX IPC of the host, its /dev/shm, and the kernel's keyrings, which no namespace
 * covers. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

#define KEY_NAME "bailey-escape"

/* Runs a command in a session keyring of its own that holds a secret, as a login session's holds
 * tickets. */
int with_session_key_main(char **arg)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
		(void)syscall(SYS_add_key, "user", KEY_NAME, "a secret key", 12,
			KEY_SPEC_SESSION_KEYRING);
	(void)execvp(arg[0], arg);
	return 127;
}

static struct verdict read_session_key(char **arg)
{
	char text[64];
	long key =
		syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", KEY_NAME, 0);

	(void)arg;
	if (key < 0)
		return by_errno(-1);
	return by_errno(syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof text));
}

static struct verdict request_session_key(char **arg)
{
	(void)arg;
	return by_errno(syscall(SYS_request_key, "user", KEY_NAME, NULL, 0));
}

static struct verdict add_a_key(char **arg)
{
	(void)arg;
	return by_errno(
		syscall(SYS_add_key, "user", KEY_NAME "-2", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

static struct verdict read_segment(char **arg)
{
	const char *p = shmat((int)number(arg[0]), NULL, SHM_RDONLY);

	if ((intptr_t)p == -1)
		return by_errno(-1);
	return p[0] ? success("read %zu bytes", strlen(p)) : blocked("empty");
}

static struct verdict open_queue(char **arg)
{
	return by_errno(syscall(SYS_mq_open, arg[0] + 1, O_RDONLY | O_CLOEXEC, 0, NULL));
}

static struct verdict read_shm_file(char **arg)
{
	return steal(arg[0]);
}

const struct probe_case ipc_cases[] = {
	{ .name = "sysv-shm",
		.about = "Attach a shared memory segment of the host",
		.args = "@SHM@",
		.expect = "EINVAL|EIDRM",
		.run = read_segment },
	{ .name = "posix-mq",
		.about = "Open a message queue of the host",
		.args = "@MQ@",
		.expect = "ENOENT",
		.run = open_queue },
	{ .name = "dev-shm-file",
		.about = "Read a file of the host's /dev/shm",
		.args = "/dev/shm/bailey-escape-@TAG@",
		.expect = "ENOENT",
		.run = read_shm_file },
	{ .name = "keyring-session",
		.about = "Read a key of the caller's session keyring",
		.expect = "EPERM",
		.run = read_session_key },
	{ .name = "keyring-request",
		.about = "Find a key of the caller by request_key",
		.expect = "EPERM",
		.run = request_session_key },
	{ .name = "keyring-add",
		.about = "Add a key: keyrings count against the host user",
		.expect = "EPERM",
		.run = add_a_key },
	{ .name = NULL },
};
