/* Layers that lie in files of a store (native.layers 'loop'): what they share, what they reserve, what they refuse, what is left
 * of them.  As root, on hosts with loop devices; stores of other file systems are made in a mount namespace of the test's own. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/native/box_for_test.h"

/* In a function that is given its box. */
#define HOLDS(x) \
	do { \
		if (!(x)) { \
			(void)fprintf(stderr, "%s:%d: %s: %s\n", __func__, __LINE__, #x, \
				b->e.message ?: ""); \
			return BOX_FAILED; \
		} \
	} while (0)

enum { WAITS = 500, WAIT_US = 10000 };

static bool sh(const char *line)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

/* A file system of its own as the store; false: it can't be made here. */
static bool make_store(const char *mkfs, unsigned mib)
{
	char line[512];

	FMT(box_store, "%s/store", box_home);
	FMT(line,
		"PATH=/usr/sbin:/sbin:$PATH; mkdir store && truncate -s %uM disk.img && %s disk.img "
		">/dev/null 2>&1 && mount -o loop disk.img store && chmod 700 store && mkdir store/l && "
		"chmod 700 store/l",
		mib, mkfs);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		!sh(line))
		return false;
	FMT(box_store, "%s/store/l", box_home);
	return true;
}

static uint64_t free_bytes(void)
{
	_cleanup_close_ int fd = open(box_store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	return fd >= 0 && fstatfs(fd, &fs) == 0 ? (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize : 0;
}

static int image_of(const struct box *b, unsigned layer)
{
	return b->sb->layers.image[layer];
}

static uint64_t taken(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* How many loop devices have a file below the test's home. */
static unsigned attached(void)
{
	_cleanup_closedir_ DIR *d = opendir("/sys/block");
	struct dirent *entry;
	unsigned n = 0;

	while (d && (entry = readdir(d))) {
		char path[300], text[4096];

		if (str_after(entry->d_name, "loop") &&
			read_file_at(AT_FDCWD,
				FMT(path, "/sys/block/%s/loop/backing_file", entry->d_name), text,
				sizeof text) > 0 &&
			strstr(text, box_home))
			n++;
	}
	return n;
}

static bool attached_soon(unsigned want)
{
	for (int i = 0; i < WAITS; i++) {
		if (attached() == want)
			return true;
		(void)usleep(WAIT_US);
	}
	return false;
}

/* Bytes of extents that another file has too. */
static uint64_t shared_bytes(int fd)
{
	enum { N = 512 };
	struct fiemap *map = xcalloc(1, sizeof *map + N * sizeof map->fm_extents[0]);
	uint64_t sum = 0;

	map->fm_length = FIEMAP_MAX_OFFSET;
	map->fm_flags = FIEMAP_FLAG_SYNC;
	map->fm_extent_count = N;
	if (ioctl(fd, FS_IOC_FIEMAP, map) == 0)
		for (unsigned i = 0; i < map->fm_mapped_extents; i++)
			if (map->fm_extents[i].fe_flags & FIEMAP_EXTENT_SHARED)
				sum += map->fm_extents[i].fe_length;
	free(map);
	return sum;
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static int in_clone(struct box *b)
{
	HOLDS(shared_bytes(image_of(b, 0)) >= 24 << 20);
	HOLDS(box_start(b));
	HOLDS(box_says(b,
		"cat f; stat -c %U:%u f big; readlink l; test one -ef two && echo same; id -u",
		"origin\nagent:1000\nagent:1000\nf\nsame\n1000"));
	/* what was open and had no name any more takes no space here */
	HOLDS(box_says(
		b, "test $(df -k / | awk 'END { print $3 }') -lt 40000 && echo small", "small"));
	HOLDS(box_says(b, "echo clone >f; rm big; mkdir d; cat f", "clone"));
	HOLDS(box_changed(b, 0,
		"A home/agent/.keep\nA workspace/d\nA workspace/f\nA workspace/l\nA workspace/one\nA workspace/two\n"));
	/* a layer that was written with other ids is sealed, shared and copied like any other */
	HOLDS(box_stop(b) && engine_native.seal(b->sb, &b->e) == 0 && box_start(b));
	HOLDS(box_says(b, "cat f; stat -c %U f; echo again >f", "clone\nagent"));
	return 0;
}

static int in_second(struct box *b)
{
	HOLDS(box_start(b) && box_says(b, "cat f; stat -c %U f", "again\nagent"));
	return 0;
}

static int clone_then_copy(struct box *b)
{
	int r = in_clone(b);

	return r ?: box_fork(b, true, in_second);
}

/* Without a cgroup nothing can be paused. */
static int unlimited(struct box *b)
{
	HOLDS(b->e.reason == R_LIMITS_UNENFORCED);
	box_drop(b);
	return BOX_SKIPPED;
}

static int clones(const char *mkfs)
{
	struct box b = { .e = ERR_INIT };

	if (!make_store(mkfs, 1024))
		return BOX_SKIPPED;
	if (box_make(&b, &(struct wish){ .uid = 1000, .disk = 96 << 20, .limited = true }) < 0)
		return unlimited(&b);
	NEED(box_start(&b));
	NEED(box_says(&b,
		"echo origin >f; ln -s f l; echo x >one; ln one two; touch ~/.keep; head -c 24m /dev/urandom >big; "
		"(exec 3>gone; rm gone; head -c 20m /dev/zero >&3; sync; echo ready >ready; exec sleep 1000) "
		">/dev/null 2>&1 & while ! test -e ready; do sleep 0.01; done; rm ready",
		""));
	NEED(box_fork(&b, true, clone_then_copy) == 0);
	NEED(box_says(&b, "cat f; test -e big && echo big; ls -d d 2>/dev/null; echo more >n",
		"origin\nbig"));
	box_drop(&b);
	NEED(attached_soon(1)); /* the store's own */
	return 0;
}

static int clones_on_xfs(void)
{
	return clones("mkfs.xfs -q -m reflink=1");
}

static int clones_on_btrfs(void)
{
	return clones("mkfs.btrfs -q");
}

/* What a copy says in a forked process. */
static enum reason copy_fails_with(struct box *b)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(engine_native.copy(b->sb, NULL, NULL, &b->e) < 0 ? (int)b->e.reason : 0);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
		? (enum reason)WEXITSTATUS(status)
		: REASON_NONE;
}

/* What was taken is there again, once the kernel has let go of it. */
static bool free_again(uint64_t bytes)
{
	for (int i = 0; i < WAITS && free_bytes() < bytes; i++)
		(void)usleep(WAIT_US);
	return free_bytes() >= bytes;
}

/* There is no room for another layer: not for a new sandbox, nor for a copy of this one, which goes on. */
static int no_room_for_another(struct box *b)
{
	struct box c = { .e = ERR_INIT };

	HOLDS(box_make(&c, &(struct wish){ .uid = 1000, .disk = 100 << 20 }) < 0);
	HOLDS(c.e.reason == R_DISK_FULL && strstr(err_get_remedy(&c.e), "--disk"));
	box_drop(&c);
	HOLDS(box_says(b, "head -c 90m /dev/zero >f; sync f && stat -c %s f", "94371840"));
	HOLDS(copy_fails_with(b) == R_DISK_FULL);
	HOLDS(box_says(b, "rm f; head -c 90m /dev/zero >f; sync f && echo still", "still"));
	return 0;
}

/* Space is taken when a layer is made, or nothing is made. */
static int a_full_store_is_said_at_once(void)
{
	struct box b = { .e = ERR_INIT };
	uint64_t before;

	if (!make_store("mkfs.ext4 -q -F -m 0", 200))
		return BOX_SKIPPED;
	if (box_make(&b, &(struct wish){ .uid = 1000, .disk = 100 << 20, .limited = true }) < 0)
		return unlimited(&b);
	before = free_bytes();
	NEED(box_start(&b) && before < 100 << 20 && no_room_for_another(&b) == 0);
	box_drop(&b);
	b = (struct box){ .e = ERR_INIT };
	NEED(free_again(before + (90 << 20)));
	NEED(box_make(&b, &(struct wish){ .uid = 1000, .disk = 100 << 20 }) == 0);
	box_drop(&b);
	return 0;
}

static bool taken_at_most(int image, uint64_t bytes)
{
	for (int i = 0; i < WAITS && taken(image) > bytes; i++)
		(void)usleep(WAIT_US);
	return taken(image) <= bytes;
}

static int a_sealed_layer_gives_back_what_is_free(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000, .disk = 96 << 20 }) == 0 && box_start(&b));
	NEED(taken(image_of(&b, 0)) >= 96 << 20);
	NEED(box_says(&b, "head -c 9m /dev/urandom >f; sha1sum <f >s", "") && box_stop(&b));
	NEED(engine_native.seal(b.sb, &b.e) == 0 && image_of(&b, 1) < 0);
	NEED(taken_at_most(image_of(&b, 0), 40 << 20));
	NEED(box_start(&b) && box_says(&b, "sha1sum <f | cmp - s && echo same", "same"));
	NEED(taken(image_of(&b, 1)) >= 96 << 20);
	box_drop(&b);
	return 0;
}

