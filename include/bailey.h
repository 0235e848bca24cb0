/* libbailey: sandboxes for programs.
 *
 * The library starts one engine process per sandbox and then talks to it over a Unix socket.  It makes no threads, installs
 * no signal handlers and keeps no state outside its handles (but for one lock inside bailey_create).  Every descriptor it
 * opens is close-on-exec.  It may be used in programs with threads: a handle, and what was made from it, belongs to one
 * thread at a time; different handles are independent.
 *
 * Errors: a function that can fail returns -1 and fills *e, unless e is NULL; 0 is success, and where a function says so a
 * positive value is more than that.  *e is untouched otherwise.
 *
 * Options: each struct of options begins with its size.  Start from its _INIT macro, so that a program built against an
 * older header goes on working with a newer library.  Unless it says otherwise, a member that is 0 or NULL asks for the
 * default.  Strings and arrays are borrowed for the time of the call.
 *
 * Callbacks run inside the call that was made.  They must not call functions that wait on the same handle; those answer
 * with reason "busy".  The few that may be called are marked "never waits".
 *
 * Paths inside a sandbox are absolute, without a NUL, shorter than 4096 bytes; they need not be UTF-8.  Numbers are bytes,
 * milliseconds and thousandths of a CPU.  Names, paths and text that come out of a sandbox are whatever its processes
 * chose: show them escaped, never use one as a path of the host. */
#ifndef BAILEY_H
#define BAILEY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BAILEY_API __attribute__((visibility("default")))

/* Where Bailey keeps its state, and how it is set up. */
struct bailey;
/* A connection to one sandbox. */
struct bailey_sandbox;
/* A command in a sandbox, as this program sees it. */
struct bailey_command;
/* A listener inside a sandbox whose connections come out here. */
struct bailey_listener;
/* The events of a home, as a file that grows. */
struct bailey_watch;

enum {
	BAILEY_ID_SIZE = 24,   /* a sandbox id with its NUL */
	BAILEY_NAME_SIZE = 64, /* a sandbox name with its NUL: [a-z0-9][a-z0-9._-]{0,62} */
};

/* --- errors -------------------------------------------------------------------------------------------------------- */

/* No memory behind it: nothing to free, and one may be used for any number of calls. */
struct bailey_error {
	char reason[48]; /* stable, such as "sandbox_not_found"; docs/reasons.md lists them all */
	char message[1024]; /* what was being done, the object, the cause */
	char remedy[512];   /* one imperative sentence */
	int sys_errno;      /* 0: no errno stands behind it */
	int exit;           /* the exit status of `bailey` for it */
	int later;          /* not 0: the same request may succeed when the host has changed */
	char reserved[64];
};

/* --- home ---------------------------------------------------------------------------------------------------------- */

struct bailey_options {
	size_t size;
	const char *home; /* absolute; NULL: $BAILEY_HOME, else Bailey's default of this user */
	const char *
		libexec; /* directory of Bailey's programs; NULL: $BAILEY_LIBEXEC, else as installed */
	const char *
		cgroup_parent; /* a delegated cgroup for new sandboxes, relative to the cgroup mount */
	uint32_t ids_base, ids_count; /* ranges of ids for sandboxes made by root */
	const char *
		layers; /* what writable layers of new sandboxes lie in: "tmpfs", "loop"; NULL: tmpfs */
	const char
		*layer_store; /* absolute; the directory of "loop"; NULL: "layers" below the home */
	uint32_t agent_uid, agent_gid; /* of agents and their checks, inside; 0: 64000 */
	const char
		*engine; /* what new sandboxes are made by: "native" or "docker"; NULL: "native" */
	const char *runtime; /* of "docker": the name of an OCI runtime; NULL: the daemon's own */
	const char *docker_host, *docker_cert_path; /* NULL: as the environment says */
	const char
		*docker_disk; /* "watch": layers that can't be bounded are watched; NULL: refused */
};
#define BAILEY_OPTIONS_INIT { .size = sizeof(struct bailey_options) }

