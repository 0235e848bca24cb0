/* Serves a session: PID 1 of a sandbox that lives.  Called by guest_main when the guest has no arguments.
 *
 * Descriptor 3 is the owner's: HELLO (deadline), SESSION (ids), then a CONNECT with a descriptor for each new guest channel
 * (link.c).  Its end is the owner's death and so the sandbox's.  One loop waits in epoll for the owner, the link, children,
 * timers, and the descriptors of streams; work on files is done in small steps between two waits.
 *
 * From SESSION on the guest touches files as the workload does (fsuid and fsgid): permissions are judged for it. */
#include "guest/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#include "guest/dial.h"

enum {
	FD_CONTROL = WIRE_CONTROL_FD,
	MAX_EVENTS = 64,
	/* how long an end of output may wait for more to be sent with it */
	LAZY_NS = 300000,
	LAZY_TURNS = 8,
	RELAY_RETRY_MS = 50,
};

struct session session;

static struct {
	uint8_t in[512];
	size_t have;
	int passed_fd; /* came with bytes of the control socket; -1: none */
	int control;   /* -1: it is dialled */
	bool dialled;
	bool greeted, told; /* HELLO and SESSION came over this control connection */
	struct wire_hello hello;
	bool serving, relaying, no_pwait2;
	uint32_t fs_uid, fs_gid;
	unsigned lazy_turns;
	int signal_fd, timer_fd, deadline_fd;
	uint64_t timer_ms;
} g = { .passed_fd = -1, .control = FD_CONTROL, .deadline_fd = -1 };

/* --- what the other files use --- */

void *map_memory(size_t n)
{
	long r = sys6(SYS_mmap, 0, SYS_ARG(n), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return r < 0 && r > -4096 ? NULL : (void *)r;
}

void unmap_memory(void *p, size_t n)
{
	(void)sys2(SYS_munmap, p, n);
}

void close_quietly(int fd)
{
	(void)sys1(SYS_close, fd);
}

int epoll_set(int fd, uint32_t before, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };
	int op = !events ? EPOLL_CTL_DEL : before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	return (int)sys4(SYS_epoll_ctl, session.epoll, op, fd, &e);
}

uint64_t boottime_ms(void)
{
	struct {
		int64_t sec, nsec;
	} t = { 0, 0 };

	(void)sys2(SYS_clock_gettime, CLOCK_BOOTTIME, &t);
	return (uint64_t)t.sec * 1000 + (uint64_t)t.nsec / 1000000;
}

/* gVisor has no ids for files alone; the real ones are root's and bring the rights back. */
static void act_effectively(uint32_t uid, uint32_t gid)
{
	(void)sys3(SYS_setresuid, -1, sys0(SYS_getuid), -1);
	(void)sys3(SYS_setresgid, -1, gid, -1);
	(void)sys3(SYS_setresuid, -1, uid, -1);
}

void session_act_as(uint32_t uid, uint32_t gid)
{
	if (uid == g.fs_uid && gid == g.fs_gid)
		return;
	if (sys1(SYS_setfsgid, gid) < 0)
		act_effectively(uid, gid);
	else
		(void)sys1(SYS_setfsuid, uid);
	g.fs_uid = uid;
	g.fs_gid = gid;
	guest_arm_parent_death();
}

void session_arm(int fd, uint64_t when_ms)
{
	struct {
		struct {
			int64_t sec, nsec;
		} interval, value;
	} when = { .value.sec = (int64_t)(when_ms / 1000),
		.value.nsec = (int64_t)(when_ms % 1000) * 1000000 };

	(void)sys4(SYS_timerfd_settime, fd, TIMER_ABSTIME, &when, 0);
}

void session_set_timer(uint64_t when_ms)
{
	if (when_ms == g.timer_ms)
		return;
	g.timer_ms = when_ms;
	session_arm(g.timer_fd, when_ms);
}

/* --- the owner --- */

static void broken(void)
{
	sys_exit(GUEST_EXIT_BROKEN);
}

/* Whoever can be dialled again may come back; else it is the owner's death. */
static void lose_control(void)
{
	if (!g.dialled)
		broken();
	if (g.control < 0)
		return;
	(void)epoll_set(g.control, EPOLLIN, 0, 0);
	close_quietly(g.control);
	g.control = -1;
	g.have = 0;
	dial_again();
}

static void receive_control(void)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { g.in + g.have, sizeof g.in - g.have };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control };
	long n;

	do
		n = sys3(SYS_recvmsg, g.control, &m, MSG_CMSG_CLOEXEC);
	while (n == -EINTR);
	if (n <= 0) {
		if (n != -EAGAIN)
			lose_control();
		return;
	}
	g.have += (size_t)n;
	if (m.msg_controllen >= sizeof control.head && control.head.cmsg_level == SOL_SOCKET &&
		control.head.cmsg_type == SCM_RIGHTS) {
		if (g.passed_fd >= 0)
			close_quietly(g.passed_fd);
		memcpy(&g.passed_fd, control.bytes + CMSG_LEN(0), sizeof g.passed_fd);
	}
}

