/* HTTP/1.1 to one Docker daemon, over libcurl: one request at a time, each with its deadlines and bounds. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "engine/docker/api.h"
#include "engine/docker/host.h"

enum {
	HTTP_HEAD_BYTES = 64 << 10, /* of all header lines of an answer, trailers among them */
	HTTP_HEAD_LINES = 200,
	HTTP_BODY = 4 << 20,
	HTTP_REFUSAL = 64 << 10, /* the body of an answer that says no */
};

struct http;

struct http_request {
	const char
		*what; /* for messages: what is being asked, such as "inspecting container 'x'" */
	const char *method; /* GET, POST, PUT or DELETE */
	const char *path;   /* encoded, begins with '/' */
	const char *type;   /* of what is sent; NULL: nothing is */
	const char *body;   /* what is sent */
	size_t body_len;
	const int *body_fd; /* or NULL: what is sent is read from there to its end */
	const char *
		want; /* content type of a good answer: "json" or "tar"; NULL: it has no body that counts */
	uint64_t timeout_ms; /* all in all */
	uint64_t stall_ms;   /* while nothing moves; 0: timeout_ms alone counts */
	size_t max;          /* of the body; 0: HTTP_BODY */
	bool first;          /* contact with that daemon */
	docker_sink *
		sink; /* takes the body of a good answer, of any length; NULL: it goes to the reply */
	void *arg;
};

struct http_reply {
	unsigned status;
	char type[64]; /* content type, lower case, without parameters */
	bool libpod;   /* it is Podman's service that answers */
	struct buf body;
};

void http_reply_done(struct http_reply *r);
#define _cleanup_http_reply_ _cleanup_(http_reply_done)

/* host is moved into the result, also on failure.  timeout_ms: of a call whose request names none. */
int http_open(struct http **ret, struct docker_host *host, struct err *e);

/* NULL is fine.  forked: in a child of the process that opened it; nothing is sent. */
void http_free(struct http *h, bool forked);
const struct docker_host *http_host(const struct http *h);

/* Any well-formed answer is success, whatever its status (304 and from 400 on with the body in the reply).  An answer that
 * switches protocols, leads elsewhere, is encoded or is not what HTTP allows is R_DOCKER_BAD_RESPONSE. */
int http_call(struct http *h, const struct http_request *q, struct http_reply *ret, struct err *e);

/* POSTs a JSON body and takes the connection over once the daemon agreed (101, or 200 as older ones say).  A relay process
 * feeds *ret_fd from it: see docker_exec_stream().  *ret_status: that of a refusal, with *refusal holding its body. */
int http_hijack(struct http *h, const struct http_request *q, int *ret_fd,
	struct http_reply *refusal, struct err *e);
