/* Strings and the only number parsers of the tree. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

static inline bool streq(const char *a, const char *b)
{
	return __builtin_strcmp(a, b) == 0;
}

/* The rest of s behind prefix, or NULL. */
const char *str_after(const char *s, const char *prefix);

/* True when s holds a byte below 0x20 or 0x7f (a newline in a name would forge log lines and table rows). */
bool str_has_control(const char *s);

/* Decimal digits only, no sign or space, inside [lo, hi]; `what` names the value in the message. */
int parse_u64(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e);

/* Bytes: digits with an optional k, m, g, t (powers of 1024; "2g", "512MiB", "64M"). */
int parse_size(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e);

/* Milliseconds: "500ms", "30s", "10m", "2h", "1d"; a bare number is seconds.  lo and hi are milliseconds. */
int parse_duration(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e);

/* Thousandths of a CPU from a decimal such as "1", "0.5", "2.25"; lo and hi are thousandths. */
int parse_cpus(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e);

/* Damerau-Levenshtein distance, for "did you mean"; strings over 63 bytes count as far away. */
unsigned str_distance(const char *a, const char *b);

/* Formats into a caller's array; returns it.  Aborts when it would not fit: a programmer's error. */
#define FMT(array, ...) str_format((array), sizeof(array), __VA_ARGS__)
char *str_format(char *out, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Aborts on failure: a process of ours that can't get memory for a name has nothing better to do. */
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void *xcalloc(size_t n, size_t size);
