/* The native engine, inside: one sandbox out of the machine's own kernel.  Internal to the room.
 *
 * Order of things (create; boot of a session): ids -> cgroups -> trees -> clone3 -> maps -> [child: root, mounts, /proc, /dev, pivot] in
 * parallel with [parent: joins] -> cgroup namespace -> capabilities -> filter -> bailey-guest. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "engine/overlay.h"

enum {
	NATIVE_ID_RANGE = 65536,
	NATIVE_ID_MAPPED =
		65535, /* the last id of a range is never seen inside: the channel process's */
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

/* A user namespace that shows n ids from uid and gid on as those from to_uid and to_gid on; for idmapped mounts.  The
 * caller closes *ret. */
int ids_open_mapping(
	uid_t uid, gid_t gid, uid_t to_uid, gid_t to_gid, uint32_t n, int *ret, struct err *e);

/* The same for what a sandbox with the range at `from` wrote, shown to one with the range at `to`.  Root stays root: overlayfs
 * makes its own directories as who mounted it. */
int ids_open_shift(uid_t from, uid_t to, int *ret, struct err *e);

/* Writes uid_map and gid_map of a fresh process (root only). */
int ids_write_maps(pid_t pid, const char *uid_map, const char *gid_map, struct err *e);

/* --- cgroup*.c: how limits are enforced --------------------------------------------------------------------------- */

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

/* Where sandboxes' cgroups are made.  v1: one directory per controller; v2: dirs[0] only. */
struct cgroup_tree {
	enum cgroup_kind kind;
	unsigned n;
	bool has_freezer; /* v1: the last one is the freezer, which limits nothing */
	const char *controller[CGROUP_MAX_CONTROLLERS];
	int dir[CGROUP_MAX_CONTROLLERS]; /* O_PATH directories, owned */
	char path[CGROUP_MAX_CONTROLLERS][CGROUP_PATH];
};

struct cgroup {
	char name[NATIVE_NAME];
	unsigned n;                      /* of the tree's directories, the first ones */
	int dir[CGROUP_MAX_CONTROLLERS]; /* owned; -1 where not made */
};

/* Finds a place where limits hold, and on v1, with sessions, the freezer where it is mounted and writable;
 * R_LIMITS_UNENFORCED with the cause when there is none. */
int cgroup_find(struct cgroup_tree *ret, const struct engine_env *env, bool root, struct err *e);
void cgroup_tree_done(struct cgroup_tree *t);

struct cgroup_want {
	const char *id;
	const struct spec_limits *limits;
	bool session;
};
int cgroup_make(struct cgroup *ret, const struct cgroup_tree *t, const char *home_hash,
	const struct cgroup_want *w, struct err *e);

/* Closes what a forked process inherited of another's cgroup. */
void cgroup_forget(struct cgroup *c);

/* The processes of a cgroup as the caller's pid namespace numbers them, one a line; -1 with errno. */
int cgroup_pids(const struct cgroup *c, struct buf *ret);

/* The process limit of a cgroup: what the caller asked for, and Bailey's own processes (docs/decisions/0008). */
uint32_t cgroup_max_pids(const struct cgroup_want *w);
void cgroup_stats(const struct cgroup *c, const struct cgroup_tree *t, struct engine_stats *ret);

/* freeze.c: holds or lets go every process; *kind says how, or how it was held. */
int cgroup_freeze(const struct cgroup *c, const struct cgroup_tree *t, bool on,
	enum engine_pause *kind, struct err *e);
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
int cgroup_v1_find(struct cgroup_tree *ret, const char *parent, bool freezer, struct err *e);
int cgroup_v1_limit(const struct cgroup *c, const struct cgroup_tree *t,
	const struct cgroup_want *w, struct err *e);
void cgroup_v1_read(const struct cgroup *c, const struct cgroup_tree *t, struct engine_facts *f);
int cgroup_v2_find(struct cgroup_tree *ret, const char *parent, bool root, struct err *e);
/* The parent is this directory: 0, or -1 when it can't be one (yet). */
int cgroup_v2_take(struct cgroup_tree *ret, const char *path);
int cgroup_v2_limit(const struct cgroup *c, const struct cgroup_want *w, struct err *e);
void cgroup_v2_read(const struct cgroup *c, struct engine_facts *f);
bool cgroup_v2_has_controllers(void);

