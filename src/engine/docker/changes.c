/* Says what a container's files have beside its image, as records or as an archive in OCI layer format.  Called in a worker that
 * the owner forked for it.
 *
 * From the daemon's own directories where that can be done (trees.c).  Else the daemon tells which paths changed, and its
 * export of the whole tree what is there now: one pass over one stream, read by the same bounded reader as every archive.
 * Directories of which only the content changed are left out. */
#include <string.h>
#include <sys/stat.h>

#include "archive/archive.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/docker.h"

enum { RECORD_HEAD = 15, MODIFIED = 0, ADDED = 1, DELETED = 2 };

struct change {
	const char *path; /* without its slash; of the daemon's answer */
	int kind;
	bool seen;
};

struct work {
	const struct sandbox *sb;
	int out;
	bool content;
	struct change *changes;
	size_t n;
	struct archive_reader *reader;
	bool copying; /* the data of the present entry are written */
	uint8_t *head;
};

/* --- output -------------------------------------------------------------------------------------------------------- */

static int put(const struct work *w, const void *p, size_t n, struct err *e)
{
	return write_all(w->out, p, n) < 0 ? err_set(e, R_OUTPUT_FAILED, errno, "write the changes")
					   : 0;
}

static int put_zeros(const struct work *w, size_t n, struct err *e)
{
	static const uint8_t zeros[ARCHIVE_END_SIZE];

	return put(w, zeros, n, e);
}

static void number(uint8_t *p, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static int put_record(const struct work *w, char kind, uint32_t mode, uint64_t size,
	const char *path, struct err *e)
{
	uint8_t out[RECORD_HEAD];
	const size_t n = strlen(path);

	if (n > ARCHIVE_MAX_NAME)
		return err_set(e, R_OUT_OF_RANGE, 0, "list the changes: a path is too long");
	number(out, RECORD_HEAD + n, 2);
	out[2] = (uint8_t)kind;
	number(out + 3, mode, 4);
	number(out + 7, size, 8);
	if (put(w, out, RECORD_HEAD, e) < 0)
		return -1;
	return put(w, path, n, e);
}

static int put_entry(const struct work *w, const struct archive_entry *entry, struct err *e)
{
	const size_t n = archive_put(w->head, ARCHIVE_HEADER_CAP(0), entry, NULL, 0);

	if (!n)
		return err_set(e, R_IO_FAILED, 0, "write an entry of the archive of changes");
	return put(w, w->head, n, e);
}

static int put_whiteout(const struct work *w, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	struct archive_entry entry = { .type = ARCHIVE_FILE, .mode = 0600 };
	_cleanup_free_ char *name = slash
		? xasprintf("%.*s/.wh.%s", (int)(slash - path), path, slash + 1)
		: xasprintf(".wh.%s", path);

	entry.name = name;
	return put_entry(w, &entry, e);
}

/* --- which paths --------------------------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return strcmp(x->path, y->path);
}

bool docker_made(const struct sandbox_spec *s, const char *path)
{
	static const char *const made[] = { "run", "run/bailey", "run/bailey-guest", "home", "dev",
		"proc", "sys", "etc/hosts", "etc/hostname", "etc/machine-id", "etc/resolv.conf",
		".dockerenv", "run/.containerenv", "etc/mtab" };

	for (size_t i = 0; i < sizeof made / sizeof *made; i++)
		if (streq(path, made[i]))
			return true;
	for (unsigned i = 0; i < s->n_binds; i++)
		if (streq(path, s->binds[i].target + 1))
			return true;
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		if (streq(path, s->tmpfs[i].target + 1))
			return true;
	return streq(path, s->home + 1) || streq(path, s->workdir + 1);
}

static int list_paths(struct work *w, const json_t *all)
{
	const json_t *one;
	size_t i;

	w->changes = xcalloc(json_array_size(all) + 1, sizeof *w->changes);
	json_array_foreach(all, i, one)
	{
		const char *path = docker_json_text(one, "Path");

		if (path && path[0] == '/' && path[1] && !docker_made(w->sb->spec, path + 1))
			w->changes[w->n++] = (struct change){ .path = path + 1,
				.kind = (int)docker_json_number(one, "Kind") };
	}
	qsort(w->changes, w->n, sizeof *w->changes, by_path);
	return 0;
}

static struct change *find(const struct work *w, const char *path)
{
	const struct change key = { .path = path };

	return bsearch(&key, w->changes, w->n, sizeof key, by_path);
}

/* --- the tree as it is --------------------------------------------------------------------------------------------- */

static uint32_t kind_bits(enum archive_type t)
{
	static const uint32_t bits[] = { [ARCHIVE_FILE] = S_IFREG,
		[ARCHIVE_DIR] = S_IFDIR,
		[ARCHIVE_SYMLINK] = S_IFLNK,
		[ARCHIVE_HARDLINK] = S_IFREG,
		[ARCHIVE_FIFO] = S_IFIFO,
		[ARCHIVE_CHAR] = S_IFCHR,
		[ARCHIVE_BLOCK_DEVICE] = S_IFBLK };

	return bits[t];
}

static int take_entry(struct work *w, struct err *e)
{
	struct archive_entry entry = w->reader->entry;
	char name[ARCHIVE_MAX_NAME + 1];
	struct change *c;
	size_t n = strnlen(entry.name, sizeof name - 1);

	memcpy(name, entry.name, n);
	while (n && name[n - 1] == '/')
		n--;
	name[n] = '\0';
	c = find(w, name);
	w->copying = false;
	if (!c || c->seen || c->kind == DELETED ||
		(c->kind == MODIFIED && entry.type == ARCHIVE_DIR))
		return 0;
	c->seen = true;
	if (!w->content)
		return put_record(w, c->kind == ADDED ? 'A' : 'M',
			kind_bits(entry.type) | entry.mode, entry.size, name, e);
	if (entry.type == ARCHIVE_CHAR || entry.type == ARCHIVE_BLOCK_DEVICE)
		return 0;
	entry.name = name;
	w->copying = entry.type == ARCHIVE_FILE;
	return put_entry(w, &entry, e);
}

static int take_tree(void *arg, const void *p, size_t n, struct err *e)
{
	struct work *w = arg;
	const uint8_t *at = p;

	for (;;) {
		switch (archive_next(w->reader, &at, &n)) {
		case ARCHIVE_ENTRY:
			if (take_entry(w, e) < 0)
				return -1;
			break;
		case ARCHIVE_DATA:
			if (w->copying && put(w, w->reader->data, w->reader->data_len, e) < 0)
				return -1;
			break;
		case ARCHIVE_ENTRY_END:
			if (w->copying &&
				put_zeros(w, archive_padding(w->reader->entry.size), e) < 0)
				return -1;
			w->copying = false;
			break;
		case ARCHIVE_REFUSED:
			return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
				"list the changes of sandbox '%s': %s", w->sb->id,
				archive_cause_text(w->reader->cause));
		case ARCHIVE_MORE:
		case ARCHIVE_END:
		default:
			return 0;
		}
	}
}