static void send_control(const uint8_t *p, size_t n)
{
	while (n) {
		long w = sys6(SYS_sendto, g.control, SYS_ARG(p), SYS_ARG(n), MSG_NOSIGNAL, 0, 0);

		if (w == -EINTR)
			continue;
		if (w <= 0) {
			lose_control();
			return;
		}
		p += w;
		n -= (size_t)w;
	}
}

static void send_hello(uint64_t epoch, uint16_t flags)
{
	struct wire_hello m = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .flags = flags, .epoch = epoch
	};
	uint8_t out[64];

	send_control(out, wire_put_hello(out, sizeof out, &m));
}

static void set_deadline(void)
{
	if (g.deadline_fd < 0 && g.hello.deadline_ms) {
		g.deadline_fd = (int)sys2(SYS_timerfd_create, CLOCK_BOOTTIME, TFD_CLOEXEC);
		if (g.deadline_fd < 0 || epoll_set(g.deadline_fd, 0, EPOLLIN, EVENT_DEADLINE) < 0)
			broken();
	}
	if (g.deadline_fd >= 0)
		session_arm(g.deadline_fd, g.hello.deadline_ms);
}

static void take_hello(const struct wire_frame *f)
{
	if (!wire_get_hello(f, &g.hello))
		broken();
	g.greeted = true;
	/* who dials has greeted already */
	if (!g.dialled)
		send_hello(g.hello.epoch, 0);
	set_deadline();
}

static void take_session(const struct wire_frame *f)
{
	struct wire_session m;

	if (!wire_get_session(f, &m))
		broken();
	g.told = true;
	if (g.dialled)
		dial_greeted();
	/* from an owner that took over: nothing of what runs changes */
	if (g.serving)
		return;
	session.uid = m.uid;
	session.gid = m.gid;
	session.max_streams = m.max_streams;
	g.fs_uid = g.fs_gid = ~0u;
	session_act_as(m.uid, m.gid);
	if (m.flags & WIRE_EXEC_RELAY) {
		if (relay_open((struct relay_ids){ m.uid, m.gid, true }) < 0)
			broken();
		g.relaying = true;
	}
	g.serving = true;
}

static void take_connect(const struct wire_frame *f)
{
	struct wire_connect m;

	if (!wire_get_connect(f, &m) || g.passed_fd < 0)
		broken();
	link_open(g.passed_fd, m.epoch);
	g.passed_fd = -1;
}

static void take_come(const struct wire_frame *f)
{
	struct wire_come m;

	if (!wire_get_come(f, &m))
		broken();
	dial_channel(&m);
}

static void take_control_frame(const struct wire_frame *f)
{
	if (!g.greeted)
		take_hello(f);
	else if (!g.told)
		take_session(f);
	else if (g.dialled)
		take_come(f);
	else
		take_connect(f);
}

static void serve_control(void)
{
	struct wire_frame f;
	enum wire_parsed r;
	size_t used;

	receive_control();
	/* one that was lost has no frames either */
	while ((r = wire_parse(g.in, g.have, WIRE_FROM_HOST, &f, &used)) == WIRE_OK) {
		take_control_frame(&f);
		g.have -= used;
		memmove(g.in, g.in + used, g.have);
	}
	if (r == WIRE_REFUSED || g.have == sizeof g.in)
		broken();
}

/* --- the loop --- */

static void reap(void)
{
	uint8_t info[128];

	(void)sys3(SYS_read, g.signal_fd, info, sizeof info);
	for (;;) {
		int status = 0;
		long pid = sys4(SYS_wait4, -1, &status, WNOHANG | __WALL, 0);

		if (pid <= 0)
			return;
		if (!guest_let_go(pid, status))
			(void)exec_reaped((int)pid, status);
	}
}

static void end_at_deadline(void)
{
	struct wire_exited m = { .how = WIRE_HOW_DEADLINE };
	uint8_t out[64];

	send_control(out, wire_put_exited(out, sizeof out, &m));
	broken();
}

static void take_timer(void)
{
	uint64_t count;

	(void)sys3(SYS_read, g.timer_fd, &count, sizeof count);
	g.timer_ms = 0;
	exec_timer();
}

static void serve_event(const struct epoll_event *e)
{
	struct stream *s;
	unsigned slot;

	switch (e->data.u64) {
	case EVENT_CONTROL:
		serve_control();
		return;
	case EVENT_SIGNAL:
		reap();
		return;
	case EVENT_DEADLINE:
		end_at_deadline();
		return;
	case EVENT_TIMER:
		take_timer();
		return;
	case EVENT_NOTIFY:
		exec_notified();
		return;
	case EVENT_LINK:
		link_ready(e->events);
		return;
	case EVENT_DIAL:
		dial_timer();
		return;
	default:
		s = stream_of_event(e->data.u64, &slot);
		if (s && s->ops->ready)
			s->ops->ready(s, slot, e->events);
	}
}

