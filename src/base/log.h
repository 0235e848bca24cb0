/* The log: JSON lines in $BAILEY_HOME/log/bailey.jsonl, rotated at LOG_MAX_BYTES, one older file kept.
 * Only programs log; rooms return errors.  What a guest or a command printed may go here, never into an error message. */
#pragma once
#include "base/err.h"
#include "base/json.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };

enum {
	LOG_MAX_BYTES = 4 << 20, /* a laptop's share: about 20,000 lines */
	LOG_MAX_FIELDS = 12,
};

/* One line: time (RFC 3339, UTC), level, event, then name and value pairs up to a NULL name.  Values are strings, escaped
 * as JSON.  Failing to log never fails the caller: the lost line is counted and said once on stderr. */
void log_event(enum log_level level, const char *event, ...) __attribute__((sentinel));

/* The path of the log file, created if need be. */
int log_path(char **ret, struct err *e);
const char *log_level_name(enum log_level level);

/* Adds the time now: RFC 3339 in UTC with milliseconds. */
void json_time(struct json *j, const char *key);
