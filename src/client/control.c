/* Owns what is asked of a sandbox as a whole: facts, states, snapshots and forks, changes.  Called by users of the
 * library and by list.c. */
#include "client/control.h"

#include <string.h>

#include "base/str.h"
#include "client/client.h"
#include "spec/spec.h"
#include "tree/tree.h"

enum { SLOW_MS = 600000, STOP_EXTRA_MS = 30000, CHANGE_FIXED = 15 };

static const struct stream_ops plain_ops = { .data = NULL };

/* --- facts --- */

struct inspect {
	struct pieces_stream p;
	bailey_value_fn *fn;
	void *arg;
};

static int take_value(void *arg, uint8_t *p, size_t n, struct err *e)
{
	struct inspect *r = arg;
	char *key, *value;

	if (strlen((char *)p) != n || !line_split((char *)p, &key, &value))
		return err_set(e, R_WIRE_MALFORMED, 0, "read a record: a line is wrong");
	return r->fn(r->arg, key, value) != 0;
}

int control_inspect(struct bailey_sandbox *s, bailey_value_fn *fn, void *arg, struct err *e)
{
	struct inspect r = { .fn = fn, .arg = arg };
	struct wire_inspect m;
	int result = -1;

	if (conn_check(s, e) < 0)
		return -1;
	r.p.pieces = (struct pieces){ .kind = PIECES_LINES, .each = take_value, .arg = &r };
	r.p.st.most = CLIENT_MAX_META;
	stream_begin(s, &r.p.st, &pieces_ops);
	m.stream = r.p.st.number;
	if (conn_put(s, inspect, &m, e) == 0 &&
		stream_wait(&r.p.st, false, "inspect", s->id, e) == 0 &&
		pieces_end(&r.p.pieces, e) == 0)
		result = r.p.pieces.ended;
	stream_end(&r.p.st);
	pieces_done(&r.p.pieces);
	return result;
}

int bailey_inspect(struct bailey_sandbox *s, bailey_value_fn *fn, void *arg, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(control_inspect(s, fn, arg, &err), e, &err);
}

static int take_stat(void *arg, const char *key, const char *value)
{
	struct bailey_stats *s = arg;
	_cleanup_err_ struct err ignored = ERR_INIT;
	const struct {
		const char *key;
		uint64_t *to;
	} table[] = {
		{ "cpu_us", &s->cpu_us },
		{ "memory_used_bytes", &s->memory_bytes },
		{ "memory_peak_bytes", &s->memory_peak_bytes },
		{ "memory_bytes", &s->memory_max_bytes },
		{ "pids_used", &s->pids },
		{ "pids", &s->pids_max },
		{ "pids_refused", &s->pids_refused },
		{ "disk_used_bytes", &s->disk_used_bytes },
		{ "disk_bytes", &s->disk_max_bytes },
		{ "oom_kills", &s->oom_kills },
		{ "spool_bytes", &s->spool_bytes },
	};
	uint64_t v;

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (streq(table[i].key, key) &&
			parse_u64(value, 0, UINT64_MAX, key, &v, &ignored) == 0)
			*table[i].to = v;
	return 0;
}

int bailey_stats(struct bailey_sandbox *s, struct bailey_stats *ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	/* what the engine doesn't name is not counted */
	memset(ret, 0xff, sizeof *ret);
	memset(ret->reserved, 0, sizeof ret->reserved);
	return client_give(control_inspect(s, take_stat, ret, &err), e, &err);
}

/* --- states --- */

static int control(struct bailey_sandbox *s, struct wire_control *m, uint64_t timeout_ms,
	const char *what, char *ret_id, struct err *e)
{
	const uint64_t before = s->timeout_ms;
	struct stream st = { .number = 0 };
	int r = -1;

	if (conn_check(s, e) < 0)
		return -1;
	stream_begin(s, &st, &plain_ops);
	m->stream = st.number;
	if (before && before < timeout_ms)
		s->timeout_ms = timeout_ms;
	if (conn_put(s, control, m, e) == 0)
		r = stream_wait(&st, false, what, s->id, e);
	s->timeout_ms = before;
	if (r == 0 && ret_id) {
		if (st.result.rest_len && st.result.rest[st.result.rest_len - 1] == '\0')
			st.result.rest_len--;
		if (st.result.rest_len >= BAILEY_ID_SIZE)
			st.result.rest_len = 0;
		str_format(ret_id, BAILEY_ID_SIZE, "%.*s", (int)st.result.rest_len,
			st.result.rest_len ? (const char *)st.result.rest : "");
		if (!id_is_valid(ret_id))
			r = err_set(
				e, R_WIRE_MALFORMED, 0, "%s '%s': the new id is none", what, s->id);
	}
	stream_end(&st);
	return r;
}

