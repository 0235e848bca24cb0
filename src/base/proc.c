/* Owns reading /proc/PID/stat.  Called by whoever must know whether an owner lives, and by the engine for its sandboxes' processes.
 * The name in it may hold anything, so fields are counted behind its last ')'. */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

enum { FIELD_STATE = 3, FIELD_UTIME = 14, FIELD_CSTIME = 17, FIELD_START = 22, MAX_PID = 12 };

int proc_stat(const char *pid, struct proc_stat *ret)
{
	struct proc_stat s = { .state = 'X' };
	char path[64], text[1024], *p;

	if (!*pid || strlen(pid) > MAX_PID || strchr(pid, '/')) {
		errno = EINVAL;
		return -1;
	}
	if (read_file_at(AT_FDCWD, FMT(path, "/proc/%s/stat", pid), text, sizeof text) < 0)
		return -1;
	p = strrchr(text, ')');
	for (int field = FIELD_STATE; p && field <= FIELD_START; field++) {
		p = strchr(p + 1, ' ');
		if (p && field == FIELD_STATE)
			s.state = p[1];
		else if (p && field >= FIELD_UTIME && field <= FIELD_CSTIME)
			s.ticks += strtoull(p + 1, NULL, 10);
		else if (p && field == FIELD_START)
			s.start = strtoull(p + 1, NULL, 10);
	}
	if (!p) {
		errno = EIO;
		return -1;
	}
	*ret = s;
	return 0;
}
