/* Container runtimes: runc and crun with a bundle made for the purpose, docker and podman (only where --only names them)
 * with an image made for the purpose.  Called by bench.c.  Nothing is pulled, nothing stays. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "door/cli/bench.h"

#define IMAGE "bailey-bench:%d"

static void put_strings(struct json *j, const char *key, const char *const *words)
{
	json_array_begin(j, key);
	while (*words)
		json_string(j, NULL, *words++);
	json_array_end(j);
}

static void put_mount(struct json *j, const char *target, const char *type, const char *source,
	const char *const *options)
{
	json_object_begin(j, NULL);
	json_string(j, "destination", target);
	json_string(j, "type", type);
	json_string(j, "source", source);
	put_strings(j, "options", options);
	json_object_end(j);
}

static void put_process(struct json *j, const struct bench *b)
{
	static const char *const env[] = { "PATH=/usr/bin:/bin", "HOME=/home/agent", NULL };
	const char *const args[] = { b->command, NULL };

	json_object_begin(j, "process");
	json_bool(j, "terminal", false);
	json_object_begin(j, "user");
	json_uint(j, "uid", 1000);
	json_uint(j, "gid", 1000);
	json_object_end(j);
	put_strings(j, "args", args);
	put_strings(j, "env", env);
	json_string(j, "cwd", "/home/agent");
	json_object_begin(j, "capabilities");
	json_object_end(j);
	json_bool(j, "noNewPrivileges", true);
	json_object_end(j);
}

static void put_mounts(struct json *j)
{
	static const char *const none[] = { "nosuid", "noexec", "nodev", NULL };
	static const char *const dev[] = { "nosuid", "strictatime", "mode=755", "size=65536k",
		NULL };
	static const char *const pts[] = { "nosuid", "noexec", "newinstance", "ptmxmode=0666",
		"mode=0620", "gid=5", NULL };
	static const char *const tmp[] = { "nosuid", "nodev", "mode=1777", "size=65536k", NULL };
	static const char *const ro[] = { "bind", "ro", "nosuid", "nodev", NULL };

	json_array_begin(j, "mounts");
	put_mount(j, "/proc", "proc", "proc", none);
	put_mount(j, "/dev", "tmpfs", "tmpfs", dev);
	put_mount(j, "/dev/pts", "devpts", "devpts", pts);
	put_mount(j, "/dev/shm", "tmpfs", "shm", tmp);
	put_mount(j, "/tmp", "tmpfs", "tmpfs", tmp);
	put_mount(j, "/home/agent", "tmpfs", "tmpfs", tmp);
	put_mount(j, "/usr", "bind", "/usr", ro);
	json_array_end(j);
}

static void put_linux(struct json *j)
{
	static const char *const namespaces[] = { "pid", "network", "ipc", "uts", "mount", "cgroup",
		"user", NULL };
	static const char *const masked[] = { "/proc/acpi", "/proc/asound", "/proc/interrupts",
		"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", NULL };
	static const char *const read_only[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
		"/proc/sysrq-trigger", NULL };

	json_object_begin(j, "linux");
	json_array_begin(j, "namespaces");
	for (const char *const *n = namespaces; *n; n++) {
		json_object_begin(j, NULL);
		json_string(j, "type", *n);
		json_object_end(j);
	}
	json_array_end(j);
	for (int i = 0; i < 2; i++) {
		json_array_begin(j, i ? "gidMappings" : "uidMappings");
		json_object_begin(j, NULL);
		json_uint(j, "containerID", 0);
		json_uint(j, "hostID", 0x70000000);
		json_uint(j, "size", 65536);
		json_object_end(j);
		json_array_end(j);
	}
	json_object_begin(j, "resources");
	json_object_begin(j, "memory");
	json_uint(j, "limit", 2 * OPT_GIB);
	json_uint(j, "swap", 2 * OPT_GIB);
	json_object_end(j);
	json_object_begin(j, "pids");
	json_uint(j, "limit", 256);
	json_object_end(j);
	json_object_begin(j, "cpu");
	json_uint(j, "quota", 100000);
	json_uint(j, "period", 100000);
	json_object_end(j);
	json_object_end(j);
	put_strings(j, "maskedPaths", masked);
	put_strings(j, "readonlyPaths", read_only);
	json_object_end(j);
}

/* The runtime mounts as an id of the range, which can't make directories here. */
static int make_rootfs(const struct bench *b, struct err *e)
{
	static const char *const dirs[] = { "", "/proc", "/dev", "/tmp", "/usr", "/home",
		"/home/agent", BENCH_MOUNT_TARGET };
	static const char *const links[] = { "bin", "lib", "lib64" };

	if (chmod(b->dir, 0711) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open directory '%s'", b->dir);
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
		_cleanup_free_ char *path = xasprintf("%s/rootfs%s", b->dir, dirs[i]);

		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_set(e, R_STATE_UNWRITABLE, errno, "create directory '%s'", path);
	}
	for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
		_cleanup_free_ char *path = xasprintf("%s/rootfs/%s", b->dir, links[i]);
		char target[16];

		if (symlink(FMT(target, "usr/%s", links[i]), path) < 0 && errno != EEXIST)
			return err_set(e, R_STATE_UNWRITABLE, errno, "create link '%s'", path);
	}
	return 0;
}

