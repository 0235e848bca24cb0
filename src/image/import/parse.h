/* JSON that came with an image. */
#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

/* Strict: no duplicate keys, no NUL, a bounded depth.  `what` names it in the message.  R_IMAGE_INVALID. */
int parse_json(const struct buf *text, const char *what, json_t **ret, struct err *e);

static inline void cleanup_json(json_t **j)
{
	json_decref(*j);
}
#define _cleanup_json_ _cleanup_(cleanup_json)

/* The member as a string, or NULL when it is none. */
const char *parse_text(const json_t *object, const char *key);
