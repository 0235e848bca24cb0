/* Which Docker daemon is spoken to, and over what. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
	DOCKER_SOCKET_PATH = 108, /* sun_path with its NUL */
	DOCKER_HOST_NAME = 256,
	DOCKER_HOST_TEXT = 512,
};

struct docker_host {
	bool is_unix, tls;
	char path[DOCKER_SOCKET_PATH]; /* of the Unix socket */
	char name[DOCKER_HOST_NAME];   /* without brackets */
	uint16_t port;
	char url[DOCKER_HOST_TEXT]; /* what paths are put behind, for example https://[::1]:2376 */
	char shown[DOCKER_HOST_TEXT]; /* for messages */
	char *ca, *cert, *key;        /* paths; tls only; owned */
};

void docker_host_done(struct docker_host *h);
#define _cleanup_docker_host_ _cleanup_(docker_host_done)

/* host and cert_path: what is configured, or NULL; then the environment, then the usual sockets (see docker_open()).
 * Nothing is connected to.  R_BAD_VALUE, R_DOCKER_INSECURE_HOST, R_DOCKER_TLS_FAILED (no certificates), R_DOCKER_UNREACHABLE
 * (no socket anywhere). */
int docker_host_find(
	struct docker_host *ret, const char *host, const char *cert_path, struct err *e);

/* One text.  cert_path: directory or NULL; verify: certificates are wanted wherever they are (~/.docker). */
int docker_host_parse(struct docker_host *ret, const char *text, const char *cert_path, bool verify,
	struct err *e);

/* A connection to the Unix socket of h, waited for at most timeout_ms.  R_DOCKER_UNREACHABLE, R_DOCKER_TIMEOUT. */
int docker_host_connect(
	const struct docker_host *h, uint64_t timeout_ms, int *ret_fd, struct err *e);