/* o may be NULL.  Touches no file.  bailey_close(NULL) is fine; sandboxes outlive it, handles made from it do not. */
BAILEY_API int bailey_open(
	const struct bailey_options *o, struct bailey **ret, struct bailey_error *e);
BAILEY_API void bailey_close(struct bailey *b);

/* The home's path; valid as long as b. */
BAILEY_API const char *bailey_home(const struct bailey *b);

/* "0.1.0" */
BAILEY_API const char *bailey_version(void);

/* --- making sandboxes ---------------------------------------------------------------------------------------------- */

enum bailey_mode {
	BAILEY_RO,  /* read-only */
	BAILEY_RW,  /* what the sandbox writes is in the directory */
	BAILEY_COW, /* of a workspace: changes stay in the sandbox, see bailey_changes() */
};

struct bailey_mount {
	const char *
		source; /* absolute path of a directory of the host, opened once with the caller's rights */
	const char *target; /* inside */
	enum bailey_mode mode;
};

enum bailey_create_flags {
	BAILEY_READ_ONLY =
		1,       /* nothing of the root can be written, only the workspace, home and /tmp */
	BAILEY_KEEP = 2, /* keep the sandbox when `command` ends */
	BAILEY_UNLIMITED = 4,       /* go on where limits can't be enforced */
	BAILEY_ALLOW_SETGID = 8,    /* let commands set setgid bits */
	BAILEY_ROOT_WORKSPACE = 16, /* allow a writable workspace that belongs to root */
};

/* A parameter of a profile: docs/profiles.md lists them. */
struct bailey_param {
	const char *key, *value;
};

struct bailey_create_options {
	size_t size;
	unsigned flags;   /* enum bailey_create_flags */
	const char *name; /* NULL: none */
	const char *
		image; /* NULL or "host": the host's own /usr; a path: a root directory; else a name in the store.  With
			* engine "docker": the name of one of the daemon's, NULL or "host": Bailey's own */
	const char *
		workspace; /* absolute path of a directory of the host, shown at /workspace; NULL: none */
	enum bailey_mode workspace_mode;
	const struct bailey_mount *mounts;
	size_t n_mounts;
	const char *const *
		env; /* NAME=VALUE, up to a NULL; nothing of the caller's environment is passed on */
	const char *
		workdir; /* NULL: the image's, /workspace where there is one, else the home directory */
	const char *user;     /* "UID" or "UID:GID"; NULL: the image's, else 1000:1000 */
	const char *hostname; /* NULL: its id */
	const char *network;  /* NULL or "none": no network, which is all there is */
	const char *
		model_socket; /* Unix socket of the host behind which a model is served; NULL: none */
	uint64_t memory;      /* bytes; 0: 2 GiB */
	uint32_t cpu_millis; /* thousandths; 0: 1000 */
	uint32_t pids;       /* 0: 256 */
	uint64_t disk;       /* bytes of the writable layer; 0: 1 GiB, and in a tmpfs at most half of memory */
	uint64_t tmp_size;   /* bytes of /tmp, also of /dev/shm; 0: 64 MiB, at most an eighth of memory */
	uint64_t ttl_ms;     /* the sandbox is ended and removed after this time; 0: never */
	uint64_t spool_max;  /* bytes of output kept of each command; 0: 16 MiB */
	const char *const *
		command; /* arguments up to a NULL, started detached; NULL: none.  When it ends the sandbox is
				     * removed, unless BAILEY_KEEP is set */

	/* NULL: a sandbox as the members above say.  "agent", "check", "git-helper", "handoff" or "script": one whose
	 * settings are built in, but for these parameters.  Of the members above it has name, image, spool_max, the
	 * flags BAILEY_KEEP and BAILEY_ROOT_WORKSPACE, and for "agent" command. */
	const char *profile;
	const struct bailey_param *params;
	size_t n_params;
};
#define BAILEY_CREATE_OPTIONS_INIT { .size = sizeof(struct bailey_create_options) }

/* Makes a sandbox and starts it; it lives on without this program until it is removed or its time is over.  o may be NULL.
 * ret_id may be NULL. */
