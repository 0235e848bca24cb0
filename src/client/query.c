/* Owns what is asked of commands by their ids: list, kill, wait.  Called by users of the library. */
#include <string.h>

#include "base/str.h"
#include "client/client.h"
#include "client/command.h"

enum {
	MAX_ARGS = 4096,
	MAX_COMMANDS = 1 << 16,
};

struct ps_request {
	struct stream st;
	bailey_command_fn *fn;
	void *arg;
	bool ended;
	unsigned seen;
	/* for kill: the ids of those that run */
	uint32_t *ids;
	size_t n_ids, cap_ids;
};

/* The arguments are strings one after the other; the last may be cut, and there may be many. */
static size_t split_args(char *text, size_t n, const char **argv)
{
	size_t argc = 0;

	text[n] = '\0';
	for (size_t at = 0; at < n && argc < MAX_ARGS; at += strlen(text + at) + 1)
		argv[argc++] = text + at;
	argv[argc] = NULL;
	return argc;
}

static void fill_info(struct bailey_command_info *info, const struct wire_command_info *m)
{
	struct bailey_result r = { .how = BAILEY_RUNNING, .exit_code = -1 };

	if (m->state == WIRE_STATE_ENDED)
		result_set(&r, m->how, m->status, m->flags >> 16);
	*info = (struct bailey_command_info){ .size = sizeof *info,
		.id = m->command,
		.pid = m->pid,
		.how = r.how,
		.exit_code = r.exit_code,
		.signal = r.signal,
		.sys_errno = r.sys_errno,
		.flags = r.flags,
		.exec_flags = (m->flags & WIRE_RUN_TERMINAL ? BAILEY_TERMINAL : 0u) |
			(m->flags & WIRE_RUN_STDIN ? BAILEY_STDIN : 0u) |
			(m->flags & WIRE_RUN_DETACHED ? BAILEY_DETACHED : 0u),
		.started_ms = m->started_ms,
		.ended_ms = m->ended_ms,
		.out_bytes = m->out_bytes,
		.err_bytes = m->err_bytes,
		.dropped = m->dropped };
}

static int keep_id(struct ps_request *r, const struct wire_command_info *m, struct err *e)
{
	uint32_t *grown;

	if (m->state == WIRE_STATE_ENDED)
		return 0;
	if (r->n_ids == r->cap_ids) {
		r->cap_ids = r->cap_ids ? 2 * r->cap_ids : 64;
		grown = r->cap_ids <= WIRE_MAX_STREAMS * 2
			? realloc(r->ids, r->cap_ids * sizeof *grown)
			: NULL;
		if (!grown)
			return err_set(e, R_NO_MEMORY, 0, "list commands");
		r->ids = grown;
	}
	r->ids[r->n_ids++] = m->command;
	return 0;
}

static int ps_frame(struct stream *st, const struct wire_frame *f, struct err *e)
{
	struct ps_request *r = (struct ps_request *)st;
	_cleanup_free_ const char **argv = NULL;
	_cleanup_free_ char *text = NULL;
	struct bailey_command_info info;
	struct wire_command_info m;

	if (f->type != WIRE_COMMAND_INFO || !wire_get_command_info(f, &m))
		return err_set(e, R_WIRE_MALFORMED, 0, "read what the engine of '%s' says: %s",
			st->conn->id, wire_type_name(f->type));
	if (r->seen++ >= MAX_COMMANDS)
		return err_set(
			e, R_WIRE_MALFORMED, 0, "list commands of '%s': no end", st->conn->id);
	if (r->ended)
		return 0;
	if (!r->fn)
		return keep_id(r, &m, e);
	text = malloc((size_t)m.rest_len + 1);
	argv = calloc(MAX_ARGS + 1, sizeof *argv);
	if (!text || !argv)
		return err_set(e, R_NO_MEMORY, ENOMEM, "list commands");
	if (m.rest_len)
		memcpy(text, m.rest, m.rest_len);
	fill_info(&info, &m);
	info.argc = split_args(text, m.rest_len, argv);
	info.argv = argv;
	r->ended = r->fn(r->arg, &info) != 0;
	return 0;
}

static const struct stream_ops ps_ops = { .frame = ps_frame };

static int do_ps(struct bailey_sandbox *s, struct ps_request *r, struct err *e)
{
	struct wire_ps m;
	int result = -1;

	if (conn_check(s, e) < 0)
		return -1;
	stream_begin(s, &r->st, &ps_ops);
	m.stream = r->st.number;
	if (conn_put(s, ps, &m, e) == 0)
		result = stream_wait(&r->st, false, "list commands of", s->id, e);
	stream_end(&r->st);
	return result < 0 ? -1 : r->ended;
}

int bailey_ps(struct bailey_sandbox *s, bailey_command_fn *fn, void *arg, struct bailey_error *e)
{
	struct ps_request r = { .fn = fn, .arg = arg };
	struct err err = ERR_INIT;

	return client_give(do_ps(s, &r, &err), e, &err);
}

static const struct stream_ops plain_ops = { .data = NULL };

static int kill_one(struct bailey_sandbox *s, uint32_t id, int sig, bool tree, uint64_t *survivors,
	struct err *e)
{
	struct stream st = { .number = 0 };
	struct wire_kill m = {
		.command = id, .signal = (uint32_t)sig, .flags = tree ? WIRE_KILL_TREE : 0u
	};
	char name[32];
	int r = -1;

	if (conn_check(s, e) < 0)
		return -1;
	stream_begin(s, &st, &plain_ops);
	m.stream = st.number;
	if (conn_put(s, kill, &m, e) == 0)
		r = stream_wait(&st, false, "kill command", FMT(name, "%u", id), e);
	if (r == 0)
		*survivors += st.result.value;
	stream_end(&st);
	return r;
}

/* Of those that ran when it was asked; one that ends meanwhile is as good as killed. */
static int kill_all(
	struct bailey_sandbox *s, int sig, bool tree, uint64_t *survivors, struct err *e)
{
	struct ps_request r = { .fn = NULL };
	int result = do_ps(s, &r, e);

	for (size_t i = 0; result == 0 && i < r.n_ids; i++) {
		result = kill_one(s, r.ids[i], sig, tree, survivors, e);
		if (result < 0 && e->reason == R_NO_SUCH_COMMAND) {
			err_done(e);
			result = 0;
		}
	}
	free(r.ids);
	return result;
}

int bailey_kill(struct bailey_sandbox *s, uint32_t id, int sig, int tree, uint64_t *ret_survivors,
	struct bailey_error *e)
{
	struct err err = ERR_INIT;
	uint64_t survivors = 0;
	int r;

	if (sig < 1 || sig > 64)
		r = err_set(&err, R_BAD_VALUE, 0, "send signal '%d': not from 1 to 64", sig);
	else if (id)
		r = kill_one(s, id, sig, tree != 0, &survivors, &err);
	else
		r = kill_all(s, sig, tree != 0, &survivors, &err);
	if (ret_survivors)
		*ret_survivors = survivors;
	return client_give(r, e, &err);
}

int bailey_wait(struct bailey_sandbox *s, uint32_t id, int timeout_ms, struct bailey_result *ret,
	struct bailey_error *e)
{
	struct bailey_command *c = NULL;
	struct err err = ERR_INIT;
	int r = command_attach(s, id, BAILEY_ATTACH_NO_OUTPUT, NULL, &c, &err);

	if (r == 0)
		r = command_wait(c, timeout_ms, ret, &err);
	bailey_command_free(c);
	return client_give(r, e, &err);
}