/* cgroup_user.c: has the user's systemd put this process into a delegated unit, whose directory becomes the parent. */
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
	bool layered;    /* the root is an overlay: the image is in it already */
	bool held;       /* the binds are kept by a session, which adds them itself */
};

/* Plans the binds of a spec. */
int trees_plan(struct tree_plan *p, const struct sandbox_spec *s, const struct tree_options *o,
	struct err *e);

/* Opens the detached clone of one planned tree: 0, or a negative errno with *ret_changed set when the object behind the
 * path is no longer the one that was opened.  again: find the object again by its path (inside the new namespaces). */
int tree_open(struct tree *t, bool again, bool *ret_changed);
void trees_done(struct tree_plan *p);

/* Adds one planned tree; NULL with *e set when there are too many. */
struct tree *tree_add(struct tree_plan *p, const char *target, struct err *e);

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
	int root_tree; /* a session's writable root, detached; -1: a tmpfs of the child's own */
};

__attribute__((noreturn)) void child_run(const struct child_plan *plan);

/* Directories of a root that the sandbox builds on: in a writable root each must be a real one. */
extern const char *const reserved_dirs[];
extern const unsigned n_reserved_dirs;

/* skeleton.c: what of /etc is made, beneath the directory fd root, which holds etc.  With an image: who the machine is, and
 * nothing else.  -1 with errno. */
int skeleton_etc(int root, const struct sandbox_spec *s, mode_t mode);

/* caps.c, net.c, landlock.c: 0 or -1 with errno */
int caps_drop(bool keep_guest_rights, uint32_t workload);
int loopback_up(void);
int landlock_scope(void); /* also 0 where the kernel has no scoping */
int landlock_abi(void);
int seccomp_install(bool allow_setgid);

/* --- layers.c: the files of a sandbox that lives ------------------------------------------------------------------ */

enum {
	LAYERS_MAX_SEALED = 6, /* a deeper chain is made flat when the next layer is sealed */
	LAYERS_PLACE = 16,     /* bytes of a name in the frame */
};

struct layers {
	char *path;    /* where the frame is mounted: runs/ID; owned, NULL: none */
	int frame;     /* root of the frame, which holds all else; -1 */
	int bind_map;  /* user namespace of mapped binds; -1 */
	bool writable; /* there is a writable layer: l<n_sealed> */
	bool pending;  /* ... but it is made by the next boot */
	enum layer_marks marks;
	unsigned n_sealed;
	uid_t ids[LAYERS_MAX_SEALED +
		1]; /* first host id of the range that each was written with */
	int image[LAYERS_MAX_SEALED + 1]; /* the file of the store that each lies in, or -1 */
	bool ids_shared;
};

/* mount.c: 0 or a descriptor, or -1 with errno.  A tree is a detached mount. */
int mount_option(int fs, const char *key, const char *value);
int mount_flag(int fs, const char *key);
int mount_make(int fs, int *ret);
/* A new file system of that type, options as mount(8) takes them, MOUNT_ATTR_* in attributes. */
int mount_new(const char *type, const char *options, unsigned attributes);
int mount_tmpfs(uint64_t bytes, uint64_t inodes, const char *mode, int *ret);
int mount_clone(int frame, const char *name, bool recursive);
int mount_map(int tree, int userns);
/* A clone that is read-only, what is mounted below it too when recursive. */
int mount_view(int frame, const char *name, bool recursive);
/* At a name of a directory of ours, which is made for it. */
int mount_attach(int frame, const char *name, int tree);
/* Nobody writes to the file system there any more, by whatever mount; on = false: they may again.  EBUSY: somebody does. */
int mount_seal(int frame, const char *name, bool on);
int mount_move(int from, const char *name, int to, const char *to_name);

/* sources.c: the image and binds of a spec as detached mounts; leaves this process in a mount namespace of its own. */
struct sources {
	struct tree image, binds[SPEC_MAX_BINDS];
	unsigned n_binds;
};
int sources_enter(const struct engine *n, struct err *e); /* the namespace alone */
int sources_open(struct sources *f, const struct sandbox *sb, struct err *e);
int sources_keep(struct sandbox *sb, struct sources *f, struct err *e);
void sources_done(struct sources *f);

