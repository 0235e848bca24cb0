/* Owns the table of forbidden objects: each is looked up once, and what lies above each is noted, so that a source is
 * compared without walking the file system again.  Called by admit.c.
 *
 * What is absent is no danger as long as nobody in the sandbox can make it: for a writable source the directory in which it
 * would be made counts.  So do Bailey's own programs, which the next run would start outside. */
#include "launcher/forbidden.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "base/home.h"
#include "base/str.h"

enum {
	FIRST_USER_ID = 1000, /* login.defs: ids below belong to system users */
	NOBODY_ID = 65534,
};

enum kind { KIND_TREE, KIND_RUN, KIND_TOP, KIND_SOCKET, KIND_ABOVE, KIND_PLACE };

struct row {
	struct object object;
	enum kind kind;
	const char *path; /* one of texts */
};

struct rows {
	struct row *v;
	size_t n, cap;
};

/* The directory of the row before: the rows are sorted so that most lie in the same. */
struct group {
	int dirfd;
	char dir[PATH_MAX];      /* below dirfd, up to the last slash */
	bool known, absent;      /* it has been looked for, and isn't there */
	bool added, place_added; /* to `above`, and as a place where something could be made */
};

struct forbidden {
	struct rows objects;
	struct rows above; /* what contains one of them */
	struct rows
		above_writable; /* what contains a place where one could be made, or a program of ours */
	char **texts;
	size_t n_texts, cap_texts;
	char **absent;
	size_t n_absent, cap_absent;
	bool writable_ready;
	struct group group; /* while loading */
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void *grow(void *v, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return v;
	*cap = *cap ? 2 * *cap : 64;
	v = reallocarray(v, *cap, size);
	if (!v)
		abort();
	return v;
}

static void add_row(struct rows *r, const struct object *o, enum kind kind, const char *path)
{
	r->v = grow(r->v, r->n, &r->cap, sizeof *r->v);
	r->v[r->n++] = (struct row){ .object = *o, .kind = kind, .path = path };
}

/* From the newest: what lies above an object is mostly that of the one before it. */
static const struct row *find_row(const struct rows *r, const struct object *o)
{
	for (size_t i = r->n; i-- > 0;)
		if (same_object(&r->v[i].object, o))
			return &r->v[i];
	return NULL;
}

static const char *keep(struct forbidden *f, char *text)
{
	f->texts = grow(f->texts, f->n_texts, &f->cap_texts, sizeof *f->texts);
	return f->texts[f->n_texts++] = text;
}

static void note_absent(struct forbidden *f, char *path)
{
	f->absent = grow(f->absent, f->n_absent, &f->cap_absent, sizeof *f->absent);
	f->absent[f->n_absent++] = path;
}

/* The directory and all above it, as far as they aren't known yet.  Consumes dir. */
static void add_above(
	struct forbidden *f, struct rows *to, int dir, enum kind kind, const char *path)
{
	_cleanup_close_ int at = dir;
	struct object o;

	while (at >= 0 && object_at(at, "", &o) == 0 && !find_row(&f->above, &o) &&
		(to == &f->above || !find_row(to, &o))) {
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		add_row(to, &o, kind, path);
		at = close_fd(at);
		at = up;
	}
}

/* The directory that an opened object lies in; by its name where there is no right to go up from it. */
static int open_above(int fd, const struct object *o)
{
	int up = S_ISDIR(o->mode) ? openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	char path[PATH_MAX];

	if (up >= 0)
		return up;
	path_of(fd, path);
	return open_parent(path);
}

static struct group *enter_group(struct forbidden *f, int dirfd, const char *name)
{
	const char *slash = strrchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) + 1 : 0;
	struct group *g = &f->group;

	if (g->known && g->dirfd == dirfd && strncmp(g->dir, name, n) == 0 && !g->dir[n])
		return g;
	if (n >= sizeof g->dir)
		return NULL;
	g->known = true;
	g->absent = g->added = g->place_added = false;
	g->dirfd = dirfd;
	memcpy(g->dir, name, n);
	g->dir[n] = '\0';
	return g;
}

static char *full_path(const char *dir, int dirfd, const char *name)
{
	return xasprintf("%s%s%s", dir, dirfd == AT_FDCWD ? "" : "/", name);
}

