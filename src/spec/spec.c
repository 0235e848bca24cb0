/* Owns the checks of a sandbox_spec.  Pure but for the random id. */
#include "spec/spec.h"

#include <string.h>
#include <sys/random.h>

#include "base/str.h"

void spec_init(struct sandbox_spec *s)
{
	memset(s, 0, sizeof *s);
	s->version = SPEC_VERSION;
	s->image_fd = s->image_lock_fd = s->workspace = -1;
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		s->binds[i].fd = -1;
}

void spec_done(struct sandbox_spec *s)
{
	s->image_fd = close_fd(s->image_fd);
	s->image_lock_fd = close_fd(s->image_lock_fd);
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		s->binds[i].fd = close_fd(s->binds[i].fd);
	s->n_binds = 0;
}

static bool is_below(const char *path, const char *dir)
{
	const char *rest = str_after(path, dir);

	return rest && (*rest == '\0' || *rest == '/');
}

int spec_check_target(const char *target, struct err *e)
{
	static const char *const made[] = { "/proc", "/sys", "/dev" };
	size_t n = strnlen(target, SPEC_MAX_TARGET);

	if (n >= SPEC_MAX_TARGET)
		return err_set(e, R_MOUNT_TARGET_INVALID, 0,
			"use mount target '%.64s...': longer than %d bytes", target,
			SPEC_MAX_TARGET - 1);
	if (target[0] != '/' || n < 2 || target[n - 1] == '/' || strstr(target, "//") ||
		strstr(target, "/./") || strstr(target, "/../") || streq(target + n - 2, "/.") ||
		(n > 2 && streq(target + n - 3, "/..")) || str_has_control(target))
		return err_set(e, R_MOUNT_TARGET_INVALID, 0,
			"use mount target '%s': not a plain absolute path", target);
	for (size_t i = 0; i < sizeof made / sizeof *made; i++)
		if (is_below(target, made[i]))
			return err_set(e, R_MOUNT_TARGET_INVALID, 0,
				"use mount target '%s': '%s' is the sandbox's own", target,
				made[i]);
	return 0;
}

static int check_limits(const struct spec_limits *l, struct err *e)
{
	if (l->memory_bytes < (1u << 20) || l->memory_bytes > (1ull << 44))
		return err_set(e, R_OUT_OF_RANGE, 0, "use memory '%llu': outside 1m to 16t",
			(unsigned long long)l->memory_bytes);
	if (l->cpu_millis < 10 || l->cpu_millis > 1024000)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"use cpus '%u' thousandths: outside 10 to 1024000", l->cpu_millis);
	if (l->pids < 1 || l->pids > 65536)
		return err_set(e, R_OUT_OF_RANGE, 0, "use pids '%u': outside 1 to 65536", l->pids);
	if (l->timeout_ms > 30ull * 86400000)
		return err_set(e, R_OUT_OF_RANGE, 0, "use timeout '%llu' ms: over 30 days",
			(unsigned long long)l->timeout_ms);
	return 0;
}

static int check_tmpfs(const struct spec_tmpfs *t, struct err *e)
{
	/* /dev/shm is the one place below /dev that a profile asks for */
	if (strnlen(t->target, sizeof t->target) == sizeof t->target ||
		!streq(t->target, "/dev/shm"))
		if (spec_check_target(t->target, e) < 0)
			return -1;
	if (t->size < 4096 || t->size > (1ull << 40) || t->inodes < 1 || t->inodes > (1u << 24))
		return err_set(e, R_OUT_OF_RANGE, 0,
			"size tmpfs '%s': outside 4k to 1t or 1 to 16777216 inodes", t->target);
	if (t->mode & ~01777u)
		return err_set(e, R_BAD_VALUE, 0, "use mode '%o' for tmpfs '%s': not within 1777",
			t->mode, t->target);
	return 0;
}

