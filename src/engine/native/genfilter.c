/* Build tool: turns syscalls.def into two BPF programs (strict, and with setgid bits allowed) as a C header.
 *
 * The program checks the architecture, then finds the call's number by binary search over ranges with one verdict, so a
 * filter of 460 numbers costs about seven comparisons and the kernel can cache the verdict of every call that does not
 * look at arguments.  libseccomp gives the numbers; its own code generator is not used, since it can't say "this ioctl,
 * compared as 32 bits, is refused and every other is allowed" in one rule. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { MAX_NR = 1024, MAX_PROG = 1024, X32_BIT = 0x40000000, CREATING = 0100 | 020000000 };

enum verdict { V_ENOSYS, V_ALLOW, V_DENY, V_BLOCK };

enum block {
	B_clone,
	B_socket,
	B_socketpair,
	B_ioctl,
	B_personality,
	B_mode1,
	B_mode2,
	B_open,
	B_openat,
	B_setrlimit,
	B_prlimit,
	B_MAX
};

struct call {
	enum verdict verdict;
	enum block block;
};

struct range {
	int first;
	struct call call;
};

static struct call calls[MAX_NR];
static struct range ranges[MAX_NR];
static int n_ranges;

static struct sock_filter prog[MAX_PROG];
static int n_prog;
static int block_at[B_MAX];
static bool setgid_allowed;

/* jumps to a block, resolved when its place is known */
static struct {
	int at;
	enum block block;
} fixups[MAX_NR];
static int n_fixups;

static void fail(const char *what, const char *name)
{
	(void)fprintf(stderr, "genfilter: %s: %s\n", name, what);
	exit(1);
}

static void put(uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (n_prog == MAX_PROG)
		fail("program too long", "filter");
	prog[n_prog++] = (struct sock_filter){ code, jt, jf, k };
}

static void ret(uint32_t action)
{
	put(BPF_RET | BPF_K, 0, 0, action);
}

static void ret_errno(int e)
{
	ret(SECCOMP_RET_ERRNO | (uint32_t)e);
}

static void load_arg(unsigned i)
{
	/* the low half: what the kernel looks at for int, mode_t and the commands of ioctl */
	put(BPF_LD | BPF_W | BPF_ABS, 0, 0,
		(uint32_t)(offsetof(struct seccomp_data, args) + 8 * i));
}

static void add(const char *name, struct call c)
{
	int nr = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, name);

	if (nr < 0 || nr >= MAX_NR)
		fail("no such call on x86-64", name);
	if (calls[nr].verdict != V_ENOSYS)
		fail("named twice", name);
	calls[nr] = c;
}

static void read_table(void)
{
#define ALLOW(name) add(#name, (struct call){ .verdict = V_ALLOW });
#define DENY(name) add(#name, (struct call){ .verdict = V_DENY });
#define CHECK(name, b) add(#name, (struct call){ .verdict = V_BLOCK, .block = B_##b });
#include "engine/native/syscalls.def"
	for (int i = 0; i < MAX_NR; i++) {
		struct range *last = n_ranges ? &ranges[n_ranges - 1] : NULL;

		if (last && last->call.verdict == calls[i].verdict &&
			last->call.block == calls[i].block)
			continue;
		ranges[n_ranges++] = (struct range){ .first = i, .call = calls[i] };
	}
}

static void leaf(struct call c)
{
	switch (c.verdict) {
	case V_ALLOW:
		ret(SECCOMP_RET_ALLOW);
		return;
	case V_DENY:
		ret_errno(EPERM);
		return;
	case V_ENOSYS:
		ret_errno(ENOSYS);
		return;
	case V_BLOCK:
		fixups[n_fixups].at = n_prog;
		fixups[n_fixups++].block = c.block;
		put(BPF_JMP | BPF_JA, 0, 0, 0);
		return;
	}
}

/* Ranges [lo, hi): a comparison with the first number of the upper half, the lower half, then the upper. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as the logarithm of a fixed table */
static void tree(int lo, int hi)
{
	int mid = lo + (hi - lo) / 2, at = n_prog;

	if (hi - lo == 1) {
		leaf(ranges[lo].call);
		return;
	}
	put(BPF_JMP | BPF_JGE | BPF_K, 0, 0, (uint32_t)ranges[mid].first);
	tree(lo, mid);
	if (n_prog - at - 1 > 255)
		fail("jump too far", "filter");
	prog[at].jt = (uint8_t)(n_prog - at - 1);
	tree(mid, hi);
}

