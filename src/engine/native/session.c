/* A sandbox that lives: what engine_ops has for it beyond one command.  Called by the owner process, and by the processes that
 * it forks to become owners of forks.
 *
 * The files are layers.c's and exist from create to remove; processes and cgroup exist from boot to halt.  The owner holds
 * one end of the guest's control socket: when it dies, so does the guest.  What comes over that socket is read only up to
 * the guest's HELLO, by the same decoder as for one command. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "engine/native/native.h"
#include "wire/wire.h"

enum { HELLO_WAIT_MS = 10000 };

/* --- create -------------------------------------------------------------------------------------------------------- */

/* The environment lies in one allocation: pointers, then strings. */
static char *const *copy_env(char *const *env)
{
	size_t n = 0, bytes = 0;
	char **copy, *p;

	while (env && env[n])
		bytes += strlen(env[n++]) + 1;
	copy = xcalloc(1, (n + 1) * sizeof *copy + bytes);
	p = (char *)(copy + n + 1);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(env[i]) + 1;

		copy[i] = memcpy(p, env[i], len);
		p += len;
	}
	return copy;
}

/* Of its own, since the caller's ends before the sandbox does. */
static int copy_spec(struct sandbox *sb, const struct sandbox_spec *s, struct err *e)
{
	struct sandbox_spec *c = xcalloc(1, sizeof *c);
	bool failed = false;

	sb->spec = c;
	*c = *s;
	c->env = copy_env(s->env);
	c->image_fd = s->image_fd < 0 ? -1 : fcntl(s->image_fd, F_DUPFD_CLOEXEC, 3);
	failed = s->image_fd >= 0 && c->image_fd < 0;
	c->image_lock_fd = s->image_lock_fd < 0 ? -1 : fcntl(s->image_lock_fd, F_DUPFD_CLOEXEC, 3);
	failed = failed || (s->image_lock_fd >= 0 && c->image_lock_fd < 0);
	for (unsigned i = 0; i < s->n_binds; i++) {
		c->binds[i].fd = fcntl(s->binds[i].fd, F_DUPFD_CLOEXEC, 3);
		failed = failed || c->binds[i].fd < 0;
	}
	return failed ? err_set(e, R_SETUP_FAILED, errno, "keep the sandbox's descriptors") : 0;
}

int session_create(struct sandbox *sb, const struct sandbox_spec *s, struct err *e)
{
	layers_init(&sb->layers);
	sb->owner = getpid();
	/* the place for cgroups first: a user's systemd is asked for one, which from a user namespace it isn't */
	if (!s->limits.unlimited && native_tree(sb->engine, e) < 0)
		return err_wrap(e, "enforce limits");
	if (copy_spec(sb, s, e) < 0 || native_take_ids(sb, e) < 0)
		return -1;
	return layers_create(sb, e);
}

void session_done(struct sandbox *sb)
{
	union {
		char *const *in;
		void *out;
	} env;

	if (!sb->spec)
		return;
	env.in = sb->spec->env;
	free(env.out);
	spec_done(sb->spec);
	free(sb->spec);
	sb->spec = NULL;
}

/* --- boot ---------------------------------------------------------------------------------------------------------- */

/* What a boot shows beside the root: the host's or an image's trees, devices, and what the client opened, last. */
static int plan_trees(struct sandbox *sb, struct tree_plan *p, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	const struct tree_options options = { .recursive = !sb->engine->root,
		.idmap_fd = -1,
		.layered = !s->read_only,
		.held = true };

	if (trees_plan(p, s, &options, e) < 0)
		return -1;
	for (unsigned i = 0; sb->engine->root && i < p->n; i++) {
		bool changed = false;
		int r = tree_open(&p->trees[i], false, &changed);

		if (r < 0)
			return err_set(e, R_SETUP_FAILED, -r, "clone the mount of '/%s'",
				p->trees[i].target);
	}
	for (unsigned i = 0; i < s->n_binds; i++) {
		struct tree *t = tree_add(p, s->binds[i].target + 1, e);

		if (!t)
			return -1;
		t->kind = s->binds[i].kind == BIND_DIR ? TREE_DIR : TREE_FILE;
		t->index = i;
		if (layers_bind(sb, i, &t->tree_fd, e) < 0)
			return -1;
	}
	return 0;
}

static int send_session(const struct sandbox *sb, struct err *e)
{
	struct wire_session m = { .uid = sb->uid,
		.gid = sb->gid,
		.flags = sb->spec->model_relay ? WIRE_EXEC_RELAY : 0,
		.max_streams = WIRE_MAX_STREAMS };
	uint8_t out[64];

	return native_tell(sb, out, wire_put_session(out, sizeof out, &m), e);
}

