/* Owns one container: made exactly as asked, read back, removed, with its directory runs/ID/ctl.  Called by docker.c, session.c
 * and layers.c.  Must hold: after a failed create nothing is left. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "archive/archive.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/docker.h"
#include "spec/profile.h"

/* --- runs/ID/ctl --------------------------------------------------------------------------------------------------- */

static char *ctl_path(const struct engine *g, const char *id)
{
	return xasprintf("%s/%s/ctl", g->runs, id);
}

int container_ctl(const struct sandbox *sb, int *ret, struct err *e)
{
	_cleanup_free_ char *path = ctl_path(sb->engine, sb->id);

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_set(e, R_STATE_UNWRITABLE, errno, "make '%s'", path);
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* the guest may be anybody inside */
	if (*ret < 0 || fchmod(*ret, 0755) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open '%s'", path);
	return 0;
}

void container_ctl_remove(const struct engine *g, const char *id)
{
	static const char *const files[] = { "ctl.sock", "token", "check" };
	_cleanup_free_ char *path = ctl_path(g, id);
	_cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; dir >= 0 && i < sizeof files / sizeof *files; i++)
		(void)unlinkat(dir, files[i], 0);
	(void)rmdir(path);
}

/* --- making it ----------------------------------------------------------------------------------------------------- */

/* Where the object that the client opened is now.  The daemon opens it again by that path: the guest, and a second look, tell
 * whether it was the same. */
static int bind_path(struct spec_bind *b, char **ret, struct err *e)
{
	char text[PATH_MAX_HOST], link[64];
	struct stat held, there;
	ssize_t n = readlink(FMT(link, "/proc/self/fd/%d", b->fd), text, sizeof text - 1);

	if (n <= 0 || n == (ssize_t)sizeof text - 1)
		return err_set(e, R_MOUNT_SOURCE_MISSING, n < 0 ? errno : 0,
			"find what is to be mounted at '%s'", b->target);
	text[n] = '\0';
	if (fstat(b->fd, &held) < 0 || lstat(text, &there) < 0 || held.st_dev != there.st_dev ||
		held.st_ino != there.st_ino)
		return err_set(e, R_MOUNT_SOURCE_CHANGED, 0,
			"mount '%s': '%s' is another object now", b->target, text);
	if (b->has_object && (held.st_dev != b->dev || held.st_ino != b->ino))
		return err_set(e, R_MOUNT_SOURCE_CHANGED, 0,
			"mount '%s': '%s' is another object now", b->target, text);
	b->dev = held.st_dev;
	b->ino = held.st_ino;
	b->has_object = true;
	*ret = xstrdup(text);
	return 0;
}

static int disk_bound(const struct sandbox *sb, bool *ret_option, struct err *e)
{
	const struct engine *g = sb->engine;

	*ret_option = false;
	if (!sb->spec->disk_bytes || sb->spec->limits.unlimited || g->watch_disk)
		return 0;
	if (streq(g->info.driver, "overlay2") && str_after(g->info.backing_fs, "xfs")) {
		*ret_option = true;
		return 0;
	}
	err_set(e, R_LIMITS_UNENFORCED, 0,
		"bound the disk of a container: the daemon's store is '%s' on '%s'", g->info.driver,
		g->info.backing_fs);
	return err_remedy(e,
		"Keep the daemon's store on xfs with pquota, use --read-only, or have Bailey watch the size: [docker] disk = \"watch\".");
}

static int check_it(struct sandbox *sb, const json_t *asked, struct err *e)
{
	struct docker *d = engine_daemon(sb->engine, e);
	_cleanup_json_ json_t *there = NULL;

	if (!d || docker_inspect(d, sb->container, &there, e) < 0)
		return -1;
	return request_compare(asked, there, sb->engine->info.podman, e);
}

/* --- what a sandbox has of its own -------------------------------------------------------------------------------- */

static bool is_mounted(const struct sandbox_spec *s, const char *target)
{
	for (unsigned i = 0; i < s->n_binds; i++)
		if (streq(s->binds[i].target, target))
			return true;
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		if (streq(s->tmpfs[i].target, target))
			return true;
	return false;
}

static int put_entry(const struct sandbox *sb, int fd, const struct archive_entry *entry,
	const char *text, struct err *e)
{
	static const uint8_t zeros[ARCHIVE_END_SIZE];
	_cleanup_free_ uint8_t *head = xcalloc(1, ARCHIVE_HEADER_CAP(0));
	const size_t n = archive_put(head, ARCHIVE_HEADER_CAP(0), entry, NULL, 0);

	if (n && write_all(fd, head, n) == 0 && write_all(fd, text, entry->size) == 0 &&
		write_all(fd, zeros, archive_padding(entry->size)) == 0)
		return 0;
	return err_set(e, R_SETUP_FAILED, errno, "make '/%s' of sandbox '%s'", entry->name, sb->id);
}

static int put_dir(const struct sandbox *sb, int fd, const char *path, uint32_t mode, struct err *e)
{
	const struct sandbox_spec *s = sb->spec;
	const struct archive_entry entry = { .type = ARCHIVE_DIR,
		.mode = mode,
		.uid = s->uid,
		.gid = s->gid,
		.mtime_ns = (int64_t)clock_ns(CLOCK_REALTIME),
		.name = path + 1 };

	if (!path[1] || is_mounted(s, path))
		return 0;
	return put_entry(sb, fd, &entry, "", e);
}

