/* Owns one command from its start to the end of its last process: the runner, a process between the guest and the command.
 * Started by exec.c.  It tells of the command's end at once and then stays, as the subreaper of all that the command left,
 * so that they can be found, counted and killed.  When nothing is left it may be used for another one (launch.c).  It shares the guest's memory: it touches its own command and stack, and no
 * table of the guest. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "guest/exec.h"

enum { SLOW_EXEC_NS = 20000000, ORPHANS_NS = 200000000 };

static const uint64_t wanted = 1ull << (SIGCHLD - 1) | 1ull << (SIGUSR1 - 1);

static void tell(void)
{
	uint64_t one = 1;

	(void)sys3(SYS_write, session.notify, &one, sizeof one);
}

/* False when there is no child left. */
static bool reap_all(struct command *c)
{
	int status;
	long pid;

	while ((pid = sys4(SYS_wait4, -1, &status, WNOHANG | __WALL, 0)) > 0) {
		if (guest_let_go(pid, status) || pid != c->pid)
			continue;
		c->status = status;
		c->gone = true;
	}
	return pid != -ECHILD;
}

static void reap(void *arg)
{
	(void)reap_all(arg);
}

/* Whoever is killed for want of memory should be a command, not the guest.  Not for one that ends at once: looking up a process
 * in /proc takes a tenth of the time that it runs. */
static void offer_to_oom_killer(int pid)
{
	static const char score[] = "500";
	char path[48] = "/proc/";
	size_t n = 6;
	long fd;

	n += text_number(path + n, (uint64_t)pid);
	memcpy(path + n, "/oom_score_adj", 15);
	fd = sys4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sys3(SYS_write, fd, score, sizeof score - 1);
	close_quietly((int)fd);
}

/* A runner that can't start anything is of no more use. */
static void start(struct command *c)
{
	long r;

	if (c->pts)
		terminal_lead(c);
	r = guest_begin(c->child_stack + sizeof c->child_stack, &c->start);

	launch_close_own(c);
	if (r < 0) {
		c->error = (uint32_t)-r;
		sys_exit(0);
	}
	c->pid = (int)r;
}

/* Whether it has another name than the guest by now, or is gone. */
static bool has_executed(int pid)
{
	char path[48] = "/proc/", name[32], own[32];
	size_t n = 6;
	long fd, r, k;

	n += text_number(path + n, (uint64_t)pid);
	memcpy(path + n, "/comm", 6);
	fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return true;
	r = sys3(SYS_read, fd, name, sizeof name - 1);
	close_quietly((int)fd);
	fd = sys4(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
	if (r <= 0 || fd < 0)
		return r <= 0;
	k = sys3(SYS_read, fd, own, sizeof own - 1);
	close_quietly((int)fd);
	name[r] = 0;
	own[k > 0 ? k : 0] = 0;
	return !text_same(name, own);
}

/* Not private: that is how the kernel wakes it.  gVisor's doesn't at an exec. */
static void wait_for_exec(struct command *c)
{
	const struct {
		int64_t sec, nsec;
	} slow = { 0, SLOW_EXEC_NS };
	int tid;

	while ((tid = __atomic_load_n(&c->start.tid, __ATOMIC_ACQUIRE)) != 0)
		if (sys4(SYS_futex, &c->start.tid, FUTEX_WAIT, tid, &slow) == -ETIMEDOUT &&
			__atomic_load_n(&c->start.go, __ATOMIC_ACQUIRE) && has_executed(c->pid))
			__atomic_store_n(&c->start.tid, 0, __ATOMIC_RELEASE);
}

/* What a short command needs not. */
static void grow_up(struct command *c)
{
	wait_for_exec(c);
	tell();
	if (!c->gone)
		offer_to_oom_killer(c->pid);
}

static void serve_ask(struct command *c)
{
	uint32_t ask = __atomic_load_n(&c->ask, __ATOMIC_ACQUIRE);
	int sig = (int)(ask & 0xff);
	long r = 0;

	if (!ask)
		return;
	c->answer = 0;
	/* before it may be in no group of its own */
	if (!(ask & ASK_TREE))
		wait_for_exec(c);
	if (ask & ASK_TREE)
		c->answer = tree_signal((int)sys0(SYS_getpid), c->mark, sig, reap, c);
	else if (ask & ASK_FOREGROUND)
		r = terminal_signal(c, sig);
	else if (!c->gone)
		r = sys2(SYS_kill, -c->pid, sig);
	else
		r = -ESRCH;
	if (r < 0)
		c->answer = (uint32_t)-r;
	__atomic_store_n(&c->ask, 0, __ATOMIC_RELEASE);
	tell();
}

/* Nobody tells of the end of what is no child. */
static bool has_orphans(const struct command *c)
{
	return c->mark && c->gone && tree_count((int)sys0(SYS_getpid), c->mark) > 0;
}

/* From its start to the end of the last process that it left. */
static void run(struct command *c)
{
	static const struct {
		int64_t sec, nsec;
	} again = { 0, ORPHANS_NS };
	bool told = false, grown = false, children;

	start(c);
	while ((children = reap_all(c)) || has_orphans(c)) {
		if (c->gone && !told) {
			c->left = tree_count((int)sys0(SYS_getpid), c->mark);
			__atomic_store_n(&c->over, true, __ATOMIC_RELEASE);
			tell();
			told = true;
		}
		if (!grown && __atomic_load_n(&c->wake, __ATOMIC_ACQUIRE)) {
			grown = true;
			grow_up(c);
		}
		serve_ask(c);
		(void)sys4(
			SYS_rt_sigtimedwait, &wanted, 0, children ? NULL : &again, sizeof wanted);
	}
	if (c->start.error < 0)
		c->error = (uint32_t)-c->start.error;
	else
		__atomic_store_n(&c->over, true, __ATOMIC_RELEASE);
	__atomic_store_n(&c->idle, true, __ATOMIC_RELEASE);
	tell();
}

void runner_main(void *arg)
{
	struct command *c = arg;
	uint32_t word;

	guest_arm_parent_death();
	(void)sys5(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	do {
		run(c);
		/* from `idle` on the command is the guest's alone, but for this */
		while (!(word = __atomic_exchange_n(&c->word, 0, __ATOMIC_ACQUIRE)))
			(void)sys4(SYS_rt_sigtimedwait, &wanted, 0, 0, sizeof wanted);
	} while (word == WORD_NEXT);
	sys_exit(0);
}
