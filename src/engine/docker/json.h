/* JSON that came from a Docker daemon, or goes to one.
 *
 * Includes jansson for this room.  base/json.h has functions of the same names as two of jansson's: a call of those would
 * link to base's, so here they do not compile.  json_pack("s", x) or json_stringn() make a string, json_pack("n") a null. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define json_string use_json_pack
#define json_null use_json_pack

static inline void cleanup_json(json_t **j)
{
	json_decref(*j);
}
#define _cleanup_json_ _cleanup_(cleanup_json)

/* What one body may hold. */
struct docker_json_limits {
	size_t values;     /* of all kinds, roughly: the commas, braces and brackets are counted */
	size_t containers; /* objects and arrays: each costs some 200 bytes of memory */
};

enum { DOCKER_JSON_DEPTH = 32 };

extern const struct docker_json_limits docker_json_usual;

/* Strict: UTF-8, no key twice, no NUL in a string, nothing behind the value, bounded in depth and number.  `what` names it
 * in the message.  R_DOCKER_BAD_RESPONSE. */
int docker_json_parse(const char *text, size_t n, const struct docker_json_limits *limits,
	const char *what, json_t **ret, struct err *e);

/* The same for a series of values, as a daemon reports progress: each() gets one at a time (borrowed) and may stop with -1
 * and *e set. */
int docker_json_series(const char *text, size_t n, const char *what,
	int (*each)(void *arg, const json_t *value, struct err *e), void *arg, struct err *e);

/* Members of an object, or NULL, 0 and false where there is none of that kind. */
const char *docker_json_text(const json_t *object, const char *key);
int64_t docker_json_number(const json_t *object, const char *key);
bool docker_json_true(const json_t *object, const char *key);

/* A copy with all but printable ASCII escaped (\n, \x1b) and cut to cap - 1 bytes ("..." at the end says so): what another
 * party wrote goes into messages through this.  Returns out. */
char *docker_quote(char *out, size_t cap, const char *s, size_t n);
