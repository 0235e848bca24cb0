/* Owns the calls about images and volumes.  The Docker engine calls them. */
#include <string.h>

#include "base/str.h"
#include "engine/docker/api.h"
#include "engine/docker/api_call.h"

enum { WHAT = 320 };

int api_image_missing(const char *ref, const struct http_reply *r, const char *what, struct err *e)
{
	size_t first = ref ? strcspn(ref, "/") : 0;

	api_refused(R_IMAGE_MISSING, r, what, e);
	if (ref && str_after(ref, "bailey/"))
		return err_remedy(e, "Run 'bailey image build agent': it makes this image here.");
	/* the first part of a name is a registry's when it has a dot or a port */
	if (ref && ref[first] == '/' && (memchr(ref, '.', first) || memchr(ref, ':', first)))
		return err_remedy(e, "Run 'docker pull %s'.", ref);
	return err_remedy(e, "Load it with 'docker load', or name one of 'docker image ls'.");
}

int docker_image_inspect(struct docker *d, const char *ref, json_t **ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *value = NULL;
	char what[WHAT];

	if (api_check_ref(ref, e) < 0)
		return -1;
	FMT(what, "inspecting the image '%s'", ref);
	api_path(&p, d, "/images/%s/json", ref);
	if (api_call(d, what, "GET", &p, NULL, &reply, e) < 0)
		return -1;
	if (reply.status == 404)
		return api_image_missing(ref, &reply, what, e);
	if (reply.status != 200)
		return api_refused(R_DOCKER_REFUSED, &reply, what, e);
	if (api_json(&reply, what, JSON_OBJECT, &value, e) < 0)
		return -1;
	if (!api_is_image_id(docker_json_text(value, "Id")))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer describes no image", what);
	*ret = move_ptr(value);
	return 0;
}

int docker_image_list(struct docker *d, const char *label, json_t **ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_json_ json_t *value = NULL;
	static const char what[] = "listing the images";

	api_path(&p, d, "/images/json");
	if ((label && api_query_label(&p, label, e) < 0) ||
		api_get(d, what, &p, REASON_NONE, JSON_ARRAY, &value, e) < 0 ||
		api_check_ids(value, api_is_image_id, what, e) < 0)
		return -1;
	*ret = move_ptr(value);
	return 0;
}

/* The answer of a call that changes something. */
static int changed(struct docker *d, const char *what, const char *method, struct api_path *p,
	const char *image, struct err *e)
{
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };

	if (api_call(d, what, method, p, NULL, &reply, e) < 0)
		return -1;
	if (reply.status < 300)
		return 0;
	if (reply.status == 404)
		return image ? api_image_missing(image, &reply, what, e) : 0;
	return api_refused(reply.status == 409 ? R_BUSY : R_DOCKER_REFUSED, &reply, what, e);
}

int docker_image_tag(
	struct docker *d, const char *ref, const char *repo, const char *tag, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	char what[2 * WHAT];

	if (api_check_ref(ref, e) < 0 || api_check_ref(repo, e) < 0 || api_check_ref(tag, e) < 0)
		return -1;
	FMT(what, "naming the image '%s' %s:%s", ref, repo, tag);
	api_path(&p, d, "/images/%s/tag", ref);
	api_query(&p, "repo", repo);
	api_query(&p, "tag", tag);
	return changed(d, what, "POST", &p, ref, e);
}

int docker_image_remove(struct docker *d, const char *ref, bool force, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	char what[WHAT];

	if (api_check_ref(ref, e) < 0)
		return -1;
	FMT(what, "removing the image '%s'", ref);
	api_path(&p, d, "/images/%s?force=%d", ref, force);
	return changed(d, what, "DELETE", &p, NULL, e);
}

/* --- images from archives -------------------------------------------------------------------------------------------- */

/* What a daemon reports while it reads an archive. */
struct progress {
	const char *what;
	char loaded[DOCKER_REF];  /* the last that it says to have loaded */
	char id[DOCKER_IMAGE_ID]; /* the last status that is an id */
};

static void take_loaded(struct progress *g, const char *text)
{
	static const char *const heads[] = {
		"Loaded image ID: ", "Loaded image: ", "Loaded image(s): "
	};
	struct err ignored = ERR_INIT;
	const char *rest = NULL;
	char ref[DOCKER_REF];
	size_t n;

	for (size_t i = 0; !rest && i < sizeof heads / sizeof heads[0]; i++)
		rest = str_after(text, heads[i]);
	n = rest ? strcspn(rest, ",\n\r ") : 0;
	if (n == 0 || n >= sizeof ref)
		return;
	memcpy(ref, rest, n);
	ref[n] = '\0';
	if (api_is_image_id(ref) || api_check_ref(ref, &ignored) == 0)
		FMT(g->loaded, "%s", ref);
	err_done(&ignored);
}

