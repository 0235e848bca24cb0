/* Owns the calls that make, steer and describe containers.  The Docker engine calls them.
 * Must hold: what is so already is success, and that is read from the container's state, never from a daemon's words. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine/docker/api.h"
#include "engine/docker/api_call.h"

enum { WARNINGS_MAX = 64, WARNING_MAX = 4096, WHAT = 320 };

static const struct timespec look_again = { .tv_nsec = 20 * 1000000 };

/* --- state ----------------------------------------------------------------------------------------------------------- */

static int inspect(struct docker *d, const char *id, const char *query, json_t **ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_json_ json_t *value = NULL;
	char what[WHAT];

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "inspecting the container '%s'", id);
	api_path(&p, d, "/containers/%s/json%s", id, query);
	if (api_get(d, what, &p, R_SANDBOX_NOT_FOUND, JSON_OBJECT, &value, e) < 0)
		return -1;
	if (!api_is_id(docker_json_text(value, "Id")) ||
		!json_is_object(json_object_get(value, "State")))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer describes no container", what);
	*ret = move_ptr(value);
	return 0;
}

int docker_inspect(struct docker *d, const char *id, json_t **ret, struct err *e)
{
	return inspect(d, id, "", ret, e);
}

int docker_inspect_size(struct docker *d, const char *id, json_t **ret, struct err *e)
{
	return inspect(d, id, "?size=1", ret, e);
}

/* Whether a member of State is true; -1 with *e set. */
static int state_is(struct docker *d, const char *id, const char *key, struct err *e)
{
	_cleanup_json_ json_t *value = NULL;

	if (docker_inspect(d, id, &value, e) < 0)
		return -1;
	return docker_json_true(json_object_get(value, "State"), key);
}

/* POST /containers/ID/VERB.  A refusal is success where State's key is as wanted. */
struct action {
	const char *verb, *query, *key;
	bool wanted;
	uint64_t extra_ms; /* that it may take beside the usual */
};

static int steer(struct docker *d, const char *id, const struct action *a, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	struct http_request q = { .timeout_ms = d->timeout_ms + a->extra_ms };
	struct err why = ERR_INIT;
	char what[WHAT];
	int now;

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "asking for '%s' of the container '%s'", a->verb, id);
	api_path(&p, d, "/containers/%s/%s%s", id, a->verb, a->query);
	if (api_call_with(d, what, "POST", &p, &q, &reply, e) < 0)
		return -1;
	if (reply.status < 300 || reply.status == 304)
		return 0;
	now = state_is(d, id, a->key, &why);
	if (now < 0)
		return err_move(e, &why);
	if ((now > 0) == a->wanted)
		return 0;
	return api_refused(R_DOCKER_REFUSED, &reply, what, e);
}

int docker_start(struct docker *d, const char *id, struct err *e)
{
	return steer(d, id, &(struct action){ "start", "", "Running", true, 0 }, e);
}

int docker_kill(struct docker *d, const char *id, int sig, struct err *e)
{
	char query[32];

	if (sig < 1 || sig >= NSIG)
		return err_set(e, R_BAD_VALUE, 0, "%d is no signal", sig);
	FMT(query, "?signal=%d", sig);
	return steer(d, id, &(struct action){ "kill", query, "Running", false, 0 }, e);
}

int docker_stop(struct docker *d, const char *id, unsigned grace_s, struct err *e)
{
	char query[32];

	FMT(query, "?t=%u", grace_s);
	return steer(
		d, id, &(struct action){ "stop", query, "Running", false, grace_s * 1000ull }, e);
}

int docker_pause(struct docker *d, const char *id, struct err *e)
{
	return steer(d, id, &(struct action){ "pause", "", "Paused", true, 0 }, e);
}

int docker_unpause(struct docker *d, const char *id, struct err *e)
{
	return steer(d, id, &(struct action){ "unpause", "", "Paused", false, 0 }, e);
}

/* --- making and removing --------------------------------------------------------------------------------------------- */

static int take_warnings(const json_t *answer, json_t **ret, const char *what, struct err *e)
{
	json_t *given = json_object_get(answer, "Warnings"), *w;
	size_t i;

	if (!given || json_is_null(given)) {
		*ret = json_array();
		return *ret ? 0 : err_set(e, R_NO_MEMORY, 0, "%s: no memory", what);
	}
	if (!json_is_array(given) || json_array_size(given) > WARNINGS_MAX)
		return err_set(
			e, R_DOCKER_BAD_RESPONSE, 0, "%s: the daemon's warnings are no list", what);
	json_array_foreach(given, i, w)
	{
		if (!json_is_string(w) || json_string_length(w) > WARNING_MAX)
			return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
				"%s: a warning of the daemon is no text", what);
	}
	*ret = json_incref(given);
	return 0;
}

/* Podman says 500 to that, as to anything. */
static bool name_is_taken(struct docker *d, const char *name)
{
	_cleanup_json_ json_t *value = NULL;
	struct err ignored = ERR_INIT;
	bool taken = docker_inspect(d, name, &value, &ignored) == 0;

	err_done(&ignored);
	return taken;
}

