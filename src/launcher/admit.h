/* Which objects of the host may be shown in a sandbox.
 *
 * A client's path is opened here, once, with the client's own rights; from then on only the descriptor counts.  Objects are
 * compared by device and inode, so links, bind mounts and odd spellings change nothing; a few names (NAME in forbidden.def) are
 * refused besides, wherever they lie. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum admit_use {
	ADMIT_WORKSPACE,
	ADMIT_MOUNT,
	ADMIT_IMAGE,
	ADMIT_SOCKET, /* a Unix socket behind which a model answers */
};

struct admit {
	const char *path;
	enum admit_use use;
	bool writable;
	bool allow_root_owned; /* --root-workspace */
	bool for_other; /* asked for by uid, whose a writable directory must be; else by this process's user */
	uid_t uid;
};

/* Opens and checks; *ret_fd is O_PATH and the caller's.  Refusals: R_MOUNT_SOURCE_MISSING, R_MOUNT_SOURCE_RELATIVE,
 * R_MOUNT_FORBIDDEN, R_WORKSPACE_NOT_OWNED, R_WORKSPACE_ROOT_OWNED, R_IMAGE_MISSING, R_SOCKET_MISSING,
 * R_DISK_FULL, and R_SETUP_FAILED when the mounts or sockets of the host can't be read. */
int admit_open(const struct admit *a, int *ret_fd, struct err *e);

/* The same for what somebody else has opened, with his rights; path is only told in messages.  *ret_fd is O_PATH, new and the
 * caller's; given stays its owner's. */
int admit_fd(const struct admit *a, int given, int *ret_fd, struct err *e);

/* Reads the host's bound sockets from here from now on: /proc/net/unix, opened before the network namespace was left.  Stays
 * the caller's. */
void admit_use_sockets(int fd);

/* What is forbidden is looked up at the first call and kept; a program that lives on calls this before the next client. */
void admit_forget(void);
