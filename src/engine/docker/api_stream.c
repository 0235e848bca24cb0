/* Owns the calls with long answers or bodies: archives, commits, changes, and commands inside.  The Docker engine calls
 * them. */
#include <string.h>

#include "base/str.h"
#include "engine/docker/api.h"
#include "engine/docker/api_call.h"

enum {
	WHAT = 320,
	SHOWN_PATH = 128,
	ARGV_MAX = 1024,
	CHANGES_BYTES = 32 << 20,
};

static const struct docker_json_limits changes_limits = { .values = 2000000, .containers = 700000 };

/* --- layers ---------------------------------------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-function-size): as many as the call has */
int docker_commit(struct docker *d, const char *id, const char *repo, const char *tag, bool pause,
	const char *changes, char ret_id[DOCKER_IMAGE_ID], struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *answer = NULL;
	/* no other settings than the container's; Podman insists on a body */
	struct http_request q = { .type = "application/json",
		.body = "null",
		.body_len = strlen("null"),
		.timeout_ms = DOCKER_COMMIT_MS,
		.want = "json" };
	const char *made;
	char what[WHAT];

	if (api_check_name(id, "container", e) < 0 || api_check_ref(repo, e) < 0 ||
		api_check_ref(tag, e) < 0)
		return -1;
	FMT(what, "committing the container '%s'", id);
	api_path(&p, d, "/commit");
	api_query(&p, "container", id);
	api_query(&p, "repo", repo);
	api_query(&p, "tag", tag);
	api_query(&p, "pause", pause ? "1" : "0");
	api_query_lines(&p, "changes", changes);
	if (api_call_with(d, what, "POST", &p, &q, &reply, e) < 0)
		return -1;
	if (reply.status == 404)
		return api_refused(R_SANDBOX_NOT_FOUND, &reply, what, e);
	if (reply.status != 201 && reply.status != 200)
		return api_refused(R_DOCKER_REFUSED, &reply, what, e);
	if (api_json(&reply, what, JSON_OBJECT, &answer, e) < 0)
		return -1;
	made = docker_json_text(answer, "Id");
	/* Podman leaves out what kind of digest it is */
	if (!api_is_id(made) && !api_is_image_id(made))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer holds no id of an image", what);
	str_format(ret_id, DOCKER_IMAGE_ID, "%s%s", api_is_id(made) ? "sha256:" : "", made);
	return 0;
}

static bool is_change(const json_t *change)
{
	const json_t *path = json_object_get(change, "Path");
	const json_t *kind = json_object_get(change, "Kind");

	return json_is_string(path) && json_string_value(path)[0] == '/' &&
		json_string_length(path) <= 4096 && json_is_integer(kind) &&
		json_integer_value(kind) >= 0 && json_integer_value(kind) <= 2;
}

int docker_changes(struct docker *d, const char *id, json_t **ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *list = NULL;
	struct http_request q = {
		.timeout_ms = DOCKER_COMMIT_MS, .want = "json", .max = CHANGES_BYTES
	};
	json_t *change;
	char what[WHAT];
	size_t i;

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "listing the changes of the container '%s'", id);
	api_path(&p, d, "/containers/%s/changes", id);
	if (api_call_with(d, what, "GET", &p, &q, &reply, e) < 0)
		return -1;
	if (reply.status == 404)
		return api_refused(R_SANDBOX_NOT_FOUND, &reply, what, e);
	if (reply.status != 200)
		return api_refused(R_DOCKER_REFUSED, &reply, what, e);
	if (docker_json_parse(reply.body.data ? reply.body.data : "", reply.body.len,
		    &changes_limits, what, &list, e) < 0)
		return -1;
	if (json_is_null(list)) {
		json_decref(list);
		list = json_array();
	}
	if (!json_is_array(list))
		return err_set(
			e, R_DOCKER_BAD_RESPONSE, 0, "%s: the daemon's answer is no list", what);
	json_array_foreach(list, i, change)
	{
		if (!is_change(change))
			return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
				"%s: the daemon's answer holds what is no change", what);
	}
	*ret = move_ptr(list);
	return 0;
}

/* --- archives -------------------------------------------------------------------------------------------------------- */

/* 404 is said of a missing path and of a missing container. */
static int path_refused(struct docker *d, const char *id, const struct http_reply *reply,
	const char *what, struct err *e)
{
	_cleanup_json_ json_t *value = NULL;

	if (reply->status != 404)
		return api_refused(R_DOCKER_REFUSED, reply, what, e);
	if (docker_inspect(d, id, &value, e) < 0)
		return -1;
	return api_refused(R_PATH_NOT_FOUND, reply, what, e);
}

int docker_archive_get(struct docker *d, const char *id, const char *path, docker_sink *sink,
	void *arg, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	struct http_request q = { .timeout_ms = DOCKER_STREAM_MS,
		.stall_ms = DOCKER_STALL_MS,
		.want = "tar",
		.sink = sink,
		.arg = arg };
	char what[WHAT + SHOWN_PATH], shown[SHOWN_PATH];

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "reading '%s' of the container '%s'",
		docker_quote(shown, sizeof shown, path, strlen(path)), id);
	api_path(&p, d, "/containers/%s/archive", id);
	api_query(&p, "path", path);
	if (api_call_with(d, what, "GET", &p, &q, &reply, e) < 0)
		return -1;
	return reply.status == 200 ? 0 : path_refused(d, id, &reply, what, e);
}

