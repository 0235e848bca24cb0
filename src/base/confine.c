/* Owns the mechanics of the walls of our own processes; what they let through is the caller's.  Called by processes that
 * read hostile bytes, once, before the first of them. */
#include "base/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers of Linux 5.13 to 6.12, of which build hosts' headers know a part. */
enum {
	LL_FS_V1 = (1 << 13) - 1,
	LL_FS_V2 = LL_FS_V1 | 1 << 13,
	LL_FS_V3 = LL_FS_V2 | 1 << 14,
	LL_FS_V5 = LL_FS_V3 | 1 << 15,
	LL_NET = 3,
	LL_SCOPED = 3,
	LL_CREATE_RULESET = 444,
	LL_ADD_RULE = 445,
	LL_RESTRICT_SELF = 446,
	LL_PATH_BENEATH = 1,
	LL_VERSION = 1,
};

struct ll_ruleset {
	uint64_t fs, net, scoped;
};

struct ll_beneath {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

/* All that the kernel can refuse; its size, since an older kernel takes no longer one. */
static size_t full_ruleset(long abi, struct ll_ruleset *ret)
{
	*ret = (struct ll_ruleset){ .fs = LL_FS_V1 };
	if (abi >= 2)
		ret->fs = LL_FS_V2;
	if (abi >= 3)
		ret->fs = LL_FS_V3;
	if (abi < 4)
		return sizeof ret->fs;
	ret->net = LL_NET;
	if (abi >= 5)
		ret->fs = LL_FS_V5;
	if (abi < 6)
		return 2 * sizeof ret->fs;
	ret->scoped = LL_SCOPED;
	return sizeof *ret;
}

long confine_version(void)
{
	return syscall(LL_CREATE_RULESET, NULL, 0, LL_VERSION);
}

int confine_files(const struct confine_dir *dirs, size_t n)
{
	struct ll_ruleset set;
	const size_t size = full_ruleset(confine_version(), &set);
	_cleanup_close_ int fd = (int)syscall(LL_CREATE_RULESET, &set, size, 0);

	if (fd < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct ll_beneath rule = { .access = dirs[i].rights & set.fs, .fd = dirs[i].fd };

		if (syscall(LL_ADD_RULE, fd, LL_PATH_BENEATH, &rule, 0) < 0)
			return -1;
	}
	return (int)syscall(LL_RESTRICT_SELF, fd, 0);
}

int confine_calls(const struct sock_filter *program, unsigned n)
{
#ifndef BAILEY_SANITIZED
	union {
		const struct sock_filter *in;
		struct sock_filter *out;
	} list = { .in = program };
	struct sock_fprog prog = { .len = (unsigned short)n, .filter = list.out };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
#else
	(void)program;
	(void)n;
	return 0;
#endif
}

void confine_bounding(uint64_t keep)
{
	/* EINVAL: there are no more; EPERM: a normal user has none, and nothing to lose */
	for (int cap = 0; cap < 64; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
}

int confine_capabilities(uint64_t keep, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct had[2], kept[2] = { { 0 } };

	/* while there is the right to do it */
	confine_bounding(keep);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &head, had) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "read the capabilities of a process");
	for (int i = 0; i < 2; i++) {
		kept[i].effective = had[i].effective & (uint32_t)(keep >> 32 * i);
		kept[i].permitted = kept[i].effective;
	}
	if (syscall(SYS_capset, &head, kept) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "drop the capabilities of a process");
	return 0;
}

void close_all_but(const int *keep, unsigned n)
{
	unsigned from = 3;

	for (;;) {
		unsigned next = ~0u;

		for (unsigned i = 0; i < n; i++)
			if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		if (next > from)
			(void)close_range(from, next - (next != ~0u), 0);
		if (next == ~0u)
			return;
		from = next + 1;
	}
}