static int refused_store(struct box *b, enum reason why)
{
	HOLDS(box_make(b, &(struct wish){ .uid = 1000 }) < 0);
	HOLDS(b->e.reason == why);
	box_drop(b);
	*b = (struct box){ .e = ERR_INIT };
	return 0;
}

/* No file system that somebody else could have written is ever mounted. */
static int only_our_own_templates(void)
{
	static const char *const spoiled[] = {
		"chmod 640 layers/template-*",
		"chown 65534 layers/template-*",
		"truncate -s +4096 layers/template-*",
		"ln layers/template-* other",
		"mv layers/template-* other && ln -s ../other layers/template-1-16777216",
		"mv layers/template-* other && mkdir layers/template-1-16777216",
	};
	struct box b = { .e = ERR_INIT };

	for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++) {
		NEED(sh("rm -rf layers/* other"));
		NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0);
		box_drop(&b);
		b = (struct box){ .e = ERR_INIT };
		NEED(sh(spoiled[i]) && refused_store(&b, R_STATE_UNWRITABLE) == 0);
	}
	return 0;
}

static int only_a_store_of_roots(void)
{
	static const char *const spoiled[] = {
		"chmod 770 layers",
		"chmod 700 layers && chown 65534 layers",
		"chown 0 layers && mv layers real && ln -s real layers",
	};
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0);
	box_drop(&b);
	b = (struct box){ .e = ERR_INIT };
	for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++)
		NEED(sh(spoiled[i]) && refused_store(&b, R_STATE_UNWRITABLE) == 0);
	return 0;
}