BAILEY_API int bailey_create(struct bailey *b, const struct bailey_create_options *o,
	char ret_id[BAILEY_ID_SIZE], struct bailey_error *e);

/* --- finding sandboxes --------------------------------------------------------------------------------------------- */

/* A sandbox as its record says; live: its engine answered just now.  Valid during the callback. */
struct bailey_info {
	size_t size;
	const char *id, *name; /* name: "" when it has none */
	const char *state;     /* creating running paused stopped lost removing snapshot */
	const char *kind;      /* sandbox snapshot */
	uint64_t created_ms;   /* since the epoch */
	int live;
	const void *record; /* for bailey_info_get() */
};

/* A value of the record by its key ("image", "workspace", "memory_bytes" ...), or NULL. */
BAILEY_API const char *bailey_info_get(const struct bailey_info *info, const char *key);

/* The n-th key of the record and its value; -1 behind the last. */
BAILEY_API int bailey_info_at(
	const struct bailey_info *info, size_t n, const char **ret_key, const char **ret_value);

/* Not 0 ends the iteration. */
typedef int bailey_info_fn(void *arg, const struct bailey_info *info);

/* Calls fn with every sandbox and snapshot of the home, oldest first.  Those whose engine is dead or silent come with
 * state "lost".  Waits at most a few seconds in all.  Returns 1 when fn ended it. */
BAILEY_API int bailey_list_sandboxes(
	struct bailey *b, bailey_info_fn *fn, void *arg, struct bailey_error *e);

/* The id of a sandbox by its name, its id, or at least 4 characters with which only one id begins.  A name comes first. */
BAILEY_API int bailey_find(
	struct bailey *b, const char *sandbox, char ret_id[BAILEY_ID_SIZE], struct bailey_error *e);

/* The record alone of one sandbox (name, id or prefix), also where nobody answers. */
BAILEY_API int bailey_record(struct bailey *b, const char *sandbox, bailey_info_fn *fn, void *arg,
	struct bailey_error *e);

/* Removes what is left of sandboxes whose engine is gone, and with stopped != 0 the stopped ones too.  fn (NULL: none)
 * sees each before it goes; not 0 spares it. */
BAILEY_API int bailey_prune(
	struct bailey *b, int stopped, bailey_info_fn *fn, void *arg, struct bailey_error *e);

/* Removes one sandbox by name, id or prefix, whatever its state: as bailey_remove(), and where no engine answers what is
 * left of it. */
BAILEY_API int bailey_remove_sandbox(struct bailey *b, const char *sandbox, uint64_t grace_ms,
	int force, struct bailey_error *e);

/* Space in use.  kind: "layer" (what a sandbox wrote), "spool" (output kept), "image" (what it has alone), "shared" (what
 * several images have, once), "events"; name: id or image.  Returns 1 when fn ended it. */
typedef int bailey_usage_fn(void *arg, const char *kind, const char *name, uint64_t bytes);
BAILEY_API int bailey_df(struct bailey *b, bailey_usage_fn *fn, void *arg, struct bailey_error *e);

/* --- connections --------------------------------------------------------------------------------------------------- */

/* Connects to a sandbox by name, id or prefix; any number of programs may.  Waits at most 2 seconds. */
BAILEY_API int bailey_connect(
	struct bailey *b, const char *sandbox, struct bailey_sandbox **ret, struct bailey_error *e);

/* Ends the connection, never the sandbox nor a command.  Command and listener handles of it are freed too.  Not from a
 * callback of the same handle. */
BAILEY_API void bailey_disconnect(struct bailey_sandbox *s);
BAILEY_API const char *bailey_sandbox_id(const struct bailey_sandbox *s);

/* How long a request may go without any progress before it fails with reason "timeout"; 0: for ever.  At first 15 s. */
BAILEY_API void bailey_set_timeout(struct bailey_sandbox *s, uint64_t ms);

/* For a caller with a loop of its own: readable whenever bailey_dispatch() has something to do.  Owned by the handle. */
BAILEY_API int bailey_fd(const struct bailey_sandbox *s);

/* Reads and writes what is ready, calling callbacks.  Waits up to timeout_ms for something to do; -1: for ever.  Returns 1
 * when something was done, 0 after the timeout or when a signal came. */
