/* Turns an engine's functions into a program: `bailey-engine-NAME probe|list|sweep`. */
#pragma once
#include "engine/engine.h"

/* Reads BAILEY_CGROUP_PARENT, BAILEY_IDS_BASE and BAILEY_IDS_COUNT like `bailey`; prints JSON lines on stdout, errors in
 * two lines on stderr.  Returns the exit status: 0, 1 (probe: not usable) or the reason's. */
int engine_main(const struct engine_ops *ops, int argc, char **argv);
