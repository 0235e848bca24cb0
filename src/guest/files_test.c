/* A session's requests about files, against the real program. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/archive.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest/play_test.h"

static struct play p;
static uint32_t next = 1;

static int start(void **state)
{
	(void)state;
	play_start(&p, PLAY_OWN_UID);
	play_connect(&p, 0);
	next = 1;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	play_stop(&p);
	return 0;
}

/* Asks on a stream of its own; the result is there when it returns. */
#define ASK(name, ...) \
	(__extension__({ \
		PLAY_SEND(&p, name, .stream = ++next, __VA_ARGS__); \
		play_until_result(&p, next); \
	}))
#define AT(name) PLAY_PATH(&p, name)

/* --- small ones --- */

static void a_file_is_described(void **state)
{
	const struct seen *s;

	(void)state;
	play_host(&p,
		"printf 12345 > f; chmod 640 f; ln -s f link; ln f hard; mkdir d; mkfifo fifo; "
		"touch -d @1000000000.5 f");
	s = ASK(stat, AT("f"));
	assert_true(s->stated);
	assert_int_equal(s->stat.mode, S_IFREG | 0640);
	assert_int_equal(s->stat.size, 5);
	assert_int_equal(s->stat.links, 2);
	assert_int_equal(s->stat.uid, p.uid);
	assert_int_equal(s->stat.mtime_ns, 1000000000500000000);
	s = ASK(stat, AT("link"));
	assert_true(S_ISLNK(s->stat.mode));
	assert_string_equal(s->target, "f");
	s = ASK(stat, AT("link"), .flags = WIRE_FILE_FOLLOW);
	assert_true(S_ISREG(s->stat.mode));
	s = ASK(stat, AT("fifo"));
	assert_true(S_ISFIFO(s->stat.mode));
	s = ASK(stat, AT("none"));
	assert_false(s->stated);
	assert_int_equal(s->answer.error, ENOENT);
	assert_int_equal(ASK(stat, AT("f/x"))->answer.error, ENOTDIR);
	play_host(&p, "chmod 0 d");
	assert_int_equal(ASK(stat, AT("d/x"))->answer.error, EACCES);
}

static void a_directory_is_made(void **state)
{
	(void)state;
	assert_int_equal(ASK(mkdir, AT("a"), .mode = 0777)->answer.error, 0);
	assert_int_equal(ASK(mkdir, AT("a"), .mode = 0777)->answer.error, EEXIST);
	assert_int_equal(
		ASK(mkdir, AT("a"), .mode = 0700, .flags = WIRE_FILE_PARENTS)->answer.error, 0);
	assert_int_equal(ASK(mkdir, AT("b/c/d"), .mode = 0750)->answer.error, ENOENT);
	assert_int_equal(
		ASK(mkdir, AT("b/c/d/"), .mode = 0750, .flags = WIRE_FILE_PARENTS)->answer.error,
		0);
	play_host(&p,
		"test $(stat -c %a a) = 777; test $(stat -c %a b/c) = 755; "
		"test $(stat -c %a b/c/d) = 750; touch f");
	assert_int_equal(
		ASK(mkdir, AT("f"), .mode = 0750, .flags = WIRE_FILE_PARENTS)->answer.error,
		EEXIST);
	assert_int_equal(ASK(mkdir, AT("a/.."), .mode = 0750)->answer.error, EINVAL);
	assert_int_equal(
		ASK(mkdir, .rest = (const uint8_t *)"/", .rest_len = 1)->answer.error, EEXIST);
}

static void a_file_is_renamed(void **state)
{
	char both[8192];
	uint32_t n;

	(void)state;
	play_host(&p, "echo 1 > a; echo 2 > b");
	n = (uint32_t)strlen(play_path(&p, "a")) + 1;
	memcpy(both, play_path(&p, "a"), n);
	memcpy(both + n, play_path(&p, "b"), n - 1);
	assert_int_equal(ASK(rename, .rest = (uint8_t *)both, .rest_len = 2 * n - 1,
				 .flags = WIRE_FILE_EXCLUSIVE)
				 ->answer.error,
		EEXIST);
	assert_int_equal(
		ASK(rename, .rest = (uint8_t *)both, .rest_len = 2 * n - 1)->answer.error, 0);
	play_host(&p, "test $(cat b) = 1; test ! -e a");
	assert_int_equal(
		ASK(rename, .rest = (uint8_t *)both, .rest_len = 2 * n - 1)->answer.error, ENOENT);
}

