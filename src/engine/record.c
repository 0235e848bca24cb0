/* Owns the text form of a sandbox's record.  Called by its owner. */
#include "engine/record.h"

#include <string.h>

#include "base/str.h"

void record_line(struct buf *out, const char *key, const char *value)
{
	(void)buf_printf(out, "%s ", key);
	for (const char *p = value; *p; p++) {
		if (*p == '\n')
			(void)buf_puts(out, "\\n");
		else if (*p == '\\')
			(void)buf_puts(out, "\\\\");
		else
			(void)buf_add(out, p, 1);
	}
	(void)buf_puts(out, "\n");
}

void record_number(struct buf *out, const char *key, uint64_t value)
{
	(void)buf_printf(out, "%s %llu\n", key, (unsigned long long)value);
}

static const char *workspace_mode(const struct sandbox_spec *s)
{
	const struct spec_bind *b;

	if (s->workspace < 0)
		return "-";
	b = &s->binds[s->workspace];
	return b->cow ? "cow" : b->writable ? "rw" : "ro";
}

void record_fill(struct run_record *r, const struct pack_request *q, const char *engine)
{
	const struct sandbox_spec *s = &q->spec;

	memset(r, 0, sizeof *r);
	str_format(r->id, sizeof r->id, "%s", s->id);
	str_format(r->name, sizeof r->name, "%s", q->name);
	str_format(r->image, sizeof r->image, "%s", q->image);
	str_format(r->workspace, sizeof r->workspace, "%s", q->workspace);
	str_format(r->hostname, sizeof r->hostname, "%s", s->hostname);
	str_format(r->workdir, sizeof r->workdir, "%s", s->workdir);
	r->engine = engine;
	r->profile = s->profile;
	str_format(r->tid, sizeof r->tid, "%s", s->tid);
	str_format(r->model, sizeof r->model, "%s", s->model);
	r->workspace_mode = workspace_mode(s);
	r->keep = q->keep;
	r->read_only = s->read_only;
	r->ttl_ms = s->ttl_ms;
	r->uid = s->uid;
	r->gid = s->gid;
	r->limits = s->limits;
	r->disk_bytes = s->disk_bytes;
	r->spool_max = q->spool_max;
}

static const char *disk_kind(const struct run_record *r)
{
	if (!r->disk_bytes)
		return "-";
	if (r->disk_watched)
		return "watched";
	if (streq(r->engine, "docker"))
		return "quota";
	return r->disk_loop ? "loop" : "tmpfs";
}

void record_put(const struct run_record *r, struct buf *out)
{
	static const char *const states[] = {
		[STATE_CREATING] = "creating",
		[STATE_RUNNING] = "running",
		[STATE_PAUSED] = "paused",
		[STATE_STOPPED] = "stopped",
		[STATE_LOST] = "lost",
		[STATE_REMOVING] = "removing",
		[STATE_SNAPSHOT] = "snapshot",
	};

	record_line(out, "id", r->id);
	record_line(out, "name", r->name);
	record_line(out, "state", states[r->state]);
	record_line(out, "kind", r->snapshot ? "snapshot" : "sandbox");
	record_line(out, "engine", r->engine);
	record_line(out, "profile", spec_profile_name(r->profile));
	record_line(out, "tid", r->tid);
	record_line(out, "model", r->model);
	record_line(out, "image", r->image);
	record_number(out, "created_ms", r->created_ms);
	record_number(out, "started_ms", r->started_ms);
	record_number(out, "stopped_ms", r->stopped_ms);
	record_number(out, "ttl_ms", r->ttl_ms);
	record_number(out, "deadline_ms", r->deadline_ms);
	record_number(out, "keep", r->keep);
	record_number(out, "owner_pid", (uint64_t)r->owner_pid);
	record_number(out, "owner_start", r->owner_start);
	record_line(out, "parent", r->parent);
	record_line(out, "hostname", r->hostname);
	record_number(out, "uid", r->uid);
	record_number(out, "gid", r->gid);
	record_line(out, "workdir", r->workdir);
	record_number(out, "memory_bytes", r->limits.memory_bytes);
	record_number(out, "cpu_millis", r->limits.cpu_millis);
	record_number(out, "pids", r->limits.pids);
	record_number(out, "unlimited", r->limits.unlimited);
	record_number(out, "disk_bytes", r->disk_bytes);
	record_line(out, "disk_kind", disk_kind(r));
	record_number(out, "read_only", r->read_only);
	record_line(out, "workspace", r->workspace);
	record_line(out, "workspace_mode", r->workspace_mode);
	record_line(out, "network", "none");
	record_line(out, "exit_reason", r->exit_reason ? reason_name(r->exit_reason) : "");
}

static void put_if(struct buf *out, bool known, const char *key, uint64_t value)
{
	if (known)
		record_number(out, key, value);
}

void record_put_stats(const struct engine_stats *s, struct buf *out)
{
	static const char *const pauses[] = {
		[ENGINE_PAUSE_NONE] = "-",
		[ENGINE_PAUSE_CGROUP] = "cgroup",
		[ENGINE_PAUSE_FREEZER] = "freezer",
		[ENGINE_PAUSE_SIGNALS] = "signals",
	};

	put_if(out, s->has_cpu, "cpu_us", s->cpu_us);
	put_if(out, s->has_memory, "memory_used_bytes", s->memory_bytes);
	put_if(out, s->has_memory_peak, "memory_peak_bytes", s->memory_peak_bytes);
	put_if(out, s->has_pids, "pids_used", s->pids);
	put_if(out, s->has_pids_refused, "pids_refused", s->pids_refused);
	put_if(out, s->has_oom, "oom_kills", s->oom_kills);
	record_number(out, "disk_used_bytes", s->disk_used);
	record_number(out, "layers", s->layers);
	record_number(out, "ids_shared", s->ids_shared);
	record_line(out, "pause", pauses[s->pause]);
}
