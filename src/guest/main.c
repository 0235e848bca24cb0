/* bailey-guest: PID 1 of a sandbox.
 *
 * Theory of operation.  The engine builds the walls, installs the filter and executes this program with the command as
 * its arguments, the command's environment as its own, and one end of a socket pair as descriptor 3.  It reads HELLO
 * (deadline) and EXEC (ids, flags), starts the command in a session of its own, answers STARTED, and from then on only
 * waits: for children to reap, frames to obey (SIGNAL), signals to pass on, the deadline, and bytes to relay between
 * 127.0.0.1:4000 and the model's socket.  When the command ends it answers EXITED and exits; the kernel then kills what
 * is left.  When the channel ends, the owner is dead and so is the sandbox.
 *
 * Trust: nothing here protects the host.  It protects itself from the workload (not dumpable, own uid where the sandbox
 * has a range of them) so that what it reports is true.  No allocation: every table is fixed. */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#include "guest/dial.h"
#include "guest/guest.h"
#include "guest/sys.h"

enum {
	FD_CONTROL = WIRE_CONTROL_FD,
	POLL_FIXED = 3, /* entries of loop() before the relay's */
};

static struct {
	uint8_t in[512];
	size_t have;
	struct wire_hello hello;
	struct wire_exec exec;
	long child;
	int signal_fd, timer_fd;
	bool relaying;
} g;

static void send_bytes(const uint8_t *p, size_t n)
{
	while (n) {
		long w = sys3(SYS_write, FD_CONTROL, p, n);

		if (w == -EINTR)
			continue;
		if (w <= 0)
			sys_exit(GUEST_EXIT_BROKEN);
		p += w;
		n -= (size_t)w;
	}
}

static void send_exited(uint32_t how, uint32_t status)
{
	struct wire_exited m = { .command = g.exec.command, .how = how, .status = status };
	uint8_t out[64];

	send_bytes(out, wire_put_exited(out, sizeof out, &m));
}

static void send_greeting(void)
{
	struct wire_hello hello = {
		.magic = WIRE_MAGIC, .version = WIRE_VERSION, .epoch = g.hello.epoch
	};
	struct wire_started started = { .command = g.exec.command, .pid = (uint32_t)g.child };
	uint8_t out[128];
	size_t n = wire_put_hello(out, sizeof out, &hello);

	n += wire_put_started(out + n, sizeof out - n, &started);
	send_bytes(out, n);
}

/* Waits for bytes and parses one frame; the frame's body stays valid until the next call. */
static void next_frame(struct wire_frame *f)
{
	static size_t used;

	for (;;) {
		enum wire_parsed r;
		long n;

		if (used) {
			for (size_t i = 0; i + used < g.have; i++)
				g.in[i] = g.in[i + used];
			g.have -= used;
			used = 0;
		}
		r = wire_parse(g.in, g.have, WIRE_FROM_HOST, f, &used);
		if (r == WIRE_OK)
			return;
		used = 0;
		if (r == WIRE_REFUSED)
			sys_exit(GUEST_EXIT_BROKEN);
		n = sys3(SYS_read, FD_CONTROL, g.in + g.have, sizeof g.in - g.have);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			sys_exit(GUEST_EXIT_BROKEN);
		g.have += (size_t)n;
	}
}

/* The only frame that the host sends to a running command; anything else is a broken host. */
static void obey_signal_frame(void)
{
	struct wire_signal m;
	struct wire_frame f;

	next_frame(&f);
	if (!wire_get_signal(&f, &m))
		sys_exit(GUEST_EXIT_BROKEN);
	(void)sys2(SYS_kill, -g.child, m.signal);
}