static int wait_ns(struct epoll_event *events, int64_t ns)
{
	struct {
		int64_t sec, nsec;
	} t = { 0, ns };
	long r;

	if (!g.no_pwait2) {
		r = sys6(SYS_epoll_pwait2, session.epoll, SYS_ARG(events), MAX_EVENTS,
			ns < 0 ? 0 : SYS_ARG(&t), 0, 0);
		if (r != -ENOSYS && r != -EPERM)
			return (int)r;
		g.no_pwait2 = true;
	}
	return (int)sys4(SYS_epoll_wait, session.epoll, events, MAX_EVENTS,
		ns < 0 ? -1 : (int)((ns + 999999) / 1000000));
}

/* The relay has a poll set of its own; the session's epoll is one of its descriptors. */
static int wait_with_relay(struct epoll_event *events, int64_t ns)
{
	struct pollfd fds[1 + RELAY_MAX_POLL];
	size_t n = 1;
	int ms = ns < 0 ? -1 : (int)((ns + 999999) / 1000000);

	fds[0] = (struct pollfd){ .fd = session.epoll, .events = POLLIN };
	n += relay_poll(fds + 1);
	if (relay_waiting() && (ms < 0 || ms > RELAY_RETRY_MS))
		ms = RELAY_RETRY_MS;
	if (sys3(SYS_poll, fds, n, ms) < 0)
		return 0;
	relay_serve(fds + 1, n - 1);
	return wait_ns(events, 0);
}

static int wait_for_events(struct epoll_event *events, bool busy)
{
	int64_t ns = busy ? 0 : session.lazy ? LAZY_NS : session.starting ? LOOK_NS : -1;

	return g.relaying ? wait_with_relay(events, ns) : wait_ns(events, ns);
}

static void loop(void)
{
	struct epoll_event events[MAX_EVENTS];
	bool busy = false;

	for (;;) {
		int n = wait_for_events(events, busy);

		for (int i = 0; i < n; i++)
			serve_event(&events[i]);
		if (session.starting)
			exec_look();
		if (link_wants_turn())
			link_ready(0);
		busy = streams_work();
		if (session.urgent || (session.lazy && (n <= 0 || ++g.lazy_turns > LAZY_TURNS))) {
			g.lazy_turns = 0;
			link_flush();
		}
		exec_prepare();
		busy = busy || link_wants_turn();
		if (!busy)
			link_rest();
	}
}

/* Streams of commands are put onto 0, 1 and 2: nothing of the guest's own may lie there. */
static void hold_low_descriptors(void)
{
	long fd;

	do
		fd = sys2(SYS_eventfd2, 0, EFD_CLOEXEC);
	while (fd >= 0 && fd < FD_CONTROL);
	if (fd >= 0)
		(void)sys1(SYS_close, fd);
}

/* In an image without a /dev/null: a pipe that nobody writes to. */
static int open_null(void)
{
	long fd = sys4(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC, 0);
	int ends[2] = { -1, -1 };

	if (fd >= 0)
		return (int)fd;
	(void)sys2(SYS_pipe2, ends, O_CLOEXEC);
	close_quietly(ends[1]);
	return ends[0];
}

static void watch_control(void)
{
	(void)sys3(SYS_fcntl, g.control, F_SETFD, FD_CLOEXEC);
	if (epoll_set(g.control, 0, EPOLLIN, EVENT_CONTROL) < 0)
		broken();
}

static void open_all(void)
{
	uint64_t all = ~0ull, child = 1ull << (SIGCHLD - 1);

	(void)sys4(SYS_rt_sigprocmask, SIG_BLOCK, &all, 0, sizeof all);
	hold_low_descriptors();
	session.epoll = (int)sys1(SYS_epoll_create1, EPOLL_CLOEXEC);
	g.signal_fd =
		(int)sys4(SYS_signalfd4, -1, &child, sizeof child, SFD_CLOEXEC | SFD_NONBLOCK);
	g.timer_fd = (int)sys2(SYS_timerfd_create, CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	session.notify = (int)sys2(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
	session.null = open_null();
	session.umask = (uint32_t)sys1(SYS_umask, 0);
	if (epoll_set(g.signal_fd, 0, EPOLLIN, EVENT_SIGNAL) < 0 ||
		epoll_set(g.timer_fd, 0, EPOLLIN, EVENT_TIMER) < 0 ||
		epoll_set(session.notify, 0, EPOLLIN, EVENT_NOTIFY) < 0)
		broken();
}

int session_main(char **env)
{
	session.env = env;
	open_all();
	watch_control();
	loop();
	return 0;
}

bool session_control(int fd)
{
	g.control = fd;
	g.greeted = g.told = false;
	watch_control();
	send_hello(1, g.serving ? 0 : WIRE_HELLO_FRESH);
	return g.control >= 0;
}

void session_dialled(char **env, int timer)
{
	session.env = env;
	g.dialled = true;
	g.control = -1;
	open_all();
	if (epoll_set(timer, 0, EPOLLIN, EVENT_DIAL) < 0)
		broken();
	dial_now();
	loop();
}
