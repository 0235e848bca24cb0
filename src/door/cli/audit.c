/* Owns `audit verify` and `audit show`.  Called by main.c; reading and checking the chain is store's. */
#include "store/audit.h"

#include "base/home.h"
#include "base/json.h"
#include "base/str.h"
#include "door/cli/verb.h"

static void put_json(const struct audit_report *r, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j, NULL);
	json_uint(&j, "files", r->files);
	json_uint(&j, "lines", r->lines);
	json_uint(&j, "recovered", r->recovered);
	json_uint(&j, "last_seq", r->last_seq);
	json_string(&j, "last_hash", r->last_hash);
	json_object_end(&j);
	buf_puts(out, "\n");
}

int verb_audit_verify(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct audit_report r;

	(void)argc;
	(void)argv;
	if (audit_verify(&r, e) < 0)
		return -1;
	if (o->json) {
		put_json(&r, &out);
	} else {
		buf_printf(&out, "%llu lines in %llu files, each follows from the one before it",
			(unsigned long long)r.lines, (unsigned long long)r.files);
		if (r.recovered)
			buf_printf(&out, "; %llu were cut short, as the next ones say",
				(unsigned long long)r.recovered);
		buf_printf(&out, "\nlast: %llu %s\n", (unsigned long long)r.last_seq, r.last_hash);
	}
	return cli_write(&out, e);
}

int verb_audit_show(struct options *o, int argc, char **argv, struct err *e)
{
	_cleanup_free_ char *home = NULL, *path = NULL;

	(void)argc;
	(void)argv;
	if (home_path(&home, e) < 0)
		return -1;
	path = xasprintf("%s/" AUDIT_NAME, home);
	return cli_tail(o, path, e);
}
