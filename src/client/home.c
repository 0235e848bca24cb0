/* Owns the handle of a home: where Bailey's files and programs are.  Called first by every user of the library. */
#include "base/home.h"

#include <fcntl.h>
#include <string.h>

#include "base/str.h"
#include "client/client.h"
#include "spec/profile.h"

static char *copy_text(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static int open_home(const struct bailey_options *given, struct bailey **ret, struct err *e)
{
	struct bailey_options o = BAILEY_OPTIONS_INIT;
	_cleanup_free_ char *home = NULL, *launcher = NULL;
	struct bailey *b;

	if (client_options(&o, sizeof o, given, "open", e) < 0)
		return -1;
	if (o.home && (*o.home != '/' || str_has_control(o.home)))
		return err_set(e, R_BAD_VALUE, 0, "use home '%.64s': not an absolute path", o.home);
	if (o.libexec && *o.libexec != '/')
		return err_set(e, R_BAD_VALUE, 0, "use programs in '%.64s': not an absolute path",
			o.libexec);
	if (o.engine && !streq(o.engine, "native") && !streq(o.engine, "docker"))
		return err_set(
			e, R_BAD_VALUE, 0, "use engine '%.64s': not native or docker", o.engine);
	if (o.docker_disk && !streq(o.docker_disk, "watch") && !streq(o.docker_disk, "refuse"))
		return err_set(e, R_BAD_VALUE, 0,
			"use '%.64s' for the disks of containers: not watch or refuse",
			o.docker_disk);
	if (!o.home && home_path(&home, e) < 0)
		return -1;
	if (launcher_find(&o, &launcher, e) < 0)
		return -1;
	b = calloc(1, sizeof *b);
	if (!b)
		return err_set(e, R_NO_MEMORY, ENOMEM, "open the home");
	b->home = home ? move_ptr(home) : xstrdup(o.home);
	b->launcher = move_ptr(launcher);
	b->libexec = copy_text(o.libexec);
	b->cgroup_parent = copy_text(o.cgroup_parent);
	b->ids_base = o.ids_base;
	b->ids_count = o.ids_count;
	b->agent_uid = o.agent_uid ? o.agent_uid : PROFILE_AGENT_ID;
	b->agent_gid = o.agent_gid ? o.agent_gid : PROFILE_AGENT_ID;
	b->layers = copy_text(o.layers);
	b->layer_store = copy_text(o.layer_store);
	b->engine = xstrdup(o.engine ? o.engine : "native");
	b->runtime = copy_text(o.runtime);
	b->docker_host = copy_text(o.docker_host);
	b->docker_cert_path = copy_text(o.docker_cert_path);
	b->docker_disk = copy_text(o.docker_disk);
	*ret = b;
	return 0;
}

int bailey_open(const struct bailey_options *o, struct bailey **ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(open_home(o, ret, &err), e, &err);
}

void bailey_close(struct bailey *b)
{
	if (!b)
		return;
	free(b->home);
	free(b->launcher);
	free(b->libexec);
	free(b->cgroup_parent);
	free(b->layers);
	free(b->layer_store);
	free(b->engine);
	free(b->runtime);
	free(b->docker_host);
	free(b->docker_cert_path);
	free(b->docker_disk);
	free(b);
}

const char *bailey_home(const struct bailey *b)
{
	return b->home;
}

const char *bailey_version(void)
{
	return BAILEY_VERSION;
}

/* $BAILEY_LIBEXEC, then beside the program that runs (bailey itself), then where this library was installed. */
int client_program(const struct bailey *b, const char *name, char **ret, struct err *e)
{
	_cleanup_free_ char *beside = NULL;

	if (b->libexec) {
		*ret = xasprintf("%s/%s", b->libexec, name);
		return 0;
	}
	if (libexec_path(name, &beside, e) < 0)
		return -1;
	if (secure_getenv("BAILEY_LIBEXEC") || access(beside, X_OK) == 0)
		*ret = move_ptr(beside);
	else
		*ret = xasprintf("%s/%s", CLIENT_LIBEXECDIR, name);
	return 0;
}
