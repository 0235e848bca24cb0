/* Link races: one process exchanges names for links without a pause, the other copies, writes and removes.
 *
 *     race-tree SCRATCH ROUNDS SECONDS [naive]
 *
 * Each case runs until it did ROUNDS rounds or for SECONDS.  What may never be touched lies in SCRATCH/outside: a secret that
 * may not be read, and names that may not be written or removed.  With `naive` the same cases run code that joins paths and
 * believes them: it must fail, else the race was never on.  Prints "ok NAME" and "not ok NAME"; status 1 when one failed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "tree/tree.h"

#define SECRET "SECRET-OUTSIDE"

enum { MARK = 0123 }; /* the mode of what lies outside */

static char base[256];
static uint64_t rounds, seconds;
static bool naive;

__attribute__((format(printf, 1, 2))) static char *path_of(const char *fmt, ...)
{
	static char out[8][PATH_MAX];
	static unsigned next;
	char *p = out[next++ % 8];
	int n = snprintf(p, PATH_MAX, "%s/", base);
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(p + n, (size_t)(PATH_MAX - n), fmt, args);
	va_end(args);
	return p;
}

static void must(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(2);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	must(fd >= 0 && write_all(fd, text, strlen(text)) == 0, path);
	(void)close(fd);
}

static void make_dir(const char *path)
{
	must(mkdir(path, 0755) == 0 || errno == EEXIST, path);
}

/* --- what lies outside --- */

static void make_outside(void)
{
	make_dir(path_of("outside"));
	make_dir(path_of("outside/sub"));
	put(path_of("outside/f"), SECRET);
	put(path_of("outside/sub/f"), SECRET);
	must(chmod(path_of("outside/f"), MARK) == 0, "chmod");
	must(chmod(path_of("outside/sub"), 0711) == 0, "chmod");
}

static bool names_are(const char *dir, const char *const *names)
{
	_cleanup_closedir_ DIR *d = opendir(dir);
	const struct dirent *x;
	unsigned n = 0, want = 2;

	while (names[want - 2])
		want++;
	while (d && (x = readdir(d)))
		n++;
	for (want -= 2; want--;)
		if (access(path_of("%s/%s", dir + strlen(base) + 1, names[want]), F_OK) != 0)
			return false;
	for (want = 0; names[want]; want++)
		;
	return n == want + 2;
}

static bool file_is(const char *path, unsigned mode)
{
	char text[64];
	struct stat st;
	ssize_t n = read_file_at(AT_FDCWD, path, text, sizeof text);

	return n >= 0 && streq(text, SECRET) && stat(path, &st) == 0 && st.st_nlink == 1 &&
		(st.st_mode & 07777) == mode;
}

static bool outside_is_whole(void)
{
	static const char *const top[] = { "f", "sub", NULL }, *const sub[] = { "f", NULL };
	struct stat st;

	return names_are(path_of("outside"), top) && names_are(path_of("outside/sub"), sub) &&
		file_is(path_of("outside/f"), MARK) && file_is(path_of("outside/sub/f"), 0644) &&
		stat(path_of("outside/sub"), &st) == 0 && (st.st_mode & 07777) == 0711;
}

/* --- the other process --- */

