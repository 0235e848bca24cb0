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

/* Starts argv as the workload; returns its pid, or -errno of what failed.  Runs in the guest before any relay. */
long guest_spawn(const struct wire_exec *exec, char **argv, char **env);

/* The relay.  relay_open listens (0 or -errno); relay_poll fills at most RELAY_MAX_POLL entries and says how many;
 * relay_serve acts on them.  relay_waiting: a connection to the socket waits for room and wants a call within 50 ms. */
struct relay_ids {
	uint32_t uid, gid;
};
long relay_open(struct relay_ids ids);
size_t relay_poll(struct pollfd *fds);
void relay_serve(const struct pollfd *fds, size_t n);
bool relay_waiting(void);

/* Makes the parent's death ours again: every change of credentials clears it. */
void guest_arm_parent_death(void);