static int put_deleted(struct work *w, struct err *e)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct change *c = &w->changes[i];

		if (c->kind != DELETED)
			continue;
		if (w->content ? put_whiteout(w, c->path, e) < 0
			       : put_record(w, 'D', 0, 0, c->path, e) < 0)
			return -1;
	}
	return 0;
}

static int run(struct work *w, struct docker *d, struct err *e)
{
	if (put_deleted(w, e) < 0)
		return -1;
	archive_reader_init(w->reader);
	if (docker_export(d, w->sb->container, take_tree, w, e) < 0)
		return -1;
	if (!archive_finish(w->reader))
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"list the changes of sandbox '%s': the daemon's archive is cut off",
			w->sb->id);
	/* what ends a list that is whole */
	return w->content ? put_zeros(w, ARCHIVE_END_SIZE, e) : put_record(w, 'Z', 0, 0, "", e);
}

/* Why it ends here, in place of the end: "REASON\nREMEDY\nMESSAGE".  An entry that was begun can't be followed by anything. */
static void say_failure(const struct work *w, const struct err *failure)
{
	_cleanup_buf_ struct buf text = { .max = ARCHIVE_MAX_FAILURE };
	_cleanup_err_ struct err ignored = ERR_INIT;
	uint8_t out[ARCHIVE_FAILURE_CAP];

	if (w->copying || failure->reason == R_OUTPUT_FAILED ||
		!buf_printf(&text, "%s\n%s\n%s", reason_name(failure->reason),
			err_get_remedy(failure), failure->message ? failure->message : ""))
		return;
	if (w->content)
		(void)put(w, out, archive_put_failure(out, sizeof out, text.data, text.len),
			&ignored);
	else
		(void)put_record(w, 'E', 0, 0, text.data, &ignored);
}

int docker_session_changes(struct sandbox *sb, int out_fd, uint32_t flags, struct err *e)
{
	struct work w = { .sb = sb, .out = out_fd, .content = flags & ENGINE_CHANGES_CONTENT };
	_cleanup_json_ json_t *all = NULL;
	_cleanup_json_ json_t *there = NULL;
	struct docker *d = engine_daemon(sb->engine, e);
	bool done;
	int r;

	if (!d)
		return -1;
	if (flags & ENGINE_CHANGES_COW)
		return err_set(e, R_BAD_VALUE, 0,
			"list the changes of a workspace: it is not copy-on-write");
	if (docker_inspect(d, sb->container, &there, e) < 0)
		return -1;
	r = trees_changes(sb, there, out_fd, w.content, &done, e);
	if (done || r < 0)
		return r;
	if (docker_changes(d, sb->container, &all, e) < 0)
		return -1;
	w.reader = xcalloc(1, sizeof *w.reader);
	w.head = xcalloc(1, ARCHIVE_HEADER_CAP(0));
	r = list_paths(&w, all);
	if (r == 0)
		r = run(&w, d, e);
	if (r < 0)
		say_failure(&w, e);
	free(w.changes);
	free(w.head);
	free(w.reader);
	return r;
}