/* Exchanges two names until it is killed: NAME and NAME.link. */
static pid_t start_swapping(const char *name)
{
	char *a = path_of("%s", name), *b = path_of("%s.link", name);
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static void stop_swapping(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static bool is_link(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* A round may take the link or the directory away: the race goes on only with both. */
static void plant_dir(void)
{
	_cleanup_close_ int tree = open(path_of("tree"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t n = 0;

	if (!is_link(path_of("tree/d")) && !is_link(path_of("tree/d.link")) && tree >= 0 &&
		tree_remove(tree, "d.link", &n, &e) == 0 &&
		symlink("../outside", path_of("tree/d.link")) < 0 && errno != EEXIST)
		perror("tree/d.link");
	(void)mkdir(path_of("tree/d"), 0755);
}

static void plant_file(void)
{
	if (symlink("../outside/f", path_of("tree/f.again")) == 0 || errno == EEXIST)
		(void)rename(path_of("tree/f.again"), path_of("tree/f.link"));
}

/* --- archives --- */

static uint64_t refused; /* how often the race was seen */

static struct buf tar = { .max = 1 << 20 };

static void add(enum archive_type type, const char *name, const char *link, const char *data)
{
	static const char zeros[ARCHIVE_BLOCK];
	uint8_t head[ARCHIVE_HEADER_CAP(0)];
	const struct archive_entry e = { .type = type,
		.mode = type == ARCHIVE_DIR ? 0777 : 0666,
		.name = name,
		.link = link,
		.size = data ? strlen(data) : 0,
		.mtime_ns = 1 };
	size_t n = archive_put(head, sizeof head, &e, NULL, 0);

	must(n && buf_add(&tar, head, n), "archive");
	if (data)
		must(buf_add(&tar, data, strlen(data)) &&
				buf_add(&tar, zeros, archive_padding(strlen(data))),
			"archive");
}

static void add_end(void)
{
	static const char zeros[ARCHIVE_END_SIZE];

	must(buf_add(&tar, zeros, sizeof zeros), "archive");
}

static void write_archive(unsigned flags)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_tree_writer_ struct tree_writer *w = NULL;
	const struct tree_write_options o = { .flags = flags };
	int dir = open(path_of("tree"), O_PATH | O_DIRECTORY | O_CLOEXEC);

	must(dir >= 0, "tree");
	if (tree_writer_open(&w, dir, &o, &e) == 0 &&
		tree_writer_feed(w, tar.data, tar.len, &e) == 0)
		(void)tree_writer_finish(w, NULL, &e);
	refused += e.reason != REASON_NONE;
	(void)close(dir);
}

/* --- the cases: how the tree begins, one round, and the same round by code that believes paths --- */

static void begin_dir(void)
{
	make_dir(path_of("tree"));
	make_dir(path_of("tree/d"));
	make_dir(path_of("tree/d/sub"));
	put(path_of("tree/d/f"), "inside");
	put(path_of("tree/d/sub/f"), "inside");
	must(symlink("../outside", path_of("tree/d.link")) == 0, "symlink");
}

static void begin_file(void)
{
	make_dir(path_of("tree"));
	put(path_of("tree/f"), "inside");
	must(symlink("../outside/f", path_of("tree/f.link")) == 0, "symlink");
}

static void round_write(void)
{
	buf_clear(&tar);
	add(ARCHIVE_DIR, "d", NULL, NULL);
	add(ARCHIVE_FILE, "d/f", NULL, "written");
	add(ARCHIVE_FILE, "d/new", NULL, "written");
	add(ARCHIVE_DIR, "d/sub", NULL, NULL);
	add(ARCHIVE_SYMLINK, "d/sub/l", "x", NULL);
	add(ARCHIVE_HARDLINK, "d/h", "d/f", NULL);
	add_end();
	write_archive(0);
}

static void naive_write(void)
{
	FILE *f;

	(void)mkdir(path_of("tree/d"), 0777);
	if ((f = fopen(path_of("tree/d/f"), "we"))) {
		(void)fputs("written", f);
		(void)fclose(f);
	}
	(void)chmod(path_of("tree/d/sub"), 0777);
}

static void round_write_file(void)
{
	buf_clear(&tar);
	add(ARCHIVE_FILE, "f", NULL, "written");
	add_end();
	write_archive(0);
	plant_file();
}

/* What the check sees isn't what is opened. */
static void naive_write_file(void)
{
	struct stat st;
	FILE *f;

	if (lstat(path_of("tree/f"), &st) < 0 || S_ISLNK(st.st_mode))
		return;
	if ((f = fopen(path_of("tree/f"), "we"))) {
		(void)fputs("written", f);
		(void)fclose(f);
	}
}

static void round_replace(void)
{
	buf_clear(&tar);
	add(ARCHIVE_FILE, "d/f", NULL, "written");
	add(ARCHIVE_FILE, "d/sub", NULL, "a file");
	add(ARCHIVE_DIR, "d/sub", NULL, NULL);
	add_end();
	write_archive(TREE_REPLACE);
	plant_dir();
}

static void naive_replace(void)
{
	(void)unlink(path_of("tree/d/f"));
	naive_write();
}

static void round_remove(void)
{
	buf_clear(&tar);
	add(ARCHIVE_FILE, "d/.wh.f", NULL, NULL);
	add(ARCHIVE_FILE, "d/.wh.sub", NULL, NULL);
	add(ARCHIVE_FILE, "d/.wh..wh..opq", NULL, NULL);
	add(ARCHIVE_DIR, "d/sub", NULL, NULL);
	add(ARCHIVE_FILE, "d/sub/f", NULL, "again");
	add_end();
	write_archive(TREE_WHITEOUTS);
}

static void naive_remove(void)
{
	(void)unlink(path_of("tree/d/f"));
	(void)unlink(path_of("tree/d/sub/f"));
}

/* A tree removed while a directory in it is exchanged. */
static void round_remove_tree(void)
{
	_cleanup_err_ struct err e = ERR_INIT;
	int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t n = 0;

	must(dir >= 0, base);
	(void)tree_remove(dir, "tree", &n, &e);
	(void)close(dir);
	refused += e.reason != REASON_NONE;
	(void)mkdir(path_of("tree"), 0755);
	plant_dir();
	(void)mkdir(path_of("tree/d/sub"), 0755);
	(void)close_fd(
		open(path_of("tree/d/sub/f"), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
}

static bool leaked;

static void look_for_secret(const char *p, size_t n)
{
	if (memmem(p, n, SECRET, strlen(SECRET)))
		leaked = true;
}

static void round_read(void)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_tree_reader_ struct tree_reader *r = NULL;
	const struct tree_read_options o = { .max_entries = 0 };
	static char out[TREE_READ_MIN];
	int dir = open(path_of("tree"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t n = 1;

	must(dir >= 0, "tree");
	if (tree_reader_open(&r, dir, NULL, NULL, &o, &e) < 0)
		must(false, "open");
	(void)close(dir);
	while (n && tree_reader_read(r, out, sizeof out, &n, &e) == 0)
		look_for_secret(out, n);
	refused += e.reason != REASON_NONE || tree_reader_counts(r)->changed;
}

static void naive_read(void)
{
	static const char *const names[] = { "tree/d/f", "tree/d/sub/f", "tree/f" };
	struct stat st;
	char text[64];

	if (lstat(path_of("tree/d"), &st) == 0 && S_ISLNK(st.st_mode))
		return;
	if (lstat(path_of("tree/f"), &st) == 0 && S_ISLNK(st.st_mode))
		return;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		ssize_t n = read_file_at(AT_FDCWD, path_of("%s", names[i]), text, sizeof text);

		if (n > 0)
			look_for_secret(text, (size_t)n);
	}
}

/* Opening what was removed and made anew may race with itself: only an error may come of it. */
static void round_fingerprint(void)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct tree_fingerprint f;
	int dir = open(path_of("tree"), O_PATH | O_DIRECTORY | O_CLOEXEC);

	must(dir >= 0, "tree");
	if (tree_fingerprint(dir, &f, &e) < 0)
		f.entries = 0;
	refused += e.reason != REASON_NONE;
	(void)close(dir);
	/* "outside" has a directory of 1,000 more entries then: it was never counted */
	if (f.entries > 100)
		leaked = true;
}

static void naive_fingerprint(void)
{
	_cleanup_closedir_ DIR *d = NULL;
	const struct dirent *x;
	struct stat st;
	unsigned n = 0;

	if (lstat(path_of("tree/d"), &st) == 0 && S_ISDIR(st.st_mode))
		d = opendir(path_of("tree/d"));
	while (d && (x = readdir(d)))
		n++;
	if (n > 100)
		leaked = true;
}

static void begin_many(void)
{
	begin_dir();
	make_dir(path_of("many"));
	for (unsigned i = 0; i < 1000; i++)
		put(path_of("many/%u", i), "");
	(void)unlink(path_of("tree/d.link"));
	must(symlink("../many", path_of("tree/d.link")) == 0, "symlink");
}

static const struct race {
	const char *name;
	const char *swapped;
	void (*begin)(void);
	void (*round)(void);
	void (*naive)(void);
} races[] = {
	{ "write-below-a-directory", "tree/d", begin_dir, round_write, naive_write },
	{ "write-below-a-deep-directory", "tree/d", begin_dir, round_replace, naive_replace },
	{ "write-a-file", "tree/f", begin_file, round_write_file, naive_write_file },
	{ "remove-by-whiteouts", "tree/d", begin_dir, round_remove, naive_remove },
	{ "remove-a-tree", "tree/d", begin_dir, round_remove_tree, naive_remove },
	{ "read-a-tree", "tree/d", begin_dir, round_read, naive_read },
	{ "read-a-file", "tree/f", begin_file, round_read, naive_read },
	{ "fingerprint", "tree/d", begin_many, round_fingerprint, naive_fingerprint },
};

static void clean(void)
{
	static const char *const names[] = { "outside", "tree", "many" };
	_cleanup_err_ struct err e = ERR_INIT;
	int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t n = 0;

	must(dir >= 0, base);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		must(tree_remove(dir, names[i], &n, &e) == 0, names[i]);
	(void)close(dir);
}

/* True when nothing outside was read or changed. */
static bool run(const struct race *r, uint64_t *ret_rounds)
{
	uint64_t until = boottime_ms() + seconds * 1000, n = 0;
	bool whole = true;
	pid_t pid;

	clean();
	make_outside();
	r->begin();
	leaked = false;
	refused = 0;
	pid = start_swapping(r->swapped);
	for (; n < rounds && boottime_ms() < until && whole && !leaked; n++) {
		(naive ? r->naive : r->round)();
		/* a look at every round is most of a round; the last one counts for all */
		if (n % 64 == 0)
			whole = outside_is_whole();
	}
	stop_swapping(pid);
	whole = whole && outside_is_whole();
	*ret_rounds = n;
	return whole && !leaked;
}

int main(int argc, char **argv)
{
	_cleanup_err_ struct err e = ERR_INIT;
	unsigned failed = 0;

	if (argc < 4 || parse_u64(argv[2], 1, UINT32_MAX, "rounds", &rounds, &e) < 0 ||
		parse_u64(argv[3], 1, 3600, "seconds", &seconds, &e) < 0)
		return 2;
	naive = argc > 4 && streq(argv[4], "naive");
	FMT(base, "%s", argv[1]);
	for (size_t i = 0; i < sizeof races / sizeof *races; i++) {
		uint64_t n;
		bool good = run(&races[i], &n) != naive;

		printf("%s %s%s %llu rounds, %llu with an error\n", good ? "ok" : "not ok",
			naive ? "control-" : "", races[i].name, (unsigned long long)n,
			(unsigned long long)refused);
		(void)fflush(stdout);
		failed += !good;
	}
	clean();
	buf_done(&tar);
	return failed > 0;
}
