/* Turns an engine's functions into a program: `bailey-engine-NAME probe|list|sweep|run`. */
#pragma once
#include "engine/engine.h"

/* Reads BAILEY_CGROUP_PARENT, BAILEY_IDS_* and BAILEY_NATIVE_* like `bailey`; prints JSON lines on stdout, errors in
 * two lines on stderr.  `run` reads a request for a sandbox from descriptor 3 (spec/pack.h), answers there, and stays as the
 * sandbox's owner.  Returns the exit status: 0, 1 (probe: not usable) or the reason's. */
int engine_main(const struct engine_ops *ops, int argc, char **argv);

/* What the environment says; *ret_guest is the caller's, and ret->guest points to it. */
int engine_env_fill(struct engine_env *ret, char **ret_guest, struct err *e);