void guest_arm_parent_death(void)
{
	(void)sys5(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static void open_signals(void)
{
	/* SIGCHLD to reap; the rest is passed on to the command */
	static const int wanted[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
	uint64_t all = ~0ull, mask = 0;

	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		mask |= 1ull << (wanted[i] - 1);
	(void)sys4(SYS_rt_sigprocmask, SIG_BLOCK, &all, 0, sizeof all);
	g.signal_fd = (int)sys4(SYS_signalfd4, -1, &mask, sizeof mask, SFD_CLOEXEC);
	if (g.signal_fd < 0)
		sys_exit(GUEST_EXIT_BROKEN);
}

static void open_deadline(void)
{
	struct {
		struct {
			int64_t sec, nsec;
		} interval, value;
	} when = { .value.sec = (int64_t)(g.hello.deadline_ms / 1000),
		.value.nsec = (int64_t)(g.hello.deadline_ms % 1000) * 1000000 };

	g.timer_fd = -1;
	if (!g.hello.deadline_ms)
		return;
	g.timer_fd = (int)sys2(SYS_timerfd_create, CLOCK_BOOTTIME, TFD_CLOEXEC);
	if (g.timer_fd < 0 || sys4(SYS_timerfd_settime, g.timer_fd, TIMER_ABSTIME, &when, 0) < 0)
		sys_exit(GUEST_EXIT_BROKEN);
}

bool guest_let_go(long pid, int status)
{
	int sig = status >> 8 & 0xff;

	if ((status & 0xff) != 0x7f)
		return false;
	(void)sys4(SYS_ptrace, PTRACE_DETACH, pid, 0, sig == SIGTRAP ? 0 : sig);
	return true;
}

/* Reaps everything that died; ends the sandbox when the command itself did. */
static void reap(void)
{
	for (;;) {
		int status = 0;
		long pid = sys4(SYS_wait4, -1, &status, WNOHANG, 0);

		if (pid <= 0)
			return;
		if (guest_let_go(pid, status) || pid != g.child)
			continue;
		if ((status & 0x7f) == 0)
			send_exited(WIRE_HOW_EXITED, (uint32_t)(status >> 8) & 0xff);
		else
			send_exited(WIRE_HOW_SIGNALLED, (uint32_t)status & 0x7f);
		sys_exit((status & 0x7f) ? 128 + (status & 0x7f) : (status >> 8) & 0xff);
	}
}

static void take_signals(void)
{
	struct {
		uint32_t signo;
		uint8_t rest[124];
	} info;

	if (sys3(SYS_read, g.signal_fd, &info, sizeof info) != (long)sizeof info)
		return;
	if (info.signo == SIGCHLD)
		reap();
	else
		(void)sys2(SYS_kill, -g.child, info.signo);
}

static void loop(void)
{
	struct pollfd fds[POLL_FIXED + RELAY_MAX_POLL];

	for (;;) {
		size_t n = POLL_FIXED;

		fds[0] = (struct pollfd){ .fd = FD_CONTROL, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = g.signal_fd, .events = POLLIN };
		fds[2] = (struct pollfd){ .fd = g.timer_fd, .events = POLLIN };
		if (g.relaying)
			n += relay_poll(fds + POLL_FIXED);
		if (sys3(SYS_poll, fds, n, g.relaying && relay_waiting() ? 50 : -1) < 0)
			continue;
		if (fds[2].revents & POLLIN) {
			send_exited(WIRE_HOW_DEADLINE, 0);
			sys_exit(GUEST_EXIT_BROKEN);
		}
		if (fds[1].revents & POLLIN)
			take_signals();
		if (fds[0].revents)
			obey_signal_frame();
		if (g.relaying)
			relay_serve(fds + POLL_FIXED, n - POLL_FIXED);
	}
}

bool guest_adopts;

int guest_main(int argc, char **argv, char **env)
{
	struct wire_frame f;
	int adopts = 0;

	(void)sys5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	/* setting it works for PID 1 of any kernel */
	(void)sys5(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	guest_adopts = sys5(SYS_prctl, PR_GET_CHILD_SUBREAPER, &adopts, 0, 0, 0) >= 0;
	guest_arm_parent_death();
	if (argc < 2)
		return session_main(env);
	if (dial_is_wanted(argc, argv))
		return dial_main(argv, env);
	next_frame(&f);
	if (!wire_get_hello(&f, &g.hello))
		return GUEST_EXIT_BROKEN;
	next_frame(&f);
	if (!wire_get_exec(&f, &g.exec))
		return GUEST_EXIT_BROKEN;
	open_signals();
	open_deadline();
	if (g.exec.flags & WIRE_EXEC_RELAY) {
		long r = relay_open((struct relay_ids){ g.exec.uid, g.exec.gid, false });

		if (r < 0) {
			send_exited(WIRE_HOW_NOT_STARTED, (uint32_t)-r);
			return GUEST_EXIT_BROKEN;
		}
		g.relaying = true;
	}
	g.child = guest_spawn(&g.exec, argv + 1, env);
	if (g.child < 0) {
		send_exited(WIRE_HOW_NOT_STARTED, (uint32_t)-g.child);
		return GUEST_EXIT_BROKEN;
	}
	send_greeting();
	loop();
	return 0;
}
