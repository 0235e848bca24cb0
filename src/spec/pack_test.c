/* Requests survive the way through a socket; damaged ones are refused without a descriptor left open. */
#include "spec/pack.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "spec/profile.h"

static char command_a[] = "sh", command_b[] = "-c", command_c[] = "echo \"x\"";
static char *const command[] = { command_a, command_b, command_c, NULL };

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void make(struct pack_request *r, char ***env)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct run_request *q = xcalloc(1, sizeof *q);

	memset(r, 0, sizeof *r);
	q->image_fd = open("/", O_PATH | O_CLOEXEC);
	q->tmp_size = 1 << 20;
	q->disk_bytes = 1 << 24;
	q->uid = q->gid = 1000;
	q->ttl_ms = 5000;
	q->limits = (struct spec_limits){ .memory_bytes = 1 << 28, .cpu_millis = 500, .pids = 77 };
	q->binds[0].fd = open("/tmp", O_PATH | O_CLOEXEC);
	q->binds[0].cow = true;
	FMT(q->binds[0].target, "/workspace");
	q->n_binds = 1;
	q->has_workspace = true;
	assert_int_equal(profile_create(&r->spec, q, env, &e), 0);
	free(q);
	FMT(r->name, "box");
	FMT(r->image, "some/image");
	FMT(r->workspace, "/srv/x\ny");
	r->keep = true;
	r->spool_max = 12345;
	r->command = command;
}

static void test_round_trip(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request a, b;
	struct stat st, want;
	char **env = NULL;
	int s[2];

	(void)state;
	make(&a, &env);
	a.spec.has_caller = true;
	a.spec.caller_uid = 1234;
	a.spec.caller_gid = 1235;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	assert_int_equal(pack_send(s[0], &a, &e), 0);
	assert_int_equal(pack_receive(s[1], &b, &e), 0);
	assert_string_equal(b.spec.id, a.spec.id);
	assert_string_equal(b.name, "box");
	assert_string_equal(b.image, "some/image");
	assert_string_equal(b.workspace, "/srv/x\ny");
	assert_true(b.keep);
	assert_int_equal(b.spool_max, 12345);
	assert_int_equal(b.spec.limits.pids, 77);
	assert_int_equal(b.spec.ttl_ms, 5000);
	assert_true(b.spec.has_caller);
	assert_int_equal(b.spec.caller_uid, 1234);
	assert_int_equal(b.spec.caller_gid, 1235);
	assert_int_equal(b.spec.n_binds, 1);
	assert_true(b.spec.binds[0].cow);
	assert_false(b.spec.binds[0].writable);
	assert_int_equal(b.spec.n_tmpfs, a.spec.n_tmpfs);
	assert_string_equal(b.spec.tmpfs[0].target, a.spec.tmpfs[0].target);
	assert_int_equal(b.spec.image_lock_fd, -1);
	assert_int_equal(fstat(b.spec.image_fd, &st), 0);
	assert_int_equal(stat("/", &want), 0);
	assert_int_equal(st.st_ino, want.st_ino);
	for (unsigned i = 0; a.spec.env[i]; i++)
		assert_string_equal(b.spec.env[i], a.spec.env[i]);
	for (unsigned i = 0; i < 4; i++)
		if (command[i])
			assert_string_equal(b.command[i], command[i]);
		else
			assert_null(b.command[i]);
	pack_done(&b);
	pack_done(&a);
	free(env);
	close(s[0]);
	close(s[1]);
}

