/* A command: what the guest and the command's runner share.  Internal to exec.c, args.c, runner.c and tree.c.
 *
 * The runner is a process with the guest's memory and descriptors (clone with CLONE_VM, CLONE_FILES): it costs no copy, and it
 * can be what the guest can't: one command's subreaper.  Whatever both sides touch is atomic. */
#pragma once
#include "guest/session.h"

enum {
	COMMAND_TEXT =
		12 << 10, /* arguments and environment up to here need no mapping of their own */
	RUNNER_STACK = 16 << 10,
	ASK_TREE = 0x100, /* beside a signal's number */
};

enum said {
	SAID_STARTED = 1,
	SAID_ENDED = 2,
};

struct command_text {
	char **argv, **env;
	const char *dir;
	void *mapping; /* NULL: lies in the command */
	size_t mapped;
};

struct command {
	struct command *next;
	uint32_t number; /* of its stream */
	struct wire_exec exec;
	struct command_text text;
	struct guest_place place;
	int own_fd[3]; /* to be closed when the command has them; -1: none */

	/* the runner tells: */
	uint32_t said; /* enum said; what goes with it is written before */
	int pid;
	uint32_t error;  /* not started */
	int status;      /* of wait4 */
	uint32_t left;   /* processes that went on */
	uint32_t answer; /* to `ask`, which it then sets to 0 */
	bool gone;       /* of the runner alone: the command was reaped */
	/* the guest asks: */
	uint32_t ask; /* a signal, or ASK_TREE and a signal */

	bool wake; /* a word when the command has started */

	/* the guest's own: */
	uint32_t heard;
	int runner;
	bool running; /* the runner was not reaped yet */
	bool orphan; /* the runner died before its command: the guest is the command's parent now */
	bool ended;
	bool asking;
	bool timed_out;
	bool doomed;       /* its tree is to be killed */
	uint32_t asked_by; /* stream of a KILL; 0: the time-out */
	uint32_t end_flags;
	uint64_t deadline_ms; /* CLOCK_BOOTTIME; 0: none */

	uint8_t small_text[COMMAND_TEXT] __attribute__((aligned(16)));
	uint8_t runner_stack[RUNNER_STACK] __attribute__((aligned(16)));
	uint8_t child_stack[GUEST_CHILD_STACK] __attribute__((aligned(16)));
};

/* Builds arguments and environment from the two parts of a request; 0 or an errno.  text->mapping is the caller's to unmap. */
uint32_t args_build(
	struct command *c, const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len);
void args_done(struct command *c);

/* The runner's main function: the stack is its own. */
void runner_main(void *command);

/* The processes below `root`, which is the caller or nobody's parent any more.  Reads /proc; needs no new process. */
uint32_t tree_count(int root);
/* Sends a signal to each; returns how many there are then.  SIGKILL: stops them all first, and repeats until none is left or
 * two seconds have passed; reap() is called in between. */
uint32_t tree_signal(int root, int sig, void (*reap)(void *arg), void *arg);
