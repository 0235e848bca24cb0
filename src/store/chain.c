/* Owns the form of a line: `{"seq":N,` ... `"prev":"HEX","hash":"HEX"}`.  Called by the writer and the verifier.  Must hold: the
 * members that chain lines together stand at fixed places, so that no JSON has to be read to check them. */
#include "store/chain.h"

#include <nettle/sha2.h>
#include <string.h>

#include "base/str.h"

#define SEQ "{\"seq\":"
#define PREV "\"prev\":\""
#define HASH "\",\"hash\":\""
#define END "\"}"

enum {
	PREV_LEN = sizeof PREV - 1,
	HASH_LEN = sizeof HASH - 1,
	END_LEN = sizeof END - 1,
	TAIL = AUDIT_HASH + END_LEN,                      /* the hash's digits to the line's end */
	HASHED = PREV_LEN + AUDIT_HASH + HASH_LEN + TAIL, /* "prev" to the line's end */
};

const char audit_no_hash[AUDIT_HASH + 1] =
	"0000000000000000000000000000000000000000000000000000000000000000";

void audit_digest(const void *p, size_t n, char ret[static AUDIT_HASH + 1])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t hash[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;

	sha256_init(&c);
	sha256_update(&c, n, p);
	sha256_digest(&c, sizeof hash, hash);
	for (size_t i = 0; i < sizeof hash; i++) {
		ret[2 * i] = digits[hash[i] >> 4];
		ret[2 * i + 1] = digits[hash[i] & 15];
	}
	ret[AUDIT_HASH] = '\0';
}

static bool take_hash(const char *p, char ret[static AUDIT_HASH + 1])
{
	memcpy(ret, p, AUDIT_HASH);
	ret[AUDIT_HASH] = '\0';
	return strspn(ret, "0123456789abcdef") == AUDIT_HASH;
}

static bool take_seq(const char *line, size_t n, uint64_t *ret)
{
	size_t at = sizeof SEQ - 1, first = at;
	uint64_t v = 0;

	if (n < at || memcmp(line, SEQ, at) != 0)
		return false;
	for (; at < n && line[at] >= '0' && line[at] <= '9' && at - first < 19; at++)
		v = v * 10 + (uint64_t)(line[at] - '0');
	*ret = v;
	return at > first && at < n && line[at] == ',' && v;
}

const char *audit_read_line(const char *line, size_t n, struct audit_place *ret)
{
	const char *tail = line + n - HASHED;
	char hash[AUDIT_HASH + 1];

	if (n < HASHED + sizeof SEQ || n >= AUDIT_LINE || memchr(line, '\0', n))
		return "it is no line of an audit log";
	if (!take_seq(line, n, &ret->seq) || memcmp(tail, PREV, PREV_LEN) != 0 ||
		!take_hash(tail + PREV_LEN, ret->prev) ||
		memcmp(tail + PREV_LEN + AUDIT_HASH, HASH, HASH_LEN) != 0 ||
		!take_hash(line + n - TAIL, ret->hash) ||
		memcmp(line + n - END_LEN, END, END_LEN) != 0)
		return "it is no line of an audit log";
	/* what is in front of ,"hash" */
	audit_digest(line, n - TAIL - HASH_LEN + 1, hash);
	return memcmp(hash, ret->hash, AUDIT_HASH) == 0 ? NULL : "its hash is another";
}

unsigned audit_file_number(const char *name)
{
	const char *p = str_after(name, "security_audit.");
	unsigned n = 0;

	if (!p || strspn(p, "0123456789") != 6 || !streq(p + 6, ".jsonl"))
		return 0;
	for (size_t i = 0; i < 6; i++)
		n = n * 10 + (unsigned)(p[i] - '0');
	return n;
}
