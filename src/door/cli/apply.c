/* Owns `apply`.  Called by main.c.
 *
 * The changes are fetched once, as an archive in a file without a name: what is shown, what is looked at for conflicts and
 * what is written are the same bytes, whatever the sandbox does meanwhile.
 *
 * Must hold: nothing is written before it was shown and agreed to; what is written goes beneath the directory that was named,
 * by tree_writer_*(), which follows no link and takes no name that leads out. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"
#include "tree/tree.h"

enum { PIECE = 256 << 10, MAX_NAMED = 8 };

struct apply {
	const struct options *o;
	const char *sandbox, *target;
	bool cow;
	char *workspace; /* the host's directory of a cow workspace */
	uint64_t created_ms;
	int dir, archive;
	char **paths; /* cleaned */
	size_t n_paths;
	struct changes changes;
	size_t conflicts;
};

static void apply_done(struct apply *a)
{
	free(a->workspace);
	a->dir = close_fd(a->dir);
	a->archive = close_fd(a->archive);
	for (size_t i = 0; i < a->n_paths; i++)
		free(a->paths[i]);
	free((void *)a->paths);
	changes_done(&a->changes);
}

static int take_record(void *arg, const struct bailey_info *info)
{
	const char *mode = bailey_info_get(info, "workspace_mode");
	const char *workspace = bailey_info_get(info, "workspace");
	struct apply *a = arg;

	a->cow = mode && streq(mode, "cow");
	a->created_ms = info->created_ms;
	if (a->cow && workspace)
		a->workspace = xstrdup(workspace);
	return 0;
}

/* --- paths --- */

/* Relative to the root of the changes and without empty parts; NULL where it leads up, or to the root itself. */
static char *clean_path(const char *text)
{
	char *out = xcalloc(strlen(text) + 1, 1), *end = out;

	while (*text) {
		const size_t n = strcspn(text, "/");

		if (n == 2 && text[0] == '.' && text[1] == '.') {
			end = out;
			break;
		}
		if (n && !(n == 1 && *text == '.')) {
			if (end > out)
				*end++ = '/';
			memcpy(end, text, n);
			end += n;
		}
		text += n + (text[n] == '/');
	}
	if (end > out)
		return out;
	free(out);
	return NULL;
}

static int read_paths(struct apply *a, int argc, char **argv, struct err *e)
{
	a->paths = (char **)xcalloc((size_t)argc + 1, sizeof *a->paths);
	for (int i = 0; i < argc; i++) {
		/* as commands inside name them */
		const char *below = a->cow ? str_after(argv[i], "/workspace/") : NULL;
		char *path = clean_path(below ? below : argv[i]);

		if (!path)
			return err_set(e, R_BAD_VALUE, 0,
				"read path '%.256s': not one below the root of the changes",
				argv[i]);
		a->paths[a->n_paths++] = path;
	}
	return 0;
}

/* --- the archive --- */

static int open_scratch(int *ret, struct err *e)
{
	_cleanup_free_ char *dir = NULL, *name = NULL;

	if (home_subdir("tmp", &dir, e) < 0)
		return -1;
	*ret = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (*ret >= 0)
		return 0;
	/* a file system without files that have no name */
	name = xasprintf("%s/apply-XXXXXX", dir);
	*ret = mkostemp(name, O_CLOEXEC);
	if (*ret < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "make a file in '%s'", dir);
	(void)unlink(name);
	return 0;
}

static int write_failed(int error, const char *what, struct err *e)
{
	return err_set(e, error == ENOSPC || error == EDQUOT ? R_DISK_FULL : R_OUTPUT_FAILED, error,
		"%s", what);
}

static void follow(struct archive_reader *r, const uint8_t *p, size_t n)
{
	enum archive_event event;

	do
		event = archive_next(r, &p, &n);
	while (event != ARCHIVE_MORE && event != ARCHIVE_REFUSED);
}

/* An archive that ends early is said to: whoever reads it may not notice. */
static int check_whole(struct archive_reader *r, struct err *e)
{
	if (archive_finish(r))
		return 0;
	if (r->cause == ARCHIVE_GIVEN_UP)
		return tree_given_up(archive_failure(r), e);
	return err_set(e, R_ENGINE_LOST, 0, "read the changes: %s", archive_cause_text(r->cause));
}

