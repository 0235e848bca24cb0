/* What a workload that owns everything inside could leave in its layers, and what may come of it outside and in forks.  Each
 * test runs in a process of its own, as root and as a user. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <cmocka.h>

#include "archive/archive.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/native/box_for_test.h"

/* What the workload of a root that it owns could leave for the next boot: links where the sandbox's own mounts go. */
static int planted_links_are_refused(void)
{
	static const char *const plants[] = { "rm -rf /sys; ln -s /etc /sys",
		"rm -rf /sys; ln -s ../../../etc /sys", "rm -rf /sys; touch /sys" };

	for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
		struct box b = { .e = ERR_INIT };

		NEED(box_make(&b, &(struct wish){ .uid = 0 }) == 0 && box_start(&b));
		NEED(box_says(&b, plants[i], "") && box_stop(&b));
		NEED(!box_start(&b) && b.e.reason == reason_by_name("layer_refused"));
		NEED(strstr(b.e.message, "'/sys'") != NULL);
		box_drop(&b);
	}
	return 0;
}

/* The places that are mounts inside can't be replaced from there: the layer is written to from out here, as a layer that came
 * another way might be. */
static int links_in_a_layer_are_refused(void)
{
	static const char *const names[] = { "dev", "proc", "run", "tmp", "etc", "home" };
	struct stat before, after;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct box b = { .e = ERR_INIT };
		char target[128];
		int upper;

		NEED(mkdir(FMT(target, "%s/victim%zu", box_home, i), 0777) == 0);
		NEED(stat(target, &before) == 0);
		NEED(box_make(&b, &(struct wish){ .uid = 0 }) == 0);
		upper = layers_open(&b.sb->layers, 0, "upper");
		NEED(upper >= 0 && symlinkat(target, upper, names[i]) == 0);
		NEED(!box_start(&b) && b.e.reason == reason_by_name("layer_refused"));
		close_fd(upper);
		NEED(stat(target, &after) == 0 && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
		box_drop(&b);
	}
	return 0;
}

static int a_mount_target_is_not_followed(void)
{
	char dir[128], victim[128];
	struct box b = { .e = ERR_INIT };
	struct stat st;

	NEED(mkdir(FMT(dir, "%s/rw", box_home), 0755) == 0 &&
		mkdir(FMT(victim, "%s/outside", box_home), 0777) == 0);
	NEED(box_make(&b, &(struct wish){ .uid = 0, .rw = dir }) == 0);
	{
		_cleanup_close_ int upper = layers_open(&b.sb->layers, 0, "upper");

		NEED(upper >= 0 && symlinkat(victim, upper, "shared") == 0);
	}
	NEED(!box_start(&b) && b.e.reason == reason_by_name("mount_target_invalid"));
	NEED(stat(FMT(dir, "%s/outside", box_home), &st) == 0 && st.st_nlink == 2);
	box_drop(&b);
	return 0;
}

/* What the process that reads the workload's files could reach, should they get the better of it. */
static int reach(struct box *b, int dir)
{
	_cleanup_close_ int up = -1, out = -1, made = -1;
	struct stat here, above;
	int reached = 0;

	if (changes_confine(b->sb, &dir, 1, &b->e) < 0)
		return BOX_FAILED;
	up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fstat(dir, &here) < 0 || up < 0 || fstat(up, &above) < 0)
		return BOX_FAILED;
	if (here.st_dev != above.st_dev || here.st_ino != above.st_ino)
		reached |= 2;
	out = openat(dir, "../../../../../../../../../../../usr/bin", O_PATH | O_CLOEXEC);
	reached |= out >= 0 ? 4 : 0;
	made = openat(dir, "workspace/own", O_WRONLY | O_CLOEXEC);
	reached |= made >= 0 ? 8 : 0;
	return 16 | reached;
}

static int reach_from(struct box *b, int dir)
{
	int status = -1;
	pid_t pid = dir < 0 ? -1 : fork();

	if (pid == 0)
		_exit(reach(b, dir));
	close_fd(dir);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return BOX_FAILED;
	return WEXITSTATUS(status);
}

static int the_worker_reaches_nothing_else(void)
{
	struct box b = { .e = ERR_INIT };
	uid_t ids;

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b, "echo x > own; chmod 666 own", ""));
	/* as a plain directory, which is what a view is for */
	NEED(reach_from(&b, layers_open(&b.sb->layers, 0, "upper")) == (16 | 2 | 4 | 8));
	NEED(reach_from(&b, layers_view(&b.sb->layers, 0, "upper")) == 16);
	NEED(reach_from(&b, layers_view_lower(b.sb, false, 0, &ids)) == 16);
	box_drop(&b);
	return 0;
}

/* A file of the sandbox as its own processes see it, opened from out here; -1. */
static int open_inside(const struct box *b, const char *path, int flags)
{
	char full[256];

	return open(FMT(full, "/proc/%d/root%s", b->sb->pid, path), flags | O_CLOEXEC);
}