/* Holds nothing yet. */
void layers_init(struct layers *l);

/* Everything below the frame for a new sandbox, from the descriptors of its spec; leaves this process in a mount namespace
 * of its own.  sb->spec's descriptors are replaced by ones of that namespace. */
int layers_create(struct sandbox *sb, struct err *e);

/* In a forked process, which then has the mounts to itself. */
int layers_detach(struct sandbox *sb, struct err *e);

/* The same files under runs/NEW_ID, with the ids that sb has now. */
int layers_adopt(struct sandbox *sb, const char *new_id, bool copied, struct err *e);

/* Whether the sealed layers can be shown with other ids (tmpfs: Linux 6.3). */
bool layers_can_map(const struct sandbox *sb);

/* share.c */
int layers_seal(struct sandbox *sb, struct err *e);
int layers_copy(
	struct sandbox *sb, void (*progress)(void *arg, uint64_t bytes), void *arg, struct err *e);

/* Before a boot: makes the writable layer that a seal or a fork left out. */
int layers_ready(struct sandbox *sb, struct err *e);

/* Detached mounts for one boot: the writable root, and each of the spec's binds. */
int layers_root(const struct sandbox *sb, int *ret, struct err *e);
int layers_bind(const struct sandbox *sb, unsigned i, int *ret, struct err *e);
void layers_remove(struct sandbox *sb);

/* What this kernel lets layers do, by doing it; in a forked process, whose namespaces it changes. */
enum layers_can {
	LAYERS_CAN_STACK = 1,   /* an overlay over tmpfs */
	LAYERS_CAN_MARK = 2,    /* user.overlay.* on tmpfs (Linux 6.6) */
	LAYERS_CAN_MAP_IDS = 4, /* idmapped tmpfs (Linux 6.3); root only */
};
unsigned layers_probe(struct engine *n);

/* Directories as detached read-only mounts, from whose roots ".." leads nowhere; O_PATH, the caller's to close.  -1 with errno.
 * layers_view(): as layers_open().  layers_view_lower(): what lies below the layers, i counted from above: base and image, or
 * the copy-on-write directory; -2: no such one; *ret_ids: host id of its id 0. */
int layers_view(const struct layers *l, unsigned i, const char *name);
int layers_view_lower(const struct sandbox *sb, bool cow, unsigned i, uid_t *ret_ids);

/* Index of the copy-on-write bind, or -1. */
int layers_cow(const struct sandbox *sb);

/* Bytes of the writable layer; -1 with errno. */
int layers_disk(const struct sandbox *sb, uint64_t *ret_used, uint64_t *ret_size);

/* Host ids of ids inside. */
uid_t layers_uid(const struct sandbox *sb, uid_t inside);
gid_t layers_gid(const struct sandbox *sb, gid_t inside);

/* skeleton.c */
int layers_make_base(const struct sandbox *sb, struct err *e);

/* Directory `name` ("upper", "cow") of layer i, for reading; i == n_sealed is the writable one.  -1 with errno. */
int layers_open(const struct layers *l, unsigned i, const char *name);

/* What share.c needs of layers.c.  layers_mount(): a new, empty file system at `name` of the frame, *ret_image the file that it
 * lies in, or -1; layers_fill(): the directories of a layer in it (-1 with errno); layers_keep(): takes over the file of layer i,
 * in place of what was there; layers_shifted(): layer i was written with other ids; layers_try_map(): ids can be mapped. */
int layers_mount(
	const struct sandbox *sb, const char *name, int *ret_dir, int *ret_image, struct err *e);
int layers_fill(struct sandbox *sb, int layer);
void layers_keep(struct layers *l, unsigned i, int image);
int layers_unmount(const struct layers *l, const char *name);
bool layers_shifted(const struct sandbox *sb, unsigned i);
bool layers_try_map(const struct sandbox *sb);

/* --- store.c, loop.c: layers that lie in files (docs/decisions/0014); root only ----------------------------------- */

enum { STORE_BLOCK = 4096, STORE_MIN_JOURNALED = 64 << 20 };

/* A new file without a name, with an empty file system of that size in it and its space reserved; the caller's to close. */
int store_new(struct engine *n, uint64_t bytes, int *ret, struct err *e);

