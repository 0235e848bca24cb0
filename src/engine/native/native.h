/* The native engine, inside: one sandbox out of the machine's own kernel.  Internal to the room.
 *
 * Order of things (create): ids -> cgroups -> trees -> clone3 -> maps -> [child: root, mounts, /proc, /dev, pivot] in
 * parallel with [parent: joins] -> cgroup namespace -> capabilities -> filter -> bailey-guest. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"

enum {
	NATIVE_ID_RANGE = 65536,
	NATIVE_MAX_TREES = 24 + SPEC_MAX_BINDS,
	CGROUP_MAX_CONTROLLERS = 5,
	CGROUP_PATH = 512,
	NATIVE_NAME = 96,
};

/* --- ids.c: who the sandbox is on the host ----------------------------------------------------------------------- */

struct id_range {
	int lock_fd; /* holds the range as long as it is open; -1: the caller's own single id */
	uid_t base;
};

/* Takes a free range of NATIVE_ID_RANGE ids (root only). */
int ids_take(struct id_range *ret, uint32_t base, uint32_t count, struct err *e);
void ids_release(struct id_range *r);

/* Checks the whole configured region against /etc/subuid, /etc/subgid and /etc/passwd. */
int ids_check_region(uint32_t base, uint32_t count, struct err *e);

/* A user namespace that shows host ids uid:gid as base+inside; for idmapped mounts.  The caller closes *ret. */
int ids_open_mapping(uid_t uid, gid_t gid, uid_t to_uid, gid_t to_gid, int *ret, struct err *e);

/* Writes uid_map and gid_map of a fresh process (root only). */
int ids_write_maps(pid_t pid, const char *uid_map, const char *gid_map, struct err *e);

/* --- cgroup*.c: how limits are enforced --------------------------------------------------------------------------- */

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

/* Where sandboxes' cgroups are made.  v1: one directory per controller; v2: dirs[0] only. */
struct cgroup_tree {
	enum cgroup_kind kind;
	unsigned n;
	const char *controller[CGROUP_MAX_CONTROLLERS];
	int dir[CGROUP_MAX_CONTROLLERS]; /* O_PATH directories, owned */
	char path[CGROUP_MAX_CONTROLLERS][CGROUP_PATH];
};

struct cgroup {
	char name[NATIVE_NAME];
	int dir[CGROUP_MAX_CONTROLLERS]; /* owned; -1 where not made */
};

/* Finds a place where limits hold; R_LIMITS_UNENFORCED with the cause when there is none. */
int cgroup_find(struct cgroup_tree *ret, const struct engine_env *env, bool root, struct err *e);
void cgroup_tree_done(struct cgroup_tree *t);

int cgroup_make(struct cgroup *ret, const struct cgroup_tree *t, const char *home_hash,
	const char *id, const struct spec_limits *l, struct err *e);
/* Moves another process: slow on v1 (see cgroup_open_join), for experiments only. */
int cgroup_join(const struct cgroup *c, const struct cgroup_tree *t, pid_t pid, struct err *e);
/* v1: descriptors through which a single-threaded process moves itself by writing "0".  Moving another process takes the
 * lock of all forks and waits for an RCU grace period, milliseconds on an idle machine; a thread that moves itself does not
 * (Linux 5.5).  The kernel judges by who opened them.  -1 where there is none; the caller closes them. */
int cgroup_open_join(const struct cgroup *c, const struct cgroup_tree *t,
	int fds[static CGROUP_MAX_CONTROLLERS], struct err *e);
void cgroup_read(const struct cgroup *c, const struct cgroup_tree *t, struct engine_facts *f);
void cgroup_kill(const struct cgroup *c, const struct cgroup_tree *t);

/* Removes the directories, waiting a little for the kernel to let go; what stays is left to the sweep. */
void cgroup_remove(struct cgroup *c, const struct cgroup_tree *t);

/* Names are bailey-HOME-ID-PID-STARTTIME: a directory whose process is gone is stale. */
int cgroup_sweep(
	const struct cgroup_tree *t, const char *home_hash, unsigned *ret_removed, struct err *e);
int cgroup_list(const struct cgroup_tree *t, const char *home_hash,
	void (*each)(void *arg, const char *id, bool alive), void *arg, struct err *e);

/* cgroup_v1.c and cgroup_v2.c */
int cgroup_v1_find(struct cgroup_tree *ret, const char *parent, struct err *e);
int cgroup_v1_limit(const struct cgroup *c, const struct cgroup_tree *t,
	const struct spec_limits *l, struct err *e);
