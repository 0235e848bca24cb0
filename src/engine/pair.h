/* What owner and channel say to each other: messages of a checked size over a SOCK_SEQPACKET pair, some with a descriptor. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PAIR_TEXT = 16 << 10 };

enum pair_type {
	/* from the owner */
	PAIR_GUEST = 1, /* a guest channel comes with it; ref: epoch; a: 1 the guest is a new one */
	PAIR_GONE,      /* the guest is gone; a: enum reason to tell those who wait */
	PAIR_STATE,     /* a: enum pair_state */
	PAIR_END_ALL,   /* SIGTERM to every command; answered by ALL_ENDED */
	PAIR_ANSWER, /* ref: of the ASK; a: errno; b: enum reason; text as in RESULT; a descriptor may come */
	PAIR_LINES, /* ref: of an INSPECT: its lines */
	PAIR_TOLD,  /* an event's line, for clients that listen */
	PAIR_OOM,   /* ref: of OOM_ASK; a: 1 the kernel killed for memory since */
	PAIR_DRAIN, /* deliver what clients wait for, at most ref ms, then DRAINED */
	PAIR_QUIT,  /* flush and exit */
	PAIR_FIRST, /* start the command of the request that the channel was forked with */

	/* from the channel */
	PAIR_ASK =
		64, /* ref; a: enum wire_control_verb or PAIR_ASK_*; b: flags; value; text: id NUL name NUL */
	PAIR_BROKEN,    /* the guest channel ended; a: 1 the guest spoke nonsense */
	PAIR_ALL_ENDED, /* no command runs any more */
	PAIR_HAPPENED, /* commands that began and ended: text is an array of struct pair_happened */
	PAIR_OOM_ASK,  /* ref: command */
	PAIR_FIRST_BEGUN, /* a: 0, or the errno of a failed start */
	PAIR_FIRST_ENDED,
	PAIR_DRAINED,
};

enum pair_ask { PAIR_ASK_INSPECT = 100, PAIR_ASK_CHANGES };

enum pair_state {
	PAIR_RUNNING = 1,
	PAIR_PAUSED,
	PAIR_STOPPING,
	PAIR_STOPPED,
	PAIR_LOST,
	PAIR_SNAPSHOT,
	PAIR_REMOVING,
};

/* Numbers alone: what a command is called is its workload's text. */
struct pair_happened {
	uint32_t command;
	uint32_t ended; /* 0: began */
	uint32_t how, status, flags;
	uint32_t pid;
};

struct pair_message {
	uint32_t type;
	uint32_t text_len;
	uint64_t ref, value;
	uint32_t a, b;
	char text[PAIR_TEXT];
};

int pair_make(int ret[2], struct err *e);

/* Never waits; -1 with errno, EAGAIN when the other side doesn't read.  fd -1: none. */
int pair_send(int sock, const struct pair_message *m, int fd);

/* One message: 1, 0 when there is none, -1 at the end or when it is malformed.  *ret_fd is the caller's, -1: none. */
int pair_receive(int sock, struct pair_message *m, int *ret_fd);

/* reason NUL message NUL remedy NUL, as a RESULT has them; cut where a text is very long.  Returns its length. */
uint32_t pair_put_error(char *out, uint32_t cap, const struct err *e);