static int check_targets_distinct(const struct sandbox_spec *s, struct err *e)
{
	for (unsigned i = 0; i < s->n_binds; i++) {
		for (unsigned k = 0; k < i; k++)
			if (streq(s->binds[i].target, s->binds[k].target))
				return err_set(e, R_MOUNT_TARGET_INVALID, 0,
					"use mount target '%s': named twice", s->binds[i].target);
		for (unsigned k = 0; k < s->n_tmpfs; k++)
			if (streq(s->binds[i].target, s->tmpfs[k].target))
				return err_set(e, R_MOUNT_TARGET_INVALID, 0,
					"use mount target '%s': it is a tmpfs of the sandbox",
					s->binds[i].target);
	}
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		for (unsigned k = 0; k < i; k++)
			if (streq(s->tmpfs[i].target, s->tmpfs[k].target))
				return err_set(e, R_MOUNT_TARGET_INVALID, 0,
					"use tmpfs '%s': named twice", s->tmpfs[i].target);
	return 0;
}

/* A string that ends inside its array and holds only these bytes. */
static bool is_plain(const char *s, size_t cap, const char *bytes)
{
	size_t n = strnlen(s, cap);

	return n > 0 && n < cap && strspn(s, bytes) == n;
}

static int check_names(const struct sandbox_spec *s, struct err *e)
{
	static const char id[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	static const char host[] = "0123456789abcdefghijklmnopqrstuvwxyz-.";

	if (!is_plain(s->id, sizeof s->id, id) || !is_plain(s->hostname, sizeof s->hostname, host))
		return err_set(e, R_BAD_VALUE, 0,
			"use a sandbox's id or host name: not of lower-case letters and digits");
	if (strnlen(s->home, sizeof s->home) == sizeof s->home ||
		strnlen(s->workdir, sizeof s->workdir) == sizeof s->workdir || s->home[0] != '/' ||
		s->workdir[0] != '/' || str_has_control(s->home) || str_has_control(s->workdir))
		return err_set(e, R_MOUNT_TARGET_INVALID, 0,
			"use a home or working directory: not an absolute path");
	return 0;
}

static int check_command(const struct sandbox_spec *s, struct err *e)
{
	if (!s->argv || !s->argv[0] || !*s->argv[0])
		return err_set(e, R_USAGE, 0, "start a sandbox: no command");
	for (size_t n = 0; s->argv[n]; n++)
		if (n == SPEC_MAX_ARGV)
			return err_set(e, R_OUT_OF_RANGE, 0, "start '%.64s': over %d arguments",
				s->argv[0], SPEC_MAX_ARGV);
	return 0;
}

static int check_cow(const struct sandbox_spec *s, bool *ret_any, struct err *e)
{
	*ret_any = false;
	for (unsigned i = 0; i < s->n_binds; i++) {
		const struct spec_bind *b = &s->binds[i];

		if (!b->cow)
			continue;
		if (!s->session || b->writable || b->kind != BIND_DIR)
			return err_set(e, R_BAD_VALUE, 0,
				"use mount '%s' copy-on-write: only a directory of a sandbox that lives can be, "
				"and not writable at once",
				b->target);
		if (*ret_any)
			return err_set(e, R_BAD_VALUE, 0,
				"use mount '%s' copy-on-write: only one can be", b->target);
		*ret_any = true;
	}
	return 0;
}

/* What only a sandbox that lives has; for one command these stay empty. */
static int check_session(const struct sandbox_spec *s, struct err *e)
{
	bool cow;

	if (check_cow(s, &cow, e) < 0)
		return -1;
	if (!s->session)
		return s->read_only || s->disk_bytes || s->ttl_ms
			? err_set(e, R_BAD_VALUE, 0,
				  "run one command with a disk or a time to live: only a sandbox that lives has them")
			: check_command(s, e);
	if (s->argv || s->terminal || s->limits.timeout_ms)
		return err_set(e, R_BAD_VALUE, 0,
			"create a sandbox that lives with a command, terminal or timeout: each of its commands has its own");
	if (s->ttl_ms > SPEC_MAX_TTL_MS)
		return err_set(e, R_OUT_OF_RANGE, 0, "use time to live '%llu' ms: over 366 days",
			(unsigned long long)s->ttl_ms);
	if (s->read_only && !cow && !s->disk_bytes)
		return 0;
	if (s->disk_bytes < (1u << 20) || s->disk_bytes > (1ull << 40))
		return err_set(e, R_OUT_OF_RANGE, 0, "use disk '%llu': outside 1m to 1t",
			(unsigned long long)s->disk_bytes);
	return 0;
}

/* --- what only profiles set ---------------------------------------------------------------------------------------- */

static const char *const profile_names[SPEC_N_PROFILES] = {
	[SPEC_RUN] = "run",
	[SPEC_CREATE] = "create",
	[SPEC_AGENT] = "agent",
	[SPEC_CHECK] = "check",
	[SPEC_GIT_HELPER] = "git-helper",
	[SPEC_HANDOFF] = "handoff",
	[SPEC_SCRIPT] = "script",
};

const char *spec_profile_name(enum spec_profile p)
{
	return (unsigned)p < SPEC_N_PROFILES ? profile_names[p] : "?";
}

int spec_profile_find(const char *name)
{
	for (unsigned i = 0; i < SPEC_N_PROFILES; i++)
		if (streq(name, profile_names[i]))
			return (int)i;
	return -1;
}

bool spec_tid_is_valid(const char *tid)
{
	const size_t n = strnlen(tid, SPEC_TID);

	return n > 0 && n < SPEC_TID && tid[0] != '-' &&
		strspn(tid, "0123456789abcdefghijklmnopqrstuvwxyz-") == n;
}

/* Empty, or printable ASCII without spaces that ends inside its array. */
static bool is_label(const char *s, size_t cap)
{
	const size_t n = strnlen(s, cap);

	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return false;
	return n < cap;
}

static int check_labels(const struct sandbox_spec *s, struct err *e)
{
	static const char runtime[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-";

	if (!is_label(s->image_ref, sizeof s->image_ref) || s->image_ref[0] == '-')
		return err_set(e, R_BAD_VALUE, 0,
			"use a reference to an image: not up to %d printable characters without spaces",
			SPEC_IMAGE_REF - 1);
	if (*s->runtime &&
		(s->runtime[0] == '-' || !is_plain(s->runtime, sizeof s->runtime, runtime)))
		return err_set(e, R_BAD_VALUE, 0,
			"use runtime '%.63s': not a name of [A-Za-z0-9._-]", s->runtime);
	if (*s->tid && !spec_tid_is_valid(s->tid))
		return err_set(e, R_BAD_VALUE, 0,
			"use task id '%.64s': not of [0-9a-z][0-9a-z-]{0,63}", s->tid);
	if (!is_label(s->model, sizeof s->model))
		return err_set(e, R_BAD_VALUE, 0,
			"use a model's name: not up to %d printable characters without spaces",
			SPEC_MODEL - 1);
	return 0;
}

/* The invariants that no request can change: the spawner and the engine rely on them. */
static int check_profile(const struct sandbox_spec *s, struct err *e)
{
	const bool named = s->profile != SPEC_RUN && s->profile != SPEC_CREATE;
	const bool task = s->profile == SPEC_AGENT || s->profile == SPEC_CHECK;

	if ((unsigned)s->profile >= SPEC_N_PROFILES)
		return err_set(
			e, R_BAD_VALUE, 0, "use profile '%d': there is none", (int)s->profile);
	if (s->session == (s->profile == SPEC_RUN))
		return err_set(e, R_BAD_VALUE, 0, "use profile '%s' for %s",
			spec_profile_name(s->profile),
			s->session ? "a sandbox that lives" : "one command");
	if (s->add_caps & ~(uint32_t)SPEC_HANDOFF_CAPS ||
		(s->add_caps && s->profile != SPEC_HANDOFF))
		return err_set(e, R_BAD_VALUE, 0, "give capabilities '%x' to profile '%s'",
			s->add_caps, spec_profile_name(s->profile));
	if (named && (!s->read_only || s->limits.unlimited || !s->ttl_ms || s->allow_setgid))
		return err_set(e, R_BAD_VALUE, 0,
			"use profile '%s' without a read-only root, limits and a deadline",
			spec_profile_name(s->profile));
	if (task && (!*s->tid || s->uid == 0 || s->gid == 0))
		return err_set(e, R_BAD_VALUE, 0,
			"use profile '%s' without a task id, or as root inside",
			spec_profile_name(s->profile));
	return 0;
}

static int check_objects(const struct sandbox_spec *s, struct err *e)
{
	for (unsigned i = 0; i < s->n_binds; i++) {
		const struct spec_bind *b = &s->binds[i];

		if (b->has_object && !s->session)
			return err_set(e, R_BAD_VALUE, 0,
				"use mount '%s': for one command its object can't be named",
				b->target);
		if (b->has_object ? !b->ino : b->dev || b->ino)
			return err_set(e, R_BAD_VALUE, 0,
				"use mount '%s': its device and inode are not given together",
				b->target);
	}
	return 0;
}

static int check_engine_fields(const struct sandbox_spec *s, struct err *e)
{
	if (s->nofile && (s->nofile < 64 || s->nofile > 1048576))
		return err_set(e, R_OUT_OF_RANGE, 0, "allow '%u' open files: outside 64 to 1048576",
			s->nofile);
	if (!s->log_bytes != !s->log_files)
		return err_set(
			e, R_BAD_VALUE, 0, "rotate a log by size or by number alone: not both");
	if (s->log_bytes &&
		(s->log_bytes < 65536 || s->log_bytes > (1ull << 40) || s->log_files > 100))
		return err_set(e, R_OUT_OF_RANGE, 0,
			"keep '%u' logs of '%llu' bytes: outside 1 to 100 of 64k to 1t",
			s->log_files, (unsigned long long)s->log_bytes);
	if (s->deadline_ms && !s->ttl_ms)
		return err_set(e, R_BAD_VALUE, 0, "use a deadline without a time to live");
	return check_labels(s, e);
}

int spec_check(const struct sandbox_spec *s, struct err *e)
{
	if (s->version != SPEC_VERSION)
		return err_set(e, R_BAD_VALUE, 0, "read sandbox_spec version '%u': not %d",
			s->version, SPEC_VERSION);
	if (s->n_binds > SPEC_MAX_BINDS || s->n_tmpfs > SPEC_MAX_TMPFS)
		return err_set(e, R_OUT_OF_RANGE, 0, "use '%u' mounts: over %d", s->n_binds,
			SPEC_MAX_BINDS);
	if (s->workspace < -1 || s->workspace >= (int)s->n_binds)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"use mount '%d' as the workspace: there are %u", s->workspace, s->n_binds);
	if (check_profile(s, e) < 0 || check_session(s, e) < 0)
		return -1;
	if (s->uid > 65534 || s->gid > 65534)
		return err_set(e, R_OUT_OF_RANGE, 0, "use user '%u:%u': outside 0 to 65534", s->uid,
			s->gid);
	if (check_names(s, e) < 0 || check_limits(&s->limits, e) < 0)
		return -1;
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		if (check_tmpfs(&s->tmpfs[i], e) < 0)
			return -1;
	for (unsigned i = 0; i < s->n_binds; i++)
		if (spec_check_target(s->binds[i].target, e) < 0)
			return -1;
	if (check_targets_distinct(s, e) < 0 || check_objects(s, e) < 0)
		return -1;
	return check_engine_fields(s, e);
}

int spec_new_id(char ret[static SPEC_ID_LEN], struct err *e)
{
	uint64_t r;

	if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
		return err_set(e, R_SETUP_FAILED, errno, "get random bytes for a sandbox id");
	str_format(ret, SPEC_ID_LEN, "b%016llx", (unsigned long long)r);
	return 0;
}
