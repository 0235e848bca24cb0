/* Owns what a container is asked for.  Pure.  Must hold: nothing of a spec is left out silently, and no string of it is read
 * as anything but the one value that it is. */
#include "engine/docker/request.h"

#include <linux/capability.h>
#include <string.h>

#include "base/str.h"

/* --- pieces -------------------------------------------------------------------------------------------------------- */

static json_t *text(const char *s)
{
	return json_pack("s", s);
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static void put(json_t *object, const char *key, json_t *value)
{
	(void)json_object_set_new(object, key, value);
}

static json_t *list(char *const *words)
{
	json_t *a = json_array();

	for (; words && *words; words++)
		(void)json_array_append_new(a, text(*words));
	return a;
}

void request_name(char *ret, const char *home_hash, const char *id)
{
	str_format(ret, REQUEST_NAME, "bailey-%s-%s", home_hash, id);
}

/* As root inside the guest has what native's has; it takes the rest from itself before anything else runs. */
static bool is_root_made(const struct sandbox_spec *s)
{
	return s->profile == SPEC_CREATE || s->profile == SPEC_RUN;
}

/* --- parts --------------------------------------------------------------------------------------------------------- */

static json_t *labels(const struct sandbox_spec *s, const struct request_facts *f)
{
	json_t *o = json_object();
	char decimal[24];

	put(o, "bailey.id", text(s->id));
	put(o, "bailey.home", text(f->home_hash));
	put(o, "bailey.role", text(spec_profile_name(s->profile)));
	put(o, "bailey.version", text(BAILEY_VERSION));
	if (*s->tid)
		put(o, "bailey.tid", text(s->tid));
	if (*s->model)
		put(o, "bailey.model", text(s->model));
	if (s->deadline_ms)
		put(o, "bailey.deadline",
			text(FMT(decimal, "%llu", (unsigned long long)s->deadline_ms)));
	return o;
}

static json_t *entrypoint(const struct sandbox_spec *s)
{
	const char *how = s->add_caps ? "dial+caps" : s->allow_setgid ? "dial+setgid" : "dial";

	return json_pack("[sss]", REQUEST_GUEST, how, REQUEST_DIR);
}

static json_t *capabilities(const struct sandbox_spec *s)
{
	json_t *a = json_array();

	if (is_root_made(s)) {
		(void)json_array_append_new(a, text("KILL"));
		(void)json_array_append_new(a, text("SETGID"));
		(void)json_array_append_new(a, text("SETPCAP"));
		(void)json_array_append_new(a, text("SETUID"));
	}
	if (s->add_caps & SPEC_CAP_CHOWN)
		(void)json_array_append_new(a, text("CHOWN"));
	if (s->add_caps & SPEC_CAP_DAC_OVERRIDE)
		(void)json_array_append_new(a, text("DAC_OVERRIDE"));
	if (s->add_caps & SPEC_CAP_FOWNER)
		(void)json_array_append_new(a, text("FOWNER"));
	return a;
}

static bool is_shm(const struct spec_tmpfs *t)
{
	return streq(t->target, "/dev/shm");
}

static json_t *tmpfs(const struct sandbox_spec *s, const struct request_facts *f)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < s->n_tmpfs; i++) {
		const struct spec_tmpfs *t = &s->tmpfs[i];
		char options[192], owner[48] = "", inodes[40] = "";

		if (is_shm(t))
			continue;
		if (t->owned && !f->podman)
			FMT(owner, ",uid=%u,gid=%u", s->uid, s->gid);
		if (!f->podman)
			FMT(inodes, ",nr_inodes=%llu", (unsigned long long)t->inodes);
		/* where it can't be given away it must be everybody's */
		put(o, t->target,
			text(FMT(options, "rw,exec,nosuid,nodev,size=%llu%s,mode=%o%s",
				(unsigned long long)t->size, inodes,
				t->owned && f->podman ? 01777 : t->mode, owner)));
	}
	return o;
}

static uint64_t shm_size(const struct sandbox_spec *s)
{
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		if (is_shm(&s->tmpfs[i]))
			return s->tmpfs[i].size;
	return 64u << 20;
}

static json_t *bind(const char *source, const char *target, bool writable, bool podman)
{
	json_t *o = json_pack("{ss ss ss sb}", "Type", "bind", "Source", source, "Target", target,
		"ReadOnly", !writable);

	/* what is mounted below it on the host isn't shown: it would stay writable in a read-only one */
	put(o, "BindOptions",
		podman ? json_pack("{ss}", "Propagation", "rprivate")
		       : json_pack("{ss sb}", "Propagation", "rprivate", "NonRecursive", 1));
	return o;
}