/* Each sandbox is a machine of its own, a fork too. */
static int put_machine_id(const struct sandbox *sb, int fd, struct err *e)
{
	uint64_t random[2];
	char id[34];
	const struct archive_entry entry = { .type = ARCHIVE_FILE,
		.mode = 0444,
		.size = sizeof id - 1,
		.mtime_ns = (int64_t)clock_ns(CLOCK_REALTIME),
		.name = "etc/machine-id" };

	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return err_set(e, R_SETUP_FAILED, errno, "make sandbox '%s'", sb->id);
	FMT(id, "%016llx%016llx\n", (unsigned long long)random[0], (unsigned long long)random[1]);
	return put_entry(sb, fd, &entry, id, e);
}

/* An image knows nothing of the user that works in it: its home and /workspace are made, or become his. */
static int put_own(struct sandbox *sb, struct err *e)
{
	static const uint8_t end[ARCHIVE_END_SIZE];
	_cleanup_close_ int fd = -1;
	struct docker *d;

	if (sb->spec->read_only || sb->spec->profile != SPEC_CREATE)
		return 0;
	fd = memfd_create("own", MFD_CLOEXEC);
	if (fd < 0)
		return err_set(e, R_NO_MEMORY, errno, "make sandbox '%s'", sb->id);
	d = engine_daemon(sb->engine, e);
	if (!d || put_machine_id(sb, fd, e) < 0)
		return -1;
	if (!*sb->own_image &&
		(put_dir(sb, fd, sb->spec->home, 0700, e) < 0 ||
			put_dir(sb, fd, "/workspace", 0755, e) < 0))
		return -1;
	if (write_all(fd, end, sizeof end) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make sandbox '%s'", sb->id);
	return docker_archive_put(d, sb->container, "/", fd, e);
}

static int make(struct sandbox *sb, struct request_facts *f, struct err *e)
{
	struct docker *d = engine_daemon(sb->engine, e);
	_cleanup_json_ json_t *asked = NULL;
	_cleanup_err_ struct err ignored = ERR_INIT;
	char name[REQUEST_NAME];

	if (!d)
		return -1;
	asked = request_create(sb->spec, f, e);
	if (!asked)
		return -1;
	request_name(name, sb->engine->home_hash, sb->id);
	if (docker_create(d, name, asked, sb->container, NULL, e) < 0)
		return -1;
	if (check_it(sb, asked, e) == 0 && put_own(sb, e) == 0)
		return 0;
	(void)container_remove(sb, &ignored);
	return -1;
}

/* The daemon's own refusal says no more than that. */
static int check_runtime(const struct sandbox *sb, struct err *e)
{
	char all[DOCKER_TEXT + 2], one[SPEC_RUNTIME + 2];

	if (!*sb->spec->runtime || !*sb->engine->info.runtimes)
		return 0;
	FMT(all, " %s ", sb->engine->info.runtimes);
	if (strstr(all, FMT(one, " %s ", sb->spec->runtime)))
		return 0;
	return err_set(e, R_RUNTIME_UNSUPPORTED, 0,
		"make a container with runtime '%.64s': the daemon has '%.200s'", sb->spec->runtime,
		sb->engine->info.runtimes);
}

static int refuse_cow(const struct spec_bind *b, struct err *e)
{
	err_set(e, R_LAYER_UNSUPPORTED, 0, "mount '%s' copy-on-write: a container can't",
		b->target);
	return err_remedy(
		e, "Mount it :ro, copy it in with 'bailey cp', or use the native engine.");
}

int container_create(struct sandbox *sb, struct err *e)
{
	const struct engine *g = sb->engine;
	_cleanup_free_ char *ctl = ctl_path(g, sb->id);
	_cleanup_close_ int dir = -1;
	char *binds[SPEC_MAX_BINDS] = { NULL };
	struct request_facts f = { .home_hash = g->home_hash,
		.image = sb->image,
		.guest = g->guest,
		.ctl = ctl,
		.command = sb->command,
		.runtime = sb->spec->runtime,
		.cpus = (uint32_t)g->info.cpus,
		.podman = g->info.podman };
	int r = check_runtime(sb, e);

	if (r == 0)
		r = container_ctl(sb, &dir, e);
	if (r == 0)
		r = disk_bound(sb, &f.storage_size, e);
	for (unsigned i = 0; r == 0 && i < sb->spec->n_binds; i++) {
		if (sb->spec->binds[i].cow)
			r = refuse_cow(&sb->spec->binds[i], e);
		else
			r = bind_path(&sb->spec->binds[i], &binds[i], e);
		f.binds[i] = binds[i];
	}
	if (r == 0)
		r = make(sb, &f, e);
	for (unsigned i = 0; i < SPEC_MAX_BINDS; i++)
		free(binds[i]);
	if (r < 0)
		container_ctl_remove(g, sb->id);
	return r;
}

int container_remove(struct sandbox *sb, struct err *e)
{
	struct docker *d;

	container_ctl_remove(sb->engine, sb->id);
	if (!*sb->container)
		return 0;
	d = engine_daemon(sb->engine, e);
	if (!d || docker_remove(d, sb->container, true, true, e) < 0)
		return -1;
	sb->container[0] = '\0';
	return 0;
}

int container_running(struct sandbox *sb, bool *ret, int64_t *ret_exit, struct err *e)
{
	struct docker *d = engine_daemon(sb->engine, e);
	_cleanup_json_ json_t *there = NULL;
	const json_t *state;

	if (!d || docker_inspect(d, sb->container, &there, e) < 0)
		return -1;
	state = json_object_get(there, "State");
	*ret = docker_json_true(state, "Running");
	*ret_exit = docker_json_number(state, "ExitCode");
	sb->first = (pid_t)docker_json_number(state, "Pid");
	return 0;
}