/* Somebody who may write in the row's directory could put something of his own in its place. */
static void add_place(
	struct forbidden *f, struct group *g, const char *dir, const char *name, enum kind kind)
{
	/* for a name in a home itself that is the home, which is a row already; so are the directories of sockets */
	if (!g->place_added && *g->dir && kind != KIND_SOCKET)
		note_absent(f, full_path(dir, g->dirfd, name));
	g->place_added = true;
}

/* A link's object lies elsewhere. */
static int add_link(
	struct forbidden *f, struct group *g, const char *dir, const char *name, enum kind kind)
{
	_cleanup_close_ int fd = openat(g->dirfd, name, O_PATH | O_CLOEXEC);
	const char *path;
	struct object o;

	add_place(f, g, dir, name, kind);
	if (fd < 0 || object_at(fd, "", &o) < 0)
		return errno;
	path = keep(f, full_path(dir, g->dirfd, name));
	add_row(&f->objects, &o, kind, path);
	add_above(f, &f->above, open_above(fd, &o), KIND_ABOVE, path);
	return 0;
}

/* One path below an opened directory `dir` (AT_FDCWD and "": the path itself).  0, or an errno. */
static int add_object(
	struct forbidden *f, int dirfd, const char *dir, const char *name, enum kind kind)
{
	struct group *g = enter_group(f, dirfd, name);
	const char *path;
	struct object o;

	if (!g)
		return ENAMETOOLONG;
	if (g->absent)
		return ENOENT;
	if (object_at(dirfd, name, &o) < 0) {
		int why = errno;

		if (why == ENOENT && !g->place_added) {
			add_place(f, g, dir, name, kind);
			g->absent = !g->added && *g->dir && object_at(dirfd, g->dir, &o) < 0;
		}
		return why;
	}
	if (S_ISLNK(o.mode))
		return add_link(f, g, dir, name, kind);
	path = keep(f, full_path(dir, dirfd, name));
	add_row(&f->objects, &o, kind, path);
	if (!g->added)
		add_above(f, &f->above,
			openat(dirfd, *g->dir ? g->dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC),
			KIND_ABOVE, path);
	g->added = true;
	return 0;
}

