/* The parts of the Docker client that need no daemon: hosts, heads of answers, JSON, quoting, frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after those four, as it wants */
#include <cmocka.h>

#include "base/str.h"
#include "engine/docker/http_inner.h"
#include "engine/docker/multiplex.h"

/* --- hosts ----------------------------------------------------------------------------------------------------------- */

static void expect_host(const char *text, bool verify, enum reason want, const char *url)
{
	_cleanup_docker_host_ struct docker_host h = { .is_unix = false };
	_cleanup_err_ struct err e = ERR_INIT;

	if (docker_host_parse(&h, text, NULL, verify, &e) == 0) {
		assert_int_equal(want, REASON_NONE);
		assert_string_equal(h.shown, url);
	} else {
		assert_string_equal(reason_name(e.reason), reason_name(want));
	}
}

static void test_hosts(void **state)
{
	(void)state;
	expect_host("unix:///run/x.sock", false, REASON_NONE, "unix:///run/x.sock");
	expect_host("/run/x.sock", false, REASON_NONE, "unix:///run/x.sock");
	expect_host("http://127.0.0.1", false, REASON_NONE, "http://127.0.0.1:2375");
	expect_host("http://127.200.0.9:80/", false, REASON_NONE, "http://127.200.0.9:80");
	expect_host("tcp://[::1]:99", false, REASON_NONE, "http://[::1]:99");
	expect_host("tcp://localhost", false, REASON_NONE, "http://localhost:2375");
	expect_host("unix://x", false, R_BAD_VALUE, NULL);
	expect_host("unix://", false, R_BAD_VALUE, NULL);
	expect_host("", false, R_BAD_VALUE, NULL);
	expect_host("http://", false, R_BAD_VALUE, NULL);
	expect_host("http://user@127.0.0.1", false, R_BAD_VALUE, NULL);
	expect_host("http://127.0.0.1:1x", false, R_BAD_VALUE, NULL);
	expect_host("http://127.0.0.1?x", false, R_BAD_VALUE, NULL);
	expect_host("http://[::1", false, R_BAD_VALUE, NULL);
	expect_host("ssh://host", false, R_BAD_VALUE, NULL);
	expect_host("npipe:////./pipe/docker_engine", false, R_BAD_VALUE, NULL);
	expect_host("http://127.0.0.1:65536", false, R_OUT_OF_RANGE, NULL);
	expect_host("http://126.255.255.255", false, R_DOCKER_INSECURE_HOST, NULL);
	expect_host("http://LOCALHOST", false, R_DOCKER_INSECURE_HOST, NULL);
	expect_host("http://localhost.", false, R_DOCKER_INSECURE_HOST, NULL);
	expect_host("tcp://[::ffff:7f00:1]", false, R_DOCKER_INSECURE_HOST, NULL);
	assert_int_equal(setenv("HOME", "/nonexistent", 1), 0);
	expect_host("tcp://127.0.0.1", true, R_DOCKER_TLS_FAILED, NULL);
	expect_host("https://docker.example", false, R_DOCKER_TLS_FAILED, NULL);
}

/* --- heads of answers ------------------------------------------------------------------------------------------------ */

/* Feeds lines until one is refused; NULL: none was. */
static const char *feed(struct http_head *h, bool upgrade, const char *const *lines)
{
	const char *fault = NULL;

	*h = (struct http_head){ .status = 0 };
	for (size_t i = 0; !fault && lines[i]; i++)
		fault = http_head_line(h, lines[i], strlen(lines[i]), upgrade);
	return fault;
}
#define FEED(h, upgrade, ...) feed(h, upgrade, (const char *const[]){ __VA_ARGS__, NULL })