static void a_tree_is_removed_and_no_link_is_followed(void **state)
{
	(void)state;
	play_host(&p,
		"mkdir -p keep/x t/a/b/c t/empty; echo 1 > keep/x/f; ln -s ../keep t/link; "
		"ln -s ../../keep/x t/a/link; i=0; while [ $i -lt 700 ]; do "
		"mkdir t/d$i; : > t/d$i/f; : > t/a/f$i; i=$((i+1)); done");
	assert_int_equal(ASK(remove, AT("t"))->answer.error, ENOTEMPTY);
	assert_int_equal(ASK(remove, AT("t/empty"))->answer.error, 0);
	assert_int_equal(ASK(remove, AT("t"), .flags = WIRE_FILE_RECURSIVE)->answer.error, 0);
	assert_int_equal(play_seen(&p, next)->answer.value, 700 * 3 + 6);
	play_host(&p, "test ! -e t; test $(cat keep/x/f) = 1; ln -s keep l");
	assert_int_equal(ASK(remove, AT("l"), .flags = WIRE_FILE_RECURSIVE)->answer.error, 0);
	assert_int_equal(ASK(remove, AT("none"))->answer.error, ENOENT);
	assert_int_equal(
		ASK(remove, AT("keep/.."), .flags = WIRE_FILE_RECURSIVE)->answer.error, EINVAL);
	play_host(&p, "test $(cat keep/x/f) = 1; mkdir -p no/sub/x; chmod 555 no/sub");
	assert_int_equal(ASK(remove, AT("no"), .flags = WIRE_FILE_RECURSIVE)->answer.error, EACCES);
	play_host(&p, "chmod 755 no/sub");
}

static void a_deep_tree_is_removed(void **state)
{
	(void)state;
	play_host(&p,
		"i=0; mkdir deep; cd deep; while [ $i -lt 300 ]; do mkdir d; cd d; : > f; i=$((i+1)); done");
	assert_int_equal(ASK(remove, AT("deep"), .flags = WIRE_FILE_RECURSIVE)->answer.error, 0);
	play_host(&p, "test ! -e deep");
}

/* --- reading and writing --- */

static void a_window_of_a_file_is_read(void **state)
{
	const struct seen *s;

	(void)state;
	play_host(&p, "seq 1000000 > f; mkfifo fifo; mkdir d; ln -s f link");
	s = ASK(read, AT("link"), .offset = 2, .length = 7);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 7);
	assert_true(s->eof[0]);
	assert_memory_equal(s->data[0].data, "2\n3\n4\n5", 7);
	s = ASK(read, AT("f"));
	assert_int_equal(s->data[0].len, 6888896);
	assert_memory_equal(s->data[0].data + 6888888, "1000000\n", 8);
	s = ASK(read, AT("f"), .offset = 100000000);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->data[0].len, 0);
	assert_true(s->eof[0]);
	/* nothing waits, and no device is touched */
	assert_int_equal(ASK(read, AT("fifo"))->answer.error, EINVAL);
	assert_int_equal(ASK(read, AT("d"))->answer.error, EISDIR);
	assert_int_equal(
		ASK(read, .rest = (const uint8_t *)"/dev/zero", .rest_len = 9)->answer.error,
		EINVAL);
	/* a file without a size */
	s = ASK(read, .rest = (const uint8_t *)"/proc/version", .rest_len = 13);
	assert_int_equal(s->answer.error, 0);
	assert_memory_equal(s->data[0].data, "Linux", 5);
	if (!geteuid())
		assert_int_equal(ASK(read, .rest = (const uint8_t *)"/etc/shadow", .rest_len = 11)
					 ->answer.error,
			EACCES);
}

