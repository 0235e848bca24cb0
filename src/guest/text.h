/* Strings and bytes without a C library.  memcpy and memset are start.c's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t text_len(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static inline bool text_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static inline bool text_is_dots(const char *s)
{
	return s[0] == '.' && (!s[1] || (s[1] == '.' && !s[2]));
}

/* Writes v in decimal and a NUL; returns the digits.  out has 21 bytes. */
static inline size_t text_number(char *out, uint64_t v)
{
	char back[20];
	size_t n = 0;

	do
		back[n++] = (char)('0' + v % 10);
	while (v /= 10);
	for (size_t i = 0; i < n; i++)
		out[i] = back[n - 1 - i];
	out[n] = 0;
	return n;
}

/* Decimal digits alone, at most hi; false otherwise. */
static inline bool text_parse(const char *s, uint64_t hi, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > hi)
			return false;
	}
	*ret = v;
	return true;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}