BAILEY_API int bailey_dispatch(struct bailey_sandbox *s, int timeout_ms, struct bailey_error *e);

/* --- commands ------------------------------------------------------------------------------------------------------ */

enum bailey_how {
	BAILEY_RUNNING, /* has not ended, as far as is known */
	BAILEY_EXITED,
	BAILEY_SIGNALLED,
	BAILEY_NOT_STARTED, /* sys_errno says why */
	BAILEY_LOST,        /* the sandbox or its engine went first; reason says which */
};

enum bailey_result_flags {
	BAILEY_TIMED_OUT = 1,
	BAILEY_KILLED = 2, /* by bailey_kill() of its whole tree */
	BAILEY_OOM = 4,
};

struct bailey_result {
	enum bailey_how how;
	int exit_code;  /* of BAILEY_EXITED, else -1 */
	int signal;     /* of BAILEY_SIGNALLED, else 0 */
	int sys_errno;  /* of BAILEY_NOT_STARTED, else 0 */
	unsigned flags; /* enum bailey_result_flags */
	int status; /* for a shell: the exit code, 128 + signal, 124 timeout, 125 lost, 126 and 127 not started */
	uint32_t left; /* processes of the command that ran on when it ended */
	uint32_t id;
	uint64_t dropped; /* bytes of output that were no longer kept when a replay began */
	char reason
		[48]; /* "" for an ordinary end, else "timeout", "oom", "command_not_found" ... */
	int output_error; /* errno with which a descriptor of the caller's refused output, which is dropped then; else 0 */
	char reserved[60];
};

/* Output of a command; stream is 1 or 2.  The n bytes are valid during the call. */
typedef void bailey_output_fn(void *arg, int stream, const void *data, size_t n);
typedef void bailey_ended_fn(void *arg, const struct bailey_result *result);

/* Where a command's streams go.  Descriptors are duplicated, so the caller may close its own; they are left in the mode
 * (blocking or not) in which they are.  A descriptor of -1 and no on_output: the output is dropped.
 * in -1: bailey_command_write() and bailey_command_close_input() are the standard input. */
struct bailey_streams {
	int in, out, err;
	bailey_output_fn *on_output; /* what has no descriptor */
	bailey_ended_fn *on_ended;   /* all output that came before its end was delivered */
	void *arg;
	void *reserved[4];
};
#define BAILEY_STREAMS_INIT { .in = -1, .out = -1, .err = -1 }

enum bailey_exec_flags {
	BAILEY_STDIN = 1,    /* the command has a standard input; else it is empty */
	BAILEY_TERMINAL = 2, /* one terminal as all three streams; output is stream 1 */
	BAILEY_DETACHED =
		4, /* return when it has started; nobody waits for its output, which is kept */
};

struct bailey_exec_options {
	size_t size;
	unsigned flags;          /* enum bailey_exec_flags */
	const char *const *argv; /* up to a NULL */
	const char *const *env;  /* NAME=VALUE up to a NULL, on top of the sandbox's; may be NULL */
	const char *workdir, *user; /* NULL: the sandbox's */
	uint64_t timeout_ms;        /* its whole tree is killed then; 0: never */
	uint16_t rows, columns;     /* of the terminal */
	struct bailey_streams streams;
};
#define BAILEY_EXEC_OPTIONS_INIT \
	{ .size = sizeof(struct bailey_exec_options), .streams = BAILEY_STREAMS_INIT }

/* Sends the command on its way; it does not wait for its start unless it is BAILEY_DETACHED.  ret may be NULL with
 * BAILEY_DETACHED.  The command goes on when this program ends or disconnects. */
BAILEY_API int bailey_exec(struct bailey_sandbox *s, const struct bailey_exec_options *o,
	struct bailey_command **ret, struct bailey_error *e);

enum bailey_attach_flags {
	BAILEY_ATTACH_INPUT = 1,     /* this program's input is the command's from now on */
	BAILEY_ATTACH_NO_FOLLOW = 2, /* what is kept, then the end of the call, running or not */
	BAILEY_ATTACH_NO_OUTPUT = 4, /* only its end */
};

