/* Walks over trees that are changed at the worst moment: between the look at a name and its opening. */
#include "image/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"

static char dir[] = "/tmp/bailey-walk-test.XXXXXX";
static int top = -1;

static void put(const char *name)
{
	const int fd = openat(top, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, "text", 4), 4);
	assert_int_equal(close(fd), 0);
}

static int setup(void **state)
{
	(void)state;
	(void)FMT(dir, "/tmp/bailey-walk-test.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)mkdirat(top, "tree", 0700);
	(void)mkdirat(top, "tree/d", 0700);
	(void)mkdirat(top, "other", 0700);
	if (symlinkat("../other", top, "tree.link") < 0)
		return -1;
	put("tree/d/inside");
	put("tree/file");
	put("other/secret");
	put("file");
	return top < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	top = close_fd(top);
	return remove_at(AT_FDCWD, dir, &e);
}

/* Walks up to the event for `name`. */
static void walk_to(struct walk *w, const char *name)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char path[64];

	/* by path: mounts are seen from their own namespace's directories alone */
	assert_int_equal(
		walk_open(
			w, open(FMT(path, "%s/tree", dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC), &e),
		0);
	do
		assert_int_equal(walk_next(w, &e), 0);
	while (w->event != WALK_END && !streq(w->path.data, name));
	assert_string_equal(w->path.data, name);
}

static void exchange(const char *a, const char *b)
{
	assert_int_equal(renameat2(top, a, top, b, RENAME_EXCHANGE), 0);
}

static void ends_with(struct walk *w, enum reason wanted)
{
	_cleanup_err_ struct err e = ERR_INIT;
	int fd = -1, r;

	r = w->event == WALK_ENTER ? walk_next(w, &e) : walk_open_file(w, &fd, &e);
	assert_int_equal(r, -1);
	assert_int_equal(fd, -1);
	assert_int_equal(e.reason, wanted);
	assert_non_null(strstr(e.message, w->path.data));
}

static void a_directory_that_becomes_a_link(void **state)
{
	_cleanup_walk_ struct walk w;

	(void)state;
	walk_to(&w, "d");
	exchange("tree/d", "tree.link");
	ends_with(&w, R_BUSY);
}

static void a_directory_that_becomes_another(void **state)
{
	_cleanup_walk_ struct walk w;

	(void)state;
	walk_to(&w, "d");
	exchange("tree/d", "other");
	ends_with(&w, R_BUSY);
}

static void a_directory_that_becomes_a_file(void **state)
{
	_cleanup_walk_ struct walk w;

	(void)state;
	walk_to(&w, "d");
	exchange("tree/d", "file");
	ends_with(&w, R_BUSY);
}

static void a_directory_that_goes(void **state)
{
	_cleanup_walk_ struct walk w;

	(void)state;
	walk_to(&w, "d");
	assert_int_equal(renameat(top, "tree/d", top, "elsewhere"), 0);
	ends_with(&w, R_BUSY);
}

static void a_file_that_becomes_a_link(void **state)
{
	_cleanup_walk_ struct walk w;

	(void)state;
	walk_to(&w, "file");
	exchange("tree/file", "tree.link");
	ends_with(&w, R_BUSY);
}

static void a_file_that_becomes_another(void **state)
{
	_cleanup_walk_ struct walk w;

	(void)state;
	walk_to(&w, "file");
	exchange("tree/file", "other/secret");
	ends_with(&w, R_BUSY);
}

static void a_file_that_becomes_a_fifo(void **state)
{
	_cleanup_walk_ struct walk w;

	(void)state;
	walk_to(&w, "file");
	assert_int_equal(unlinkat(top, "tree/file", 0), 0);
	assert_int_equal(mkfifoat(top, "tree/file", 0600), 0);
	ends_with(&w, R_BUSY);
}

/* What lies behind a directory that was entered stays the same, whatever its name becomes. */
static void a_parent_that_is_exchanged(void **state)
{
	_cleanup_walk_ struct walk w;
	_cleanup_err_ struct err e = ERR_INIT;
	int fd = -1;
	char text[8];

	(void)state;
	walk_to(&w, "d/inside");
	exchange("tree/d", "tree.link");
	assert_int_equal(walk_open_file(&w, &fd, &e), 0);
	assert_int_equal(read(fd, text, sizeof text), 4);
	assert_int_equal(close(fd), 0);
}

static void what_is_not_ours_to_read(void **state)
{
	_cleanup_walk_ struct walk w;

	_cleanup_err_ struct err e = ERR_INIT;
	int fd = -1;

	(void)state;
	assert_int_equal(fchmodat(top, "tree/file", 0, 0), 0);
	walk_to(&w, "file");
	if (geteuid() != 0) {
		ends_with(&w, R_PERMISSION_DENIED);
		return;
	}
	assert_int_equal(walk_open_file(&w, &fd, &e), 0);
	assert_int_equal(close(fd), 0);
}

/* In a process of its own: the mounts are seen there alone. */
static void mounts(void)
{
	_cleanup_walk_ struct walk w;
	_cleanup_err_ struct err e = ERR_INIT;
	char from[64], to[64];
	int fd = 0;

	if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount(FMT(from, "%s/file", dir), FMT(to, "%s/tree/file", dir), NULL, MS_BIND,
			NULL) < 0 ||
		mount(FMT(from, "%s/other", dir), FMT(to, "%s/tree/d", dir), NULL, MS_BIND, NULL) <
			0)
		_exit(77);
	walk_to(&w, "file");
	if (walk_open_file(&w, &fd, &e) < 0 || fd != -1)
		_exit(2);
	walk_done(&w);
	walk_to(&w, "d");
	/* entered, empty, left */
	_exit(walk_next(&w, &e) == 0 && w.event == WALK_LEAVE ? 0 : 3);
}

static void mounts_are_not_entered(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		mounts();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_directory_that_becomes_a_link),
		TEST(a_directory_that_becomes_another),
		TEST(a_directory_that_becomes_a_file),
		TEST(a_directory_that_goes),
		TEST(a_file_that_becomes_a_link),
		TEST(a_file_that_becomes_another),
		TEST(a_file_that_becomes_a_fifo),
		TEST(a_parent_that_is_exchanged),
		TEST(what_is_not_ours_to_read),
		TEST(mounts_are_not_entered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
