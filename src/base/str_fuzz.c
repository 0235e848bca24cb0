/* Fuzz target: the number parsers, the UTF-8 check and the JSON escaping, over any bytes.
 * The first byte picks what is tried; a broken promise aborts. */
#include "base/str.h"

#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);

static void must(bool condition)
{
	if (!condition)
		abort();
}

typedef int parser(const char *, uint64_t, uint64_t, const char *, uint64_t *, struct err *);

static void try_parser(parser *parse, const char *text, uint64_t lo, uint64_t hi)
{
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t v = 0;

	if (parse(text, lo, hi, "value", &v, &e) == 0) {
		must(v >= lo && v <= hi && e.reason == REASON_NONE);
		return;
	}
	must(e.reason == R_BAD_VALUE || e.reason == R_OUT_OF_RANGE);
	must(e.message && *err_get_remedy(&e));
}

static void try_json(const char *s, size_t n)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	json_init(&j, &b);
	json_bytes(&j, NULL, s, n);
	must(!b.failed && b.len >= 2 && b.data[0] == '"' && b.data[b.len - 1] == '"');
	/* whatever went in, what comes out is UTF-8 in one line without a bare quote */
	must(utf8_valid(b.data, b.len) && !str_has_control(b.data));
	for (size_t i = 1; i < b.len - 1; i++) {
		if (b.data[i] == '\\')
			i++;
		else
			must(b.data[i] != '"');
		must(i < b.len - 1);
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	static parser *const parsers[] = { parse_u64, parse_size, parse_duration, parse_cpus };
	_cleanup_free_ char *text = NULL;
	unsigned pick;

	if (n < 1)
		return 0;
	pick = data[0] % 6;
	text = xcalloc(n, 1);
	memcpy(text, data + 1, n - 1);
	if (pick < 4) {
		try_parser(parsers[pick], text, 0, UINT64_MAX);
		try_parser(parsers[pick], text, 10, 1024000);
	} else if (pick == 4) {
		try_json(text, n - 1);
	} else {
		must(str_distance(text, "memory") == str_distance("memory", text));
	}
	return 0;
}
