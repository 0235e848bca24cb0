/* Owns the command's standard streams: fresh pipes, or a pseudo-terminal, made out here.  The caller's own descriptors are
 * never handed in: what they point to could be reopened, and a shared terminal could be typed into.
 *
 * Bytes are moved by splice(2) where the kernel can (pipe to pipe, file or socket), else copied.  No descriptor of the
 * caller's is made non-blocking, since that would show in every process that shares it; poll(2) says when a write of
 * PIPE_BUF bytes will not block. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "door/cli/run.h"

enum { PIPE_BYTES = 1 << 20, COPY_BYTES = 64 << 10 };

static int make_pipe(int *ret_read, int *ret_write, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a pipe");
	*ret_read = p[0];
	*ret_write = p[1];
	return 0;
}

/* A terminal or device takes little at a time, so that a write of more could block; a file never does. */
static size_t copy_size(int fd)
{
	struct stat st;

	return fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) ? COPY_BYTES : PIPE_BUF;
}

static int open_stream(struct run_io *io, int i, const struct run_io_options *o, struct err *e)
{
	struct stream *s = &io->streams[i];

	if (make_pipe(&s->from, &io->child.fd[i + 1], e) < 0)
		return -1;
	s->open = true;
	s->to = o->capture ? -1 : i + 1;
	s->max_capture = o->max_capture;
	s->no_splice = s->to < 0 ||
		isatty(s->to); /* EINVAL tells of what else can't, a file to append to, say */
	s->copy_size = copy_size(s->to);
	if (i == STREAM_OUT)
		(void)fcntl(s->from, F_SETPIPE_SZ,
			PIPE_BYTES); /* fewer wake-ups; a smaller pipe works too */
	return set_nonblocking(s->from, true);
}

static int open_terminal(struct run_io *io, struct err *e)
{
	struct terminal *t = &io->terminal;
	struct winsize size;
	struct termios raw;
	int slave;

	t->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->master < 0 || unlockpt(t->master) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a pseudo-terminal");
	slave = ioctl(t->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open the pseudo-terminal's other end");
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		(void)ioctl(t->master, TIOCSWINSZ, &size);
	io->child.fd[0] = slave;
	io->child.fd[1] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	io->child.fd[2] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	io->streams[STREAM_OUT] = (struct stream){ .from = fcntl(t->master, F_DUPFD_CLOEXEC, 3),
		.to = STDOUT_FILENO,
		.open = true,
		.no_splice = true,
		.copy_size = PIPE_BUF };
	io->feed.from = STDIN_FILENO;
	io->feed.to = fcntl(t->master, F_DUPFD_CLOEXEC, 3);
	io->feed.open = true;
	if (tcgetattr(STDIN_FILENO, &t->saved) == 0) {
		raw = t->saved;
		cfmakeraw(&raw);
		t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
	}
	return set_nonblocking(t->master, true);
}

int run_io_open(struct run_io *io, const struct run_io_options *o, struct err *e)
{
	/* the feed's buffer needs no clearing */
	memset(io->streams, 0, sizeof io->streams);
	io->feed.open = io->feed.source_eof = false;
	io->feed.start = io->feed.end = 0;
	io->feed.from = io->feed.to = -1;
	io->terminal.master = -1;
	io->terminal.raw = false;
	for (int i = 0; i < STREAMS; i++)
		io->streams[i].from = io->streams[i].to = -1;
	for (int i = 0; i < 3; i++)
		io->child.fd[i] = -1;
	if (o->tty)
		return open_terminal(io, e);
	for (int i = 0; i < STREAMS; i++)
		if (open_stream(io, i, o, e) < 0)
			return -1;
	if (!o->interactive)
		return 0;
	if (make_pipe(&io->child.fd[0], &io->feed.to, e) < 0)
		return -1;
	io->feed.from = STDIN_FILENO;
	io->feed.open = true;
	return set_nonblocking(io->feed.to, true);
}

void run_io_parent(struct run_io *io)
{
	for (int i = 0; i < 3; i++)
		io->child.fd[i] = close_fd(io->child.fd[i]);
}

void run_io_done(struct run_io *io)
{
	run_io_parent(io);
	for (int i = 0; i < STREAMS; i++) {
		io->streams[i].from = close_fd(io->streams[i].from);
		buf_done(&io->streams[i].capture);
	}
	io->feed.to = close_fd(io->feed.to);
	io->terminal.master = close_fd(io->terminal.master);
	if (io->terminal.raw)
		/* flush: what the terminal answered to the command must not be typed into the shell */
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &io->terminal.saved);
	io->terminal.raw = false;
}