/* No name of an image: it begins otherwise, or its last part before a tag has capital letters. */
static bool is_no_image(const json_t *body)
{
	const char *ref = docker_json_text(body, "Image"), *last;

	if (!ref ||
		strspn(ref, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == 0)
		return true;
	last = strrchr(ref, '/');
	last = last ? last + 1 : ref;
	return strcspn(last, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") < strcspn(last, ":@");
}

int docker_create(struct docker *d, const char *name, const json_t *body, char ret_id[DOCKER_ID],
	json_t **ret_warnings, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *answer = NULL;
	const char *id;
	char what[WHAT];

	if (api_check_name(name, "container", e) < 0)
		return -1;
	FMT(what, "creating the container '%s'", name);
	api_path(&p, d, "/containers/create");
	api_query(&p, "name", name);
	if (api_call(d, what, "POST", &p, body, &reply, e) < 0)
		return -1;
	if (reply.status == 404)
		return api_image_missing(docker_json_text(body, "Image"), &reply, what, e);
	if (reply.status == 409 || (reply.status == 500 && name_is_taken(d, name)))
		return api_refused(R_SANDBOX_EXISTS, &reply, what, e);
	if (reply.status != 201)
		return api_refused(is_no_image(body) && (reply.status == 400 || d->podman)
				? R_BAD_VALUE
				: R_DOCKER_REFUSED,
			&reply, what, e);
	if (api_json(&reply, what, JSON_OBJECT, &answer, e) < 0)
		return -1;
	id = docker_json_text(answer, "Id");
	if (!api_is_id(id))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer holds no id of a container", what);
	if (ret_warnings && take_warnings(answer, ret_warnings, what, e) < 0)
		return -1;
	memcpy(ret_id, id, DOCKER_ID);
	return 0;
}

/* The daemon would not remove it: it is gone, it goes (then wait), or containers in that state can't. */
static int removal_refused(struct docker *d, const char *id, const struct http_reply *reply,
	const char *what, struct err *e)
{
	uint64_t deadline = boottime_ms() + d->timeout_ms;

	for (;;) {
		_cleanup_json_ json_t *value = NULL;
		struct err why = ERR_INIT;
		const json_t *state;
		const char *status;

		if (docker_inspect(d, id, &value, &why) < 0) {
			if (why.reason != R_SANDBOX_NOT_FOUND)
				return err_move(e, &why);
			err_done(&why);
			return 0;
		}
		state = json_object_get(value, "State");
		status = docker_json_text(state, "Status");
		if (!status || !streq(status, "removing"))
			return api_refused(
				docker_json_true(state, "Running") ? R_BUSY : R_DOCKER_REFUSED,
				reply, what, e);
		if (boottime_ms() >= deadline)
			return err_set(
				e, R_DOCKER_TIMEOUT, 0, "%s: its removal does not end", what);
		(void)nanosleep(&look_again, NULL);
	}
}

int docker_remove(struct docker *d, const char *id, bool force, bool volumes, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	char what[WHAT];

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "removing the container '%s'", id);
	api_path(&p, d, "/containers/%s?force=%d&v=%d", id, force, volumes);
	if (api_call(d, what, "DELETE", &p, NULL, &reply, e) < 0)
		return -1;
	if (reply.status < 300 || reply.status == 404)
		return 0;
	return removal_refused(d, id, &reply, what, e);
}

/* --- waiting and looking --------------------------------------------------------------------------------------------- */

int docker_wait(
	struct docker *d, const char *id, uint64_t timeout_ms, int64_t *ret_code, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *answer = NULL;
	struct http_request q = { .timeout_ms = timeout_ms ? timeout_ms : 1, .want = "json" };
	char what[WHAT];

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "waiting for the container '%s'", id);
	api_path(&p, d, "/containers/%s/wait?condition=not-running", id);
	if (api_call_with(d, what, "POST", &p, &q, &reply, e) < 0)
		return -1;
	if (reply.status == 404)
		return api_refused(R_SANDBOX_NOT_FOUND, &reply, what, e);
	if (reply.status != 200)
		return api_refused(R_DOCKER_REFUSED, &reply, what, e);
	if (api_json(&reply, what, JSON_OBJECT, &answer, e) < 0)
		return -1;
	if (!json_is_integer(json_object_get(answer, "StatusCode")))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer holds no status", what);
	*ret_code = docker_json_number(answer, "StatusCode");
	return 0;
}

int docker_list(struct docker *d, const char *label, json_t **ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_json_ json_t *value = NULL;
	static const char what[] = "listing the containers";

	api_path(&p, d, "/containers/json");
	api_query(&p, "all", "1");
	if (api_query_label(&p, label, e) < 0 ||
		api_get(d, what, &p, REASON_NONE, JSON_ARRAY, &value, e) < 0 ||
		api_check_ids(value, api_is_id, what, e) < 0)
		return -1;
	*ret = move_ptr(value);
	return 0;
}

int docker_stats(struct docker *d, const char *id, json_t **ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	char what[WHAT];

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "reading the counters of the container '%s'", id);
	api_path(&p, d, "/containers/%s/stats?stream=false&one-shot=true", id);
	return api_get(d, what, &p, R_SANDBOX_NOT_FOUND, JSON_OBJECT, ret, e);
}
