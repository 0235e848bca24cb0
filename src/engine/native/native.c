/* The native engine: owns a sandbox from its ids to its removal.  Linked into `bailey run` and driven by engine_main.
 *
 * Theory of operation.  The process that calls create() is the owner: the sandbox dies with it (parent-death signal, and
 * the channel's end).  The owner prepares everything that needs rights outside (range of ids, cgroup, clones of host
 * directories), makes the first process in fresh namespaces and writes its maps; that process moves itself into its cgroups
 * (v1; on v2 it is born there) and builds its root (child.c).  From then on the owner only reads frames and waits. */
#include "engine/native/native.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "wire/wire.h"

enum {
	NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
		CLONE_NEWUTS,
	GUEST_UID = 0,
};

static const struct {
	enum reason reason;
	const char *text;
} steps[] = {
#define STEP(id, reason, text) { R_##reason, text },
#include "engine/native/steps.def"
#undef STEP
};

/* --- the engine --------------------------------------------------------------------------------------------------- */

/* Kept open from the start and executed by descriptor.  As root nothing inside owns an id that may write it; a user's own
 * file is executed from a read-only clone of its mount made inside (child.c), so that neither can be reached through
 * /proc/PID/exe (CVE-2019-5736). */
static int open_guest(const char *path, struct err *e)
{
	int fd = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? err_set(e, R_GUEST_MISSING, errno, "open '%s'", path) : fd;
}

static int check_layers(const struct engine_env *env, struct err *e)
{
	if (env->layers && !streq(env->layers, "loop") && !streq(env->layers, "tmpfs"))
		return err_set(e, R_BAD_VALUE, 0,
			"use native.layers '%.32s': not 'tmpfs' or 'loop'", env->layers);
	if (env->layer_store && *env->layer_store != '/')
		return err_set(e, R_BAD_VALUE, 0,
			"use native.layer_store '%.64s': not an absolute path", env->layer_store);
	return 0;
}

static int native_open(struct engine **ret, const struct engine_env *env, struct err *e)
{
	struct engine *n;
	int guest;

	if (check_layers(env, e) < 0)
		return -1;
	guest = open_guest(env->guest, e);
	if (guest < 0)
		return -1;
	n = xcalloc(1, sizeof *n);
	n->ops = &engine_native;
	n->env = *env;
	n->env.guest = n->env.layers = NULL;
	n->root = geteuid() == 0;
	n->uid = geteuid();
	n->gid = getegid();
	n->guest_fd = guest;
	n->loop = env->layers && streq(env->layers, "loop");
	n->store = -1;
	*ret = n;
	return 0;
}

static void native_close(struct engine *n)
{
	if (!n)
		return;
	n->guest_fd = close_fd(n->guest_fd);
	n->store = close_fd(n->store);
	cgroup_tree_done(&n->tree);
	free(n);
}

int native_tree(struct engine *n, struct err *e)
{
	if (n->have_tree)
		return 0;
	if (cgroup_find(&n->tree, &n->env, n->root, e) < 0)
		return -1;
	n->have_tree = true;
	return 0;
}

/* --- create ------------------------------------------------------------------------------------------------------- */

int native_take_ids(struct sandbox *sb, struct err *e)
{
	struct engine *n = sb->engine;

	if (!n->root)
		return 0;
	if (!n->region_checked && ids_check_region(n->env.ids_base, n->env.ids_count, e) < 0)
		return -1;
	n->region_checked = true;
	return ids_take(&sb->ids, n->env.ids_base, n->env.ids_count, e);
}

static int take_cgroup(struct sandbox *sb, const struct sandbox_spec *s, struct err *e)
{
	const struct cgroup_want want = { sb->id, &s->limits, s->session };
	struct engine *n = sb->engine;

	if (s->limits.unlimited)
		return 0;
	if (native_tree(n, e) < 0 ||
		cgroup_make(&sb->cgroup, &n->tree, n->env.home_hash, &want, e) < 0)
		return err_wrap(e, "enforce limits");
	sb->has_cgroup = true;
	return 0;
}

static bool wants_idmap(const struct sandbox_spec *s)
{
	for (unsigned i = 0; i < s->n_binds; i++)
		if (s->binds[i].idmap)
			return true;
	return false;
}

