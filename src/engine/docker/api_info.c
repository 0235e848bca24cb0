/* Owns the facts of a daemon.  The Docker engine calls docker_info(). */
#include <string.h>

#include "base/str.h"
#include "engine/docker/api.h"
#include "engine/docker/api_call.h"

enum { LIST_MAX = 64 };

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A word of a list, which is separated by spaces. */
static bool is_word(const char *s)
{
	return s && *s && strlen(s) < 200 && !strchr(s, ' ') && !str_has_control(s);
}

/* What does not fit is left out: nobody relies on a name that is not there. */
static void join_words(const char **words, size_t n, char *out, size_t cap)
{
	size_t used = 0;

	qsort(words, n, sizeof *words, by_text);
	out[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(words[i]);

		if (used + len + 2 > cap)
			return;
		if (used)
			out[used++] = ' ';
		memcpy(out + used, words[i], len + 1);
		used += len;
	}
}

static void take_runtimes(const json_t *info, struct docker_info *ret)
{
	/* json_object_foreach wants it writable */
	json_t *runtimes = json_object_get(info, "Runtimes"), *value;
	const char *words[LIST_MAX], *key;
	size_t n = 0;

	json_object_foreach(runtimes, key, value)
	{
		if (n < LIST_MAX && is_word(key))
			words[n++] = key;
	}
	join_words(words, n, ret->runtimes, sizeof ret->runtimes);
}

static void take_security(const json_t *info, struct docker_info *ret)
{
	const json_t *options = json_object_get(info, "SecurityOptions"), *value;
	const char *words[LIST_MAX];
	size_t n = 0, i;

	json_array_foreach(options, i, value)
	{
		if (n < LIST_MAX && is_word(json_string_value(value)))
			words[n++] = json_string_value(value);
		if (json_string_value(value) && streq(json_string_value(value), "name=rootless"))
			ret->rootless = true;
	}
	join_words(words, n, ret->security, sizeof ret->security);
}

static void take_status(const json_t *info, struct docker_info *ret)
{
	const json_t *rows = json_object_get(info, "DriverStatus"), *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *key = json_string_value(json_array_get(row, 0));
		const char *value = json_string_value(json_array_get(row, 1));

		if (key && value && streq(key, "Backing Filesystem"))
			docker_quote(ret->backing_fs, sizeof ret->backing_fs, value, strlen(value));
		if (key && value && streq(key, "Native Overlay Diff"))
			ret->plain_layers = streq(value, "true");
	}
}

static uint64_t take_count(const json_t *info, const char *key)
{
	int64_t n = docker_json_number(info, key);

	return n > 0 ? (uint64_t)n : 0;
}

int docker_info(struct docker *d, struct docker_info *ret, struct err *e)
{
	_cleanup_api_path_ struct api_path p;
	_cleanup_json_ json_t *info = NULL;
	struct docker_info i = { .podman = d->podman };

	api_path(&p, d, "/info");
	if (api_get(d, "asking for the daemon's settings", &p, REASON_NONE, JSON_OBJECT, &info, e) <
		0)
		return -1;
	FMT(i.version, "%s", d->version);
	FMT(i.api, "%s", d->api);
	FMT(i.os, "%s", d->os);
	FMT(i.arch, "%s", d->arch);
	FMT(i.kernel, "%s", d->kernel);
	i.memory_limit = docker_json_true(info, "MemoryLimit");
	i.swap_limit = docker_json_true(info, "SwapLimit");
	i.pids_limit = docker_json_true(info, "PidsLimit");
	i.cpu_quota =
		docker_json_true(info, "CpuCfsQuota") || docker_json_true(info, "CPUCfsQuota");
	i.rootless = docker_json_true(info, "Rootless");
	api_text(info, "ID", i.id, sizeof i.id);
	api_text(info, "Driver", i.driver, sizeof i.driver);
	api_text(info, "CgroupDriver", i.cgroup_driver, sizeof i.cgroup_driver);
	api_text(info, "CgroupVersion", i.cgroup_version, sizeof i.cgroup_version);
	api_text(info, "DefaultRuntime", i.default_runtime, sizeof i.default_runtime);
	api_text(info, "DockerRootDir", i.root_dir, sizeof i.root_dir);
	take_runtimes(info, &i);
	take_security(info, &i);
	take_status(info, &i);
	i.cpus = take_count(info, "NCPU");
	i.memory_bytes = take_count(info, "MemTotal");
	*ret = i;
	return 0;
}
