/* Calls of the Docker Engine's API (Docker, or Podman's service), typed.
 *
 * Owns: which daemon is spoken to and how, the version of the API, every check of what comes back.  Nothing that a daemon
 * sends is believed before it was checked, and none of its bytes reaches a terminal unescaped.
 * Convention: base/err.h.  Beside the reasons that a call names, each may fail with
 *   R_DOCKER_UNREACHABLE (no daemon, no permission, it went away), R_DOCKER_TIMEOUT, R_DOCKER_TLS_FAILED,
 *   R_DOCKER_BAD_RESPONSE (not HTTP, cut off, over a bound, not the JSON that the API has),
 *   R_DOCKER_REFUSED (the daemon said no: its words are quoted in the message), R_NO_MEMORY.
 * `id` is a container's id or name; R_BAD_VALUE when it is neither.  *ret is untouched on failure; json_t results are the
 * caller's to json_decref(). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/docker/json.h"

enum {
	DOCKER_ID = 65,       /* a container's, an exec's: 64 lower-case hex digits and NUL */
	DOCKER_IMAGE_ID = 72, /* "sha256:" before that */
	DOCKER_REF = 256,     /* an image's name with its tag */
	DOCKER_TEXT = 1024,
	DOCKER_CONNECT_MS = 5000,
	DOCKER_CALL_MS = 30000,     /* a call with a small answer, all in all */
	DOCKER_STREAM_MS = 3600000, /* archives, images, commits: but see the next two */
	DOCKER_STALL_MS = 60000,    /* a stream in which nothing moves for so long has failed */
	DOCKER_COMMIT_MS =
		600000, /* commit, image import and load: the daemon may be silent so long */
};

/* One daemon.  Belongs to the process that opened it: after fork() the child frees it and opens its own, but for
 * docker_free_forked().  Not for threads. */
struct docker;

/* Strings are borrowed until docker_open() returns; NULL or empty: not configured. */
struct docker_config {
	const char *host;      /* unix:///path, /path, http://, https://, tcp:// */
	const char *cert_path; /* directory with ca.pem, cert.pem, key.pem */
	uint64_t timeout_ms;   /* instead of DOCKER_CALL_MS; 0: that */
};

/* Finds the daemon and agrees on a version.  The host: config, $DOCKER_HOST, $CONTAINER_HOST, else the first socket of
 * /var/run/docker.sock, $XDG_RUNTIME_DIR/docker.sock, $XDG_RUNTIME_DIR/podman/podman.sock, /run/podman/podman.sock that
 * may be used.  Certificates: config, $DOCKER_CERT_PATH, ~/.docker under $DOCKER_TLS_VERIFY; tcp:// with certificates is
 * https.  R_DOCKER_INSECURE_HOST: plain HTTP to anything but this machine's loopback; R_BAD_VALUE: not such a host;
 * R_DOCKER_VERSION_UNSUPPORTED. */
int docker_open(struct docker **ret, const struct docker_config *c, struct err *e);

/* NULL is fine. */
void docker_free(struct docker *d);

/* In a forked child: closes the descriptors and says nothing to the daemon (the parent's connection goes on). */
void docker_free_forked(struct docker *d);

bool docker_is_local(
	const struct docker *d); /* a Unix socket: bind mounts mean this machine's files */
bool docker_is_podman(const struct docker *d);
const char *docker_host(
	const struct docker *d); /* as it may be shown, for example unix:///var/run/docker.sock */
const char *docker_api(const struct docker *d); /* the version agreed on, for example "1.41" */

struct docker_info {
	bool podman, rootless;
	bool memory_limit, swap_limit, pids_limit,
		cpu_quota; /* what it claims; a probe knows better */
	char id[128];
	char version[64], api[16], os[32], arch[32], kernel[128];
	bool plain_layers; /* no layer refers to data of another one: "Native Overlay Diff" */
	char driver[64], backing_fs[64]; /* of images and containers; backing_fs empty: not said */
	char cgroup_driver[32], cgroup_version[8];
	char default_runtime[64];
	char runtimes
		[DOCKER_TEXT]; /* names with a space between, sorted; " runc " matches in " NAMES " */
	char security[DOCKER_TEXT]; /* the same, for example "name=seccomp,profile=default" */
	char root_dir[DOCKER_TEXT]; /* empty: not said */
	uint64_t cpus, memory_bytes;
};

int docker_info(struct docker *d, struct docker_info *ret, struct err *e);

/* --- containers ---------------------------------------------------------------------------------------------------- */

/* body: the create request (borrowed).  *ret_warnings: the daemon's, an array of strings, maybe empty; NULL: not wanted.
 * R_SANDBOX_EXISTS: the name is taken.  R_IMAGE_MISSING. */
int docker_create(struct docker *d, const char *name, const json_t *body, char ret_id[DOCKER_ID],
	json_t **ret_warnings, struct err *e);

/* Idempotent: what is so already is success.  R_SANDBOX_NOT_FOUND where there is no such container, but for remove, for
 * which that is success too (and so is one whose removal is under way: it returns once it is gone). */
