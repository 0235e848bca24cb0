/* Starts the workload: fork, drop the guest's last rights, exec.  Called once by guest_main, and by each runner of a session. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "guest/dial.h"
#include "guest/guest.h"
#include "guest/sys.h"
#include "guest/text.h"

bool guest_keeps_caps;

static bool has_slash(const char *s)
{
	for (; *s; s++)
		if (*s == '/')
			return true;
	return false;
}

static const char *find_path(char **env)
{
	for (; *env; env++) {
		const char *e = *env;

		if (e[0] == 'P' && e[1] == 'A' && e[2] == 'T' && e[3] == 'H' && e[4] == '=')
			return e + 5;
	}
	return "/usr/bin:/bin";
}

/* As execvpe: a permission problem on the way is remembered, since it says more than 'not found'. */
static long exec_search(char **argv, char **env)
{
	const char *name = argv[0], *p = find_path(env);
	size_t name_len = text_len(name);
	long worst = -ENOENT;
	char path[GUEST_MAX_PATH];

	if (has_slash(name))
		return sys3(SYS_execve, name, argv, env);
	for (;;) {
		size_t n = 0;
		long r;

		while (p[n] && p[n] != ':')
			n++;
		if (n + 1 + name_len + 1 <= sizeof path) {
			char *out = path;

			for (size_t i = 0; i < n; i++)
				*out++ = p[i];
			if (n)
				*out++ = '/';
			for (size_t i = 0; i <= name_len; i++)
				*out++ = name[i];
			r = sys3(SYS_execve, path, argv, env);
			if (r == -EACCES)
				worst = r;
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		if (!p[n])
			return worst;
		p += n + 1;
	}
}

/* What a root-made sandbox gives the guest (SETUID, SETGID, KILL) is there to lose; without a range of ids these calls are
 * no-ops or fail with EPERM, and the ids are already the workload's.  Capabilities beyond are the workload's own: an engine
 * gives them to root that hands files over, and to nobody else. */
static long drop_rights(const struct wire_exec *exec)
{
	const uint32_t own = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct keep[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	long r;

	/* where the guest acts by its effective ids (gVisor), the real one brings the rights back */
	if (sys0(SYS_geteuid) != sys0(SYS_getuid))
		(void)sys3(SYS_setresuid, -1, sys0(SYS_getuid), -1);
	/* the ids are already the workload's where there is no range: setgroups is then forbidden and nothing to drop */
	r = sys2(SYS_setgroups, 0, 0);
	if (r < 0 && sys0(SYS_geteuid) != (long)exec->uid)
		return r;
	r = sys3(SYS_setresgid, exec->gid, exec->gid, exec->gid);
	if (r < 0)
		return r;
	r = sys3(SYS_setresuid, exec->uid, exec->uid, exec->uid);
	if (r < 0)
		return r;
	r = sys2(SYS_capget, &head, keep);
	if (r < 0)
		return r;
	keep[0].permitted &= ~own;
	keep[0].effective = keep[0].inheritable = keep[0].permitted;
	keep[1].permitted = keep[1].effective = keep[1].inheritable = 0;
	/* the ambient ones follow */
	return sys2(SYS_capset, &head, keep);
}

static long take_streams(const int fd[3])
{
	long r = 0;

	for (int i = 0; i < 3 && r >= 0; i++)
		r = sys3(SYS_dup3, fd[i], i, 0);
	return r < 0 ? r : 0;
}

/* By the workload's own rights.  A link of /proc would lead to what the guest has open. */
static long enter(const char *dir)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS };
	long fd, r;

	if (!*dir)
		return 0;
	fd = sys4(SYS_openat2, AT_FDCWD, dir, &how, sizeof how);
	if (fd == -ENOSYS || fd == -EPERM)
		r = sys1(SYS_chdir, dir);
	else
		r = fd < 0 ? fd : sys1(SYS_fchdir, fd);
	/* 'not found' is what a missing command gives */
	return r == -ENOENT ? -ENOTDIR : r;
}