int bailey_pause(struct bailey_sandbox *s, struct bailey_error *e)
{
	struct wire_control m = { .verb = WIRE_CONTROL_PAUSE };
	struct err err = ERR_INIT;

	return client_give(control(s, &m, 0, "pause", NULL, &err), e, &err);
}

int bailey_resume(struct bailey_sandbox *s, struct bailey_error *e)
{
	struct wire_control m = { .verb = WIRE_CONTROL_RESUME };
	struct err err = ERR_INIT;

	return client_give(control(s, &m, 0, "resume", NULL, &err), e, &err);
}

static uint64_t grace(uint64_t ms)
{
	return ms < CLIENT_MAX_TIMEOUT_MS ? ms : CLIENT_MAX_TIMEOUT_MS;
}

int bailey_stop(struct bailey_sandbox *s, uint64_t grace_ms, struct bailey_error *e)
{
	struct wire_control m = { .verb = WIRE_CONTROL_STOP, .grace_ms = grace(grace_ms) };
	struct err err = ERR_INIT;

	return client_give(control(s, &m, m.grace_ms + STOP_EXTRA_MS, "stop", NULL, &err), e, &err);
}

int bailey_start(struct bailey_sandbox *s, struct bailey_error *e)
{
	struct wire_control m = { .verb = WIRE_CONTROL_START };
	struct err err = ERR_INIT;

	return client_give(control(s, &m, STOP_EXTRA_MS, "start", NULL, &err), e, &err);
}

int control_remove(struct bailey_sandbox *s, uint64_t grace_ms, bool force, struct err *e)
{
	struct wire_control m = { .verb = WIRE_CONTROL_REMOVE,
		.flags = force ? WIRE_CONTROL_FORCE : 0u,
		.grace_ms = force ? 0 : grace(grace_ms) };

	return control(s, &m, m.grace_ms + STOP_EXTRA_MS, "remove", NULL, e);
}

int bailey_remove(struct bailey_sandbox *s, uint64_t grace_ms, int force, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(control_remove(s, grace_ms, force != 0, &err), e, &err);
}

int bailey_set_ttl(struct bailey_sandbox *s, uint64_t ttl_ms, struct bailey_error *e)
{
	struct wire_control m = { .verb = WIRE_CONTROL_TOUCH, .grace_ms = ttl_ms };
	struct err err = ERR_INIT;

	return client_give(control(s, &m, 0, "set the time to live of", NULL, &err), e, &err);
}

/* SNAPSHOT and FORK: the new id, a NUL, the name, a NUL. */
static int copy_sandbox(
	struct bailey_sandbox *s, uint32_t verb, const char *name, char *ret_id, struct err *e)
{
	char rest[SPEC_ID_LEN + BAILEY_NAME_SIZE], id[BAILEY_ID_SIZE];
	struct wire_control m = { .verb = verb, .rest = (const uint8_t *)rest };

	if (name && !name_is_valid(name))
		return err_set(e, R_BAD_VALUE, 0,
			"use name '%.64s': not of [a-z0-9][a-z0-9._-]{0,62}", name);
	if (spec_new_id(id, e) < 0)
		return -1;
	str_format(rest, sizeof rest, "%s%c%s", id, 0, name ? name : "");
	m.rest_len = (uint32_t)(strlen(id) + 1 + (name ? strlen(name) : 0) + 1);
	if (control(s, &m, SLOW_MS, verb == WIRE_CONTROL_FORK ? "fork" : "take a snapshot of", id,
		    e) < 0)
		return -1;
	if (ret_id)
		memcpy(ret_id, id, sizeof id);
	return 0;
}

int bailey_snapshot(struct bailey_sandbox *s, const char *name, char ret_id[BAILEY_ID_SIZE],
	struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(copy_sandbox(s, WIRE_CONTROL_SNAPSHOT, name, ret_id, &err), e, &err);
}

