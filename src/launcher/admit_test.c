/* Tests of admission that want no sandbox: what is looked up and compared, in a home made for it. */
#include "launcher/admit.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher/chain.h"
#include "launcher/forbidden.h"
#include "launcher/sockets.h"

static char root[] = "/tmp/admit_test.XXXXXX";
static char text[PATH_MAX];

static const char *in_root(const char *name)
{
	return FMT(text, "%s/%s", root, name);
}

static int make_tree(void **state)
{
	static const char *const dirs[] = { "me/.config/gh", "me/project/src", "me/.config/other",
		"me/.local" };
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	if (!mkdtemp(root))
		return -1;
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		if (make_dirs(in_root(dirs[i]), &e) < 0)
			return -1;
	return setenv("HOME", in_root("me"), 1) < 0 ||
			setenv("BAILEY_HOME", in_root("bailey"), 1) < 0
		? -1
		: 0;
}

static int remove_tree(void **state)
{
	static const char *const names[] = { "me/.config/gh", "me/.config/other", "me/.config",
		"me/.local", "me/project/src", "me/project", "me", "" };

	(void)state;
	admit_forget();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		(void)rmdir(in_root(names[i]));
	return access(root, F_OK) == 0 ? -1 : 0;
}

static enum reason admitted(const char *path, enum admit_use use, bool writable)
{
	const struct admit a = {
		.path = path, .use = use, .writable = writable, .allow_root_owned = true
	};
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int fd = -1;

	return admit_open(&a, &fd, &e) < 0 ? e.reason : REASON_NONE;
}

static void expect(const char *name, bool writable, enum reason want)
{
	enum reason got = admitted(in_root(name), ADMIT_MOUNT, writable);

	if (got != want)
		fail_msg("'%s': %s, not %s", text, reason_name(got), reason_name(want));
}

static void test_home(void **state)
{
	(void)state;
	expect("", false, R_MOUNT_FORBIDDEN);
	expect("me", false, R_MOUNT_FORBIDDEN);
	expect("me/.config", false, R_MOUNT_FORBIDDEN);
	expect("me/.config/gh", false, R_MOUNT_FORBIDDEN);
	expect("me/.config/other", false, REASON_NONE);
	expect("me/project", false, REASON_NONE);
	expect("me/project/src", true, REASON_NONE);
}

static void test_absent_counts_for_writers(void **state)
{
	(void)state;
	expect("me/.local", false, REASON_NONE);
	expect("me/.local", true, R_MOUNT_FORBIDDEN);
	expect("me/.config/other", true, REASON_NONE);
}

/* What is looked up is kept until it is forgotten. */
static void test_forget(void **state)
{
	(void)state;
	admit_forget();
	expect("me/.config/other", false, REASON_NONE);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", in_root("me/.config/other"), 1), 0);
	expect("me/.config/other", false, REASON_NONE);
	admit_forget();
	expect("me/.config/other", false, R_MOUNT_FORBIDDEN);
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	admit_forget();
}

/* The test itself may be started in a writable place: that is what is asked about. */
static void test_own_programs(void **state)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	_cleanup_close_ int dir = -1;
	struct forbidden *f = NULL;
	_cleanup_err_ struct err e = ERR_INIT;
	struct refusal r;
	struct chain c;

	(void)state;
	assert_true(n > 0);
	self[n] = '\0';
	dir = open_parent(self);
	assert_int_equal(chain_of(dir, &c), 0);
	assert_int_equal(forbidden_load(&f, &e), 0);
	assert_true(forbidden_directory(f, &c, true, &r));
	assert_true(r.writable_only);
	assert_false(forbidden_directory(f, &c, false, &r));
	forbidden_free(f);
}

static int bind_socket(const char *path, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	str_format(a.sun_path, sizeof a.sun_path, "%s", path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
	return fd;
}

static void connect_to(int fd, const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	str_format(a.sun_path, sizeof a.sun_path, "%s", path);
	assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof a), 0);
}

static void test_bound_sockets(void **state)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	char path[PATH_MAX];

	(void)state;
	str_format(path, sizeof path, "%s", in_root("me/project/src/s"));
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		int fd = bind_socket(path, types[i]);

		expect("me/project", false, R_MOUNT_FORBIDDEN);
		expect("me/project/src", false, R_MOUNT_FORBIDDEN);
		expect("me/.config/other", false, REASON_NONE);
		(void)close_fd(fd);
		expect("me/project", false, REASON_NONE);
		assert_int_equal(unlink(path), 0);
	}
}

/* What accept() returned carries the name too, but nobody can connect to it. */
static void test_accepted_connections(void **state)
{
	_cleanup_close_ int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), accepted = -1;
	char path[PATH_MAX];
	int listener;

	(void)state;
	str_format(path, sizeof path, "%s", in_root("me/project/src/s"));
	listener = bind_socket(path, SOCK_STREAM);
	assert_int_equal(listen(listener, 1), 0);
	connect_to(client, path);
	accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(accepted >= 0);
	expect("me/project", false, R_MOUNT_FORBIDDEN);
	(void)close_fd(listener);
	expect("me/project", false, REASON_NONE);
	assert_int_equal(unlink(path), 0);
}

static void test_deleted_directory(void **state)
{
	_cleanup_close_ int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_int_equal(mkdir(in_root("me/project/gone"), 0700), 0);
	assert_int_equal(chdir(text), 0);
	assert_int_equal(rmdir(text), 0);
	assert_int_equal(admitted(".", ADMIT_WORKSPACE, false), R_MOUNT_SOURCE_MISSING);
	assert_int_equal(mkdir(text, 0700), 0);
	assert_int_equal(admitted(".", ADMIT_WORKSPACE, false), R_MOUNT_SOURCE_MISSING);
	assert_int_equal(rmdir(text), 0);
	assert_int_equal(fchdir(back), 0);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(forbidden_name("/backup/them/.ssh"), ".ssh");
	assert_string_equal(forbidden_name("/backup/.aws/x"), ".aws");
	assert_null(forbidden_name("/backup/.sshd"));
	assert_null(forbidden_name("/backup/x.ssh"));
	assert_null(forbidden_name("/project/.claude/worktrees/x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_home),
		cmocka_unit_test(test_absent_counts_for_writers),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_own_programs),
		cmocka_unit_test(test_bound_sockets),
		cmocka_unit_test(test_accepted_connections),
		cmocka_unit_test(test_deleted_directory),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
