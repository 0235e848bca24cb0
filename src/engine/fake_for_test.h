/* For tests: an engine whose sandboxes are a guest in namespaces of its own (or a script in its place) and no files, a process
 * that owns such a sandbox, and a client that speaks frames. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <cmocka.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "wire/wire.h"

enum { FAKE_WAIT_MS = 15000, FAKE_CHANNEL_UID = 61235 };

/* Takes the place of the guest on one connection: 0 ends it, and the next begins. */
typedef void fake_script(int fd, uint64_t epoch);

extern const struct engine_ops fake_ops;
extern fake_script *fake_guest; /* NULL: bailey-guest; set before fake_create() */

/* False: this host has no namespaces for us. */
bool fake_possible(void);

/* A home in a temporary directory, $BAILEY_HOME. */
void fake_home(void);
void fake_home_done(void);
const char *fake_path(const char *below); /* of the home; valid until the next call but three */

struct fake_wish {
	const char *name, *const *command;
	bool keep;
	uint64_t spool_max, ttl_ms;
};

/* Runs an owner; the answer's text in ret (an id, or the reason).  Returns 0, or -1 for a refusal. */
int fake_create(const struct fake_wish *w, char ret[static 64]);

/* A value of the record; "" when there is none. */
const char *fake_meta(const char *id, const char *key);
bool fake_meta_becomes(const char *id, const char *key, const char *value);
pid_t fake_channel(const char *id); /* pid */
bool fake_gone(pid_t pid);

/* What arrived for one stream of a client. */
struct got {
	struct buf data[2];
	bool eof[2], info, begun, ended, result, incoming;
	struct wire_command_info last_info;
	unsigned n_infos;
	struct wire_ended end;
	struct wire_result answer;
	char text[512]; /* of the RESULT: an id or a reason */
	int fd;         /* that came */
};

enum { FAKE_STREAMS = 32 };

struct client_for_test {
	int fd;    /* -1: the engine ended the connection */
	bool hold; /* give no credit */
	struct buf in;
	struct got got[FAKE_STREAMS];
	uint64_t granted[FAKE_STREAMS][2];
	int passed_fd;
};

void tc_connect(struct client_for_test *t, const char *id);
void tc_close(struct client_for_test *t);
void tc_send(struct client_for_test *t, const void *p, size_t n);
#define TC_SEND(t, name, ...) \
	do { \
		const struct wire_##name tc_ = { __VA_ARGS__ }; \
		static uint8_t tc_out[WIRE_HEADER + WIRE_MAX_BODY]; \
		const size_t tc_n = wire_put_##name(tc_out, sizeof tc_out, &tc_); \
\
		assert_int_not_equal(tc_n, 0); \
		tc_send(t, tc_out, tc_n); \
	} while (0)

/* RUN of a script by /bin/sh. */
void tc_shell(struct client_for_test *t, uint32_t stream, uint32_t flags, const char *script);
/* Reads what there is within ms; false: nothing came, or the connection ended. */
bool tc_read(struct client_for_test *t, int ms);
struct got *tc_until_result(struct client_for_test *t, uint32_t stream);
struct got *tc_until_begun(struct client_for_test *t, uint32_t stream);
bool tc_until_closed(struct client_for_test *t);
/* CONTROL; the reason, or "" */
const char *tc_control(
	struct client_for_test *t, uint32_t stream, uint32_t verb, const char *text, uint32_t n);
