/* Outliving the sandbox: a daemon that leaves its session and its parents and writes a heartbeat
 * into the workspace, which `beat-grows` looks for on the host when the run is over. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe.h"

/* A hundred beats a second for at most eight seconds: longer than any run here, too short to be a
 * nuisance.  It ends when its file is taken away. */
static _Noreturn void beat(const char *path)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd < 3; fd++)
		(void)dup2(null, fd);
	for (int i = 0; i < 800; i++) {
		int fd = open(path, O_WRONLY | (i ? 0 : O_CREAT) | O_APPEND | O_CLOEXEC, 0644);

		if (fd < 0)
			break;
		(void)!write(fd, ".", 1);
		(void)close(fd);
		(void)usleep(10000);
	}
	_exit(0);
}

static struct verdict daemonize(char **arg)
{
	unsigned stay = (unsigned)number(arg[1]);
	pid_t pid = fork();

	if (pid < 0)
		return broken("fork");
	if (pid == 0) {
		(void)setsid();
		(void)signal(SIGTERM, SIG_IGN);
		(void)signal(SIGHUP, SIG_IGN);
		if (fork() == 0)
			beat(arg[0]);
		_exit(0);
	}
	(void)usleep(200000);
	if (access(arg[0], F_OK) < 0)
		return broken("no beat");
	if (stay) {
		printf("daemon-deadline done waiting\n");
		(void)fflush(stdout);
		(void)sleep(stay);
	}
	return done("started");
}

static struct verdict beat_grows(char **arg)
{
	struct stat a, b;

	if (stat(arg[0], &a) < 0)
		return blocked("no-beat");
	(void)usleep(300000);
	if (stat(arg[0], &b) < 0)
		return broken("stat");
	return b.st_size > a.st_size ? success("the daemon is alive") : blocked("gone");
}

const struct probe_case outlive_cases[] = {
	{ .name = "daemon-exit",
		.about = "A daemon outlives the command",
		.args = "@WS@/beat-<outside|inside> 0",
		.expect = "gone",
		.after = "beat-grows @HOSTWS@/beat-<outside|inside>",
		.run = daemonize },
	{ .name = "daemon-deadline",
		.about = "A daemon that ignores SIGTERM outlives --timeout 1s",
		.args = "@WS@/beat-<outside|inside> <0|6>",
		.options = "--timeout 1s",
		.expect = "gone",
		.after = "beat-grows @HOSTWS@/beat-<outside|inside>",
		.run = daemonize },
	{ .name = "beat-grows",
		.about = "After: the heartbeat goes on",
		.args = "FILE",
		.flags = HELPER,
		.run = beat_grows },
	{ .name = NULL },
};