/* With the last process that held them: owner killed, devices and files are gone. */
static int a_killed_owner_leaves_no_device(void)
{
	int told[2], status;
	pid_t owner;
	char c;

	if (pipe2(told, O_CLOEXEC) < 0)
		return BOX_FAILED;
	owner = fork();
	if (owner == 0) {
		struct box b = { .e = ERR_INIT };

		if (box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b) &&
			box_says(&b, "echo x >f", "") && box_stop(&b) &&
			engine_native.seal(b.sb, &b.e) == 0 && box_start(&b) &&
			write(told[1], "x", 1) == 1)
			(void)pause();
		_exit(BOX_FAILED);
	}
	close_fd(told[1]);
	if (read(told[0], &c, 1) != 1 || attached() != 2 || kill(owner, SIGKILL) < 0 ||
		waitpid(owner, &status, 0) != owner)
		return BOX_FAILED;
	close_fd(told[0]);
	if (!attached_soon(0))
		return BOX_FAILED;
	return sh("test \"$(ls layers)\" = template-1-16777216") ? 0 : BOX_FAILED;
}

/* Killed after a random while, again and again: before, in and behind each step of a create. */
static int a_create_killed_at_any_time_leaves_nothing(void)
{
	for (unsigned i = 0; i < 40; i++) {
		pid_t owner = fork();
		int status;

		if (owner == 0) {
			struct box b = { .e = ERR_INIT };

			/* another size each fourth time: the template is made too */
			if (box_make(&b,
				    &(struct wish){ .uid = 1000, .disk = (16u + i / 4) << 20 }) ==
				0)
				(void)pause();
			_exit(BOX_FAILED);
		}
		(void)usleep(i * 700);
		if (kill(owner, SIGKILL) < 0 || waitpid(owner, &status, 0) != owner)
			return BOX_FAILED;
	}
	if (!attached_soon(0))
		return BOX_FAILED;
	return sh("test -z \"$(ls layers | grep -v ^template-1-)\"") ? 0 : BOX_FAILED;
}

static int a_user_is_refused(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(chown(".", 65534, 65534) == 0 && chown("runs", 65534, 65534) == 0);
	NEED(setgid(65534) == 0 && setuid(65534) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) < 0);
	NEED(b.e.reason == R_LAYER_UNSUPPORTED && strstr(err_get_remedy(&b.e), "native.layers"));
	box_drop(&b);
	return 0;
}

static int nobody_has_the_guests_tail(void)
{
	struct box b = { .e = ERR_INIT };
	static char tail[1 << 20];
	struct stat st;

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b, "yes 2>/dev/null | head -c 16m >f 2>/dev/null; sync; echo full", "full"));
	NEED(box_stop(&b) && fstat(image_of(&b, 0), &st) == 0 &&
		st.st_size == (16 << 20) + (1 << 20));
	NEED(pread(image_of(&b, 0), tail, sizeof tail, 16 << 20) == sizeof tail);
	for (size_t i = 0; i < sizeof tail; i++)
		NEED(!tail[i]);
	box_drop(&b);
	return 0;
}

#define TEST_LOOP(f) \
	static void test_##f(void **state) \
	{ \
		(void)state; \
		box_test_loop(f); \
	}
TEST_LOOP(clones_on_xfs)
TEST_LOOP(clones_on_btrfs)
TEST_LOOP(a_full_store_is_said_at_once)
TEST_LOOP(a_sealed_layer_gives_back_what_is_free)
TEST_LOOP(only_our_own_templates)
TEST_LOOP(only_a_store_of_roots)
TEST_LOOP(a_killed_owner_leaves_no_device)
TEST_LOOP(a_create_killed_at_any_time_leaves_nothing)
TEST_LOOP(a_user_is_refused)
TEST_LOOP(nobody_has_the_guests_tail)

/* Without them none of the others does anything. */
static void test_there_are_loop_devices(void **state)
{
	(void)state;
	if (!box_can_loop())
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_are_loop_devices),
		cmocka_unit_test(test_clones_on_xfs),
		cmocka_unit_test(test_clones_on_btrfs),
		cmocka_unit_test(test_a_full_store_is_said_at_once),
		cmocka_unit_test(test_a_sealed_layer_gives_back_what_is_free),
		cmocka_unit_test(test_only_our_own_templates),
		cmocka_unit_test(test_only_a_store_of_roots),
		cmocka_unit_test(test_a_killed_owner_leaves_no_device),
		cmocka_unit_test(test_a_create_killed_at_any_time_leaves_nothing),
		cmocka_unit_test(test_a_user_is_refused),
		cmocka_unit_test(test_nobody_has_the_guests_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