/* As root the clones are made out here, where the caller's descriptors mean something. */
static int open_trees(
	const struct engine *n, struct tree_plan *p, const struct sandbox_spec *s, struct err *e)
{
	if (!n->root)
		return 0;
	for (unsigned i = 0; i < p->n; i++) {
		struct tree *t = &p->trees[i];
		bool changed = false;
		int r = tree_open(t, false, &changed);

		if (r == 0)
			continue;
		if (t->idmap_fd >= 0 && (r == -EINVAL || r == -EOPNOTSUPP))
			return err_set(e, R_IDMAP_UNSUPPORTED, -r, "map the ids of '%s' at '%s'",
				t->source_path ?: "", s->binds[t->index].target);
		return err_set(e, R_SETUP_FAILED, -r, "clone the mount of '/%s'", t->target);
	}
	return 0;
}

/* A pipe belongs to whoever made it: without this, opening /dev/stderr inside would be refused. */
static int give_stdio(const struct sandbox *sb, const struct sandbox_spec *s,
	const struct engine_io *io, struct err *e)
{
	if (sb->ids.lock_fd < 0)
		return 0;
	for (int i = 0; i < 3; i++)
		if (io->fd[i] >= 0 &&
			fchown(io->fd[i], sb->ids.base + s->uid, sb->ids.base + s->gid) < 0)
			return err_set(
				e, R_SETUP_FAILED, errno, "hand over standard stream '%d'", i);
	return 0;
}

/* A user's sandbox writes its own (child.c). */
static int write_maps(const struct engine *n, const struct sandbox *sb, struct err *e)
{
	char map[64];

	if (!n->root)
		return 0;
	FMT(map, "0 %u %d", sb->ids.base, NATIVE_ID_MAPPED);
	return ids_write_maps(sb->pid, map, map, e);
}

int native_tell(const struct sandbox *sb, const void *p, size_t n, struct err *e)
{
	/* a peer that has gone has said why, or died: next() tells */
	if (send(sb->channel, p, n, MSG_NOSIGNAL) == (ssize_t)n || errno == EPIPE ||
		errno == ECONNRESET)
		return 0;
	return err_set(e, R_SETUP_FAILED, errno, "talk to the sandbox's first process");
}

/* As root one byte "G", the maps are written; then what the guest reads first. */
static int greet(const struct sandbox *sb, struct err *e)
{
	struct wire_hello hello = { .magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.epoch = 1,
		.deadline_ms = sb->deadline_ms };
	uint8_t out[64] = { 'G' };
	size_t n = sb->engine->root ? 1 : 0;

	n += wire_put_hello(out + n, sizeof out - n, &hello);

	return native_tell(sb, out, n, e);
}

static int clone_child(struct engine *n, struct sandbox *sb, struct child_plan *plan, struct err *e)
{
	struct clone_args args = { .flags = NAMESPACES | CLONE_PIDFD,
		.exit_signal = SIGCHLD,
		.pidfd = (unsigned long long)(uintptr_t)&sb->pid_fd };
	int channel[2], error;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make the guest's channel");
	sb->channel = channel[0];
	plan->control = channel[1];
	if (sb->has_cgroup && n->tree.kind == CGROUP_V2) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned long long)sb->cgroup.dir[0];
	}
	sb->pid = sys_clone3(&args);
	error = errno;
	if (sb->pid == 0) {
		sb->channel = close_fd(sb->channel);
		child_run(plan);
	}
	channel[1] = close_fd(channel[1]);
	if (sb->pid > 0)
		return 0;
	sb->pid_fd = -1;
	if (error == EAGAIN)
		return err_set(e, R_PIDS_EXHAUSTED, error, "create the sandbox's first process");
	return explain_userns(error, e);
}

/* The owner may be a service that the host's OOM killer spares; its sandboxes are not to be.  Written from out here, since
 * that also raises how low the workload can put it again. */
static int reset_oom_score(const struct sandbox *sb, struct err *e)
{
	char own[32], path[64];

	if (read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", own, sizeof own) <= 0 ||
		own[0] != '-')
		return 0;
	if (write_file_at(AT_FDCWD, FMT(path, "/proc/%d/oom_score_adj", sb->pid), "0") < 0)
		return err_set(e, R_SETUP_FAILED, errno, "write '0' to '%s'", path);
	return 0;
}

static int launch(struct engine *n, struct sandbox *sb, struct child_plan *plan, struct err *e)
{
	if (clone_child(n, sb, plan, e) < 0 || write_maps(n, sb, e) < 0 ||
		reset_oom_score(sb, e) < 0)
		return -1;
	return greet(sb, e);
}

