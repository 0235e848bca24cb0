/* Owns what is asked of a home as a whole: which sandboxes there are, how they are, what they take, and the removal of those
 * that nobody owns any more.  Called by users of the library. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/sys.h"
#include "client/client.h"
#include "client/control.h"
#include "image/image.h"

enum { AT_ONCE = 64, MAX_SANDBOXES = 65536 };

struct entry {
	struct record r;
	struct bailey_sandbox *asked; /* HELLO is under way */
	uint64_t created;
};

struct entries {
	const struct bailey *b;
	bool no_adoption; /* one could not be taken over: the others are left for another time */
	int sandboxes;
	struct entry *v;
	size_t n, cap;
};

static void entries_done(struct entries *l)
{
	for (size_t i = 0; i < l->n; i++) {
		record_done(&l->v[i].r);
		conn_free(l->v[i].asked);
	}
	free(l->v);
	(void)close_fd(l->sandboxes);
}

/* Its record, after it was given an owner if it goes on without one. */
static void read_one(struct entries *l, int run, const char *id, struct record *r)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	if (record_read(run, id, r, &ignored) < 0 || record_owner_lives(r) || l->no_adoption ||
		faccessat(run, "kept", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	l->no_adoption = !client_adopt(l->b, run, r);
	if (l->no_adoption)
		return;
	record_done(r);
	(void)record_read(run, id, r, &ignored);
}

/* One that goes while it is looked at is left out. */
static int add_entry(void *arg, const char *id, struct err *e)
{
	_cleanup_err_ struct err gone = ERR_INIT;
	struct entries *l = arg;
	_cleanup_close_ int run = -1;
	struct entry *grown;

	if (run_open(l->sandboxes, id, &run, &gone) < 0)
		return 0;
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		grown = l->cap > 2 * MAX_SANDBOXES ? NULL : realloc(l->v, l->cap * sizeof *grown);
		if (!grown)
			return err_set(e, R_NO_MEMORY, ENOMEM, "list sandboxes");
		l->v = grown;
	}
	memset(&l->v[l->n], 0, sizeof *l->v);
	read_one(l, run, id, &l->v[l->n].r);
	l->v[l->n].created = record_number(&l->v[l->n].r, "created_ms", 0);
	l->n++;
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->created != y->created)
		return x->created < y->created ? -1 : 1;
	return strcmp(x->r.id, y->r.id);
}

/* HELLO to a part of them, all at the same time. */
static void ask(struct entries *l, size_t from, size_t to)
{
	const uint64_t until = boottime_ms() + CLIENT_CONNECT_MS;
	struct pollfd fds[AT_ONCE];
	size_t waiting;

	for (size_t i = from; i < to; i++) {
		_cleanup_err_ struct err ignored = ERR_INIT;
		_cleanup_close_ int run = -1;

		if (record_owner_lives(&l->v[i].r) &&
			run_open(l->sandboxes, l->v[i].r.id, &run, &ignored) == 0)
			(void)conn_begin(&l->v[i].asked, run, l->v[i].r.id, &ignored);
	}
	do {
		const uint64_t now = boottime_ms();

		waiting = 0;
		for (size_t i = from; i < to; i++) {
			_cleanup_err_ struct err ignored = ERR_INIT;
			struct bailey_sandbox *c = l->v[i].asked;

			if (!c)
				continue;
			if (conn_turn(c, 0, &ignored) < 0 || c->hello || now >= until) {
				l->v[i].r.live = c->hello;
				conn_free(c);
				l->v[i].asked = NULL;
				continue;
			}
			fds[waiting++] = (struct pollfd){ .fd = bailey_fd(c), .events = POLLIN };
		}
		if (waiting)
			(void)poll(fds, waiting, 100);
	} while (waiting);
}

static int read_entries(const struct bailey *b, struct entries *l, struct err *e)
{
	const uint64_t until = boottime_ms() + 2 * CLIENT_CONNECT_MS;

	l->b = b;
	l->sandboxes = -1;
	if (home_open_sandboxes(b, &l->sandboxes, e) < 0 ||
		run_each(l->sandboxes, add_entry, l, e) < 0)
		return -1;
	if (l->n)
		qsort(l->v, l->n, sizeof *l->v, by_age);
	for (size_t i = 0; i < l->n && boottime_ms() < until; i += AT_ONCE)
		ask(l, i, i + AT_ONCE < l->n ? i + AT_ONCE : l->n);
	return 0;
}

