/* The Unix sockets that programs of the host have bound below a directory. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "launcher/chain.h"

/* A directory that will be shown. */
struct shown {
	struct object object;
	const char *path;
	int fd; /* -1: names relative to it aren't looked up */
};

/* *ret is the name of a socket that lies below one of the directories, the caller's to free, or NULL. */
int sockets_below(const struct shown *v, size_t n, char **ret, struct err *e);

/* Reads them from this descriptor of a /proc/net/unix, for a process that has left that network namespace; -1: from its own. */
void sockets_from(int fd);