int docker_start(struct docker *d, const char *id, struct err *e);
int docker_kill(struct docker *d, const char *id, int sig, struct err *e);
int docker_stop(struct docker *d, const char *id, unsigned grace_s, struct err *e);
int docker_pause(struct docker *d, const char *id, struct err *e);
int docker_unpause(struct docker *d, const char *id, struct err *e);
int docker_remove(struct docker *d, const char *id, bool force, bool volumes, struct err *e);

/* Until it does not run.  R_DOCKER_TIMEOUT after timeout_ms.  *ret_code: exit status (Podman: 0 after a SIGKILL). */
int docker_wait(
	struct docker *d, const char *id, uint64_t timeout_ms, int64_t *ret_code, struct err *e);

/* An object.  R_SANDBOX_NOT_FOUND. */
int docker_inspect(struct docker *d, const char *id, json_t **ret, struct err *e);
int docker_inspect_size(
	struct docker *d, const char *id, json_t **ret, struct err *e); /* with SizeRw: slow */

/* An array, of all states; each has a checked "Id".  label: "KEY" or "KEY=VALUE". */
int docker_list(struct docker *d, const char *label, json_t **ret, struct err *e);

/* One reading, at once (no second one for rates). */
int docker_stats(struct docker *d, const char *id, json_t **ret, struct err *e);

/* A new image REPO:TAG.  changes: lines such as "LABEL k=v", or NULL. */
int docker_commit(struct docker *d, const char *id, const char *repo, const char *tag, bool pause,
	const char *changes, char ret_id[DOCKER_IMAGE_ID], struct err *e);

/* An array of {"Path", "Kind"}: 0 changed, 1 added, 2 deleted; checked, up to 32 MiB of it. */
int docker_changes(struct docker *d, const char *id, json_t **ret, struct err *e);

/* Takes n bytes of a stream; -1 with *e set ends it. */
typedef int docker_sink(void *arg, const void *p, size_t n, struct err *e);

/* A tar.  R_PATH_NOT_FOUND.  Docker reads and writes below tmpfs mounts (Podman doesn't), and refuses to write where the
 * root is read-only.  tar_fd: read from where it stands to its end; need not be a file. */
int docker_archive_get(struct docker *d, const char *id, const char *path, docker_sink *sink,
	void *arg, struct err *e);
int docker_archive_put(
	struct docker *d, const char *id, const char *path, int tar_fd, struct err *e);

/* The whole file system as a tar. */
int docker_export(struct docker *d, const char *id, docker_sink *sink, void *arg, struct err *e);

/* --- commands in a running container --------------------------------------------------------------------------------- */

/* Starts argv (no terminal) and gives its standard input and output as one stream socket: plain bytes, the daemon's framing
 * is undone by a relay process of its own, which ends with the stream or when *ret_fd has been closed by all that hold it.
 * It is not the caller's child, so there is nothing to reap.  Standard error is not attached.
 * shutdown(SHUT_WR) reaches the command over a Unix socket; over TLS it doesn't, there only closing ends the stream.
 * Closing does not kill the command.  user: "uid:gid" or NULL, the container's.  *ret_fd is the caller's, O_CLOEXEC.
 * R_SANDBOX_NOT_RUNNING, R_SANDBOX_NOT_FOUND. */
int docker_exec_stream(struct docker *d, const char *id, char *const argv[], const char *user,
	int *ret_fd, char ret_exec[DOCKER_ID], struct err *e);

struct docker_exec {
	bool running;
	int64_t exit_code; /* of one that has ended */
	int64_t pid;       /* as the daemon sees it; 0: not known */
};

int docker_exec_inspect(
	struct docker *d, const char *exec_id, struct docker_exec *ret, struct err *e);

/* --- images ---------------------------------------------------------------------------------------------------------- */

/* ref: a name, with or without a tag, or an id.  R_IMAGE_MISSING with the remedy for it. */
int docker_image_inspect(struct docker *d, const char *ref, json_t **ret, struct err *e);

/* An array; each has a checked "Id".  label as for docker_list(), NULL: all. */
int docker_image_list(struct docker *d, const char *label, json_t **ret, struct err *e);
int docker_image_tag(
	struct docker *d, const char *ref, const char *repo, const char *tag, struct err *e);

/* A missing one is success.  R_BUSY: containers use it. */
int docker_image_remove(struct docker *d, const char *ref, bool force, struct err *e);

/* From `docker save` form.  ret_ref: what the daemon says that it loaded, a name or an id. */
int docker_image_load(struct docker *d, int tar_fd, char ret_ref[DOCKER_REF], struct err *e);

/* A root file system as an image REPO:TAG.  changes: lines such as "LABEL k=v", or NULL. */
int docker_image_import(struct docker *d, int tar_fd, const char *repo, const char *tag,
	const char *changes, char ret_id[DOCKER_IMAGE_ID], struct err *e);

/* --- volumes --------------------------------------------------------------------------------------------------------- */

/* labels: an object of strings (borrowed) or NULL.  One that exists is success. */
int docker_volume_create(struct docker *d, const char *name, const json_t *labels, struct err *e);

/* A missing one is success.  R_BUSY: a container uses it. */
int docker_volume_remove(struct docker *d, const char *name, bool force, struct err *e);

/* R_PATH_NOT_FOUND. */
int docker_volume_inspect(struct docker *d, const char *name, json_t **ret, struct err *e);
