/* Owns the layout of Bailey's home and of an installed tree.  Reads the environment; called by programs, not by rooms
 * that must stay pure. */
#include "base/home.h"

#include <limits.h>
#include <pwd.h>
#include <stdint.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

static int user_home(char **ret, struct err *e)
{
	const char *env = secure_getenv("HOME");
	struct passwd *pw;

	if (env && *env == '/') {
		*ret = xstrdup(env);
		return 0;
	}
	pw = getpwuid(geteuid());
	if (!pw || !pw->pw_dir || *pw->pw_dir != '/')
		return err_set(
			e, R_STATE_UNWRITABLE, 0, "find the home directory of uid '%u'", geteuid());
	*ret = xstrdup(pw->pw_dir);
	return 0;
}

int home_path(char **ret, struct err *e)
{
	const char *home = secure_getenv("BAILEY_HOME"), *data = secure_getenv("XDG_DATA_HOME");
	_cleanup_free_ char *user = NULL;

	if (home && *home) {
		if (*home != '/' || str_has_control(home))
			return err_set(e, R_BAD_VALUE, 0,
				"read BAILEY_HOME '%.64s': not an absolute path", home);
		*ret = xstrdup(home);
		return 0;
	}
	if (geteuid() == 0) {
		*ret = xstrdup("/var/lib/bailey");
		return 0;
	}
	if (data && *data == '/') {
		*ret = xasprintf("%s/bailey", data);
		return 0;
	}
	if (user_home(&user, e) < 0)
		return -1;
	*ret = xasprintf("%s/.local/share/bailey", user);
	return 0;
}

int home_subdir(const char *sub, char **ret, struct err *e)
{
	_cleanup_free_ char *home = NULL, *path = NULL;

	if (home_path(&home, e) < 0)
		return -1;
	path = xasprintf("%s/%s", home, sub);
	if (make_dirs(path, e) < 0)
		return -1;
	*ret = move_ptr(path);
	return 0;
}

/* FNV-1a: the hash only keeps names apart, nothing rests on its strength. */
int home_hash(char ret[static 9], struct err *e)
{
	_cleanup_free_ char *home = NULL;
	uint32_t h = 2166136261u;

	if (home_path(&home, e) < 0)
		return -1;
	for (const char *p = home; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	str_format(ret, 9, "%08x", h);
	return 0;
}

int libexec_path(const char *program, char **ret, struct err *e)
{
	const char *env = secure_getenv("BAILEY_LIBEXEC");
	char self[PATH_MAX];
	ssize_t n;
	char *slash;

	if (env && *env == '/') {
		*ret = xasprintf("%s/%s", env, program);
		return 0;
	}
	n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n < 0)
		return err_set(e, R_GUEST_MISSING, errno, "read link '/proc/self/exe'");
	self[n] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	/* a program in libexec/bailey finds its neighbours beside itself */
	if (n > 15 && strlen(self) >= 15 && streq(self + strlen(self) - 15, "/libexec/bailey")) {
		*ret = xasprintf("%s/%s", self, program);
		return 0;
	}
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	*ret = xasprintf("%s/libexec/bailey/%s", self, program);
	return 0;
}