static json_t *mounts(const struct sandbox_spec *s, const struct request_facts *f)
{
	json_t *a = json_array();

	(void)json_array_append_new(a, bind(f->ctl, REQUEST_DIR, false, f->podman));
	(void)json_array_append_new(a, bind(f->guest, REQUEST_GUEST, false, f->podman));
	for (unsigned i = 0; i < s->n_binds; i++) {
		const struct spec_bind *b = &s->binds[i];

		if (b->cow)
			(void)json_array_append_new(a,
				json_pack("{ss ss ss sb}", "Type", "volume", "Source",
					f->cow_volume, "Target", b->target, "ReadOnly", 0));
		else
			(void)json_array_append_new(
				a, bind(f->binds[i], b->target, b->writable, f->podman));
	}
	return a;
}

/* NanoCpus above the number of the host's are refused by the daemon; as a share of time the same limit is taken. */
static void put_cpus(json_t *o, uint32_t millis, uint32_t host)
{
	const bool fits = !host || millis <= (uint64_t)host * 1000u;

	if (fits) {
		put(o, "NanoCpus", number((uint64_t)millis * 1000000u));
		return;
	}
	put(o, "CpuPeriod", number(100000));
	put(o, "CpuQuota", number((uint64_t)millis * 100u));
}

/* Podman raises the limit on processes of a user as high as it may where another limit is named, which root without
 * CAP_SYS_RESOURCE can't follow.  The cgroup's is what bounds a sandbox: this is for all of a user's together. */
enum { PODMAN_PROCESSES = 16384 };

static json_t *ulimits(uint32_t files, bool podman)
{
	json_t *a =
		json_pack("[{ss si si}]", "Name", "nofile", "Soft", (int)files, "Hard", (int)files);

	if (podman)
		(void)json_array_append_new(a,
			json_pack("{ss si si}", "Name", "nproc", "Soft", PODMAN_PROCESSES, "Hard",
				PODMAN_PROCESSES));
	return a;
}

uint32_t request_pids(const struct sandbox_spec *s)
{
	return s->limits.pids + (is_root_made(s) ? REQUEST_OWN_PIDS : 0);
}

static void put_limits(json_t *o, const struct sandbox_spec *s, const struct request_facts *f)
{
	const struct spec_limits *l = &s->limits;

	if (!l->unlimited) {
		put(o, "Memory", number(l->memory_bytes));
		/* of memory and swap together: there is no swap */
		put(o, "MemorySwap", number(l->memory_bytes));
		put_cpus(o, l->cpu_millis, f->cpus);
		put(o, "PidsLimit", number(request_pids(s)));
	}
	if (s->nofile)
		put(o, "Ulimits", ulimits(s->nofile, f->podman));
}

static json_t *log_config(const struct sandbox_spec *s)
{
	char size[32], files[16];

	/* in bytes only where no whole unit says the same */
	if (s->log_bytes % 1000000u == 0)
		FMT(size, "%llum", (unsigned long long)s->log_bytes / 1000000u);
	else
		FMT(size, "%llu", (unsigned long long)s->log_bytes);
	return json_pack("{ss s{ss ss}}", "Type", "json-file", "Config", "max-size", size,
		"max-file", FMT(files, "%u", s->log_files));
}

static json_t *host_config(const struct sandbox_spec *s, const struct request_facts *f)
{
	json_t *o = json_object();
	char decimal[24];

	put(o, "NetworkMode", text("none"));
	put(o, "IpcMode", text("private"));
	put(o, "CgroupnsMode", text("private"));
	put(o, "Privileged", json_false());
	put(o, "PublishAllPorts", json_false());
	put(o, "AutoRemove", json_false());
	put(o, "ReadonlyRootfs", json_boolean(s->read_only));
	put(o, "CapDrop", json_pack("[s]", "ALL"));
	put(o, "CapAdd", capabilities(s));
	put(o, "SecurityOpt", json_pack("[s]", "no-new-privileges:true"));
	put(o, "Init", json_boolean(s->init));
	put(o, "ShmSize", number(shm_size(s)));
	put(o, "RestartPolicy", json_pack("{ss}", "Name", "no"));
	put(o, "Tmpfs", tmpfs(s, f));
	put(o, "Mounts", mounts(s, f));
	put_limits(o, s, f);
	if (s->log_bytes)
		put(o, "LogConfig", log_config(s));
	if (f->runtime && *f->runtime)
		put(o, "Runtime", text(f->runtime));
	if (f->storage_size && s->disk_bytes)
		put(o, "StorageOpt",
			json_pack("{ss}", "size",
				FMT(decimal, "%llu", (unsigned long long)s->disk_bytes)));
	return o;
}