int native_launch(
	struct sandbox *sb, const struct sandbox_spec *s, struct child_plan *plan, struct err *e)
{
	struct engine *n = sb->engine;
	int r = 0;

	plan->spec = s;
	plan->guest_fd = n->guest_fd;
	plan->root = n->root;
	plan->host_uid = n->uid;
	plan->host_gid = n->gid;
	for (unsigned i = 0; i < CGROUP_MAX_CONTROLLERS; i++)
		plan->join[i] = -1;
	for (unsigned i = 0; i < plan->trees->n; i++)
		str_format(
			sb->targets[i], SPEC_MAX_TARGET, "/%.254s", plan->trees->trees[i].target);
	sb->n_targets = plan->trees->n;
	if (take_cgroup(sb, s, e) < 0)
		return -1;
	if (sb->has_cgroup && n->tree.kind == CGROUP_V1)
		r = cgroup_open_join(&sb->cgroup, &n->tree, plan->join, e);
	if (r == 0)
		r = launch(n, sb, plan, e);
	for (unsigned i = 0; i < CGROUP_MAX_CONTROLLERS; i++)
		plan->join[i] = close_fd(plan->join[i]);
	return r;
}

static struct sandbox *new_sandbox(struct engine *n, const struct sandbox_spec *s)
{
	struct sandbox *sb = malloc(sizeof *sb);

	if (!sb)
		abort();
	/* all but the names, which are filled as far as they are read */
	memset(sb, 0, offsetof(struct sandbox, targets));
	sb->n_targets = 0;
	sb->engine = n;
	sb->pid = -1;
	sb->pid_fd = sb->channel = sb->ids.lock_fd = sb->layers.frame = -1;
	sb->session = s->session;
	memcpy(sb->id, s->id, sizeof sb->id);
	sb->uid = s->uid;
	sb->gid = s->gid;
	sb->exec_flags =
		(s->terminal ? WIRE_EXEC_TERMINAL : 0u) | (s->model_relay ? WIRE_EXEC_RELAY : 0u);
	/* a session's owner may move its end, and no sandbox outlives its owner: the guest needs no timer of its own */
	sb->deadline_ms = s->limits.timeout_ms ? boottime_ms() + s->limits.timeout_ms : 0;
	return sb;
}

static void native_free(struct sandbox *sb);

static int build(struct engine *n, struct sandbox *sb, const struct sandbox_spec *s,
	const struct engine_io *io, struct tree_plan *trees, struct err *e)
{
	_cleanup_close_ int idmap = -1;
	struct tree_options options = { .recursive = !n->root, .terminal_fd = io->fd[0] };
	struct child_plan plan = { .trees = trees, .io = *io, .root_tree = -1 };

	if (native_take_ids(sb, e) < 0)
		return -1;
	if (n->root && wants_idmap(s) &&
		ids_open_mapping(n->uid, n->gid, sb->ids.base + s->uid, sb->ids.base + s->gid, 1,
			&idmap, e) < 0)
		return -1;
	options.idmap_fd = idmap;
	if (trees_plan(trees, s, &options, e) < 0 || open_trees(n, trees, s, e) < 0 ||
		give_stdio(sb, s, io, e) < 0)
		return -1;
	return native_launch(sb, s, &plan, e);
}

static int create_one(struct engine *n, struct sandbox *sb, const struct sandbox_spec *s,
	const struct engine_io *io, struct err *e)
{
	struct tree_plan *trees =
		malloc(sizeof *trees); /* large, and filled as far as it is read */
	int r;

	if (!trees)
		abort();
	trees->n = trees->n_links = 0;
	r = build(n, sb, s, io, trees, e);
	trees_done(trees);
	free(trees);
	return r;
}

static int native_create(struct engine *n, const struct sandbox_spec *s, const struct engine_io *io,
	struct sandbox **ret, struct err *e)
{
	struct sandbox *sb;

	if (spec_check(s, e) < 0)
		return -1;
	if (s->add_caps && !n->root)
		return err_set(e, R_BAD_VALUE, 0,
			"give capabilities to a command: a normal user's sandboxes have no files of others");
	sb = new_sandbox(n, s);
	if ((s->session ? session_create(sb, s, e) : create_one(n, sb, s, io, e)) < 0) {
		native_free(sb);
		return -1;
	}
	*ret = sb;
	return 0;
}

