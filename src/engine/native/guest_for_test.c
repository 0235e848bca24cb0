/* A guest for layers_test.c: takes connections as bailey-guest does, and runs each line that comes over one in a shell as the
 * workload.  What it answers is the command's output, a NUL byte and the exit status.  Static, since an image may have no libc, and of nothing
 * but wire/, since it is built without a sanitizer. */
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/control_for_test.h"

static struct wire_session session;

static void run_line(int fd)
{
	char line[4096], shell[] = "sh", flag[] = "-c", end[32];
	char *const argv[] = { shell, flag, line, NULL };
	size_t n = 0;
	int status = -1;
	pid_t pid;

	while (n < sizeof line - 1 && read(fd, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	pid = fork();
	if (pid == 0) {
		if (dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
			_exit(99);
		if (geteuid() == 0 && (setgid(session.gid) < 0 || setuid(session.uid) < 0))
			_exit(98);
		(void)execv("/bin/sh", argv);
		(void)execv("/sh", argv);
		_exit(97);
	}
	(void)waitpid(pid, &status, 0);
	end[0] = '\0';
	n = 1 +
		(size_t)snprintf(end + 1, sizeof end - 1, "%d",
			WIFEXITED(status) ? WEXITSTATUS(status) : 255);
	(void)!write(fd, end, n);
	(void)close(fd);
}

int main(void)
{
	struct wire_hello hello = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = 1 };
	uint8_t out[64];
	struct wire_frame f;
	int fd = -1;

	(void)signal(SIGPIPE, SIG_IGN);
	while (control_frame(WIRE_CONTROL_FD, &f, &fd)) {
		struct wire_connect connection;

		if (wire_get_session(&f, &session) &&
			write(WIRE_CONTROL_FD, out, wire_put_hello(out, sizeof out, &hello)) <= 0)
			return 1;
		if (!wire_get_connect(&f, &connection) || fd < 0)
			continue;
		if (fork() == 0) {
			run_line(fd);
			_exit(0);
		}
		(void)close(fd);
		fd = -1;
	}
	return 0;
}
