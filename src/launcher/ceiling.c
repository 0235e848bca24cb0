/* Owns the ceiling file: its reading and what it allows.  Called by the launcher and by its spawner. */
#include "launcher/ceiling.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"

static int parse_SIZE(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	return parse_size(s, lo, hi, what, ret, e);
}

static int parse_CPUS(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	return parse_cpus(s, lo, hi, what, ret, e);
}

static int parse_COUNT(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	return parse_u64(s, lo, hi, what, ret, e);
}

static int parse_TIME(
	const char *s, uint64_t lo, uint64_t hi, const char *what, uint64_t *ret, struct err *e)
{
	return parse_duration(s, lo, hi, what, ret, e);
}

static const struct {
	const char *key;
	size_t offset;
	uint64_t value, lo, hi;
	int (*parse)(const char *, uint64_t, uint64_t, const char *, uint64_t *, struct err *);
} keys[] = {
#define CEILING(type, member, key, value, lo, hi, doc) \
	{ key, offsetof(struct ceiling, member), value, lo, hi, parse_##type },
#include "launcher/ceiling.def"
#undef CEILING
};

enum { N_KEYS = sizeof keys / sizeof *keys };

static void set_member(struct ceiling *c, size_t i, uint64_t value)
{
	memcpy((char *)c + keys[i].offset, &value, sizeof value);
}

void ceiling_init(struct ceiling *c)
{
	*c = (struct ceiling){ .profiles = UINT32_MAX };
	for (size_t i = 0; i < N_KEYS; i++)
		set_member(c, i, keys[i].value);
}

/* --- the file --- */

static int take_profiles(struct ceiling *c, char *names, struct err *e)
{
	char *save = NULL;

	c->profiles = 0;
	for (char *name = strtok_r(names, " \t", &save); name;
		name = strtok_r(NULL, " \t", &save)) {
		const int profile = spec_profile_find(name);

		if (profile < 0)
			return err_set(e, R_CONFIG_INVALID, 0,
				"profile '%.64s': there is none of that name", name);
		c->profiles |= 1u << profile;
	}
	return 0;
}

static int take_engines(struct ceiling *c, char *names, struct err *e)
{
	char *save = NULL;

	c->docker = false;
	for (char *name = strtok_r(names, " \t", &save); name;
		name = strtok_r(NULL, " \t", &save)) {
		if (streq(name, "docker"))
			c->docker = true;
		else if (!streq(name, "native"))
			return err_set(e, R_CONFIG_INVALID, 0,
				"engine '%.64s': there is none of that name", name);
	}
	return 0;
}

static int take_key(struct ceiling *c, const char *key, char *value, uint64_t *seen, struct err *e)
{
	uint64_t number;
	size_t i = 0;

	while (i < N_KEYS && !streq(keys[i].key, key))
		i++;
	if (i == N_KEYS && streq(key, "engines"))
		i++;
	else if (i == N_KEYS && !streq(key, "profiles"))
		return err_set(
			e, R_CONFIG_INVALID, 0, "key '%.64s': there is none of that name", key);
	if (*seen & 1ull << i)
		return err_set(e, R_CONFIG_INVALID, 0, "key '%s': it is given twice", key);
	*seen |= 1ull << i;
	if (!*value)
		return err_set(e, R_CONFIG_INVALID, 0, "key '%s': it has no value", key);
	if (i == N_KEYS)
		return take_profiles(c, value, e);
	if (i > N_KEYS)
		return take_engines(c, value, e);
	if (keys[i].parse(value, keys[i].lo, keys[i].hi, key, &number, e) == 0) {
		set_member(c, i, number);
		return 0;
	}
	e->reason = R_CONFIG_INVALID;
	return -1;
}

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t");
	end = s + strlen(s);
	while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	return s;
}

int ceiling_parse(struct ceiling *c, char *text, const char *path, struct err *e)
{
	uint64_t seen = 0;
	unsigned n = 0;

	for (char *line = text, *next; line; line = next) {
		char *value;

		n++;
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		line[strcspn(line, "#")] = '\0';
		line = trim(line);
		if (!*line)
			continue;
		value = line + strcspn(line, " \t");
		if (*value)
			*value++ = '\0';
		if (str_has_control(line) || take_key(c, line, trim(value), &seen, e) < 0) {
			if (!e->reason)
				err_set(e, R_CONFIG_INVALID, 0, "control characters");
			return err_wrap(e, "read '%s', line %u", path, n);
		}
	}
	return 0;
}

int ceiling_read(struct ceiling *c, const char *path, struct err *e)
{
	const char *name = path ?: CEILING_FILE;
	_cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[CEILING_MAX];
	struct stat st;
	ssize_t n;

	ceiling_init(c);
	if (fd < 0 && errno == ENOENT && !path)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, R_CONFIG_INVALID, errno, "open ceiling file '%s'", name);
	if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 022)
		return err_set(e, R_CONFIG_INVALID, 0,
			"trust ceiling file '%s': it must be a file of root's or of uid '%u' that nobody else may write",
			name, geteuid());
	n = read(fd, text, sizeof text);
	if (n < 0 || n == (ssize_t)sizeof text || memchr(text, '\0', (size_t)n))
		return err_set(e, R_CONFIG_INVALID, n < 0 ? errno : 0,
			"read ceiling file '%s': over %d bytes, or no text", name, CEILING_MAX - 1);
	text[n] = '\0';
	return ceiling_parse(c, text, name, e);
}

/* --- the check --- */

static int over(uint64_t value, uint64_t max, const char *key, struct err *e)
{
	return value <= max
		? 0
		: err_set(e, R_CEILING_EXCEEDED, 0,
			  "make a sandbox: it asks for '%llu', '%s' of the ceiling is '%llu'",
			  (unsigned long long)value, key, (unsigned long long)max);
}

int ceiling_check(const struct ceiling *c, const struct pack_request *r, struct err *e)
{
	const struct sandbox_spec *s = &r->spec;

	if (!(c->profiles & 1u << s->profile))
		return err_set(e, R_NOT_ALLOWED, 0,
			"make a sandbox of profile '%s': the ceiling has no such profile",
			spec_profile_name(s->profile));
	if (s->limits.unlimited)
		return err_set(e, R_NOT_ALLOWED, 0, "make a sandbox without limits by a launcher");
	if (over(s->limits.memory_bytes, c->memory, "max-memory", e) < 0 ||
		over(s->limits.cpu_millis, c->cpu_millis, "max-cpus", e) < 0 ||
		over(s->limits.pids, c->pids, "max-pids", e) < 0 ||
		over(s->disk_bytes, c->disk, "max-disk", e) < 0 ||
		over(s->ttl_ms ?: UINT64_MAX, c->lifetime_ms, "max-lifetime", e) < 0)
		return -1;
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		if (over(s->tmpfs[i].size, c->disk, "max-disk", e) < 0)
			return -1;
	return 0;
}
