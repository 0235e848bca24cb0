/* A container from boot to halt, and what it uses meanwhile.  Called by the owner through engine_ops.  Must hold: a failed boot
 * leaves no process. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/docker.h"

enum { WATCH_DISK_MS = 1000, ASK_DISK_MS = 100 };

static void forget(struct sandbox *sb)
{
	sb->control = close_fd(sb->control);
	sb->running = sb->paused = false;
	sb->first = 0;
}

/* --- the runtime --- */

/* Its socket is there and listens before the container starts: a guest that doesn't come can't. */
static void say_no_guest(const struct sandbox *sb, struct err *e)
{
	if (e->reason != R_GUEST_LOST || e->sys_errno != ETIMEDOUT)
		return;
	err_done(e);
	err_set(e, R_RUNTIME_UNSUPPORTED, 0,
		"start sandbox '%s': its guest can't reach the socket that runtime '%.64s' mounts",
		sb->id, docker_runtime(sb));
}

/* A name is not a kernel: what is registered as gVisor must be what the container runs on. */
static int check_kernel(const struct sandbox *sb, struct err *e)
{
	char link[64], exe[256];
	const char *base;
	ssize_t n;

	if (!docker_on_gvisor(sb))
		return 0;
	n = readlink(FMT(link, "/proc/%d/exe", (int)sb->first), exe, sizeof exe - 1);
	if (n > 0) {
		exe[n] = '\0';
		base = strrchr(exe, '/');
		if (base && str_after(base + 1, "runsc"))
			return 0;
	}
	return err_set(e, R_RUNTIME_UNSUPPORTED, 0,
		"run sandbox '%s' on gVisor: with runtime '%.64s' it runs on '%.128s'", sb->id,
		docker_runtime(sb), n > 0 ? exe : "what can't be seen");
}

/* --- boot and halt ------------------------------------------------------------------------------------------------- */

int docker_session_boot(struct sandbox *sb, struct err *e)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct engine_facts facts;
	struct docker *d;
	int64_t code;

	if (sb->running)
		return err_set(e, R_SETUP_FAILED, EBUSY, "start sandbox '%s'", sb->id);
	if (!*sb->container && container_create(sb, e) < 0)
		return -1;
	d = engine_daemon(sb->engine, e);
	if (!d || dial_listen(sb, e) < 0 || dial_prepare(sb, e) < 0 ||
		docker_start(d, sb->container, e) < 0)
		return -1;
	sb->running = true;
	if (dial_await_control(sb, BOOT_MS, e) == 0 &&
		container_running(sb, &sb->running, &code, e) == 0 && sb->running &&
		check_kernel(sb, e) == 0 && limits_hold(sb, e) == 0)
		return 0;
	say_no_guest(sb, e);
	if (!e->reason)
		err_set(e, R_GUEST_LOST, 0, "start sandbox '%s': its first process ended", sb->id);
	sb->running = true;
	(void)docker_session_halt(sb, &facts, &ignored);
	return -1;
}

int docker_session_connect(struct sandbox *sb, uint64_t epoch, int *ret_fd, struct err *e)
{
	if (!sb->running)
		return err_set(
			e, R_GUEST_LOST, 0, "connect to sandbox '%s': it is stopped", sb->id);
	return dial_channel(sb, epoch, ret_fd, e);
}

int docker_session_halt(struct sandbox *sb, struct engine_facts *ret, struct err *e)
{
	struct docker *d = engine_daemon(sb->engine, e);
	_cleanup_err_ struct err ignored = ERR_INIT;
	int64_t code;
	int r;

	memset(ret, 0, sizeof *ret);
	if (!sb->running)
		return 0;
	if (!d)
		return -1;
	/* a frozen process dies only when it is let go */
	if (sb->paused)
		(void)docker_unpause(d, sb->container, &ignored);
	err_done(&ignored);
	/* one that has ended meanwhile can't be killed any more */
	(void)docker_kill(d, sb->container, SIGKILL, &ignored);
	r = docker_wait(d, sb->container, HALT_MS, &code, e);
	if (r < 0 && e->reason == R_SANDBOX_NOT_FOUND) {
		/* somebody removed it */
		err_done(e);
		sb->container[0] = '\0';
		r = 0;
	}
	forget(sb);
	return r;
}

int docker_session_pause(struct sandbox *sb, bool on, struct err *e)
{
	struct docker *d = engine_daemon(sb->engine, e);

	if (!d)
		return -1;
	if (!sb->running)
		return err_set(e, R_GUEST_LOST, 0, "pause sandbox '%s': it is stopped", sb->id);
	if ((on ? docker_pause : docker_unpause)(d, sb->container, e) < 0)
		return -1;
	sb->paused = on;
	return 0;
}

