/* Owns starting and reaping other programs.  What they print is never part of an error: it goes to the log. */
#include "image/import/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

enum { SAID_MAX = 4096 }; /* bytes of its last words that are logged */

static void child_fail(int fd)
{
	int error = errno;

	(void)write_all(fd, &error, sizeof error);
	_exit(127);
}

/* What it mounts is seen by nobody else and goes with it, however it ends: a chroot with the host's /proc and /dev in it
 * must not be left for anybody's rm -r.  Where this is not allowed, mounting isn't either. */
static int hide_mounts(const struct tool *t)
{
	if (!t->mounts || geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		return 0;
	return mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL);
}

/* Between fork and exec. */
static void become(const struct tool *t, int err_fd, int report, pid_t parent)
{
	char *const *argv;
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)prctl(PR_SET_PDEATHSIG, t->death_signal);
	if (getppid() != parent)
		_exit(127);
	if (null < 0 || dup2(null, 0) < 0 || dup2(t->out_fd >= 0 ? t->out_fd : null, 1) < 0 ||
		dup2(err_fd, 2) < 0 || fcntl(t->lock_fd, F_SETFD, 0) < 0 || hide_mounts(t) < 0 ||
		(t->tmpdir && setenv("TMPDIR", t->tmpdir, 1) < 0))
		child_fail(report);
	memcpy(&argv, &t->argv, sizeof argv); /* execvp would take const, but for history */
	(void)execvp(argv[0], argv);
	child_fail(report);
}

int tool_start(const struct tool *t, struct running_tool *ret, struct err *e)
{
	_cleanup_close_ int err_fd = memfd_create("tool", MFD_CLOEXEC);
	_cleanup_close_ int from = -1, to = -1;
	int pipe_fds[2], error = 0;
	pid_t parent = getpid(), pid;

	if (err_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(e, R_TOOL_FAILED, errno, "start '%s'", t->argv[0]);
	from = pipe_fds[0];
	to = pipe_fds[1];
	pid = fork();
	if (pid < 0)
		return err_set(e, R_TOOL_FAILED, errno, "start '%s'", t->argv[0]);
	if (pid == 0)
		become(t, err_fd, to, parent);
	to = close_fd(to);
	if (read(from, &error, sizeof error) == (ssize_t)sizeof error) {
		(void)waitpid(pid, NULL, 0);
		if (error != ENOENT)
			return err_set(e, R_TOOL_FAILED, error, "start '%s'", t->argv[0]);
		(void)err_set(e, R_TOOL_MISSING, 0, "start '%s': it is not installed", t->argv[0]);
		return err_remedy(e, "As root, run 'apt-get install %s'.", t->package);
	}
	*ret = (struct running_tool){ pid, move_fd(&err_fd), t->argv[0] };
	return 0;
}

/* The end of what it said, as a log's field. */
static void log_words(const struct running_tool *t, int status)
{
	char text[SAID_MAX + 1], number[16];
	off_t end = lseek(t->err_fd, 0, SEEK_END);
	ssize_t n;

	n = pread(t->err_fd, text, SAID_MAX, end > SAID_MAX ? end - SAID_MAX : 0);
	text[n > 0 ? n : 0] = '\0';
	log_event(LOG_ERROR, "tool_failed", "tool", t->name, "status", FMT(number, "%d", status),
		"said", text, NULL);
}

int tool_finish(struct running_tool *t, struct err *e)
{
	int status = 0, r = 0;

	if (t->pid <= 0)
		return e->reason ? -1 : 0;
	if (e->reason)
		(void)kill(t->pid, SIGTERM);
	while (waitpid(t->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (e->reason) {
		r = -1;
	} else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		log_words(t, status);
		r = err_set(
			e, R_TOOL_FAILED, 0, "run '%s': it ended with status %d", t->name, status);
	}
	t->pid = 0;
	t->err_fd = close_fd(t->err_fd);
	return r;
}
