/* Owns `cp`.  Called by main.c.  The library copies; what is decided here is which side is which, and what a path that
 * isn't there yet means. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum { QUIET_MS = 500, EVERY_MS = 200 };

/* One argument: SANDBOX:PATH, a path of the host, or '-'. */
struct side {
	char *sandbox; /* NULL: the host */
	char *path;
	bool contents; /* it ended in "/." */
};

static void side_done(struct side *s)
{
	free(s->sandbox);
	free(s->path);
}

static bool is_stream(const struct side *s)
{
	return !s->sandbox && streq(s->path, "-");
}

/* Cuts "/." off the end. */
static void cut_contents(struct side *s)
{
	const size_t n = strlen(s->path);

	if (!s->sandbox && (streq(s->path, ".") || streq(s->path, ".."))) {
		s->contents = true;
	} else if (n > 1 && streq(s->path + n - 2, "/.")) {
		s->contents = true;
		s->path[n > 2 ? n - 2 : 1] = '\0';
	}
}

/* A name in front of the first colon, without a slash in it, is a sandbox. */
static void read_side(const char *text, struct side *ret)
{
	const char *colon = strchr(text, ':');

	if (colon && colon > text && !memchr(text, '/', (size_t)(colon - text)) && *text != '.') {
		ret->sandbox = strndup(text, (size_t)(colon - text));
		text = colon + 1;
	}
	ret->path = xstrdup(text);
	cut_contents(ret);
}

static int take_workdir(void *arg, const struct bailey_info *info)
{
	const char *workdir = bailey_info_get(info, "workdir");

	if (workdir && *workdir == '/')
		*(char **)arg = xstrdup(workdir);
	return 0;
}

/* A path inside that does not begin with a slash begins in the sandbox's working directory. */
static int make_absolute(struct live *l, struct side *s, struct err *e)
{
	_cleanup_free_ char *workdir = NULL;
	struct bailey_error failure;
	char *path;

	if (*s->path == '/')
		return 0;
	if (live_give(bailey_record(l->home, s->sandbox, take_workdir, &workdir, &failure),
		    &failure, e) < 0)
		return -1;
	path = xasprintf("%s/%s", workdir && !streq(workdir, "/") ? workdir : "", s->path);
	free(s->path);
	s->path = path;
	return 0;
}

static bool is_missing_inside(struct bailey_sandbox *s, const char *path)
{
	struct bailey_error failure;
	struct bailey_stat st;

	return bailey_stat(s, path, BAILEY_FOLLOW, &st, &failure) < 0 &&
		streq(failure.reason, "path_not_found");
}

static bool is_missing_outside(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 && errno == ENOENT;
}

/* The contents of a directory copied to a name that nobody has are the directory under that name. */
static unsigned flags_for(const struct side *source, bool missing)
{
	return source->contents && !missing ? BAILEY_COPY_CONTENTS : 0;
}

static int copy_in(struct live *l, const struct side *from, const struct side *to,
	struct bailey_copied *ret, struct err *e)
{
	struct bailey_error failure;

	if (is_stream(from))
		return live_give(
			bailey_tar_in(l->s, to->path, 0, STDIN_FILENO, &failure), &failure, e);
	return live_give(bailey_copy_in(l->s, from->path, to->path,
				 flags_for(from, is_missing_inside(l->s, to->path)), ret, &failure),
		&failure, e);
}

static int copy_out(struct live *l, const struct side *from, const struct side *to,
	struct bailey_copied *ret, struct err *e)
{
	struct bailey_error failure;

	if (!is_stream(to))
		return live_give(
			bailey_copy_out(l->s, from->path, to->path,
				flags_for(from, is_missing_outside(to->path)), ret, &failure),
			&failure, e);
	if (isatty(STDOUT_FILENO)) {
		(void)err_set(e, R_USAGE, 0, "write an archive to standard output: a terminal");
		return err_remedy(e, "Lead standard output to a file, or to 'tar -xf -'.");
	}
	return live_give(bailey_tar_out(l->s, from->path, 0, STDOUT_FILENO, &failure), &failure, e);
}

/* How far it is, on a terminal alone, once a copy takes its time. */
struct progress {
	uint64_t began_ms, said_ms;
};

static void say_progress(void *arg, uint64_t bytes)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct progress *p = arg;
	const uint64_t now = boottime_ms();

	if (now - p->began_ms < QUIET_MS || now - p->said_ms < EVERY_MS)
		return;
	p->said_ms = now;
	bytes_add(&text, bytes);
	(void)fprintf(stderr, "\r%s copied\033[K", text.data ? text.data : "");
}

static void end_progress(struct live *l, const struct progress *p)
{
	bailey_on_progress(l->s, NULL, NULL);
	if (p->said_ms)
		(void)fputs("\r\033[K", stderr);
}

static int copy(struct live *l, const struct side *from, const struct side *to,
	struct bailey_copied *ret, struct err *e)
{
	struct progress progress = { .began_ms = boottime_ms() };
	int r;

	if (isatty(STDERR_FILENO))
		bailey_on_progress(l->s, say_progress, &progress);
	r = to->sandbox ? copy_in(l, from, to, ret, e) : copy_out(l, from, to, ret, e);
	end_progress(l, &progress);
	return r;
}

static int print_copied(const struct bailey_copied *c, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_uint(&j, "entries", c->entries);
	json_uint(&j, "bytes", c->bytes);
	json_uint(&j, "skipped", c->skipped);
	json_uint(&j, "changed", c->changed);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

static void say_left_out(const struct bailey_copied *c)
{
	if (c->skipped)
		(void)fprintf(stderr,
			"bailey: %llu entries left out: no files, directories or links\n",
			(unsigned long long)c->skipped);
	if (c->changed)
		(void)fprintf(stderr, "bailey: %llu files changed while they were read\n",
			(unsigned long long)c->changed);
}

static int check_sides(
	const struct options *o, const struct side *from, const struct side *to, struct err *e)
{
	if (!from->sandbox == !to->sandbox) {
		(void)err_set(e, R_USAGE, 0, "copy: %s",
			from->sandbox ? "both sides are in sandboxes" : "no side is in a sandbox");
		return err_remedy(e, "Write 'bailey cp %s'.", op_table[VERB_CP].usage);
	}
	if (o->json && is_stream(to))
		return err_set(e, R_USAGE, 0,
			"use '--json' with an archive on standard output: both need it");
	if (!*from->path || !*to->path)
		return err_set(e, R_USAGE, 0, "copy: a path is empty");
	return 0;
}

int verb_cp(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_(side_done) struct side from = { NULL, NULL, false };
	_cleanup_(side_done) struct side to = { NULL, NULL, false };
	_cleanup_live_ struct live l = { NULL, NULL };
	struct bailey_copied copied = { .entries = 0 };
	struct side *inside;

	(void)argc;
	read_side(argv[0], &from);
	read_side(argv[1], &to);
	if (check_sides(o, &from, &to, e) < 0)
		return -1;
	inside = from.sandbox ? &from : &to;
	if (live_connect(&l, o, inside->sandbox, e) < 0 || make_absolute(&l, inside, e) < 0 ||
		copy(&l, &from, &to, &copied, e) < 0)
		return -1;
	if (o->json)
		return print_copied(&copied, e);
	say_left_out(&copied);
	return 0;
}
