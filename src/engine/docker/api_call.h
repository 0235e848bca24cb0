/* What api*.c share: one call of the API, its path, and what a refusal becomes. */
#pragma once
#include "engine/docker/http.h"

struct docker {
	struct http *http;
	uint64_t timeout_ms;
	bool podman;
	char api[16];
	char version[64], os[32], arch[32], kernel[128];
};

/* A path below the version, under construction. */
struct api_path {
	struct buf text;
	bool has_query;
};

void api_path_done(struct api_path *p);
#define _cleanup_api_path_ _cleanup_(api_path_done)

/* Begins "/v1.41" + the formatted text, whose parts were checked. */
void api_path(struct api_path *p, const struct docker *d, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds KEY=VALUE to the query, escaped. */
void api_query(struct api_path *p, const char *key, const char *value);

/* Each line of `lines` (NULL: none) as a value of its own. */
void api_query_lines(struct api_path *p, const char *key, const char *lines);

/* A call with the usual times; *ret is any answer. */
int api_call(struct docker *d, const char *what, const char *method, struct api_path *p,
	const json_t *body, struct http_reply *ret, struct err *e);

/* The same with q's own body, times and sink; what, method, path are filled in. */
int api_call_with(struct docker *d, const char *what, const char *method, struct api_path *p,
	struct http_request *q, struct http_reply *ret, struct err *e);

/* The reply of a good answer as JSON of the wanted type (JSON_OBJECT, JSON_ARRAY). */
int api_json(
	const struct http_reply *r, const char *what, json_type type, json_t **ret, struct err *e);

/* GET and api_json(); a status from 300 on is missing (404) or R_DOCKER_REFUSED. */
int api_get(struct docker *d, const char *what, struct api_path *p, enum reason missing,
	json_type type, json_t **ret, struct err *e);

/* The daemon's words, quoted: R_DOCKER_REFUSED, or the reason that the call knows for it. */
int api_refused(enum reason reason, const struct http_reply *r, const char *what, struct err *e);

/* R_IMAGE_MISSING with the remedy for that image (NULL: not known which). */
int api_image_missing(const char *ref, const struct http_reply *r, const char *what, struct err *e);

/* filters={"label":["..."]}.  R_BAD_VALUE for text that is no UTF-8. */
int api_query_label(struct api_path *p, const char *label, struct err *e);

/* Each of a list must be an object with an "Id" that is one. */
int api_check_ids(const json_t *list, bool (*is_id)(const char *), const char *what, struct err *e);

/* R_BAD_VALUE for what is no container's name or id, no image's name, no volume's name. */
int api_check_name(const char *name, const char *kind, struct err *e);
int api_check_ref(const char *ref, struct err *e);

/* An id as a daemon gives it: 64 lower-case hex digits, behind "sha256:" for an image. */
bool api_is_id(const char *s);
bool api_is_image_id(const char *s);

/* Copies the member into out, without control bytes and cut to fit; empty when it is no string. */
void api_text(const json_t *object, const char *key, char *out, size_t cap);
