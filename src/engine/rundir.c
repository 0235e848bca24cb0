/* Owns the directories of sandboxes.  Called by owner processes and by the sweep.  Must hold: only names that a sandbox has are
 * touched, by single steps beneath held directories, whatever else lies there. */
#include "engine/rundir.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"

enum {
	BACKLOG = 256,
	META_MAX = 64 << 10,
	SWEEP_EVERY_S = 600,
	KEEP_LOST_MS = 3600000,
	MAX_SPOOL_FILES = 65536,
	KILL_MS = 5000,
};

static int open_dir(int at, const char *name)
{
	return sys_openat2(at, name, O_RDONLY | O_DIRECTORY, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

static int make_dir(const struct rundirs *d, const char *name, int *ret, struct err *e)
{
	const mode_t mode = d->for_other ? 0755 : 0700;

	if (mkdirat(d->top, name, mode) < 0 && errno != EEXIST)
		return err_set(e, R_STATE_UNWRITABLE, errno, "make directory '%s'", name);
	*ret = open_dir(d->top, name);
	return *ret < 0 ? err_set(e, R_STATE_UNWRITABLE, errno, "open directory '%s'", name) : 0;
}

int rundirs_open(struct rundirs *d, struct err *e)
{
	_cleanup_free_ char *top = NULL;
	const bool for_other = d->for_other;

	*d = (struct rundirs)RUNDIRS_INIT;
	d->for_other = for_other;
	if (home_subdir("sandbox", &top, e) < 0)
		return -1;
	d->top = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->top < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open '%s'", top);
	d->path = xasprintf("%s/runs", top);
	if (make_dir(d, "runs", &d->runs, e) < 0 || make_dir(d, "names", &d->names, e) < 0) {
		rundirs_done(d);
		return -1;
	}
	return 0;
}

void rundirs_done(struct rundirs *d)
{
	d->top = close_fd(d->top);
	d->runs = close_fd(d->runs);
	d->names = close_fd(d->names);
	free(d->path);
	d->path = NULL;
}

/* --- names --- */

bool rundir_id_is_plain(const char *id)
{
	return *id && strlen(id) < SPEC_ID_LEN && strspn(id, "0123456789abcdef") == strlen(id);
}

static void read_name(int names, const char *name, char id[static SPEC_ID_LEN])
{
	char text[SPEC_ID_LEN + 1];

	*id = '\0';
	if (read_file_at(names, name, text, sizeof text) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (rundir_id_is_plain(text))
		str_format(id, SPEC_ID_LEN, "%s", text);
}

/* A name whose sandbox is no more is free. */
static int take_name(const struct rundirs *d, const char *id, const char *name, struct err *e)
{
	_cleanup_close_ int lock = open_dir(d->names, "."), fd = -1;
	char other[SPEC_ID_LEN], line[SPEC_ID_LEN + 1];
	const mode_t mode = d->for_other ? 0644 : 0600;
	struct stat st;

	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "use name '%s'", name);
	for (int i = 0; i < 2 && fd < 0; i++) {
		fd = openat(
			d->names, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (fd >= 0)
			break;
		if (errno != EEXIST)
			return err_set(e, R_STATE_UNWRITABLE, errno, "use name '%s'", name);
		read_name(d->names, name, other);
		if (*other && fstatat(d->runs, other, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return err_set(e, R_SANDBOX_EXISTS, 0, "use name '%s': sandbox '%s' has it",
				name, other);
		(void)unlinkat(d->names, name, 0);
	}
	FMT(line, "%s\n", id);
	if (fd < 0 || write_all(fd, line, strlen(line)) < 0) {
		int error = errno;

		(void)unlinkat(d->names, name, 0);
		return err_set(e, R_STATE_UNWRITABLE, error, "use name '%s'", name);
	}
	return 0;
}

static void drop_name(const struct rundirs *d, const char *id, const char *name)
{
	_cleanup_close_ int lock = open_dir(d->names, ".");
	char other[SPEC_ID_LEN];

	if (!pack_name_is_valid(name) || lock < 0 || flock(lock, LOCK_EX) < 0)
		return;
	read_name(d->names, name, other);
	if (streq(other, id))
		(void)unlinkat(d->names, name, 0);
}

/* --- one sandbox --- */

int rundir_open(const struct rundirs *d, const char *id, int *ret, struct err *e)
{
	*ret = open_dir(d->runs, id);
	if (*ret < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open the files of sandbox '%s'", id);
	return 0;
}

int rundir_make(const struct rundirs *d, const char *id, const char *name, struct err *e)
{
	_cleanup_close_ int dir = -1;

	if (!rundir_id_is_plain(id) || (*name && !pack_name_is_valid(name)))
		return err_set(
			e, R_BAD_VALUE, 0, "make sandbox '%.32s': its id or name is none", id);
	if (mkdirat(d->runs, id, d->for_other ? 0755 : 0700) < 0)
		return err_set(e, errno == EEXIST ? R_SANDBOX_EXISTS : R_STATE_UNWRITABLE,
			errno == EEXIST ? 0 : errno, "make the files of sandbox '%s'", id);
	dir = open_dir(d->runs, id);
	if (dir < 0 || mkdirat(dir, "spool", 0700) < 0) {
		err_set(e, R_STATE_UNWRITABLE, errno, "make the files of sandbox '%s'", id);
		rundir_remove(d, id, "");
		return -1;
	}
	if (*name && take_name(d, id, name, e) < 0) {
		rundir_remove(d, id, "");
		return -1;
	}
	return 0;
}

/* index, and ID.0 and ID.1 of commands. */
static void remove_spool(int dir)
{
	_cleanup_closedir_ DIR *list = NULL;
	int fd = open_dir(dir, "spool");
	const struct dirent *f;

	if (fd < 0)
		return;
	list = fdopendir(fd);
	if (!list) {
		(void)close_fd(fd);
		return;
	}
	for (unsigned i = 0; i < MAX_SPOOL_FILES && (f = readdir(list)); i++)
		if (streq(f->d_name, "index") ||
			strspn(f->d_name, "0123456789.") == strlen(f->d_name))
			(void)unlinkat(fd, f->d_name, 0);
	(void)unlinkat(dir, "spool", AT_REMOVEDIR);
}

/* Of an engine whose guests dial. */
static void remove_ctl(int dir)
{
	static const char *const files[] = { "ctl.sock", "token", "check" };
	_cleanup_close_ int ctl = open_dir(dir, "ctl");

	for (size_t i = 0; ctl >= 0 && i < sizeof files / sizeof *files; i++)
		(void)unlinkat(ctl, files[i], 0);
	(void)unlinkat(dir, "ctl", AT_REMOVEDIR);
}

void rundir_remove(const struct rundirs *d, const char *id, const char *name)
{
	static const char *const files[] = { "meta", "meta.new", "sock", "kept", "kept.new" };
	_cleanup_close_ int dir = rundir_id_is_plain(id) ? open_dir(d->runs, id) : -1;

	if (dir < 0)
		return;
	remove_spool(dir);
	remove_ctl(dir);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		(void)unlinkat(dir, files[i], 0);
	(void)unlinkat(d->runs, id, AT_REMOVEDIR);
	if (*name)
		drop_name(d, id, name);
}

int rundir_spool(int dir, uid_t owner, int *ret, struct err *e)
{
	*ret = open_dir(dir, "spool");
	if (*ret < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open the spool");
	if (owner != (uid_t)-1 && fchown(*ret, owner, owner) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "give the spool to uid '%u'", owner);
	return 0;
}

/* A directory that others may enter has what they need in it. */
static bool for_others(int dir)
{
	struct stat st;

	return fstat(dir, &st) == 0 && st.st_mode & 0001;
}

int rundir_listen(int dir, int *ret, struct err *e)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	FMT(a.sun_path, "/proc/self/fd/%d/sock", dir);
	(void)unlinkat(dir, "sock", 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ||
		listen(fd, BACKLOG) < 0 ||
		/* who connects is asked for his uid */
		(for_others(dir) && fchmodat(dir, "sock", 0666, 0) < 0))
		return err_set(e, R_STATE_UNWRITABLE, errno, "listen for clients");
	*ret = move_fd(&fd);
	return 0;
}

static int write_file(int dir, const char *name, const struct buf *text, mode_t mode, struct err *e)
{
	_cleanup_close_ int fd = -1;
	char fresh[64];

	FMT(fresh, "%s.new", name);
	fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0 || write_all(fd, text->data, text->len) < 0 ||
		renameat(dir, fresh, dir, name) < 0) {
		int error = errno;

		(void)unlinkat(dir, fresh, 0);
		return err_set(e, error == ENOSPC ? R_DISK_FULL : R_STATE_UNWRITABLE, error,
			"write '%s' of a sandbox", name);
	}
	return 0;
}

int rundir_write(int dir, const char *name, const struct buf *text, struct err *e)
{
	return write_file(dir, name, text, for_others(dir) ? 0644 : 0600, e);
}

int rundir_write_secret(int dir, const char *name, const struct buf *text, struct err *e)
{
	return write_file(dir, name, text, 0600, e);
}

/* --- what dead owners left --- */

uint64_t process_start(pid_t pid)
{
	struct proc_stat s;
	char text[16];

	if (proc_stat(FMT(text, "%d", (int)pid), &s) < 0 || s.state == 'Z' || s.state == 'X')
		return 0;
	return s.start;
}

static uint64_t number_of(const char *text, const char *key)
{
	uint64_t v = 0;
	const char *p = text;

	while (p) {
		const char *rest = str_after(p, key);

		if (rest && *rest == ' ') {
			for (rest++; *rest >= '0' && *rest <= '9'; rest++)
				v = v * 10 + (uint64_t)(*rest - '0');
			return v;
		}
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	return 0;
}

/* Empty when there is none, or it is too long.  No record begins with a line that is looked for. */
static void text_of(const char *text, const char *line, char *ret, size_t cap)
{
	const char *p = strstr(text, line);
	size_t n = p ? strcspn(p + strlen(line), "\n") : 0;

	if (n >= cap)
		n = 0;
	if (n)
		memcpy(ret, p + strlen(line), n);
	ret[n] = '\0';
}

static pid_t living_owner(const char *text)
{
	const uint64_t pid = number_of(text, "owner_pid");

	return pid && pid < INT32_MAX && process_start((pid_t)pid) == number_of(text, "owner_start")
		? (pid_t)pid
		: 0;
}

bool rundir_read_facts(int runs, const char *id, struct rundir_facts *ret)
{
	_cleanup_close_ int dir = rundir_id_is_plain(id) ? open_dir(runs, id) : -1;
	_cleanup_free_ char *text = malloc(META_MAX);

	if (dir < 0 || !text || read_file_at(dir, "meta", text, META_MAX) < 0)
		return false;
	*ret = (struct rundir_facts){ .memory_bytes = number_of(text, "memory_bytes"),
		.cpu_millis = number_of(text, "cpu_millis"),
		.deadline_ms = number_of(text, "deadline_ms"),
		.owner = living_owner(text) };
	text_of(text, "\nengine ", ret->engine, sizeof ret->engine);
	return true;
}

int rundir_kill_owner(const struct rundirs *d, const char *id, struct err *e)
{
	_cleanup_close_ int pidfd = -1;
	struct rundir_facts facts;
	struct pollfd p;

	if (!rundir_read_facts(d->runs, id, &facts))
		return err_set(e, R_SANDBOX_NOT_FOUND, 0, "end sandbox '%.32s'", id);
	if (!facts.owner)
		return 0;
	pidfd = sys_pidfd_open(facts.owner);
	/* the number may have been given to another before it was held */
	if (pidfd < 0 || !rundir_read_facts(d->runs, id, &facts) || !facts.owner)
		return 0;
	if (sys_pidfd_send_signal(pidfd, SIGKILL) < 0 && errno != ESRCH)
		return err_set(e, R_SETUP_FAILED, errno, "end sandbox '%s'", id);
	p = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	if (poll(&p, 1, KILL_MS) == 0)
		return err_set(e, R_TIMEOUT, 0, "end sandbox '%s': its owner has not gone", id);
	return 0;
}

/* The lines but those that say how it is, then those. */
static void mark_lost(int dir, const char *text, uint64_t now)
{
	static const char *const replaced[] = { "state ", "stopped_ms ", "exit_reason " };
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_err_ struct err ignored = ERR_INIT;

	for (const char *p = text; *p;) {
		const size_t n = strcspn(p, "\n");
		bool keep = n > 0;

		for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
			keep = keep && !str_after(p, replaced[i]);
		if (keep) {
			(void)buf_add(&out, p, n);
			(void)buf_puts(&out, "\n");
		}
		p += n + (p[n] == '\n');
	}
	(void)buf_printf(&out, "state lost\nstopped_ms %llu\nexit_reason engine_lost\n",
		(unsigned long long)now);
	if (!out.failed)
		(void)rundir_write(dir, "meta", &out, &ignored);
}

static bool sweep_one(const struct rundirs *d, const char *id)
{
	_cleanup_close_ int dir = open_dir(d->runs, id);
	_cleanup_free_ char *text = malloc(META_MAX);
	const uint64_t now = clock_ns(CLOCK_REALTIME) / 1000000u;
	char name[PACK_NAME];
	struct stat st;

	if (dir < 0 || !text || fstat(dir, &st) < 0)
		return false;
	if (read_file_at(dir, "meta", text, META_MAX) < 0) {
		/* one that is just being made has none yet */
		if (st.st_mtime + SWEEP_EVERY_S > (time_t)(now / 1000))
			return false;
		rundir_remove(d, id, "");
		return true;
	}
	/* one that goes on without its owner is taken over, or what was kept of it is removed */
	if (living_owner(text) || faccessat(dir, "kept", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return false;
	/* its number means nothing in another pid namespace, as of a container that shares the home */
	if (socket_listens(dir, "sock"))
		return false;
	if (!strstr(text, "\nstate lost\n")) {
		mark_lost(dir, text, now);
		return false;
	}
	if (number_of(text, "stopped_ms") + KEEP_LOST_MS > now)
		return false;
	text_of(text, "\nname ", name, sizeof name);
	rundir_remove(d, id, name);
	return true;
}

int rundirs_sweep(const struct rundirs *d, unsigned *ret, struct err *e)
{
	_cleanup_closedir_ DIR *list = NULL;
	const struct dirent *f;
	int fd = open_dir(d->runs, ".");

	list = fd < 0 ? NULL : fdopendir(fd);
	if (!list) {
		(void)close_fd(fd);
		return err_set(e, R_STATE_UNWRITABLE, errno, "list the sandboxes");
	}
	while ((f = readdir(list)))
		if (rundir_id_is_plain(f->d_name) && sweep_one(d, f->d_name))
			++*ret;
	return 0;
}

bool rundirs_next_kept(const struct rundirs *d, unsigned *at, char ret_id[static SPEC_ID_LEN])
{
	_cleanup_closedir_ DIR *list = NULL;
	const struct dirent *f;
	int fd = open_dir(d->runs, ".");
	char path[SPEC_ID_LEN + 8];

	list = fd < 0 ? NULL : fdopendir(fd);
	if (!list)
		(void)close_fd(fd);
	for (unsigned i = 0; list && (f = readdir(list)); i++) {
		if (i < *at || !rundir_id_is_plain(f->d_name))
			continue;
		str_format(ret_id, SPEC_ID_LEN, "%s", f->d_name);
		*at = i + 1;
		if (faccessat(d->runs, FMT(path, "%s/kept", ret_id), F_OK, AT_SYMLINK_NOFOLLOW) ==
			0)
			return true;
	}
	return false;
}

bool rundirs_sweep_due(const struct rundirs *d)
{
	_cleanup_close_ int fd =
		openat(d->top, "swept", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	const time_t now = (time_t)(clock_ns(CLOCK_REALTIME) / 1000000000u);
	struct stat st;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return false;
	if (st.st_size && st.st_mtime <= now && st.st_mtime + SWEEP_EVERY_S > now)
		return false;
	return pwrite(fd, "\n", 1, 0) == 1;
}
