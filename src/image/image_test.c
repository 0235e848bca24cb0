/* Records and held trees of src/image. */
#include "image/image.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char home[] = "/tmp/bailey-image-test.XXXXXX";

static void put(const char *path, const char *text, size_t n)
{
	char full[PATH_MAX];
	_cleanup_close_ int fd = open(FMT(full, "%s/images/%s", home, path),
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, text, n), 0);
}

static void make_dir(const char *path)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char full[PATH_MAX];

	assert_int_equal(make_dirs(FMT(full, "%s/images/%s", home, path), &e), 0);
}

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(home));
	make_dir("refs");
	make_dir("trees/" HEX "/root/srv");
	put("trees/" HEX "/lock", "", 0);
	return 0;
}

static int teardown(void **state)
{
	static const char *const paths[] = { "refs/one", "refs/bad", ("trees/" HEX "/lock") };
	static const char *const dirs[] = { "refs", ("trees/" HEX "/root/srv"),
		("trees/" HEX "/root"), ("trees/" HEX), "trees", "" };
	char full[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		(void)unlink(FMT(full, "%s/images/%s", home, paths[i]));
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		(void)rmdir(FMT(full, "%s/images/%s", home, dirs[i]));
	return rmdir(home);
}

static void fill(struct image *i)
{
	image_init(i);
	i->id = xstrdup("sha256:" HEX);
	i->chain = xstrdup("sha256:" HEX);
	i->size_bytes = UINT64_MAX;
	i->uid = 7;
	i->has_user = true;
	i->workdir = xstrdup("/srv");
	assert_true(image_list_add(&i->env, "A=one\ntwo\\three"));
	assert_true(image_list_add(&i->env, "B="));
	assert_true(image_list_add(&i->cmd, ""));
}

static void write_record(const char *name)
{
	_cleanup_image_ struct image i;
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[256];

	fill(&i);
	image_format(&i, &text);
	put(FMT(path, "refs/%s", name), text.data, text.len);
}

static void a_record_comes_back_as_it_was(void **state)
{
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	image_init(&i);
	write_record("one");
	assert_int_equal(image_open(home, "one", &i, &e), 0);
	assert_string_equal(i.name, "one");
	assert_string_equal(i.id, "sha256:" HEX);
	assert_true(i.size_bytes == UINT64_MAX);
	assert_true(i.has_user && !i.ids_kept);
	assert_int_equal(i.uid, 7);
	assert_int_equal(i.env.n, 2);
	assert_string_equal(i.env.v[0], "A=one\ntwo\\three");
	assert_string_equal(i.env.v[1], "B=");
	assert_null(i.env.v[2]);
	assert_int_equal(i.cmd.n, 1);
	assert_string_equal(i.cmd.v[0], "");
	assert_int_equal(i.entrypoint.n, 0);
	assert_string_equal(i.workdir, "/srv");
	assert_null(i.manifest);
	assert_true(i.root_fd >= 0);
}

static void open_locked(int how, int *ret)
{
	char full[PATH_MAX];

	*ret = open(FMT(full, "%s/images/trees/" HEX "/lock", home), O_RDWR | O_CLOEXEC);
	assert_true(*ret >= 0);
	assert_int_equal(flock(*ret, how | LOCK_NB), 0);
}

static void an_open_image_is_held(void **state)
{
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int lock = -1;
	char full[PATH_MAX];

	(void)state;
	image_init(&i);
	write_record("one");
	assert_int_equal(image_open(home, "one", &i, &e), 0);
	lock = open(FMT(full, "%s/images/trees/" HEX "/lock", home), O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), -1);
	image_done(&i);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
}

static void one_that_is_removed_is_busy(void **state)
{
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int lock = -1;

	(void)state;
	image_init(&i);
	write_record("one");
	open_locked(LOCK_EX, &lock);
	assert_int_equal(image_open(home, "one", &i, &e), -1);
	assert_int_equal(e.reason, R_BUSY);
}

static void names_are_checked(void **state)
{
	static const char *const bad[] = { "", "host", "a/b", "..", ".a", "-a", "a b", "a\n",
		"\xc3\xbc", "a%b", "bailey/", "bailey/../a", "bailey/a/b", "/bailey/a",
		"bailey%a" };
	static const char *const good[] = { "a", "debian:12", "A.b_c-d:e", "bailey/agent:v1",
		"bailey/host" };
	char longest[IMAGE_MAX_NAME + 1];

	(void)state;
	for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
		_cleanup_err_ struct err e = ERR_INIT;

		assert_int_equal(image_check_name(bad[n], &e), -1);
		assert_int_equal(e.reason, R_BAD_VALUE);
	}
	for (size_t n = 0; n < sizeof good / sizeof *good; n++) {
		_cleanup_err_ struct err e = ERR_INIT;

		assert_int_equal(image_check_name(good[n], &e), 0);
	}
	for (size_t n = IMAGE_MAX_NAME - 1; n <= IMAGE_MAX_NAME; n++) {
		_cleanup_err_ struct err e = ERR_INIT;

		memset(longest, 'a', n);
		longest[n] = '\0';
		assert_int_equal(image_check_name(longest, &e), n < IMAGE_MAX_NAME ? 0 : -1);
	}
}

