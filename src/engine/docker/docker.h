/* The Docker engine: what its files share. */
#pragma once
#include "engine/docker/api.h"
#include "engine/docker/request.h"
#include "engine/engine.h"

enum {
	BOOT_MS = 15000, /* that a guest has to dial when the daemon has started it */
	DIAL_MS = 10000, /* that a guest has to dial again */
	HALT_MS = 30000,
	LAYERS_MAX = 20, /* images of ours above the first one, before they are made one */
	LAYER_REF = 96,
	PATH_MAX_HOST = 4096,
};

struct engine {
	struct docker *docker;
	pid_t pid; /* of the process whose connection that is */
	char *host, *cert_path, *guest, *runs;
	char home_hash[9];
	bool watch_disk;
	char *const *shown; /* the first command, as the container is to show it; borrowed */
	struct docker_info info;
};

struct sandbox {
	struct engine *engine;
	pid_t owner;
	struct sandbox_spec *spec; /* a copy of its own */
	char id[SPEC_ID_LEN];
	char container[DOCKER_ID]; /* empty: none */
	char image[DOCKER_REF];    /* what the container was made from */
	char own_image[LAYER_REF]; /* the image of ours among them; empty: none */
	unsigned layers;
	char *const *command;
	int listener, control;
	uint64_t hi, lo; /* the guest's token */
	bool running, paused, copied, flat;
	bool rebased;      /* the lowest of its layers holds the whole tree */
	pid_t first;       /* as the host sees it; 0: not known */
	uint64_t deadline; /* CLOCK_BOOTTIME ms, told to the guest; 0: none */
	uint64_t disk_used, disk_at;
	uint64_t watched_cpu; /* what it had used at the last look */
};

/* The daemon, by a connection of this process; NULL with *e set. */
struct docker *engine_daemon(struct engine *g, struct err *e);

/* --- container.c --- */
int container_create(struct sandbox *sb, struct err *e);
int container_remove(struct sandbox *sb, struct err *e);
int container_running(struct sandbox *sb, bool *ret, int64_t *ret_exit, struct err *e);
int container_ctl(const struct sandbox *sb, int *ret, struct err *e); /* runs/ID/ctl, made */
void container_ctl_remove(const struct engine *g, const char *id);

/* --- dial.c --- */
int dial_listen(struct sandbox *sb, struct err *e);
int dial_prepare(struct sandbox *sb, struct err *e); /* a new token for a new boot */
int dial_await_control(struct sandbox *sb, uint64_t ms, struct err *e);
int dial_channel(struct sandbox *sb, uint64_t epoch, int *ret_fd, struct err *e);
void dial_done(struct sandbox *sb);

/* The runtime's name, also where the daemon chose it; and whether that is gVisor's. */
const char *docker_runtime(const struct sandbox *sb);
bool docker_on_gvisor(const struct sandbox *sb);

/* --- session.c --- */
int docker_session_boot(struct sandbox *sb, struct err *e);
int docker_session_connect(struct sandbox *sb, uint64_t epoch, int *ret_fd, struct err *e);
int docker_session_halt(struct sandbox *sb, struct engine_facts *ret, struct err *e);
int docker_session_pause(struct sandbox *sb, bool on, struct err *e);
int docker_session_stats(struct sandbox *sb, struct engine_stats *ret, struct err *e);
bool docker_session_gone(struct sandbox *sb);
int docker_session_watch(struct sandbox *sb, struct err *e);

/* --- limits.c --- */
/* The first line of a file of the running container's cgroup as a number, or the number behind `key` in one of its lines.
 * false: not to be seen here. */
bool cgroup_number(
	const struct sandbox *sb, const char *controller, const char *file, uint64_t *ret);
bool cgroup_key(const struct sandbox *sb, const char *controller, const char *file, const char *key,
	uint64_t *ret);
/* That the running container's cgroup has the limits that were asked for.  R_LIMITS_UNENFORCED. */
int limits_hold(const struct sandbox *sb, struct err *e);

/* --- layers.c --- */
int docker_layers_seal(struct sandbox *sb, struct err *e);
int docker_layers_copy(
	struct sandbox *sb, void (*progress)(void *arg, uint64_t bytes), void *arg, struct err *e);
int docker_layers_adopt(
	struct sandbox *sb, const char *new_id, const char *hostname, struct err *e);
void docker_layers_sweep(struct engine *g);

/* --- changes.c --- */
int docker_session_changes(struct sandbox *sb, int out_fd, uint32_t flags, struct err *e);
/* What the engine and the daemon put there, not the workload. */
bool docker_made(const struct sandbox_spec *s, const char *path);

/* --- trees.c --- */
/* The directory of the container's own layer and, where wanted, those below it as "A:B:C": the daemon keeps them by overlayfs,
 * and they can be read here.  Borrowed of `there`, which is docker_inspect()'s; NULL: the daemon has to be asked. */
const char *trees_upper(const struct sandbox *sb, const json_t *there, const char **ret_lower);
/* The same from the daemon's own directories; *ret_done: they could be read.  there: of docker_inspect(). */
int trees_changes(const struct sandbox *sb, const json_t *there, int out, bool content,
	bool *ret_done, struct err *e);

/* --- usage.c --- */
/* Bytes that the container's own layer takes; false: not to be seen here.  there: of docker_inspect(). */
bool docker_usage(const struct sandbox *sb, const json_t *there, uint64_t *ret);

/* --- sweep.c --- */
int docker_home_containers(struct engine *g, json_t **ret, struct err *e);
bool docker_owner_lives(const struct engine *g, const char *id);
bool docker_used(const char *runs);
void docker_unreachable(void);
int docker_sweep(struct engine *g, unsigned *ret_removed, struct err *e);

/* --- docker.c --- */
struct sandbox_spec *spec_copy(const struct sandbox_spec *s, struct err *e);
uid_t docker_channel_uid(const struct sandbox *sb);

extern const struct engine_ops engine_docker;
