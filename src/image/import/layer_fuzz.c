/* Lays layers onto a tree with links that lead out of it: nothing outside changes, nor anything in the tree below, and what
 * comes of it holds only what a layer may leave.  The layers are raw tars, or made of a short form in which names, kinds
 * and whiteouts are easily found. */
#include "image/import/layer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "image/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCK = 512, MAX_TAR = 1 << 18, MAX_FUZZ_NAME = 63, LAYERS = 2 };

static struct {
	uint8_t bytes[MAX_TAR];
	size_t n;
} tars[LAYERS];

static char path[] = "/dev/shm/bailey-layer-fuzz-XXXXXX";
static int top = -1;
static uint64_t outside_sum, below_sum;

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* --- trees --- */

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 1099511628211u;
	return h;
}

static uint64_t sum_content(const struct walk *w, uint64_t h)
{
	char text[4096];
	ssize_t n;

	if (S_ISLNK(w->st.st_mode)) {
		n = readlinkat(w->dirfd, w->name, text, sizeof text);
	} else {
		const int fd = openat(w->dirfd, w->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		n = fd >= 0 ? read(fd, text, sizeof text) : 0;
		(void)close_fd(fd);
	}
	return mix(h, text, n > 0 ? (size_t)n : 0);
}

static void check_entry(const struct walk *w)
{
	const mode_t kind = w->st.st_mode & S_IFMT;

	must(kind == S_IFREG || kind == S_IFDIR || kind == S_IFLNK);
	must(!(w->st.st_mode & (S_ISUID | S_ISGID)) || kind == S_IFLNK);
	must(kind != S_IFREG || !(w->st.st_mode & S_ISVTX));
	must(strncmp(w->name, ".wh.", 4) != 0);
}

static uint64_t sum(int dirfd, const char *name, bool check)
{
	struct walk *w = xcalloc(1, sizeof *w);
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t h = 14695981039346656037u;
	int r = walk_open(w, openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &e);

	while (r == 0 && (r = walk_next(w, &e)) == 0 && w->event != WALK_END) {
		h = mix(h, w->path.data, w->path.len);
		h = mix(h, &w->st.st_mode, sizeof w->st.st_mode);
		h = mix(h, &w->st.st_uid, sizeof w->st.st_uid);
		h = mix(h, &w->st.st_mtim, sizeof w->st.st_mtim);
		if (w->event == WALK_FILE)
			h = sum_content(w, mix(h, &w->st.st_size, sizeof w->st.st_size));
		if (check)
			check_entry(w);
	}
	must(r == 0);
	walk_done(w);
	free(w);
	return h;
}

static void put(const char *name, const char *text)
{
	const int fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)close(fd);
}

static void remove_trees(void)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	(void)remove_at(AT_FDCWD, path, &ignored);
}