/* Replays the output of a command from its first byte, as far as it is kept, and follows it. */
BAILEY_API int bailey_attach(struct bailey_sandbox *s, uint32_t id, unsigned flags,
	const struct bailey_streams *streams, struct bailey_command **ret, struct bailey_error *e);

/* The command's id, by which any program may attach; 0 until it is known.  Never waits. */
BAILEY_API uint32_t bailey_command_id(const struct bailey_command *c);

/* Waits until it has started (0), could not be started or ended already (1). */
BAILEY_API int bailey_command_started(struct bailey_command *c, struct bailey_error *e);

/* Waits for its end, moving its streams meanwhile; timeout_ms -1: for ever.  Returns 1 when the time was over first.
 * A command that could not be started is a result, not an error. */
BAILEY_API int bailey_command_wait(struct bailey_command *c, int timeout_ms,
	struct bailey_result *ret, struct bailey_error *e);

/* What is known of its end now; never waits. */
BAILEY_API void bailey_command_result(const struct bailey_command *c, struct bailey_result *ret);

/* Gives bytes to its standard input; returns how many were taken, 0 when none can be at the moment (then dispatch).  A
 * command that has ended takes all and reads none.  Never waits. */
BAILEY_API ssize_t bailey_command_write(
	struct bailey_command *c, const void *data, size_t n, struct bailey_error *e);

/* End of its standard input; never waits. */
BAILEY_API int bailey_command_close_input(struct bailey_command *c, struct bailey_error *e);

/* A signal to its process group, and a new size of its terminal; both never wait. */
BAILEY_API int bailey_command_signal(struct bailey_command *c, int sig, struct bailey_error *e);
BAILEY_API int bailey_command_resize(
	struct bailey_command *c, uint16_t rows, uint16_t columns, struct bailey_error *e);

/* Lets go of the command, which goes on.  NULL is fine; never waits. */
BAILEY_API void bailey_command_free(struct bailey_command *c);

/* exec and wait in one. */
BAILEY_API int bailey_exec_run(struct bailey_sandbox *s, const struct bailey_exec_options *o,
	struct bailey_result *ret, struct bailey_error *e);

/* One command in a sandbox of its own: create, exec, remove.  create's `command` must be NULL.  Should this program end
 * meanwhile, the sandbox stays until its ttl_ms, which is the command's timeout_ms and a minute unless it is set. */
BAILEY_API int bailey_run(struct bailey *b, const struct bailey_create_options *create,
	const struct bailey_exec_options *exec, struct bailey_result *ret, struct bailey_error *e);

struct bailey_command_info {
	size_t size;
	uint32_t id, pid;    /* pid: inside */
	enum bailey_how how; /* BAILEY_RUNNING until it ended */
	int exit_code, signal, sys_errno;
	unsigned flags;                /* enum bailey_result_flags */
	unsigned exec_flags;           /* enum bailey_exec_flags */
	uint64_t started_ms, ended_ms; /* since the epoch; 0: not yet */
	uint64_t out_bytes, err_bytes; /* written */
	uint64_t dropped;              /* no longer kept */
	size_t argc;
	const char *const *argv; /* NULL behind the last; as far as they were kept */
};
typedef int bailey_command_fn(void *arg, const struct bailey_command_info *info);

/* Calls fn with each command, ended ones too.  Returns 1 when fn ended it. */
BAILEY_API int bailey_ps(
	struct bailey_sandbox *s, bailey_command_fn *fn, void *arg, struct bailey_error *e);

/* Sends a signal; tree: to every process that came from it, and with SIGKILL until none is left.  id 0: to every command
 * that runs.  *ret_survivors (NULL is fine): processes that were still there. */
BAILEY_API int bailey_kill(struct bailey_sandbox *s, uint32_t id, int sig, int tree,
	uint64_t *ret_survivors, struct bailey_error *e);

/* Waits for the end of a command by its id.  Returns 1 when the time was over first. */
BAILEY_API int bailey_wait(struct bailey_sandbox *s, uint32_t id, int timeout_ms,
	struct bailey_result *ret, struct bailey_error *e);

