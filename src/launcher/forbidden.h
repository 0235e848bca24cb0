/* The table of what is never shown (forbidden.def), looked up on this host. */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "launcher/chain.h"

struct forbidden;

/* Why something is refused: "it HOW 'PATH'".  Both strings are the table's. */
struct refusal {
	const char *how, *path;
	bool writable_only; /* to show it read-only is fine */
};

/* Looks every object up; *ret is the caller's. */
int forbidden_load(struct forbidden **ret, struct err *e);
void forbidden_free(struct forbidden *f);

/* True and *ret set when a directory (or a file that is mounted) with this chain may not be shown. */
bool forbidden_directory(
	struct forbidden *f, const struct chain *source, bool writable, struct refusal *ret);

/* The same for a socket behind which a model is said to answer; `path` is its name as the kernel knows it. */
bool forbidden_socket(
	struct forbidden *f, const struct chain *socket, const char *path, struct refusal *ret);

/* The component of a path that is refused wherever it lies, or NULL. */
const char *forbidden_name(const char *path);
bool forbidden_fstype(const char *type);