int docker_archive_put(
	struct docker *d, const char *id, const char *path, int tar_fd, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	struct http_request q = { .type = "application/x-tar",
		.body_fd = &tar_fd,
		.timeout_ms = DOCKER_STREAM_MS,
		.stall_ms = DOCKER_STALL_MS };
	char what[WHAT + SHOWN_PATH], shown[SHOWN_PATH];

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "writing to '%s' of the container '%s'",
		docker_quote(shown, sizeof shown, path, strlen(path)), id);
	api_path(&p, d, "/containers/%s/archive", id);
	api_query(&p, "path", path);
	if (api_call_with(d, what, "PUT", &p, &q, &reply, e) < 0)
		return -1;
	return reply.status == 200 ? 0 : path_refused(d, id, &reply, what, e);
}

int docker_export(struct docker *d, const char *id, docker_sink *sink, void *arg, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	struct http_request q = { .timeout_ms = DOCKER_STREAM_MS,
		.stall_ms = DOCKER_STALL_MS,
		.want = "tar",
		.sink = sink,
		.arg = arg };
	char what[WHAT];

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "exporting the container '%s'", id);
	api_path(&p, d, "/containers/%s/export", id);
	if (api_call_with(d, what, "GET", &p, &q, &reply, e) < 0)
		return -1;
	if (reply.status == 404)
		return api_refused(R_SANDBOX_NOT_FOUND, &reply, what, e);
	return reply.status == 200 ? 0 : api_refused(R_DOCKER_REFUSED, &reply, what, e);
}

/* --- commands inside ------------------------------------------------------------------------------------------------- */

static json_t *exec_body(char *const argv[], const char *user)
{
	_cleanup_json_ json_t *words = json_array();

	for (size_t i = 0; argv[i]; i++)
		if (i == ARGV_MAX || json_array_append_new(words, json_pack("s", argv[i])) < 0)
			return NULL;
	return json_pack("{s:b, s:b, s:b, s:b, s:O, s:s}", "AttachStdin", 1, "AttachStdout", 1,
		"AttachStderr", 0, "Tty", 0, "Cmd", words, "User", user ? user : "");
}

/* Whether the container is there and no command can run in it. */
static bool is_still(struct docker *d, const char *id)
{
	_cleanup_json_ json_t *value = NULL;
	struct err ignored = ERR_INIT;
	const json_t *state;

	(void)docker_inspect(d, id, &value, &ignored);
	err_done(&ignored);
	state = json_object_get(value, "State");
	return state && (!docker_json_true(state, "Running") || docker_json_true(state, "Paused"));
}

/* Docker says 409 of a container that does not run or is paused, Podman 500. */
static int exec_refused(struct docker *d, const char *id, const struct http_reply *reply,
	const char *what, struct err *e)
{
	if (reply->status == 404)
		return api_refused(R_SANDBOX_NOT_FOUND, reply, what, e);
	if (reply->status == 409 || is_still(d, id))
		return api_refused(R_SANDBOX_NOT_RUNNING, reply, what, e);
	return api_refused(R_DOCKER_REFUSED, reply, what, e);
}

static int exec_create(struct docker *d, const char *id, char *const argv[], const char *user,
	const char *what, char ret_exec[DOCKER_ID], struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *body = exec_body(argv, user), *answer = NULL;
	const char *made;

	if (!body)
		return err_set(e, R_BAD_VALUE, 0,
			"%s: the command is no UTF-8, or has over %d words", what, ARGV_MAX);
	api_path(&p, d, "/containers/%s/exec", id);
	if (api_call(d, what, "POST", &p, body, &reply, e) < 0)
		return -1;
	if (reply.status != 201)
		return exec_refused(d, id, &reply, what, e);
	if (api_json(&reply, what, JSON_OBJECT, &answer, e) < 0)
		return -1;
	made = docker_json_text(answer, "Id");
	if (!api_is_id(made))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer holds no id of a command", what);
	memcpy(ret_exec, made, DOCKER_ID);
	return 0;
}

int docker_exec_stream(struct docker *d, const char *id, char *const argv[], const char *user,
	int *ret_fd, char ret_exec[DOCKER_ID], struct err *e)
{
	static const char body[] = "{\"Detach\":false,\"Tty\":false}";
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply refusal = { .status = 0 };
	struct http_request q = {
		.body = body, .body_len = sizeof body - 1, .timeout_ms = d->timeout_ms
	};
	char exec[DOCKER_ID], what[WHAT];
	int fd = -1;

	if (api_check_name(id, "container", e) < 0)
		return -1;
	FMT(what, "running a command in the container '%s'", id);
	if (exec_create(d, id, argv, user, what, exec, e) < 0)
		return -1;
	api_path(&p, d, "/exec/%s/start", exec);
	if (p.text.failed)
		return err_set(e, R_NO_MEMORY, 0, "%s: no memory", what);
	q.what = what;
	q.path = p.text.data;
	if (http_hijack(d->http, &q, &fd, &refusal, e) < 0)
		return -1;
	if (fd < 0)
		return exec_refused(d, id, &refusal, what, e);
	memcpy(ret_exec, exec, DOCKER_ID);
	*ret_fd = fd;
	return 0;
}

int docker_exec_inspect(
	struct docker *d, const char *exec_id, struct docker_exec *ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_json_ json_t *answer = NULL;
	static const char what[] = "inspecting a command";

	if (!api_is_id(exec_id))
		return err_set(e, R_BAD_VALUE, 0, "%s: that is no id of one", what);
	api_path(&p, d, "/exec/%s/json", exec_id);
	if (api_get(d, what, &p, R_NO_SUCH_COMMAND, JSON_OBJECT, &answer, e) < 0)
		return -1;
	if (!json_is_boolean(json_object_get(answer, "Running")))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer does not say whether it runs", what);
	ret->running = docker_json_true(answer, "Running");
	ret->exit_code = docker_json_number(answer, "ExitCode");
	ret->pid = docker_json_number(answer, "Pid");
	return 0;
}
