/* Owns what a container's files become for forks and snapshots: images bailey/layer:ID-N of this home.  Called by the owner, and
 * by processes forked from it that become owners of forks.  Must hold: an image goes with the last container made from it. */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/docker.h"
#include "engine/rundir.h"

#define LAYER_REPO "bailey/layer"

static int save(void *arg, const void *p, size_t n, struct err *e)
{
	const int *fd = arg;

	return write_all(*fd, p, n) < 0 ? err_set(e, errno == ENOSPC ? R_DISK_FULL : R_IO_FAILED,
						  errno, "write the tree of a sandbox")
					: 0;
}

/* A chain of layers has an end in the kernel: from time to time the whole tree becomes one. */
static int flatten(struct sandbox *sb, struct docker *d, bool pause, const char *tag,
	const char *label, struct err *e)
{
	_cleanup_close_ int fd = open(sb->engine->runs, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	_cleanup_err_ struct err ignored = ERR_INIT;
	char id[DOCKER_IMAGE_ID];
	int r;

	if (fd < 0)
		return err_set(
			e, R_STATE_UNWRITABLE, errno, "copy the layers of sandbox '%s'", sb->id);
	if (pause && docker_pause(d, sb->container, e) < 0)
		return -1;
	r = docker_export(d, sb->container, save, &fd, e);
	if (pause)
		(void)docker_unpause(d, sb->container, &ignored);
	if (r < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, R_IO_FAILED, errno, "copy the layers of sandbox '%s'", sb->id);
	sb->flat = true;
	return docker_image_import(d, fd, LAYER_REPO, tag, label, id, e);
}

static int commit(struct sandbox *sb, bool pause, struct err *e)
{
	struct docker *d = engine_daemon(sb->engine, e);
	static unsigned n;
	char tag[64], label[64], id[DOCKER_IMAGE_ID];

	if (!d)
		return -1;
	FMT(tag, "%s-%d-%u", sb->id, (int)getpid(), ++n);
	FMT(label, "LABEL bailey.home=%s", sb->engine->home_hash);
	if (sb->layers >= LAYERS_MAX
			? flatten(sb, d, pause, tag, label, e) < 0
			: docker_commit(d, sb->container, LAYER_REPO, tag, pause, label, id, e) < 0)
		return -1;
	str_format(sb->own_image, sizeof sb->own_image, LAYER_REPO ":%s", tag);
	str_format(sb->image, sizeof sb->image, "%s", sb->own_image);
	return 0;
}

/* The container goes on over what it has; whoever is made from the image sees the same. */
int docker_layers_seal(struct sandbox *sb, struct err *e)
{
	if (sb->running)
		return err_set(e, R_SETUP_FAILED, EBUSY, "seal the layer of sandbox '%s'", sb->id);
	return commit(sb, false, e);
}

int docker_layers_copy(
	struct sandbox *sb, void (*progress)(void *arg, uint64_t bytes), void *arg, struct err *e)
{
	(void)progress;
	(void)arg;
	if (getpid() == sb->owner)
		return err_set(e, R_SETUP_FAILED, EINVAL,
			"copy the layer of sandbox '%s' in its own owner", sb->id);
	if (commit(sb, sb->running && !sb->paused, e) < 0)
		return -1;
	sb->copied = true;
	return 0;
}

int docker_layers_adopt(struct sandbox *sb, const char *new_id, const char *hostname, struct err *e)
{
	if (getpid() == sb->owner)
		return err_set(e, R_SETUP_FAILED, EINVAL, "take over sandbox '%s' in its own owner",
			sb->id);
	/* the container, its directory and its connections are the old owner's */
	sb->container[0] = '\0';
	dial_done(sb);
	sb->running = sb->paused = sb->copied = false;
	sb->first = 0;
	sb->disk_at = sb->disk_used = 0;
	str_format(sb->id, sizeof sb->id, "%s", new_id);
	str_format(sb->spec->id, sizeof sb->spec->id, "%s", new_id);
	str_format(sb->spec->hostname, sizeof sb->spec->hostname, "%s", hostname);
	if (spec_check(sb->spec, e) < 0 || container_create(sb, e) < 0)
		return -1;
	sb->owner = getpid();
	sb->layers = sb->flat ? 1 : sb->layers + 1;
	sb->rebased = sb->rebased || sb->flat;
	sb->flat = false;
	return 0;
}

/* The daemon refuses to remove what a container or another image is made from; the rest is nobody's.  One that has just been
 * made, and whose container is about to be, is left: its maker lives. */
static bool maker_lives(const struct engine *g, const char *tag)
{
	const char *dash = strchr(tag, '-');
	char id[SPEC_ID_LEN], path[PATH_MAX_HOST];

	if (!dash || (size_t)(dash - tag) >= sizeof id)
		return true;
	str_format(id, sizeof id, "%.*s", (int)(dash - tag), tag);
	if (g->runs && rundir_id_is_plain(id) && access(FMT(path, "%s/%s", g->runs, id), F_OK) == 0)
		return true;
	return access(FMT(path, "/proc/%.*s", (int)strspn(dash + 1, "0123456789"), dash + 1),
		       F_OK) == 0;
}

static bool sweep_tags(struct engine *g, const json_t *image)
{
	bool removed = false;
	_cleanup_err_ struct err ignored = ERR_INIT;
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(image, "RepoTags"), i, one)
	{
		const char *ref = json_string_value(one), *tag = NULL;

		if (ref)
			tag = strstr(ref, LAYER_REPO ":");
		if (!tag || maker_lives(g, tag + strlen(LAYER_REPO ":")))
			continue;
		removed = docker_image_remove(g->docker, ref, false, &ignored) == 0 || removed;
		err_done(&ignored);
	}
	return removed;
}

static bool sweep_once(struct engine *g)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_json_ json_t *all = NULL;
	bool removed = false;
	char label[32];
	const json_t *one;
	size_t i;

	if (!engine_daemon(g, &ignored) ||
		docker_image_list(
			g->docker, FMT(label, "bailey.home=%s", g->home_hash), &all, &ignored) < 0)
		return false;
	json_array_foreach(all, i, one) removed = sweep_tags(g, one) || removed;
	return removed;
}

/* What the last one was made from is free only then. */
void docker_layers_sweep(struct engine *g)
{
	for (unsigned i = 0; i <= LAYERS_MAX && sweep_once(g); i++)
		;
}
