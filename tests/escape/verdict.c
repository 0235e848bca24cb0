/* What the cases share: verdicts, reading a stolen file, and children in a mount namespace of their
 * own. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static __attribute__((format(printf, 2, 0))) struct verdict make(
	enum outcome o, const char *fmt, va_list ap)
{
	struct verdict v = { .outcome = o };

	(void)vsnprintf(v.detail, sizeof v.detail, fmt, ap);
	for (char *p = v.detail; *p; p++) /* one line each, whatever a stolen file holds */
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	return v;
}

struct verdict success(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	struct verdict v = make(SUCCESS, fmt, ap);

	va_end(ap);
	return v;
}

struct verdict done(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	struct verdict v = make(DONE, fmt, ap);

	va_end(ap);
	return v;
}

struct verdict blocked(const char *word)
{
	struct verdict v = { .outcome = BLOCKED };

	(void)snprintf(v.detail, sizeof v.detail, "%s", word);
	return v;
}

struct verdict broken(const char *what)
{
	const char *name = strerrorname_np(errno);
	struct verdict v = { .outcome = BROKEN };

	(void)snprintf(v.detail, sizeof v.detail, "%s (%s)", what, name ? name : "?");
	return v;
}

struct verdict by_errno(long rc)
{
	const char *name = strerrorname_np(errno);

	return rc >= 0 ? success("returned %ld", rc) : blocked(name ? name : "unknown-errno");
}

struct verdict reached(long rc)
{
	const char *name = strerrorname_np(errno);

	if (rc >= 0 || errno == EPERM || errno == ENOSYS || errno == EACCES)
		return by_errno(rc);
	return success("reached the kernel's own check: %s", name ? name : "?");
}

uint64_t number(const char *s)
{
	return strtoumax(s, NULL, 0);
}

struct verdict steal_fd(int fd)
{
	char text[33];
	ssize_t n = read(fd, text, sizeof text - 1);

	if (n < 0)
		return by_errno(-1);
	if (n == 0)
		return blocked("empty");
	text[n] = 0;
	return success("read %zd bytes", n);
}

struct verdict steal(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return by_errno(-1);
	struct verdict v = steal_fd(fd);

	(void)close(fd);
	return v;
}

struct verdict open_to_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return by_errno(-1);
	(void)close(fd);
	return success("opened for writing");
}

/* Not checked: where it fails, the attempt that follows in the child shows by its errno what
 * forbids it. */
static void make_private_mounts(void)
{
	int flags = CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0);

	if (unshare(flags) == 0)
		(void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static struct verdict run_child(struct verdict (*f)(char **), char **arg, bool private_mounts)
{
	int p[2], status;
	struct verdict v;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return broken("pipe");
	pid = fork();
	if (pid < 0)
		return broken("fork");
	if (pid == 0) {
		if (private_mounts)
			make_private_mounts();
		v = f(arg);
		_exit(write(p[1], &v, sizeof v) == sizeof v ? 0 : 1);
	}
	(void)close(p[1]);
	ssize_t n = read(p[0], &v, sizeof v);

	(void)close(p[0]);
	if (waitpid(pid, &status, 0) < 0)
		return broken("waitpid");
	if (n == sizeof v)
		return v;
	if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));
		char word[32];

		(void)snprintf(word, sizeof word, "SIG%s", name ? name : "?");
		return blocked(word);
	}
	return broken("the child said nothing");
}

struct verdict in_private_mounts(struct verdict (*f)(char **), char **arg)
{
	return run_child(f, arg, true);
}

struct verdict in_child(struct verdict (*f)(char **), char **arg)
{
	return run_child(f, arg, false);
}

struct verdict wait_as_peer(const char *name)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };

	printf("%s ready\n", name);
	(void)fflush(stdout);
	(void)poll(&in, 1, PEER_SECONDS * 1000);
	return done("waited");
}
