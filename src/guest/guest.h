/* bailey-guest: PID 1 of a sandbox.  Internal to the room. */
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

enum {
	GUEST_EXIT_BROKEN = 125, /* the guest itself failed; the host knows more from the frames */
	GUEST_MAX_PATH = 4096,
	GUEST_CHILD_STACK = 32 << 10, /* a path, and little else */

	/* connections relayed at once: agents open a handful; each holds two buffers */
	RELAY_MAX = 64,
	RELAY_BUFFER = 16 << 10,
	RELAY_MAX_POLL = 1 + 2 * RELAY_MAX,
	RELAY_PORT = 4000,
};

#define RELAY_SOCKET "/run/gw/llm.sock"

int guest_main(int argc, char **argv, char **env);

/* False: this kernel knows no subreapers (gVisor's): whatever loses its parent becomes PID 1's. */
extern bool guest_adopts;

/* Without arguments the guest serves a session (session.c). */
int session_main(char **env);

/* Starts argv as the workload; returns its pid, or -errno of what failed.  Runs in the guest before any relay. */
long guest_spawn(const struct wire_exec *exec, char **argv, char **env);

/* What a command of a session has beyond that. */
struct guest_place {
	int fd[3];       /* become its standard streams */
	const char *dir; /* working directory; empty: the guest's */
	uint32_t umask;
	uint64_t mark; /* its RLIMIT_RSS, see exec.h; 0: as it is */
	bool led;      /* with a terminal: the parent leads the session, see terminal.c */
	int *pid; /* written by the child before all else: whoever waits for it may be killed */
};

/* A start that nobody waits for.  It lives until `tid` is 0. */
struct guest_start {
	const struct wire_exec *exec;
	char **argv, **env;              /* these and place->dir are read when `go` is not 0 */
	const struct guest_place *place; /* NULL: all is as the guest has it */
	uint32_t go;                     /* a futex: the child prepares itself and waits for it */
	int tid; /* the child's; the kernel clears it (and wakes a futex) when it has executed the command or ended */
	/* written before that: */
	long error;   /* -errno of what failed */
	bool reached; /* it got as far as the exec */
};
/* Returns the child's pid or -errno.  Set s->tid to -1 before. */
long guest_begin(void *stack_end, struct guest_start *s);

/* clone(flags) onto a new stack, where fn(arg) is called and must not return.  Returns in the parent only.  tid: for
 * CLONE_PARENT_SETTID and CLONE_CHILD_CLEARTID. */
long guest_clone(void *stack_end, long flags, void (*fn)(void *), void *arg, int *tid);

/* The relay.  relay_open listens (0 or -errno); relay_poll fills at most RELAY_MAX_POLL entries and says how many;
 * relay_serve acts on them.  relay_waiting: a connection to the socket waits for room and wants a call within 50 ms. */
struct relay_ids {
	uint32_t uid, gid;
	bool standing; /* the guest touches files as the workload anyway */
};
long relay_open(struct relay_ids ids);
size_t relay_poll(struct pollfd *fds);
void relay_serve(const struct pollfd *fds, size_t n);
bool relay_waiting(void);

/* Makes the parent's death ours again: every change of credentials clears it. */
void guest_arm_parent_death(void);

/* PTRACE_TRACEME makes a process of ours the tracer of whoever it is the parent of: lets it run on.  Is `status`, which
 * wait4 gave, of that kind? */
bool guest_let_go(long pid, int status);