/* The same bytes in another such file, sharing blocks: 1; or 0 where the store can't, or the file has no journal to make a
 * copy whole.  used: bytes in use there, for which there must be space, since writing to shared blocks takes new ones. */
int store_clone(struct engine *n, int image, uint64_t used, int *ret, struct err *e);

/* The refusal for others than root. */
int layers_only_root(struct err *e);

/* A detached mount of the file system in it, which the image's loop device goes with. */
int loop_mount(int image, int *ret_tree, struct err *e);

/* --- copy.c ------------------------------------------------------------------------------------------------------- */

struct layer_copy {
	uid_t from, to; /* first host ids of the ranges; equal: owners stay as they are */
	bool own;       /* owners can be set at all */
	enum layer_marks marks;
	bool merge; /* the target holds older layers: replace, as overlayfs would show it */
	int links;  /* an empty directory of the target's file system */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
	uint64_t bytes; /* copied so far */
	bool no_clone;
	char *names, *value; /* scratch for attributes */
};

/* Copies what is in `from` into `to`, attributes of `from` itself among it. */
int layer_copy(struct layer_copy *c, int from, int to, struct err *e);

/* --- changes.c ---------------------------------------------------------------------------------------------------- */
int native_changes(struct sandbox *sb, int out_fd, uint32_t flags, struct err *e);
/* What the worker keeps beside 0 to 2: these. */
int changes_confine(const struct sandbox *sb, const int *fds, unsigned n, struct err *e);

/* --- session.c: the functions of engine_ops for sandboxes that live ------------------------------------------------- */
int session_create(struct sandbox *sb, const struct sandbox_spec *s, struct err *e);
int session_boot(struct sandbox *sb, struct err *e);
int session_connect(struct sandbox *sb, uint64_t epoch, int *ret_fd, struct err *e);
int session_halt(struct sandbox *sb, struct engine_facts *ret, struct err *e);
int session_pause(struct sandbox *sb, bool on, struct err *e);
int session_stats(struct sandbox *sb, struct engine_stats *ret, struct err *e);
int session_seal(struct sandbox *sb, struct err *e);
int session_copy(
	struct sandbox *sb, void (*progress)(void *arg, uint64_t bytes), void *arg, struct err *e);
int session_adopt(struct sandbox *sb, const char *new_id, const char *hostname, struct err *e);
uid_t session_channel_uid(const struct sandbox *sb);
void session_done(struct sandbox *sb);

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
	bool loop; /* layers lie in files */
	int store; /* the directory of layers that lie in files; -1: not opened yet */
	bool have_tree;
	struct cgroup_tree tree;
	bool region_checked;
};

int native_tree(struct engine *n, struct err *e);

enum { CHANNEL_BUFFER = 1024 };

struct sandbox {
	struct engine *engine;
	char id[SPEC_ID_LEN];
	pid_t pid;
	int pid_fd, channel;
	bool reaped, has_cgroup;
	bool greeted, started, exited; /* each of these frames comes once */
	struct id_range ids;
	struct cgroup cgroup;
	struct rusage usage;
	uint64_t deadline_ms;
	uid_t uid;
	gid_t gid;
	uint32_t exec_flags;
	uint8_t in[CHANNEL_BUFFER];
	size_t have;

	/* of a session */
	bool session;
	struct sandbox_spec *spec; /* a copy of its own */
	struct layers layers;
	enum engine_pause pause;
	pid_t owner; /* in any other process, one forked from it, this is only a copy */
	bool copied; /* layers_copy() has been here, ids are new */

	/* for messages: the frame of a failed step has only a number */
	char targets[NATIVE_MAX_TREES][SPEC_MAX_TARGET];
	unsigned n_targets;
};

/* Shared by native.c and session.c. */
int native_launch(
	struct sandbox *sb, const struct sandbox_spec *s, struct child_plan *plan, struct err *e);
int native_tell(const struct sandbox *sb, const void *p, size_t n, struct err *e);
void native_kill(struct sandbox *sb);
int native_next(struct sandbox *sb, struct engine_event *ret, struct err *e);

/* Waits, reads the counters, removes the cgroup. */
int native_reap(struct sandbox *sb, struct engine_facts *ret, struct err *e);
int native_take_ids(struct sandbox *sb, struct err *e);
