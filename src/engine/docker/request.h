/* The create request of a container: a pure function of a sandbox_spec and of what the engine found out.  Called by docker.c
 * and by its tests, which hold the whole request of each profile against a file. */
#pragma once
#include "engine/docker/json.h"
#include "spec/spec.h"

#define REQUEST_DIR "/run/bailey"         /* inside: runs/ID/ctl of the host */
#define REQUEST_GUEST "/run/bailey-guest" /* inside: the guest's program */
enum {
	REQUEST_PATH = 4096,
	REQUEST_OWN_PIDS =
		65, /* on top of the limit of `create`: the guest, and one for each command that runs */
};

/* Strings are borrowed for the call. */
struct request_facts {
	const char *home_hash;
	const char *image;                 /* what the container is made from */
	const char *guest;                 /* path on the host */
	const char *ctl;                   /* path on the host */
	const char *binds[SPEC_MAX_BINDS]; /* what spec->binds[i] is on the host */
	const char *cow_volume;            /* name of the volume for the cow bind; NULL: none */
	char *const *command;              /* shown as the container's command; NULL: none */
	const char *runtime;               /* NULL or empty: the daemon's own choice */
	uint32_t cpus;                     /* of the daemon's host; 0: not known */
	bool podman;                       /* its tmpfs takes no ids */
	bool storage_size;                 /* the daemon's store bounds a layer */
};

/* The body of POST /containers/create; NULL with *e set where the spec asks for what a container can't have. */
json_t *request_create(const struct sandbox_spec *s, const struct request_facts *f, struct err *e);

/* The container's limit on processes: the sandbox's, and on top of it what is ours. */
uint32_t request_pids(const struct sandbox_spec *s);

/* "bailey-HASH-ID"; ret has REQUEST_NAME bytes. */
enum { REQUEST_NAME = 64 };
void request_name(char *ret, const char *home_hash, const char *id);

/* Holds what was asked against what the daemon says the container is: every field that was asked for, and nothing beside it
 * that would widen it.  R_LIMITS_UNENFORCED for a limit, else R_SETUP_FAILED; the field is named. */
int request_compare(const json_t *asked, const json_t *inspected, bool podman, struct err *e);

/* What the guest has to find in its mounts, as its file REQUEST_DIR/check: a line each.
 *   tmpfs MODE UID GID PATH     made so, or the guest ends
 *   object DEV INO PATH         the mounted object must be this one */
int request_checks(const struct sandbox_spec *s, bool objects, bool podman, struct buf *out);
