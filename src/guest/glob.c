/* Names against patterns: * ? [a-z] [!a-z] and a backslash before any of them; * and ? don't match a slash.  Pure functions;
 * called by search.c.  Must hold: time is at most length times length, whatever the pattern. */
#include "guest/glob.h"

static uint8_t fold(char c, bool ignore_case)
{
	uint8_t u = (uint8_t)c;

	return ignore_case && u >= 'A' && u <= 'Z' ? (uint8_t)(u + 32) : u;
}

/* Behind the bracket at p; NULL: it has no end and is a plain character. */
static const char *match_set(const char *p, char c, bool ignore_case, bool *ret)
{
	uint8_t u = fold(c, ignore_case);
	bool negated = *p == '!' || *p == '^', found = false;
	const char *first;

	p += negated;
	for (first = p; *p && (*p != ']' || p == first); p++) {
		uint8_t lo = fold(*p, ignore_case), hi = lo;

		if (p[1] == '-' && p[2] && p[2] != ']') {
			hi = fold(p[2], ignore_case);
			p += 2;
		}
		found = found || (u >= lo && u <= hi);
	}
	if (!*p)
		return NULL;
	*ret = found != negated && c != '/';
	return p + 1;
}

/* One element of the pattern against one character: behind the element, or NULL. */
static const char *match_one(const char *p, char c, bool ignore_case)
{
	bool in = false;
	const char *after;

	switch (*p) {
	case '?':
		return c != '/' ? p + 1 : NULL;
	case '[':
		after = match_set(p + 1, c, ignore_case, &in);
		if (after)
			return in ? after : NULL;
		break;
	case '\\':
		if (p[1])
			p++;
		break;
	default:
		break;
	}
	return *p && fold(*p, ignore_case) == fold(c, ignore_case) ? p + 1 : NULL;
}

bool glob_match(const char *pattern, const char *name, bool ignore_case)
{
	const char *star = NULL, *retry = NULL;

	while (*name) {
		const char *next;

		if (*pattern == '*') {
			star = ++pattern;
			retry = name;
			continue;
		}
		next = match_one(pattern, *name, ignore_case);
		if (next) {
			pattern = next;
			name++;
			continue;
		}
		/* the last * takes one character more */
		if (!star || *retry == '/')
			return false;
		name = ++retry;
		pattern = star;
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

long text_find(const uint8_t *p, size_t n, const char *what, size_t len, bool ignore_case)
{
	for (size_t i = 0; i + len <= n; i++) {
		size_t k = 0;

		while (k < len && fold((char)p[i + k], ignore_case) == fold(what[k], ignore_case))
			k++;
		if (k == len)
			return (long)i;
	}
	return -1;
}
