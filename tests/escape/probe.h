/* The escape probe: one static program, one table row per attack, run once outside (where it must
 * succeed) and once inside a sandbox (where it must fail in the way that the row names).
 * tests/escape/run.sh drives it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum outcome {
	SUCCESS, /* the attack worked */
	BLOCKED, /* something refused it; the detail's first word says what */
	DONE,    /* carried out, and the row's `after` command tells from outside what came of it */
	BROKEN,  /* the probe itself failed: neither a control nor a pass */
};

struct verdict {
	enum outcome outcome;
	char detail[160];
};

enum {
	NEEDS_LIMITS = 1, /* meaningless without a cgroup (bailey run --unlimited) */
	NEEDS_TTY = 2,    /* run under a terminal of the runner's */
	EACH_FD = 8,      /* run inside once for every @FD@ from 3 to 40; one success is enough */
	HELPER = 4,       /* not an attack: a peer, or an `after` command */
	PEER_STAYS = 16,  /* the peer ends only behind `after` */
};

/* A row.  In args, options, peer and after the runner replaces @NAME@ (its objects) and
 * <outside|inside> (the words for the two runs).  expect: the first words of a BLOCKED detail that
 * count, separated by '|'; 'refused:REASON' is Bailey's own refusal, 'exitN' an exit status of
 * bailey run without a line from the probe. */
struct probe_case {
	const char *name;
	const char *about;
	const char *args;
	const char *expect;
	const char *options; /* of bailey run */
	const char *peer;  /* a HELPER row and its arguments, running meanwhile on the same side */
	const char *after; /* a HELPER row and its arguments, run on the host after either run */
	const char *wrap; /* a command that starts either run with more rights; it may be refused */
	unsigned flags;
	struct verdict (*run)(char **arg);
};

/* Each file's table, ended by a row without a name. */
extern const struct probe_case files_cases[], procs_cases[], guest_cases[], ns_cases[],
	mountapi_cases[], syscalls_cases[], setid_cases[], creds_cases[], net_cases[], tty_cases[],
	abi_cases[], procfs_cases[], limits_cases[], ipc_cases[], image_cases[], devices_cases[],
	outlive_cases[], hogs_cases[], inherited_cases[];

struct verdict success(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct verdict blocked(const char *word);
struct verdict broken(const char *what);
struct verdict done(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* BLOCKED with the errno's name, or SUCCESS for a result that isn't negative. */
struct verdict by_errno(long rc);

/* The same for a call that is given nonsense on purpose: any errno but those of a refusal shows
 * that the kernel's own code was reached, which is the attack; nothing is loaded or changed. */
struct verdict reached(long rc);

uint64_t number(const char *s);

/* Reads a file's first bytes and reports them as stolen, or why not. */
struct verdict steal(const char *path);
struct verdict steal_fd(int fd);
struct verdict open_to_write(const char *path);

/* Runs f in a child with a mount namespace of its own where the caller may make one (by a user
 * namespace where it isn't root), so that a control never changes the host.  Its verdict comes back
 * through a pipe. */
struct verdict in_private_mounts(struct verdict (*f)(char **), char **arg);
struct verdict in_child(struct verdict (*f)(char **), char **arg);

/* Says "NAME ready" and waits until standard input ends, at most PEER_SECONDS. */
enum { PEER_SECONDS = 30 };
struct verdict wait_as_peer(const char *name);

int helper_main(char **arg);             /* the outsider: helper.c */
int with_session_key_main(char **arg);   /* ipc.c */
int with_tty_main(char **arg);           /* tty.c */
int print_handle_main(const char *path); /* files.c */
