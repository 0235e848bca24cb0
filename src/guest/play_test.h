/* For tests: plays the owner and the channel of a guest that runs in a pid namespace of its own, so that nothing it starts can
 * outlive it, and under a process limit.  Every wait has an end; what isn't as expected fails the test that runs. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <cmocka.h>

#include "base/buf.h"
#include "wire/wire.h"

enum { PLAY_WAIT_MS = 10000, PLAY_MAX_SEEN = 4096 };

/* What arrived for one stream. */
struct seen {
	uint32_t stream;
	struct buf data[2]; /* standard output, standard error */
	uint64_t eof_total[2];
	bool eof[2];
	bool begun, ended, stated, result;
	uint32_t pid;
	size_t before_end[2]; /* bytes that came before ENDED */
	struct wire_ended end;
	struct wire_result answer;
	struct wire_stated stat;
	char target[WIRE_MAX_PATH + 1];
	char note[1024];
	bool hold;           /* acknowledge nothing */
	uint64_t granted[2]; /* limit told for each lane */
	uint64_t taken;      /* what the guest acknowledged of ours */
	uint64_t limit;      /* that it gave us */
	uint64_t resume;     /* what it said in RESUME */
	bool resumed;
};

struct play {
	pid_t pid;
	int control, fd; /* fd -1: not connected, or the guest ended the connection */
	int listener;    /* of a guest that dials; -1: one that is given its connections */
	const char *how; /* "dial" and its additions */
	uint64_t epoch;
	uint32_t uid, gid;
	bool greeted; /* HELLO and RESUMED came */
	uint16_t hello_flags;
	struct buf in, out;
	int64_t may_read, may_send;   /* bytes until the connection breaks; -1: it doesn't */
	int64_t next_read, next_send; /* the same for the next connections */
	bool quiet;                   /* frames are checked for form and forgotten */
	struct seen *seen[PLAY_MAX_SEEN];
	size_t n_seen;
	uint32_t incoming[64], n_incoming;
	char dir[64]; /* a directory of the workload's */
};

/* As root the workload gets a uid that nobody else has, and the guest has its own, unless told otherwise. */
enum play_as {
	PLAY_OWN_UID,
	PLAY_SAME_UID, /* the guest has the workload's, as in a sandbox that a normal user made */
	PLAY_ALONE,    /* that, and no other process may start */
};
enum { PLAY_MAX_PROCESSES = 400 };

/* False: this host has no namespaces for us (said on stderr). */
bool play_possible(void);
void play_start(struct play *p, enum play_as as);

/* A guest that dials: it finds `token` in its directory (NULL: nothing there), and is not answered yet. */
#define PLAY_TOKEN "00112233445566778899aabbccddeeff"
void play_start_dialling(struct play *p, const char *how, const char *token);
/* The same in the directory that is there. */
void play_again(struct play *p);
/* The next connection of it within `ms`, or -1. */
int play_accept(const struct play *p, int ms);
/* Takes the next connection as the control connection: checks TOKEN and the flags of HELLO, and greets. */
void play_control(struct play *p, uint16_t flags, uint64_t deadline_ms);
void play_stop(struct play *p);

/* A new connection, greeted by both; flags of our HELLO.  RESUME is sent for every lane of which something was seen. */
void play_connect(struct play *p, uint16_t flags);
/* The same without a word from us. */
void play_dial(struct play *p);
void play_hang_up(struct play *p);
void play_greet(struct play *p, uint16_t flags);

void play_send(struct play *p, const void *bytes, size_t n);
#define PLAY_SEND(p, name, ...) \
	do { \
		const struct wire_##name play_ = { __VA_ARGS__ }; \
		static uint8_t play_out[WIRE_HEADER + WIRE_MAX_BODY]; \
		size_t play_n = wire_put_##name(play_out, sizeof play_out, &play_); \
		assert_int_not_equal(play_n, 0); \
		play_send(p, play_out, play_n); \
	} while (0)

/* Sends DATA and EOF, within the guest's credit. */
void play_data(struct play *p, uint32_t stream, const void *bytes, size_t n);
void play_eof(struct play *p, uint32_t stream, uint64_t total);

/* RUN of a command line by /bin/sh -c; flags are WIRE_RUN_*. */
void play_shell(struct play *p, uint32_t stream, uint32_t flags, const char *script);
/* RUN of strings, a NUL behind each. */
void play_run(struct play *p, const struct wire_run *m, const void *strings, size_t n);

/* Reads until there is something new, at most `ms`; false: time-out, or the connection ended (fd is then -1). */
bool play_read(struct play *p, int ms);
struct seen *play_seen(struct play *p, uint32_t stream);

/* Reads until it is there. */
struct seen *play_until_begun(struct play *p, uint32_t stream);
struct seen *play_until_ended(struct play *p, uint32_t stream);
struct seen *play_until_result(struct play *p, uint32_t stream);
struct seen *play_until_eof(struct play *p, uint32_t stream, unsigned lane);
struct seen *play_until_bytes(struct play *p, uint32_t stream, unsigned lane, size_t n);
/* What was seen of the stream is forgotten too. */
void play_close(struct play *p, uint32_t stream);

/* Is the guest alive, and does it do what it is told? */
void play_check_alive(struct play *p, uint32_t stream);

/* A path beneath p->dir, valid until the next call but three, and its length. */
const char *play_path(const struct play *p, const char *name);
#define PLAY_PATH(p, name) \
	.rest = (const uint8_t *)play_path(p, name), \
	.rest_len = (uint32_t)strlen(play_path(p, name))

/* sh -c on our side, for setting things up; as the workload's user. */
void play_host(const struct play *p, const char *script);
const char *play_text(const struct seen *s, unsigned lane);
