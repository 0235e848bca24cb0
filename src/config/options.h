/* The options of every verb: one struct, filled from built-in values, config files, the environment and flags. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define OPT_KIB (1ull << 10)
#define OPT_MIB (1ull << 20)
#define OPT_GIB (1ull << 30)
#define OPT_TIB (1ull << 40)
#define OPT_DAY 86400000ull /* milliseconds */

enum {
	OPT_LIST_MAX = 10000, /* entries of one LIST */
	OPS_ANY = 1 << 30,    /* arguments without an upper limit of ours */
};

enum opt_type { OPT_BOOL, OPT_UINT, OPT_SIZE, OPT_DURATION, OPT_CPUS, OPT_STRING, OPT_LIST };

/* Who may set an option, and how its value is read. */
enum {
	OPT_FLAG = 1,
	OPT_USER = 2,
	OPT_SYSTEM = 4,
	OPT_ANYONE = OPT_FLAG | OPT_USER | OPT_SYSTEM,
	OPT_MULTILINE = 8,
};

enum verb {
#define OP(id, name, config, min, max, usage, summary, text) VERB_##id,
#include "config/ops.def"
#undef OP
	VERB_MAX
};

enum option {
#define OPTION(id, type, key, flag, letter, env, def, min, max, who, verbs, metavar, doc) \
	OPTION_##id,
#include "config/options.def"
#undef OPTION
	OPTION_MAX
};

/* In the order of precedence. */
enum origin_kind { ORIGIN_DEFAULT, ORIGIN_SYSTEM, ORIGIN_USER, ORIGIN_ENV, ORIGIN_FLAG };

struct origin {
	enum origin_kind kind;
	unsigned line; /* of the config file, else 0 */
};

struct strlist {
	char **v;
	unsigned n;
};

#define OPT_MEMBER_BOOL bool
#define OPT_MEMBER_UINT uint64_t
#define OPT_MEMBER_SIZE uint64_t
#define OPT_MEMBER_DURATION uint64_t
#define OPT_MEMBER_CPUS uint32_t
#define OPT_MEMBER_STRING char *
#define OPT_MEMBER_LIST struct strlist

/* Owned by its declarer; options_done() releases it.  A STRING that nobody set and that has no default is NULL.
 * There is one of it and the table reads best in its own order. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct options {
#define OPTION(id, type, key, flag, letter, env, def, min, max, who, verbs, metavar, doc) \
	OPT_MEMBER_##type id;
#include "config/options.def"
#undef OPTION
	struct origin origin[OPTION_MAX];
	char *file[ORIGIN_USER +
		1]; /* the config files that exist, by ORIGIN_SYSTEM and ORIGIN_USER */
};

struct option_info {
	const char *key, *flag, *env, *metavar, *doc;
	const char *text; /* default of a STRING */
	uint64_t number;  /* default of a number */
	uint64_t min, max;
	uint64_t verbs; /* bits by enum verb */
	uint16_t offset;
	enum opt_type type;
	uint8_t who;
	char letter;
};

struct op_info {
	const char *name, *usage, *summary, *text;
	unsigned min, max;
	bool config;
};

extern const struct option_info option_table[OPTION_MAX];
extern const struct op_info op_table[VERB_MAX];

/* Fills *o for verb v.  argv[0] is the verb itself.  Flags end at "--", for a verb that takes a command also at
 * the command; words that stand between flags are moved behind them.  *ret_rest is the index of the first argument.
 * With --help, config files and environment are left unread.  *o is valid for options_done() on failure too. */
int options_load(
	struct options *o, enum verb v, int argc, char **argv, int *ret_rest, struct err *e);

void options_init(struct options *o);
void options_done(struct options *o);
#define _cleanup_options_ _cleanup_(options_done)

/* Reads text as the value of option i and stores it unless something of higher precedence has; `what` names it in errors. */
int options_set(struct options *o, enum option i, const char *text, struct origin where,
	const char *what, struct err *e);

/* Adds the value of option i as it would be typed ("2g", "30s", "0.5"); nothing for a NULL string.  A list has none. */
void options_format(const struct options *o, enum option i, struct buf *out);

/* The same for a number of that type. */
void option_format_number(enum opt_type type, uint64_t v, struct buf *out);

/* The number behind a BOOL, UINT, SIZE, DURATION or CPUS. */
uint64_t options_number(const struct options *o, enum option i);

/* The value of a STRING, or NULL. */
const char *options_text(const struct options *o, enum option i);

/* Adds "default", "environment BAILEY_X", "PATH:LINE" or "flag --x". */
void options_origin(const struct options *o, enum option i, struct buf *out);

/* The verb with this name ("run", "config show"), or VERB_MAX. */
enum verb verb_by_name(const char *name);

/* True when the verb has sub-verbs and does nothing without one. */
bool verb_is_group(enum verb v);

static inline bool option_in_verb(enum option i, enum verb v)
{
	return option_table[i].flag && (option_table[i].verbs >> v & 1);
}

/* The nearest of a growing set of names: start with {.word = what was typed}, offer each, read best (NULL: none near). */
struct nearest {
	const char *word, *best;
	unsigned distance;
};

void nearest_offer(struct nearest *n, const char *name);
