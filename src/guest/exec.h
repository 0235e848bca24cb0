/* A command: what the guest and the command's runner share.  Internal to exec.c, launch.c, args.c, runner.c and tree.c.
 *
 * The runner is a process with the guest's memory and descriptors (clone with CLONE_VM, CLONE_FILES): it costs no copy, and it
 * can be what the guest can't: one command's subreaper.  Whatever both sides touch is atomic. */
#pragma once
#include "guest/session.h"

enum {
	COMMAND_TEXT =
		12 << 10, /* arguments and environment up to here need no mapping of their own */
	RUNNER_STACK = 16 << 10,
	/* beside a signal's number: */
	ASK_TREE = 0x100,
	ASK_FOREGROUND = 0x200, /* whoever has its terminal now */
};

enum word {
	WORD_NEXT = 1, /* start what stands in the command now */
	WORD_LEAVE,
};

/* Arguments that came before a RUN. */
struct args {
	size_t len;
	bool too_large;
	uint8_t bytes[];
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
	struct guest_start start;
	/* where the runner can't adopt what loses its parent: the soft RLIMIT_RSS of all that the command starts, which no
	 * kernel heeds and processes inherit over everything that they do.  0: not needed */
	uint64_t mark;
	/* a terminal whose kernel sends no signals, see terminal.c: its number and 1; 0: none */
	uint32_t pts;
	uint32_t tty_signals; /* bits 1u << SIG, due to whoever has it */
	int source[2];        /* of one that is prepared: what its stream will read; -1: none */
	int own_fd[3];        /* to be closed when the command has them; -1: none */

	/* the runner tells: */
	bool over; /* the command ended; what goes with it is written before */
	bool idle; /* and so did all that it left, or it did not start: the runner waits for a word */
	int pid;
	uint32_t error;  /* not started */
	int status;      /* of wait4 */
	uint32_t left;   /* processes that went on */
	uint32_t answer; /* to `ask`, which it then sets to 0 */
	bool gone;       /* of the runner alone: the command was reaped */
	/* the guest asks: */
	uint32_t ask; /* a signal, or ASK_TREE and a signal */

	uint32_t word; /* to a runner that is idle */

	bool wake; /* it is no short command: a word when it has started */

	/* the guest's own: */
	uint64_t look_at; /* ns: when `wake` is due */
	bool starting;    /* counted in session.starting */
	bool waited;      /* its process was prepared, and may have been killed while it waited */
	bool began;       /* noted by the guest */
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

/* --- launch.c: the processes of commands --- */

/* Starts what m asks for as the command of a stream; a: the arguments that came before, or NULL.  0, or an errno and no
 * command. */
uint32_t launch(
	struct stream *s, const struct wire_run *m, const struct args *a, struct command **ret);
/* Of a command that no stream and no list knows any more: frees it; keeps its idle runner for the next one. */
void launch_free(struct command *c);
void launch_rest(struct command *c);
/* Was it killed before it could begin?  Then another try is due; 0 or an errno. */
bool launch_failed(const struct command *c);
/* That may still be so. */
bool launch_is_open(const struct command *c);
uint32_t launch_again(struct stream *s, struct command *c, bool runner_lives);
/* What happened to runners that have no command. */
void launch_notified(void);
bool launch_reaped(int pid);
/* The child of a runner that was killed before it told its number. */
void launch_find_child(struct command *c);
void launch_close_own(struct command *c);

/* --- terminal.c --- */

/* A terminal as the stream's both ways and the command's standard streams; 0 or -errno. */
long terminal_make(struct stream *s, struct command *c, const struct wire_run *m);
void terminal_set_size(int fd, uint32_t rows, uint32_t columns);
void terminal_end_input(const struct stream *s);
/* Of one with `pts`.  As stream_take_sink(); *ret_signal: what the one byte that was taken stands for, or 0. */
size_t terminal_take(struct stream *s, const uint8_t *p, size_t n, int *ret_signal);
void terminal_lead(const struct command *c);
long terminal_signal(const struct command *c, int sig);

/* The runner's main function: the stack is its own. */
void runner_main(void *command);

/* The processes below `root`, which is the caller or nobody's parent any more, and those with its mark.  Reads /proc; needs no
 * new process. */
uint32_t tree_count(int root, uint64_t mark);
/* Sends a signal to each; returns how many there are then.  SIGKILL: stops them all first, and repeats until none is left or
 * two seconds have passed; reap() is called in between. */
uint32_t tree_signal(int root, uint64_t mark, int sig, void (*reap)(void *arg), void *arg);
