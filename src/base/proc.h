/* What /proc says of a process. */
#pragma once
#include <stdint.h>

struct proc_stat {
	char state; /* 'R', 'S', 'D', 'T' and so on; 'Z' and 'X': dead, and nobody has asked for its status yet */
	uint64_t ticks; /* of the processor: its own and those of children that it has waited for */
	uint64_t
		start; /* clock ticks from the boot to its start: with the number, which process it is */
};

/* pid: a number, or "self".  -1 with errno: ENOENT or ESRCH when there is none, anything else says nothing about it. */
int proc_stat(const char *pid, struct proc_stat *ret);
