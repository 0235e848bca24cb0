/* Owns the ways in which headers write numbers.  Called by the reader; every digit is somebody else's. */
#include "archive/reader.h"

#define NUMBER_LIMIT (1ull << 62)

enum { SECOND = 1000000000 };

static int64_t clamp_seconds(bool negative, uint64_t seconds, uint32_t ns)
{
	const uint64_t most = INT64_MAX / SECOND - 1;

	if (seconds > most)
		return negative ? INT64_MIN + 1 : INT64_MAX;
	return negative ? -(int64_t)(seconds * SECOND + ns) : (int64_t)(seconds * SECOND + ns);
}

static bool octal(const uint8_t *p, size_t width, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	while (i < width && p[i] == ' ')
		i++;
	for (; i < width && p[i] >= '0' && p[i] <= '7'; i++) {
		if (v >= NUMBER_LIMIT >> 3)
			return false;
		v = v << 3 | (uint64_t)(p[i] - '0');
	}
	if (i < width && p[i] != ' ' && p[i] != 0)
		return false;
	*ret = v;
	return true;
}

/* Two's complement behind a first bit that says so; *ret_negative and the absolute value. */
static bool base_256(const uint8_t *p, size_t width, bool *ret_negative, uint64_t *ret)
{
	bool negative = (p[0] & 0x40) != 0;
	uint8_t sign = negative ? 0xff : 0;
	uint64_t v = negative ? UINT64_MAX : 0;

	for (size_t i = 0; i < width; i++) {
		uint8_t b = i ? p[i] : (uint8_t)(p[0] & 0x7f) | (sign & 0x80);

		if ((uint8_t)(v >> 56) != sign)
			return false;
		v = v << 8 | b;
	}
	*ret_negative = negative;
	*ret = negative ? -v : v;
	return *ret < NUMBER_LIMIT;
}

bool archive_field(const uint8_t *field, size_t width, uint64_t *ret)
{
	bool negative;

	if (!(field[0] & 0x80))
		return octal(field, width, ret);
	return base_256(field, width, &negative, ret) && !negative;
}

bool archive_time_field(const uint8_t *field, size_t width, int64_t *ret)
{
	bool negative = false;
	uint64_t v;

	if (field[0] & 0x80 ? !base_256(field, width, &negative, &v) : !octal(field, width, &v))
		return false;
	*ret = clamp_seconds(negative, v, 0);
	return true;
}

bool archive_decimal(const char *s, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (!n)
		return false;
	for (size_t i = 0; i < n; i++) {
		uint64_t digit = (uint64_t)(s[i] - '0');

		if (s[i] < '0' || s[i] > '9' || v > (NUMBER_LIMIT - 1 - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*ret = v;
	return true;
}

/* -?DIGITS[.DIGITS]; what is finer than a nanosecond is cut off. */
bool archive_decimal_time(const char *s, size_t n, int64_t *ret)
{
	bool negative = n && s[0] == '-';
	size_t i = negative ? 1 : 0, point = i;
	uint32_t ns = 0, unit = SECOND / 10;
	uint64_t seconds;

	while (point < n && s[point] != '.')
		point++;
	if (!archive_decimal(s + i, point - i, &seconds))
		return false;
	for (i = point + 1; i < n; i++, unit /= 10) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		ns += unit * (uint32_t)(s[i] - '0');
	}
	*ret = clamp_seconds(negative, seconds, ns);
	return true;
}
