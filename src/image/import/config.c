/* Owns the configuration of images. */
#include "image/import/config.h"

#include <string.h>

#include "base/str.h"
#include "image/import/digest.h"
#include "image/import/parse.h"

enum { MAX_TEXT = 128 << 10 }; /* bytes of one word: what execve takes */

void diff_ids_done(struct diff_ids *d)
{
	free(d->hex);
	*d = (struct diff_ids){ NULL, 0 };
}

static int invalid(struct err *e, const char *why)
{
	return err_set(e, R_IMAGE_INVALID, 0, "read the configuration of the image: %s", why);
}

/* A list of words, null when there are none. */
static int read_list(const json_t *object, const char *key, struct image_list *ret, struct err *e)
{
	const json_t *list = json_object_get(object, key);

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return err_set(e, R_IMAGE_INVALID, 0,
			"read the configuration of the image: '%s' is no list", key);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));

		if (!word || strlen(word) > MAX_TEXT || !image_list_add(ret, word))
			return err_set(e, R_IMAGE_INVALID, 0,
				"read the configuration of the image: '%s' is too long or no text",
				key);
	}
	return 0;
}

static int check_env(const struct image_list *env, struct err *e)
{
	for (unsigned i = 0; i < env->n; i++) {
		const char *eq = strchr(env->v[i], '=');

		if (!eq || eq == env->v[i])
			return invalid(e, "a variable without a name or without '='");
		for (const char *p = env->v[i]; p < eq; p++)
			if ((unsigned char)*p <= 0x20 || *p == 0x7f)
				return invalid(e, "a variable whose name has control bytes");
	}
	return 0;
}

static int read_workdir(const json_t *config, struct image *i, struct err *e)
{
	const char *dir = parse_text(config, "WorkingDir");
	char clean[NAME_MAX_PATH];

	if (!dir || !*dir)
		return 0;
	if (*dir != '/' || str_has_control(dir))
		return invalid(e, "its working directory is not absolute");
	while (*dir == '/')
		dir++;
	*clean = '\0';
	if (*dir && name_clean(dir, clean, e) < 0)
		return err_wrap(e, "the working directory of the image");
	i->workdir = xasprintf("/%s", clean);
	return 0;
}

static char *short_text(const char *text, size_t max)
{
	return text && *text && strlen(text) <= max && !str_has_control(text) ? xstrdup(text)
									      : NULL;
}

static int read_diff_ids(const json_t *config, struct diff_ids *ret, struct err *e)
{
	const json_t *rootfs = json_object_get(config, "rootfs");
	const json_t *list = json_object_get(rootfs, "diff_ids");
	size_t n = json_array_size(list);

	if (!streq(parse_text(rootfs, "type") ?: "", "layers") || n == 0 || n > MANIFEST_MAX_LAYERS)
		return invalid(e, "its root is not made of layers");
	ret->hex = xcalloc(n, sizeof *ret->hex);
	ret->n = (unsigned)n;
	for (size_t i = 0; i < n; i++) {
		const char *hex = image_digest_hex(json_string_value(json_array_get(list, i)));

		if (!hex)
			return invalid(e, "a layer without a SHA-256 digest");
		FMT(ret->hex[i], "%s", hex);
	}
	return 0;
}

static int check_machine(const json_t *j, struct err *e)
{
	const char *os = parse_text(j, "os"), *arch = parse_text(j, "architecture");

	if (os && arch && streq(os, "linux") && streq(arch, manifest_machine()))
		return 0;
	(void)err_set(e, R_IMAGE_INVALID, 0, "use the image: it is for '%.32s/%.32s'",
		os ?: "(unknown)", arch ?: "(unknown)");
	return err_remedy(e, "Take the image for linux/%s.", manifest_machine());
}

int config_read(const struct buf *text, struct image *ret, struct diff_ids *ret_ids, struct err *e)
{
	_cleanup_json_ json_t *j = NULL;
	const json_t *config;
	char hex[IMAGE_HEX];

	if (parse_json(text, "the configuration of the image", &j, e) < 0 ||
		check_machine(j, e) < 0 || read_diff_ids(j, ret_ids, e) < 0)
		return -1;
	digest_of(text->data, text->len, hex);
	ret->id = xasprintf("sha256:%s", hex);
	ret->layers = ret_ids->n;
	ret->created = short_text(parse_text(j, "created"), 64);
	config = json_object_get(j, "config");
	if (read_list(config, "Env", &ret->env, e) < 0 || check_env(&ret->env, e) < 0 ||
		read_list(config, "Entrypoint", &ret->entrypoint, e) < 0 ||
		read_list(config, "Cmd", &ret->cmd, e) < 0 || read_workdir(config, ret, e) < 0)
		return -1;
	if (parse_text(config, "User") && *parse_text(config, "User")) {
		ret->user = short_text(parse_text(config, "User"), 256);
		if (!ret->user)
			return invalid(e, "the name of its user is too long");
	}
	return 0;
}
