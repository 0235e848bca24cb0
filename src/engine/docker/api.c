/* Owns the connection to a daemon: opening it, the version that is spoken, and what every call has in common.  The Docker
 * engine and api_*.c call it.
 * Must hold: nothing but checked names, ids and escaped text gets into a path. */
#include "engine/docker/api.h"

#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "engine/docker/api_call.h"

enum {
	API_MAJOR = 1,
	API_OLDEST = 41,
	API_NEWEST = 44, /* newer daemons go on serving it */
	API_TIMEOUT_LEAST = 100,
	API_TIMEOUT_MOST = 600000,
};

/* --- checks ---------------------------------------------------------------------------------------------------------- */

bool api_is_id(const char *s)
{
	return s && strspn(s, "0123456789abcdef") == DOCKER_ID - 1 && s[DOCKER_ID - 1] == '\0';
}

bool api_is_image_id(const char *s)
{
	return s && (s = str_after(s, "sha256:")) && api_is_id(s);
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

int api_check_name(const char *name, const char *kind, struct err *e)
{
	char quoted[128];

	if (*name && strspn(name, LETTERS "_.-") == strlen(name) && strlen(name) < DOCKER_REF &&
		!strchr("_.-", name[0]))
		return 0;
	return err_set(e, R_BAD_VALUE, 0,
		"'%s' is no name of a %s: letters, digits, and '_', '.', '-' behind the first",
		docker_quote(quoted, sizeof quoted, name, strlen(name)), kind);
}

int api_check_ref(const char *ref, struct err *e)
{
	char quoted[128];

	if (*ref && strspn(ref, LETTERS "_.-/:@") == strlen(ref) && strlen(ref) < DOCKER_REF &&
		!strchr("_.-/:@", ref[0]) && !strstr(ref, "..") && !strstr(ref, "//") &&
		ref[strlen(ref) - 1] != '/')
		return 0;
	return err_set(e, R_BAD_VALUE, 0, "'%s' is no name of an image, such as debian:bookworm",
		docker_quote(quoted, sizeof quoted, ref, strlen(ref)));
}

void api_text(const json_t *object, const char *key, char *out, size_t cap)
{
	const char *s = docker_json_text(object, key);

	docker_quote(out, cap, s ? s : "", s ? strlen(s) : 0);
}

/* --- paths ----------------------------------------------------------------------------------------------------------- */

void api_path_done(struct api_path *p)
{
	buf_done(&p->text);
}

void api_path(struct api_path *p, const struct docker *d, const char *fmt, ...)
{
	_cleanup_free_ char *rest = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&rest, fmt, ap) < 0)
		rest = NULL;
	va_end(ap);
	*p = (struct api_path){ .has_query = false };
	p->text.failed = rest == NULL;
	buf_printf(&p->text, "/v%s%s", d->api, rest ? rest : "");
}

static void add_escaped(struct buf *b, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] && strchr(LETTERS "_.-~", s[i]))
			buf_add(b, s + i, 1);
		else
			buf_printf(b, "%%%02X", (unsigned char)s[i]);
	}
}

void api_query(struct api_path *p, const char *key, const char *value)
{
	buf_printf(&p->text, "%c%s=", p->has_query ? '&' : '?', key);
	add_escaped(&p->text, value, strlen(value));
	p->has_query = true;
}

void api_query_lines(struct api_path *p, const char *key, const char *lines)
{
	while (lines && *lines) {
		size_t n = strcspn(lines, "\n");

		if (n > 0) {
			buf_printf(&p->text, "%c%s=", p->has_query ? '&' : '?', key);
			add_escaped(&p->text, lines, n);
			p->has_query = true;
		}
		lines += n + (lines[n] == '\n');
	}
}

/* --- calls ----------------------------------------------------------------------------------------------------------- */

int api_call_with(struct docker *d, const char *what, const char *method, struct api_path *p,
	struct http_request *q, struct http_reply *ret, struct err *e)
{
	if (p->text.failed)
		return err_set(e, R_BAD_VALUE, 0, "%s: the request is too long", what);
	q->what = what;
	q->method = method;
	q->path = p->text.data;
	if (q->timeout_ms == 0)
		q->timeout_ms = d->timeout_ms;
	return http_call(d->http, q, ret, e);
}

int api_call(struct docker *d, const char *what, const char *method, struct api_path *p,
	const json_t *body, struct http_reply *ret, struct err *e)
{
	_cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct http_request q = { .type = text ? "application/json" : NULL, .body = text };

	if (body && !text)
		return err_set(e, R_NO_MEMORY, 0, "%s: the request can't be written", what);
	q.body_len = text ? strlen(text) : 0;
	return api_call_with(d, what, method, p, &q, ret, e);
}

int api_json(
	const struct http_reply *r, const char *what, json_type type, json_t **ret, struct err *e)
{
	_cleanup_json_ json_t *value = NULL;

	if (!streq(r->type, "application/json"))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer: it is not JSON by its content type", what);
	if (docker_json_parse(r->body.data ? r->body.data : "", r->body.len, &docker_json_usual,
		    what, &value, e) < 0)
		return -1;
	if (json_typeof(value) != type)
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer is not the %s that it should be", what,
			type == JSON_ARRAY ? "array" : "object");
	*ret = move_ptr(value);
	return 0;
}

