/* Writes JSON into a buffer.  Bailey's small programs only ever emit JSON; whatever reads it uses jansson. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { JSON_MAX_DEPTH = 16 };

/* A writer over a buffer it does not own.  Commas are its business; keys are NULL inside arrays. */
struct json {
	struct buf *out;
	unsigned depth;
	bool first[JSON_MAX_DEPTH];
};

void json_init(struct json *j, struct buf *out);
void json_object_begin(struct json *j, const char *key);
void json_object_end(struct json *j);
void json_array_begin(struct json *j, const char *key);
void json_array_end(struct json *j);
void json_string(struct json *j, const char *key, const char *value); /* NULL value: null */

/* n bytes; invalid UTF-8 becomes U+FFFD, so check utf8_valid() first where bytes matter. */
void json_bytes(struct json *j, const char *key, const char *value, size_t n);
void json_int(struct json *j, const char *key, int64_t value);
void json_uint(struct json *j, const char *key, uint64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* Adds the object that every program prints for a failure under --json, and a newline. */
void json_add_err(struct buf *out, const struct err *e);

/* True when the n bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool utf8_valid(const char *s, size_t n);
