/* The entry of bailey-guest: relocates itself (static PIE), gives the stack protector its canary, calls guest_main.
 * Compiled without stack protector, since nothing here may rely on what it sets up. */
#include <elf.h>
#include <stdbool.h>

#include "guest/guest.h"
#include "guest/sys.h"

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

void guest_entry(long *sp);
__attribute__((noreturn)) void __stack_chk_fail(void);

/* What the fs register points to: on x86-64 the canary lies at offset 0x28, the self pointer at 0. */
static uint64_t thread_block[16] __attribute__((aligned(64)));

enum { ARCH_SET_FS_CODE = 0x1002 };

__asm__(".text\n"
	".global _start\n"
	".type _start,@function\n"
	"_start:\n"
	"	xor %ebp,%ebp\n"
	"	mov %rsp,%rdi\n"
	"	and $-16,%rsp\n"
	"	call guest_entry\n"
	"	hlt\n");

static void relocate(void)
{
	uintptr_t base = (uintptr_t)&__ehdr_start;
	const Elf64_Rela *rela = NULL;
	size_t size = 0;

	for (const Elf64_Dyn *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_RELA)
			rela = (const Elf64_Rela *)(base + d->d_un.d_ptr);
		else if (d->d_tag == DT_RELASZ)
			size = d->d_un.d_val;
	}
	for (size_t i = 0; rela && i < size / sizeof *rela; i++)
		if (ELF64_R_TYPE(rela[i].r_info) == R_X86_64_RELATIVE)
			*(uint64_t *)(base + rela[i].r_offset) = base + (uint64_t)rela[i].r_addend;
}

static void set_canary(char **env)
{
	const Elf64_auxv_t *aux;

	while (*env)
		env++;
	thread_block[0] = (uint64_t)(uintptr_t)thread_block;
	for (aux = (const Elf64_auxv_t *)(void *)(env + 1); aux->a_type != AT_NULL; aux++)
		if (aux->a_type == AT_RANDOM)
			thread_block[5] = *(const uint64_t *)aux->a_un.a_val & ~(uint64_t)0xff;
	(void)sys2(SYS_arch_prctl, ARCH_SET_FS_CODE, thread_block);
}

void guest_entry(long *sp)
{
	char **argv = (char **)(sp + 1);
	char **env = argv + sp[0] + 1;

	relocate();
	set_canary(env);
	sys_exit(guest_main((int)sp[0], argv, env));
}

void __stack_chk_fail(void)
{
	sys_exit(GUEST_EXIT_BROKEN);
}

/* The compiler calls these for struct copies and initialisers. */
void *memset(void *p, int c, size_t n)
{
	void *ret = p;

	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(c) : "memory");
	return ret;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *ret = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return ret;
}

void *memmove(void *to, const void *from, size_t n)
{
	uint8_t *a = to;
	const uint8_t *b = from;

	if (a <= b || a >= b + n)
		return memcpy(to, from, n); /* byte by byte, upwards */
	while (n--)
		a[n] = b[n];
	return to;
}