static void ours_have_a_name_of_two_parts(void **state)
{
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT, none = ERR_INIT;
	char file[IMAGE_MAX_NAME], full[PATH_MAX], longest[IMAGE_MAX_NAME + 1];

	(void)state;
	image_init(&i);
	image_ref_file("bailey/agent:v1", file);
	write_record(file);
	assert_int_equal(image_open(home, "bailey/agent:v1", &i, &e), 0);
	assert_string_equal(i.name, "bailey/agent:v1");
	image_ref_name(file, full);
	assert_string_equal(full, "bailey/agent:v1");
	memset(longest, 'a', IMAGE_MAX_NAME);
	longest[IMAGE_MAX_NAME] = '\0';
	image_ref_name(longest, full);
	assert_string_equal(full, "");
	assert_int_equal(unlink(FMT(full, "%s/images/refs/%s", home, file)), 0);
	assert_int_equal(image_open(home, "bailey/agent:v1", &i, &e), -1);
	assert_int_equal(e.reason, R_IMAGE_NOT_FOUND);
	assert_non_null(strstr(err_get_remedy(&e), "bailey image build agent"));
	assert_int_equal(image_open(home, "agent", &i, &none), -1);
	assert_null(strstr(err_get_remedy(&none), "bailey image build agent"));
	err_done(&none);
}

static void expect_bad(const char *text, size_t n, enum reason reason)
{
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT;

	image_init(&i);
	put("refs/bad", text, n);
	assert_int_equal(image_open(home, "bad", &i, &e), -1);
	assert_int_equal(e.reason, reason);
}

static void a_damaged_record_is_an_error(void **state)
{
	static const char nul[] = "id sha256:" HEX "\nchain sha256:" HEX "\n\0user x\n";
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	expect_bad("", 0, R_STATE_UNWRITABLE);
	expect_bad("id", 2, R_STATE_UNWRITABLE);
	expect_bad(nul, sizeof nul - 1, R_STATE_UNWRITABLE);
	expect_bad("id sha256:" HEX "\n", 8 + 64 + 3, R_STATE_UNWRITABLE);
	expect_bad("chain sha256:../../etc\nid x\n", 27, R_STATE_UNWRITABLE);
	expect_bad("uid x\n", 6, R_STATE_UNWRITABLE);
	image_init(&i);
	assert_int_equal(image_open(home, "none", &i, &e), -1);
	assert_int_equal(e.reason, R_IMAGE_NOT_FOUND);
}

static void an_unknown_key_is_skipped(void **state)
{
	static const char text[] = "id sha256:" HEX "\nchain sha256:" HEX "\nlater than this x\n";
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	image_init(&i);
	put("refs/one", text, sizeof text - 1);
	assert_int_equal(image_open(home, "one", &i, &e), 0);
}

static void a_working_directory_that_is_not_there_is_none(void **state)
{
	static const char *const dirs[] = { "/none", "/home/agent", "/tmp", "/proc", "srv",
		"/srv/.." };

	(void)state;
	for (size_t n = 0; n < sizeof dirs / sizeof *dirs; n++) {
		_cleanup_image_ struct image i;
		_cleanup_err_ struct err e = ERR_INIT;
		_cleanup_buf_ struct buf text = BUF_INIT;

		fill(&i);
		free(i.workdir);
		i.workdir = xstrdup(dirs[n]);
		image_format(&i, &text);
		put("refs/one", text.data, text.len);
		assert_int_equal(image_open(home, "one", &i, &e), 0);
		if (streq(dirs[n], "/srv/.."))
			assert_non_null(i.workdir);
		else
			assert_null(i.workdir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_comes_back_as_it_was),
		cmocka_unit_test(an_open_image_is_held),
		cmocka_unit_test(one_that_is_removed_is_busy),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(ours_have_a_name_of_two_parts),
		cmocka_unit_test(a_damaged_record_is_an_error),
		cmocka_unit_test(an_unknown_key_is_skipped),
		cmocka_unit_test(a_working_directory_that_is_not_there_is_none),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