static int wait_for_hello(struct sandbox *sb, struct err *e)
{
	uint64_t end = boottime_ms() + HELLO_WAIT_MS;

	while (!sb->greeted) {
		struct pollfd p = { .fd = sb->channel, .events = POLLIN };
		struct engine_event ev;
		uint64_t now = boottime_ms();

		if (now >= end)
			return err_set(e, R_GUEST_LOST, ETIMEDOUT,
				"wait for the first process of sandbox '%s'", sb->id);
		(void)poll(&p, 1, (int)(end - now));
		if (native_next(sb, &ev, e) < 0)
			return -1;
		if (ev.kind != ENGINE_NOTHING)
			return err_set(e, R_GUEST_LOST, 0,
				"wait for the first process of sandbox '%s': it ended", sb->id);
	}
	return 0;
}

static int launch(struct sandbox *sb, struct tree_plan *trees, struct err *e)
{
	_cleanup_close_ int root = -1;
	struct child_plan plan = { .trees = trees, .io = { { -1, -1, -1 } } };
	int r;

	if (!sb->spec->read_only && layers_root(sb, &root, e) < 0)
		return -1;
	plan.root_tree = root;
	r = plan_trees(sb, trees, e);
	return r < 0 ? -1 : native_launch(sb, sb->spec, &plan, e);
}

/* Everything of an earlier boot is gone; a failed one must leave nothing either. */
static void reset(struct sandbox *sb)
{
	sb->pid_fd = close_fd(sb->pid_fd);
	sb->channel = close_fd(sb->channel);
	sb->pid = -1;
	sb->reaped = sb->greeted = sb->started = sb->exited = false;
	sb->have = 0;
	sb->pause = ENGINE_PAUSE_NONE;
}

int session_boot(struct sandbox *sb, struct err *e)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_facts facts;
	struct tree_plan *trees;
	int r;

	if (sb->pid > 0)
		return err_set(e, R_SETUP_FAILED, EBUSY, "start sandbox '%s'", sb->id);
	reset(sb);
	if (layers_ready(sb, e) < 0)
		return -1;
	trees = malloc(sizeof *trees);
	if (!trees)
		abort();
	trees->n = trees->n_links = 0;
	r = launch(sb, trees, e);
	trees_done(trees);
	free(trees);
	if (r == 0 && send_session(sb, e) == 0 && wait_for_hello(sb, e) == 0)
		return 0;
	(void)session_halt(sb, &facts, &ignored);
	return -1;
}

/* --- while it runs ------------------------------------------------------------------------------------------------- */

static int send_with_fd(const struct sandbox *sb, uint8_t *frame, size_t n, int fd, struct err *e)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec iov = { frame, n };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	if (sendmsg(sb->channel, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		return err_set(e, R_GUEST_LOST, errno, "hand sandbox '%s' a connection", sb->id);
	return 0;
}

int session_connect(struct sandbox *sb, uint64_t epoch, int *ret_fd, struct err *e)
{
	struct wire_connect m = { .epoch = epoch };
	uint8_t out[64];
	int ends[2], r;

	if (sb->channel < 0 || sb->reaped)
		return err_set(
			e, R_GUEST_LOST, 0, "connect to sandbox '%s': it is stopped", sb->id);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make a connection to the guest");
	r = send_with_fd(sb, out, wire_put_connect(out, sizeof out, &m), ends[1], e);
	ends[1] = close_fd(ends[1]);
	if (r < 0)
		ends[0] = close_fd(ends[0]);
	else
		*ret_fd = ends[0];
	return r;
}

int session_pause(struct sandbox *sb, bool on, struct err *e)
{
	if (on == (sb->pause != ENGINE_PAUSE_NONE))
		return 0;
	if (sb->pid <= 0 || sb->reaped)
		return err_set(e, R_GUEST_LOST, 0, "pause sandbox '%s': it is stopped", sb->id);
	if (!sb->has_cgroup)
		return err_set(e, R_LIMITS_UNENFORCED, 0,
			"pause sandbox '%s': without a cgroup its processes can't be found",
			sb->id);
	if (cgroup_freeze(&sb->cgroup, &sb->engine->tree, on, &sb->pause, e) < 0)
		return err_wrap(e, "sandbox '%s'", sb->id);
	return 0;
}

int session_halt(struct sandbox *sb, struct engine_facts *ret, struct err *e)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	int r;

	native_kill(sb);
	/* a process in the freezer of v1 dies only when it is let go */
	if (sb->pause != ENGINE_PAUSE_NONE && sb->has_cgroup)
		(void)cgroup_freeze(&sb->cgroup, &sb->engine->tree, false, &sb->pause, &ignored);
	r = native_reap(sb, ret, e);
	reset(sb);
	return r;
}

