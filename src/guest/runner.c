/* Owns one command from its start to the end of its last process: the runner, a process between the guest and the command.
 * Started by exec.c.  It tells of the command's end at once and then stays, as the subreaper of all that the command left,
 * so that they can be found, counted and killed.  It shares the guest's memory: it touches its own command and stack, and no
 * table of the guest. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "guest/exec.h"

enum { YOUNG_NS = 300000 };

static uint64_t bit(int sig)
{
	return 1ull << (sig - 1);
}

static void tell(struct command *c, uint32_t what)
{
	uint64_t one = 1;

	if (what)
		(void)__atomic_fetch_or(&c->said, what, __ATOMIC_RELEASE);
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

static void start(struct command *c)
{
	long r = guest_spawn_at(c->child_stack + sizeof c->child_stack, &c->exec, c->text.argv,
		c->text.env, &c->place);

	for (int i = 0; i < 3; i++) {
		int fd = __atomic_exchange_n(&c->own_fd[i], -1, __ATOMIC_RELAXED);

		if (fd >= 0)
			close_quietly(fd);
	}
	if (r < 0) {
		c->error = (uint32_t)-r;
		sys_exit(0);
	}
	c->pid = (int)r;
	/* the guest looks by itself soon after it started us, and asks to be woken only then */
	(void)__atomic_fetch_or(&c->said, SAID_STARTED, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->wake, __ATOMIC_SEQ_CST))
		tell(c, 0);
}

static void serve_ask(struct command *c)
{
	uint32_t ask = __atomic_load_n(&c->ask, __ATOMIC_ACQUIRE);
	int sig = (int)(ask & 0xff);
	long r = 0;

	if (!ask)
		return;
	c->answer = 0;
	if (ask & ASK_TREE)
		c->answer = tree_signal((int)sys0(SYS_getpid), sig, reap, c);
	else if (!c->gone)
		r = sys2(SYS_kill, -c->pid, sig);
	else
		r = -ESRCH;
	if (r < 0)
		c->answer = (uint32_t)-r;
	__atomic_store_n(&c->ask, 0, __ATOMIC_RELEASE);
	tell(c, 0);
}

void runner_main(void *arg)
{
	const uint64_t mask = bit(SIGCHLD) | bit(SIGUSR1);
	const struct {
		int64_t sec, nsec;
	} young = { 0, YOUNG_NS };
	struct command *c = arg;
	bool told = false, offered = false;
	long r;

	guest_arm_parent_death();
	(void)sys5(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	start(c);
	while (reap_all(c)) {
		if (c->gone && !told) {
			c->left = tree_count((int)sys0(SYS_getpid));
			tell(c, SAID_ENDED);
			told = true;
		}
		serve_ask(c);
		r = sys4(SYS_rt_sigtimedwait, &mask, 0, offered ? NULL : &young, sizeof mask);
		if (r == -EAGAIN && !c->gone)
			offer_to_oom_killer(c->pid);
		offered = offered || r == -EAGAIN;
	}
	/* the guest hears of it by the end of this process: one message less on the way of a short command */
	if (!told)
		(void)__atomic_fetch_or(&c->said, SAID_ENDED, __ATOMIC_RELEASE);
	sys_exit(0);
}
