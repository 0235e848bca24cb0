/* Tests of the audit log: the line's form, the chain, what tampering shows, writers side by side, killed and without space. */
#include "store/audit.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "store/chain.h"
#include "store/files.h"

static char root[] = "/tmp/audit_test.XXXXXX";
static char path[64];
static struct err e;

static int make_home(void **state)
{
	(void)state;
	if (!mkdtemp(root) || setenv("BAILEY_HOME", root, 1) < 0)
		return -1;
	FMT(path, "%s/" AUDIT_NAME, root);
	return 0;
}

static int clear(void **state)
{
	char name[96];

	(void)state;
	err_done(&e);
	audit_file_bytes = AUDIT_FILE_BYTES;
	(void)unlink(path);
	for (unsigned i = 1; i < 40; i++) {
		FMT(name, "%s/" AUDIT_FULL, root, i);
		(void)unlink(name);
	}
	return 0;
}

static int remove_home(void **state)
{
	(void)clear(state);
	return rmdir(root);
}

static int put(uint64_t count)
{
	return audit_task_sandbox_cleanup_failed("anna",
		&(struct audit_task_sandbox_cleanup_failed){
			.reason = "list_invalid", .count = count, .runtime = "docker" },
		&e);
}

static char *text_of(const char *name)
{
	static char text[1 << 20];

	assert_true(read_file_at(AT_FDCWD, name, text, sizeof text) >= 0);
	return text;
}

static void write_text(const char *text, size_t n)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(write_all(fd, text, n), 0);
}

static struct audit_report verified(void)
{
	struct audit_report r;

	if (audit_verify(&r, &e) < 0)
		fail_msg("%s", e.message);
	return r;
}

static void assert_broken(const char *at)
{
	struct audit_report r;

	assert_int_equal(audit_verify(&r, &e), -1);
	assert_int_equal(e.reason, R_AUDIT_BROKEN);
	if (!strstr(e.message, at))
		fail_msg("'%s' is not in '%s'", at, e.message);
	err_done(&e);
}

static void test_line(void **state)
{
	char *text, hash[AUDIT_HASH + 1], *hashed;
	struct audit_report r;
	struct stat st;

	(void)state;
	assert_int_equal(put(3), 0);
	text = text_of(path);
	assert_non_null(str_after(text, "{\"seq\":1,\"time\":\"2"));
	assert_non_null(strstr(text,
		",\"severity\":\"warning\",\"event\":\"task_sandbox_cleanup_failed\",\"agent_id\":\"anna\","
		"\"details\":{\"reason\":\"list_invalid\",\"count\":3,\"runtime\":\"docker\"},"
		"\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"hash\":\""));
	hashed = strstr(text, ",\"hash\"");
	audit_digest(text, (size_t)(hashed - text), hash);
	assert_memory_equal(hash, hashed + 9, AUDIT_HASH);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	r = verified();
	assert_int_equal(r.lines, 1);
	assert_memory_equal(r.last_hash, hash, AUDIT_HASH);
}

/* FIPS 180-4's example */
static void test_digest(void **state)
{
	char hash[AUDIT_HASH + 1];

	(void)state;
	audit_digest("abc", 3, hash);
	assert_string_equal(
		hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void test_absent_and_escaped(void **state)
{
	(void)state;
	assert_int_equal(verified().lines, 0);
	assert_int_equal(
		audit_task_sandbox_cleanup_failed(NULL,
			&(struct audit_task_sandbox_cleanup_failed){ .reason = "a\"\n{}\x1b" }, &e),
		0);
	assert_non_null(strstr(text_of(path),
		"\"event\":\"task_sandbox_cleanup_failed\",\"details\":{\"reason\":\"a\\\"\\n{}\\u001b\",\"count\":0},"));
	assert_int_equal(verified().lines, 1);
}

static void test_tampering(void **state)
{
	char kept[8192], changed[8192], *second;
	size_t n;

	(void)state;
	for (unsigned i = 1; i <= 4; i++)
		assert_int_equal(put(i), 0);
	FMT(kept, "%s", text_of(path));
	n = strlen(kept);
	/* any byte of any line but the last newline: changed, it is found */
	for (size_t i = 0; i + 1 < n; i += 7) {
		memcpy(changed, kept, n);
		changed[i] ^= 1;
		write_text(changed, n);
		assert_broken("line ");
	}
	second = strchr(kept, '\n') + 1;
	write_text(second, strlen(second)); /* the first taken out */
	assert_broken("line 1: its number");
	FMT(changed, "%.*s%s", (int)(second - kept), kept, kept); /* the first put in twice */
	write_text(changed, strlen(changed));
	assert_broken("line 2: its number");
	write_text(kept, n);
	assert_int_equal(verified().lines, 4);
	assert_int_equal(put(5), 0);
	assert_int_equal(verified().last_seq, 5);
}

/* A line with a right hash of its own, but of another history. */
static void test_other_history(void **state)
{
	char first[4096];

	(void)state;
	assert_int_equal(put(1), 0);
	FMT(first, "%s", text_of(path));
	(void)unlink(path);
	assert_int_equal(put(2), 0);
	assert_int_equal(put(3), 0);
	{
		const char *second = strchr(text_of(path), '\n') + 1;
		char both[8192];

		FMT(both, "%s%s", first, second);
		write_text(both, strlen(both));
	}
	assert_broken("line 2: it does not follow");
}

static void test_torn(void **state)
{
	struct audit_report r;
	int fd;

	(void)state;
	assert_int_equal(put(1), 0);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write_all(fd, "{\"seq\":2,\"ti", 12), 0);
	(void)close_fd(fd);
	r = verified(); /* its writer may still be at it */
	assert_int_equal(r.lines, 1);
	assert_int_equal(put(2), 0);
	assert_non_null(strstr(text_of(path), "\"audit_recovered\",\"details\":{\"bytes\":12}"));
	r = verified();
	assert_int_equal(r.lines, 3);
	assert_int_equal(r.recovered, 1);
	/* a line that is none of ours and that nobody owns up to */
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write_all(fd, "garbage\n", 8), 0);
	assert_int_equal(put(3), -1);
	assert_int_equal(e.reason, R_AUDIT_BROKEN);
	err_done(&e);
	(void)close_fd(fd);
}