static int still_as_it_was(struct box *from)
{
	struct box b = *from;

	NEED(box_start(&b) && box_says(&b, "cat f", "before"));
	*from = b;
	return 0;
}

/* A descriptor that was handed out over a socket outlives its sandbox: it must not write to what forks share. */
static int a_file_held_outside_keeps_a_layer_from_being_shared(void)
{
	struct box b = { .e = ERR_INIT };
	int held;

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b, "echo before > f; echo x > other", ""));
	held = open_inside(&b, "/workspace/f", O_WRONLY);
	NEED(held >= 0 && box_stop(&b));
	if (b.sb->layers.marks == MARKS_NONE) {
		close_fd(held);
		box_drop(&b);
		return BOX_SKIPPED;
	}
	NEED(engine_native.seal(b.sb, &b.e) < 0 &&
		b.e.reason == reason_by_name("layer_unsupported"));
	err_done(&b.e);
	b.e = (struct err)ERR_INIT;
	NEED(b.sb->layers.n_sealed == 0 && box_start(&b) && box_says(&b, "cat f", "before"));
	NEED(box_stop(&b));
	close_fd(held);
	NEED(engine_native.seal(b.sb, &b.e) == 0);
	NEED(box_fork(&b, false, still_as_it_was) == 0);
	box_drop(&b);
	return 0;
}

/* Nor can one that is opened later, whatever mount it comes by. */
static int a_sealed_layer_takes_no_writer(void)
{
	struct box b = { .e = ERR_INIT };
	_cleanup_close_ int held = -1;
	char line[8];

	NEED(box_make(&b, &(struct wish){ .uid = 0 }) == 0 && box_start(&b));
	NEED(box_says(&b, "echo before > f", ""));
	held = open_inside(&b, "/", O_PATH | O_DIRECTORY);
	NEED(held >= 0 && box_stop(&b));
	if (b.sb->layers.marks == MARKS_NONE) {
		box_drop(&b);
		return BOX_SKIPPED;
	}
	{
		/* the control: up to the seal it can */
		_cleanup_close_ int f = openat(held, "workspace/f", O_RDWR | O_CLOEXEC);

		NEED(f >= 0 && pread(f, line, 6, 0) == 6 && pwrite(f, line, 6, 0) == 6);
	}
	NEED(engine_native.seal(b.sb, &b.e) == 0);
	NEED(openat(held, "workspace/f", O_RDWR | O_CLOEXEC) < 0 && errno == EROFS);
	NEED(openat(held, "workspace/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
	NEED(box_fork(&b, false, still_as_it_was) == 0);
	box_drop(&b);
	return 0;
}

static int has_marks(struct box *from)
{
	struct box b = *from;

	NEED(box_start(&b) &&
		box_says(&b, "ls /etc/alternatives | wc -l | grep -vc '^0$'; ls d; cat d/x",
			"1\nx\nx"));
	*from = b;
	return 0;
}

/* What the workload says in the names that overlayfs uses for itself is data, also once the layer is a lower one. */
static int marks_set_inside_are_data(void)
{
	static const char *const marks[] = { "user.overlay.opaque", "user.overlay.whiteout",
		"user.overlay.redirect", "user.overlay.metacopy" };
	static const char *const places[] = { "/workspace/d", "/workspace/d/x", "/etc",
		"/workspace" };
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 0 }) == 0 && box_start(&b));
	NEED(box_says(&b, "mkdir d; echo x > d/x; chmod 755 /etc", ""));
	if (b.sb->layers.marks != MARKS_USER) {
		box_drop(&b);
		return BOX_SKIPPED;
	}
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		_cleanup_close_ int fd = open_inside(&b, places[i], O_RDONLY);
		_cleanup_close_ int upper = layers_open(&b.sb->layers, 0, "upper"), raw = -1;
		char value[8];

		NEED(fd >= 0 && upper >= 0);
		for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
			(void)fsetxattr(fd, marks[m], m == 2 ? "/usr" : "y", m == 2 ? 4 : 1, 0);
		raw = openat(upper, places[i] + 1, O_RDONLY | O_CLOEXEC);
		NEED(raw >= 0);
		for (size_t m = 1; m < sizeof marks / sizeof *marks; m++)
			NEED(fgetxattr(raw, marks[m], value, sizeof value) < 0);
		NEED(layer_is_opaque(raw, MARKS_USER) == 0);
	}
	NEED(box_stop(&b) && box_fork(&b, true, has_marks) == 0);
	NEED(engine_native.seal(b.sb, &b.e) == 0 && box_fork(&b, false, has_marks) == 0);
	box_drop(&b);
	return 0;
}

