/* The other system call tables of an x86-64 kernel: a filter that doesn't look at the architecture
 * lets them through. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

#ifdef __x86_64__

/* A call by `int $0x80`, with a number of the i386 table.  A kernel without it raises SIGSEGV, so it runs in a child. */
static struct verdict i386(long number, long argument)
{
	long rc;

	__asm__ volatile("int $0x80"
		: "=a"(rc)
		: "a"(number), "b"(argument)
		: "memory", "r8", "r9", "r10", "r11");
	rc = (int)rc;
	if (rc < 0) {
		errno = (int)-rc;
		rc = -1;
	}
	return by_errno(rc);
}

static struct verdict child_i386(char **arg)
{
	(void)arg;
	return i386(20, 0); /* getpid */
}

static struct verdict do_i386(char **arg)
{
	return in_child(child_i386, arg);
}

/* i386's own number for unshare is 310; getpid passing and this failing would be a list, not a rule. */
static struct verdict child_i386_unshare(char **arg)
{
	(void)arg;
	return i386(310, 0x10000000L);
}

static struct verdict do_i386_unshare(char **arg)
{
	return in_child(child_i386_unshare, arg);
}

static struct verdict child_x32(char **arg)
{
	enum { X32_BIT = 0x40000000 };

	(void)arg;
	return by_errno(syscall(X32_BIT | SYS_getpid));
}

static struct verdict do_x32(char **arg)
{
	return in_child(child_x32, arg);
}

const struct probe_case abi_cases[] = {
	{ .name = "i386-getpid",
		.about = "A system call by int 0x80 (the i386 table)",
		.expect = "SIGSYS",
		.run = do_i386 },
	{ .name = "i386-unshare",
		.about = "A user namespace by int 0x80",
		.expect = "SIGSYS",
		.run = do_i386_unshare },
	{ .name = "x32-getpid",
		.about = "A system call of the x32 table",
		.expect = "SIGSYS",
		.run = do_x32 },
	{ .name = NULL },
};

#else

const struct probe_case abi_cases[] = { { .name = NULL } };

#endif
