/* Profiles by their text form: a name, keys with values, and named descriptors.  The one parser for whoever asks from another
 * process: `bailey create --profile`, libbailey, and a launcher's clients.  Keys and values are closed: what isn't in
 * params.def is refused, with the key in the message.
 *
 * Variables of agent and check have keys of their own: "env.NAME". */
#pragma once
#include "spec/profile.h"

enum param_type { PARAM_TEXT, PARAM_ARGV, PARAM_TIME, PARAM_CHOICE, PARAM_DIR };
enum param_must { PARAM_NO, PARAM_YES, PARAM_SOME };

struct param {
	const char *key;
	unsigned profiles; /* 1u << enum spec_profile */
	enum param_type type;
	enum param_must must;
	const char *doc;
};
extern const struct param profile_params[];
extern const unsigned n_profile_params;

enum {
	PARAM_MAX_VALUE = 1 << 20, /* bytes of a value */
	PARAM_MAX_KEY = 64,
	PARAM_MAX_ARGS = 4096, /* words of a command */
	PARAM_MAX_DIRS = 8,    /* directories of one request */
};

/* The parameter of that key, or NULL; env.* are not among them. */
const struct param *param_find(enum spec_profile profile, const char *key);

/* "tid=x" is key "tid" and value "x".  Borrowed. */
struct profile_param {
	const char *key, *value;
};

/* A directory by the key of its parameter.  O_PATH; moves into the request when that is made, else it stays. */
struct profile_fd {
	const char *key;
	int fd;
};

/* What the operator has set, and who asks.  Nothing here comes from a parameter. */
struct profile_operator {
	struct profile_base base;    /* image and runtime; its ids are not read */
	uid_t agent_uid, caller_uid; /* inside; neither agent may be 0 */
	gid_t agent_gid, caller_gid;
	bool same_user; /* on this engine every sandbox runs with the caller's own id */
};

struct profile_request {
	enum spec_profile profile;
	union {
		struct agent_request agent;
		struct check_request check;
		struct git_helper_request git_helper;
		struct handoff_request handoff;
		struct script_request script;
	};
	void *memory; /* what a parsed command lies in */
};
#define _cleanup_profile_request_ _cleanup_(profile_request_done)

/* Checks every key and value and makes the request; its strings are those of params still.  On failure nothing is moved. */
int profile_from_params(struct profile_request *ret, const char *profile,
	const struct profile_param *params, unsigned n, struct profile_fd *fds, unsigned n_fds,
	const struct profile_operator *o, struct err *e);

/* Closes and frees what the request still has. */
void profile_request_done(struct profile_request *r);

/* The profile function that fits. */
int profile_build(struct pack_request *p, struct profile_request *r, struct err *e);

/* Words as the value of an ARGV parameter. */
struct buf;
void param_put_words(struct buf *out, const char *const *words);