static int native_start(struct sandbox *sb, struct err *e)
{
	struct wire_exec m = {
		.command = 1, .uid = sb->uid, .gid = sb->gid, .flags = sb->exec_flags
	};
	uint8_t out[64];

	return native_tell(sb, out, wire_put_exec(out, sizeof out, &m), e);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static int setup_failed(const struct sandbox *sb, const struct wire_setup_failed *m, struct err *e)
{
	if (m->step >= STEP_MAX)
		return err_set(
			e, R_WIRE_MALFORMED, 0, "read frame 'SETUP_FAILED': no step '%u'", m->step);
	if (m->step == STEP_TARGET || m->step == STEP_ATTACH || m->step == STEP_TREE ||
		m->step == STEP_CHANGED)
		return err_set(e, steps[m->step].reason, (int)m->error, "%s '%s'",
			steps[m->step].text,
			m->index < sb->n_targets ? sb->targets[m->index] : "?");
	if (m->step == STEP_RESERVED)
		return err_set(e, steps[m->step].reason, (int)m->error, "%s '/%s'",
			steps[m->step].text,
			m->index < n_reserved_dirs ? reserved_dirs[m->index] : "?");
	if (m->step == STEP_EXEC && m->error == E2BIG)
		return err_set(e, R_OUT_OF_RANGE, E2BIG,
			"hand over the command's arguments and environment");
	if (m->step == STEP_KEYRING && m->error == EDQUOT) {
		(void)err_set(e, steps[m->step].reason, EDQUOT, "%s", steps[m->step].text);
		return err_remedy(e,
			"Wait until ended sandboxes have been reaped (in a container, give it an init that does), or raise "
			"kernel.keys.maxkeys.");
	}
	if (m->step == STEP_PROC && m->error == EPERM) {
		(void)err_set(e, R_USERNS_UNAVAILABLE, EPERM, "%s", steps[m->step].text);
		return err_remedy(e,
			"Run Bailey outside this container, or start the container with an unmasked /proc "
			"(docker run --security-opt systempaths=unconfined).");
	}
	return err_set(e, steps[m->step].reason, (int)m->error, "%s", steps[m->step].text);
}

static int take_frame(
	struct sandbox *sb, const struct wire_frame *f, struct engine_event *ret, struct err *e)
{
	static const enum engine_event_kind kinds[] = { [WIRE_HOW_EXITED] = ENGINE_EXITED,
		[WIRE_HOW_SIGNALLED] = ENGINE_SIGNALLED,
		[WIRE_HOW_NOT_STARTED] = ENGINE_NOT_STARTED,
		[WIRE_HOW_DEADLINE] = ENGINE_DEADLINE };
	struct wire_setup_failed failed;
	struct wire_started started;
	struct wire_exited exited;
	struct wire_hello hello;

	if (wire_get_hello(f, &hello) && !sb->greeted) {
		if (hello.version > WIRE_VERSION || hello.version + 1u < WIRE_VERSION)
			return err_set(e, R_WIRE_MALFORMED, 0,
				"greet the guest of sandbox '%s': it speaks version %u, this engine %d",
				sb->id, hello.version, WIRE_VERSION);
		sb->greeted = true;
		return 0;
	}
	if (wire_get_started(f, &started) && !sb->started) {
		sb->started = true;
		ret->kind = ENGINE_STARTED;
		return 0;
	}
	if (wire_get_exited(f, &exited) && !sb->exited) {
		sb->exited = true;
		*ret = (struct engine_event){ kinds[exited.how], (int)exited.status };
		return 0;
	}
	if (wire_get_setup_failed(f, &failed))
		return setup_failed(sb, &failed, e);
	return err_set(e, R_WIRE_MALFORMED, 0, "read frame '%s' of sandbox '%s': not expected now",
		wire_type_name(f->type), sb->id);
}

int native_next(struct sandbox *sb, struct engine_event *ret, struct err *e)
{
	*ret = (struct engine_event){ ENGINE_NOTHING, 0 };
	while (ret->kind == ENGINE_NOTHING) {
		struct wire_frame f;
		size_t used;
		enum wire_parsed w = wire_parse(sb->in, sb->have, WIRE_FROM_GUEST, &f, &used);
		ssize_t n;

		if (w == WIRE_REFUSED)
			return err_set(e, R_WIRE_MALFORMED, 0,
				"read a frame of sandbox '%s': not one of this version", sb->id);
		if (w == WIRE_OK) {
			if (take_frame(sb, &f, ret, e) < 0)
				return -1;
			sb->have -= used;
			memmove(sb->in, sb->in + used, sb->have);
			continue;
		}
		n = recv(sb->channel, sb->in + sb->have, sizeof sb->in - sb->have, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0) {
			ret->kind = ENGINE_CLOSED;
			return 0;
		}
		sb->have += (size_t)n;
	}
	return 0;
}

static int native_channel(const struct sandbox *sb)
{
	return sb->channel;
}

static int native_pidfd(const struct sandbox *sb)
{
	return sb->pid_fd;
}

static int native_signal(struct sandbox *sb, int sig, struct err *e)
{
	struct wire_signal m = { .command = 1, .signal = (uint32_t)sig };
	uint8_t out[64];

	return native_tell(sb, out, wire_put_signal(out, sizeof out, &m), e);
}

/* The first process of a pid namespace takes every other one with it. */
void native_kill(struct sandbox *sb)
{
	if (sb->pid_fd >= 0 && !sb->reaped)
		(void)sys_pidfd_send_signal(sb->pid_fd, SIGKILL);
	if (sb->has_cgroup)
		cgroup_kill(&sb->cgroup, &sb->engine->tree);
}

/* --- the end ------------------------------------------------------------------------------------------------------- */

static uint64_t timeval_us(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec;
}

int native_reap(struct sandbox *sb, struct engine_facts *ret, struct err *e)
{
	struct engine_facts f = { .cpu_us = 0 };
	pid_t r = sb->pid;

	while (sb->pid > 0 && !sb->reaped) {
		r = wait4(sb->pid, NULL, 0, &sb->usage);
		if (r < 0 && errno == EINTR)
			continue;
		sb->reaped = true;
	}
	f.cpu_us = timeval_us(sb->usage.ru_utime) + timeval_us(sb->usage.ru_stime);
	if (sb->has_cgroup) {
		cgroup_read(&sb->cgroup, &sb->engine->tree, &f);
		cgroup_remove(&sb->cgroup, &sb->engine->tree);
		sb->has_cgroup = false;
	}
	*ret = f;
	if (r < 0 && sb->pid > 0)
		return err_set(e, R_GUEST_LOST, errno, "wait for sandbox '%s'", sb->id);
	return 0;
}

static int native_remove(struct sandbox *sb, struct engine_facts *ret, struct err *e)
{
	int r = sb->session ? session_halt(sb, ret, e) : native_reap(sb, ret, e);

	if (sb->session)
		layers_remove(sb);
	ids_release(&sb->ids);
	return r;
}

static void native_free(struct sandbox *sb)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_facts facts;

	if (!sb)
		return;
	/* a copy in a process that was forked from the owner ends nothing */
	if (!sb->session || sb->owner == getpid()) {
		native_kill(sb);
		(void)native_remove(sb, &facts, &ignored);
	}
	sb->pid_fd = close_fd(sb->pid_fd);
	sb->channel = close_fd(sb->channel);
	session_done(sb);
	free(sb);
}

