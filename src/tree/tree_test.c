/* What scripts see badly: the interface fed by hand, errors in the middle, choices, dry runs, a tree that changes while it is
 * read. */
#include "tree/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

static char base_path[] = "/tmp/bailey-tree-test.XXXXXX";
static int base_fd = -1, dir = -1;
static unsigned count;

/* --- a directory of each test's own --- */

static int begin_all(void **state)
{
	(void)state;
	if (!mkdtemp(base_path))
		return -1;
	base_fd = open(base_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return base_fd < 0 ? -1 : 0;
}

static int end_all(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t n = 0;

	(void)state;
	base_fd = close_fd(base_fd);
	base_fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (tree_remove(base_fd, base_path + 5, &n, &e) < 0)
		return -1;
	base_fd = close_fd(base_fd);
	return 0;
}

static int begin(void **state)
{
	char name[16];

	(void)state;
	FMT(name, "t%u", count++);
	if (mkdirat(base_fd, name, 0700) < 0)
		return -1;
	dir = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : 0;
}

static int end(void **state)
{
	(void)state;
	dir = close_fd(dir);
	return 0;
}

static void put_file(const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

static void holds(const char *path, const char *text)
{
	char got[256];
	ssize_t n = read_file_at(dir, path, got, sizeof got);

	if (!text) {
		assert_true(n < 0);
		return;
	}
	assert_true(n >= 0);
	assert_string_equal(got, text);
}

/* --- an archive --- */

static struct buf tar = { .max = 8 << 20 };

static void add(const struct archive_entry *e, const char *data)
{
	static uint8_t head[ARCHIVE_HEADER_CAP(0)];
	static const char zeros[ARCHIVE_BLOCK];
	size_t n = archive_put(head, sizeof head, e, NULL, 0);

	assert_int_not_equal(n, 0);
	assert_true(buf_add(&tar, head, n));
	if (data)
		assert_true(buf_add(&tar, data, e->size) &&
			buf_add(&tar, zeros, archive_padding(e->size)));
}

static void add_file(const char *name, const char *text)
{
	add(&(struct archive_entry){ .mode = 0644, .name = name, .size = strlen(text) }, text);
}

static void add_dir(const char *name, uint32_t mode)
{
	add(&(struct archive_entry){ .type = ARCHIVE_DIR, .mode = mode, .name = name }, NULL);
}

static void add_end(void)
{
	static const char zeros[ARCHIVE_END_SIZE];

	assert_true(buf_add(&tar, zeros, sizeof zeros));
}

static char actions[4096];

static void note_action(void *arg, const struct tree_action *a)
{
	size_t n = strlen(actions);

	(void)arg;
	(void)snprintf(actions + n, sizeof actions - n, "%c %s\n", a->kind, a->path);
}

/* Extracts `tar` and clears it; REASON_NONE when that worked. */
static enum reason extract(struct tree_write_options o, struct tree_counts *counts)
{
	_cleanup_tree_writer_ struct tree_writer *w = NULL;
	_cleanup_err_ struct err e = ERR_INIT;

	actions[0] = 0;
	if (!o.action)
		o.action = note_action;
	if (tree_writer_open(&w, dir, &o, &e) == 0 &&
		tree_writer_feed(w, tar.data, tar.len, &e) == 0)
		(void)tree_writer_finish(w, counts, &e);
	buf_clear(&tar);
	if (e.reason)
		print_message("%s\n", e.message);
	return e.reason;
}

static const struct tree_write_options plain = { .flags = 0 };

/* --- writing --- */

static void new_and_old_files(void **state)
{
	struct tree_counts c;
	struct stat st;

	(void)state;
	put_file("old", "before");
	assert_int_equal(symlinkat("old", dir, "link"), 0);
	assert_int_equal(linkat(dir, "old", dir, "other", 0), 0);
	add_file("old", "after");
	add_file("link", "a file now");
	add_dir("d", 0555);
	add_file("d/new", "n");
	add_end();
	assert_int_equal(extract(plain, &c), REASON_NONE);
	assert_string_equal(actions, "M old\nM link\nA d\nA d/new\n");
	holds("old", "after");
	holds("other", "before");
	holds("link", "a file now");
	holds("d/new", "n");
	assert_int_equal(fstatat(dir, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	assert_int_equal(fchmodat(dir, "d", 0755, 0), 0); /* so that a normal user can remove it */
	assert_int_equal(c.files, 3);
	assert_int_equal(c.dirs, 1);
}

static void files_and_directories_keep_their_place(void **state)
{
	(void)state;
	assert_int_equal(mkdirat(dir, "d", 0755), 0);
	put_file("f", "x");
	add_file("d", "y");
	add_end();
	assert_int_equal(extract(plain, NULL), R_IS_A_DIRECTORY);
	add_dir("f", 0755);
	add_end();
	assert_int_equal(extract(plain, NULL), R_NOT_A_DIRECTORY);
	add_file("f/g", "y");
	add_end();
	assert_int_equal(extract(plain, NULL), R_NOT_A_DIRECTORY);
	holds("f", "x");

	put_file("d/in", "it");
	add_file("d", "y");
	add_file("f/g", "z");
	add_end();
	assert_int_equal(
		extract((struct tree_write_options){ .flags = TREE_REPLACE }, NULL), REASON_NONE);
	holds("d", "y");
	holds("f/g", "z");
}

static void another_name_on_top(void **state)
{
	const struct tree_write_options o = { .top = "new" };

	(void)state;
	add_dir("old", 0755);
	add_file("old/f", "1");
	add_file("old/x/g", "2");
	add(&(struct archive_entry){ .type = ARCHIVE_HARDLINK, .name = "old/h", .link = "old/f" },
		NULL);
	add_end();
	assert_int_equal(extract(o, NULL), REASON_NONE);
	holds("new/f", "1");
	holds("new/h", "1");
	holds("new/x/g", "2");
	add_file("old", "only a file");
	add_end();
	assert_int_equal(extract((struct tree_write_options){ .top = "file" }, NULL), REASON_NONE);
	holds("file", "only a file");
	add_dir("old", 0755);
	add_file("elsewhere", "1");
	assert_int_equal(extract(o, NULL), R_ARCHIVE_REFUSED);
	holds("elsewhere", NULL);
	assert_int_equal(extract((struct tree_write_options){ .top = ".." }, NULL), R_IO_FAILED);
}

static void limits(void **state)
{
	(void)state;
	add_file("a", "12345");
	add_file("b", "123456");
	add_end();
	assert_int_equal(
		extract((struct tree_write_options){ .max_bytes = 10 }, NULL), R_ARCHIVE_TOO_LARGE);
	holds("a", "12345");
	holds("b", NULL);
	add_file("c", "12345");
	assert_int_equal(
		extract((struct tree_write_options){ .max_size = 4 }, NULL), R_ARCHIVE_TOO_LARGE);
	holds("c", NULL);
	add_file("x/y/z", "1");
	assert_int_equal(extract((struct tree_write_options){ .max_entries = 2 }, NULL),
		R_ARCHIVE_TOO_LARGE);
	holds("x/y/z", NULL);
}

/* The archive ends inside a file: nothing half-written stays, what was there is untouched. */
static void broken_off(void **state)
{
	(void)state;
	put_file("old", "before");
	add_file("whole", "1");
	add_file("old", "after");
	tar.len -= ARCHIVE_BLOCK - 2;
	assert_int_equal(extract(plain, NULL), R_ARCHIVE_REFUSED);
	holds("whole", "1");
	holds("old", "before");
	add_file("new", "after");
	tar.len -= ARCHIVE_BLOCK - 2;
	assert_int_equal(extract(plain, NULL), R_ARCHIVE_REFUSED);
	holds("new", NULL);
}

/* Its maker's reason is believed only where that was asked for. */
static void given_up(void **state)
{
	static const char text[] = "layer_refused\nDo\tthis.\nthe layers are\033[31m odd\nforged";
	static uint8_t out[ARCHIVE_FAILURE_CAP];
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct tree_write_options o = { .flags = i ? TREE_BELIEVED : 0 };

		add_file("whole", "1");
		assert_true(buf_add(
			&tar, out, archive_put_failure(out, sizeof out, text, sizeof text - 1)));
		assert_int_equal(extract(o, NULL), i ? R_LAYER_REFUSED : R_ARCHIVE_REFUSED);
		holds("whole", "1");
	}
	assert_int_equal(tree_given_up(text, &e), -1);
	assert_string_equal(e.message, "the layers are?[31m odd?forged");
	assert_string_equal(err_get_remedy(&e), "Do?this.");
	assert_int_equal(tree_given_up("", &e), -1);
	assert_int_equal(e.reason, R_IO_FAILED);
	assert_int_equal(tree_given_up("no_such_reason", &e), -1);
	assert_int_equal(e.reason, R_IO_FAILED);
}

static void only_what_was_chosen(void **state)
{
	static const char *const paths[] = { "a", "d/e", "gone", "o/in" };
	const struct tree_write_options o = {
		.flags = TREE_WHITEOUTS, .paths = paths, .n_paths = 4
	};
	static const char *const none[] = { "a", "missing" };

	(void)state;
	put_file("gone", "g");
	put_file("stays", "s");
	assert_int_equal(mkdirat(dir, "o", 0755), 0);
	put_file("o/in", "i");
	put_file("o/out", "o");
	add_file("a", "1");
	add_file("ab", "2");
	add_dir("d", 0755);
	add_file("d/c", "3");
	add_file("d/e/f", "4");
	add_file(".wh.gone", "");
	add_file(".wh.stays", "");
	add_file("o/.wh..wh..opq", "");
	add_end();
	assert_int_equal(extract(o, NULL), REASON_NONE);
	assert_string_equal(actions, "A a\nA d/e/f\nD gone\nD o/in\n");
	holds("a", "1");
	holds("ab", NULL);
	holds("d/c", NULL);
	holds("d/e/f", "4");
	holds("gone", NULL);
	holds("stays", "s");
	holds("o/in", NULL);
	holds("o/out", "o");
	add_file("a", "5");
	add_end();
	assert_int_equal(extract((struct tree_write_options){ .paths = none, .n_paths = 2 }, NULL),
		R_PATH_NOT_FOUND);
	holds("a", "5");
}

static void removals(void **state)
{
	const struct tree_write_options o = { .flags = TREE_WHITEOUTS | TREE_REPLACE };
	struct tree_counts c;

	(void)state;
	assert_int_equal(mkdirat(dir, "d", 0755), 0);
	assert_int_equal(mkdirat(dir, "d/e", 0755), 0);
	put_file("d/e/f", "1");
	put_file("d/g", "2");
	put_file("outside", "3");
	assert_int_equal(symlinkat("../outside", dir, "d/link"), 0);
	assert_int_equal(symlinkat("..", dir, "d/up"), 0);
	add_file("d/h", "new");
	add_file("d/e/i", "new");
	add_file("d/.wh..wh..opq", "");
	add_file(".wh.never", "");
	add_file("missing/.wh.x", "");
	add_end();
	assert_int_equal(extract(o, &c), REASON_NONE);
	holds("d/h", "new");
	holds("d/e/i", "new");
	holds("d/e/f", NULL);
	holds("d/g", NULL);
	holds("outside", "3");
	holds("missing", NULL);
	assert_int_equal(c.removed, 4);
	add_file(".wh.d", "");
	add_end();
	assert_int_equal(extract(o, &c), REASON_NONE);
	assert_int_equal(faccessat(dir, "d", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	holds("outside", "3");
}

static void a_dry_run_says_the_same(void **state)
{
	struct tree_counts dry, wet;
	char said[sizeof actions];

	(void)state;
	assert_int_equal(mkdirat(dir, "d", 0755), 0);
	put_file("d/x", "1");
	put_file("f", "1");
	for (int pass = 0; pass < 2; pass++) {
		add_file("d/.wh..wh..opq", "");
		add_file("d/x", "22");
		add_file("d/y/z", "3");
		add_file(".wh.f", "");
		add(&(struct archive_entry){ .type = ARCHIVE_SYMLINK, .name = "l", .link = "f" },
			NULL);
		add_end();
		assert_int_equal(extract((struct tree_write_options){ .flags = TREE_WHITEOUTS |
							 (pass ? 0 : TREE_DRY_RUN) },
					 pass ? &wet : &dry),
			REASON_NONE);
		if (pass)
			continue;
		memcpy(said, actions, sizeof said);
		holds("d/x", "1");
		holds("f", "1");
	}
	assert_string_equal(said, "D d/x\nA d/x\nA d/y/z\nD f\nA l\n");
	assert_string_equal(actions, "A d/x\nA d/y/z\nD f\nA l\n");
	holds("d/x", "22");
	assert_int_equal(dry.removed, wet.removed);
	assert_int_equal(dry.files, wet.files);
	assert_true(dry.bytes == wet.bytes);
}

static void errors_name_their_cause(void **state)
{
	struct rlimit old, few = { 3, 3 };

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few.rlim_max = old.rlim_max;
	add_file("a", "1");
	add_end();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(extract(plain, NULL), R_IO_FAILED);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void another_s_directory(void **state)
{
	enum reason got;

	(void)state;
	assert_int_equal(mkdirat(dir, "locked", 0555), 0);
	assert_int_equal(fchmodat(base_fd, ".", 0755, 0), 0);
	assert_int_equal(fchmod(dir, 0755), 0);
	add_file("locked/a", "1");
	add_end();
	if (getuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	got = extract(plain, NULL);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(fchmodat(dir, "locked", 0755, 0), 0);
	assert_int_equal(got, R_PERMISSION_DENIED);
}

/* --- reading --- */

static struct archive_reader reader;

struct seen {
	unsigned entries;
	uint64_t bytes, nonzero;
	bool end;
};

static struct seen look(const char *p, size_t n)
{
	struct seen s = { .entries = 0 };
	const uint8_t *at = (const uint8_t *)p;
	enum archive_event ev;

	archive_reader_init(&reader);
	while ((ev = archive_next(&reader, &at, &n)) != ARCHIVE_MORE) {
		assert_int_not_equal(ev, ARCHIVE_REFUSED);
		s.entries += ev == ARCHIVE_ENTRY;
		for (size_t i = 0; ev == ARCHIVE_DATA && i < reader.data_len; i++, s.bytes++)
			s.nonzero += reader.data[i] != 0;
		s.end |= ev == ARCHIVE_END;
	}
	assert_true(archive_finish(&reader));
	return s;
}

static void a_file_that_shrinks(void **state)
{
	const struct tree_read_options o = { .max_entries = 0 };
	_cleanup_tree_reader_ struct tree_reader *r = NULL;
	_cleanup_err_ struct err e = ERR_INIT;
	static char all[1 << 20], text[300001];
	struct seen s;
	size_t n = 0, len = 0;

	(void)state;
	memset(text, 'x', sizeof text - 1);
	put_file("f", text);
	assert_int_equal(tree_reader_open(&r, dir, "f", "named", &o, &e), 0);
	assert_int_equal(tree_reader_read(r, all, TREE_READ_MIN, &n, &e), 0);
	len = n;
	put_file("f", "short");
	do {
		assert_int_equal(tree_reader_read(r, all + len, TREE_READ_MIN, &n, &e), 0);
		len += n;
	} while (n);
	s = look(all, len);
	assert_int_equal(s.entries, 1);
	assert_true(s.end);
	assert_int_equal(s.bytes, sizeof text - 1);
	assert_true(s.nonzero < sizeof text - 1);
	assert_int_equal(tree_reader_counts(r)->changed, 1);
	assert_string_equal(reader.entry.name, "named");
}

static void names_that_are_no_parts(void **state)
{
	static const char *const bad[] = { "", "..", "a/b", "/" };
	const struct tree_read_options o = { .max_entries = 0 };
	_cleanup_tree_reader_ struct tree_reader *r = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		_cleanup_err_ struct err e = ERR_INIT;

		assert_int_equal(tree_reader_open(&r, dir, bad[i], NULL, &o, &e), -1);
		assert_int_equal(e.reason, R_IO_FAILED);
	}
	{
		_cleanup_err_ struct err e = ERR_INIT;

		assert_int_equal(tree_reader_open(&r, dir, "missing", NULL, &o, &e), -1);
		assert_int_equal(e.reason, R_PATH_NOT_FOUND);
	}
}

/* --- fingerprints --- */

static bool same(const struct tree_fingerprint *a)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct tree_fingerprint b;

	assert_int_equal(tree_fingerprint(dir, &b, &e), 0);
	return memcmp(a->sum, b.sum, sizeof b.sum) == 0;
}

static void every_change_shows(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct tree_fingerprint f;

	(void)state;
	assert_int_equal(mkdirat(dir, "d", 0755), 0);
	put_file("d/a", "1");
	put_file("b", "2");
	assert_int_equal(tree_fingerprint(dir, &f, &e), 0);
	assert_true(same(&f));
	assert_int_equal(f.entries, 4);
	assert_false(f.partial);
	put_file("d/a", "3");
	assert_false(same(&f));
	assert_int_equal(tree_fingerprint(dir, &f, &e), 0);
	assert_int_equal(fchmodat(dir, "b", 0600, 0), 0);
	assert_false(same(&f));
	assert_int_equal(tree_fingerprint(dir, &f, &e), 0);
	assert_int_equal(renameat(dir, "b", dir, "c"), 0);
	assert_false(same(&f));
	assert_int_equal(tree_fingerprint(dir, &f, &e), 0);
	assert_int_equal(unlinkat(dir, "d/a", 0), 0);
	assert_false(same(&f));
	assert_int_equal(tree_fingerprint(dir, &f, &e), 0);
	assert_true(same(&f));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(new_and_old_files),
		TEST(files_and_directories_keep_their_place),
		TEST(another_name_on_top),
		TEST(limits),
		TEST(broken_off),
		TEST(given_up),
		TEST(only_what_was_chosen),
		TEST(removals),
		TEST(a_dry_run_says_the_same),
		TEST(errors_name_their_cause),
		TEST(another_s_directory),
		TEST(a_file_that_shrinks),
		TEST(names_that_are_no_parts),
		TEST(every_change_shows),
	};

	return cmocka_run_group_tests(tests, begin_all, end_all);
}
