/* The hostile guest: a program that takes bailey-guest's place and lies in one chosen way.
 *
 * What it says goes where a guest's words go: to the owner on descriptor 3, to the channel process
 * on the connections that come with CONNECT.  But for its lie it answers as a guest does, so that
 * the lie is reached.  The lie is named by LIE in its environment; tests/hostile-guest/run.sh
 * drives it and looks at what became of the engine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

/* A connection with the channel process. */
struct peer {
	int fd;
	uint64_t epoch;
	uint32_t shut_after; /* frames that may still be sent; 0: no limit */
	bool cut;            /* and then half a frame */
	uint32_t sent;
};

/* A lie, told in answer to a frame of type `on` (WIRE_NONE: to the owner, at the start). */
struct lie {
	const char *name;
	uint32_t on;
	void (*tell)(struct peer *p, const struct wire_frame *f);
	uint32_t argument;
};

/* Each file's table, ended by a row without a name. */
extern const struct lie wire_lies[], command_lies[], file_lies[], tar_lies[];
extern const struct lie *the_lie;

/* Sends bytes; a peer that has gone, or doesn't read for five seconds, ends the connection: false,
 * and so is everything after that. */
bool send_bytes(struct peer *p, const void *bytes, size_t n);

/* A frame of any type with any body; `claimed` is the length that the header says. */
bool send_raw(struct peer *p, uint32_t type, uint32_t stream, uint32_t claimed, const void *body,
	size_t n);
bool send_data(struct peer *p, uint32_t stream, const void *bytes, size_t n);
bool send_eof(struct peer *p, uint32_t stream, uint64_t total);
bool send_begun(struct peer *p, uint32_t stream);
bool send_ended(struct peer *p, uint32_t stream, uint32_t how, uint32_t status, uint32_t flags);
bool send_result(struct peer *p, uint32_t stream, uint32_t error, uint64_t value);
bool send_ack(struct peer *p, uint32_t stream, uint64_t received, uint64_t limit);
bool send_stated(
	struct peer *p, uint32_t stream, uint32_t mode, uint64_t size, const void *link, size_t n);
void hang_up(struct peer *p);

/* The truth, for every frame that isn't lied about. */
void answer(struct peer *p, const struct wire_frame *f);
void answer_hello(struct peer *p);

/* DATA in frames of WIRE_MAX_BODY until so many bytes are sent, credit or not. */
void flood(struct peer *p, uint32_t stream, uint64_t bytes);
