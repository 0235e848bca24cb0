/* Commands, as other parts of the library use them. */
#pragma once
#include "client/client.h"

int command_exec(struct bailey_sandbox *s, const struct bailey_exec_options *given,
	struct bailey_command **ret, struct err *e);
int command_attach(struct bailey_sandbox *s, uint32_t id, unsigned flags,
	const struct bailey_streams *streams, struct bailey_command **ret, struct err *e);

/* 1: the time was over first. */
int command_wait(
	struct bailey_command *c, int timeout_ms, struct bailey_result *ret, struct err *e);

/* Fills how a command ended: WIRE_HOW_*, its status, WIRE_ENDED_*. */
void result_set(struct bailey_result *r, uint32_t how, uint32_t status, uint32_t flags);