static int take_progress(void *arg, const json_t *value, struct err *e)
{
	struct progress *g = arg;
	const char *error = docker_json_text(value, "error");
	const char *text = docker_json_text(value, "stream");
	const char *status = docker_json_text(value, "status");
	char quoted[512];

	if (error)
		return err_set(e, R_DOCKER_REFUSED, 0, "%s: the daemon says: \"%s\"", g->what,
			docker_quote(quoted, sizeof quoted, error, strlen(error)));
	if (text)
		take_loaded(g, text);
	if (status && api_is_image_id(status))
		memcpy(g->id, status, sizeof g->id);
	return 0;
}

/* Sends an archive and reads the report. */
static int send_archive(
	struct docker *d, struct api_path *p, int tar_fd, struct progress *g, struct err *e)
{
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	struct http_request q = { .type = "application/x-tar",
		.body_fd = &tar_fd,
		.timeout_ms = DOCKER_STREAM_MS,
		.stall_ms = DOCKER_COMMIT_MS,
		.want = "json" };

	if (api_call_with(d, g->what, "POST", p, &q, &reply, e) < 0)
		return -1;
	if (reply.status != 200)
		return api_refused(R_DOCKER_REFUSED, &reply, g->what, e);
	return docker_json_series(reply.body.data ? reply.body.data : "", reply.body.len, g->what,
		take_progress, g, e);
}

int docker_image_load(struct docker *d, int tar_fd, char ret_ref[DOCKER_REF], struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	struct progress g = { .what = "loading an image" };

	api_path(&p, d, "/images/load?quiet=1");
	if (send_archive(d, &p, tar_fd, &g, e) < 0)
		return -1;
	if (!g.loaded[0])
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon does not say which it loaded", g.what);
	memcpy(ret_ref, g.loaded, sizeof g.loaded);
	return 0;
}

int docker_image_import(struct docker *d, int tar_fd, const char *repo, const char *tag,
	const char *changes, char ret_id[DOCKER_IMAGE_ID], struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_free_ char *ref = xasprintf("%s:%s", repo, tag);
	struct progress g = { .what = "importing an image" };

	if (api_check_ref(repo, e) < 0 || api_check_ref(ref, e) < 0)
		return -1;
	api_path(&p, d, "/images/create");
	api_query(&p, "fromSrc", "-");
	/* Podman reads no tag of its own here */
	api_query(&p, "repo", ref);
	api_query_lines(&p, "changes", changes);
	if (send_archive(d, &p, tar_fd, &g, e) < 0)
		return -1;
	if (!g.id[0])
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon does not say which it made", g.what);
	memcpy(ret_id, g.id, sizeof g.id);
	return 0;
}

/* --- volumes --------------------------------------------------------------------------------------------------------- */

int docker_volume_create(struct docker *d, const char *name, const json_t *labels, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	_cleanup_json_ json_t *body = NULL;
	char what[WHAT];

	if (api_check_name(name, "volume", e) < 0)
		return -1;
	FMT(what, "creating the volume '%s'", name);
	body = json_pack("{s:s, s:O?}", "Name", name, "Labels", labels);
	if (!body)
		return err_set(e, R_NO_MEMORY, 0, "%s: the request can't be written", what);
	api_path(&p, d, "/volumes/create");
	if (api_call(d, what, "POST", &p, body, &reply, e) < 0)
		return -1;
	return reply.status == 201 || reply.status == 200
		? 0
		: api_refused(R_DOCKER_REFUSED, &reply, what, e);
}

int docker_volume_remove(struct docker *d, const char *name, bool force, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	char what[WHAT];

	if (api_check_name(name, "volume", e) < 0)
		return -1;
	FMT(what, "removing the volume '%s'", name);
	api_path(&p, d, "/volumes/%s?force=%d", name, force);
	return changed(d, what, "DELETE", &p, NULL, e);
}

int docker_volume_inspect(struct docker *d, const char *name, json_t **ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p = { .has_query = false };
	char what[WHAT];

	if (api_check_name(name, "volume", e) < 0)
		return -1;
	FMT(what, "inspecting the volume '%s'", name);
	api_path(&p, d, "/volumes/%s", name);
	return api_get(d, what, &p, R_PATH_NOT_FOUND, JSON_OBJECT, ret, e);
}
