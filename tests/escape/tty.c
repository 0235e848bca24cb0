/* Terminal injection: characters pushed into a terminal's input are typed by whoever reads it next
 * (CVE-2017-5226). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static int open_master(char *name, size_t cap)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
		ptsname_r(master, name, cap) != 0)
		return -1;
	return master;
}

static int take_terminal(const char *name)
{
	int tty;

	(void)setsid();
	tty = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return tty < 0 || ioctl(tty, TIOCSCTTY, 0) < 0 ? -1 : tty;
}

/* A pty of our own as controlling terminal, so that the ioctl is refused for what it is and not for
 * the wrong tty.  The master stays open until the child ends. */
static int own_terminal(void)
{
	char name[64];

	return open_master(name, sizeof name) < 0 ? -1 : take_terminal(name);
}

static struct verdict child_tiocsti(char **arg)
{
	int tty = own_terminal();
	char c = 'x';

	if (tty < 0)
		return broken("terminal");
	return by_errno(syscall(SYS_ioctl, tty, (unsigned long)number(arg[0]), &c));
}

static struct verdict do_tiocsti(char **arg)
{
	return in_child(child_tiocsti, arg);
}

/* On a virtual console where one can be opened (the control), else on an own terminal, which
 * answers ENOTTY unfiltered. */
static struct verdict child_tioclinux(char **arg)
{
	int tty = open("/dev/tty0", O_RDWR | O_NOCTTY | O_CLOEXEC);
	char c = 6; /* TIOCL_GETSHIFTSTATE */

	(void)arg;
	if (tty < 0)
		tty = own_terminal();
	return tty < 0 ? broken("terminal") : by_errno(ioctl(tty, TIOCLINUX, &c));
}

static struct verdict do_tioclinux(char **arg)
{
	return in_child(child_tioclinux, arg);
}

/* The line discipline that it has; any other would be loaded by the host and attached (n_gsm,
 * n_hdlc, slip: a row of CVEs). */
static struct verdict child_tiocsetd(char **arg)
{
	int tty = own_terminal(), line = 0;

	if (tty < 0)
		return broken("terminal");
	return by_errno(syscall(SYS_ioctl, tty, (unsigned long)number(arg[0]), &line));
}

static struct verdict do_tiocsetd(char **arg)
{
	return in_child(child_tiocsetd, arg);
}

/* On what is no terminal: outside the kernel's own code says so, and the console stays. */
static struct verdict do_tioccons(char **arg)
{
	int p[2];

	(void)arg;
	return pipe2(p, O_CLOEXEC) < 0 ? broken("pipe") : reached(ioctl(p[1], TIOCCONS, NULL));
}

static struct verdict push_into_stdin(char **arg)
{
	char c = ' ';

	(void)arg;
	return by_errno(ioctl(0, TIOCSTI, &c));
}

static struct verdict open_dev_tty(char **arg)
{
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	(void)arg;
	return fd < 0 ? by_errno(-1) : success("opened");
}

static struct verdict stdin_device(char **arg)
{
	char name[64];

	(void)arg;
	if (ttyname_r(0, name, sizeof name) == 0)
		return success("standard input is %s", name);
	return blocked("not-a-terminal");
}

/* Runs a command with a new terminal as standard input and controlling terminal; its output comes
 * through. */
int with_tty_main(char **arg)
{
	int out[2], status = 0;
	pid_t pid;
	char b[512], name[64];
	ssize_t n;

	if (open_master(name, sizeof name) < 0 || pipe2(out, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return 20;
	if (pid == 0) {
		int tty = take_terminal(name);

		if (tty < 0 || dup2(tty, 0) < 0 || dup2(out[1], 1) < 0)
			_exit(20);
		(void)execvp(arg[0], arg);
		_exit(127);
	}
	(void)close(out[1]);
	while ((n = read(out[0], b, sizeof b)) > 0)
		(void)!write(1, b, (size_t)n);
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const struct probe_case tty_cases[] = {
	{ .name = "tiocsti",
		.about = "CVE-2017-5226: TIOCSTI",
		.args = "0x5412",
		.expect = "EPERM",
		.run = do_tiocsti },
	{ .name = "tiocsti-high-bits",
		.about = "CVE-2019-10063: TIOCSTI with high bits set, past a 64-bit compare",
		.args = "0xdeadbeef00005412",
		.expect = "EPERM",
		.run = do_tiocsti },
	{ .name = "tioclinux",
		.about = "TIOCLINUX: paste on a virtual console",
		.expect = "EPERM",
		.run = do_tioclinux },
	{ .name = "tiocsetd",
		.about = "TIOCSETD: have the host load a line discipline",
		.args = "0x5423",
		.expect = "EPERM",
		.run = do_tiocsetd },
	{ .name = "tiocsetd-high-bits",
		.about = "The same with high bits set",
		.args = "0xdeadbeef00005423",
		.expect = "EPERM",
		.run = do_tiocsetd },
	{ .name = "tioccons",
		.about = "TIOCCONS: redirect the machine's console",
		.expect = "EPERM",
		.run = do_tioccons },
	{ .name = "tty-stdin",
		.about = "CVE-2017-5226: push into the caller's terminal by standard input",
		.expect = "EPERM|ENOTTY",
		.flags = NEEDS_TTY,
		.run = push_into_stdin },
	{ .name = "tty-stdin-it",
		.about = "The same under bailey run -it",
		.options = "-it",
		.expect = "EPERM",
		.flags = NEEDS_TTY,
		.run = push_into_stdin },
	{ .name = "tty-dev-tty",
		.about = "Open the caller's controlling terminal",
		.expect = "ENXIO|ENOENT",
		.flags = NEEDS_TTY,
		.run = open_dev_tty },
	{ .name = "tty-handed-in",
		.about = "Hold the caller's terminal as a descriptor",
		.expect = "not-a-terminal",
		.flags = NEEDS_TTY,
		.run = stdin_device },
	{ .name = NULL },
};