/* The pipe's bytes to a descriptor. */
static int move_bytes(int from, int to, const char *what, struct err *e)
{
	_cleanup_free_ struct archive_reader *r = malloc(sizeof *r);
	_cleanup_free_ uint8_t *data = malloc(PIECE);
	ssize_t n;

	if (!data || !r)
		return err_set(e, R_NO_MEMORY, ENOMEM, "read the changes");
	archive_reader_init(r);
	for (;;) {
		n = read(from, data, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, R_IO_FAILED, errno, "read the changes");
		if (n == 0)
			return check_whole(r, e);
		follow(r, data, (size_t)n);
		if (write_all(to, data, (size_t)n) < 0)
			return write_failed(errno, what, e);
	}
}

static int fetch(struct apply *a, struct bailey_sandbox *s, struct err *e)
{
	struct bailey_error failure;
	_cleanup_close_ int pipe = -1;

	if (open_scratch(&a->archive, e) < 0 ||
		live_give(bailey_changes_archive(s, a->cow, &pipe, &failure), &failure, e) < 0)
		return -1;
	return move_bytes(pipe, a->archive, "keep the changes in Bailey's home", e);
}

static void take_action(void *arg, const struct tree_action *t)
{
	static const uint32_t types[] = { [ARCHIVE_FILE] = S_IFREG,
		[ARCHIVE_DIR] = S_IFDIR,
		[ARCHIVE_SYMLINK] = S_IFLNK,
		[ARCHIVE_HARDLINK] = S_IFREG,
		[ARCHIVE_FIFO] = S_IFIFO };
	const bool typed = t->kind != 'D' && (size_t)t->type < sizeof types / sizeof *types;

	changes_add(arg, t->kind, typed ? types[t->type] | t->mode : 0,
		t->kind == 'D' ? 0 : t->size, t->path);
}

/* Writes the archive beneath the target; in a dry run it only says what that would do. */
static int write_tree(struct apply *a, struct changes *list, struct tree_counts *ret, struct err *e)
{
	_cleanup_tree_writer_ struct tree_writer *w = NULL;
	const struct tree_write_options o = {
		.flags = TREE_WHITEOUTS | TREE_REPLACE | TREE_BELIEVED | (list ? TREE_DRY_RUN : 0u),
		.paths = (const char *const *)a->paths,
		.n_paths = a->n_paths,
		.action = list ? take_action : NULL,
		.arg = list,
	};

	if (lseek(a->archive, 0, SEEK_SET) < 0)
		return err_set(e, R_IO_FAILED, errno, "read the changes");
	if (tree_writer_open(&w, a->dir, &o, e) < 0 || tree_writer_feed_fd(w, a->archive, e) < 0 ||
		tree_writer_finish(w, ret, e) < 0)
		return err_wrap(e, "apply to '%.256s'", a->target);
	return 0;
}

/* --- conflicts --- */

static bool is_workspace(const struct apply *a)
{
	struct stat mine, target;

	return a->workspace && stat(a->workspace, &mine) == 0 && fstat(a->dir, &target) == 0 &&
		mine.st_dev == target.st_dev && mine.st_ino == target.st_ino;
}

static int refuse_conflicts(const struct apply *a, struct err *e)
{
	_cleanup_buf_ struct buf names = BUF_INIT;
	size_t named = 0;

	for (size_t i = 0; i < a->changes.n && named < MAX_NAMED; i++)
		if (a->changes.v[i].conflict)
			buf_printf(&names, "%s'%.128s'", named++ ? ", " : "", a->changes.v[i].path);
	if (a->conflicts > named)
		buf_printf(&names, " and %zu more", a->conflicts - named);
	return err_set(e, R_WORKSPACE_CHANGED, 0, "apply to '%.256s': changed outside as well: %s",
		a->target, names.data ? names.data : "");
}

/* --- talking --- */

