/* What is known of a sandbox: the lines of runs/ID/meta, and of INSPECT. */
#pragma once
#include "base/buf.h"
#include "engine/engine.h"
#include "spec/pack.h"

enum sandbox_state {
	STATE_CREATING,
	STATE_RUNNING,
	STATE_PAUSED,
	STATE_STOPPED,
	STATE_LOST,
	STATE_REMOVING,
	STATE_SNAPSHOT,
};

struct run_record {
	char id[SPEC_ID_LEN], parent[SPEC_ID_LEN]; /* parent empty: made from an image */
	char name[PACK_NAME];
	char image[PACK_TEXT], workspace[PACK_PATH];
	char hostname[64], workdir[SPEC_MAX_TARGET];
	const char *engine; /* static */
	enum spec_profile profile;
	char tid[SPEC_TID], model[SPEC_MODEL]; /* of a task; empty: none */
	const char *workspace_mode;            /* static */
	enum sandbox_state state;
	enum reason exit_reason; /* why it is lost */
	bool snapshot, keep, read_only, unlimited;
	uint64_t created_ms, started_ms, stopped_ms, ttl_ms,
		deadline_ms; /* since the epoch; 0: not */
	pid_t owner_pid;
	uint64_t owner_start;
	uid_t uid;
	gid_t gid;
	struct spec_limits limits;
	uint64_t disk_bytes, spool_max;
	bool disk_watched; /* nothing bounds it, but the owner looks at it */
	bool disk_loop;    /* its layers lie in files of the layer store */
};

void record_fill(struct run_record *r, const struct pack_request *q, const char *engine);
void record_put(const struct run_record *r, struct buf *out);
void record_put_stats(const struct engine_stats *s, struct buf *out);

/* "key value" with \n and \\ escaped. */
void record_line(struct buf *out, const char *key, const char *value);
void record_number(struct buf *out, const char *key, uint64_t value);
