/* What happens to the sandboxes of a home, a line each: TIME_MS ID KIND [KEY=VALUE ...]. */
#pragma once
#include <stddef.h>

enum { EVENTS_LINE = 512, EVENTS_MAX_BYTES = 4 << 20 };

/* Appends a line to the file `events` in the directory; where that can't be, the event is not recorded.  rest may be "".
 * The line with its end is left in `line`; returns its length. */
size_t events_write(
	int dir, const char *id, const char *kind, const char *rest, char line[static EVENTS_LINE]);
