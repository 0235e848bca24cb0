/* Owns `kill`.  Called by main.c. */
#include <signal.h>
#include <string.h>

#include "base/str.h"
#include "door/cli/live.h"
#include "door/cli/verb.h"

/* "TERM", "SIGTERM" or "15" */
static int parse_signal(const char *text, int *ret, struct err *e)
{
	const char *name = str_after(text, "SIG");
	uint64_t v;

	if (*text >= '0' && *text <= '9') {
		if (parse_u64(text, 1, 64, "--signal", &v, e) < 0)
			return -1;
		*ret = (int)v;
		return 0;
	}
	if (!name)
		name = text;
	for (int sig = 1; sig < NSIG; sig++) {
		const char *known = sigabbrev_np(sig);

		if (!known || !streq(known, name))
			continue;
		*ret = sig;
		return 0;
	}
	return err_set(e, R_BAD_VALUE, 0, "read --signal '%.16s': no such signal", text);
}

static int print_json(const char *id, uint32_t command, int sig, uint64_t survivors, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out);
	json_object_begin(&j, NULL);
	json_string(&j, "id", id);
	if (command)
		json_uint(&j, "command", command);
	else
		json_null(&j, "command");
	json_int(&j, "signal", sig);
	json_uint(&j, "survivors", survivors);
	json_object_end(&j);
	buf_puts(&out, "\n");
	return cli_write(&out, e);
}

int verb_kill(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_live_ struct live l = { NULL, NULL };
	struct bailey_error failure;
	uint64_t survivors = 0;
	uint32_t id = 0;
	int sig;

	if (parse_signal(o->signal, &sig, e) < 0 ||
		(argc > 1 && live_command_id(argv[1], &id, e) < 0) ||
		live_connect(&l, o, argv[0], e) < 0 ||
		live_give(bailey_kill(l.s, id, sig, 1, &survivors, &failure), &failure, e) < 0)
		return -1;
	if (sig == SIGKILL && survivors)
		return err_set(e, R_BUSY, 0, "kill in '%s': %llu processes have not ended yet",
			argv[0], (unsigned long long)survivors);
	if (!o->json)
		return 0;
	return print_json(bailey_sandbox_id(l.s), id, sig, survivors, e);
}