static void test_only_torn(void **state)
{
	(void)state;
	write_text("{\"se", 4);
	assert_int_equal(put(1), 0);
	assert_int_equal(verified().lines, 2);
}

static void test_next_file(void **state)
{
	char name[96];
	struct audit_report r;

	(void)state;
	audit_file_bytes = 1500;
	for (unsigned i = 1; i <= 20; i++)
		assert_int_equal(put(i), 0);
	r = verified();
	assert_true(r.files > 4);
	assert_int_equal(r.last_seq, r.lines);
	assert_true(r.lines > 23);
	FMT(name, "%s/" AUDIT_FULL, root, 2u);
	assert_int_equal(unlink(name), 0);
	assert_broken("file 'security_audit.000002.jsonl' is missing");
}

static void test_side_by_side(void **state)
{
	struct audit_report r;
	int status;

	(void)state;
	audit_file_bytes = 8000;
	for (unsigned i = 0; i < 6; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (unsigned k = 0; k < 25; k++)
				if (put(k) < 0)
					_exit(1);
			_exit(0);
		}
		assert_true(pid > 0);
	}
	for (unsigned i = 0; i < 6; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	r = verified();
	assert_int_equal(r.lines - (r.files - 1), 150);
	assert_int_equal(r.recovered, 0);
}

static void test_killed(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				(void)put(i);
		(void)usleep(2000);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	assert_int_equal(put(99), 0);
	(void)verified();
}

static void test_no_space(void **state)
{
	struct rlimit small = { 0, RLIM_INFINITY };
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };

	(void)state;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(put(1), 0);
	small.rlim_cur = strlen(text_of(path)) + 100;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(put(2), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(e.reason, R_DISK_FULL);
	err_done(&e);
	assert_int_equal(verified().lines, 1);
	assert_int_equal(put(2), 0);
	assert_int_equal(verified().lines, 2);
}

static void test_in_its_place(void **state)
{
	char link_to[96];

	(void)state;
	FMT(link_to, "%s/elsewhere", root);
	assert_int_equal(symlink(link_to, path), 0);
	assert_int_equal(put(1), -1);
	assert_int_equal(e.reason, R_STATE_UNWRITABLE);
	err_done(&e);
	assert_int_equal(access(link_to, F_OK), -1);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(put(1), -1);
	assert_int_equal(e.reason, R_AUDIT_BROKEN);
}

static void test_held(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(put(1), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(put(2), -1);
	assert_int_equal(e.reason, R_BUSY);
	(void)close_fd(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_digest, clear),
		cmocka_unit_test_teardown(test_line, clear),
		cmocka_unit_test_teardown(test_absent_and_escaped, clear),
		cmocka_unit_test_teardown(test_tampering, clear),
		cmocka_unit_test_teardown(test_other_history, clear),
		cmocka_unit_test_teardown(test_torn, clear),
		cmocka_unit_test_teardown(test_only_torn, clear),
		cmocka_unit_test_teardown(test_next_file, clear),
		cmocka_unit_test_teardown(test_side_by_side, clear),
		cmocka_unit_test_teardown(test_killed, clear),
		cmocka_unit_test_teardown(test_no_space, clear),
		cmocka_unit_test_teardown(test_in_its_place, clear),
		cmocka_unit_test_teardown(test_held, clear),
	};

	return cmocka_run_group_tests(tests, make_home, remove_home);
}
