/* Walls that a process of ours puts around itself before it reads what a stranger wrote.  All of them stay until its end. */
#pragma once
#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Landlock's rights over what lies beneath a directory; the numbers are the kernel's. */
enum {
	CONFINE_WRITE_FILE = 1 << 1,
	CONFINE_READ_FILE = 1 << 2,
	CONFINE_READ_DIR = 1 << 3,
	CONFINE_REMOVE_DIR = 1 << 4,
	CONFINE_REMOVE_FILE = 1 << 5,
	CONFINE_MAKE_DIR = 1 << 7,
	CONFINE_MAKE_REG = 1 << 8,
	CONFINE_MAKE_SYM = 1 << 12,
	CONFINE_REFER = 1 << 13, /* links and renames from one directory to another */
	CONFINE_TRUNCATE = 1 << 14,
};

struct confine_dir {
	int fd; /* borrowed; any descriptor of the directory */
	uint64_t rights;
};

/* The version of the kernel's Landlock; below 1: it has none. */
long confine_version(void);

/* Leaves these rights over files and no others, no TCP, and from Linux 6.12 on no signals to processes outside and no
 * abstract sockets of theirs.  What is open stays open.  -1 with errno; needs no_new_privs. */
int confine_files(const struct confine_dir *dirs, size_t n);

/* Filters system calls by a program made of CONFINE_HEAD, CONFINE_CALLs and CONFINE_TAIL.  Nothing is filtered in builds
 * with sanitizers, which make calls of their own.  -1 with errno. */
int confine_calls(const struct sock_filter *program, unsigned n);

#if defined(__x86_64__)
enum { CONFINE_ARCH = (int)0xc000003e };
#elif defined(__aarch64__)
enum { CONFINE_ARCH = (int)0xc00000b7 };
#else
#error "lists of system calls are for x86_64 and aarch64"
#endif

#define CONFINE_HEAD \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4 /* seccomp_data.arch */), \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)CONFINE_ARCH, 1, 0), \
		BPF_STMT(BPF_RET | BPF_K, 0x80000000 /* kill the process */), \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0 /* seccomp_data.nr */)

#define CONFINE_CALL(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, CONFINE_ALLOW)

#define CONFINE_ALLOW 0x7fff0000u
#define CONFINE_REFUSE (0x00050000u | 1 /* EPERM */)

/* Memory may be had, but none that can be run; all else is refused with EPERM. */
#define CONFINE_TAIL \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_mmap, 2, 0), \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_mprotect, 1, 0), \
		BPF_STMT(BPF_RET | BPF_K, CONFINE_REFUSE), \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 32 /* seccomp_data.args[2] */), \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4 /* PROT_EXEC */, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, CONFINE_REFUSE), \
		BPF_STMT(BPF_RET | BPF_K, CONFINE_ALLOW)

/* Gives up what programs started later could get, but for the bits set in `keep`, where there is the right to. */
void confine_bounding(uint64_t keep);

/* Keeps the capabilities whose bits are set in `keep` and gives up the others, also as what could be had again. */
int confine_capabilities(uint64_t keep, struct err *e);

/* Closes all descriptors from 3 on but these. */
void close_all_but(const int *keep, unsigned n);