static void bits_block(unsigned arg, uint32_t bits)
{
	load_arg(arg);
	put(BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
	ret_errno(EPERM);
	ret(SECCOMP_RET_ALLOW);
}

static void open_block(unsigned flags, uint32_t bits)
{
	load_arg(flags);
	put(BPF_JMP | BPF_JSET | BPF_K, 1, 0, CREATING);
	ret(SECCOMP_RET_ALLOW);
	bits_block(flags + 1, bits);
}

/* Any of n values is allowed, the rest is refused with e. */
static void values_block(unsigned arg, const uint32_t *values, unsigned n, int e)
{
	load_arg(arg);
	for (unsigned i = 0; i < n; i++) {
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, values[i]);
		ret(SECCOMP_RET_ALLOW);
	}
	ret_errno(e);
}

static void socket_block(void)
{
	static const uint32_t unix_only[] = { AF_UNIX }, route[] = { 0 /* NETLINK_ROUTE */ };
	static const uint32_t protocols[] = { 0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP,
		IPPROTO_ICMPV6 };
	const unsigned values = 2; /* instructions of values_block besides two for each value */

	load_arg(0);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 2 * 1 + values, AF_NETLINK);
	values_block(2, route, 1, EAFNOSUPPORT);
	put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_INET);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 2 * 5 + values, AF_INET6);
	values_block(2, protocols, 5, EPROTONOSUPPORT);
	values_block(0, unix_only, 1, EAFNOSUPPORT);
}

static void ioctl_block(void)
{
	static const uint32_t refused[] = { TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD };

	load_arg(1);
	for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
		put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, refused[i]);
		ret_errno(EPERM);
	}
	ret(SECCOMP_RET_ALLOW);
}

/* An errno of 0 makes the call return 0 without being made. */
static void setrlimit_block(void)
{
	load_arg(0);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, RLIMIT_CORE);
	ret_errno(0);
	ret(SECCOMP_RET_ALLOW);
}

/* Reading the limit (no new one: both halves of the pointer are 0) goes on to work. */
static void prlimit_block(void)
{
	load_arg(1);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 5, RLIMIT_CORE);
	load_arg(2);
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
	put(BPF_LD | BPF_W | BPF_ABS, 0, 0,
		(uint32_t)(offsetof(struct seccomp_data, args) + 8 * 2 + 4));
	put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	ret_errno(0);
	ret(SECCOMP_RET_ALLOW);
}

static void block(enum block b)
{
	static const uint32_t personalities[] = { 0, 8, 0x20000, 0x20008, 0xffffffff },
			      unix_only[] = { AF_UNIX };
	const uint32_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
		CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
	const uint32_t bits = setgid_allowed ? 04000 : 06000;

	block_at[b] = n_prog;
	switch (b) {
	case B_clone:
		bits_block(0, namespaces);
		return;
	case B_socket:
		socket_block();
		return;
	case B_socketpair:
		values_block(0, unix_only, 1, EAFNOSUPPORT);
		return;
	case B_ioctl:
		ioctl_block();
		return;
	case B_personality:
		values_block(0, personalities, 5, EPERM);
		return;
	case B_mode1:
		bits_block(1, bits);
		return;
	case B_mode2:
		bits_block(2, bits);
		return;
	case B_open:
		open_block(1, bits);
		return;
	case B_openat:
		open_block(2, bits);
		return;
	case B_setrlimit:
		setrlimit_block();
		return;
	case B_prlimit:
		prlimit_block();
		return;
	case B_MAX:
		return;
	}
}

static void build(bool setgid)
{
	setgid_allowed = setgid;
	n_prog = n_fixups = 0;
	put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	put(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
	ret(SECCOMP_RET_KILL_PROCESS);
	put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	/* -1 is what a tracer's skipped call looks like: it must stay ENOSYS, not death */
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0xffffffff);
	ret_errno(ENOSYS);
	put(BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT);
	ret(SECCOMP_RET_KILL_PROCESS);
	tree(0, n_ranges);
	for (enum block b = 0; b < B_MAX; b++)
		block(b);
	for (int i = 0; i < n_fixups; i++)
		prog[fixups[i].at].k = (uint32_t)(block_at[fixups[i].block] - fixups[i].at - 1);
}

static void print(const char *name)
{
	(void)printf("static const struct sock_filter %s[] = {\n", name);
	for (int i = 0; i < n_prog; i++)
		(void)printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", prog[i].code, prog[i].jt,
			prog[i].jf, prog[i].k);
	(void)printf("};\n");
}

int main(void)
{
	read_table();
	(void)printf(
		"/* Generated from syscalls.def by genfilter. */\n#pragma once\n#include <linux/filter.h>\n\n");
	build(false);
	print("filter_strict");
	build(true);
	print("filter_setgid");
	return 0;
}
