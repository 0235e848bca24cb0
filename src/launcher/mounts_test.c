/* Tests of the reading of mountinfo, and of what a mount in a chain means; the texts are as the kernel writes them. */
#include "launcher/mounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/str.h"

static const char info[] =
	"20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	"21 20 0:5 / /proc rw shared:2 master:1 - proc proc rw\n"
	"22 20 8:1 /srv/with\\040blank\\134 /mnt/a\\011b rw - ext4 /dev/sda1 rw\n"
	"23 20 8:1 /srv/them/.ssh /mnt/keys rw - ext4 /dev/sda1 rw\n"
	"24 20 0:40 / /mnt/other rw - fuse.sshfs me@there:/ rw\n";

static void load(struct mounts *m, const char *text)
{
	_cleanup_err_ struct err e = ERR_INIT;

	assert_true(buf_puts(&m->text, text));
	assert_int_equal(mounts_parse(m, &e), 0);
}

static void test_fields(void **state)
{
	_cleanup_mounts_ struct mounts m = MOUNTS_INIT;

	(void)state;
	load(&m, info);
	assert_int_equal(m.n, 5);
	assert_int_equal(m.v[1].id, 21);
	assert_string_equal(m.v[1].type, "proc");
	assert_string_equal(m.v[1].device, "0:5");
	assert_string_equal(m.v[2].root, "/srv/with blank\\");
	assert_string_equal(m.v[2].point, "/mnt/a\tb");
}

static void test_other_forms_fail(void **state)
{
	static const char *const bad[] = { "20 1 8:1 / / rw\n", "x 1 8:1 / / rw - a b c\n",
		"20 1 8:1 - ext4 a b\n" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		_cleanup_mounts_ struct mounts m = MOUNTS_INIT;
		_cleanup_err_ struct err e = ERR_INIT;

		assert_true(buf_puts(&m.text, bad[i]));
		assert_int_equal(mounts_parse(&m, &e), -1);
		assert_int_equal(e.reason, R_SETUP_FAILED);
	}
}

static void test_below(void **state)
{
	(void)state;
	assert_string_equal(below("/a/b/c", "/a"), "b/c");
	assert_string_equal(below("/a", "/a"), "");
	assert_null(below("/ab", "/a"));
	assert_null(below("/b", "/a"));
	assert_string_equal(below("/a/b", "/"), "a/b");
}

static bool refused(uint64_t mount, struct refusal *r)
{
	_cleanup_mounts_ struct mounts m = MOUNTS_INIT;
	static struct chain c;

	load(&m, info);
	/* an object, the root of a mount above it, the root of all; none of them exists */
	c = (struct chain){ .n = 3, .root = 2 };
	c.at[0] = (struct object){ .dev = 99, .ino = 1, .mount = mount };
	c.at[1] = (struct object){ .dev = 99, .ino = 2, .mount = mount, .mount_root = true };
	c.at[2] = (struct object){ .dev = 99, .ino = 3, .mount = 20, .mount_root = true };
	return mounts_add_aliases(&m, &c, r);
}

static void test_kernel_file_systems(void **state)
{
	struct refusal r = { .how = NULL };

	(void)state;
	assert_true(refused(21, &r));
	assert_non_null(strstr(r.how, "type"));
	assert_false(refused(24, &r));
	assert_false(refused(22, &r));
}

static void test_mount_of_keys_by_name(void **state)
{
	struct refusal r = { .how = NULL };

	(void)state;
	assert_true(refused(23, &r));
	assert_string_equal(r.path, ".ssh");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_other_forms_fail),
		cmocka_unit_test(test_below),
		cmocka_unit_test(test_kernel_file_systems),
		cmocka_unit_test(test_mount_of_keys_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