static void test_heads(void **state)
{
	struct http_head h;

	(void)state;
	assert_null(FEED(&h, false, "HTTP/1.1 200 OK\r\n",
		"Content-Type: Application/JSON; x=y\r\n", "content-length:  12 \r\n", "\r\n"));
	assert_true(h.done && h.status == 200 && h.has_length && h.length == 12);
	assert_string_equal(h.type, "application/json");
	assert_null(
		FEED(&h, false, "HTTP/1.1 100 Continue\r\n", "\r\n", "HTTP/1.1 201\r\n", "\r\n"));
	assert_int_equal(h.status, 201);
	assert_null(FEED(&h, true, "HTTP/1.1 101 UPGRADED\r\n", "\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 101 UPGRADED\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 302 Found\r\n"));
	assert_null(FEED(&h, false, "HTTP/1.1 304 Same\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.12 200 OK\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 2000 OK\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 200 OK\r\n", "Content-Length: 1\r\n",
		"Content-Length: 1\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 200 OK\r\n", "Content-Length: +1\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 200 OK\r\n", "Content-Length: \r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n",
		"Content-Length: 1\r\n"));
	assert_non_null(
		FEED(&h, false, "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: gzip, chunked\r\n"));
	assert_non_null(FEED(&h, false, "HTTP/1.1 200 OK\r\n", ": none\r\n"));
	/* trailers say nothing about the body */
	assert_null(FEED(&h, false, "HTTP/1.1 200 OK\r\n", "\r\n", "Content-Length: 7\r\n"));
	assert_false(h.has_length);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static int count_values(void *arg, const json_t *value, struct err *e)
{
	unsigned *n = arg;

	if (json_is_false(value))
		return err_set(e, R_BUSY, 0, "enough");
	(*n)++;
	return 0;
}

static void expect_json(const char *text, bool good)
{
	_cleanup_json_ json_t *v = NULL;
	_cleanup_err_ struct err e = ERR_INIT;
	int r = docker_json_parse(text, strlen(text), &docker_json_usual, "a test", &v, &e);

	assert_int_equal(r, good ? 0 : -1);
	if (!good)
		assert_int_equal(e.reason, R_DOCKER_BAD_RESPONSE);
}

static void test_json(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char nested[2 * DOCKER_JSON_DEPTH + 3];
	static const char series[] = " {\"a\":1}\r\n[]\n {} ";
	unsigned n = 0;

	(void)state;
	expect_json("null", true);
	expect_json("{\"a\":{\"a\":[\"[[[[{{{{\"]}}", true);
	expect_json("{\"a\":1,\"a\":1}", false);
	expect_json("{}{}", false);
	expect_json("", false);
	expect_json("[\"\\u0000\"]", false);
	memset(nested, '[', DOCKER_JSON_DEPTH);
	memset(nested + DOCKER_JSON_DEPTH, ']', DOCKER_JSON_DEPTH);
	nested[(size_t)2 * DOCKER_JSON_DEPTH] = '\0';
	expect_json(nested, true);
	memset(nested, '[', DOCKER_JSON_DEPTH + 1);
	memset(nested + DOCKER_JSON_DEPTH + 1, ']', DOCKER_JSON_DEPTH + 1);
	nested[(size_t)2 * DOCKER_JSON_DEPTH + 2] = '\0';
	expect_json(nested, false);
	assert_int_equal(
		docker_json_series(series, sizeof series - 1, "a test", count_values, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(docker_json_series("{}false{}", 9, "a test", count_values, &n, &e), -1);
	assert_int_equal(e.reason, R_BUSY);
	assert_int_equal(docker_json_series("{} x", 4, "a test", count_values, &n, &e), -1);
	assert_int_equal(e.reason, R_DOCKER_BAD_RESPONSE);
}

static void test_quote(void **state)
{
	char out[8];

	(void)state;
	assert_string_equal(docker_quote(out, sizeof out, "abc\n \n", 6), "abc");
	assert_string_equal(docker_quote(out, sizeof out, "a\x1b[1m", 5), "a...");
	assert_string_equal(docker_quote(out, sizeof out, "abcdefg", 7), "abcdefg");
	assert_string_equal(docker_quote(out, sizeof out, "abcdefgh", 8), "abcd...");
	assert_string_equal(docker_quote(out, sizeof out, "\0\n", 2), "\\x00");
	assert_string_equal(docker_quote(out, 1, "abc", 3), "");
}

/* --- frames ---------------------------------------------------------------------------------------------------------- */

static void test_frames(void **state)
{
	struct multiplex m = { .head_n = 0 };
	uint8_t two[] = "\1\0\0\0\0\0\0\3abc\2\0\0\0\0\0\0\1x\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\4de";
	uint8_t rest[] = "fg\1";
	uint8_t bad[] = "\1\0\0\0\0\0\0\1y\1\0\0\1\0\0\0\1z";
	uint8_t after[] = "\1\0\0\0\0\0\0\1y";
	uint8_t large[] = "\1\0\0\0\1\0\0\1";

	(void)state;
	assert_int_equal(multiplex_decode(&m, two, sizeof two - 1), 5);
	assert_memory_equal(two, "abcde", 5);
	assert_false(multiplex_whole(&m));
	assert_int_equal(multiplex_decode(&m, rest, 2), 2);
	assert_true(multiplex_whole(&m));
	assert_int_equal(multiplex_decode(&m, bad, sizeof bad - 1), 1);
	assert_true(m.bad && !multiplex_whole(&m));
	assert_int_equal(multiplex_decode(&m, after, sizeof after - 1), 0);
	m = (struct multiplex){ .head_n = 0 };
	assert_int_equal(multiplex_decode(&m, large, sizeof large - 1), 0);
	assert_true(m.bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_quote),
		cmocka_unit_test(test_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