/* --- files inside -------------------------------------------------------------------------------------------------- */

enum bailey_file_flags {
	BAILEY_PARENTS = 1,   /* mkdir, write, tar_in: make missing directories */
	BAILEY_RECURSIVE = 2, /* remove */
	BAILEY_FOLLOW = 4,    /* stat, tar_out: follow a link at the end of the path */
	BAILEY_EXCLUSIVE = 8, /* write: refuse to replace */
	BAILEY_OWNERS = 16,   /* tar_in: keep the archive's ids, where that is allowed */
};

struct bailey_stat {
	uint32_t mode;     /* as st_mode */
	uint32_t uid, gid; /* inside */
	uint32_t links;
	uint64_t size;
	int64_t mtime_ns; /* since the epoch */
	uint64_t inode;
	char target[4096]; /* of a symbolic link, else "" */
};
BAILEY_API int bailey_stat(struct bailey_sandbox *s, const char *path, unsigned flags,
	struct bailey_stat *ret, struct bailey_error *e);

struct bailey_entry {
	size_t size_of; /* of this struct */
	const char
		*name; /* NUL-terminated, not UTF-8 by promise; of a search: relative to its root */
	uint32_t mode, uid, gid;
	uint64_t size;
	int64_t mtime_ns;
	const char *target; /* of a symbolic link; else "" */
	uint64_t line;      /* of a search for text: the line's number from 1, else 0 */
	const char *
		text; /* ... and the line, at most 512 bytes; text_size of them, which may hold NUL */
	size_t text_size;
};
typedef int bailey_entry_fn(void *arg, const struct bailey_entry *entry);

/* Calls fn with each entry of a directory, in no order.  max 0: 1,000,000.  Returns 1 when there were more, or fn ended
 * it. */
BAILEY_API int bailey_list(struct bailey_sandbox *s, const char *path, uint32_t max,
	bailey_entry_fn *fn, void *arg, struct bailey_error *e);

/* Up to n bytes from offset; returns how many there were. */
BAILEY_API ssize_t bailey_read(struct bailey_sandbox *s, const char *path, uint64_t offset,
	void *data, size_t n, struct bailey_error *e);

/* The same to a descriptor; length 0: up to the end.  *ret (NULL is fine): bytes. */
BAILEY_API int bailey_read_to(struct bailey_sandbox *s, const char *path, uint64_t offset,
	uint64_t length, int fd, uint64_t *ret, struct bailey_error *e);

/* Makes or replaces a file, whole or not at all.  mode 0: 0644. */
BAILEY_API int bailey_write(struct bailey_sandbox *s, const char *path, const void *data, size_t n,
	uint32_t mode, unsigned flags, struct bailey_error *e);

/* The same from a descriptor, up to its end. */
BAILEY_API int bailey_write_from(struct bailey_sandbox *s, const char *path, int fd, uint32_t mode,
	unsigned flags, struct bailey_error *e);

/* mode 0: 0755 */
BAILEY_API int bailey_mkdir(struct bailey_sandbox *s, const char *path, uint32_t mode,
	unsigned flags, struct bailey_error *e);
BAILEY_API int bailey_unlink(
	struct bailey_sandbox *s, const char *path, unsigned flags, struct bailey_error *e);
BAILEY_API int bailey_rename(
	struct bailey_sandbox *s, const char *from, const char *to, struct bailey_error *e);

struct bailey_search_options {
	size_t size;
	const char *path;    /* the directory */
	const char *pattern; /* of the name: * ? [...]; NULL: any */
	const char *text;    /* that a line must hold; NULL: names alone */
	int ignore_case;     /* of the text; ASCII */
	int hidden;          /* names that begin with a dot, too */
	uint32_t max;        /* matches; 0: 10,000 */
	uint64_t max_size;   /* larger files are not read for text; 0: 16 MiB */
};
#define BAILEY_SEARCH_OPTIONS_INIT { .size = sizeof(struct bailey_search_options) }

