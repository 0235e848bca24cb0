/* Owns `logs`.  Called by main.c.  Output is written as it comes, by the callback itself: the order in which a command's two
 * streams came is kept, and a reader that takes nothing holds up nobody but this client. */
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

enum { MAX_COMMANDS = 65536 };

/* One command whose output is printed, or with --json kept. */
struct reader {
	uint32_t id;
	struct bailey_command *c;
	struct output captured;
	bool json, ended;
	int error; /* errno of standard output or standard error */
};

struct readers {
	struct reader *v;
	size_t n, cap;
};

static void readers_done(struct readers *l)
{
	for (size_t i = 0; i < l->n; i++) {
		bailey_command_free(l->v[i].c);
		output_done(&l->v[i].captured);
	}
	free(l->v);
}

static int add_reader(void *arg, const struct bailey_command_info *info)
{
	struct readers *l = arg;
	struct reader *grown;

	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 16;
		grown = l->cap > MAX_COMMANDS ? NULL : realloc(l->v, l->cap * sizeof *grown);
		if (!grown)
			return 1;
		l->v = grown;
	}
	memset(&l->v[l->n], 0, sizeof *l->v);
	l->v[l->n++].id = info->id;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct reader *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* id 0: every command. */
static int find_commands(struct bailey_sandbox *s, uint32_t id, struct readers *ret, struct err *e)
{
	const struct bailey_command_info one = { .id = id };
	struct bailey_error failure;
	int r = id ? add_reader(ret, &one)
		   : live_give(bailey_ps(s, add_reader, ret, &failure), &failure, e);

	if (r > 0)
		return err_set(
			e, R_NO_MEMORY, ENOMEM, "list the commands of '%s'", bailey_sandbox_id(s));
	if (ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, by_id);
	return r;
}

static void take_output(void *arg, int stream, const void *data, size_t n)
{
	struct reader *r = arg;

	if (r->json)
		output_take(&r->captured, stream, data, n);
	else if (!r->error && write_all(stream, data, n) < 0)
		r->error = errno;
}

static void take_end(void *arg, const struct bailey_result *result)
{
	(void)result;
	((struct reader *)arg)->ended = true;
}

static int begin(struct bailey_sandbox *s, const struct options *o, struct reader *r, struct err *e)
{
	struct bailey_streams streams = BAILEY_STREAMS_INIT;
	struct bailey_error failure;

	r->json = o->json;
	output_init(&r->captured, o->output_max_capture);
	streams.on_output = take_output;
	streams.on_ended = take_end;
	streams.arg = r;
	return live_give(bailey_attach(s, r->id, o->follow ? 0 : BAILEY_ATTACH_NO_FOLLOW, &streams,
				 &r->c, &failure),
		&failure, e);
}

static int check_error(const struct reader *r, struct err *e)
{
	if (!r->error)
		return 0;
	return err_set(e, r->error == ENOSPC || r->error == EDQUOT ? R_DISK_FULL : R_OUTPUT_FAILED,
		r->error, "write the output of command '%u'", r->id);
}

static int end(const struct options *o, struct reader *r, struct err *e)
{
	struct bailey_error failure;
	struct bailey_result result;

	if (live_give(bailey_command_wait(r->c, -1, &result, &failure), &failure, e) < 0)
		return -1;
	if (result.dropped && !o->json)
		(void)fprintf(stderr,
			"bailey: %llu bytes of the output of command %u are no longer kept\n",
			(unsigned long long)result.dropped, r->id);
	return check_error(r, e);
}

/* All at the same time: each is printed as it comes. */
static int follow(struct bailey_sandbox *s, struct readers *l, struct err *e)
{
	struct bailey_error failure;

	for (size_t i = 0; i < l->n;) {
		if (check_error(&l->v[i], e) < 0)
			return -1;
		if (l->v[i].ended)
			i++;
		else if (bailey_dispatch(s, -1, &failure) < 0 && !l->v[i].ended)
			return live_give(-1, &failure, e);
	}
	return 0;
}

static void put_object(struct json *j, const struct reader *r)
{
	struct bailey_result result;

	bailey_command_result(r->c, &result);
	json_object_begin(j, NULL);
	json_uint(j, "command", r->id);
	output_put(j, &r->captured);
	json_uint(j, "dropped_bytes", result.dropped);
	json_object_end(j);
}

static int print_json(const struct readers *l, bool one, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	if (!one)
		json_array_begin(&j, NULL);
	for (size_t i = 0; i < l->n; i++) {
		out.max += (l->v[i].captured.stream[OUTPUT_OUT].len +
				   l->v[i].captured.stream[OUTPUT_ERR].len) *
				6 +
			4096;
		put_object(&j, &l->v[i]);
	}
	if (!one)
		json_array_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

int verb_logs(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_(readers_done) struct readers all = { NULL, 0, 0 };
	uint32_t id = 0;

	cli_take_interrupts();
	if ((argc > 1 && live_command_id(argv[1], &id, e) < 0) ||
		live_connect(&l, o, argv[0], e) < 0 || find_commands(l.s, id, &all, e) < 0)
		return -1;
	for (size_t i = 0; i < all.n; i++) {
		if (begin(l.s, o, &all.v[i], e) < 0)
			return -1;
		if (!o->follow && end(o, &all.v[i], e) < 0)
			return -1;
	}
	if (o->follow && follow(l.s, &all, e) < 0)
		return -1;
	for (size_t i = 0; o->follow && i < all.n; i++)
		if (end(o, &all.v[i], e) < 0)
			return -1;
	return o->json ? print_json(&all, argc > 1, e) : 0;
}
