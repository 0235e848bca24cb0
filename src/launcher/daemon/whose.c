/* Whom the launcher serves, and where his sandboxes lie.  Called by both processes. */
#include <fcntl.h>
#include <sys/stat.h>

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

uint32_t daemon_agent_id(const char *variable)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	const char *text = secure_getenv(variable);
	uint64_t id = PROFILE_AGENT_ID;

	if (text && *text)
		(void)parse_u64(text, 1, 65534, variable, &id, &ignored);
	return (uint32_t)id;
}

bool daemon_is_handed_over(int fd, uid_t uid)
{
	struct statx st, above;

	return statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) == 0 &&
		st.stx_uid == daemon_agent_id("BAILEY_AGENT_UID") && S_ISDIR(st.stx_mode) &&
		st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
		!(st.stx_attributes & STATX_ATTR_MOUNT_ROOT) &&
		statx(fd, "..", 0, STATX_BASIC_STATS, &above) == 0 && above.stx_uid == uid;
}