/* Returns 1 when there were more matches, or fn ended it. */
BAILEY_API int bailey_search(struct bailey_sandbox *s, const struct bailey_search_options *o,
	bailey_entry_fn *fn, void *arg, struct bailey_error *e);

/* A tree as a tar archive (POSIX pax), written to fd; and an archive read from fd, extracted in the directory `path`. */
BAILEY_API int bailey_tar_out(
	struct bailey_sandbox *s, const char *path, unsigned flags, int fd, struct bailey_error *e);
BAILEY_API int bailey_tar_in(
	struct bailey_sandbox *s, const char *path, unsigned flags, int fd, struct bailey_error *e);

struct bailey_copied {
	uint64_t entries, bytes;
	uint64_t skipped; /* devices, sockets and what else is not copied */
	uint64_t changed; /* files that changed while they were read */
	char reserved[32];
};

enum bailey_copy_flags {
	BAILEY_COPY_FOLLOW = 1,   /* a link that the source names itself is followed */
	BAILEY_COPY_CONTENTS = 2, /* of the source directory, not the directory */
};

/* Copies a file or tree of the host into the sandbox, or out of it, with modes, times and links; links are copied and never
 * followed.  A destination that is a directory takes the source under its own name, else the destination is the new name.
 * ret may be NULL. */
BAILEY_API int bailey_copy_in(struct bailey_sandbox *s, const char *host_path, const char *path,
	unsigned flags, struct bailey_copied *ret, struct bailey_error *e);
BAILEY_API int bailey_copy_out(struct bailey_sandbox *s, const char *path, const char *host_path,
	unsigned flags, struct bailey_copied *ret, struct bailey_error *e);

/* Bytes of the archive that have moved so far.  Called while one of these two waits, now and then; it must not wait. */
typedef void bailey_progress_fn(void *arg, uint64_t bytes);

/* Tells of every copy over this connection from now on; fn NULL ends that.  Never waits. */
BAILEY_API void bailey_on_progress(struct bailey_sandbox *s, bailey_progress_fn *fn, void *arg);

/* --- connections in and out ---------------------------------------------------------------------------------------- */

/* Connects to 127.0.0.1:port inside, or with port 0 to the Unix socket `path`.  *ret_fd is one end of a socket pair, the
 * caller's to close; its bytes move while bailey_dispatch() or a waiting function of this handle runs. */
BAILEY_API int bailey_dial(struct bailey_sandbox *s, uint16_t port, const char *path, int *ret_fd,
	struct bailey_error *e);

/* As bailey_dial(), with a socket of the caller's in the place of the pair: it is duplicated, and the caller may close
 * its own. */
BAILEY_API int bailey_dial_from(
	struct bailey_sandbox *s, uint16_t port, const char *path, int fd, struct bailey_error *e);

/* A connection came; fd is the callee's to close, and is served as bailey_dial()'s. */
typedef void bailey_incoming_fn(void *arg, int fd);

/* Listens inside on 127.0.0.1:port (0: any), or on the Unix socket `path` when that is not NULL. */
BAILEY_API int bailey_listen(struct bailey_sandbox *s, uint16_t port, const char *path,
	bailey_incoming_fn *fn, void *arg, struct bailey_listener **ret, struct bailey_error *e);
BAILEY_API uint16_t bailey_listener_port(const struct bailey_listener *l);
BAILEY_API void bailey_listener_free(struct bailey_listener *l);

/* --- the sandbox itself -------------------------------------------------------------------------------------------- */

typedef int bailey_value_fn(void *arg, const char *key, const char *value);

/* The record with live facts.  Returns 1 when fn ended it. */
BAILEY_API int bailey_inspect(
	struct bailey_sandbox *s, bailey_value_fn *fn, void *arg, struct bailey_error *e);

struct bailey_stats {
	uint64_t cpu_us;
	uint64_t memory_bytes, memory_peak_bytes, memory_max_bytes;
	uint64_t pids, pids_max, pids_refused;
	uint64_t disk_used_bytes, disk_max_bytes;
	uint64_t oom_kills;
	uint64_t spool_bytes;
	uint64_t reserved[8];
};

