/* bailey-nop: exits at once, without a C library.  The command that bailey-floor and `bailey bench` start, so that
 * what is measured is the sandbox and not a program. */
#include <sys/syscall.h>

__asm__(".text\n"
	".global _start\n"
	".type _start,@function\n"
	"_start:\n"
	"	mov $60,%eax\n" /* exit */
	"	xor %edi,%edi\n"
	"	syscall\n");

_Static_assert(SYS_exit == 60, "the system calls of x86-64");
