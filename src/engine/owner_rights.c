/* Owns what an owner process gives up of root's rights.  Called by owner_create.c: before the request is read, and once more
 * when the sandbox is made, since a normal user's owner has a user namespace of its own only then.
 *
 * What is kept is what an engine does for a sandbox that lives: mounts, ids, other users' files and processes.  docs/threat-model.md
 * says it for each.  Nothing comes back: neither by a program that is executed, nor in a process that is forked. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/owner.h"

enum { HIGHEST_CAP = 63 };

static const unsigned char kept[] = {
	CAP_SYS_ADMIN,       /* mount, unshare, trusted attributes */
	CAP_SYS_CHROOT,      /* the channel and the worker leave the host's root directory */
	CAP_SETUID,          /* the channel's and the worker's user; maps of user namespaces */
	CAP_SETGID,          /* the same for groups */
	CAP_SETPCAP,         /* the channel empties its bounding set */
	CAP_CHOWN,           /* files of the sandbox's ids; overlayfs acts with these rights */
	CAP_DAC_OVERRIDE,    /* the same */
	CAP_DAC_READ_SEARCH, /* the worker reads any file of the layers, and has no other right */
	CAP_FOWNER,          /* modes and times of files of the sandbox's ids */
	CAP_FSETID,          /* copies keep their setgid bits */
	CAP_SETFCAP,         /* copies by overlayfs keep the capabilities of a file */
	CAP_KILL,            /* the guest and the channel are other users */
	CAP_SYS_RESOURCE,    /* how low a sandbox may put its oom_score_adj */
};

static uint64_t kept_mask(void)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < sizeof kept; i++)
		mask |= UINT64_C(1) << kept[i];
	return mask;
}

/* Without the right to do it, as in a container that has taken it away, what can't be had by exec is bounded by
 * no_new_privs. */
static int drop_bounding(uint64_t keep, bool able)
{
	for (unsigned cap = 0; cap <= HIGHEST_CAP; cap++) {
		int had = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

		if (had < 0)
			return 0; /* behind the last one that this kernel knows */
		if (had && !(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && able)
			return -1;
	}
	return 0;
}

int owner_drop_rights(bool for_good, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	const uint64_t keep = kept_mask();
	bool able;

	if (syscall(SYS_capget, &head, data) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "read the owner's capabilities");
	able = data[0].effective >> CAP_SETPCAP & 1;
	for (unsigned i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (drop_bounding(keep, able) < 0 || syscall(SYS_capset, &head, data) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "drop the owner's capabilities");
	if (for_good && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "restrict the owner process");
	return 0;
}
