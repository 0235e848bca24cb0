/* Owns the list of what a sandbox changed: sorting and showing it.  Called by diff and apply.  Paths come from inside: they are
 * shown escaped, and nothing here opens one.  Pure. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum { MAX_CHANGES = 8 << 20 };

void changes_done(struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].path);
	free(c->v);
	*c = (struct changes){ .n = 0 };
}

void changes_add(struct changes *c, char kind, uint32_t mode, uint64_t size, const char *path)
{
	struct change *grown;

	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 256;
		grown = c->cap > MAX_CHANGES ? NULL : realloc(c->v, c->cap * sizeof *grown);
		if (!grown) {
			c->cap = c->n;
			c->failed = true;
			return;
		}
		c->v = grown;
	}
	c->v[c->n++] =
		(struct change){ .kind = kind, .mode = mode, .size = size, .path = xstrdup(path) };
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

void changes_put_text(const struct changes *c, struct buf *out)
{
	for (size_t i = 0; i < c->n; i++) {
		buf_printf(out, "%c ", c->v[i].kind);
		cli_escape(out, c->v[i].path, strlen(c->v[i].path));
		buf_puts(out, c->v[i].conflict ? " (changed outside)\n" : "\n");
	}
}

void changes_put_json(struct json *j, const char *key, const struct changes *c)
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
	}
	json_array_end(j);
}
