/* Owns how the record of a sandbox looks as JSON.  Called by the verbs that print records; pure. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"

/* By what they end in, or whole. */
static bool is_number(const char *key)
{
	static const char *const ends[] = { "_ms", "_us", "_bytes", "_pid", "_start", "_millis" };
	static const char *const whole[] = { "uid", "gid", "pids", "pids_used", "pids_max",
		"pids_refused", "oom_kills" };
	const size_t n = strlen(key);

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		const size_t len = strlen(ends[i]);

		if (n > len && streq(key + n - len, ends[i]))
			return true;
	}
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
		if (streq(key, whole[i]))
			return true;
	return false;
}

void record_put(struct json *j, const char *key, const char *value)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	uint64_t v;

	if (streq(key, "keep") || streq(key, "read_only"))
		json_bool(j, key, streq(value, "1"));
	else if (is_number(key) && parse_u64(value, 0, UINT64_MAX, key, &v, &ignored) == 0)
		json_uint(j, key, v);
	else if (is_number(key) || (streq(key, "name") && !*value))
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
