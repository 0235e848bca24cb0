/* Layers over trees: the limits and owners that the shell suite can't set. */
#include "image/import/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "image/import/pack.h"
#include "image/walk.h"

static char dir[] = "/tmp/bailey-layer-test.XXXXXX";

static int setup(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	return remove_at(AT_FDCWD, dir, &e);
}

/* A tar of n small files f0, f1 ... that belong to uid. */
static int make_tar(int n, int64_t uid)
{
	_cleanup_err_ struct err e = ERR_INIT;
	int fd = memfd_create("tar", MFD_CLOEXEC);
	struct archive *a = pack_open(fd, &e);
	char name[32];

	assert_non_null(a);
	for (int i = 0; i < n; i++) {
		struct archive_entry *entry = archive_entry_new();

		archive_entry_set_pathname(entry, FMT(name, "f%d", i));
		archive_entry_set_filetype(entry, AE_IFREG);
		archive_entry_set_perm(entry, 04644);
		archive_entry_set_size(entry, 1);
		archive_entry_set_uid(entry, uid);
		assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
		assert_int_equal(archive_write_data(a, "x", 1), 1);
		archive_entry_free(entry);
	}
	assert_int_equal(pack_close(a, &e), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static int apply(int tar, struct limits *limits, struct layer_facts *facts, struct err *e)
{
	_cleanup_stream_ struct stream *s = NULL;
	_cleanup_close_ int fd = tar;
	int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	assert_true(root >= 0);
	assert_int_equal(stream_open(&s, fd, limits, e), 0);
	r = layer_apply(s, root, limits, facts, e);
	assert_int_equal(close(root), 0);
	return r;
}

static void entries_are_counted_over_all_layers(void **state)
{
	struct limits limits = { .max_bytes = 1 << 20, .entries = LIMIT_ENTRIES - 3 };
	struct layer_facts facts = { 0, 0, 0 };
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(apply(make_tar(3, 0), &limits, &facts, &e), 0);
	assert_int_equal(facts.setid, 3);
	assert_int_equal(apply(make_tar(1, 0), &limits, &facts, &e), -1);
	assert_int_equal(e.reason, R_ARCHIVE_TOO_LARGE);
}

static void bytes_are_counted_over_all_layers(void **state)
{
	struct limits limits = { .max_bytes = 1 << 20, .bytes = (1 << 20) - 3 };
	struct layer_facts facts = { 0, 0, 0 };
	_cleanup_err_ struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(apply(make_tar(3, 0), &limits, &facts, &e), 0);
	assert_int_equal(apply(make_tar(1, 0), &limits, &facts, &e), -1);
	assert_int_equal(e.reason, R_ARCHIVE_TOO_LARGE);
}

/* As root they are kept, so they must be ids that a sandbox can have; a user's files are the user's. */
static void owners_out_of_range_are_refused_where_they_are_kept(void **state)
{
	static const int64_t ids[] = { 65534, 65535, 4294967295 };
	char path[64];
	struct stat st;

	(void)state;
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		struct limits limits = { .max_bytes = 1 << 20 };
		struct layer_facts facts = { 0, 0, 0 };
		_cleanup_err_ struct err e = ERR_INIT;
		bool fits = geteuid() != 0 || ids[i] <= 65534;

		assert_int_equal(apply(make_tar(1, ids[i]), &limits, &facts, &e), fits ? 0 : -1);
		if (!fits)
			assert_int_equal(e.reason, R_ARCHIVE_REFUSED);
		assert_int_equal(stat(FMT(path, "%s/f0", dir), &st), 0);
		assert_int_equal(st.st_uid, geteuid() == 0 ? 65534 : geteuid());
		assert_int_equal(st.st_mode & 07777, 0644);
	}
}

static void a_layer_never_writes_through_a_shared_file(void **state)
{
	struct limits limits = { .max_bytes = 1 << 20 };
	struct layer_facts facts = { 0, 0, 0 };
	_cleanup_err_ struct err e = ERR_INIT;
	char path[64], other[64];
	struct stat before, after;

	(void)state;
	assert_int_equal(apply(make_tar(1, 0), &limits, &facts, &e), 0);
	assert_int_equal(link(FMT(path, "%s/f0", dir), FMT(other, "%s/other", dir)), 0);
	assert_int_equal(stat(other, &before), 0);
	assert_int_equal(apply(make_tar(1, 1), &limits, &facts, &e), 0);
	assert_int_equal(stat(other, &after), 0);
	assert_int_equal(after.st_nlink, 1);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_uid, before.st_uid);
	assert_true(after.st_mtim.tv_sec == before.st_mtim.tv_sec);
	assert_int_equal(stat(path, &after), 0);
	assert_int_not_equal(after.st_ino, before.st_ino);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_counted_over_all_layers),
		cmocka_unit_test(bytes_are_counted_over_all_layers),
		cmocka_unit_test(owners_out_of_range_are_refused_where_they_are_kept),
		cmocka_unit_test(a_layer_never_writes_through_a_shared_file),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
