/* Owns the way from the options of a verb to libbailey and from its errors back.  Called by every verb of living
 * sandboxes. */
#include "door/cli/live.h"

#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "door/cli/verb.h"

enum { FLUSH_BYTES = 64 << 10 };

int live_give(int r, const struct bailey_error *failure, struct err *e)
{
	enum reason reason;

	if (r != -1)
		return r;
	reason = reason_by_name(failure->reason);
	err_set(e, reason == REASON_NONE ? R_IO_FAILED : reason, 0, "%s", failure->message);
	e->sys_errno = failure->sys_errno;
	return *failure->remedy ? err_remedy(e, "%s", failure->remedy) : -1;
}

void live_done(struct live *l)
{
	bailey_disconnect(l->s);
	bailey_close(l->home);
	*l = (struct live){ NULL, NULL };
}

/* Values that nobody set are left to the engine: a verb that reads no configuration must not override it. */
int live_open(struct live *ret, const struct options *o, struct err *e)
{
	struct bailey_options home = BAILEY_OPTIONS_INIT;
	struct bailey_error failure;

	*ret = (struct live){ NULL, NULL };
	home.cgroup_parent = o->cgroup_parent;
	if (o->origin[OPTION_ids_base].kind != ORIGIN_DEFAULT)
		home.ids_base = (uint32_t)o->ids_base;
	if (o->origin[OPTION_ids_count].kind != ORIGIN_DEFAULT)
		home.ids_count = (uint32_t)o->ids_count;
	if (o->origin[OPTION_agent_uid].kind != ORIGIN_DEFAULT)
		home.agent_uid = (uint32_t)o->agent_uid;
	if (o->origin[OPTION_agent_gid].kind != ORIGIN_DEFAULT)
		home.agent_gid = (uint32_t)o->agent_gid;
	home.layers = o->native_layers;
	home.layer_store = o->native_layer_store;
	home.engine = o->engine;
	home.runtime = o->runtime;
	home.docker_host = o->docker_host;
	home.docker_cert_path = o->docker_cert_path;
	home.docker_disk = o->docker_disk;
	return live_give(bailey_open(&home, &ret->home, &failure), &failure, e);
}

int live_connect(struct live *ret, const struct options *o, const char *sandbox, struct err *e)
{
	struct bailey_error failure;

	if (live_open(ret, o, e) < 0)
		return -1;
	return live_give(bailey_connect(ret->home, sandbox, &ret->s, &failure), &failure, e);
}

int live_command_id(const char *text, uint32_t *ret, struct err *e)
{
	uint64_t v;

	if (parse_u64(text, 1, INT32_MAX, "the command's id", &v, e) < 0)
		return err_remedy(e, "Run 'bailey ps SANDBOX': it lists the commands.");
	*ret = (uint32_t)v;
	return 0;
}

int live_flush(struct buf *b, bool end, struct err *e)
{
	if (!end && b->len < FLUSH_BYTES)
		return 0;
	if (cli_write(b, e) < 0)
		return -1;
	buf_clear(b);
	return 0;
}

int live_print_id(const struct options *o, const char *id, const char *name, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	if (!o->json) {
		buf_printf(&out, "%s\n", id);
		return cli_write(&out, e);
	}
	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_string(&j, "id", id);
	json_string(&j, "name", name);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

/* --- several sandboxes --- */

static void put_error(struct json *j, const char *key, const char *sandbox, const struct err *e)
{
	json_object_begin(j, key);
	json_string(j, "sandbox", sandbox);
	json_string(j, "reason", reason_name(e->reason));
	json_string(j, "message", e->message);
	json_string(j, "remedy", err_get_remedy(e));
	json_object_end(j);
}

static int print_each(int argc, char **argv, const struct err *errors, int first, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_array_begin(&j, "done");
	for (int i = 0; i < argc; i++)
		if (errors[i].reason == REASON_NONE)
			json_string(&j, NULL, argv[i]);
	json_array_end(&j);
	json_array_begin(&j, "errors");
	for (int i = 0; i < argc; i++)
		if (errors[i].reason != REASON_NONE)
			put_error(&j, NULL, argv[i], &errors[i]);
	json_array_end(&j);
	if (first < argc)
		put_error(&j, "error", argv[first], &errors[first]);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

int live_each(const struct options *o, int argc, char **argv, live_each_fn *fn, struct err *e)
{
	_cleanup_live_ struct live home = { NULL, NULL };
	_cleanup_free_ struct err *errors = xcalloc((size_t)argc, sizeof *errors);
	int first = argc, status = 0;

	if (live_open(&home, o, e) < 0)
		return -1;
	for (int i = 0; i < argc; i++) {
		if (fn(&home, o, argv[i], &errors[i]) == 0)
			continue;
		if (first == argc)
			first = i;
		if (!o->json)
			cli_report(&errors[i]);
	}
	if (o->json)
		status = print_each(argc, argv, errors, first, e);
	if (status == 0 && first < argc)
		status = reason_exit(errors[first].reason);
	for (int i = 0; i < argc; i++)
		err_done(&errors[i]);
	return status;
}
