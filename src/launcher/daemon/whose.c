/* Whom the launcher serves, and where his sandboxes lie.  Called by both processes. */
#include "base/str.h"
#include "launcher/daemon/daemon.h"

bool daemon_allows(const struct daemon_options *o, uid_t uid)
{
	for (unsigned i = 0; i < o->n_uids; i++)
		if (o->uids[i] == uid)
			return true;
	return uid == geteuid();
}

char *daemon_home(const char *home, uid_t uid)
{
	return uid == geteuid() ? xstrdup(home) : xasprintf("%s/users/%u", home, uid);
}