#define BEGIN_WRITE(...) PLAY_SEND(&p, write, .stream = ++next, __VA_ARGS__)

static void a_file_is_written_whole_or_not_at_all(void **state)
{
	_cleanup_free_ char *big = xcalloc(1, 3000000);

	(void)state;
	play_host(&p, "echo old > f; chmod 600 f; ln -s /nowhere link; mkdir d; mkfifo fifo");
	BEGIN_WRITE(AT("f"), .mode = 0644);
	play_data(&p, next, "new\n", 4);
	play_host(&p, "test $(cat f) = old; test $(ls -A | grep -c ^.bailey-) = 1");
	play_eof(&p, next, 4);
	assert_int_equal(play_until_result(&p, next)->answer.error, 0);
	assert_int_equal(play_seen(&p, next)->answer.value, 4);
	play_host(&p, "test $(cat f) = new; test $(stat -c %a f) = 600; ! ls -A | grep ^.bailey-");
	/* given up in the middle: nothing is left */
	BEGIN_WRITE(AT("f"), .mode = 0644);
	play_data(&p, next, big, 100000);
	play_close(&p, next);
	(void)ASK(stat, AT("f"));
	play_host(&p, "test $(cat f) = new; ! ls -A | grep ^.bailey-");
	/* a link is replaced, not followed */
	BEGIN_WRITE(AT("link"), .mode = 0751);
	play_data(&p, next, big, 3000000);
	play_eof(&p, next, 3000000);
	assert_int_equal(play_until_result(&p, next)->answer.error, 0);
	play_host(&p, "test ! -L link; test $(stat -c %s,%a link) = 3000000,751");
	BEGIN_WRITE(AT("x/y/z"), .mode = 0644);
	assert_int_equal(play_until_result(&p, next)->answer.error, ENOENT);
	BEGIN_WRITE(AT("x/y/z"), .mode = 0644, .flags = WIRE_FILE_PARENTS);
	play_eof(&p, next, 0);
	assert_int_equal(play_until_result(&p, next)->answer.error, 0);
	play_host(&p, "test -f x/y/z");
}

static void a_write_that_cannot_be_is_told_at_once(void **state)
{
	static const char much[60000];
	uint32_t stream;

	(void)state;
	play_host(&p, "echo old > f; mkdir d; mkfifo fifo; mkdir ro; chmod 555 ro");
	BEGIN_WRITE(AT("f"), .flags = WIRE_FILE_EXCLUSIVE);
	assert_int_equal(play_until_result(&p, next)->answer.error, EEXIST);
	BEGIN_WRITE(AT("d"));
	assert_int_equal(play_until_result(&p, next)->answer.error, EISDIR);
	BEGIN_WRITE(AT("fifo"));
	assert_int_equal(play_until_result(&p, next)->answer.error, EINVAL);
	BEGIN_WRITE(AT("ro/f"));
	assert_int_equal(play_until_result(&p, next)->answer.error, EACCES);
	/* what the host sends all the same is taken */
	stream = next;
	for (int i = 0; i < 200; i++)
		play_data(&p, stream, much, sizeof much);
	(void)ASK(stat, AT("f"));
	/* somebody makes the file meanwhile */
	BEGIN_WRITE(AT("late"), .flags = WIRE_FILE_EXCLUSIVE);
	(void)ASK(stat, AT("f"));
	play_host(&p, "echo first > late");
	play_eof(&p, next - 1, 0);
	assert_int_equal(play_until_result(&p, next - 1)->answer.error, EEXIST);
	play_host(&p, "test $(cat late) = first; ! ls -A | grep ^.bailey-");
}

