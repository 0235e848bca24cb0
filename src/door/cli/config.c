/* Owns `config show` and `config check`.  Called by main.c; the work of reading was done by options_load(). */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "door/cli/verb.h"

static bool is_set(const struct options *o, enum option i)
{
	return option_table[i].type != OPT_STRING || options_text(o, i);
}

/* Keys that are refused everywhere but on the command line are no part of the configuration. */
static bool is_key(enum option i)
{
	return option_table[i].key && option_table[i].who & (OPT_USER | OPT_SYSTEM);
}

static void put_toml_value(const struct options *o, enum option i, struct buf *out)
{
	enum opt_type type = option_table[i].type;
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct json j;

	options_format(o, i, &text);
	if (type == OPT_UINT || type == OPT_BOOL || type == OPT_CPUS) {
		buf_puts(out, text.data ?: "");
		return;
	}
	/* what JSON escapes in a string, TOML reads the same way */
	json_init(&j, out);
	json_bytes(&j, NULL, text.data ?: "", text.len);
}

static void put_line(const struct options *o, enum option i, struct buf *out)
{
	const char *name = strchr(option_table[i].key, '.') + 1;
	size_t before = out->len;

	if (!is_set(o, i))
		buf_puts(out, "# ");
	buf_printf(out, "%s = ", name);
	put_toml_value(o, i, out);
	if (!o->origin_shown) {
		buf_puts(out, "\n");
		return;
	}
	buf_printf(out, "%*s# ", (int)(out->len - before < 30 ? 30 - (out->len - before) : 1), "");
	options_origin(o, i, out);
	buf_puts(out, "\n");
}

static void show_toml(const struct options *o, struct buf *out)
{
	const char *section = "";
	size_t n = 0;

	for (enum option i = 0; i < OPTION_MAX; i++) {
		const char *key = option_table[i].key;

		if (!is_key(i))
			continue;
		if (strncmp(key, section, n + 1) || !n) {
			n = strcspn(key, ".");
			buf_printf(out, "%s[%.*s]\n", *section ? "\n" : "", (int)n, key);
			section = key;
		}
		put_line(o, i, out);
	}
}

static void put_json_origin(struct json *j, const struct options *o, enum option i)
{
	static const char *const kinds[] = { "default", "system", "user", "environment", "flag" };
	const struct origin *where = &o->origin[i];

	json_string(j, "origin", kinds[where->kind]);
	if (where->kind == ORIGIN_SYSTEM || where->kind == ORIGIN_USER) {
		json_string(j, "file", o->file[where->kind]);
		json_uint(j, "line", where->line);
	} else if (where->kind == ORIGIN_ENV) {
		json_string(j, "variable", option_table[i].env);
	}
}

static void show_json(const struct options *o, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_object_begin(&j, "config");
	for (enum option i = 0; i < OPTION_MAX; i++) {
		_cleanup_buf_ struct buf text = BUF_INIT;

		if (!is_key(i))
			continue;
		options_format(o, i, &text);
		json_object_begin(&j, option_table[i].key);
		if (option_table[i].type == OPT_STRING)
			json_string(&j, "value", is_set(o, i) ? text.data : NULL);
		else if (option_table[i].type == OPT_BOOL)
			json_bool(&j, "value", options_number(o, i) != 0);
		else
			json_uint(&j, "value", options_number(o, i));
		json_string(&j, "text", is_set(o, i) ? text.data : NULL);
		put_json_origin(&j, o, i);
		json_object_end(&j);
	}
	json_object_end(&j);
	json_object_end(&j);
	buf_puts(out, "\n");
}

int verb_config_show(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	(void)argc;
	(void)argv;
	if (o->json)
		show_json(o, &out);
	else
		show_toml(o, &out);
	return cli_write(&out, e);
}

/* Reaching this verb means that everything was read without a fault. */
int verb_config_check(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	bool any = false;
	struct json j;

	(void)argc;
	(void)argv;
	json_init(&j, &out);
	if (o->json) {
		json_object_begin(&j, NULL);
		json_bool(&j, "ok", true);
		json_array_begin(&j, "files");
	}
	for (enum origin_kind k = ORIGIN_SYSTEM; k <= ORIGIN_USER; k++) {
		if (!o->file[k])
			continue;
		any = true;
		if (o->json)
			json_string(&j, NULL, o->file[k]);
		else
			buf_printf(&out, "ok: %s\n", o->file[k]);
	}
	if (o->json) {
		json_array_end(&j);
		json_object_end(&j);
		buf_puts(&out, "\n");
	} else if (!any) {
		buf_puts(&out, "ok: no config file exists\n");
	}
	return cli_write(&out, e);
}