int api_refused(enum reason reason, const struct http_reply *r, const char *what, struct err *e)
{
	_cleanup_json_ json_t *value = NULL;
	struct err ignored = ERR_INIT;
	const char *words = r->body.data ? r->body.data : "";
	size_t n = r->body.len;
	char quoted[512];

	if (streq(r->type, "application/json") &&
		docker_json_parse(words, n, &docker_json_usual, what, &value, &ignored) == 0 &&
		docker_json_text(value, "message")) {
		words = docker_json_text(value, "message");
		n = strlen(words);
	}
	err_done(&ignored);
	if (n == 0)
		return err_set(e, reason, 0, "%s: the daemon says %u", what, r->status);
	return err_set(e, reason, 0, "%s: the daemon says %u: \"%s\"", what, r->status,
		docker_quote(quoted, sizeof quoted, words, n));
}

int api_get(struct docker *d, const char *what, struct api_path *p, enum reason missing,
	json_type type, json_t **ret, struct err *e)
{
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	struct http_request q = { .want = "json" };

	if (api_call_with(d, what, "GET", p, &q, &reply, e) < 0)
		return -1;
	if (reply.status == 404 && missing != REASON_NONE)
		return api_refused(missing, &reply, what, e);
	if (reply.status != 200)
		return api_refused(R_DOCKER_REFUSED, &reply, what, e);
	return api_json(&reply, what, type, ret, e);
}

int api_query_label(struct api_path *p, const char *label, struct err *e)
{
	_cleanup_json_ json_t *filters = json_pack("{s:[s]}", "label", label);
	_cleanup_free_ char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;

	if (!text)
		return err_set(e, R_BAD_VALUE, 0, "a label is UTF-8");
	api_query(p, "filters", text);
	return 0;
}

int api_check_ids(const json_t *list, bool (*is_id)(const char *), const char *what, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (!is_id(docker_json_text(one, "Id")))
			return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
				"%s: the daemon's answer holds one without an id", what);
	}
	return 0;
}

/* --- opening --------------------------------------------------------------------------------------------------------- */

/* "1.41" as 41; -1: it is none, or not of version 1. */
static int minor_of(const char *text)
{
	const char *p = text ? str_after(text, "1.") : NULL;
	uint64_t minor;
	struct err ignored = ERR_INIT;

	if (!p || strlen(p) > 3 || parse_u64(p, 0, 999, "version", &minor, &ignored) < 0) {
		err_done(&ignored);
		return -1;
	}
	return (int)minor;
}

static int take_version(struct docker *d, const json_t *v, const char *shown, struct err *e)
{
	int newest = minor_of(docker_json_text(v, "ApiVersion"));
	const char *least_text = docker_json_text(v, "MinAPIVersion");
	int least = least_text && *least_text ? minor_of(least_text) : 0;
	const json_t *parts = json_object_get(v, "Components"), *part;
	size_t i;

	if (newest < 0 || least < 0)
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"the daemon at '%s' gives no version of its API that is known", shown);
	if (newest < API_OLDEST || least > API_NEWEST)
		return err_set(e, R_DOCKER_VERSION_UNSUPPORTED, 0,
			"the daemon at '%s' speaks version 1.%d to 1.%d of the API, Bailey 1.%d to 1.%d",
			shown, least, newest, API_OLDEST, API_NEWEST);
	FMT(d->api, "%d.%d", API_MAJOR, newest < API_NEWEST ? newest : API_NEWEST);
	json_array_foreach(parts, i, part)
	{
		const char *name = docker_json_text(part, "Name");

		if (name && streq(name, "Podman Engine"))
			d->podman = true;
	}
	api_text(v, "Version", d->version, sizeof d->version);
	api_text(v, "Os", d->os, sizeof d->os);
	api_text(v, "Arch", d->arch, sizeof d->arch);
	api_text(v, "KernelVersion", d->kernel, sizeof d->kernel);
	return 0;
}

static int negotiate(struct docker *d, struct err *e)
{
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *v = NULL;
	struct http_request q = { .what = "asking for the version of the API",
		.method = "GET",
		.path = "/version",
		.timeout_ms = d->timeout_ms,
		.want = "json",
		.first = true };

	if (http_call(d->http, &q, &reply, e) < 0)
		return -1;
	if (reply.status != 200)
		return api_refused(R_DOCKER_REFUSED, &reply, q.what, e);
	if (api_json(&reply, q.what, JSON_OBJECT, &v, e) < 0)
		return -1;
	d->podman = reply.libpod;
	return take_version(d, v, http_host(d->http)->shown, e);
}

int docker_open(struct docker **ret, const struct docker_config *c, struct err *e)
{
	_cleanup_docker_host_ struct docker_host host = { .is_unix = false };
	struct docker *d;

	if (c->timeout_ms &&
		(c->timeout_ms < API_TIMEOUT_LEAST || c->timeout_ms > API_TIMEOUT_MOST))
		return err_set(e, R_OUT_OF_RANGE, 0, "a time-out is %d to %d ms", API_TIMEOUT_LEAST,
			API_TIMEOUT_MOST);
	if (docker_host_find(&host, c->host, c->cert_path, e) < 0)
		return -1;
	d = xcalloc(1, sizeof *d);
	d->timeout_ms = c->timeout_ms ? c->timeout_ms : DOCKER_CALL_MS;
	if (http_open(&d->http, &host, e) < 0 || negotiate(d, e) < 0) {
		docker_free(d);
		return -1;
	}
	*ret = d;
	return 0;
}

static void free_docker(struct docker *d, bool forked)
{
	if (!d)
		return;
	http_free(d->http, forked);
	free(d);
}

void docker_free(struct docker *d)
{
	free_docker(d, false);
}

void docker_free_forked(struct docker *d)
{
	free_docker(d, true);
}

bool docker_is_local(const struct docker *d)
{
	return http_host(d->http)->is_unix;
}

bool docker_is_podman(const struct docker *d)
{
	return d->podman;
}

const char *docker_host(const struct docker *d)
{
	return http_host(d->http)->shown;
}

const char *docker_api(const struct docker *d)
{
	return d->api;
}
