/* System calls without a C library: each returns the kernel's value, an error as -errno.
 *
 * Why no C library: glibc's start-up costs 0.4 ms in a virtual machine (CPUID traps), four times what the kernel needs
 * to start and reap the guest itself. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef __x86_64__
#error "bailey-guest knows the system call convention of x86-64 only"
#endif

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
		: "=a"(ret)
		: "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return ret;
}

#define SYS_ARG(x) ((long)(x))
#define sys0(nr) sys6((nr), 0, 0, 0, 0, 0, 0)
#define sys1(nr, a) sys6((nr), SYS_ARG(a), 0, 0, 0, 0, 0)
#define sys2(nr, a, b) sys6((nr), SYS_ARG(a), SYS_ARG(b), 0, 0, 0, 0)
#define sys3(nr, a, b, c) sys6((nr), SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), 0, 0, 0)
#define sys4(nr, a, b, c, d) sys6((nr), SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), 0, 0)
#define sys5(nr, a, b, c, d, e) \
	sys6((nr), SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), SYS_ARG(e), 0)

__attribute__((noreturn)) static inline void sys_exit(int code)
{
	for (;;)
		(void)sys1(SYS_exit_group, code);
}
