/* Owns starting an engine from inside somebody else's program.
 *
 * The host may have threads, handlers, children of its own and a loop that waits for any child.  So the engine is not our
 * child: a helper that shares our memory starts it and exits, without a signal to anybody, and is waited for at once.
 * Between clone and exec only system calls are made; all signals are blocked, so no handler of the host runs there. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "client/client.h"

enum { STACK = 64 << 10 };

struct start {
	char *const *argv, *const *env;
	int fd, null;
	char *stack_top;    /* of the program to be */
	volatile int error; /* errno of whoever failed */
};

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NO_SANITIZE __attribute__((no_sanitize("address")))
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define NO_SANITIZE __attribute__((no_sanitize("address")))
#endif
#ifndef NO_SANITIZE
#define NO_SANITIZE
#endif

/* Handlers go with exec, but what is ignored would stay ignored. */
NO_SANITIZE static void default_signals(void)
{
	const struct sigaction dfl = { .sa_handler = SIG_DFL };

	for (int sig = 1; sig <= SIGRTMAX; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			(void)sigaction(sig, &dfl, NULL);
}

NO_SANITIZE static int run_program(void *arg)
{
	struct start *s = arg;
	sigset_t none;
	int fd = s->fd;

	default_signals();
	(void)setsid();
	/* above what dup2 takes away, if the host runs with its standard streams closed */
	if (fd < 4)
		fd = fcntl(fd, F_DUPFD, 4);
	if (s->null < 4)
		s->null = fcntl(s->null, F_DUPFD, 4);
	if (fd < 0 || s->null < 0 || dup2(fd, 3) < 0 || dup2(s->null, 0) < 0 ||
		dup2(s->null, 1) < 0 || dup2(s->null, 2) < 0 || close_range(4, ~0u, 0) < 0) {
		s->error = errno;
		_exit(1);
	}
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execve(s->argv[0], s->argv, s->env);
	s->error = errno;
	_exit(1);
}

NO_SANITIZE static int run_helper(void *arg)
{
	struct start *s = arg;

	if (clone(run_program, s->stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, s) < 0)
		s->error = errno;
	_exit(0);
}

int spawn_detached(char *const *argv, char *const *env, int fd, struct err *e)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct start s = { .argv = argv, .env = env, .fd = fd, .null = null };
	sigset_t all, before;
	char *stacks;
	pid_t helper;

	if (null < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open '/dev/null'");
	stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return err_set(e, R_NO_MEMORY, errno, "start '%s'", argv[0]);
	s.stack_top = stacks + 2 * STACK;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	/* no exit signal: the host's own wait for any child does not see this one */
	helper = clone(run_helper, stacks + STACK, CLONE_VM | CLONE_VFORK, &s);
	if (helper < 0)
		s.error = errno;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (helper > 0 && waitpid(helper, NULL, (int)__WCLONE) < 0 && errno == EINTR)
		;
	(void)munmap(stacks, 2 * STACK);
	if (s.error == ENOENT)
		return err_set(e, R_SETUP_FAILED, ENOENT, "start '%s'", argv[0]);
	if (s.error)
		return err_set(e, R_SETUP_FAILED, s.error, "start '%s'", argv[0]);
	return 0;
}
