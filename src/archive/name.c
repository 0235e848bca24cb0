/* Owns what a name of an archive may be.  Called by whoever writes entries to a file system, on both sides of the wall. */
#include "archive/archive.h"

static enum archive_cause check_part(const char *part, size_t n)
{
	if (n > ARCHIVE_MAX_PART)
		return ARCHIVE_NAME_PART;
	if (n == 2 && part[0] == '.' && part[1] == '.')
		return ARCHIVE_NAME_DOTDOT;
	return ARCHIVE_CAUSE_NONE;
}

enum archive_cause archive_clean_name(char *name)
{
	const char *in = name;
	char *out = name;
	unsigned depth = 0;

	if (!*name)
		return ARCHIVE_NAME_EMPTY;
	if (*name == '/')
		return ARCHIVE_NAME_ABSOLUTE;
	while (*in) {
		const char *part = in;
		enum archive_cause c;
		size_t n;

		while (*in && *in != '/')
			in++;
		n = (size_t)(in - part);
		while (*in == '/')
			in++;
		if ((c = check_part(part, n)))
			return c;
		if (n == 0 || (n == 1 && part[0] == '.'))
			continue;
		if (++depth > ARCHIVE_MAX_DEPTH)
			return ARCHIVE_NAME_DEEP;
		if (out != name)
			*out++ = '/';
		for (size_t i = 0; i < n;
			i++) /* never ahead of `part`: only shorter things were written */
			*out++ = part[i];
	}
	if (out == name)
		*out++ = '.';
	*out = 0;
	return ARCHIVE_CAUSE_NONE;
}

const char *archive_cause_text(enum archive_cause c)
{
	switch (c) {
#define ARCHIVE_CAUSE(id, text) \
	case ARCHIVE_##id: \
		return text;
#include "archive/causes.def"
#undef ARCHIVE_CAUSE
	case ARCHIVE_CAUSE_NONE:
		break;
	}
	return "nothing is wrong with it";
}