/* What the host does not count is UINT64_MAX. */
BAILEY_API int bailey_stats(
	struct bailey_sandbox *s, struct bailey_stats *ret, struct bailey_error *e);

BAILEY_API int bailey_pause(struct bailey_sandbox *s, struct bailey_error *e);
BAILEY_API int bailey_resume(struct bailey_sandbox *s, struct bailey_error *e);

/* Ends all processes: SIGTERM, and SIGKILL after grace_ms.  Files stay, output kept stays. */
BAILEY_API int bailey_stop(struct bailey_sandbox *s, uint64_t grace_ms, struct bailey_error *e);
BAILEY_API int bailey_start(struct bailey_sandbox *s, struct bailey_error *e);

/* Ends and removes it; the connection is of no use afterwards.  A snapshot or sandbox others need keeps its shared files
 * until they go.  force: no grace. */
BAILEY_API int bailey_remove(
	struct bailey_sandbox *s, uint64_t grace_ms, int force, struct bailey_error *e);

/* A new time to live, from now; 0: for ever. */
BAILEY_API int bailey_set_ttl(struct bailey_sandbox *s, uint64_t ttl_ms, struct bailey_error *e);

/* A frozen copy of the files, and a new sandbox that begins with them; name may be NULL. */
BAILEY_API int bailey_snapshot(struct bailey_sandbox *s, const char *name,
	char ret_id[BAILEY_ID_SIZE], struct bailey_error *e);
BAILEY_API int bailey_fork(struct bailey_sandbox *s, const char *name, char ret_id[BAILEY_ID_SIZE],
	struct bailey_error *e);

/* --- changes ------------------------------------------------------------------------------------------------------- */

struct bailey_change {
	size_t size_of;
	char kind;     /* 'A' added, 'M' modified, 'D' removed */
	uint32_t mode; /* as st_mode; 0 of a removed file */
	uint64_t size;
	const char *path; /* no slash in front */
};
typedef int bailey_change_fn(void *arg, const struct bailey_change *change);

/* What the sandbox changed beside its image; workspace != 0: in its copy-on-write workspace.  Returns 1 when fn ended
 * it. */
BAILEY_API int bailey_changes(struct bailey_sandbox *s, int workspace, bailey_change_fn *fn,
	void *arg, struct bailey_error *e);

/* The same as a layer archive (pax tar; `.wh.NAME` deletes NAME, `.wh..wh..opq` empties its directory).  *ret_fd is a pipe,
 * the caller's to close. */
BAILEY_API int bailey_changes_archive(
	struct bailey_sandbox *s, int workspace, int *ret_fd, struct bailey_error *e);

/* --- events -------------------------------------------------------------------------------------------------------- */

/* One event: its line, and its parts.  Valid during the callback. */
struct bailey_event {
	size_t size;
	const char *line; /* as recorded, without its end */
	uint64_t time_ms; /* since the epoch */
	const char *id;   /* the sandbox */
	const char *kind; /* "created", "command_ended" ... */
	const char *rest; /* KEY=VALUE words, "" when none */
};
typedef int bailey_event_fn(void *arg, const struct bailey_event *event);

/* Events of every sandbox of the home, from the first one kept (from_start != 0) or from now on. */
BAILEY_API int bailey_watch(
	struct bailey *b, int from_start, struct bailey_watch **ret, struct bailey_error *e);

/* Readable when there may be something new. */
BAILEY_API int bailey_watch_fd(const struct bailey_watch *w);

/* Calls fn with each event there is; waits up to timeout_ms (-1: for ever) for the first.  Returns how many, 0 after the
 * timeout. */
BAILEY_API int bailey_watch_next(struct bailey_watch *w, int timeout_ms, bailey_event_fn *fn,
	void *arg, struct bailey_error *e);
BAILEY_API void bailey_watch_free(struct bailey_watch *w);

/* Events of one sandbox, told by its engine while this connection dispatches.  NULL ends it. */
BAILEY_API int bailey_on_event(
	struct bailey_sandbox *s, bailey_event_fn *fn, void *arg, struct bailey_error *e);

#ifdef __cplusplus
}
#endif
#endif