/* The control connection has something to read: its end, or the last words of a guest whose deadline came. */
bool docker_session_gone(struct sandbox *sb)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	bool running = false;
	int64_t code;
	char bytes[64];
	ssize_t n = 0;

	while (sb->control >= 0 && (n = recv(sb->control, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		;
	if (sb->control >= 0 && n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	sb->control = close_fd(sb->control);
	if (container_running(sb, &running, &code, &ignored) < 0 || !running)
		return true;
	/* it lost the connection, and comes back; a frozen one when it is let go */
	if (sb->paused)
		return false;
	err_done(&ignored);
	return dial_await_control(sb, DIAL_MS, &ignored) < 0;
}

/* --- counters ------------------------------------------------------------------------------------------------------ */

static void from_cgroup(const struct sandbox *sb, struct engine_stats *s)
{
	if (streq(sb->engine->info.cgroup_version, "2")) {
		s->has_cpu = cgroup_key(sb, "", "cpu.stat", "usage_usec", &s->cpu_us);
		s->has_memory = cgroup_number(sb, "", "memory.current", &s->memory_bytes);
		s->has_memory_peak = cgroup_number(sb, "", "memory.peak", &s->memory_peak_bytes);
		s->has_oom = cgroup_key(sb, "", "memory.events", "oom_kill", &s->oom_kills);
	} else {
		s->has_cpu = cgroup_number(sb, "cpuacct", "cpuacct.usage", &s->cpu_us);
		s->cpu_us /= 1000;
		s->has_memory =
			cgroup_number(sb, "memory", "memory.usage_in_bytes", &s->memory_bytes);
		s->has_memory_peak = cgroup_number(
			sb, "memory", "memory.max_usage_in_bytes", &s->memory_peak_bytes);
		s->has_oom =
			cgroup_key(sb, "memory", "memory.oom_control", "oom_kill", &s->oom_kills);
	}
	s->has_pids = cgroup_number(sb, "pids", "pids.current", &s->pids);
	s->has_pids_refused = cgroup_key(sb, "pids", "pids.events", "max", &s->pids_refused);
}

static void from_daemon(struct sandbox *sb, struct engine_stats *s)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_json_ json_t *all = NULL;
	struct docker *d = engine_daemon(sb->engine, &ignored);
	const json_t *memory;

	if (!d || docker_stats(d, sb->container, &all, &ignored) < 0)
		return;
	memory = json_object_get(all, "memory_stats");
	s->cpu_us = (uint64_t)docker_json_number(
			    json_object_get(json_object_get(all, "cpu_stats"), "cpu_usage"),
			    "total_usage") /
		1000u;
	s->memory_bytes = (uint64_t)docker_json_number(memory, "usage");
	s->memory_peak_bytes = (uint64_t)docker_json_number(memory, "max_usage");
	s->pids = (uint64_t)docker_json_number(json_object_get(all, "pids_stats"), "current");
	s->has_cpu = s->has_memory = true;
	s->has_memory_peak = s->memory_peak_bytes > 0;
	s->has_pids = s->pids > 0;
}

/* The daemon walks the whole layer for this. */
static void look_at_disk(struct sandbox *sb, uint64_t not_within_ms)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_json_ json_t *all = NULL;
	struct docker *d;
	int64_t n;

	if (boottime_ms() - sb->disk_at < not_within_ms)
		return;
	d = engine_daemon(sb->engine, &ignored);
	if (!d || docker_inspect(d, sb->container, &all, &ignored) < 0)
		return;
	if (!docker_usage(sb, all, &sb->disk_used)) {
		json_decref(move_ptr(all));
		if (docker_inspect_size(d, sb->container, &all, &ignored) < 0)
			return;
		n = docker_json_number(all, "SizeRw");
		sb->disk_used = n > 0 ? (uint64_t)n : 0;
	}
	sb->disk_at = boottime_ms();
}

int docker_session_stats(struct sandbox *sb, struct engine_stats *ret, struct err *e)
{
	struct engine_stats s = { .layers = sb->layers };

	(void)e;
	if (sb->paused)
		s.pause = streq(sb->engine->info.cgroup_version, "2") ? ENGINE_PAUSE_CGROUP
								      : ENGINE_PAUSE_FREEZER;
	if (sb->spec->disk_bytes && *sb->container) {
		look_at_disk(sb, ASK_DISK_MS);
		s.disk_used = sb->disk_used;
		s.disk_size = sb->spec->disk_bytes;
	}
	if (sb->running) {
		from_cgroup(sb, &s);
		if (!s.has_memory)
			from_daemon(sb, &s);
	}
	*ret = s;
	return 0;
}

/* Where the daemon can't bound a layer.  What has used no processor since has written nothing either. */
int docker_session_watch(struct sandbox *sb, struct err *e)
{
	struct engine_stats s = { .layers = 0 };

	if (!sb->engine->watch_disk || !sb->spec->disk_bytes || !sb->running)
		return 0;
	from_cgroup(sb, &s);
	if (s.has_cpu && s.cpu_us == sb->watched_cpu)
		return 0;
	sb->watched_cpu = s.cpu_us;
	look_at_disk(sb, WATCH_DISK_MS);
	if (sb->disk_used <= sb->spec->disk_bytes)
		return 0;
	err_set(e, R_DISK_FULL, 0, "sandbox '%s' holds %llu bytes, over its %llu", sb->id,
		(unsigned long long)sb->disk_used, (unsigned long long)sb->spec->disk_bytes);
	return -1;
}