static int write_bundle(const struct bench *b, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_free_ char *path = xasprintf("%s/config.json", b->dir);
	_cleanup_close_ int fd = -1;
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_string(&j, "ociVersion", "1.0.2");
	json_string(&j, "hostname", "bailey");
	json_object_begin(&j, "root");
	json_string(&j, "path", "rootfs");
	json_bool(&j, "readonly", true);
	json_object_end(&j);
	put_process(&j, b);
	put_mounts(&j);
	put_linux(&j);
	json_object_end(&j);
	if (make_rootfs(b, e) < 0)
		return -1;
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0 || write_all(fd, out.data, out.len) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "write '%s'", path);
	return 0;
}

int bench_oci_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	row->program = bench_find(row->name);
	if (!row->program)
		return bench_leave_out(row, BENCH_ABSENT, "not installed");
	if (!b->root)
		return bench_leave_out(row, BENCH_ABSENT, "needs root here");
	return write_bundle(b, e);
}

/* Each run needs a name of its own. */
int bench_oci_once(struct bench *b, struct bench_row *row, uint64_t *ret, struct err *e)
{
	_cleanup_(bench_args_done) struct bench_args args = { .n = 0 }, clear = { .n = 0 };
	_cleanup_err_ struct err ignored = ERR_INIT;
	char id[64];

	(void)FMT(id, "bailey-bench-%d-%u", getpid(), b->serial++);
	bench_arg(&args, "%s", row->program);
	bench_arg(&args, "--root");
	bench_arg(&args, "%s/%s", b->dir, row->name);
	bench_arg(&args, "run");
	bench_arg(&args, "--bundle");
	bench_arg(&args, "%s", b->dir);
	bench_arg(&args, "%s", id);
	{
		uint64_t start = clock_ns(CLOCK_MONOTONIC);

		if (bench_run(b, args.v, e) == 0) {
			*ret = clock_ns(CLOCK_MONOTONIC) - start;
			return 0;
		}
	}
	bench_arg(&clear, "%s", row->program);
	bench_arg(&clear, "--root");
	bench_arg(&clear, "%s/%s", b->dir, row->name);
	bench_arg(&clear, "delete");
	bench_arg(&clear, "--force");
	bench_arg(&clear, "%s", id);
	(void)bench_run(b, clear.v, &ignored);
	return -1;
}

/* --- docker and podman --------------------------------------------------------------------------------------------- */

/* An image of the one file, and the run with the limits and walls that the profile has. */
int bench_docker_setup(struct bench *b, struct bench_row *row, struct err *e)
{
	static const char *const walls[] = { "run", "--rm", "--network", "none", "--read-only",
		"--memory", "2g", "--memory-swap", "2g", "--cpus", "1", "--pids-limit", "256",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "1000:1000",
		"--tmpfs", "/tmp", NULL };
	_cleanup_(bench_args_done) struct bench_args pack = { .n = 0 }, import = { .n = 0 };
	_cleanup_free_ char *tar = bench_find("tar");

	row->program = bench_find(row->name);
	if (!row->program || !tar)
		return bench_leave_out(row, BENCH_ABSENT, "not installed");
	bench_arg(&pack, "%s", tar);
	bench_arg(&pack, "-C");
	bench_arg(&pack, "%s", b->libexec);
	bench_arg(&pack, "-cf");
	bench_arg(&pack, "%s/image.tar", b->dir);
	bench_arg(&pack, "bailey-nop");
	bench_arg(&import, "%s", row->program);
	bench_arg(&import, "import");
	bench_arg(&import, "%s/image.tar", b->dir);
	bench_arg(&import, IMAGE, getpid());
	if (bench_run(b, pack.v, e) < 0 || bench_run(b, import.v, e) < 0)
		return -1;
	bench_arg(&row->args, "%s", row->program);
	bench_args_add(&row->args, walls);
	bench_arg(&row->args, IMAGE, getpid());
	bench_arg(&row->args, "/bailey-nop");
	return 0;
}

void bench_docker_end(struct bench *b, struct bench_row *row)
{
	_cleanup_(bench_args_done) struct bench_args remove = { .n = 0 };
	_cleanup_err_ struct err ignored = ERR_INIT;

	if (row->args.n) {
		bench_arg(&remove, "%s", row->program);
		bench_arg(&remove, "rmi");
		bench_arg(&remove, "--force");
		bench_arg(&remove, IMAGE, getpid());
		(void)bench_run(b, remove.v, &ignored);
	}
	bench_args_done(&row->args);
}