static void writing_survives_broken_connections(void **state)
{
	_cleanup_free_ char *big = xcalloc(1, 5 << 20);
	struct seen *s;
	size_t n = 5 << 20;

	(void)state;
	for (size_t i = 0; i < n; i++)
		big[i] = (char)(i * 7919 >> 8);
	s = play_seen(&p, 1);
	for (int64_t i = 1; !s->result; i++) {
		size_t from = s->resumed ? s->resume : 0;

		PLAY_SEND(&p, write, .stream = 1, AT("f"), .mode = 0644);
		if (p.fd >= 0)
			play_data(&p, 1, big + from, n - from);
		if (p.fd >= 0)
			play_eof(&p, 1, n);
		while (p.fd >= 0 && !s->result)
			(void)play_read(&p, PLAY_WAIT_MS);
		p.next_send = i * 300001;
		if (!s->result)
			play_connect(&p, 0);
	}
	p.next_send = -1;
	play_connect(&p, 0);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, n);
	play_close(&p, 1);
	s = ASK(read, AT("f"));
	assert_int_equal(s->data[0].len, n);
	assert_memory_equal(s->data[0].data, big, n);
}

/* --- listing and searching --- */

struct entry {
	uint32_t mode;
	uint64_t size;
	char name[512], target[1024];
};

static uint64_t number(const uint8_t *at, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | at[bytes];
	return v;
}

/* The n-th record; false: there are fewer. */
static bool entry_at(const struct seen *s, size_t n, struct entry *e)
{
	const uint8_t *at = (const uint8_t *)s->data[0].data, *end = at + s->data[0].len;

	for (; at && at < end; at += number(at, 2)) {
		size_t len = number(at, 2), name_len = number(at + 30, 2);

		assert_true(at + len <= end && name_len + 32 <= len);
		if (n--)
			continue;
		assert_true(name_len < sizeof e->name && len - 32 - name_len < sizeof e->target);
		memset(e, 0, sizeof *e);
		e->mode = (uint32_t)number(at + 2, 4);
		e->size = number(at + 14, 8);
		memcpy(e->name, at + 32, name_len);
		memcpy(e->target, at + 32 + name_len, len - 32 - name_len);
		return true;
	}
	return false;
}

static bool find_entry(const struct seen *s, const char *name, struct entry *e)
{
	for (size_t i = 0; entry_at(s, i, e); i++)
		if (streq(e->name, name))
			return true;
	return false;
}

static void a_directory_is_listed(void **state)
{
	struct entry e;
	const struct seen *s;
	size_t n = 0;

	(void)state;
	play_host(&p,
		"mkdir d; cd d; printf 123 > f; ln -s f link; mkdir sub; mkfifo fifo; : > .hidden; "
		": > \"$(printf 'odd\\n\\377')\"");
	s = ASK(list, AT("d"), .max = 1000);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 6);
	assert_int_equal(s->answer.flags, 0);
	assert_true(find_entry(s, "f", &e));
	assert_int_equal(e.size, 3);
	assert_true(find_entry(s, "link", &e));
	assert_string_equal(e.target, "f");
	assert_true(find_entry(s, "odd\n\377", &e));
	assert_true(find_entry(s, ".hidden", &e));
	assert_true(find_entry(s, "fifo", &e) && S_ISFIFO(e.mode));
	s = ASK(list, AT("d"), .max = 4);
	assert_int_equal(s->answer.value, 4);
	assert_int_equal(s->answer.flags, WIRE_RESULT_TRUNCATED);
	play_host(&p, "mkdir many; cd many; seq -f 'a-name-of-some-length-%g' 20000 | xargs touch");
	s = ASK(list, AT("many"), .max = 1000000);
	assert_int_equal(s->answer.value, 20000);
	while (entry_at(s, n, &e) && n < 3)
		n++;
	assert_int_equal(n, 3);
	assert_int_equal(ASK(list, AT("d/f"), .max = 1)->answer.error, ENOTDIR);
	assert_int_equal(ASK(list, AT("d/fifo"), .max = 1)->answer.error, ENOTDIR);
}

static const struct seen *search(const char *what, size_t what_len, uint32_t flags, uint32_t max)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	assert_true(buf_puts(&b, play_path(&p, "t")) && buf_add(&b, "", 1) &&
		buf_add(&b, what, what_len));
	return ASK(search, .rest = (const uint8_t *)b.data, .rest_len = (uint32_t)b.len,
		.flags = flags, .max = max, .max_size = 1 << 20);
}

