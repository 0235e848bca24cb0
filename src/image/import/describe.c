/* Owns JSON that goes out: configurations of images, and what `--json` prints.  Apart from the files that read JSON, since
 * the two libraries have some names in common. */
#include "image/import/describe.h"

#include "base/json.h"
#include "base/str.h"
#include "image/import/config.h"

static void write_list(struct json *j, const char *key, const struct image_list *l)
{
	if (!l->n)
		return;
	json_array_begin(j, key);
	for (unsigned i = 0; i < l->n; i++)
		json_string(j, NULL, l->v[i]);
	json_array_end(j);
}

int config_write(const struct image *i, const char *diff_id, struct buf *ret, struct err *e)
{
	_cleanup_free_ char *id = xasprintf("sha256:%s", diff_id);
	struct json j;

	json_init(&j, ret);
	json_object_begin(&j, NULL);
	json_string(&j, "architecture", manifest_machine());
	if (i->created)
		json_string(&j, "created", i->created);
	json_string(&j, "os", "linux");
	json_object_begin(&j, "config");
	if (i->user)
		json_string(&j, "User", i->user);
	write_list(&j, "Env", &i->env);
	write_list(&j, "Entrypoint", &i->entrypoint);
	write_list(&j, "Cmd", &i->cmd);
	if (i->workdir)
		json_string(&j, "WorkingDir", i->workdir);
	json_object_end(&j);
	json_object_begin(&j, "rootfs");
	json_string(&j, "type", "layers");
	json_array_begin(&j, "diff_ids");
	json_string(&j, NULL, id);
	json_array_end(&j);
	json_object_end(&j);
	json_object_end(&j);
	return ret->failed ? err_set(e, R_NO_MEMORY, 0, "write a configuration") : 0;
}

static void describe_list(struct json *j, const char *key, const struct image_list *l)
{
	json_array_begin(j, key);
	for (unsigned i = 0; i < l->n; i++)
		json_string(j, NULL, l->v[i]);
	json_array_end(j);
}

static void describe_TEXT(struct json *j, const char *key, const image_TEXT *v)
{
	json_string(j, key, *v);
}

static void describe_NUMBER(struct json *j, const char *key, const image_NUMBER *v)
{
	json_uint(j, key, *v);
}

static void describe_FLAG(struct json *j, const char *key, const image_FLAG *v)
{
	json_bool(j, key, *v);
}

static void describe_LIST(struct json *j, const char *key, const image_LIST *v)
{
	describe_list(j, key, v);
}

static void add_image(struct json *j, const struct image *i)
{
	json_object_begin(j, NULL);
	json_string(j, "name", i->name);
#define FIELD(kind, member, meaning) describe_##kind(j, #member, &i->member);
#include "image/record.def"
#undef FIELD
	json_object_end(j);
}

void describe_image(const struct image *i, struct buf *ret)
{
	struct json j;

	json_init(&j, ret);
	add_image(&j, i);
	buf_puts(ret, "\n");
}

void describe_begin(struct buf *ret)
{
	buf_puts(ret, "[");
}

void describe_next(const struct image *i, bool first, struct buf *ret)
{
	struct json j;

	if (!first)
		buf_puts(ret, ",");
	json_init(&j, ret);
	add_image(&j, i);
}

void describe_end(struct buf *ret)
{
	buf_puts(ret, "]\n");
}

void describe_names(const char *key, const struct image_list *names, struct buf *ret)
{
	struct json j;

	json_init(&j, ret);
	json_object_begin(&j, NULL);
	describe_list(&j, key, names);
	json_object_end(&j);
	buf_puts(ret, "\n");
}
