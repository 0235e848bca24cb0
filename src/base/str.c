/* Owns string helpers and number parsing.  Pure. */
#include "base/str.h"

#include <stdarg.h>
#include <string.h>

const char *str_after(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(s, prefix, n) ? NULL : s + n;
}

bool str_has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

/* Reads digits at *s and moves it behind them; false on none or overflow. */
static bool digits(const char **s, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p = *s;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	if (p == *s)
		return false;
	*s = p;
	*ret = v;
	return true;
}

static int out_of_range(const char *s, const char *what, const char *range, struct err *e)
{
	return err_set(
		e, R_OUT_OF_RANGE, 0, "read %s '%.64s': outside the range %s", what, s, range);
}

static int bad_value(const char *s, const char *what, const char *form, struct err *e)
{
	return err_set(e, R_BAD_VALUE, 0, "read %s '%.64s': not %s", what, s, form);
}

int parse_u64(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	const char *p = s;
	char range[64];
	uint64_t v;

	if (!*s || strspn(s, "0123456789") != strlen(s))
		return bad_value(s, what, "a whole number", e);
	if (!digits(&p, &v) || v < lo || v > hi)
		return out_of_range(s, what,
			FMT(range, "%llu to %llu", (unsigned long long)lo, (unsigned long long)hi),
			e);
	*ret = v;
	return 0;
}

/* "2g" for 2147483648: exact multiples only, else plain bytes. */
static const char *show_size(char *out, size_t cap, uint64_t v)
{
	static const char unit[] = "bkmgt";
	unsigned u = 0;

	while (v && u < 4 && v % 1024 == 0) {
		v /= 1024;
		u++;
	}
	return u ? str_format(out, cap, "%llu%c", (unsigned long long)v, unit[u])
		 : str_format(out, cap, "%llu", (unsigned long long)v);
}

int parse_size(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	static const char form[] = "a size such as 512m, 2g or 65536";
	static const char units[] = "kmgt";
	char a[32], b[32], range[80];
	const char *p = s, *u;
	uint64_t v;

	if (!digits(&p, &v))
		return bad_value(s, what, form, e);
	if (*p && (u = strchr(units, *p | 0x20)) && *u) {
		p++;
		if (!strcmp(p, "iB") || !strcmp(p, "ib") || !strcmp(p, "b") || !strcmp(p, "B"))
			p += strlen(p);
		if (__builtin_mul_overflow(v, 1ull << (10 * (unsigned)(u - units + 1)), &v))
			v = UINT64_MAX;
	}
	if (*p)
		return bad_value(s, what, form, e);
	if (v < lo || v > hi)
		return out_of_range(s, what,
			FMT(range, "%s to %s", show_size(a, sizeof a, lo),
				show_size(b, sizeof b, hi)),
			e);
	*ret = v;
	return 0;
}

int parse_duration(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	static const struct {
		const char *suffix;
		uint64_t ms;
	} units[] = { { "ms", 1 }, { "s", 1000 }, { "", 1000 }, { "m", 60000 }, { "h", 3600000 },
		{ "d", 86400000 } };
	const char *p = s;
	char range[80];
	uint64_t v;

	if (!digits(&p, &v))
		return bad_value(s, what, "a time such as 500ms, 30s, 10m or 2h", e);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(p, units[i].suffix))
			continue;
		if (__builtin_mul_overflow(v, units[i].ms, &v))
			v = UINT64_MAX;
		if (v < lo || v > hi)
			return out_of_range(s, what,
				FMT(range, "%llums to %llus", (unsigned long long)lo,
					(unsigned long long)(hi / 1000)),
				e);
		*ret = v;
		return 0;
	}
	return bad_value(s, what, "a time such as 500ms, 30s, 10m or 2h", e);
}

int parse_cpus(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	static const char form[] = "a number of CPUs such as 1, 0.5 or 2.25";
	uint64_t whole = 0, part = 0, scale = 100;
	const char *p = s;
	char range[80];

	if (!digits(&p, &whole))
		return bad_value(s, what, form, e);
	if (*p == '.') {
		for (p++; *p >= '0' && *p <= '9' && scale; p++, scale /= 10)
			part += (uint64_t)(*p - '0') * scale;
	}
	if (*p)
		return bad_value(s, what, form, e);
	if (__builtin_mul_overflow(whole, 1000u, &whole) || whole + part < lo || whole + part > hi)
		return out_of_range(s, what,
			FMT(range, "%.3f to %.3f", (double)lo / 1000, (double)hi / 1000), e);
	*ret = whole + part;
	return 0;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

unsigned str_distance(const char *a, const char *b)
{
	unsigned d[64][64];
	size_t n = strlen(a), m = strlen(b);

	if (n > 62 || m > 62)
		return 64;
	for (unsigned i = 0; i <= n; i++)
		d[i][0] = i;
	for (unsigned k = 0; k <= m; k++)
		d[0][k] = k;
	for (unsigned i = 1; i <= n; i++) {
		for (unsigned k = 1; k <= m; k++) {
			d[i][k] = min3(d[i - 1][k] + 1, d[i][k - 1] + 1,
				d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
				d[i - 2][k - 2] + 1 < d[i][k])
				d[i][k] = d[i - 2][k - 2] + 1;
		}
	}
	return d[n][m];
}

char *str_format(char *out, size_t cap, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out, cap, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= cap)
		abort();
	return out;
}

char *xstrdup(const char *s)
{
	char *p = strdup(s);

	if (!p)
		abort();
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	char *p = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}