static int the_fork_has_all(struct box *from)
{
	_cleanup_close_ int upper = layers_open(&from->sb->layers, 0, "upper"), f = -1;
	struct box b = *from;
	char name[64], value[8];

	f = openat(upper, "workspace/f", O_RDONLY | O_CLOEXEC);
	NEED(f >= 0 && fgetxattr(f, FMT(name, "user.%050d", 149), value, sizeof value) == 1);
	NEED(box_start(&b));
	*from = b;
	return 0;
}

/* Many attributes: their names alone are over 4 KiB. */
static int attributes_do_not_prevent_a_fork(void)
{
	struct box b = { .e = ERR_INIT };
	_cleanup_close_ int f = -1;
	char name[64];

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b, "echo f > f", ""));
	f = open_inside(&b, "/workspace/f", O_RDWR);
	NEED(f >= 0);
	if (b.sb->layers.marks != MARKS_USER) {
		box_drop(&b);
		return BOX_SKIPPED;
	}
	for (int i = 0; i < 150; i++)
		NEED(fsetxattr(f, FMT(name, "user.%050d", i), "v", 1, 0) == 0);
	NEED(box_stop(&b) && box_fork(&b, true, the_fork_has_all) == 0);
	box_drop(&b);
	return 0;
}

/* One file under many names: each is written out whole, and the reader's disk must not be the limit. */
static int an_archive_of_changes_is_bounded(void)
{
	struct box b = { .e = ERR_INIT };
	_cleanup_buf_ struct buf some = BUF_INIT, all = { .max = 256 << 20 };

	NEED(box_make(&b, &(struct wish){ .uid = 1000, .disk = 2 << 20 }) == 0 && box_start(&b));
	NEED(box_says(&b,
		"head -c 1m /dev/zero | tr '\\0' x > f; for i in 1 2 3; do ln f l$i; done", ""));
	NEED(box_changes(&b, ENGINE_CHANGES_CONTENT, &some) == 0 && some.len > 4 << 20);
	NEED(box_says(&b, "for i in $(seq 100); do ln f n$i; done", ""));
	NEED(box_changes(&b, ENGINE_CHANGES_CONTENT, &all) == BOX_FAILED);
	NEED(all.len < 10 << 20);
	NEED(memmem(all.data, all.len, "BAILEY.failed=archive_too_large\n", 32));
	NEED(box_stop(&b));
	box_drop(&b);
	return 0;
}

/* --- copies --------------------------------------------------------------------------------------------------------- */

/* Of a directory that is in two layers the attributes are the upper one's. */
static int a_merged_directory_has_no_old_attributes(void)
{
	static const char *const dirs[] = { "one", "one/d", "two", "two/d", "to", "links" };
	struct box b = { .e = ERR_INIT };
	struct layer_copy c = { .marks = MARKS_USER, .merge = true };
	_cleanup_close_ int d = -1, links = -1;
	char value[8];

	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		NEED(mkdir(dirs[i], 0700) == 0);
	if (setxattr("one/d", "user.old", "o", 1, 0) < 0)
		return BOX_SKIPPED;
	NEED(setxattr("one/d", "user.overlay.opaque", "y", 1, 0) == 0);
	NEED(setxattr("two/d", "user.new", "n", 1, 0) == 0);
	links = open("links", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c.links = links;
	for (size_t i = 0; i < 2; i++) {
		_cleanup_close_ int from = open(dirs[i * 2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_cleanup_close_ int to = open("to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		NEED(layer_copy(&c, from, to, &b.e) == 0);
	}
	d = open("to/d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(d >= 0 && fgetxattr(d, "user.new", value, sizeof value) == 1);
	NEED(fgetxattr(d, "user.old", value, sizeof value) < 0 && errno == ENODATA);
	NEED(layer_is_opaque(d, MARKS_USER) == 1);
	return 0;
}

TEST(planted_links_are_refused)
TEST(links_in_a_layer_are_refused)
TEST(a_mount_target_is_not_followed)
TEST(the_worker_reaches_nothing_else)
TEST(a_file_held_outside_keeps_a_layer_from_being_shared)
TEST(a_sealed_layer_takes_no_writer)
TEST(marks_set_inside_are_data)
TEST(attributes_do_not_prevent_a_fork)
TEST(an_archive_of_changes_is_bounded)
TEST(a_merged_directory_has_no_old_attributes)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_planted_links_are_refused),
		cmocka_unit_test(test_links_in_a_layer_are_refused),
		cmocka_unit_test(test_a_mount_target_is_not_followed),
		cmocka_unit_test(test_the_worker_reaches_nothing_else),
		cmocka_unit_test(test_a_file_held_outside_keeps_a_layer_from_being_shared),
		cmocka_unit_test(test_a_sealed_layer_takes_no_writer),
		cmocka_unit_test(test_marks_set_inside_are_data),
		cmocka_unit_test(test_attributes_do_not_prevent_a_fork),
		cmocka_unit_test(test_an_archive_of_changes_is_bounded),
		cmocka_unit_test(test_a_merged_directory_has_no_old_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
