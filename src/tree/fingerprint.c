/* Owns noticing that somebody changed a directory.  Called when a copy-on-write view begins and before its changes are applied.
 * Each entry adds four numbers made of its path and what stat says; sums, since directories have no order. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/str.h"
#include "tree/inside.h"

enum { LANES = 4 };

struct sums {
	uint64_t lane[LANES];
	uint64_t entries;
};

static uint64_t stir(uint64_t h)
{
	h ^= h >> 30;
	h *= 0xbf58476d1ce4e5b9u;
	h ^= h >> 27;
	h *= 0x94d049bb133111ebu;
	return h ^ h >> 31;
}

static uint64_t name_tag(uint64_t above, const char *name)
{
	uint64_t h = above ^ 0xcbf29ce484222325u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return stir(h);
}

static void add(struct sums *s, uint64_t tag, const struct stat *st)
{
	const uint64_t facts[] = { st->st_ino, st->st_mode, st->st_uid, st->st_gid,
		S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
		(uint64_t)st->st_ctim.tv_nsec };

	for (unsigned i = 0; i < LANES; i++) {
		uint64_t h = tag + i * 0x9e3779b97f4a7c15u;

		for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
			h = stir(h + facts[k] + 0x9e3779b97f4a7c15u);
		s->lane[i] += h;
	}
	s->entries++;
}

/* One name: added, and entered when it is a directory.  What vanishes meanwhile is a change that shows by itself. */
static int look(struct tree_walk *w, struct sums *s, const char *name, bool enter, struct err *e)
{
	uint64_t tag = name_tag(tree_walk_top(w)->tag, name);
	struct stat st;
	int fd;

	if (fstatat(tree_walk_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : tree_failed(e, errno, "look at", name);
	add(s, tag, &st);
	if (!enter || !S_ISDIR(st.st_mode))
		return 0;
	/* what is mounted there is another directory's business */
	fd = tree_open_dir(tree_walk_fd(w), name, true);
	if (fd < 0)
		return 0; /* unreadable, exchanged or too deep to see: its own entry stands for it */
	if (tree_walk_push(w, fd) < 0)
		return errno == ELOOP ? 0 : tree_failed(e, errno, "open", name);
	tree_walk_top(w)->tag = tag;
	return 0;
}

static int walk(int dirfd, bool deep, struct sums *s, struct err *e)
{
	_cleanup_(tree_walk_done) struct tree_walk w = { .depth = 0 };
	int fd = tree_open_dir(dirfd, ".", false);
	struct stat st;

	*s = (struct sums){ .entries = 0 };
	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)close_fd(fd);
		return tree_failed(e, errno, "open", ".");
	}
	add(s, 0, &st);
	if (tree_walk_push(&w, fd) < 0)
		return tree_failed(e, errno, "open", ".");
	while (w.depth && s->entries <= TREE_MAX_FINGERPRINT) {
		struct dirent *d = tree_walk_next(&w);

		if (!d && errno && errno != ENOENT)
			return tree_failed(e, errno, "list", ".");
		if (!d)
			tree_walk_pop(&w);
		else if (look(&w, s, d->d_name, deep, e) < 0)
			return -1;
	}
	return 0;
}

int tree_fingerprint(int dirfd, struct tree_fingerprint *ret, struct err *e)
{
	struct sums s;

	if (walk(dirfd, true, &s, e) < 0)
		return -1;
	ret->partial = s.entries > TREE_MAX_FINGERPRINT;
	/* an order would decide which entries count: then only those that are cut off nowhere */
	if (ret->partial && walk(dirfd, false, &s, e) < 0)
		return -1;
	ret->entries = s.entries;
	memcpy(ret->sum, s.lane, sizeof ret->sum);
	return 0;
}
