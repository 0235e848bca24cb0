/* Requests about a sandbox as a whole, as other parts of the library use them. */
#pragma once
#include "client/client.h"

/* 1: fn ended it. */
int control_inspect(struct bailey_sandbox *s, bailey_value_fn *fn, void *arg, struct err *e);
int control_remove(struct bailey_sandbox *s, uint64_t grace_ms, bool force, struct err *e);

/* A record of CHANGES; *ret points into path. */
int change_parse(const uint8_t *p, size_t n, char path[static WIRE_MAX_PATH + 1],
	struct bailey_change *ret, struct err *e);
