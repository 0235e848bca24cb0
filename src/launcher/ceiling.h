/* The bounds that an operator sets for everything a launcher makes.  Read by the launcher and, by itself, by its spawner: a
 * launcher that somebody has taken over still starts nothing beyond them. */
#pragma once
#include "spec/pack.h"

#define CEILING_FILE "/etc/bailey/ceiling.conf"

enum {
	CEILING_PROFILES = 16,
	CEILING_MAX = 16384, /* bytes of the file */
};

/* Sizes in bytes, times in milliseconds, processors in thousandths. */
struct ceiling {
#define CEILING(type, member, key, value, lo, hi, doc) uint64_t member;
#include "launcher/ceiling.def"
#undef CEILING
	uint32_t profiles; /* bits 1u << enum spec_profile that may be asked for */
	bool docker;       /* whether sandboxes of the Docker engine may be made */
};

/* Defaults: every profile, the native engine. */
void ceiling_init(struct ceiling *c);

/* Lines `key value`, '#' begins a comment; "profiles" and "engines" take names with spaces between.  The file belongs to root
 * or to this process's user and nobody else may write it, else R_CONFIG_INVALID.  path NULL: CEILING_FILE, which may be
 * missing; a path that was given may not. */
int ceiling_read(struct ceiling *c, const char *path, struct err *e);
int ceiling_parse(struct ceiling *c, char *text, const char *path, struct err *e);

/* Whether one request stays below; counts and sums are the launcher's to hold.  R_CEILING_EXCEEDED, R_NOT_ALLOWED. */
int ceiling_check(const struct ceiling *c, const struct pack_request *r, struct err *e);
