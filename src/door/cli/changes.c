/* Owns the list of what a sandbox changed: sorting and showing it.  Called by diff and apply.  Paths come from inside: they are
 * shown escaped, and nothing here opens one.  Pure. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum {
	MAX_CHANGES = 4 << 20,
	MAX_PATHS = 256 << 20, /* bytes of all paths together */
	BLOCK_SIZE = 1 << 20,
};

/* Paths lie one behind the other: an allocation of each would be half as much again. */
struct changes_block {
	struct changes_block *before;
	size_t len;
	char text[BLOCK_SIZE];
};

void changes_done(struct changes *c)
{
	while (c->paths) {
		struct changes_block *before = c->paths->before;

		free(c->paths);
		c->paths = before;
	}
	free(c->v);
	*c = (struct changes){ .n = 0 };
}

static char *keep_path(struct changes *c, const char *path)
{
	const size_t n = strlen(path) + 1;
	char *to;

	if (n > BLOCK_SIZE || n > MAX_PATHS - c->path_bytes) {
		c->too_many = true;
		return NULL;
	}
	if (!c->paths || n > BLOCK_SIZE - c->paths->len) {
		struct changes_block *next = malloc(sizeof *next);

		if (!next)
			return NULL;
		next->before = c->paths;
		next->len = 0;
		c->paths = next;
	}
	to = c->paths->text + c->paths->len;
	memcpy(to, path, n);
	c->paths->len += n;
	c->path_bytes += n;
	return to;
}

static bool make_room(struct changes *c)
{
	const size_t cap = c->cap ? 2 * c->cap : 256;
	struct change *grown;

	if (c->n < c->cap)
		return true;
	c->too_many = cap > MAX_CHANGES;
	grown = c->too_many ? NULL : realloc(c->v, cap * sizeof *grown);
	if (!grown)
		return false;
	c->v = grown;
	c->cap = cap;
	return true;
}

void changes_add(struct changes *c, char kind, uint32_t mode, uint64_t size, const char *path)
{
	char *kept;

	if (c->failed)
		return;
	c->failed = !make_room(c) || !(kept = keep_path(c, path));
	if (!c->failed)
		c->v[c->n++] =
			(struct change){ .kind = kind, .mode = mode, .size = size, .path = kept };
}

int changes_check(const struct changes *c, const char *sandbox, struct err *e)
{
	if (!c->failed)
		return 0;
	if (!c->too_many)
		return err_set(e, R_NO_MEMORY, ENOMEM, "list the changes of '%s'", sandbox);
	(void)err_set(e, R_ARCHIVE_TOO_LARGE, 0,
		"list the changes of '%s': over %d entries, or %d MiB of paths", sandbox,
		MAX_CHANGES, MAX_PATHS >> 20);
	return err_remedy(e,
		"Take them as an archive with 'bailey apply SANDBOX -', or apply parts of them by their paths.");
}

/* As if '/' were the smallest byte. */
static int compare(const char *x, const char *y)
{
	while (*x && *x == *y) {
		x++;
		y++;
	}
	if (*x == *y)
		return 0;
	if (!*x || (*y && *x == '/'))
		return -1;
	if (!*y || *y == '/')
		return 1;
	return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
}

static int by_path(const void *a, const void *b)
{
	return compare(((const struct change *)a)->path, ((const struct change *)b)->path);
}

void changes_sort(struct changes *c)
{
	if (c->n)
		qsort(c->v, c->n, sizeof *c->v, by_path);
}

struct change *changes_find(const struct changes *c, const char *path)
{
	size_t from = 0, to = c->n;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;
		const int r = compare(path, c->v[middle].path);

		if (r == 0)
			return &c->v[middle];
		if (r < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return NULL;
}

int changes_put_text(const struct changes *c, struct buf *out, struct err *e)
{
	for (size_t i = 0; i < c->n; i++) {
		buf_printf(out, "%c ", c->v[i].kind);
		cli_escape(out, c->v[i].path, strlen(c->v[i].path));
		buf_puts(out, c->v[i].conflict ? " (changed outside)\n" : "\n");
		if (live_flush(out, false, e) < 0)
			return -1;
	}
	return 0;
}

int changes_put_json(struct json *j, const char *key, const struct changes *c, struct err *e)
{
	json_array_begin(j, key);
	for (size_t i = 0; i < c->n; i++) {
		const char kind[] = { c->v[i].kind, '\0' };

		json_object_begin(j, NULL);
		json_string(j, "kind", kind);
		output_put_bytes(j, "path", c->v[i].path, strlen(c->v[i].path));
		json_uint(j, "mode", c->v[i].mode);
		json_uint(j, "size", c->v[i].size);
		json_object_end(j);
		if (live_flush(j->out, false, e) < 0)
			return -1;
	}
	json_array_end(j);
	return 0;
}
