/* Owns what a RUN will execute: strings of the request made into an argument list and an environment.  Called by exec.c.
 * Must hold: nothing in the request is trusted to be terminated, counted or bounded. */
#include <errno.h>

#include "guest/exec.h"

struct builder {
	char *text;
	size_t len, n_strings;
	char **pointers, **next;
	uint32_t *hash, hash_size; /* index + 1 of the pointer whose name it is */
};

static size_t count_nuls(const uint8_t *p, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		k += p[i] == 0;
	return k;
}

static size_t count_env(char **env)
{
	size_t n = 0;

	while (env[n])
		n++;
	return n;
}

static uint32_t hash_name(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s && *s != '='; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h;
}

static bool same_name(const char *a, const char *b)
{
	while (*a && *a != '=' && *a == *b) {
		a++;
		b++;
	}
	return *a == '=' && *b == '=';
}

/* False when the name was there. */
static bool note_name(struct builder *b, char **at)
{
	uint32_t i = hash_name(*at);

	for (;; i++) {
		uint32_t *slot = &b->hash[i & (b->hash_size - 1)];

		if (!*slot) {
			*slot = (uint32_t)(at - b->pointers) + 1;
			return true;
		}
		if (same_name(b->pointers[*slot - 1], *at))
			return false;
	}
}

static bool is_setting(const char *s)
{
	const char *p = s;

	while (*p && *p != '=')
		p++;
	return *p == '=' && p != s;
}

/* Lays out text, pointers and hash in one piece of memory. */
static bool lay_out(struct command *c, struct builder *b)
{
	size_t n = b->n_strings + count_env(session.env) + 2, text = (b->len + 15) & ~15ul, size;
	uint8_t *mem = c->small_text;

	b->hash_size = 16;
	while (b->hash_size < 2 * n)
		b->hash_size *= 2;
	size = text + n * sizeof(char *) + b->hash_size * sizeof(uint32_t);
	if (size > sizeof c->small_text) {
		mem = map_memory(size);
		if (!mem)
			return false;
		c->text.mapping = mem;
		c->text.mapped = size;
	}
	b->text = (char *)mem;
	b->pointers = (char **)(void *)(mem + text);
	b->hash = (uint32_t *)(void *)(b->pointers + n);
	if (mem == c->small_text)
		memset(b->hash, 0, b->hash_size * sizeof(uint32_t));
	return true;
}

static char *next_string(struct builder *b, char **at)
{
	char *s = *at;

	if (s == b->text + b->len)
		return NULL;
	*at = s + text_len(s) + 1;
	return s;
}

/* Later settings win: filled from the end, what is there already is left out. */
static uint32_t merge_env(struct command *c, struct builder *b, char **first, char **end)
{
	size_t n_guest = count_env(session.env);
	char **run = end, **out;

	/* the request's own move up to make room for the sandbox's below them */
	out = end + n_guest;
	*out = NULL;
	while (run > first) {
		char *s = *--run;

		if (!is_setting(s))
			return EINVAL;
		*--out = s;
		if (!note_name(b, out))
			out++;
	}
	for (size_t i = n_guest; i-- > 0;) {
		*--out = session.env[i];
		if (!is_setting(*out) || !note_name(b, out))
			out++;
	}
	c->text.env = out;
	return 0;
}

static uint32_t split(struct command *c, struct builder *b)
{
	char *at = b->text, *s, **p = b->pointers, **env;
	uint64_t argc;

	c->text.dir = next_string(b, &at);
	s = c->text.dir ? next_string(b, &at) : NULL;
	if (!s || !text_parse(s, b->n_strings, &argc) || !argc)
		return EINVAL;
	c->text.argv = p;
	for (; argc; argc--)
		if (!(*p++ = next_string(b, &at)))
			return EINVAL;
	*p++ = NULL;
	for (env = p; (s = next_string(b, &at)); p++)
		*p = s;
	return merge_env(c, b, env, p);
}

uint32_t args_build(
	struct command *c, const uint8_t *a, size_t a_len, const uint8_t *p, size_t p_len)
{
	struct builder b = { .len = a_len + p_len };

	if (b.len > WIRE_MAX_ARGS)
		return E2BIG;
	if (!b.len || (p_len ? p[p_len - 1] : a[a_len - 1]) != 0)
		return EINVAL;
	b.n_strings = count_nuls(a, a_len) + count_nuls(p, p_len);
	if (!lay_out(c, &b))
		return ENOMEM;
	memcpy(b.text, a, a_len);
	memcpy(b.text + a_len, p, p_len);
	return split(c, &b);
}

void args_done(struct command *c)
{
	if (c->text.mapping)
		unmap_memory(c->text.mapping, c->text.mapped);
	c->text.mapping = NULL;
}