void run_io_resize(const struct run_io *io)
{
	struct winsize size;

	if (io->terminal.master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		(void)ioctl(io->terminal.master, TIOCSWINSZ, &size);
}

/* Entries in a fixed order: out, its target, err, its target, input. */
size_t run_io_poll(const struct run_io *io, struct pollfd *fds)
{
	const struct feed *f = &io->feed;

	for (int i = 0; i < STREAMS; i++) {
		const struct stream *s = &io->streams[i];

		fds[2 * i] = (struct pollfd){ .fd = s->open && !s->waiting ? s->from : -1,
			.events = POLLIN };
		fds[2 * i + 1] = (struct pollfd){ .fd = s->open && s->waiting ? s->to : -1,
			.events = POLLOUT };
	}
	fds[4] = (struct pollfd){ .fd = -1 };
	if (f->open && f->start < f->end)
		fds[4] = (struct pollfd){ .fd = f->to, .events = POLLOUT };
	else if (f->open && !f->source_eof)
		fds[4] = (struct pollfd){ .fd = f->from, .events = POLLIN };
	return RUN_IO_MAX_POLL;
}

static void end_stream(struct stream *s)
{
	s->from = close_fd(s->from);
	s->open = s->waiting = false;
}

/* The caller's side refuses: a reader that has gone ends the stream (the command gets SIGPIPE), all else is an error. */
static int refused(struct stream *s, struct err *e)
{
	if (errno == EPIPE) {
		end_stream(s);
		return 0;
	}
	return err_set(e, errno == ENOSPC || errno == EDQUOT ? R_DISK_FULL : R_OUTPUT_FAILED, errno,
		"write to descriptor '%d'", s->to);
}

static bool can_write_now(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0 && p.revents & (POLLOUT | POLLERR | POLLNVAL);
}

static int capture(struct stream *s, const char *data, size_t n)
{
	size_t room = s->max_capture > s->capture.len ? (size_t)s->max_capture - s->capture.len : 0;

	if (n > room)
		s->truncated = true;
	s->capture.max = (size_t)s->max_capture + 1;
	(void)buf_add(&s->capture, data, n < room ? n : room);
	return 0;
}

static int copy_once(struct stream *s, struct err *e)
{
	char data[COPY_BYTES];
	ssize_t n;

	if (s->to >= 0 && !can_write_now(s->to)) {
		s->waiting = true;
		return 0;
	}
	s->waiting = false;
	n = read(s->from, data, s->copy_size);
	if (n < 0 && (errno == EINTR || (errno == EAGAIN && !s->draining)))
		return 0;
	if (n <= 0) { /* EIO: the last user of a terminal has gone */
		end_stream(s);
		return 0;
	}
	if (s->to < 0)
		return capture(s, data, (size_t)n);
	return write_all(s->to, data, (size_t)n) < 0 ? refused(s, e) : 0;
}

static int move_once(struct stream *s, struct err *e)
{
	ssize_t n;

	if (s->no_splice || s->draining) /* splice's EAGAIN would not say whose it is */
		return copy_once(s, e);
	s->waiting = false;
	n = splice(s->from, NULL, s->to, NULL, PIPE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0)
		return 0;
	if (n == 0) {
		end_stream(s);
		return 0;
	}
	if (errno == EINVAL ||
		errno ==
			EBADF) { /* EBADF: not open for writing; said only if there is something to write */
		s->no_splice = true;
		return 0;
	}
	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN)
		return refused(s, e);
	s->waiting = !can_write_now(s->to);
	return 0;
}

static void feed_once(struct feed *f)
{
	ssize_t n;

	if (f->start == f->end) {
		n = read(f->from, f->data, sizeof f->data);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		f->source_eof = n <= 0;
		f->start = 0;
		f->end = n > 0 ? (size_t)n : 0;
	}
	if (f->start < f->end) {
		n = write(f->to, f->data + f->start, f->end - f->start);
		if (n > 0)
			f->start += (size_t)n;
		else if (n < 0 && errno != EAGAIN &&
			errno != EINTR) { /* the command does not read any more */
			f->source_eof = true;
			f->start = f->end;
		}
	}
	if (f->source_eof && f->start == f->end) {
		f->to = close_fd(f->to);
		f->open = false;
	}
}

int run_io_serve(struct run_io *io, const struct pollfd *fds, size_t n, struct err *e)
{
	(void)n;
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &io->streams[i];
		bool ready = fds[2 * i].revents || fds[2 * i + 1].revents ||
			(s->draining && !s->waiting);

		if (s->open && ready && move_once(s, e) < 0)
			return -1;
	}
	if (fds[4].revents)
		feed_once(&io->feed);
	return 0;
}

void run_io_drain(struct run_io *io)
{
	for (int i = 0; i < STREAMS; i++)
		io->streams[i].draining = true;
}

bool run_io_waits(const struct run_io *io)
{
	return io->streams[STREAM_OUT].waiting || io->streams[STREAM_ERR].waiting;
}

void run_io_give_up(struct run_io *io)
{
	for (int i = 0; i < STREAMS; i++)
		if (io->streams[i].open)
			end_stream(&io->streams[i]);
}

bool run_io_at_end(const struct run_io *io)
{
	return !io->streams[STREAM_OUT].open && !io->streams[STREAM_ERR].open;
}
