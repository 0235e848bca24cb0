/* Small one-call walls of the sandbox: capabilities, loopback, Landlock scopes, the filter.  Called by child.c only. */
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "engine/native/filter.h"
#include "engine/native/native.h"

/* Linux 6.12, Landlock ABI 6; the headers of the build host may be older. */
struct landlock_ruleset {
	uint64_t handled_access_fs, handled_access_net, scoped;
};

enum {
	LANDLOCK_SCOPE_ABSTRACT = 1 << 0,
	LANDLOCK_SCOPE_SIGNALS = 1 << 1,
	LANDLOCK_VERSION = 1 << 0,
	LANDLOCK_ABI_SCOPES = 6,
	HIGHEST_CAP = 63,
};

/* The guest of a root-made sandbox keeps what it needs to become the workload and to end it, and what the workload is to
 * have; ambient, since the bounding set is emptied first and exec by uid 0 gives nothing under SECBIT_NOROOT. */
int caps_drop(bool keep_guest_rights, uint32_t workload)
{
	const uint32_t guest = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
	const uint32_t keep = keep_guest_rights ? guest | workload : 0;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { keep, keep, keep }, { 0, 0, 0 } };
	struct __user_cap_data_struct now[2];
	const unsigned bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
		SECBIT_KEEP_CAPS_LOCKED;

	if (syscall(SYS_capget, &head, now) < 0)
		return -1;
	/* inheritable may only grow while the bounding set still holds the capability */
	now[0].inheritable = keep;
	now[1].inheritable = 0;
	if (syscall(SYS_capset, &head, now) < 0)
		return -1;
	for (int c = 0; c <= HIGHEST_CAP; c++) {
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) == 0)
			continue;
		if (errno != EINVAL)
			return -1;
		break; /* behind the last one that this kernel knows */
	}
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return -1;
	if (syscall(SYS_capset, &head, data) < 0)
		return -1;
	for (int c = 0; c < 32; c++)
		if ((keep & 1u << c) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0) < 0)
			return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int loopback_up(void)
{
	struct ifreq r;
	int fd, result;

	memset(&r, 0, sizeof r);
	memcpy(r.ifr_name, "lo", 3);
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	result = ioctl(fd, SIOCSIFFLAGS, &r);
	fd = close_fd(fd);
	return result;
}

int landlock_abi(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
}

int landlock_scope(void)
{
	const struct landlock_ruleset attr = { .scoped = LANDLOCK_SCOPE_ABSTRACT |
			LANDLOCK_SCOPE_SIGNALS };
	int fd, result;

	if (landlock_abi() < LANDLOCK_ABI_SCOPES)
		return 0;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (fd < 0)
		return -1;
	result = (int)syscall(SYS_landlock_restrict_self, fd, 0);
	fd = close_fd(fd);
	return result;
}

/* both programs differ in one constant, not in length */
enum { FILTER_LENGTH = sizeof filter_strict / sizeof *filter_strict };
_Static_assert(sizeof filter_strict == sizeof filter_setgid, "filters of one length");

int seccomp_install(bool allow_setgid)
{
	const struct sock_filter *filter = allow_setgid ? filter_setgid : filter_strict;
	/* the kernel only reads it; its own type has no const */
	union {
		const struct sock_filter *in;
		struct sock_filter *out;
	} cast = { .in = filter };
	struct sock_fprog prog = { .len = FILTER_LENGTH, .filter = cast.out };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
