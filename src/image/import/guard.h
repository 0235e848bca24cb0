/* The walls around a process that reads archives and JSON of strangers. */
#pragma once
#include <stdint.h>

#include "base/err.h"

enum { GUARD_MAX_KEEP = 16 };

struct guard {
	int write;                /* the directory that it may change things beneath; -1: none */
	int read;                 /* the directory that it may read beneath; -1: none */
	int keep[GUARD_MAX_KEEP]; /* descriptors that stay open; the rest are closed */
	unsigned n_keep;
	uint64_t max_file; /* bytes of the largest file it may write */
};

/* For the process that calls, until its end: standard input, output and error become /dev/null, all descriptors but `keep`
 * are closed, of root's capabilities those over files stay, it can start no process, run no program, signal or trace
 * nobody, make no socket; files beyond the two directories are out of its sight where the kernel has Landlock.
 * R_SETUP_FAILED. */
int guard_enter(const struct guard *g, struct err *e);
