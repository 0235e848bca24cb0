/* For tests. */
#pragma once
#include <sys/wait.h>
#include <unistd.h>

/* A pid that was there and is not any more. */
static inline pid_t dead_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	(void)waitpid(pid, NULL, 0);
	return pid;
}
