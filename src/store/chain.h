/* The form of a line of the audit log.  Internal to the room. */
#pragma once
#include <stddef.h>

#include "store/audit.h"

/* What a line says of its place, taken from the line itself. */
struct audit_place {
	uint64_t seq;
	char prev[AUDIT_HASH + 1], hash[AUDIT_HASH + 1];
};

/* The hash of the first line's predecessor. */
extern const char audit_no_hash[AUDIT_HASH + 1];

/* Hex of SHA-256. */
void audit_digest(const void *p, size_t n, char ret[static AUDIT_HASH + 1]);

/* Takes a line without its newline apart; NULL when it is well-formed and its own hash is right, else what is wrong. */
const char *audit_read_line(const char *line, size_t n, struct audit_place *ret);

/* The number of a file's name, security_audit.NNNNNN.jsonl; 0: it is none. */
unsigned audit_file_number(const char *name);