/* v1 without its cpuacct: what is reaped inside has been added up the tree of processes. */
static void sum_cpu(const struct sandbox *sb, struct engine_stats *ret)
{
	_cleanup_buf_ struct buf list = BUF_INIT;
	struct proc_stat process;
	uint64_t ticks = 0, per_second = (uint64_t)sysconf(_SC_CLK_TCK);
	char *save = NULL;

	if (cgroup_pids(&sb->cgroup, &list) < 0 || !list.data)
		return;
	for (char *pid = strtok_r(list.data, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save))
		if (proc_stat(pid, &process) == 0)
			ticks += process.ticks;
	ret->cpu_us = ticks * 1000000u / per_second;
	ret->has_cpu = true;
}

int session_stats(struct sandbox *sb, struct engine_stats *ret, struct err *e)
{
	struct engine_stats s = { .layers = sb->layers.n_sealed,
		.pause = sb->pause,
		.ids_shared = sb->layers.ids_shared };

	if (sb->layers.writable && layers_disk(sb, &s.disk_used, &s.disk_size) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "read the size of the writable layer");
	if (sb->has_cgroup) {
		cgroup_stats(&sb->cgroup, &sb->engine->tree, &s);
		if (!s.has_cpu)
			sum_cpu(sb, &s);
	}
	*ret = s;
	return 0;
}

uid_t session_channel_uid(const struct sandbox *sb)
{
	return sb->engine->root ? sb->ids.base + NATIVE_ID_MAPPED : (uid_t)-1;
}

/* --- snapshots and forks ------------------------------------------------------------------------------------------- */

int session_seal(struct sandbox *sb, struct err *e)
{
	if (sb->pid > 0)
		return err_set(e, R_SETUP_FAILED, EBUSY, "seal the layer of sandbox '%s'", sb->id);
	return layers_seal(sb, e);
}

/* Where the kernel can show the layers below with other ids, a fork gets ids of its own. */
static int new_ids(struct sandbox *sb, struct err *e)
{
	struct id_range old = sb->ids;

	if (!sb->engine->root)
		return 0;
	if (!layers_can_map(sb)) {
		sb->layers.ids_shared = true;
		return 0;
	}
	if (native_take_ids(sb, e) < 0)
		return -1;
	ids_release(&old);
	return 0;
}

int session_copy(
	struct sandbox *sb, void (*progress)(void *arg, uint64_t bytes), void *arg, struct err *e)
{
	bool pause = sb->pid > 0 && sb->pause == ENGINE_PAUSE_NONE;
	_cleanup_err_ struct err ignored = ERR_INIT;
	int r;

	if (getpid() == sb->owner)
		return err_set(e, R_SETUP_FAILED, EINVAL,
			"copy the layer of sandbox '%s' in its own owner", sb->id);
	if (layers_detach(sb, e) < 0 || new_ids(sb, e) < 0 ||
		(pause && session_pause(sb, true, e) < 0))
		return -1;
	r = layers_copy(sb, progress, arg, e);
	sb->copied = r == 0;
	if (pause)
		(void)session_pause(sb, false, &ignored);
	return r;
}

/* What this process has of the sandbox that it was forked from. */
static void forget(struct sandbox *sb)
{
	reset(sb);
	if (sb->has_cgroup)
		cgroup_forget(&sb->cgroup);
	sb->has_cgroup = false;
}

int session_adopt(struct sandbox *sb, const char *new_id, const char *hostname, struct err *e)
{
	bool copied = sb->copied;

	if (getpid() == sb->owner)
		return err_set(e, R_SETUP_FAILED, EINVAL, "take over sandbox '%s' in its own owner",
			sb->id);
	forget(sb);
	if (!copied && (layers_detach(sb, e) < 0 || new_ids(sb, e) < 0))
		return -1;
	str_format(sb->spec->id, sizeof sb->spec->id, "%s", new_id);
	str_format(sb->id, sizeof sb->id, "%s", new_id);
	str_format(sb->spec->hostname, sizeof sb->spec->hostname, "%s", hostname);
	if (spec_check(sb->spec, e) < 0 || layers_adopt(sb, new_id, copied, e) < 0)
		return -1;
	sb->copied = false;
	sb->owner = getpid();
	return 0;
}
