/* Owns what the guest takes from itself and from all that it starts, where no engine of ours did it before: as the first
 * process of a container.  Called by dial.c before anything else runs.  Must hold: what can't be taken away ends the guest.
 *
 * The filter is put together by the compiler.  It comes on top of the container's own, and refuses what native's does
 * (src/engine/native/syscalls.def says why) and a container's usual one lets pass: setuid and setgid bits on files, the ways
 * around that, input put into a terminal, and a core dump that would start a program of the host. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "guest/dial.h"
#include "guest/guest.h"
#include "guest/sys.h"

enum {
	X32_BIT = 0x40000000,
	NR_FCHMODAT2 = 452,
	CREATING = 0100 | 020000000, /* O_CREAT, O_TMPFILE */
	SETUID_BITS = 04000,
	SETID_BITS = 06000,
	HIGHEST_CAP = 63,
};

/* --- the filter --- */

#define LOAD(offset) { BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(offset) }
#define RETURN(action) { BPF_RET | BPF_K, 0, 0, (uint32_t)(action) }
#define TEST(how, value, yes, no) { BPF_JMP | (how) | BPF_K, (yes), (no), (uint32_t)(value) }
#define FAIL(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))
/* the low half: what the kernel looks at for modes, resources and the commands of ioctl */
#define LOW(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#define HIGH(i) (LOW(i) + 4)

/* Each begins with the call's number loaded, and leaves it so where it is another call's. */
#define REFUSE(nr, action) TEST(BPF_JEQ, nr, 0, 1), RETURN(action)
#define MODE(nr, arg, bits) \
	TEST(BPF_JEQ, nr, 0, 4), LOAD(LOW(arg)), TEST(BPF_JSET, bits, 0, 1), RETURN(FAIL(EPERM)), \
		RETURN(SECCOMP_RET_ALLOW)
/* the mode counts only where a file is made: else the register is stale */
#define OPEN(nr, arg, bits) \
	TEST(BPF_JEQ, nr, 0, 6), LOAD(LOW(arg)), TEST(BPF_JSET, CREATING, 0, 3), \
		LOAD(LOW((arg) + 1)), TEST(BPF_JSET, bits, 0, 1), RETURN(FAIL(EPERM)), \
		RETURN(SECCOMP_RET_ALLOW)
#define IOCTL() \
	TEST(BPF_JEQ, SYS_ioctl, 0, 7), LOAD(LOW(1)), TEST(BPF_JEQ, TIOCSTI, 3, 0), \
		TEST(BPF_JEQ, TIOCLINUX, 2, 0), TEST(BPF_JEQ, TIOCCONS, 1, 0), \
		TEST(BPF_JEQ, TIOCSETD, 0, 1), RETURN(FAIL(EPERM)), RETURN(SECCOMP_RET_ALLOW)
/* an errno of 0: the call says that it succeeded, and is not made */
#define SETRLIMIT() \
	TEST(BPF_JEQ, SYS_setrlimit, 0, 4), LOAD(LOW(0)), TEST(BPF_JEQ, RLIMIT_CORE, 0, 1), \
		RETURN(FAIL(0)), RETURN(SECCOMP_RET_ALLOW)
/* reading the limit goes on to work: no new one is a null pointer */
#define PRLIMIT() \
	TEST(BPF_JEQ, SYS_prlimit64, 0, 8), LOAD(LOW(1)), TEST(BPF_JEQ, RLIMIT_CORE, 0, 5), \
		LOAD(LOW(2)), TEST(BPF_JEQ, 0, 0, 2), LOAD(HIGH(2)), TEST(BPF_JEQ, 0, 1, 0), \
		RETURN(FAIL(0)), RETURN(SECCOMP_RET_ALLOW)

/* clang-format off */
#define FILTER(bits) { \
	LOAD(offsetof(struct seccomp_data, arch)), \
	TEST(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0), \
	RETURN(SECCOMP_RET_KILL_PROCESS), \
	LOAD(offsetof(struct seccomp_data, nr)), \
	/* -1 is a tracer's skipped call */ \
	REFUSE(0xffffffff, FAIL(ENOSYS)), \
	TEST(BPF_JGE, X32_BIT, 0, 1), \
	RETURN(SECCOMP_RET_KILL_PROCESS), \
	OPEN(SYS_openat, 2, bits), \
	OPEN(SYS_open, 1, bits), \
	IOCTL(), \
	MODE(SYS_chmod, 1, bits), \
	MODE(SYS_fchmod, 1, bits), \
	MODE(SYS_fchmodat, 2, bits), \
	MODE(SYS_mkdir, 1, bits), \
	MODE(SYS_mkdirat, 2, bits), \
	MODE(SYS_mknod, 1, bits), \
	MODE(SYS_mknodat, 2, bits), \
	MODE(SYS_creat, 1, bits), \
	SETRLIMIT(), \
	PRLIMIT(), \
	REFUSE(NR_FCHMODAT2, FAIL(ENOSYS)), \
	REFUSE(SYS_openat2, FAIL(ENOSYS)), \
	REFUSE(SYS_io_uring_setup, FAIL(EPERM)), \
	REFUSE(SYS_io_uring_enter, FAIL(EPERM)), \
	REFUSE(SYS_io_uring_register, FAIL(EPERM)), \
	RETURN(SECCOMP_RET_ALLOW), \
}
/* clang-format on */

static const struct sock_filter strict[] = FILTER(SETID_BITS), loose[] = FILTER(SETUID_BITS);

static void install(bool allow_setgid)
{
	struct {
		unsigned short len;
		const struct sock_filter *filter;
	} prog = { .len = sizeof strict / sizeof *strict, .filter = allow_setgid ? loose : strict };

	if (sys5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		sys_exit(GUEST_EXIT_BROKEN);
}

/* --- capabilities --- */

/* The guest keeps what it needs to become the workload and to end it; nothing that it starts can have anything again. */
static void drop_caps(void)
{
	const uint32_t keep = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL;
	const long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
		SECBIT_KEEP_CAPS_LOCKED;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct now[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

	if (sys2(SYS_capget, &head, now) < 0)
		sys_exit(GUEST_EXIT_BROKEN);
	if (!(now[0].permitted & 1u << CAP_SETPCAP))
		return;
	for (int c = 0; c <= HIGHEST_CAP; c++)
		if (sys5(SYS_prctl, PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			break; /* behind the last one that this kernel knows */
	/* a kernel that has none of these bits: without a bounding set there is nothing to be had */
	(void)sys5(SYS_prctl, PR_SET_SECUREBITS, bits, 0, 0, 0);
	now[0].permitted &= keep;
	now[0].effective = now[0].permitted;
	now[0].inheritable = now[1].permitted = now[1].effective = now[1].inheritable = 0;
	if (sys2(SYS_capset, &head, now) < 0)
		sys_exit(GUEST_EXIT_BROKEN);
}

/* At 1 and not at 0: a host that gives core dumps to a program of its own would start that for a 0. */
static void no_core(void)
{
	const uint64_t one[2] = { 1, 1 };

	(void)sys4(SYS_prlimit64, 0, RLIMIT_CORE, one, 0);
}

void wall_build(bool allow_setgid, bool keep_caps)
{
	/* whatever groups the image or the daemon gave */
	(void)sys2(SYS_setgroups, 0, 0);
	if (!keep_caps)
		drop_caps();
	no_core();
	install(allow_setgid);
}
