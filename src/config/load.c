/* Owns the order of precedence: built in, /etc/bailey/config.toml, config.toml in Bailey's home, environment, flags.
 * Called by every program of Bailey once, at its start.  Flags are read first, since --help must work beside a broken
 * config; options_set() keeps what has precedence. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/home.h"
#include "base/str.h"
#include "config/args.h"
#include "config/options.h"
#include "config/reader.h"

#define SYSTEM_FILE "/etc/bailey/config.toml"

/* One config file while its records arrive. */
struct source {
	struct options *o;
	const char *path;
	enum origin_kind kind;
};

static int at_line(
	const struct source *s, const struct config_item *it, const char *cause, struct err *e)
{
	return err_set(e, R_CONFIG_INVALID, 0, "read config '%s:%u': key '%.128s' %s", s->path,
		it->line, it->key, cause);
}

/* Only a section whose name is the start of a key's may stand in the file, even an empty one. */
static int check_section(const struct source *s, const struct config_item *it, struct err *e)
{
	struct nearest near = { .word = it->key };
	char sections[OPTION_MAX][32];

	for (enum option i = 0; i < OPTION_MAX; i++) {
		const char *key = option_table[i].key;
		const char *dot = key ? strchr(key, '.') : NULL;

		if (!dot)
			continue;
		FMT(sections[i], "%.*s", (int)(dot - key), key);
		if (streq(sections[i], it->key))
			return 0;
		nearest_offer(&near, sections[i]);
	}
	at_line(s, it, "is no section", e);
	if (near.best)
		err_remedy(e, "Use '[%s]' if you meant that; bailey.toml(5) lists the keys.",
			near.best);
	return -1;
}

static int unknown_key(const struct source *s, const struct config_item *it, struct err *e)
{
	struct nearest near = { .word = it->key };

	for (enum option i = 0; i < OPTION_MAX; i++)
		if (option_table[i].key && option_table[i].who & (OPT_USER | OPT_SYSTEM))
			nearest_offer(&near, option_table[i].key);
	at_line(s, it, "does not exist", e);
	if (near.best)
		return err_remedy(
			e, "Use '%s' if you meant that; bailey.toml(5) lists the keys.", near.best);
	return err_remedy(e, "Remove the line; bailey.toml(5) lists the keys.");
}

/* TOML types are looser than ours: 30 and "30s" are both durations, 0.5 and "0.5" both CPUs. */
static bool type_fits(enum opt_type type, const char *toml)
{
	switch (type) {
	case OPT_BOOL:
		return streq(toml, "boolean");
	case OPT_UINT:
		return streq(toml, "integer");
	case OPT_SIZE:
	case OPT_DURATION:
		return streq(toml, "integer") || streq(toml, "string");
	case OPT_CPUS:
		return streq(toml, "integer") || streq(toml, "float") || streq(toml, "string");
	case OPT_STRING:
		return streq(toml, "string");
	case OPT_LIST:
		break;
	}
	return false;
}

static int flag_only(enum option i, const char *what, struct err *e)
{
	err_set(e, R_CONFIG_INVALID, 0,
		"read %s: a way out of a wall is taken on the command line alone", what);
	return err_remedy(
		e, "Remove it, and pass --%s to the runs that need it.", option_table[i].flag);
}

static int take_item(void *context, const struct config_item *it, struct err *e)
{
	const struct source *s = context;
	struct origin where = { .kind = s->kind, .line = it->line };
	_cleanup_free_ char *what = NULL;
	enum option i;

	if (streq(it->type, "table"))
		return check_section(s, it, e);
	for (i = 0; i < OPTION_MAX; i++)
		if (option_table[i].key && streq(option_table[i].key, it->key))
			break;
	if (i == OPTION_MAX)
		return unknown_key(s, it, e);
	what = xasprintf("key '%s' at '%s:%u'", it->key, s->path, it->line);
	if (!(option_table[i].who & (s->kind == ORIGIN_SYSTEM ? OPT_SYSTEM : OPT_USER)))
		return flag_only(i, what, e);
	if (!type_fits(option_table[i].type, it->type))
		return err_set(e, R_BAD_VALUE, 0, "read %s: %s is not the type of its value", what,
			streq(it->type, "other") ? "a list or date" : it->type);
	return options_set(s->o, i, it->value, where, what, e);
}

static int check_file(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, R_CONFIG_INVALID, errno, "look at config '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, R_CONFIG_INVALID, 0, "read config '%s': not a file", path);
	if (st.st_size > READER_MAX_FILE)
		return err_set(e, R_CONFIG_INVALID, 0, "read config '%s': larger than %d bytes",
			path, READER_MAX_FILE);
	if (!(st.st_mode & S_IWOTH))
		return 0;
	err_set(e, R_CONFIG_INVALID, 0, "read config '%s': everyone may write to it", path);
	return err_remedy(e, "Run 'chmod o-w %s'.", path);
}

static int load_file(struct options *o, enum origin_kind kind, const char *path, struct err *e)
{
	struct source s = { .o = o, .path = path, .kind = kind };
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0) {
		err_set(e, R_CONFIG_INVALID, errno, "open config '%s'", path);
		return err_remedy(e, "Make the file readable, or remove it.");
	}
	o->file[kind] = xstrdup(path);
	if (check_file(fd, path, e) < 0)
		return -1;
	return reader_run(fd, path, take_item, &s, e);
}

/* A variable of another program's that means the same; ours wins. */
static const char *variable(const char *env)
{
	static const char *const others[][2] = { { "BAILEY_AGENT_UID", "AGENTBOX_AGENT_UID" },
		{ "BAILEY_AGENT_GID", "AGENTBOX_AGENT_GID" },
		{ "BAILEY_DOCKER_RUNTIME", "AGENTBOX_AGENT_RUNTIME" } };
	const char *value = secure_getenv(env);

	for (size_t i = 0; (!value || !*value) && i < sizeof others / sizeof *others; i++)
		if (streq(env, others[i][0]))
			value = secure_getenv(others[i][1]);
	return value;
}

static int load_environment(struct options *o, struct err *e)
{
	for (enum option i = 0; i < OPTION_MAX; i++) {
		const char *env = option_table[i].env, *value = env ? variable(env) : NULL;
		char what[80];

		if (!value || !*value)
			continue;
		FMT(what, "environment variable %s", env);
		if (!(option_table[i].who & OPT_USER))
			return flag_only(i, what, e);
		if (options_set(o, i, value, (struct origin){ .kind = ORIGIN_ENV }, what, e) < 0)
			return -1;
	}
	return 0;
}

int load_below_flags(struct options *o, const char *system_file, struct err *e)
{
	_cleanup_free_ char *home = NULL, *user_file = NULL;

	if (load_file(o, ORIGIN_SYSTEM, system_file, e) < 0 || home_path(&home, e) < 0)
		return -1;
	user_file = xasprintf("%s/config.toml", home);
	if (load_file(o, ORIGIN_USER, user_file, e) < 0)
		return -1;
	return load_environment(o, e);
}

int options_load(
	struct options *o, enum verb v, int argc, char **argv, int *ret_rest, struct err *e)
{
	options_init(o);
	if (args_parse(o, v, argc, argv, ret_rest, e) < 0)
		return -1;
	if (o->help || o->version || !op_table[v].config)
		return 0;
	return load_below_flags(o, SYSTEM_FILE, e);
}
