/* The audit log: what an operator must be able to find out later, one JSON object a line, in $BAILEY_HOME/security_audit.jsonl.
 *
 * Each line has a number, the hash of the line before it and its own: SHA-256 over its bytes up to `,"hash"`.  So a line that
 * was changed, taken out or put in is found (audit_verify()); lines cut off at the end are found only by who kept the last
 * number and hash.  A full file is renamed to security_audit.NNNNNN.jsonl and kept: nothing here removes one.  Content of
 * requests, files or output is never written. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/events.def"

enum {
	AUDIT_LINE = 16 << 10,       /* bytes of a line with its newline */
	AUDIT_TEXT = 1024,           /* bytes of a text; a longer one is cut */
	AUDIT_FILE_BYTES = 16 << 20, /* then the next file begins: about 50,000 lines */
	AUDIT_HASH = 64,             /* hex digits */
};

#define AUDIT_NAME "security_audit.jsonl"

/* One struct and one writer for each event.  Texts are borrowed.  agent may be NULL: none is concerned.
 *
 * The line is on disk when a writer returns 0.  Errors: R_STATE_UNWRITABLE, R_DISK_FULL, R_AUDIT_BROKEN (what is there is no
 * audit log of ours: nothing is added to it). */
#define AUDIT_TYPE_TEXT const char *
#define AUDIT_TYPE_NUMBER uint64_t
#define AUDIT_MEMBER(type, member) AUDIT_TYPE_##type member;
#define EVENT(name, severity, fields, doc) \
	struct audit_##name { \
		fields(AUDIT_MEMBER) \
	}; \
	int audit_##name(const char *agent, const struct audit_##name *p, struct err *e);
#include "store/events.def"
#undef EVENT
#undef AUDIT_MEMBER
#undef AUDIT_TYPE_TEXT
#undef AUDIT_TYPE_NUMBER

struct audit_report {
	uint64_t files, lines,
		recovered; /* recovered: lines cut short that the next one owns up to */
	uint64_t last_seq;
	char last_hash[AUDIT_HASH + 1];
};

/* Reads every file of this home in order.  0: each line follows from the one before it.  -1: R_AUDIT_BROKEN with the file,
 * the line and what is wrong there, or an error of reading.  No log at all is 0 lines. */
int audit_verify(struct audit_report *ret, struct err *e);
