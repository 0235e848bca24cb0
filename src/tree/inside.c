/* Owns what the writer, the reader and the walks share: opening beneath a directory, errors by path, sets, walks. */
#include "tree/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"

#define RESOLVE_STRICT (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

enum { OPEN_TRIES = 16, PAGE = 4096 };

const char *tree_quote(char out[static TREE_QUOTED], const char *path)
{
	bool valid = utf8_valid(path, strlen(path));
	size_t n = 0;

	for (; *path && n + 8 < TREE_QUOTED; path++) {
		unsigned char c = (unsigned char)*path;

		if (c < 0x20 || c == 0x7f || (c >= 0x80 && !valid)) {
			static const char hex[] = "0123456789abcdef";

			out[n++] = '\\';
			out[n++] = 'x';
			out[n++] = hex[c >> 4];
			out[n++] = hex[c & 15];
		} else {
			out[n++] = (char)c;
		}
	}
	/* not in the middle of a character */
	while (*path && valid && n && ((unsigned char)out[n - 1] & 0x80))
		n--;
	for (unsigned i = 0; *path && i < 3; i++)
		out[n++] = '.';
	out[n] = 0;
	return out;
}

static enum reason reason_of(int sys_errno)
{
	switch (sys_errno) {
	case ENOSPC:
	case EDQUOT:
		return R_DISK_FULL;
	case EACCES:
	case EPERM:
	case EROFS:
		return R_PERMISSION_DENIED;
	case ENOENT:
		return R_PATH_NOT_FOUND;
	case ENOTDIR:
	case ELOOP:
		return R_NOT_A_DIRECTORY;
	case EISDIR:
		return R_IS_A_DIRECTORY;
	case ENOMEM:
		return R_NO_MEMORY;
	default:
		return R_IO_FAILED;
	}
}

int tree_failed(struct err *e, int sys_errno, const char *what, const char *path)
{
	char quoted[TREE_QUOTED];

	return err_set(e, reason_of(sys_errno), sys_errno, "can't %s '%s'", what,
		tree_quote(quoted, path));
}

/* One line, with nothing that could change a terminal. */
static char *line_of(const char *text, size_t n)
{
	char *line = strndup(text, n);

	for (char *p = line; p && *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return line;
}

int tree_given_up(const char *text, struct err *e)
{
	const size_t n = strcspn(text, "\n");
	const char *rest = text + n + (text[n] == '\n');
	const size_t m = strcspn(rest, "\n");
	_cleanup_free_ char *name = line_of(text, n), *remedy = line_of(rest, m);
	_cleanup_free_ char *message = line_of(rest + m + (rest[m] == '\n'), strlen(rest));
	enum reason reason = name ? reason_by_name(name) : REASON_NONE;

	(void)err_set(e, reason == REASON_NONE ? R_IO_FAILED : reason, 0, "%s",
		message && *message ? message : "the archive could not be finished");
	return remedy && *remedy ? err_remedy(e, "%s", remedy) : -1;
}

int tree_open_beneath(int dirfd, const char *path, int flags)
{
	int fd = -1;

	/* EAGAIN: somebody renames right now */
	for (int i = 0; i < OPEN_TRIES; i++) {
		fd = sys_openat2(dirfd, path, (uint64_t)flags, 0, RESOLVE_STRICT);
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd;
}

int tree_open_dir(int dirfd, const char *name, bool same_mount)
{
	return sys_openat2(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0,
		RESOLVE_STRICT | (same_mount ? (uint64_t)RESOLVE_NO_XDEV : 0));
}

void *tree_pages(size_t size)
{
	void *p = aligned_alloc(PAGE, size);

	if (!p)
		abort();
	return p;
}

/* --- sets --- */

void tree_set_done(struct tree_set *s)
{
	free(s->slots);
	*s = (struct tree_set){ .slots = NULL };
}

/* Where the key is, or would be. */
static size_t slot_of(const struct tree_set *s, uint64_t key)
{
	size_t i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & (s->cap - 1);

	while (s->slots[i] && s->slots[i] != key)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static int grow(struct tree_set *s, struct err *e)
{
	struct tree_set bigger = { .cap = s->cap ? 2 * s->cap : 1024, .n = s->n };

	if (s->n >= TREE_SET_MAX)
		return err_set(e, R_ARCHIVE_TOO_LARGE, 0, "more than %d entries", TREE_SET_MAX);
	bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
	if (!bigger.slots)
		return err_set(e, R_NO_MEMORY, ENOMEM, "can't remember %zu entries", s->n);
	for (size_t i = 0; i < s->cap; i++)
		if (s->slots[i])
			bigger.slots[slot_of(&bigger, s->slots[i])] = s->slots[i];
	free(s->slots);
	*s = bigger;
	return 0;
}

int tree_set_add(struct tree_set *s, uint64_t key, struct err *e)
{
	size_t i;

	if (s->n >= s->cap / 2 && grow(s, e) < 0)
		return -1;
	i = slot_of(s, key);
	if (!s->slots[i]) {
		s->slots[i] = key;
		s->n++;
	}
	return 0;
}

bool tree_set_has(const struct tree_set *s, uint64_t key)
{
	return s->cap && s->slots[slot_of(s, key)] == key;
}

/* --- walks --- */

void tree_walk_done(struct tree_walk *w)
{
	while (w->depth)
		tree_walk_pop(w);
	free(w->levels);
	w->levels = NULL;
}

int tree_walk_push(struct tree_walk *w, int fd)
{
	DIR *d;

	if (!w->levels)
		w->levels = xcalloc(TREE_MAX_LEVELS, sizeof *w->levels);
	if (w->depth == TREE_MAX_LEVELS || !(d = fdopendir(fd))) {
		int saved = w->depth == TREE_MAX_LEVELS ? ELOOP : errno;

		(void)close_fd(fd);
		errno = saved;
		return -1;
	}
	w->levels[w->depth++] = (struct tree_level){ .dir = d };
	return 0;
}

void tree_walk_pop(struct tree_walk *w)
{
	(void)closedir(w->levels[--w->depth].dir);
}

struct dirent *tree_walk_next(struct tree_walk *w)
{
	struct dirent *d;

	do {
		errno = 0;
		d = readdir(tree_walk_top(w)->dir);
	} while (d && (streq(d->d_name, ".") || streq(d->d_name, "..")));
	return d;
}