/* What only profiles set. */
static void test_profile_fields(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request a, b;
	int fds[PACK_MAX_FDS];
	char **env = NULL;
	unsigned n;

	(void)state;
	make(&a, &env);
	a.spec.profile = SPEC_HANDOFF;
	a.spec.read_only = true;
	a.spec.init = true;
	a.spec.nofile = 4096;
	a.spec.add_caps = SPEC_HANDOFF_CAPS;
	a.spec.log_bytes = 20000000;
	a.spec.log_files = 2;
	a.spec.deadline_ms = 1234567890123;
	FMT(a.spec.image_ref, "bailey/agent:v1");
	FMT(a.spec.runtime, "runsc");
	FMT(a.spec.tid, "t-1");
	FMT(a.spec.model, "m/1");
	a.spec.binds[0].has_object = true;
	a.spec.binds[0].dev = 0x123456789a;
	a.spec.binds[0].ino = 0xfedcba9876;
	assert_int_equal(pack_put(&a, &out, fds, &n, &e), 0);
	for (unsigned i = 0; i < n; i++)
		fds[i] = dup(fds[i]);
	if (pack_get(out.data, out.len, fds, n, &b, &e) < 0)
		fail_msg("%s", e.message);
	assert_int_equal(b.spec.profile, SPEC_HANDOFF);
	assert_true(b.spec.init);
	assert_int_equal(b.spec.nofile, 4096);
	assert_int_equal(b.spec.add_caps, SPEC_HANDOFF_CAPS);
	assert_int_equal(b.spec.log_bytes, 20000000);
	assert_int_equal(b.spec.log_files, 2);
	assert_int_equal(b.spec.deadline_ms, 1234567890123);
	assert_string_equal(b.spec.image_ref, "bailey/agent:v1");
	assert_string_equal(b.spec.runtime, "runsc");
	assert_string_equal(b.spec.tid, "t-1");
	assert_string_equal(b.spec.model, "m/1");
	assert_true(b.spec.binds[0].has_object);
	assert_int_equal(b.spec.binds[0].dev, 0x123456789a);
	assert_int_equal(b.spec.binds[0].ino, 0xfedcba9876);
	pack_done(&b);
	pack_done(&a);
	free(env);
}

/* Cut anywhere, and with each byte changed: refused or valid, never a crash, never a descriptor lost. */
static void test_damaged(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request a, b;
	int fds[PACK_MAX_FDS];
	char **env = NULL;
	unsigned n, before, refused = 0;

	(void)state;
	make(&a, &env);
	assert_int_equal(pack_put(&a, &out, fds, &n, &e), 0);
	assert_int_equal(n, 2);
	before = open_fds();
	for (size_t i = 0; i < 2 * out.len; i++) {
		const size_t at = i % out.len;
		int copy[2] = { dup(fds[0]), dup(fds[1]) };
		const char byte = out.data[at];

		if (i >= out.len)
			out.data[at] = (char)(byte ^ 0x81);
		if (pack_get(out.data, i < out.len ? at : out.len, copy, 2, &b, &e) == 0) {
			pack_done(&b);
		} else {
			refused++;
			err_done(&e);
		}
		out.data[at] = byte;
	}
	assert_true(refused > out.len);
	assert_int_equal(open_fds(), before);
	/* a descriptor too few, one too many */
	for (unsigned k = 1; k <= 3; k += 2) {
		int copy[3] = { dup(fds[0]), dup(fds[1]), dup(fds[1]) };

		assert_int_equal(pack_get(out.data, out.len, copy, k, &b, &e), -1);
		assert_int_equal(e.reason, R_WIRE_MALFORMED);
		err_done(&e);
		for (unsigned i = k; i < 3; i++)
			close(copy[i]);
	}
	assert_int_equal(open_fds(), before);
	pack_done(&a);
	free(env);
}

static void test_names(void **state)
{
	(void)state;
	assert_true(pack_name_is_valid("a"));
	assert_true(pack_name_is_valid("0.b_c-d"));
	assert_false(pack_name_is_valid(""));
	assert_false(pack_name_is_valid(".a"));
	assert_false(pack_name_is_valid("A"));
	assert_false(pack_name_is_valid("a/b"));
	assert_false(pack_name_is_valid(
		"a123456789012345678901234567890123456789012345678901234567890123"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_profile_fields),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