static void add_system(struct forbidden *f)
{
	static const struct {
		const char *path;
		enum kind kind;
	} rows[] = {
#define TREE(path) { path, KIND_TREE },
#define RUN(path) { path, KIND_RUN },
#define TOP(path) { path, KIND_TOP },
#define SOCKET(path) { path, KIND_SOCKET },
#include "launcher/forbidden.def"
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		(void)add_object(f, AT_FDCWD, "", rows[i].path, rows[i].kind);
}

static const char *const home_rows[] = {
#define HOME(path) path,
#include "launcher/forbidden.def"
};

static const char *const names[] = {
#define NAME(name) name,
#include "launcher/forbidden.def"
};

/* A person's home is refused as a whole; a service's may be any directory, so only the keys in it count. */
static void add_home(struct forbidden *f, const char *home, bool person)
{
	/* not O_DIRECTORY: that would have every user's home mounted where an automounter does it */
	_cleanup_close_ int fd = open(home, O_PATH | O_CLOEXEC);
	const char *const *rows = person ? home_rows : names;
	size_t n = person ? COUNT(home_rows) : COUNT(names);

	if (person)
		(void)add_object(f, AT_FDCWD, "", home, KIND_TOP);
	if (fd < 0)
		return;
	f->group.known = false; /* descriptors' numbers come again */
	for (size_t i = 0; i < n; i++)
		if (add_object(f, fd, streq(home, "/") ? "" : home, rows[i], KIND_TREE) == EACCES)
			return; /* closed to us, and so to a sandbox of ours */
}

/* Nobody's project lies there, and they are the homes of most services. */
static bool is_system_dir(const char *dir)
{
	static const char *const dirs[] = { "/bin", "/dev", "/run", "/sbin", "/usr" };

	for (size_t i = 0; i < COUNT(dirs); i++) {
		const char *rest = str_after(dir, dirs[i]);

		if (rest && (!*rest || *rest == '/'))
			return true;
	}
	return streq(dir, "/");
}

/* The caller's home by both ways of naming it, and every user's of this host's own list. */
static void add_homes(struct forbidden *f)
{
	_cleanup_fclose_ FILE *passwd = fopen("/etc/passwd", "re");
	_cleanup_free_ char *last = NULL;
	const uid_t me = geteuid();
	const char *home = secure_getenv("HOME");

	if (home && *home == '/')
		add_home(f, home, true);
	for (struct passwd *pw = passwd ? fgetpwent(passwd) : NULL; pw; pw = fgetpwent(passwd)) {
		bool person = pw->pw_uid == 0 || pw->pw_uid >= FIRST_USER_ID || pw->pw_uid == me;

		if (pw->pw_dir[0] != '/' || pw->pw_uid == NOBODY_ID ||
			(!person && is_system_dir(pw->pw_dir)) ||
			(home && streq(pw->pw_dir, home)) || (last && streq(pw->pw_dir, last)))
			continue;
		add_home(f, pw->pw_dir, person);
		free(last);
		last = xstrdup(pw->pw_dir);
	}
}

static void add_runtime(struct forbidden *f, const char *dir)
{
	static const char *const rows[] = {
#define RUNTIME(path) path,
#include "launcher/forbidden.def"
	};

	if (add_object(f, AT_FDCWD, "", dir, KIND_TOP) != 0)
		return;
	for (size_t i = 0; i < COUNT(rows); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", dir, rows[i]);

		if (add_object(f, AT_FDCWD, "", path, KIND_SOCKET) == EACCES)
			return;
	}
}

/* The variable is not set under sudo, su and cron, and root may connect to every user's. */
static void add_runtimes(struct forbidden *f)
{
	_cleanup_closedir_ DIR *users = opendir("/run/user");
	const char *mine = secure_getenv("XDG_RUNTIME_DIR");

	if (mine && *mine == '/')
		add_runtime(f, mine);
	for (struct dirent *d = users ? readdir(users) : NULL; d; d = readdir(users)) {
		_cleanup_free_ char *dir = xasprintf("/run/user/%s", d->d_name);

		if (d->d_name[0] != '.' && !(mine && streq(mine, dir)))
			add_runtime(f, dir);
	}
}

static void add_variables(struct forbidden *f)
{
	static const char *const variables[] = {
#define SOCKET_VARIABLE(name) name,
#include "launcher/forbidden.def"
	};
	const char *tmux = secure_getenv("TMUX_TMPDIR");
	_cleanup_free_ char *dir =
		xasprintf("%s/tmux-%u", tmux && *tmux == '/' ? tmux : "/tmp", geteuid());

	(void)add_object(f, AT_FDCWD, "", dir, KIND_TREE);
	for (size_t i = 0; i < COUNT(variables); i++) {
		const char *value = secure_getenv(variables[i]);
		_cleanup_free_ char *path = NULL;

		if (!value)
			continue;
		path = xstrdup(str_after(value, "unix://") ?: str_after(value, "unix:path=") ?: value);
		if (str_after(value, "unix:path="))
			path[strcspn(path, ",;")] = '\0';
		if (*path == '/')
			(void)add_object(f, AT_FDCWD, "", path, KIND_SOCKET);
	}
}

int forbidden_load(struct forbidden **ret, struct err *e)
{
	_cleanup_free_ char *home = NULL;
	struct forbidden *f;

	if (home_path(&home, e) < 0)
		return -1;
	f = xcalloc(1, sizeof *f);
	(void)add_object(f, AT_FDCWD, "", home, KIND_TREE);
	add_system(f);
	add_homes(f);
	add_runtimes(f);
	add_variables(f);
	*ret = f;
	return 0;
}

void forbidden_free(struct forbidden *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n_texts; i++)
		free(f->texts[i]);
	for (size_t i = 0; i < f->n_absent; i++)
		free(f->absent[i]);
	free(f->texts);
	free(f->absent);
	free(f->objects.v);
	free(f->above.v);
	free(f->above_writable.v);
	free(f);
}

/* The nearest directory above an absent path: who may write there makes the rest. */
static int open_nearest(const char *path)
{
	_cleanup_free_ char *up = xstrdup(path);

	for (;;) {
		int fd = open_parent(up);

		if (fd >= 0 || errno != ENOENT || !*up)
			return fd;
	}
}

