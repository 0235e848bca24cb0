/* The signals of a verb that stands between the caller and a command: read, so that they can be passed on. */
#include <signal.h>
#include <sys/signalfd.h>

#include "door/cli/verb.h"

int cli_open_signals(struct err *e)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
		SIGWINCH };
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		(void)sigaddset(&set, wanted[i]);
	/* a reader that has gone is told by EPIPE; a sandbox's first process takes every signal's default back */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_set(e, R_SETUP_FAILED, errno, "wait for signals") : fd;
}
