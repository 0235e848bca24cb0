/* A spec as text, for golden tests. */
#include "spec/describe_for_test.h"

#include "base/str.h"

static const char *yes(bool b)
{
	return b ? "yes" : "no";
}

static void describe_bind(const struct spec_bind *b, struct buf *out)
{
	buf_printf(out, "bind %s kind %d writable %s cow %s idmap %s\n", b->target, (int)b->kind,
		yes(b->writable), yes(b->cow), yes(b->idmap));
	if (b->has_object)
		buf_printf(out, "only object %llu:%llu\n", (unsigned long long)b->dev,
			(unsigned long long)b->ino);
}

void describe(const struct sandbox_spec *s, struct buf *out)
{
	const struct spec_limits *l = &s->limits;

	buf_printf(out, "version %u profile %s\nhost name %s\nimage %s, lock %s\n", s->version,
		spec_profile_name(s->profile), streq(s->hostname, s->id) ? "the id" : s->hostname,
		yes(s->image_fd >= 0), yes(s->image_lock_fd >= 0));
	buf_printf(out, "memory %llu cpu %u pids %u timeout %llu unlimited %s\n",
		(unsigned long long)l->memory_bytes, l->cpu_millis, l->pids,
		(unsigned long long)l->timeout_ms, yes(l->unlimited));
	for (unsigned i = 0; i < s->n_binds; i++)
		describe_bind(&s->binds[i], out);
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		buf_printf(out, "tmpfs %s size %llu inodes %llu mode %o owned %s\n",
			s->tmpfs[i].target, (unsigned long long)s->tmpfs[i].size,
			(unsigned long long)s->tmpfs[i].inodes, s->tmpfs[i].mode,
			yes(s->tmpfs[i].owned));
	buf_printf(out, "user %u:%u home %s workdir %s\n", s->uid, s->gid, s->home, s->workdir);
	buf_printf(out, "session %s read-only %s disk %llu ttl %llu workspace %d print %s %02x\n",
		yes(s->session), yes(s->read_only), (unsigned long long)s->disk_bytes,
		(unsigned long long)s->ttl_ms, s->workspace, yes(s->has_workspace_print),
		s->workspace_print[SPEC_PRINT_LEN - 1]);
	buf_printf(out, "setgid %s terminal %s relay %s\n", yes(s->allow_setgid), yes(s->terminal),
		yes(s->model_relay));
	if (s->image_ref[0] || s->runtime[0] || s->nofile || s->add_caps || s->init ||
		s->log_bytes || s->log_files || s->tid[0] || s->model[0] || s->deadline_ms)
		buf_printf(out,
			"ref %s runtime %s nofile %u caps %x init %s log %llu x %u\n"
			"tid %s model %s deadline %llu\n",
			s->image_ref, s->runtime, s->nofile, s->add_caps, yes(s->init),
			(unsigned long long)s->log_bytes, s->log_files, s->tid, s->model,
			(unsigned long long)s->deadline_ms);
	for (char *const *p = s->argv; p && *p; p++)
		buf_printf(out, "argument %s\n", *p);
	for (char *const *p = s->env; *p; p++)
		buf_printf(out, "env %s\n", *p);
}
