/* Owns the reading of JSON from a daemon, and of any text from it that is shown.  The room's other files call it.
 * Must hold: what json_loadb() gets was bounded in depth and number before, since it builds all that it reads. */
#include "engine/docker/json.h"

#include <string.h>

#include "base/str.h"

const struct docker_json_limits docker_json_usual = { .values = 500000, .containers = 100000 };

struct scan {
	size_t values, containers, depth;
	bool in_string, escaped;
};

static const char *scan_byte(struct scan *s, char c, const struct docker_json_limits *limits)
{
	if (s->in_string) {
		if (s->escaped)
			s->escaped = false;
		else if (c == '\\')
			s->escaped = true;
		else if (c == '"')
			s->in_string = false;
		return NULL;
	}
	switch (c) {
	case '"':
		s->in_string = true;
		return NULL;
	case '{':
	case '[':
		s->values++;
		s->containers++;
		if (++s->depth > DOCKER_JSON_DEPTH)
			return "it is nested too deep";
		break;
	case '}':
	case ']':
		s->depth -= s->depth > 0;
		break;
	case ',':
		s->values++;
		break;
	default:
		return NULL;
	}
	if (s->values > limits->values || s->containers > limits->containers)
		return "it has too many parts";
	return NULL;
}

static int check_bounds(const char *text, size_t n, const struct docker_json_limits *limits,
	const char *what, struct err *e)
{
	struct scan s = { .values = 0 };

	for (size_t i = 0; i < n; i++) {
		const char *fault = scan_byte(&s, text[i], limits);

		if (fault)
			return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
				"%s: the answer is JSON, but %s", what, fault);
	}
	return 0;
}

static int load(const char *text, size_t n, size_t flags, const char *what, json_t **ret,
	size_t *ret_used, struct err *e)
{
	json_error_t fault;
	json_t *value =
		json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | flags, &fault);
	char quoted[160];

	if (!value)
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0, "%s: the answer is not JSON: %s", what,
			docker_quote(quoted, sizeof quoted, fault.text, strlen(fault.text)));
	if (ret_used)
		*ret_used = (size_t)fault.position;
	*ret = value;
	return 0;
}

int docker_json_parse(const char *text, size_t n, const struct docker_json_limits *limits,
	const char *what, json_t **ret, struct err *e)
{
	if (check_bounds(text, n, limits, what, e) < 0)
		return -1;
	return load(text, n, 0, what, ret, NULL, e);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t skip_space(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && is_space(text[i]))
		i++;
	return i;
}

int docker_json_series(const char *text, size_t n, const char *what,
	int (*each)(void *arg, const json_t *value, struct err *e), void *arg, struct err *e)
{
	if (check_bounds(text, n, &docker_json_usual, what, e) < 0)
		return -1;
	for (;;) {
		_cleanup_json_ json_t *value = NULL;
		size_t space = skip_space(text, n), used = 0;

		text += space;
		n -= space;
		if (n == 0)
			return 0;
		if (load(text, n, JSON_DISABLE_EOF_CHECK, what, &value, &used, e) < 0)
			return -1;
		if (used == 0 || used > n)
			return err_set(
				e, R_DOCKER_BAD_RESPONSE, 0, "%s: the answer is not JSON", what);
		text += used;
		n -= used;
		if (each(arg, value, e) < 0)
			return -1;
	}
}

const char *docker_json_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

int64_t docker_json_number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

bool docker_json_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

static size_t quote_byte(char out[5], unsigned char c)
{
	static const char hex[] = "0123456789abcdef";

	if (c >= 0x20 && c < 0x7f) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = '\\';
	if (c == '\n') {
		out[1] = 'n';
		return 2;
	}
	out[1] = 'x';
	out[2] = hex[c >> 4];
	out[3] = hex[c & 15];
	return 4;
}

char *docker_quote(char *out, size_t cap, const char *s, size_t n)
{
	static const char dots[] = "...";
	size_t used = 0, safe = 0; /* safe: where the dots still fit */
	char part[5];

	while (n > 0 && is_space(s[n - 1]))
		n--;
	for (size_t i = 0; i < n; i++) {
		size_t k = quote_byte(part, (unsigned char)s[i]);

		if (used + k >= cap) {
			used = safe;
			for (size_t j = 0; dots[j] && used + 1 < cap; j++)
				out[used++] = dots[j];
			break;
		}
		memcpy(out + used, part, k);
		used += k;
		if (used + sizeof dots <= cap)
			safe = used;
	}
	out[used] = '\0';
	return out;
}
