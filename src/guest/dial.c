/* Owns the guest's way to a host that can't hand it descriptors: a container's, over DIR/ctl.sock.  Called by guest_main for
 * `bailey-guest dial DIR`, and by session.c when its control connection ended or a guest channel is wanted.
 *
 * The first frame on each connection is a TOKEN, by which the host knows that it is the guest who dials, and not something
 * that runs beside it: that of DIR/token on a control connection, that of the COME on a guest channel.  Must hold: commands
 * live on while there is no host, and no call here waits. */
#include "guest/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>

#include "guest/session.h"

enum {
	TOKEN_DIGITS = 32,
	FIRST_MS = 100, /* between two tries, doubled each time up to the last */
	LAST_MS = 2000,
	CHANNEL_MS = 20,
	CHANNEL_TRIES = 250,
};

static struct {
	struct sockaddr_un address;
	uint64_t hi, lo;
	int timer;
	uint64_t control_at, wait_ms; /* 0: there is a connection */
	uint64_t channel_at;          /* 0: none is wanted */
	unsigned tries;
	struct wire_come channel;
} d;

/* --- what the guest is started with --- */

static bool digit(char c, uint64_t *ret)
{
	if (c >= '0' && c <= '9')
		*ret = (unsigned char)(c - '0');
	else if (c >= 'a' && c <= 'f')
		*ret = (unsigned char)(c - 'a' + 10);
	else
		return false;
	return true;
}

/* 32 digits, and nothing but a line's end behind them. */
static bool parse_token(const char *p, long n)
{
	uint64_t v[2] = { 0, 0 }, one;

	if (n == TOKEN_DIGITS + 1 && p[TOKEN_DIGITS] == '\n')
		n--;
	if (n != TOKEN_DIGITS)
		return false;
	for (int i = 0; i < TOKEN_DIGITS; i++) {
		if (!digit(p[i], &one))
			return false;
		v[i / 16] = v[i / 16] << 4 | one;
	}
	d.hi = v[0];
	d.lo = v[1];
	return true;
}

enum { FILE_PATH = sizeof d.address.sun_path + 8 };

static void file_path(char path[FILE_PATH], const char *dir, const char *name)
{
	size_t n = text_len(dir);

	memcpy(path, dir, n);
	memcpy(path + n, name, text_len(name) + 1);
}

static bool read_token(const char *dir)
{
	char text[TOKEN_DIGITS + 8], path[FILE_PATH];
	struct stat st;
	long fd, r;

	file_path(path, dir, "/token");
	fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	r = sys2(SYS_fstat, fd, &st);
	if (r == 0 && (st.st_mode & S_IFMT) == S_IFREG)
		r = sys3(SYS_read, fd, text, sizeof text);
	close_quietly((int)fd);
	return r > 0 && parse_token(text, r);
}

static bool take_directory(const char *dir)
{
	static const char name[] = "/ctl.sock";
	size_t n = text_len(dir);

	if (dir[0] != '/' || n + sizeof name > sizeof d.address.sun_path)
		return false;
	d.address.sun_family = AF_UNIX;
	memcpy(d.address.sun_path, dir, n);
	memcpy(d.address.sun_path + n, name, sizeof name);
	return true;
}

static bool has_word(const char *s, const char *word)
{
	for (; *s; s++) {
		size_t n = 0;

		while (word[n] && s[n] == word[n])
			n++;
		if (!word[n] && (!s[n] || s[n] == '+'))
			return true;
	}
	return false;
}

/* A command of that name is started by its engine with a name of the guest that is no path. */
bool dial_is_wanted(int argc, char **argv)
{
	return argc >= 3 && argv[0][0] == '/' && argv[1][0] == 'd' && argv[1][1] == 'i' &&
		argv[1][2] == 'a' && argv[1][3] == 'l' && (!argv[1][4] || argv[1][4] == '+');
}

/* --- connections --- */

static void set_timer(void)
{
	uint64_t first = d.control_at;

	if (d.channel_at && (!first || d.channel_at < first))
		first = d.channel_at;
	session_arm(d.timer, first);
}

/* A connection whose first frame, the TOKEN, has been sent; or -errno. */
static long call_host(uint64_t hi, uint64_t lo)
{
	struct wire_token m = { .hi = hi, .lo = lo };
	uint8_t out[64];
	size_t n = wire_put_token(out, sizeof out, &m);
	long fd = sys3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (fd < 0)
		return fd;
	r = sys3(SYS_connect, fd, &d.address, sizeof d.address);
	if (r == 0)
		r = sys6(SYS_sendto, fd, SYS_ARG(out), SYS_ARG(n), MSG_NOSIGNAL, 0, 0);
	if (r == (long)n)
		return fd;
	close_quietly((int)fd);
	return r < 0 ? r : -EPIPE;
}

static void try_control(void)
{
	long fd = call_host(d.hi, d.lo);

	if (fd >= 0 && session_control((int)fd)) {
		/* until the host has greeted it may be one that hangs up at once */
		d.control_at = 0;
		return;
	}
	d.control_at = boottime_ms() + d.wait_ms;
}

static void later(void)
{
	d.wait_ms = !d.wait_ms ? FIRST_MS : d.wait_ms * 2 > LAST_MS ? LAST_MS : d.wait_ms * 2;
}

void dial_now(void)
{
	d.control_at = boottime_ms();
	set_timer();
}

void dial_again(void)
{
	later();
	d.control_at = boottime_ms() + d.wait_ms;
	set_timer();
}

void dial_greeted(void)
{
	d.wait_ms = 0;
}

static void try_channel(void)
{
	long fd = call_host(d.channel.hi, d.channel.lo);

	d.channel_at = 0;
	if (fd >= 0)
		link_open((int)fd, d.channel.epoch);
	else if (++d.tries < CHANNEL_TRIES)
		d.channel_at = boottime_ms() + CHANNEL_MS;
}

void dial_channel(const struct wire_come *m)
{
	d.channel = *m;
	d.tries = 0;
	try_channel();
	set_timer();
}

void dial_timer(void)
{
	uint64_t now = boottime_ms(), count;

	(void)sys3(SYS_read, d.timer, &count, sizeof count);
	if (d.control_at && d.control_at <= now) {
		later();
		try_control();
	}
	if (d.channel_at && d.channel_at <= now)
		try_channel();
	set_timer();
}

int dial_main(char **argv, char **env)
{
	char path[FILE_PATH];
	int r;

	guest_keeps_caps = has_word(argv[1] + 4, "caps");
	if (!take_directory(argv[2]) || !read_token(argv[2]))
		return GUEST_EXIT_BROKEN;
	file_path(path, argv[2], "/check");
	r = check_mounts(path);
	if (r)
		return r;
	wall_build(has_word(argv[1] + 4, "setgid"), guest_keeps_caps);
	d.timer = (int)sys2(SYS_timerfd_create, CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (d.timer < 0)
		return GUEST_EXIT_BROKEN;
	session_dialled(env, d.timer);
	return 0;
}
