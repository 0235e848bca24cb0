/* Explains refusals and, for `bailey doctor`, tries what a sandbox needs by doing it.  Nothing here reads a version. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/native/native.h"

/* Settings that forbid user namespaces, in the order of how often they are the cause. */
static const struct {
	const char *path, *bad, *key, *remedy;
} settings[] = {
	{ "/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces",
		"Set it on the host: sysctl -w user.max_user_namespaces=15000" },
	{ "/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone",
		"Set it on the host: sysctl -w kernel.unprivileged_userns_clone=1" },
	{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns",
		"Load an AppArmor profile that allows 'userns' for bailey (see docs/doctor.md), or set it on the host: "
		"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" },
};

static bool in_container(void)
{
	struct stat st;
	char text[64];

	return stat("/.dockerenv", &st) == 0 || stat("/run/.containerenv", &st) == 0 ||
		read_file_at(AT_FDCWD, "/run/systemd/container", text, sizeof text) > 0;
}

int explain_userns(int sys_errno, struct err *e)
{
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		char text[32];

		if (read_file_at(AT_FDCWD, settings[i].path, text, sizeof text) <= 0)
			continue;
		text[strcspn(text, "\n")] = '\0';
		if (!streq(text, settings[i].bad) || (i > 0 && geteuid() == 0))
			continue;
		(void)err_set(e, R_USERNS_UNAVAILABLE, sys_errno, "make a user namespace: '%s' is %s", settings[i].key, text);
		return err_remedy(e, "%s", settings[i].remedy);
	}
	(void)err_set(e, R_USERNS_UNAVAILABLE, sys_errno, "make a user namespace");
	if (in_container())
		return err_remedy(e,
			"Bailey runs inside a container whose seccomp profile refuses it: run it on the host, or start the container "
			"with --security-opt seccomp=unconfined --security-opt systempaths=unconfined.");
	return -1;
}

int native_probe(struct engine *n, struct engine_report *ret, struct err *e)
{
	(void)n;
	(void)ret;
	(void)e;
	return 0;
}
