/* Reads a config.toml by running bailey-toml on it, and checks what that answers.
 *
 * The answer is a row of strings, each ended by a NUL: "bailey-toml 1", then records, then ".".  A record is
 *     "k" key type line value      type: boolean, integer, float, string, table, other
 *     "e" line column message      the file is no TOML; the last record
 */
#pragma once
#include <stddef.h>

#include "base/err.h"

enum {
	READER_MAX_FILE = 1 << 20,   /* bytes of a config.toml */
	READER_MAX_ANSWER = 1 << 20, /* bytes of the answer */
	READER_MAX_ITEMS = 10000,
	READER_MAX_KEY = 256,
	READER_DEADLINE_MS = 5000, /* the real time is 2 ms; a loaded machine gets room */
};

/* Borrowed from the answer while the callback runs. */
struct config_item {
	const char *key, *type, *value;
	unsigned line;
};

typedef int config_item_fn(void *context, const struct config_item *item, struct err *e);

/* Calls fn for every record of the file open on fd; `path` names it in errors.  Stops at the first failure. */
int reader_run(int fd, const char *path, config_item_fn *fn, void *context, struct err *e);

/* The second half of it: n bytes of answer, any bytes. */
int reader_parse(const char *answer, size_t n, const char *path, config_item_fn *fn, void *context,
	struct err *e);