static int check_somebody_answers(const struct options *o, const char *target, struct err *e)
{
	if (o->yes || o->dry_run || (!o->json && isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
		return 0;
	(void)err_set(e, R_USAGE, 0, "apply to '%.256s': nobody to ask", target);
	return err_remedy(e, "Look at the list with --dry-run, then give --yes to apply it.");
}

static bool ask(const struct apply *a)
{
	char answer[8];

	if (a->o->yes)
		return true;
	(void)fprintf(stderr, "Apply these %zu changes to '%s'? [y/N] ", a->changes.n, a->target);
	if (!fgets(answer, sizeof answer, stdin))
		return false;
	return *answer == 'y' || *answer == 'Y';
}

static int print_list(const struct apply *a, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (!a->changes.n)
		(void)fprintf(stderr, "bailey: there is nothing to apply\n");
	return changes_put_text(&a->changes, &out, e) < 0 ? -1 : cli_write(&out, e);
}

static int print_json(const struct apply *a, bool applied, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_bool(&j, "applied", applied);
	if (changes_put_json(&j, "changes", &a->changes, e) < 0)
		return -1;
	json_array_begin(&j, "conflicts");
	for (size_t i = 0; i < a->changes.n; i++) {
		if (a->changes.v[i].conflict)
			json_string(&j, NULL, a->changes.v[i].path);
		if (live_flush(&out, false, e) < 0)
			return -1;
	}
	json_array_end(&j);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

static void say_skipped(const struct tree_counts *counts)
{
	if (counts->skipped)
		(void)fprintf(stderr,
			"bailey: %llu entries left out: no files, directories or links\n",
			(unsigned long long)counts->skipped);
}

/* --- the verb --- */

static int apply_to(struct apply *a, struct bailey_sandbox *s, struct err *e)
{
	struct tree_counts counts = { .files = 0 };
	bool agreed;

	a->dir = open(a->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->dir < 0)
		return err_set(e,
			errno == ENOENT            ? R_PATH_NOT_FOUND
				: errno == ENOTDIR ? R_NOT_A_DIRECTORY
						   : R_PERMISSION_DENIED,
			errno, "open '%.256s'", a->target);
	if (fetch(a, s, e) < 0 || write_tree(a, &a->changes, &counts, e) < 0)
		return -1;
	if (changes_check(&a->changes, a->sandbox, e) < 0)
		return -1;
	changes_sort(&a->changes);
	if (is_workspace(a) &&
		conflicts_mark(&a->changes, a->dir, a->created_ms, a->archive, &a->conflicts, e) <
			0)
		return -1;
	if (!a->o->json && print_list(a, e) < 0)
		return -1;
	if (a->conflicts && !a->o->apply_force && !a->o->dry_run)
		return refuse_conflicts(a, e);
	agreed = !a->o->dry_run && a->changes.n && ask(a);
	if (agreed && write_tree(a, NULL, &counts, e) < 0)
		return -1;
	if (a->o->json)
		return print_json(a, agreed, e);
	say_skipped(&counts);
	return 0;
}

/* The archive as it stands, for whoever reads layers. */
static int apply_to_stdout(struct apply *a, struct bailey_sandbox *s, struct err *e)
{
	struct bailey_error failure;
	_cleanup_close_ int pipe = -1;

	if (a->n_paths || a->o->json)
		return err_set(e, R_USAGE, 0,
			"write the changes to standard output: neither paths nor '--json' go with that");
	if (isatty(STDOUT_FILENO)) {
		(void)err_set(e, R_USAGE, 0, "write an archive to standard output: a terminal");
		return err_remedy(e, "Lead standard output to a file, or to 'tar -tf -'.");
	}
	if (live_give(bailey_changes_archive(s, a->cow, &pipe, &failure), &failure, e) < 0)
		return -1;
	return move_bytes(pipe, STDOUT_FILENO, "write the changes to standard output", e);
}

int verb_apply(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_(apply_done) struct apply a = {
		.o = o, .sandbox = argv[0], .target = argv[1], .dir = -1, .archive = -1
	};
	_cleanup_live_ struct live l = { NULL, NULL };
	struct bailey_error failure;

	if (!streq(a.target, "-") && check_somebody_answers(o, a.target, e) < 0)
		return -1;
	if (live_connect(&l, o, argv[0], e) < 0 ||
		live_give(bailey_record(l.home, argv[0], take_record, &a, &failure), &failure, e) <
			0 ||
		read_paths(&a, argc - 2, argv + 2, e) < 0)
		return -1;
	return streq(a.target, "-") ? apply_to_stdout(&a, l.s, e) : apply_to(&a, l.s, e);
}