static void make_trees(void)
{
	const char *const dirs[] = { "outside", "outside/d", "base", "base/d", "base/d/e",
		"base/b" };
	char out[64];

	must(mkdtemp(path) && (top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		must(mkdirat(top, dirs[i], 0755) == 0);
	put("outside/c", "canary");
	put("outside/d/c", "canary");
	put("base/f", "f");
	put("base/d/f", "f in d");
	put("base/d/e/f", "f in e");
	must(linkat(top, "base/f", top, "base/h", 0) == 0);
	must(symlinkat(FMT(out, "%s/outside", path), top, "base/l") == 0);
	must(symlinkat("../../outside", top, "base/d/l") == 0);
	must(symlinkat("d", top, "base/s") == 0);
	must(atexit(remove_trees) == 0);
	outside_sum = sum(top, "outside", false);
	below_sum = sum(top, "base", false);
}

static void clone_tree(const char *from, const char *to)
{
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t entries = 0;

	must(mkdirat(top, to, 0755) == 0);
	must(tree_clone(openat(top, from, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		     openat(top, to, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &entries, &e) == 0);
}

/* --- tars --- */

static void octal(uint8_t *field, size_t n, uint64_t value)
{
	for (size_t i = n - 1; i-- > 0; value >>= 3)
		field[i] = (uint8_t)('0' + (value & 7));
	field[n - 1] = 0;
}

/* The fuzzer can't find a checksum: blocks that say so get the right one. */
static void mend(uint8_t *b)
{
	uint32_t sum_of = 8 * ' ';

	for (size_t i = 0; i < BLOCK; i++)
		sum_of += i >= 148 && i < 156 ? 0 : b[i];
	octal(b + 148, 7, sum_of);
	b[155] = ' ';
}

static uint8_t *add_block(unsigned layer)
{
	uint8_t *b = tars[layer].bytes + tars[layer].n;

	if (tars[layer].n + BLOCK > MAX_TAR)
		return NULL;
	tars[layer].n += BLOCK;
	memset(b, 0, BLOCK);
	return b;
}

/* A length, then as many bytes. */
static size_t take_text(const uint8_t **p, size_t *n, uint8_t *ret)
{
	size_t len = 0;

	if (*n) {
		len = (*p)[0] % (MAX_FUZZ_NAME + 1);
		(*p)++;
		(*n)--;
	}
	if (len > *n)
		len = *n;
	memcpy(ret, *p, len);
	*p += len;
	*n -= len;
	return len;
}

/* One entry: its kind, its mode, its name, and a link's target or how much data. */
static void add_entry(unsigned layer, uint8_t what, const uint8_t **p, size_t *n)
{
	static const uint8_t magic[] = { 'u', 's', 't', 'a', 'r', 0, '0', '0' };
	static const char kinds[] = { '0', '5', '2', '1', '3', '6', '0', '0' };
	const char kind = kinds[what & 7];
	uint8_t target[MAX_FUZZ_NAME + 1], *b = add_block(layer);
	size_t size;

	if (!b)
		return;
	(void)take_text(p, n, b);
	size = take_text(p, n, target);
	octal(b + 100, 8, (uint64_t)what << 5);
	octal(b + 108, 8, 0);
	octal(b + 116, 8, 0);
	octal(b + 124, 12, kind == '0' ? size : 0);
	octal(b + 136, 12, what);
	b[156] = (uint8_t)kind;
	if (kind == '1' || kind == '2')
		memcpy(b + 157, target, size);
	memcpy(b + 257, magic, sizeof magic);
	mend(b);
	if (kind != '0' || !size)
		return;
	b = add_block(layer);
	if (b)
		memcpy(b, target, size);
}

static void make_tars(const uint8_t *p, size_t n)
{
	unsigned layer = 0;

	while (n) {
		const uint8_t what = *p++;

		n--;
		if (what == 0xff && layer + 1 < LAYERS)
			layer++;
		else
			add_entry(layer, what, &p, &n);
	}
	for (unsigned i = 0; i < LAYERS; i++) {
		(void)add_block(i);
		(void)add_block(i);
	}
}

static void copy_tars(const uint8_t *p, size_t n, size_t first)
{
	first = first * BLOCK < n ? first * BLOCK : n;
	tars[0].n = first;
	memcpy(tars[0].bytes, p, first);
	tars[1].n = n - first;
	memcpy(tars[1].bytes, p + first, n - first);
	for (unsigned i = 0; i < LAYERS; i++)
		for (size_t at = 0; at + BLOCK <= tars[i].n; at += BLOCK)
			if (tars[i].bytes[at + 257] == 'u' && tars[i].bytes[at + 258] == 's')
				mend(tars[i].bytes + at);
}

/* --- */

static void lay(unsigned layer, const char *tree)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_stream_ struct stream *s = NULL;
	struct limits limits = { .max_bytes = 1 << 20 };
	struct layer_facts facts = { 0, 0, 0 };
	struct stream_end end;
	_cleanup_close_ int fd = memfd_create("tar", MFD_CLOEXEC);
	_cleanup_close_ int root = openat(top, tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	must(fd >= 0 && root >= 0);
	must(write(fd, tars[layer].bytes, tars[layer].n) == (ssize_t)tars[layer].n);
	must(lseek(fd, 0, SEEK_SET) == 0);
	r = stream_open(&s, fd, &limits, &e);
	if (r == 0)
		r = layer_apply(s, root, &limits, &facts, &e);
	if (r == 0)
		r = stream_finish(s, &end, &e);
	must(r == 0 || (e.reason != REASON_NONE && e.message));
	/* what these two mean is that the store is broken, and it isn't */
	must(e.reason != R_STATE_UNWRITABLE && e.reason != R_DISK_FULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t first;

	if (top < 0)
		make_trees();
	if (size < 2 || size > MAX_TAR)
		return 0;
	tars[0].n = tars[1].n = 0;
	if (data[0] & 1)
		copy_tars(data + 2, size - 2, data[1]);
	else
		make_tars(data + 1, size - 1);
	clone_tree("base", "one");
	lay(0, "one");
	first = sum(top, "one", true);
	if (tars[1].n > 2 * BLOCK) {
		clone_tree("one", "two");
		lay(1, "two");
		(void)sum(top, "two", true);
		must(sum(top, "one", false) == first);
		must(remove_at(top, "two", &e) == 0);
	}
	must(sum(top, "base", false) == below_sum);
	must(sum(top, "outside", false) == outside_sum);
	must(remove_at(top, "one", &e) == 0);
	return 0;
}
