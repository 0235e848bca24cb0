/* Owns what is allowed as a name.  Called for every entry of a hostile archive. */
#include "image/import/names.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

static int refuse(const char *raw, const char *why, struct err *e)
{
	return err_set(e, R_ARCHIVE_REFUSED, 0, "unpack '%.128s': %s", raw, why);
}

/* Appends one part of n bytes; '..' takes one away where that is allowed. */
static int add_part(char *out, size_t *len, const char *part, size_t n, bool up, unsigned *depth)
{
	if (n == 0 || (n == 1 && *part == '.'))
		return 0;
	if (n == 2 && !memcmp(part, "..", 2)) {
		if (!up || !*depth)
			return -1;
		while (*len && out[*len - 1] != '/')
			(*len)--;
		*len -= *len ? 1 : 0;
		(*depth)--;
		out[*len] = '\0';
		return 0;
	}
	if (n > NAME_MAX_PART || *len + n + 2 > NAME_MAX_PATH || ++*depth > NAME_MAX_DEPTH)
		return -2;
	if (*len)
		out[(*len)++] = '/';
	memcpy(out + *len, part, n);
	*len += n;
	out[*len] = '\0';
	return 0;
}

static int add_parts(char *out, size_t *len, const char *s, bool up, unsigned *depth)
{
	while (*s) {
		size_t n = strcspn(s, "/");
		int r = add_part(out, len, s, n, up, depth);

		if (r < 0)
			return r;
		s += n + (s[n] == '/');
	}
	return 0;
}

static int judge(int r, const char *raw, struct err *e)
{
	if (r == -1)
		return refuse(raw, "its name has '..' in it", e);
	return r < 0 ? refuse(raw, "its name is too long or too deep", e) : 0;
}

int name_clean(const char *raw, char ret[static NAME_MAX_PATH], struct err *e)
{
	unsigned depth = 0;
	size_t len = 0;

	*ret = '\0';
	if (!raw || !*raw)
		return refuse("", "a name that is empty or can't be read", e);
	if (*raw == '/')
		return refuse(raw, "its name is absolute", e);
	return judge(add_parts(ret, &len, raw, false, &depth), raw, e);
}

const char *name_last(const char *name, size_t *ret_dir_len)
{
	const char *slash = strrchr(name, '/');

	*ret_dir_len = slash ? (size_t)(slash - name) : 0;
	return slash ? slash + 1 : name;
}

int name_resolve(const char *name, const char *link, char ret[static NAME_MAX_PATH], struct err *e)
{
	unsigned depth = 0;
	size_t len = 0, dir;
	char *copy;
	int r;

	(void)name_last(name, &dir);
	*ret = '\0';
	copy = xasprintf("%.*s/%s", (int)dir, name, link);
	r = *link == '/' ? -1 : add_parts(ret, &len, copy, true, &depth);
	free(copy);
	return judge(r, link, e);
}

/* FNV-1a over the names' bytes, mixed once more; 0 marks an empty slot. */
static uint64_t finish(uint64_t h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	h ^= h >> 32;
	return h ?: 1;
}

static uint64_t step(uint64_t h, char c)
{
	return (h ^ (unsigned char)c) * 1099511628211u;
}

static const uint64_t first = 14695981039346656037u;

static void put(struct seen *s, uint64_t h)
{
	size_t i = h & (s->cap - 1);

	while (s->slots[i] && s->slots[i] != h)
		i = (i + 1) & (s->cap - 1);
	if (!s->slots[i]) {
		s->slots[i] = h;
		s->n++;
	}
}

static int grow(struct seen *s, struct err *e)
{
	struct seen bigger = { .cap = s->cap ? s->cap * 2 : 4096 };

	bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
	if (!bigger.slots)
		return err_set(e, R_NO_MEMORY, ENOMEM, "remember the names of a layer");
	for (size_t i = 0; i < s->cap; i++)
		if (s->slots[i])
			put(&bigger, s->slots[i]);
	free(s->slots);
	*s = bigger;
	return 0;
}

int seen_add(struct seen *s, const char *name, struct err *e)
{
	uint64_t h = first;

	for (const char *p = name;; p++) {
		if (*p == '/' || !*p) {
			if (s->n >= s->cap / 2 && grow(s, e) < 0)
				return -1;
			put(s, finish(h));
		}
		if (!*p)
			return 0;
		h = step(h, *p);
	}
}

bool seen_has(const struct seen *s, const char *name)
{
	uint64_t h = first;
	size_t i;

	if (!s->cap)
		return false;
	for (const char *p = name; *p; p++)
		h = step(h, *p);
	h = finish(h);
	for (i = h & (s->cap - 1); s->slots[i]; i = (i + 1) & (s->cap - 1))
		if (s->slots[i] == h)
			return true;
	return false;
}

void seen_done(struct seen *s)
{
	free(s->slots);
	*s = (struct seen){ NULL, 0, 0 };
}