json_t *request_create(const struct sandbox_spec *s, const struct request_facts *f, struct err *e)
{
	json_t *o;
	char user[32];

	if (!f->image || !*f->image) {
		err_set(e, R_BAD_VALUE, 0, "make a container: its image is not named");
		return NULL;
	}
	for (unsigned i = 0; i < s->n_binds; i++)
		if (s->binds[i].cow ? !f->cow_volume : !f->binds[i]) {
			err_set(e, R_SETUP_FAILED, 0, "make a container: mount '%s' has no source",
				s->binds[i].target);
			return NULL;
		}
	o = json_object();
	put(o, "Image", text(f->image));
	put(o, "Hostname", text(s->hostname));
	put(o, "User", text(is_root_made(s) ? "0:0" : FMT(user, "%u:%u", s->uid, s->gid)));
	put(o, "WorkingDir", text(s->workdir));
	put(o, "Entrypoint", entrypoint(s));
	put(o, "Cmd", list(f->command));
	put(o, "Env", list(s->env));
	put(o, "Labels", labels(s, f));
	put(o, "Tty", json_false());
	put(o, "OpenStdin", json_false());
	/* an image's own would be run beside everything that Bailey knows of */
	put(o, "Healthcheck", json_pack("{s[s]}", "Test", "NONE"));
	put(o, "HostConfig", host_config(s, f));
	return o;
}

/* --- read back ----------------------------------------------------------------------------------------------------- */

struct compare {
	bool podman;
	char path[160];
	struct err *e;
};

static int differs(struct compare *c, const json_t *asked, const json_t *got)
{
	static const char *const limits[] = { "Memory", "MemorySwap", "NanoCpus", "CpuQuota",
		"CpuPeriod", "PidsLimit", "Ulimits", "StorageOpt", "ShmSize", "Tmpfs" };
	char *a = json_dumps(asked, JSON_ENCODE_ANY | JSON_COMPACT);
	char *g = got ? json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	enum reason why = R_SETUP_FAILED;
	char shown[200], wanted[200];

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (strstr(c->path, limits[i]))
			why = R_LIMITS_UNENFORCED;
	err_set(c->e, why, 0, "make a container: %s is %s, not %s", c->path,
		g ? docker_quote(shown, sizeof shown, g, strlen(g)) : "not there",
		a ? docker_quote(wanted, sizeof wanted, a, strlen(a)) : "?");
	free(a);
	free(g);
	return -1;
}

static bool is_empty(const json_t *v)
{
	return !v || json_is_null(v) || json_is_false(v) ||
		(json_is_array(v) && !json_array_size(v)) ||
		(json_is_object(v) && !json_object_size(v)) ||
		(json_is_string(v) && !*json_string_value(v)) ||
		(json_is_integer(v) && !json_integer_value(v));
}

static bool same_word(const json_t *a, const json_t *b)
{
	const char *x = json_string_value(a), *y = json_string_value(b), *rest;

	if (!x || !y)
		return false;
	rest = str_after(y, "CAP_");
	return streq(x, y) || (rest && streq(x, rest));
}

/* A daemon leaves out what is false. */
static bool same_parts(const json_t *a, const json_t *b)
{
	const json_t *value;
	const char *key;

	/* NOLINTNEXTLINE(performance-no-int-to-ptr): jansson's macro takes no const */
	json_object_foreach((json_t *)(uintptr_t)a, key, value)
	{
		const json_t *other = json_object_get(b, key);

		if (is_empty(value) ? !is_empty(other) : !json_equal(value, other))
			return false;
	}
	return true;
}

static bool same_object(const json_t *a, const json_t *b)
{
	return json_is_object(a) && json_is_object(b) && same_parts(a, b) && same_parts(b, a);
}

static bool contains(const json_t *array, const json_t *word)
{
	const json_t *one;
	size_t i;

	json_array_foreach(array, i, one) if (json_equal(one, word) || same_word(word, one) ||
		same_object(word, one)) return true;
	return false;
}

/* Lists without an order. */
static bool is_set(const char *key)
{
	return streq(key, "CapAdd") || streq(key, "CapDrop") || streq(key, "SecurityOpt") ||
		streq(key, "Ulimits") || streq(key, "Mounts");
}

static int compare_value(
	struct compare *c, const char *key, const json_t *asked, const json_t *got);

