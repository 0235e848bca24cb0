/* Tests of the log: the line's form, escaping, rotation, and that a lost line never fails the caller. */
#include "base/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"

static char root[] = "/tmp/log_test.XXXXXX";
static char path[64], old[64];

static int make_home(void **state)
{
	(void)state;
	if (!mkdtemp(root) || setenv("BAILEY_HOME", root, 1) < 0)
		return -1;
	FMT(path, "%s/log/bailey.jsonl", root);
	FMT(old, "%s/log/bailey.jsonl.1", root);
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(old);
	return 0;
}

static int remove_home(void **state)
{
	char logs[64];

	(void)remove_files(state);
	(void)rmdir(FMT(logs, "%s/log", root));
	return rmdir(root);
}

static char *read_log(const char *name)
{
	static char text[65536];

	return read_file_at(AT_FDCWD, name, text, sizeof text) < 0 ? NULL : text;
}

static void test_line_form(void **state)
{
	_cleanup_free_ char *where = NULL, *want = NULL;
	_cleanup_err_ struct err e = ERR_INIT;
	char *text;

	(void)state;
	log_event(LOG_WARNING, "run.end", "id", "b1", "none", NULL, "quote", "a\"\n\x1b", NULL);
	assert_int_equal(log_path(&where, &e), 0);
	assert_string_equal(where, path);
	text = read_log(path);
	assert_non_null(text);
	/* {"time":"2026-01-02T03:04:05.678Z", */
	assert_int_equal(strspn(text + 9, "0123456789-T:.Z"), 24);
	want = xasprintf(
		"\",\"level\":\"warning\",\"event\":\"run.end\",\"pid\":%d,\"id\":\"b1\",\"none\":null,"
		"\"quote\":\"a\\\"\\n\\u001b\"}\n",
		getpid());
	assert_string_equal(text + 9 + 24, want);
}

static void test_file_is_private(void **state)
{
	struct stat st;

	(void)state;
	log_event(LOG_INFO, "x", NULL);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_lines_append(void **state)
{
	const char *text;
	unsigned lines = 0;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		log_event(LOG_DEBUG, "x", NULL);
	text = read_log(path);
	assert_non_null(text);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 10);
}

static void grow(off_t size)
{
	_cleanup_close_ int fd = -1;

	log_event(LOG_INFO, "first", NULL);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, size), 0);
}

static void test_full_log_is_rotated(void **state)
{
	struct stat st;

	(void)state;
	grow(LOG_MAX_BYTES);
	log_event(LOG_INFO, "last of the old", NULL);
	assert_int_equal(stat(old, &st), 0);
	assert_true(st.st_size > LOG_MAX_BYTES);
	assert_int_equal(access(path, F_OK), -1);
	log_event(LOG_INFO, "first of the new", NULL);
	assert_non_null(strstr(read_log(path), "first of the new"));
}

static void test_only_one_old_file_is_kept(void **state)
{
	char third[80];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		grow(LOG_MAX_BYTES);
		log_event(LOG_INFO, "x", NULL);
	}
	assert_int_equal(access(old, F_OK), 0);
	assert_int_equal(access(FMT(third, "%s.1", old), F_OK), -1);
	assert_int_equal(access(FMT(third, "%s/log/bailey.jsonl.2", root), F_OK), -1);
}

static void test_below_the_maximum_stays(void **state)
{
	(void)state;
	grow(LOG_MAX_BYTES / 2);
	log_event(LOG_INFO, "x", NULL);
	assert_int_equal(access(old, F_OK), -1);
}

/* What lies there instead of the log is not followed and not replaced; the caller goes on. */
static void test_link_is_not_followed(void **state)
{
	char target[64];

	(void)state;
	log_event(LOG_INFO, "makes the directory", NULL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(FMT(target, "%s/target", root), path), 0);
	log_event(LOG_INFO, "x", NULL);
	assert_int_equal(access(target, F_OK), -1);
}

static void put_aside(const char *as)
{
	char logs[64];

	log_event(LOG_INFO, "makes the directory", NULL);
	assert_int_equal(rename(FMT(logs, "%s/log", root), as), 0);
}

/* Whoever could replace the directory would otherwise choose where the owner writes. */
static void test_link_for_the_directory_is_not_followed(void **state)
{
	char aside[64], logs[64], file[80];

	(void)state;
	put_aside(FMT(aside, "%s/aside", root));
	assert_int_equal(unlink(FMT(file, "%s/bailey.jsonl", aside)), 0);
	assert_int_equal(symlink("aside", FMT(logs, "%s/log", root)), 0);
	log_event(LOG_INFO, "x", NULL);
	assert_int_equal(access(file, F_OK), -1);
	assert_int_equal(unlink(logs), 0);
	assert_int_equal(rmdir(aside), 0);
}

static void test_directory_of_another_is_not_used(void **state)
{
	char logs[64];

	(void)state;
	if (geteuid() != 0)
		skip();
	log_event(LOG_INFO, "makes the directory", NULL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(chown(FMT(logs, "%s/log", root), 12345, 12345), 0);
	log_event(LOG_INFO, "x", NULL);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(rmdir(logs), 0);
}

/* A second name could be that of any file on the file system. */
static void test_second_name_is_not_written(void **state)
{
	char other[64];
	struct stat st;

	(void)state;
	log_event(LOG_INFO, "makes the directory", NULL);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(link(path, FMT(other, "%s/other", root)), 0);
	log_event(LOG_INFO, "x", NULL);
	assert_int_equal(stat(other, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(unlink(other), 0);
}

static void test_pipe_does_not_block(void **state)
{
	(void)state;
	log_event(LOG_INFO, "makes the directory", NULL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	(void)alarm(10);
	log_event(LOG_INFO, "x", NULL);
	(void)alarm(0);
}

static void test_more_fields_than_the_maximum(void **state)
{
	const char *text;

	(void)state;
	log_event(LOG_INFO, "x", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8",
		"", "9", "", "10", "", "11", "", "12", "", "13", "", NULL);
	text = read_log(path);
	assert_non_null(strstr(text, "\"12\":\"\"}"));
	assert_null(strstr(text, "\"13\""));
}

static void test_level_names(void **state)
{
	(void)state;
	assert_string_equal(log_level_name(LOG_DEBUG), "debug");
	assert_string_equal(log_level_name(LOG_ERROR), "error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_line_form, remove_files),
		cmocka_unit_test_teardown(test_file_is_private, remove_files),
		cmocka_unit_test_teardown(test_lines_append, remove_files),
		cmocka_unit_test_teardown(test_full_log_is_rotated, remove_files),
		cmocka_unit_test_teardown(test_only_one_old_file_is_kept, remove_files),
		cmocka_unit_test_teardown(test_below_the_maximum_stays, remove_files),
		cmocka_unit_test_teardown(test_link_is_not_followed, remove_files),
		cmocka_unit_test_teardown(
			test_link_for_the_directory_is_not_followed, remove_files),
		cmocka_unit_test_teardown(test_directory_of_another_is_not_used, remove_files),
		cmocka_unit_test_teardown(test_second_name_is_not_written, remove_files),
		cmocka_unit_test_teardown(test_pipe_does_not_block, remove_files),
		cmocka_unit_test_teardown(test_more_fields_than_the_maximum, remove_files),
		cmocka_unit_test(test_level_names),
	};

	return cmocka_run_group_tests(tests, make_home, remove_home);
}
