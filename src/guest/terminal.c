/* Owns the terminals of commands: making one, its size, and the signals that it should send.  Called by launch.c, exec.c and
 * runner.c.
 *
 * gVisor's terminals send none: neither for what is typed nor for a new size.  There the guest reads what is typed, as the
 * terminal's own settings want it, and the runner sends.  It can, since it leads the session: only who has a terminal may ask
 * whose turn it is.  Must hold: a byte that was made a signal of is not passed on, so that no kernel sends it twice. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "guest/exec.h"

enum { ISIG_FLAG = 1, VINTR_AT = 0, VQUIT_AT = 1, VSUSP_AT = 10 };

struct settings {
	uint32_t iflag, oflag, cflag, lflag;
	uint8_t line, cc[19];
};

void terminal_set_size(int fd, uint32_t rows, uint32_t columns)
{
	struct winsize w = { .ws_row = (uint16_t)rows, .ws_col = (uint16_t)columns };

	(void)sys3(SYS_ioctl, fd, TIOCSWINSZ, &w);
}

static long open_pts(uint32_t number, int flags)
{
	char path[40] = "/dev/pts/";

	(void)text_number(path + 9, number);
	return sys4(SYS_openat, AT_FDCWD, path, flags, 0);
}

/* By its name, where the kernel can't do without (gVisor). */
static long open_peer(long fd, int flags, uint32_t *ret_pts)
{
	uint32_t number = 0;
	long r = sys3(SYS_ioctl, fd, TIOCGPTN, &number);

	if (r < 0)
		return r;
	*ret_pts = number + 1;
	return open_pts(number, flags);
}

long terminal_make(struct stream *s, struct command *c, const struct wire_run *m)
{
	const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
	int unlock = 0;
	long fd = sys4(SYS_openat, AT_FDCWD, "/dev/ptmx", flags | O_NONBLOCK, 0), peer;

	if (fd < 0)
		return fd;
	s->source[0] = s->sink = (int)fd;
	s->out[1].ended = s->out[1].eof = true;
	peer = sys3(SYS_ioctl, fd, TIOCSPTLCK, &unlock);
	if (peer >= 0)
		peer = sys3(SYS_ioctl, fd, TIOCGPTPEER, flags);
	if (peer == -ENOTTY)
		peer = open_peer(fd, flags, &c->pts);
	if (peer < 0)
		return peer;
	if (m->rows || m->columns)
		terminal_set_size((int)fd, m->rows, m->columns);
	c->own_fd[0] = (int)peer;
	for (int i = 0; i < 3; i++)
		c->place.fd[i] = (int)peer;
	c->place.led = c->pts != 0;
	return 0;
}

/* --- what the kernel does not send --- */

/* In the runner, before it starts the command. */
void terminal_lead(const struct command *c)
{
	if (sys0(SYS_setsid) >= 0)
		(void)sys3(SYS_ioctl, c->own_fd[0], TIOCSCTTY, 0);
}

/* In the runner.  Held open no longer than that: its last closing is what ends the output. */
long terminal_signal(const struct command *c, int sig)
{
	long fd = open_pts(c->pts - 1, O_RDWR | O_NOCTTY | O_CLOEXEC), r;
	int group = 0;

	if (fd < 0)
		return fd;
	r = sys3(SYS_ioctl, fd, TIOCGPGRP, &group);
	close_quietly((int)fd);
	if (r < 0)
		return r;
	return group > 1 ? sys2(SYS_kill, -group, sig) : -ESRCH;
}

static int signal_of(const struct settings *t, uint8_t byte)
{
	static const struct {
		uint8_t at, sig;
	} keys[] = { { VINTR_AT, SIGINT }, { VQUIT_AT, SIGQUIT }, { VSUSP_AT, SIGTSTP } };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (byte && byte == t->cc[keys[i].at])
			return keys[i].sig;
	return 0;
}

size_t terminal_take(struct stream *s, const uint8_t *p, size_t n, int *ret_signal)
{
	struct settings t;
	size_t i = 0;

	*ret_signal = 0;
	if (s->sink < 0 || sys3(SYS_ioctl, s->sink, TCGETS, &t) < 0 || !(t.lflag & ISIG_FLAG))
		return stream_take_sink(s, p, n);
	while (i < n && !(*ret_signal = signal_of(&t, p[i])))
		i++;
	if (i == 0)
		return 1;
	*ret_signal = 0;
	return stream_take_sink(s, p, i);
}

/* What its reader takes for the end, where it wants one. */
void terminal_end_input(const struct stream *s)
{
	enum { ICANON_FLAG = 2, VEOF_AT = 4 };
	struct settings t;

	if (sys3(SYS_ioctl, s->sink, TCGETS, &t) == 0 && t.lflag & ICANON_FLAG)
		(void)sys3(SYS_write, s->sink, &t.cc[VEOF_AT], 1);
}