#define SEARCH(what, flags) search(what, sizeof(what) - 1, flags, 10000)

static void names_are_found(void **state)
{
	const struct seen *s;
	struct entry e;

	(void)state;
	play_host(&p,
		"mkdir -p t/src/deep t/.git t/b; cd t; touch src/a.c src/deep/b.c src/B.C src/x.h "
		".git/c.c .dot.c b/[x].c; ln -s ../.. src/deep/loop; ln -s src dirlink");
	s = SEARCH("*.c\0", 0);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 3);
	assert_true(find_entry(s, "src/deep/b.c", &e));
	assert_int_equal(SEARCH("*.c\0", WIRE_SEARCH_IGNORE_CASE)->answer.value, 4);
	assert_int_equal(SEARCH("*.c\0", WIRE_SEARCH_HIDDEN)->answer.value, 5);
	assert_int_equal(SEARCH("[a-b].?\0", 0)->answer.value, 2);
	assert_int_equal(SEARCH("[!a].c\0", 0)->answer.value, 1);
	assert_int_equal(SEARCH("\\[x].c\0", 0)->answer.value, 1);
	assert_int_equal(SEARCH("src/*.c\0", 0)->answer.value, 1);
	assert_int_equal(SEARCH("src/*/*.c\0", 0)->answer.value, 1);
	assert_int_equal(SEARCH("deep\0", 0)->answer.value, 1);
	assert_int_equal(SEARCH("a*a*a*a*a*a*a*b\0", 0)->answer.value, 0);
	s = search("\0", 1, WIRE_SEARCH_HIDDEN, 5);
	assert_int_equal(s->answer.value, 5);
	assert_int_equal(s->answer.flags, WIRE_RESULT_TRUNCATED);
}

static void lines_are_found(void **state)
{
	const struct seen *s;
	struct entry e;

	(void)state;
	play_host(&p,
		"mkdir -p t/d; cd t; printf 'one\\nfind me\\nthree find me find me\\nlast find me' > a; "
		"printf 'FIND ME\\n' > d/b; printf 'bin\\0ary find me\\n' > bin; "
		"head -c 2000000 /dev/zero | tr '\\0' x > large; echo 'find me' >> large; "
		"head -c 65530 /dev/zero | tr '\\0' y > edge; echo 'find me here' >> edge; "
		"head -c 300000 /dev/zero | tr '\\0' z > long; echo ' find me' >> long; "
		"mkfifo fifo; ln -s a link");
	s = SEARCH("\0find me", 0);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 5);
	assert_true(entry_at(s, 0, &e) && find_entry(s, "a", &e));
	assert_int_equal(e.size, 2);
	assert_string_equal(e.target, "find me");
	assert_true(find_entry(s, "edge", &e));
	assert_int_equal(e.size, 1);
	assert_int_equal(strlen(e.target), 512);
	assert_true(find_entry(s, "long", &e));
	s = SEARCH("\0find me", WIRE_SEARCH_IGNORE_CASE);
	assert_int_equal(s->answer.value, 6);
	assert_int_equal(SEARCH("b\0find me", WIRE_SEARCH_IGNORE_CASE)->answer.value, 1);
	assert_int_equal(search("\0find me", 8, 0, 2)->answer.flags, WIRE_RESULT_TRUNCATED);
	/* more than a window of matches */
	play_host(&p, "cd t; seq 200000 | sed 's/$/ find us/' | head -c 1000000 > many");
	s = search("many\0find us", 12, 0, 1000000);
	assert_true(s->answer.value > 60000);
	assert_true(entry_at(s, 50000, &e));
	assert_int_equal(e.size, 50001);
	assert_string_equal(e.target, "50001 find us");
}

/* --- archives --- */