static int native_sweep(struct engine *n, unsigned *ret_removed, struct err *e)
{
	*ret_removed = 0;
	if (native_tree(n, e) < 0)
		return -1;
	return cgroup_sweep(&n->tree, n->env.home_hash, ret_removed, e);
}

static int native_list(struct engine *n, void (*each)(void *arg, const char *id, bool alive),
	void *arg, struct err *e)
{
	if (native_tree(n, e) < 0)
		return -1;
	return cgroup_list(&n->tree, n->env.home_hash, each, arg, e);
}

const struct engine_ops engine_native = {
	.name = "native",
	.abi = ENGINE_ABI,
	.can = ENGINE_CAN_SESSION,
	.open = native_open,
	.close = native_close,
	.probe = native_probe,
	.create = native_create,
	.start = native_start,
	.channel = native_channel,
	.pidfd = native_pidfd,
	.next = native_next,
	.signal = native_signal,
	.kill = native_kill,
	.remove = native_remove,
	.free = native_free,
	.boot = session_boot,
	.connect = session_connect,
	.halt = session_halt,
	.pause = session_pause,
	.stats = session_stats,
	.seal = session_seal,
	.copy = session_copy,
	.adopt = session_adopt,
	.changes = native_changes,
	.channel_uid = session_channel_uid,
	.sweep = native_sweep,
	.list = native_list,
};
