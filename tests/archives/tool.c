/* Drives the tree room from scripts.
 *
 *     tree-tool write DIR [OPTION...] [PATH...]   standard input is the archive; prints the counts
 *     tree-tool read DIR [NAME [AS]] [OPTION...]  standard output is the archive; the counts go to standard error
 *     tree-tool list                              standard input is the archive; one line per entry
 *     tree-tool remove DIR NAME
 *     tree-tool fingerprint DIR
 *
 * Options: --whiteouts --replace --dry-run --top NAME --max-bytes N --max-size N
 * --max-entries N --piece N (bytes of each feed) --actions.
 * Status 1: an error; the first line of standard error is "REASON: MESSAGE". */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "tree/tree.h"

static struct {
	struct tree_write_options write;
	struct tree_read_options read;
	const char *paths[256];
	size_t n_paths;
	uint64_t piece;
	bool actions;
} o;

static int fail(const struct err *e)
{
	fprintf(stderr, "%s: %s\n", reason_name(e->reason), e->message);
	return 1;
}

static void print_counts(FILE *f, const struct tree_counts *c)
{
	fprintf(f,
		"files %" PRIu64 " dirs %" PRIu64 " symlinks %" PRIu64 " hardlinks %" PRIu64
		" removed %" PRIu64 " bytes %" PRIu64 " skipped %" PRIu64 " stripped %" PRIu64
		" changed %" PRIu64 " unlinked %" PRIu64 "\n",
		c->files, c->dirs, c->symlinks, c->hardlinks, c->removed, c->bytes, c->skipped,
		c->stripped, c->changed, c->unlinked);
}

static void print_action(void *arg, const struct tree_action *a)
{
	(void)arg;
	if (o.actions)
		printf("%c %s\n", a->kind, a->path);
}

/* --- options --- */

struct flag {
	const char *name;
	unsigned flag;
};

static const struct flag flags[] = {
	{ "--whiteouts", TREE_WHITEOUTS },
	{ "--replace", TREE_REPLACE },
	{ "--dry-run", TREE_DRY_RUN },
};

static bool take_flag(const char *arg)
{
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		if (!streq(arg, flags[i].name))
			continue;
		o.write.flags |= flags[i].flag;
		return true;
	}
	o.actions |= streq(arg, "--actions");
	return streq(arg, "--actions");
}

static int take_value(const char *arg, const char *value, struct err *e)
{
	static const struct {
		const char *name;
		uint64_t *to;
	} numbers[] = {
		{ "--max-bytes", &o.write.max_bytes },
		{ "--max-size", &o.write.max_size },
		{ "--max-entries", &o.write.max_entries },
		{ "--piece", &o.piece },
	};

	if (streq(arg, "--top")) {
		o.write.top = value;
		return 0;
	}
	for (size_t i = 0; value && i < sizeof numbers / sizeof *numbers; i++)
		if (streq(arg, numbers[i].name))
			return parse_u64(value, 1, UINT64_MAX, arg, numbers[i].to, e);
	return err_set(e, R_USAGE, 0, "unknown option '%s'", arg);
}

static int take_args(char **argv, struct err *e)
{
	for (; *argv; argv++) {
		if (**argv != '-' || !(*argv)[1]) {
			if (o.n_paths == sizeof o.paths / sizeof *o.paths)
				return err_set(e, R_USAGE, 0, "too many paths");
			o.paths[o.n_paths++] = *argv;
		} else if (!take_flag(*argv)) {
			if (take_value(argv[0], argv[1], e) < 0)
				return -1;
			argv++;
		}
	}
	o.read.max_entries = o.write.max_entries;
	return 0;
}

/* --- verbs --- */

static int feed_pieces(struct tree_writer *w, struct err *e)
{
	static uint8_t buf[1 << 20];
	size_t piece = o.piece && o.piece < sizeof buf ? (size_t)o.piece : sizeof buf;
	ssize_t n;

	while ((n = read(STDIN_FILENO, buf, piece)) > 0)
		if (tree_writer_feed(w, buf, (size_t)n, e) < 0)
			return -1;
	return n < 0 ? err_set(e, R_IO_FAILED, errno, "can't read") : 0;
}