int bailey_fork(struct bailey_sandbox *s, const char *name, char ret_id[BAILEY_ID_SIZE],
	struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(copy_sandbox(s, WIRE_CONTROL_FORK, name, ret_id, &err), e, &err);
}

/* --- changes --- */

static int changes_pipe(
	struct bailey_sandbox *s, bool workspace, bool content, int *ret, struct err *e)
{
	struct stream st = { .number = 0 };
	struct wire_changes m = { .flags = (workspace ? WIRE_FILE_COW : 0u) |
			(content ? WIRE_FILE_CONTENT : 0u) };
	int r = -1;

	if (conn_check(s, e) < 0)
		return -1;
	stream_begin(s, &st, &plain_ops);
	m.stream = st.number;
	if (conn_put(s, changes, &m, e) == 0)
		r = stream_wait(&st, true, "list the changes of", s->id, e);
	if (r == 0 && st.result_fd < 0)
		r = err_set(
			e, R_WIRE_MALFORMED, 0, "list the changes of '%s': no pipe came", s->id);
	if (r == 0)
		*ret = move_fd(&st.result_fd);
	stream_end(&st);
	return r;
}

struct change_reader {
	bool whole; /* the record that ends the list came */
	bailey_change_fn *fn;
	void *arg;
};

/* u16 length, u8 kind, u32 mode, u64 size, path */
int change_parse(const uint8_t *p, size_t n, char path[static WIRE_MAX_PATH + 1],
	struct bailey_change *ret, struct err *e)
{
	const size_t len = n < CHANGE_FIXED ? 0 : n - CHANGE_FIXED;

	if (!len || len > WIRE_MAX_PATH || (p[2] != 'A' && p[2] != 'M' && p[2] != 'D'))
		return err_set(e, R_WIRE_MALFORMED, 0, "read an answer: a record is wrong");
	memcpy(path, p + CHANGE_FIXED, len);
	path[len] = '\0';
	if (strlen(path) != len || leads_out(path, true))
		return err_set(e, R_WIRE_MALFORMED, 0, "read an answer: a record is wrong");
	*ret = (struct bailey_change){ .size_of = sizeof *ret,
		.kind = (char)p[2],
		.mode = get_le32(p + 3),
		.size = get_le64(p + 7),
		.path = path };
	return 0;
}

/* The record in place of the end: why there is none. */
static int change_failed(const uint8_t *p, size_t n, struct err *e)
{
	_cleanup_free_ char *text = strndup((const char *)p, n);

	return tree_given_up(text ?: "", e);
}

static int take_change(void *arg, uint8_t *p, size_t n, struct err *e)
{
	struct change_reader *r = arg;
	char path[WIRE_MAX_PATH + 1];
	struct bailey_change change;

	if (n >= CHANGE_FIXED && p[2] == 'E')
		return change_failed(p + CHANGE_FIXED, n - CHANGE_FIXED, e);
	r->whole = n == CHANGE_FIXED && p[2] == 'Z';
	if (r->whole)
		return 1;
	if (change_parse(p, n, path, &change, e) < 0)
		return -1;
	return r->fn(r->arg, &change) != 0;
}

static int do_changes(
	struct bailey_sandbox *s, bool workspace, struct change_reader *r, struct err *e)
{
	struct pieces p = { .kind = PIECES_RECORDS, .each = take_change, .arg = r };
	_cleanup_close_ int fd = -1;
	int result;

	if (changes_pipe(s, workspace, false, &fd, e) < 0)
		return -1;
	result = pieces_read_fd(&p, fd, s->timeout_ms * CLIENT_SLOW_FACTOR, e);
	pieces_done(&p);
	if (result < 0 || r->whole)
		return result;
	return p.ended ? 1
		       : err_set(e, R_ENGINE_LOST, 0,
				 "list the changes of '%s': whoever lists them died", s->id);
}

int bailey_changes(struct bailey_sandbox *s, int workspace, bailey_change_fn *fn, void *arg,
	struct bailey_error *e)
{
	struct change_reader r = { .fn = fn, .arg = arg };
	struct err err = ERR_INIT;

	return client_give(do_changes(s, workspace != 0, &r, &err), e, &err);
}

int bailey_changes_archive(
	struct bailey_sandbox *s, int workspace, int *ret_fd, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(changes_pipe(s, workspace != 0, true, ret_fd, &err), e, &err);
}
