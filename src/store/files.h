/* The files of the audit log in a home.  Internal to the room. */
#pragma once
#include <sys/types.h>

#include "base/err.h"

enum { AUDIT_MAX_FILES = 4096 }; /* 64 GiB */
#define AUDIT_FULL "security_audit.%06u.jsonl"

/* The full ones by their numbers, in order. */
struct audit_files {
	unsigned n, number[AUDIT_MAX_FILES];
};

int audit_list_files(int dir, struct audit_files *ret, struct err *e);

/* When the next file begins: AUDIT_FILE_BYTES; tests set less. */
extern off_t audit_file_bytes;