static void a_tree_goes_out_and_in_unchanged(void **state)
{
	struct seen *s;
	char *bytes;
	size_t n;

	(void)state;
	play_host(&p,
		"mkdir -p src/sub/empty src/ro; cd src; echo text > f; chmod 641 f; ln -s /nowhere/at/all l; "
		"printf 'x' > \"$(printf 'odd\\n\\377name')\"; : > nothing; mkfifo pipe; echo in > ro/f; chmod 555 ro; "
		"truncate -s 50M holes; printf mid | dd of=holes bs=1 seek=20000000 conv=notrunc 2>/dev/null; "
		"truncate -s 10M allhole; head -c 3000000 /dev/urandom > big; "
		"d=$(printf 'n%.0s' $(seq 120)); mkdir -p $d/$d; echo deep > $d/$d/$d; "
		"touch -d @1234567890.123456789 f sub; chmod 1777 sub");
	s = ASK(tar_out, AT("src"));
	assert_int_equal(s->answer.error, 0);
	/* holes were not sent */
	assert_true(s->data[0].len > 3000000 && s->data[0].len < 4000000);
	bytes = s->data[0].data;
	n = s->data[0].len;
	assert_int_equal(ASK(mkdir, AT("dst"), .mode = 0755)->answer.error, 0);
	PLAY_SEND(&p, tar_in, .stream = ++next, AT("dst"));
	play_data(&p, next, bytes, n);
	play_eof(&p, next, n);
	s = play_until_result(&p, next);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 16);
	play_host(&p,
		"list() { (cd $1 && find . -printf '%p %y %m %s %T@ %l\\n' | LC_ALL=C sort); }; "
		"list src > a; list dst/src > b; sed -i '/ d /s/ [0-9]* \\([0-9.]*\\) $/ \\1/' a b; cmp a b; "
		"rm src/pipe dst/src/pipe; diff -r --no-dereference src dst/src; test $(du -k dst/src/holes | cut -f1) -lt 1000; "
		"chmod 755 src/ro dst/src/ro");
}

