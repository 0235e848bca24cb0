/* Owns reading what stands below $BAILEY_HOME/sandbox: names, run directories, their records.  Called by everything that
 * finds a sandbox before it speaks to it.  The files are written by engine processes of the same user; each is still read
 * within a maximum and no link is followed. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/sys.h"
#include "client/client.h"
#include "tree/tree.h"

enum { MIN_PREFIX = 4, MAX_RUNS = 65536 };

void record_done(struct record *r)
{
	free(r->text);
	memset(r, 0, sizeof *r);
}

const char *record_get(const struct record *r, const char *key)
{
	for (unsigned i = 0; i < r->n; i++)
		if (streq(r->key[i], key))
			return r->value[i];
	return NULL;
}

uint64_t record_number(const struct record *r, const char *key, uint64_t fallback)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	const char *text = record_get(r, key);
	uint64_t v;

	if (!text || parse_u64(text, 0, UINT64_MAX, key, &v, &ignored) < 0)
		return fallback;
	return v;
}

bool id_is_valid(const char *id)
{
	return *id && strlen(id) < BAILEY_ID_SIZE && strspn(id, "0123456789abcdef") == strlen(id);
}

bool name_is_valid(const char *name)
{
	const size_t n = strlen(name);

	return n && n < BAILEY_NAME_SIZE &&
		strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n && *name != '.' &&
		*name != '_' && *name != '-';
}

int home_open_sandboxes(const struct bailey *b, int *ret, struct err *e)
{
	_cleanup_close_ int home = open(b->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	*ret = -1;
	if (b->launcher)
		return launcher_home(b, ret, e);
	if (home < 0 && errno == ENOENT)
		return 0;
	if (home < 0)
		return err_set(e, client_reason((uint32_t)errno), errno, "open '%s'", b->home);
	fd = sys_openat2(home, "sandbox", O_RDONLY | O_DIRECTORY, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0 && errno != ENOENT)
		return err_set(
			e, client_reason((uint32_t)errno), errno, "open '%s/sandbox'", b->home);
	*ret = fd;
	return 0;
}

static int open_beneath(int dir, const char *path, uint64_t flags)
{
	return sys_openat2(
		dir, path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int run_open(int sandboxes, const char *id, int *ret, struct err *e)
{
	char path[BAILEY_ID_SIZE + 8];

	if (!id_is_valid(id) || sandboxes < 0)
		return err_set(e, R_SANDBOX_NOT_FOUND, 0, "find sandbox '%.64s'", id);
	*ret = open_beneath(sandboxes, FMT(path, "runs/%s", id), O_RDONLY | O_DIRECTORY);
	if (*ret >= 0)
		return 0;
	return err_set(e, errno == ENOENT ? R_SANDBOX_NOT_FOUND : client_reason((uint32_t)errno),
		errno == ENOENT ? 0 : errno, "find sandbox '%s'", id);
}

/* Lines that aren't of the form are passed over: a later version may write them. */
static void parse(struct record *r)
{
	char *save = NULL;

	for (char *line = strtok_r(r->text, "\n", &save); line && r->n < RECORD_MAX_KEYS;
		line = strtok_r(NULL, "\n", &save)) {
		char *key, *value;

		if (!line_split(line, &key, &value))
			continue;
		r->key[r->n] = key;
		r->value[r->n++] = value;
	}
}

static int read_meta(int run_fd, const char *id, struct record *ret, struct err *e)
{
	_cleanup_close_ int fd = open_beneath(run_fd, "meta", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	_cleanup_buf_ struct buf text = { .max = CLIENT_MAX_META };
	struct stat st;

	memset(ret, 0, sizeof *ret);
	str_format(ret->id, sizeof ret->id, "%s", id);
	if (fd < 0)
		return err_set(e, errno == ENOENT ? R_SANDBOX_LOST : client_reason((uint32_t)errno),
			errno, "read the record of '%s'", id);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read_all(fd, &text) < 0)
		return err_set(e, R_IO_FAILED, errno, "read the record of '%s'", id);
	if (!text.data || strlen(text.data) != text.len)
		return err_set(e, R_SANDBOX_LOST, 0, "read the record of '%s': it is damaged", id);
	ret->text = move_ptr(text.data);
	parse(ret);
	return 0;
}

static bool owner_is_seen(const struct record *r)
{
	const char *pid = record_get(r, "owner_pid");
	struct proc_stat s;

	return pid && proc_stat(pid, &s) == 0 && s.state != 'Z' && s.state != 'X' &&
		s.start == record_number(r, "owner_start", UINT64_MAX);
}

int record_read(int run_fd, const char *id, struct record *ret, struct err *e)
{
	int r = read_meta(run_fd, id, ret, e);

	ret->listened = !owner_is_seen(ret) && socket_listens(run_fd, "sock");
	return r;
}

bool record_owner_lives(const struct record *r)
{
	return r->listened || owner_is_seen(r);
}

