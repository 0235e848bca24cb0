/* The attributes by which overlayfs knows a directory that hides what is below it.  Called by who copies and compares layers. */
#include "engine/overlay.h"

#include <errno.h>
#include <sys/xattr.h>

const char *layer_opaque_name(enum layer_marks marks)
{
	return marks == MARKS_TRUSTED ? "trusted.overlay.opaque" : "user.overlay.opaque";
}

int layer_is_opaque(int fd, enum layer_marks marks)
{
	char value[2];

	if (marks == MARKS_NONE)
		return 0;
	if (fgetxattr(fd, layer_opaque_name(marks), value, sizeof value) == 1)
		return value[0] == 'y';
	return errno == ENODATA || errno == EOPNOTSUPP || errno == ERANGE ? 0 : -1;
}

int layer_set_opaque(int fd, enum layer_marks marks)
{
	return marks == MARKS_NONE ? 0 : fsetxattr(fd, layer_opaque_name(marks), "y", 1, 0);
}