/* Whatever it starts will have it too. */
static void put_mark(uint64_t mark)
{
	const struct rlimit64 l = { mark, RLIM64_INFINITY };

	(void)sys4(SYS_prlimit64, 0, RLIMIT_RSS, &l, 0);
}

/* All that is the same for whatever comes. */
static long prepare(const struct guest_start *s)
{
	long r;

	/* a session is for whoever has a terminal, or is alone; for others a group will do, at a tenth of the time */
	if (s->place && (!(s->exec->flags & WIRE_EXEC_TERMINAL) || s->place->led))
		r = sys2(SYS_setpgid, 0, 0);
	else
		r = sys0(SYS_setsid);
	if (r < 0)
		return r;
	if (s->place) {
		*s->place->pid = (int)sys0(SYS_getpid);
		if (s->place->mark)
			put_mark(s->place->mark);
		(void)sys1(SYS_umask, s->place->umask);
		r = take_streams(s->place->fd);
		if (r < 0)
			return r;
	}
	if (s->exec->flags & WIRE_EXEC_TERMINAL) {
		int group = (int)sys0(SYS_getpid);

		r = s->place && s->place->led ? sys3(SYS_ioctl, 0, TIOCSPGRP, &group)
					      : sys3(SYS_ioctl, 0, TIOCSCTTY, 0);
		if (r < 0)
			return r;
	}
	(void)sys3(SYS_close_range, 3, ~0u, s->place ? 0 : CLOSE_RANGE_CLOEXEC);
	return 0;
}

/* While it waits it has the guest's ids: the workload can't reach it where the two differ. */
static void wait_for_go(struct guest_start *s)
{
	while (!__atomic_load_n(&s->go, __ATOMIC_ACQUIRE))
		(void)sys4(SYS_futex, &s->go, FUTEX_WAIT_PRIVATE, 0, 0);
}

static long become(struct guest_start *s)
{
	uint64_t none = 0;
	long r = prepare(s);

	if (r < 0)
		return r;
	if (s->place)
		wait_for_go(s);
	r = drop_rights(s->exec);
	if (r < 0)
		return r;
	if (s->place && (r = enter(s->place->dir)) < 0)
		return r;
	(void)sys4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof none);
	__atomic_store_n(&s->reached, true, __ATOMIC_RELEASE);
	return exec_search(s->argv, s->env);
}

static void child(void *arg)
{
	struct guest_start *s = arg;

	s->error = become(s);
	sys_exit(127);
}

__asm__(".text\n"
	".globl guest_clone\n"
	".hidden guest_clone\n"
	".type guest_clone,@function\n"
	"guest_clone:\n"
	"	endbr64\n"
	"	mov %rcx,-16(%rdi)\n"
	"	mov %rdx,-8(%rdi)\n"
	"	lea -16(%rdi),%rax\n"
	"	mov %rsi,%rdi\n"
	"	mov %rax,%rsi\n"
	"	mov %r8,%rdx\n"
	"	mov %r8,%r10\n"
	"	xor %r8d,%r8d\n"
	"	mov $56,%eax\n" /* SYS_clone */
	"	syscall\n"
	"	test %eax,%eax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	xor %ebp,%ebp\n"
	"	mov (%rsp),%rdi\n"
	"	mov 8(%rsp),%rax\n"
	"	call *%rax\n"
	"	hlt\n");

/* Without a copy of page tables to make and to throw away at once, and without sharing a stack frame. */
long guest_begin(void *stack_end, struct guest_start *s)
{
	return guest_clone(stack_end,
		CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, child, s, &s->tid);
}

long guest_spawn(const struct wire_exec *exec, char **argv, char **env)
{
	static char stack[GUEST_CHILD_STACK] __attribute__((aligned(16)));
	struct guest_start s = { .exec = exec, .argv = argv, .env = env };
	long pid = guest_clone(
		stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, child, &s, NULL);

	/* the child is another program by now, or it has failed and said so */
	__asm__ volatile("" : : : "memory");
	if (pid > 0 && s.error < 0) {
		(void)sys4(SYS_wait4, pid, 0, 0, 0);
		return s.error;
	}
	return pid;
}
