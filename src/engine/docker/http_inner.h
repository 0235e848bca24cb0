/* What http.c, its relay and the reader of heads share. */
#pragma once
#include <curl/curl.h>

#include "engine/docker/http.h"

struct http {
	struct docker_host host;
	CURL *curl;
	curl_socket_t sock; /* the connection that curl has now, or -1 */
	uint64_t connect_ms;
	struct err connect_err; /* why open_socket() gave none */
};

/* The lines of an answer's head, read and judged one at a time. */
struct http_head {
	unsigned status; /* 0: no status line yet */
	size_t bytes, lines;
	bool done; /* the empty line came */
	bool has_length, chunked, libpod;
	uint64_t length;
	char type[64];
};

/* One line with its end.  upgrade: 101 was asked for.  NULL, or what is wrong with it. */
const char *http_head_line(struct http_head *h, const char *p, size_t n, bool upgrade);

/* Sets everything of the handle that does not depend on the request: where to, how it is protected, what is never done. */
void http_prepare(struct http *h, CURL *curl);

/* The reason behind a curl that failed. */
int http_failed(
	const struct http *h, const char *what, CURLcode code, const char *words, struct err *e);