static void add_writable(struct forbidden *f)
{
	_cleanup_free_ char *guest = NULL;
	_cleanup_err_ struct err e = ERR_INIT;
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	for (size_t i = 0; i < f->n_absent; i++)
		add_above(f, &f->above_writable, open_nearest(f->absent[i]), KIND_PLACE,
			f->absent[i]);
	if (n > 0) {
		self[n] = '\0';
		(void)keep(f, xstrdup(self));
		add_above(f, &f->above_writable, open_parent(self), KIND_ABOVE,
			f->texts[f->n_texts - 1]);
	}
	if (libexec_path("bailey-guest", &guest, &e) == 0) {
		(void)keep(f, xstrdup(guest));
		add_above(f, &f->above_writable, open_parent(guest), KIND_ABOVE,
			f->texts[f->n_texts - 1]);
	}
	f->writable_ready = true;
}

static bool refuse_by(const struct row *row, const char *how, struct refusal *ret)
{
	*ret = (struct refusal){ .how = how, .path = row->path };
	return true;
}

static bool is_kind(
	const struct rows *r, const struct object *o, enum kind kind, const struct row **ret)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].kind == kind && same_object(&r->v[i].object, o)) {
			*ret = &r->v[i];
			return true;
		}
	return false;
}

static bool is_tree(const struct forbidden *f, const struct object *o, const struct row **ret)
{
	return is_kind(&f->objects, o, KIND_TREE, ret) || is_kind(&f->objects, o, KIND_RUN, ret);
}

bool forbidden_directory(
	struct forbidden *f, const struct chain *source, bool writable, struct refusal *ret)
{
	const struct object *o = &source->at[0];
	const struct row *row;

	if (is_tree(f, o, &row) || is_kind(&f->objects, o, KIND_SOCKET, &row))
		return refuse_by(row, "is", ret);
	if (is_kind(&f->objects, o, KIND_TOP, &row))
		return refuse_by(row, "is, as a whole,", ret);
	for (unsigned i = 1; i < source->n; i++)
		if (is_tree(f, &source->at[i], &row))
			return refuse_by(row, "lies inside", ret);
	row = find_row(&f->above, o);
	if (row)
		return refuse_by(row, "contains", ret);
	if (writable && !f->writable_ready)
		add_writable(f);
	row = writable ? find_row(&f->above_writable, o) : NULL;
	if (!row)
		return false;
	(void)refuse_by(
		row, row->kind == KIND_PLACE ? "is where somebody could make" : "contains", ret);
	ret->writable_only = true;
	return true;
}

static const char *last_components(const char *path, unsigned n)
{
	const char *p = path + strlen(path);

	while (p > path && !(p[-1] == '/' && --n == 0))
		p--;
	return p;
}

bool forbidden_socket(
	struct forbidden *f, const struct chain *socket, const char *path, struct refusal *ret)
{
	static const char *const globs[] = {
#define SOCKET_NAME(glob) glob,
#include "launcher/forbidden.def"
	};
	const struct row *row;

	if (is_kind(&f->objects, &socket->at[0], KIND_SOCKET, &row))
		return refuse_by(row, "is", ret);
	for (unsigned i = 1; i < socket->n; i++)
		if (is_kind(&f->objects, &socket->at[i], KIND_TREE, &row))
			return refuse_by(row, "lies inside", ret);
	for (size_t i = 0; i < COUNT(globs); i++)
		if (fnmatch(globs[i], last_components(path, strchr(globs[i], '/') ? 2 : 1),
			    FNM_PATHNAME) == 0) {
			*ret = (struct refusal){ .how = "has a name like", .path = globs[i] };
			return true;
		}
	return false;
}

const char *forbidden_name(const char *path)
{
	for (size_t i = 0; i < COUNT(names); i++) {
		size_t len = strlen(names[i]);

		for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
			if (strncmp(p + 1, names[i], len) == 0 &&
				(p[1 + len] == '/' || !p[1 + len]))
				return names[i];
	}
	return NULL;
}

bool forbidden_fstype(const char *type)
{
	static const char *const types[] = {
#define FSTYPE(type) type,
#include "launcher/forbidden.def"
	};

	for (size_t i = 0; i < COUNT(types); i++)
		if (streq(types[i], type))
			return true;
	return false;
}