static void fill_info(struct bailey_info *info, const struct record *r, bool asked)
{
	const char *state = record_get(r, "state"), *kind = record_get(r, "kind");
	const char *name = record_get(r, "name");

	if (asked && !r->live && !(state && streq(state, "creating") && record_owner_lives(r)))
		state = "lost";
	*info = (struct bailey_info){ .size = sizeof *info,
		.id = r->id,
		.name = name ? name : "",
		.state = state ? state : "lost",
		.kind = kind ? kind : "sandbox",
		.created_ms = record_number(r, "created_ms", 0),
		.live = r->live,
		.record = r };
}

const char *bailey_info_get(const struct bailey_info *info, const char *key)
{
	return record_get(info->record, key);
}

int bailey_info_at(
	const struct bailey_info *info, size_t n, const char **ret_key, const char **ret_value)
{
	const struct record *r = info->record;

	if (n >= r->n)
		return -1;
	*ret_key = r->key[n];
	*ret_value = r->value[n];
	return 0;
}

int bailey_list_sandboxes(struct bailey *b, bailey_info_fn *fn, void *arg, struct bailey_error *e)
{
	_cleanup_(entries_done) struct entries l = { .sandboxes = -1 };
	struct err err = ERR_INIT;
	struct bailey_info info;
	int r = read_entries(b, &l, &err);

	for (size_t i = 0; r == 0 && i < l.n; i++) {
		fill_info(&info, &l.v[i].r, true);
		r = fn(arg, &info) != 0;
	}
	return client_give(r, e, &err);
}

int bailey_find(
	struct bailey *b, const char *sandbox, char ret_id[BAILEY_ID_SIZE], struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(sandbox_find(b, sandbox, ret_id, &err), e, &err);
}

static int find_record(const struct bailey *b, const char *sandbox, int *ret_sandboxes,
	struct record *ret, struct err *e)
{
	_cleanup_close_ int run = -1;
	char id[BAILEY_ID_SIZE];

	if (sandbox_find(b, sandbox, id, e) < 0 || home_open_sandboxes(b, ret_sandboxes, e) < 0 ||
		run_open(*ret_sandboxes, id, &run, e) < 0)
		return -1;
	return record_read(run, id, ret, e);
}

int bailey_record(struct bailey *b, const char *sandbox, bailey_info_fn *fn, void *arg,
	struct bailey_error *e)
{
	_cleanup_record_ struct record record = { .n = 0 };
	_cleanup_close_ int sandboxes = -1;
	struct err err = ERR_INIT;
	struct bailey_info info;
	int r = find_record(b, sandbox, &sandboxes, &record, &err);

	if (r == 0) {
		record.live = record_owner_lives(&record);
		fill_info(&info, &record, true);
		r = fn(arg, &info) != 0;
	}
	return client_give(r, e, &err);
}

/* --- removal --- */

static int remove_live(
	const struct entries *l, const char *id, uint64_t grace_ms, bool force, struct err *e)
{
	struct bailey_sandbox *c = NULL;
	_cleanup_close_ int run = -1;
	int r;

	if (run_open(l->sandboxes, id, &run, e) < 0 || conn_open(&c, run, id, e) < 0)
		return -1;
	r = control_remove(c, grace_ms, force, e);
	conn_free(c);
	return r;
}

/* The host's own traces of lost ones: cgroups, id ranges.  A program that can't be started only leaves them to the next
 * sweep. */
static void sweep(const struct bailey *b)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	(void)client_sweep(b, &ignored);
}

int bailey_prune(
	struct bailey *b, int stopped, bailey_info_fn *fn, void *arg, struct bailey_error *e)
{
	_cleanup_(entries_done) struct entries l = { .sandboxes = -1 };
	struct err err = ERR_INIT;
	struct bailey_info info;
	int r = read_entries(b, &l, &err);

