/* Owns how the record of a sandbox looks as JSON.  Called by the verbs that print records; pure. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"

enum form { FORM_TEXT, FORM_NUMBER, FORM_TRUTH };

/* By the whole key, or by what it ends in. */
static enum form form_of(const char *key)
{
	static const char *const truths[] = { "keep", "read_only", "unlimited", "ids_shared" };
	static const char *const numbers[] = { "uid", "gid", "pids", "pids_used", "pids_refused",
		"oom_kills", "layers", "commands_running" };
	static const char *const ends[] = { "_ms", "_us", "_bytes", "_pid", "_start", "_millis" };
	const size_t n = strlen(key);

	for (size_t i = 0; i < sizeof truths / sizeof *truths; i++)
		if (streq(key, truths[i]))
			return FORM_TRUTH;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (streq(key, numbers[i]))
			return FORM_NUMBER;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		const size_t len = strlen(ends[i]);

		if (n > len && streq(key + n - len, ends[i]))
			return FORM_NUMBER;
	}
	return FORM_TEXT;
}

void record_put(struct json *j, const char *key, const char *value)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	const enum form form = form_of(key);
	uint64_t v;

	if (form == FORM_TRUTH)
		json_bool(j, key, streq(value, "1"));
	else if (form == FORM_NUMBER && parse_u64(value, 0, UINT64_MAX, key, &v, &ignored) == 0)
		json_uint(j, key, v);
	else if (form == FORM_NUMBER || !*value || streq(value, "-"))
		json_null(j, key);
	else
		json_string(j, key, value);
}

/* id, name, state, kind and live come first and are always there; the state is what was found out, not what was written. */
void record_put_all(struct json *j, const struct bailey_info *info)
{
	const char *key, *value;

	json_string(j, "id", info->id);
	record_put(j, "name", info->name);
	json_string(j, "state", info->state);
	json_string(j, "kind", info->kind);
	json_bool(j, "live", info->live);
	for (size_t i = 0; bailey_info_at(info, i, &key, &value) == 0; i++)
		if (!streq(key, "id") && !streq(key, "name") && !streq(key, "state") &&
			!streq(key, "kind"))
			record_put(j, key, value);
}
