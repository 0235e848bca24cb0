/* What an owner process can no longer do, each thing tried before as the control; and what it must still be able to do. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/owner.h"

static char dir[] = "/tmp/bailey-rights-XXXXXX";

/* Each returns 0, or -1 with errno. */
static int raw_socket(void)
{
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1);

	return fd < 0 ? -1 : close(fd);
}

static int device_node(void)
{
	char path[64];

	(void)unlink(FMT(path, "%s/node", dir));
	return mknod(path, S_IFCHR | 0600, makedev(1, 3));
}

static int better_priority(void)
{
	return setpriority(PRIO_PROCESS, 0, -5);
}

/* Of another user, whose memory root alone may read. */
static int read_other(void)
{
	char path[64];
	int ends[2], r, error;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		if (setresuid(61234, 61234, 61234) == 0)
			(void)!write(ends[1], "x", 1);
		(void)pause();
		_exit(0);
	}
	(void)!read(ends[0], path, 1);
	r = open(FMT(path, "/proc/%d/mem", pid), O_RDONLY | O_CLOEXEC);
	error = errno;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
	if (r >= 0)
		(void)close(r);
	errno = error;
	return r < 0 ? -1 : 0;
}

static int load_module(void)
{
	/* not a module: with the right to load one that is what is said of it */
	return syscall(SYS_init_module, "", 0, "") < 0 && errno == ENOEXEC ? 0 : -1;
}

static int mounts(void)
{
	return unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
			mount("tmpfs", dir, "tmpfs", 0, NULL) < 0
		? -1
		: umount(dir);
}

static int other_files(void)
{
	char path[64];
	int fd = open(FMT(path, "%s/file", dir), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || fchown(fd, 61234, 61234) < 0 || fchmod(fd, 02750) < 0)
		return -1;
	(void)close(fd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -1 : close(fd);
}

static int other_process(void)
{
	int ends[2], r;
	pid_t pid;
	char b;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		if (setgroups(0, NULL) == 0 && setresgid(61234, 61234, 61234) == 0 &&
			setresuid(61234, 61234, 61234) == 0)
			(void)!write(ends[1], "x", 1);
		(void)close(ends[1]);
		(void)pause();
		_exit(0);
	}
	(void)close(ends[1]);
	r = read(ends[0], &b, 1) == 1 ? kill(pid, SIGKILL) : -1;
	(void)close(ends[0]);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return r;
}

static int leave_root(void)
{
	return chroot(dir);
}

struct trial {
	const char *name;
	int (*try)(void);
};

static const struct trial lost[] = {
	{ "a raw socket", raw_socket },
	{ "a device node", device_node },
	{ "a better priority", better_priority },
	{ "the memory of another user's process", read_other },
	{ "a module", load_module },
};

static const struct trial kept[] = {
	{ "mounts", mounts },
	{ "files of other users", other_files },
	{ "processes of other users", other_process },
	{ "a root directory", leave_root },
};

/* In a process of its own: 0, or the errno. */
static int outcome(const struct trial *t, bool restricted)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct err e = ERR_INIT;

		if (restricted && owner_drop_rights(true, &e) < 0)
			_exit(255);
		_exit(t->try() == 0 ? 0 : errno);
	}
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

static void test_what_is_lost(void **state)
{
	unsigned tried = 0;

	(void)state;
	for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
		int r = outcome(&lost[i], false);

		/* in a container it may be gone already */
		if (r != 0) {
			print_message("not tried: %s: errno %d outside\n", lost[i].name, r);
			continue;
		}
		tried++;
		r = outcome(&lost[i], true);
		if (r != EPERM && r != EACCES)
			fail_msg("%s: errno %d", lost[i].name, r);
	}
	assert_true(tried > 0);
}

static void test_what_is_kept(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (outcome(&kept[i], false) == 0 && outcome(&kept[i], true) != 0)
			fail_msg("%s: errno %d", kept[i].name, outcome(&kept[i], true));
}

static uint64_t caps(const char *which)
{
	char text[8192];
	const char *p;

	assert_true(read_file_at(AT_FDCWD, "/proc/self/status", text, sizeof text) > 0);
	p = strstr(text, which);
	assert_non_null(p);
	return strtoull(p + strlen(which), NULL, 16);
}

static int exec_status(void)
{
	const char *line = "test $(sed -n 's/^CapEff:.//p' /proc/self/status) = $0";
	char want[32];

	FMT(want, "%016llx", (unsigned long long)caps("\nCapEff:\t"));
	return execl("/bin/sh", "sh", "-c", line, want, (char *)NULL);
}

/* A program that the restricted process executes has what it has; one before that has all that root has. */
static void test_nothing_comes_back(void **state)
{
	const struct trial program = { "a program", exec_status };
	const uint64_t before = caps("\nCapEff:\t");
	int ends[2];
	pid_t pid;
	uint64_t got[3] = { 0 };

	(void)state;
	assert_int_equal(outcome(&program, false), 0);
	assert_int_equal(outcome(&program, true), 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct err e = ERR_INIT;

		if (owner_drop_rights(true, &e) == 0) {
			got[0] = caps("\nCapEff:\t");
			got[1] = caps("\nCapBnd:\t");
			got[2] = caps("\nNoNewPrivs:\t");
		}
		_exit(write_all(ends[1], got, sizeof got) != 0);
	}
	assert_int_equal(read(ends[0], got, sizeof got), sizeof got);
	(void)waitpid(pid, NULL, 0);
	assert_true(got[0] && got[0] != before && (got[0] & ~before) == 0);
	assert_int_equal(got[1] & ~got[0] & before, 0);
	assert_int_equal(got[2], 1);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_lost),
		cmocka_unit_test(test_what_is_kept),
		cmocka_unit_test(test_nothing_comes_back),
	};
	int r;

	if (geteuid() != 0) {
		(void)fprintf(stderr, "only root has rights to give up\n");
		return 77;
	}
	if (!mkdtemp(dir))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	for (size_t i = 0; i < 2; i++) {
		char path[64];

		(void)unlink(FMT(path, "%s/%s", dir, i ? "node" : "file"));
	}
	(void)rmdir(dir);
	return r;
}