	for (size_t i = 0; r == 0 && i < l.n; i++) {
		bool lost, dead;

		fill_info(&info, &l.v[i].r, true);
		lost = streq(info.state, "lost");
		dead = lost && !record_owner_lives(&l.v[i].r);
		/* an engine that lives and is silent is left alone */
		if (!dead && !(info.live && (lost || (stopped && streq(info.state, "stopped")))))
			continue;
		if (fn && fn(arg, &info))
			continue;
		r = dead ? run_remove(l.sandboxes, &l.v[i].r, &err)
			 : remove_live(&l, info.id, 0, true, &err);
	}
	if (r == 0)
		sweep(b);
	return client_give(r, e, &err);
}

static int remove_sandbox(
	const struct bailey *b, const char *sandbox, uint64_t grace_ms, bool force, struct err *e)
{
	_cleanup_(entries_done) struct entries l = { .sandboxes = -1 };
	_cleanup_record_ struct record record = { .n = 0 };
	_cleanup_err_ struct err damaged = ERR_INIT;
	_cleanup_close_ int run = -1;
	char id[BAILEY_ID_SIZE];

	if (sandbox_find(b, sandbox, id, e) < 0 || home_open_sandboxes(b, &l.sandboxes, e) < 0 ||
		run_open(l.sandboxes, id, &run, e) < 0)
		return -1;
	/* without a readable record it may still listen */
	(void)record_read(run, id, &record, &damaged);
	if (record_owner_lives(&record))
		return remove_live(&l, id, grace_ms, force, e);
	if (run_remove(l.sandboxes, &record, e) < 0)
		return -1;
	sweep(b);
	return 0;
}

int bailey_remove_sandbox(
	struct bailey *b, const char *sandbox, uint64_t grace_ms, int force, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(remove_sandbox(b, sandbox, grace_ms, force != 0, &err), e, &err);
}

/* --- space --- */

static int disk_used(void *arg, const char *key, const char *value)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	uint64_t *used = arg;

	if (!streq(key, "disk_used_bytes"))
		return 0;
	if (parse_u64(value, 0, UINT64_MAX, key, used, &ignored) < 0)
		*used = 0;
	return 1;
}

static uint64_t layer_bytes(const struct entries *l, const struct record *r)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct bailey_sandbox *c = NULL;
	_cleanup_close_ int run = -1;
	uint64_t used = 0;

	if (!r->live || run_open(l->sandboxes, r->id, &run, &ignored) < 0 ||
		conn_open(&c, run, r->id, &ignored) < 0)
		return 0;
	(void)control_inspect(c, disk_used, &used, &ignored);
	conn_free(c);
	return used;
}

/* Blocks of the files in one directory. */
static uint64_t dir_bytes(int at, const char *path)
{
	int fd = sys_openat2(at, path, O_RDONLY | O_DIRECTORY, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	uint64_t bytes = 0;
	struct dirent *d;
	struct stat st;

	if (!dir) {
		(void)close_fd(fd);
		return 0;
	}
	while ((d = readdir(dir)))
		if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_blocks * 512;
	return bytes;
}

struct image_rows {
	bailey_usage_fn *fn;
	void *arg;
};

static int image_row(void *arg, const char *name, uint64_t bytes)
{
	const struct image_rows *r = arg;

	return r->fn(r->arg, name ? "image" : "shared", name ?: "", bytes) != 0;
}

int bailey_df(struct bailey *b, bailey_usage_fn *fn, void *arg, struct bailey_error *e)
{
	_cleanup_(entries_done) struct entries l = { .sandboxes = -1 };
	struct err err = ERR_INIT;
	struct stat st;
	int r = read_entries(b, &l, &err);

	for (size_t i = 0; r == 0 && i < l.n; i++) {
		const struct record *record = &l.v[i].r;
		char path[BAILEY_ID_SIZE + 16];

		r = fn(arg, "layer", record->id, layer_bytes(&l, record)) != 0;
		if (r == 0)
			r = fn(arg, "spool", record->id,
				    dir_bytes(l.sandboxes,
					    FMT(path, "runs/%s/spool", record->id))) != 0;
	}
	if (r == 0 && l.sandboxes >= 0 &&
		fstatat(l.sandboxes, "events", &st, AT_SYMLINK_NOFOLLOW) == 0)
		r = fn(arg, "events", "", (uint64_t)st.st_blocks * 512) != 0;
	if (r == 0)
		r = image_usage(b->home, image_row, &(struct image_rows){ fn, arg });
	return client_give(r, e, &err);
}