int run_each(int sandboxes, int (*each)(void *arg, const char *id, struct err *e), void *arg,
	struct err *e)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *d;
	unsigned n = 0;
	int r = 0, fd;

	if (sandboxes < 0)
		return 0;
	fd = open_beneath(sandboxes, "runs", O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(e, R_IO_FAILED, errno, "list sandboxes");
	dir = fdopendir(fd);
	if (!dir) {
		(void)close_fd(fd);
		return err_set(e, R_NO_MEMORY, errno, "list sandboxes");
	}
	while (r == 0 && n < MAX_RUNS && (d = readdir(dir))) {
		if (!id_is_valid(d->d_name))
			continue;
		n++;
		r = each(arg, d->d_name, e);
	}
	return r;
}

/* What names/NAME says, or "" */
static void read_name(int sandboxes, const char *name, char ret[BAILEY_ID_SIZE])
{
	char path[BAILEY_NAME_SIZE + 8], text[BAILEY_ID_SIZE + 1];
	_cleanup_close_ int fd = open_beneath(
		sandboxes, FMT(path, "names/%s", name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

	*ret = '\0';
	if (n <= 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (id_is_valid(text))
		str_format(ret, BAILEY_ID_SIZE, "%s", text);
}

struct prefix {
	const char *text;
	char id[BAILEY_ID_SIZE];
	unsigned found;
	bool exact;
};

static int match_prefix(void *arg, const char *id, struct err *e)
{
	struct prefix *p = arg;

	(void)e;
	if (!str_after(id, p->text))
		return 0;
	str_format(p->id, sizeof p->id, "%s", id);
	p->found++;
	p->exact = streq(id, p->text);
	return p->exact;
}

int sandbox_find(
	const struct bailey *b, const char *text, char ret_id[BAILEY_ID_SIZE], struct err *e)
{
	_cleanup_close_ int sandboxes = -1;
	_cleanup_err_ struct err none = ERR_INIT;
	struct prefix p = { .text = text };
	_cleanup_close_ int run = -1;

	if (!text || (!id_is_valid(text) && !name_is_valid(text)))
		return err_set(e, R_SANDBOX_NOT_FOUND, 0,
			"find sandbox '%.64s': neither a name nor an id", text ? text : "");
	if (home_open_sandboxes(b, &sandboxes, e) < 0)
		return -1;
	if (sandboxes < 0)
		return err_set(e, R_SANDBOX_NOT_FOUND, 0, "find sandbox '%s'", text);
	if (name_is_valid(text))
		read_name(sandboxes, text, p.id);
	/* a whole id needs no look at all of them */
	if (!*p.id && id_is_valid(text) && run_open(sandboxes, text, &run, &none) == 0) {
		str_format(ret_id, BAILEY_ID_SIZE, "%s", text);
		return 0;
	}
	if (!*p.id && id_is_valid(text) && strlen(text) >= MIN_PREFIX) {
		if (run_each(sandboxes, match_prefix, &p, e) < 0)
			return -1;
		if (p.found > 1 && !p.exact)
			return err_set(e, R_BAD_VALUE, 0, "find sandbox '%s': %u ids begin with it",
				text, p.found);
	}
	if (!*p.id || run_open(sandboxes, p.id, &run, e) < 0) {
		err_done(e);
		return err_set(e, R_SANDBOX_NOT_FOUND, 0, "find sandbox '%s'", text);
	}
	str_format(ret_id, BAILEY_ID_SIZE, "%s", p.id);
	return 0;
}

/* Under the lock that engines take to give a name away: by now another sandbox may have this one. */
static int drop_name(int sandboxes, const char *name, const char *id, struct err *e)
{
	_cleanup_close_ int names = open_beneath(sandboxes, "names", O_RDONLY | O_DIRECTORY);
	char of[BAILEY_ID_SIZE];

	if (names < 0 && errno == ENOENT)
		return 0;
	if (names < 0 || flock(names, LOCK_EX) < 0)
		return err_set(e, R_IO_FAILED, errno, "remove the name '%s'", name);
	read_name(sandboxes, name, of);
	if (streq(of, id) && unlinkat(names, name, 0) < 0 && errno != ENOENT)
		return err_set(e, R_IO_FAILED, errno, "remove the name '%s'", name);
	return 0;
}

int run_remove(int sandboxes, const struct record *r, struct err *e)
{
	_cleanup_close_ int runs = open_beneath(sandboxes, "runs", O_RDONLY | O_DIRECTORY);
	const char *name = record_get(r, "name");
	uint64_t count = 0;

	if (record_owner_lives(r))
		return err_set(
			e, R_BUSY, 0, "remove '%s': its engine does not answer, but lives", r->id);
	if (runs < 0)
		return err_set(e, R_IO_FAILED, errno, "remove '%s'", r->id);
	if (name && name_is_valid(name) && drop_name(sandboxes, name, r->id, e) < 0)
		return -1;
	return tree_remove(runs, r->id, &count, e);
}
