/* Owns the reading of /proc/self/mountinfo.  Called by admit.c. */
#include "launcher/mounts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"

enum {
	MAX_TEXT = 32 << 20,
	MAX_MOUNTS = 200000, /* the kernel's own default is 100,000 */
};

void mounts_done(struct mounts *m)
{
	buf_done(&m->text);
	free(m->v);
	m->v = NULL;
	m->n = 0;
}

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
		s[2] <= '7';
}

/* The kernel writes blanks, newlines and backslashes as \ooo. */
static char *unescape(char *s)
{
	char *out = s;

	for (const char *p = s; *p; out++) {
		if (*p == '\\' && is_octal(p + 1)) {
			*out = (char)(((p[1] - '0') << 6) | ((p[2] - '0') << 3) | (p[3] - '0'));
			p += 4;
		} else {
			*out = *p++;
		}
	}
	*out = '\0';
	return s;
}

/* "ID PARENT MAJ:MIN ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS" */
static bool parse_line(char *line, struct mount *m)
{
	_cleanup_err_ struct err e = ERR_INIT;
	char *rest = strstr(line, " - "), *field[6], *at = line;

	if (!rest)
		return false;
	*rest = '\0';
	rest += 3;
	for (unsigned i = 0; i < 6; i++) {
		field[i] = strsep(&at, " ");
		if (!field[i])
			return false;
	}
	m->type = strsep(&rest, " ");
	m->device = field[2];
	m->root = unescape(field[3]);
	m->point = unescape(field[4]);
	return parse_u64(field[0], 0, UINT64_MAX, "mount id", &m->id, &e) == 0;
}

int mounts_parse(struct mounts *m, struct err *e)
{
	char *at = m->text.data, *line;
	size_t lines = 0;

	for (const char *p = at; p && (p = strchr(p, '\n')); p++)
		lines++;
	if (lines > MAX_MOUNTS)
		return err_set(e, R_SETUP_FAILED, 0, "read '/proc/self/mountinfo': over %d mounts",
			MAX_MOUNTS);
	m->v = xcalloc(lines + 1, sizeof *m->v);
	while ((line = strsep(&at, "\n")) && *line && m->n <= lines)
		if (!parse_line(line, &m->v[m->n++]))
			return err_set(e, R_SETUP_FAILED, 0,
				"read '/proc/self/mountinfo': a line has another form");
	return 0;
}

int mounts_load(struct mounts *m, struct err *e)
{
	_cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	m->text.max = MAX_TEXT;
	if (fd < 0 || read_all(fd, &m->text) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "read '/proc/self/mountinfo'");
	return mounts_parse(m, e);
}

const char *below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1)
		return *path == '/' ? path + 1 : NULL;
	if (strncmp(path, dir, n) != 0)
		return NULL;
	return path[n] == '/' ? path + n + 1 : path[n] ? NULL : path + n;
}

static const struct mount *by_id(const struct mounts *m, uint64_t id)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].id == id)
			return &m->v[i];
	return NULL;
}

/* The root of a mount seen through another mount of the same file system, and what lies above it there.  Not beyond that
 * mount's own root: where a file system is mounted says nothing of what is in it. */
static void add_alias(struct chain *c, const struct object *root, const struct mount *of,
	const struct mount *other)
{
	const char *rest = below(of->root, other->root);
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int dir = -1;
	struct object o;
	char *name;

	if (!rest || !*rest)
		return;
	path = xasprintf("%s/%s", streq(other->point, "/") ? "" : other->point, rest);
	dir = open_parent(path);
	name = path + strlen(path) + 1; /* open_parent() has cut it off */
	if (dir < 0 || object_at(dir, name, &o) < 0 || !same_object(&o, root) ||
		o.mount != other->id)
		return; /* another mount covers it, or it has been moved */
	(void)chain_add(c, dir, other->id);
}

bool mounts_add_aliases(const struct mounts *m, struct chain *c, struct refusal *ret)
{
	unsigned n = c->n, root = c->root;

	for (unsigned i = 0; i < n; i++) {
		const struct mount *of =
			c->at[i].mount_root && i != root ? by_id(m, c->at[i].mount) : NULL;
		const char *name;

		if (!of)
			continue;
		if (forbidden_fstype(of->type)) {
			*ret = (struct refusal){ .how = "lies on a file system of type",
				.path = of->type };
			return true;
		}
		name = forbidden_name(of->root);
		if (name) {
			*ret = (struct refusal){
				.how = "is a mount of something in a directory named", .path = name
			};
			return true;
		}
		for (size_t j = 0; j < m->n; j++)
			if (m->v[j].id != of->id && streq(m->v[j].device, of->device))
				add_alias(c, &c->at[i], of, &m->v[j]);
	}
	return false;
}