static int do_write(int dir)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_tree_writer_ struct tree_writer *w = NULL;
	struct tree_counts counts;

	o.write.paths = o.paths;
	o.write.n_paths = o.n_paths;
	if (o.actions)
		o.write.action = print_action;
	if (tree_writer_open(&w, dir, &o.write, &e) < 0 ||
		(o.piece ? feed_pieces(w, &e) : tree_writer_feed_fd(w, STDIN_FILENO, &e)) < 0 ||
		tree_writer_finish(w, &counts, &e) < 0)
		return fail(&e);
	print_counts(stdout, &counts);
	return 0;
}

/* All of the archive to standard output. */
static int write_archive(struct tree_reader *r, struct err *e)
{
	static uint8_t data[256 << 10];
	size_t n;

	for (;;) {
		if (tree_reader_read(r, data, sizeof data, &n, e) < 0)
			return -1;
		if (!n)
			return 0;
		if (write_all(STDOUT_FILENO, data, n) < 0)
			return err_set(e, R_OUTPUT_FAILED, errno, "can't write the archive");
	}
}

static int do_read(int dir)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_tree_reader_ struct tree_reader *r = NULL;
	const char *name = o.n_paths > 0 && !streq(o.paths[0], ".") ? o.paths[0] : NULL;

	if (tree_reader_open(&r, dir, name, o.n_paths > 1 ? o.paths[1] : NULL, &o.read, &e) < 0 ||
		write_archive(r, &e) < 0)
		return fail(&e);
	print_counts(stderr, tree_reader_counts(r));
	return 0;
}

static void print_name(const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c > 0x20 && c < 0x7f && c != '\\')
			putchar(c);
		else
			printf("\\x%02x", c);
	}
}

static void print_entry(const struct archive_entry *a)
{
	static const char types[] = "fdlhpcb";

	printf("%c %04o %u %u %" PRIu64 " %" PRId64 " ", types[a->type], a->mode, a->uid, a->gid,
		a->size, a->mtime_ns);
	print_name(a->name);
	if (*a->link) {
		printf(" -> ");
		print_name(a->link);
	}
	putchar('\n');
}

/* The sum of the data follows each file: what was read, and where it belongs. */
static int do_list(void)
{
	static struct archive_reader r;
	static uint8_t buf[1 << 16];
	uint64_t sum = 0;
	ssize_t n;

	archive_reader_init(&r);
	while ((n = read(STDIN_FILENO, buf, sizeof buf)) > 0) {
		const uint8_t *p = buf;
		size_t left = (size_t)n;
		enum archive_event ev;

		while ((ev = archive_next(&r, &p, &left)) != ARCHIVE_MORE &&
			ev != ARCHIVE_REFUSED) {
			if (ev == ARCHIVE_ENTRY) {
				print_entry(&r.entry);
				sum = 0;
			}
			for (size_t i = 0; ev == ARCHIVE_DATA && i < r.data_len; i++)
				sum += (r.offset + i + 1) * r.data[i];
			if (ev == ARCHIVE_ENTRY_END && r.entry.size)
				printf("  sum %" PRIx64 "\n", sum);
		}
		if (ev == ARCHIVE_REFUSED)
			break;
	}
	if (archive_finish(&r))
		return 0;
	fprintf(stderr, "archive_refused: %s\n", archive_cause_text(r.cause));
	return 1;
}

static int do_remove(int dir)
{
	_cleanup_err_ struct err e = ERR_INIT;
	uint64_t n = 0;

	if (o.n_paths != 1)
		return 2;
	if (tree_remove(dir, o.paths[0], &n, &e) < 0)
		return fail(&e);
	printf("removed %" PRIu64 "\n", n);
	return 0;
}

static int do_fingerprint(int dir)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct tree_fingerprint f;

	if (tree_fingerprint(dir, &f, &e) < 0)
		return fail(&e);
	for (size_t i = 0; i < sizeof f.sum; i++)
		printf("%02x", f.sum[i]);
	printf(" %" PRIu64 " %s\n", f.entries, f.partial ? "partial" : "whole");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*call)(int dir);
	} verbs[] = { { "write", do_write }, { "read", do_read }, { "remove", do_remove },
		{ "fingerprint", do_fingerprint } };
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int dir = -1;

	if (argc == 2 && streq(argv[1], "list"))
		return do_list();
	if (argc < 3 || take_args(argv + 3, &e) < 0)
		return e.reason ? fail(&e) : 2;
	dir = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return perror(argv[2]), 2;
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (streq(argv[1], verbs[i].name))
			return verbs[i].call(dir);
	return 2;
}