static int compare_array(struct compare *c, const char *key, const json_t *asked, const json_t *got)
{
	/* the image's own come beside ours */
	const bool more = streq(key, "Env");
	const json_t *one;
	size_t i;

	if (!json_is_array(got) || (!more && json_array_size(got) != json_array_size(asked)))
		return differs(c, asked, got);
	json_array_foreach(asked, i, one) if (more || is_set(key)
			? !contains(got, one)
			: !json_equal(one, json_array_get(got, i))) return differs(c, asked, got);
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the request */
static int compare_object(struct compare *c, const json_t *asked, const json_t *got)
{
	const size_t n = strlen(c->path);
	const json_t *value;
	const char *key;

	if (!json_is_object(got))
		return differs(c, asked, got);
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): jansson's macro takes no const */
	json_object_foreach((json_t *)(uintptr_t)asked, key, value)
	{
		str_format(c->path + n, sizeof c->path - n, "%s%s", n ? "." : "", key);
		if (compare_value(c, key, value, json_object_get(got, key)) < 0)
			return -1;
		c->path[n] = '\0';
	}
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the request */
static int compare_value(struct compare *c, const char *key, const json_t *asked, const json_t *got)
{
	if (is_empty(asked))
		return is_empty(got) ? 0 : differs(c, asked, got);
	if (json_is_array(asked))
		return compare_array(c, key, asked, got);
	if (json_is_object(asked))
		return compare_object(c, asked, got);
	return json_equal(asked, got) ? 0 : differs(c, asked, got);
}

/* What an image would add. */
static int compare_mounts(struct compare *c, const json_t *asked, const json_t *got)
{
	const json_t *wanted = json_object_get(json_object_get(asked, "HostConfig"), "Mounts");
	const json_t *there = json_object_get(got, "Mounts");
	const json_t *tmpfs = json_object_get(json_object_get(asked, "HostConfig"), "Tmpfs");
	size_t i, n = 0;
	const json_t *one;

	json_array_foreach(there, i, one)
	{
		const char *target = docker_json_text(one, "Destination");

		if (target && !json_object_get(tmpfs, target))
			n++;
	}
	if (n == json_array_size(wanted))
		return 0;
	err_set(c->e, R_SETUP_FAILED, 0,
		"make a container: it has %zu mounts, not %zu: its image declares volumes", n,
		json_array_size(wanted));
	return err_remedy(c->e, "Use an image without VOLUME.");
}

/* Podman says some things in its own words; what its containers really have is for the probe to find out. */
static const char *const podman_own[] = { "HostConfig.IpcMode", "HostConfig.Tmpfs",
	"HostConfig.Mounts", "HostConfig.SecurityOpt", "HostConfig.CapDrop", "HostConfig.CapAdd",
	"HostConfig.Init", "HostConfig.RestartPolicy", "HostConfig.Runtime",
	"HostConfig.CgroupnsMode", "HostConfig.LogConfig", "HostConfig.Ulimits",
	"Config.Healthcheck", "Config.Entrypoint" };

static void forget(json_t *asked, const char *path)
{
	const char *dot = strchr(path, '.');
	char parent[32];

	str_format(parent, sizeof parent, "%.*s", (int)(dot - path), path);
	(void)json_object_del(json_object_get(asked, parent), dot + 1);
}

int request_compare(const json_t *asked, const json_t *inspected, bool podman, struct err *e)
{
	struct compare c = { .podman = podman, .e = e };
	_cleanup_json_ json_t *want =
		json_pack("{sO}", "HostConfig", json_object_get(asked, "HostConfig"));
	_cleanup_json_ json_t *config = json_deep_copy(asked);
	_cleanup_json_ json_t *deep = NULL;

	if (!want || !config)
		return err_set(e, R_NO_MEMORY, 0, "compare a container");
	(void)json_object_del(config, "HostConfig");
	/* the daemon may say the image's id instead */
	(void)json_object_del(config, "Image");
	(void)json_object_set(want, "Config", config);
	deep = json_deep_copy(want);
	if (!deep)
		return err_set(e, R_NO_MEMORY, 0, "compare a container");
	for (size_t i = 0; podman && i < sizeof podman_own / sizeof *podman_own; i++)
		forget(deep, podman_own[i]);
	if (compare_object(&c, deep, inspected) < 0)
		return -1;
	return podman ? 0 : compare_mounts(&c, asked, inspected);
}

/* --- what the guest looks at --------------------------------------------------------------------------------------- */

int request_checks(const struct sandbox_spec *s, bool objects, bool podman, struct buf *out)
{
	for (unsigned i = 0; i < s->n_tmpfs; i++) {
		const struct spec_tmpfs *t = &s->tmpfs[i];

		if (!is_shm(t))
			(void)buf_printf(out, "tmpfs %o %u %u %s\n",
				t->owned && podman ? 01777 : t->mode,
				t->owned && !podman ? s->uid : 0, t->owned && !podman ? s->gid : 0,
				t->target);
	}
	for (unsigned i = 0; objects && i < s->n_binds; i++) {
		const struct spec_bind *b = &s->binds[i];

		if (!b->cow && b->ino)
			(void)buf_printf(out, "object %llu %llu %s\n", (unsigned long long)b->dev,
				(unsigned long long)b->ino, b->target);
	}
	return out->failed ? -1 : 0;
}