void cgroup_v1_read(const struct cgroup *c, const struct cgroup_tree *t, struct engine_facts *f);
int cgroup_v2_find(struct cgroup_tree *ret, const char *parent, bool root, struct err *e);
int cgroup_v2_limit(const struct cgroup *c, const struct spec_limits *l, struct err *e);
void cgroup_v2_read(const struct cgroup *c, struct engine_facts *f);
bool cgroup_v2_has_controllers(void);

/* cgroup_user.c: has the user's systemd put this process into a delegated unit; then find as usual. */
int cgroup_v2_from_systemd(struct cgroup_tree *ret, const char *home_hash, struct err *e);

/* Helpers shared by both versions. */
int cgroup_read_u64(int dir, const char *file, uint64_t *ret);
int cgroup_read_key(int dir, const char *file, const char *key, uint64_t *ret);
int cgroup_write(int dir, const char *file, const char *path, const char *text, struct err *e);

/* --- trees.c: host objects ready to be attached inside -------------------------------------------------------------- */

enum tree_kind {
	TREE_DIR, /* the target is created as a directory */
	TREE_FILE,
};

/* One bind.  Either `path` (a fixed place of the host's) or `source_fd` (what the caller opened). */
struct tree {
	enum tree_kind kind;
	const char *path;
	int source_fd; /* -1; owned when own_source */
	bool own_source, writable, recursive, device;
	int idmap_fd;                 /* borrowed; -1: not mapped */
	unsigned index;               /* for messages: the spec's bind, else 0 */
	char target[SPEC_MAX_TARGET]; /* relative to the new root, no leading slash */
	int tree_fd;                  /* the detached clone, owned; -1 until opened */
	char *source_path; /* where source_fd was found, for a second opening in another mount namespace; owned, or NULL */
};

struct tree_plan {
	struct tree trees[NATIVE_MAX_TREES];
	unsigned n;
	struct {
		char name[64], target[256];
	} links[16];
	unsigned n_links;
};

struct tree_options {
	bool recursive; /* show mounts below a source as well: a normal user can't leave them out */
	int idmap_fd;   /* for binds that ask for it; -1 */
	int terminal_fd; /* of a spec with a terminal */
};

/* Plans the binds of a spec. */
int trees_plan(struct tree_plan *p, const struct sandbox_spec *s, const struct tree_options *o,
	struct err *e);

/* Opens the detached clone of one planned tree: 0, or a negative errno with *ret_changed set when the object behind the
 * path is no longer the one that was opened.  again: find the object again by its path (inside the new namespaces). */
int tree_open(struct tree *t, bool again, bool *ret_changed);
void trees_done(struct tree_plan *p);

/* --- child.c: inside the new namespaces, before the guest --------------------------------------------------------- */

enum setup_step {
#define STEP(id, reason, text) STEP_##id,
#include "engine/native/steps.def"
#undef STEP
	STEP_MAX
};

struct child_plan {
	const struct sandbox_spec *spec;
	struct tree_plan *trees;
	struct engine_io io;
	int control; /* the sandbox's end of the channel */
	int guest_fd;
	uid_t host_uid; /* the caller's, for a user's own maps */
	gid_t host_gid;
	bool root;                        /* made by root: a range of ids, trees opened outside */
	int join[CGROUP_MAX_CONTROLLERS]; /* from cgroup_open_join; -1 */
};

__attribute__((noreturn)) void child_run(const struct child_plan *plan);

/* caps.c, net.c, landlock.c: 0 or -1 with errno */
int caps_drop(bool keep_guest_rights);
int loopback_up(void);
int landlock_scope(void); /* also 0 where the kernel has no scoping */
int landlock_abi(void);
int seccomp_install(bool allow_setgid);

/* --- probe.c ------------------------------------------------------------------------------------------------------- */
int native_probe(struct engine *n, struct engine_report *ret, struct err *e);

/* Explains why a user namespace can't be made here: fills e with R_USERNS_UNAVAILABLE, naming the setting. */
int explain_userns(int sys_errno, struct err *e);

/* The engine itself; probe.c looks inside. */
struct engine {
	const struct engine_ops *ops;
	struct engine_env env;
	bool root;
	uid_t uid;
	gid_t gid;
	int guest_fd;
	bool have_tree;
	struct cgroup_tree tree;
	bool region_checked;
};

int native_tree(struct engine *n, struct err *e);
