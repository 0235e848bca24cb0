/* Owns `ps`.  Called by main.c. */
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

struct ps {
	struct table *table; /* NULL: JSON */
	struct json json;
};

static const char *state_of(const struct bailey_command_info *info)
{
	static const char *const names[] = { [BAILEY_RUNNING] = "running",
		[BAILEY_EXITED] = "exited",
		[BAILEY_SIGNALLED] = "signalled",
		[BAILEY_NOT_STARTED] = "not_started",
		[BAILEY_LOST] = "lost" };

	return (size_t)info->how < sizeof names / sizeof *names ? names[info->how] : "lost";
}

static void put_optional(struct json *j, const char *key, bool has, uint64_t value)
{
	if (has)
		json_uint(j, key, value);
	else
		json_null(j, key);
}

static void put_object(struct json *j, const struct bailey_command_info *info)
{
	json_object_begin(j, NULL);
	json_uint(j, "command", info->id);
	json_string(j, "state", state_of(info));
	put_optional(j, "pid", info->pid != 0, info->pid);
	put_optional(j, "exit_code", info->how == BAILEY_EXITED, (uint64_t)info->exit_code);
	put_optional(j, "signal", info->how == BAILEY_SIGNALLED, (uint64_t)info->signal);
	put_optional(j, "errno", info->how == BAILEY_NOT_STARTED, (uint64_t)info->sys_errno);
	json_bool(j, "timed_out", info->flags & BAILEY_TIMED_OUT);
	json_bool(j, "killed", info->flags & BAILEY_KILLED);
	json_bool(j, "oom_killed", info->flags & BAILEY_OOM);
	json_bool(j, "terminal", info->exec_flags & BAILEY_TERMINAL);
	json_bool(j, "stdin", info->exec_flags & BAILEY_STDIN);
	json_bool(j, "detached", info->exec_flags & BAILEY_DETACHED);
	json_uint(j, "started_ms", info->started_ms);
	put_optional(j, "ended_ms", info->ended_ms != 0, info->ended_ms);
	json_uint(j, "stdout_bytes", info->out_bytes);
	json_uint(j, "stderr_bytes", info->err_bytes);
	json_uint(j, "dropped_bytes", info->dropped);
	json_array_begin(j, "argv");
	for (size_t i = 0; i < info->argc; i++)
		json_string(j, NULL, info->argv[i]);
	json_array_end(j);
	json_object_end(j);
}

/* "0", "sig 9", "errno 2"; "-" while it runs. */
static void put_status(struct table *t, const struct bailey_command_info *info)
{
	char text[32];

	if (info->how == BAILEY_EXITED)
		table_cell(t, FMT(text, "%d", info->exit_code));
	else if (info->how == BAILEY_SIGNALLED)
		table_cell(t, FMT(text, "signal %d", info->signal));
	else if (info->how == BAILEY_NOT_STARTED)
		table_cell(t, FMT(text, "errno %d", info->sys_errno));
	else
		table_cell(t, NULL);
}

static int take_command(void *arg, const struct bailey_command_info *info)
{
	_cleanup_buf_ struct buf words = BUF_INIT;
	struct ps *p = arg;

	if (!p->table) {
		put_object(&p->json, info);
		return 0;
	}
	for (size_t i = 0; i < info->argc; i++)
		buf_printf(&words, "%s%s", i ? " " : "", info->argv[i]);
	table_number(p->table, info->id);
	table_cell(p->table, state_of(info));
	put_status(p->table, info);
	table_age(p->table, info->started_ms);
	table_bytes(p->table, info->out_bytes + info->err_bytes);
	table_cell(p->table, words.data);
	return 0;
}

int verb_ps(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	_cleanup_buf_ struct buf out = { .max = 256 << 20 };
	_cleanup_table_ struct table table;
	struct ps p = { .table = o->json ? NULL : &table };
	struct bailey_error failure;

	(void)argc;
	table_begin(&table, ">ID STATE STATUS AGE >OUTPUT COMMAND");
	json_init(&p.json, &out);
	if (live_connect(&l, o, argv[0], e) < 0)
		return -1;
	if (o->json)
		json_array_begin(&p.json, NULL);
	if (live_give(bailey_ps(l.s, take_command, &p, &failure), &failure, e) < 0)
		return -1;
	if (o->json) {
		json_array_end(&p.json);
		buf_puts(&out, "\n");
	} else {
		table_put(&table, &out);
	}
	return cli_write(&out, e);
}