static void other_programs_read_our_archives_and_we_theirs(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const struct seen *s;
	int fd;

	(void)state;
	play_host(&p,
		"mkdir -p s/d; cd s; echo 1 > a; ln a d/hard; ln -s a l; cd ..; tar cf theirs.tar -C s .");
	fd = open(play_path(&p, "theirs.tar"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(read_all(fd, &b), 0);
	(void)close_fd(fd);
	PLAY_SEND(&p, tar_in, .stream = ++next, AT("new/place"), .flags = WIRE_FILE_PARENTS);
	/* in pieces of any size */
	for (size_t at = 0; at < b.len; at += 700)
		play_data(&p, next, b.data + at, b.len - at < 700 ? b.len - at : 700);
	play_eof(&p, next, b.len);
	s = play_until_result(&p, next);
	assert_int_equal(s->answer.error, 0);
	play_host(&p, "diff -r s new/place; test $(stat -c %h new/place/a) = 2");
	s = ASK(tar_out, AT("new/place/."));
	assert_int_equal(s->answer.error, 0);
	fd = open(play_path(&p, "ours.tar"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write_all(fd, s->data[0].data, s->data[0].len), 0);
	(void)close_fd(fd);
	play_host(
		&p, "mkdir out; tar xf ours.tar -C out; diff -r s out; test out/a -ef out/d/hard");
	/* a file, and a link to one; whole seconds need no header in front */
	play_host(&p, "touch -h -d @1000000000 s/a s/l");
	s = ASK(tar_out, AT("s/l"), .flags = WIRE_FILE_FOLLOW);
	assert_int_equal(s->answer.error, 0);
	assert_memory_equal(s->data[0].data, "l\0", 2);
	assert_int_equal(s->data[0].data[156], '0');
	s = ASK(tar_out, AT("s/l"));
	assert_int_equal(s->data[0].data[156], '2');
	assert_int_equal(ASK(tar_out, AT("none"))->answer.error, ENOENT);
}

static void put_entry(struct buf *b, enum archive_type type, const char *name, const char *link,
	uint32_t mode, const char *data)
{
	static uint8_t out[ARCHIVE_HEADER_CAP(0)];
	struct archive_entry e = { .type = type,
		.mode = mode,
		.name = name,
		.link = link,
		.size = data ? strlen(data) : 0 };
	size_t n = archive_put(out, sizeof out, &e, NULL, 0);

	assert_int_not_equal(n, 0);
	assert_true(buf_add(b, out, n));
	memset(out, 0, ARCHIVE_BLOCK);
	if (data)
		assert_true(buf_add(b, data, e.size) && buf_add(b, out, archive_padding(e.size)));
}

static const struct seen *extract(struct buf *b)
{
	static const char zeros[ARCHIVE_END_SIZE];

	assert_true(buf_add(b, zeros, sizeof zeros));
	PLAY_SEND(&p, tar_in, .stream = ++next, AT("in"));
	play_data(&p, next, b->data, b->len);
	play_eof(&p, next, b->len);
	buf_clear(b);
	return play_until_result(&p, next);
}

static void hostile_archives_stay_inside(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const struct seen *s;

	(void)state;
	play_host(&p, "mkdir in out; echo safe > out/f");
	put_entry(&b, ARCHIVE_SYMLINK, "l", "../out", 0777, NULL);
	put_entry(&b, ARCHIVE_FILE, "l/f", NULL, 0644, "evil");
	s = extract(&b);
	assert_int_equal(s->answer.error, ENOTDIR);
	assert_string_equal(s->note, "l/f");
	put_entry(&b, ARCHIVE_FILE, "../out/f", NULL, 0644, "evil");
	s = extract(&b);
	assert_int_equal(s->answer.error, EBADMSG);
	put_entry(&b, ARCHIVE_FILE, "/out", NULL, 0644, "evil");
	assert_int_equal(extract(&b)->answer.error, EBADMSG);
	put_entry(&b, ARCHIVE_HARDLINK, "h", "l/f", 0644, NULL);
	assert_int_equal(extract(&b)->answer.error, ENOTDIR);
	put_entry(&b, ARCHIVE_HARDLINK, "h", "../out/f", 0644, NULL);
	assert_int_equal(extract(&b)->answer.error, EBADMSG);
	/* a link in the place of a file is replaced */
	put_entry(&b, ARCHIVE_SYMLINK, "g", "../out/f", 0777, NULL);
	put_entry(&b, ARCHIVE_FILE, "g", NULL, 0644, "evil");
	assert_int_equal(extract(&b)->answer.error, 0);
	/* set-id bits go, devices are passed over */
	put_entry(&b, ARCHIVE_FILE, "suid", NULL, 06755, "x");
	put_entry(&b, ARCHIVE_CHAR, "device", NULL, 0644, NULL);
	s = extract(&b);
	assert_int_equal(s->answer.error, 0);
	assert_int_equal(s->answer.value, 1);
	/* a file does not take the place of a directory, nor the reverse */
	play_host(&p, "mkdir in/dir; touch in/file");
	put_entry(&b, ARCHIVE_FILE, "dir", NULL, 0644, "x");
	assert_int_equal(extract(&b)->answer.error, EISDIR);
	put_entry(&b, ARCHIVE_DIR, "file", NULL, 0755, NULL);
	assert_int_equal(extract(&b)->answer.error, ENOTDIR);
	play_host(&p,
		"test $(cat out/f) = safe; test $(stat -c %h out/f) = 1; test ! -L in/g; "
		"test $(stat -c %a in/suid) = 755; test ! -e in/device; test ! -e in/h");
}

static void a_broken_archive_is_told(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const struct seen *s;

	(void)state;
	play_host(&p, "mkdir in");
	put_entry(&b, ARCHIVE_FILE, "whole", NULL, 0644, "x");
	put_entry(&b, ARCHIVE_FILE, "half", NULL, 0644, "data that will be cut off");
	PLAY_SEND(&p, tar_in, .stream = ++next, AT("in"));
	play_data(&p, next, b.data, b.len - 500);
	play_eof(&p, next, b.len - 500);
	s = play_until_result(&p, next);
	assert_int_equal(s->answer.error, EBADMSG);
	assert_string_equal(s->note, "half");
	assert_string_equal(s->note + 5, "it ends too early");
	play_host(&p, "test -e in/whole; test ! -e in/half");
	PLAY_SEND(&p, tar_in, .stream = ++next, AT("in"));
	play_data(&p, next, "this is no archive at all", 25);
	play_eof(&p, next, 25);
	assert_int_equal(play_until_result(&p, next)->answer.error, EBADMSG);
}

/* --- many at once --- */

/* Of the guest; -1: not to be read. */
static long resident_kib(void)
{
	char text[8192] = "", path[64], *at;
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t guest, kib;

	/* the guest is the one child of the process between us */
	if (read_file_at(AT_FDCWD, FMT(path, "/proc/%d/task/%d/children", p.pid, p.pid), text,
		    sizeof text) <= 0)
		return -1;
	at = strchr(text, ' ');
	if (at)
		*at = 0;
	if (parse_u64(text, 1, 1 << 30, "pid", &guest, &e) < 0)
		return -1;
	if (read_file_at(AT_FDCWD, FMT(path, "/proc/%u/status", (unsigned)guest), text,
		    sizeof text) <= 0 ||
		!(at = strstr(text, "VmRSS:")))
		return -1;
	at += strcspn(at, "0123456789");
	at[strspn(at, "0123456789")] = 0;
	return parse_u64(at, 0, 1 << 30, "size", &kib, &e) < 0 ? -1 : (long)kib;
}

static void memory_is_given_back(void **state)
{
	static char much[3 << 20];
	long kib;

	(void)state;
	for (int i = 0; i < 20; i++) {
		PLAY_SEND(&p, write, .stream = ++next, AT("f"), .mode = 0644);
		play_data(&p, next, much, sizeof much);
		play_eof(&p, next, sizeof much);
		assert_int_equal(play_until_result(&p, next)->answer.error, 0);
		PLAY_SEND(&p, tar_out, .stream = ++next, AT("f"));
		assert_int_equal(play_until_result(&p, next)->answer.error, 0);
		play_close(&p, next);
		play_close(&p, next - 1);
	}
	(void)ASK(stat, AT("f"));
	play_close(&p, next);
	play_check_alive(&p, ++next);
	usleep(20000);
	kib = resident_kib();
	if (kib < 0)
		skip();
	assert_in_range(kib, 20, 400);
}

static void small_requests_pass_by_large_ones(void **state)
{
	uint32_t large, small[50];

	(void)state;
	play_host(&p, "mkdir t; head -c 200000000 /dev/zero > t/zeros; : > f");
	PLAY_SEND(&p, tar_out, .stream = ++next, AT("t"));
	large = next;
	for (unsigned i = 0; i < 50; i++) {
		PLAY_SEND(&p, stat, .stream = ++next, AT("f"));
		small[i] = next;
	}
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(play_until_result(&p, small[i])->answer.error, 0);
	assert_false(play_seen(&p, large)->result);
	assert_int_equal(play_until_result(&p, large)->answer.error, 0);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(a_file_is_described),
		WITH(a_directory_is_made),
		WITH(a_file_is_renamed),
		WITH(a_tree_is_removed_and_no_link_is_followed),
		WITH(a_deep_tree_is_removed),
		WITH(a_window_of_a_file_is_read),
		WITH(a_file_is_written_whole_or_not_at_all),
		WITH(a_write_that_cannot_be_is_told_at_once),
		WITH(writing_survives_broken_connections),
		WITH(a_directory_is_listed),
		WITH(names_are_found),
		WITH(lines_are_found),
		WITH(a_tree_goes_out_and_in_unchanged),
		WITH(other_programs_read_our_archives_and_we_theirs),
		WITH(hostile_archives_stay_inside),
		WITH(a_broken_archive_is_told),
		WITH(memory_is_given_back),
		WITH(small_requests_pass_by_large_ones),
	};

	if (!play_possible())
		return 77;
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
