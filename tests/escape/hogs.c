/* What the kernel counts per user of the host and not per namespace, so that one sandbox could take
 * all that its maker, and every other sandbox of it, has.
 *
 * A case here is the neighbour: it fails to get a few while a hog, its peer, holds all that
 * it can.  Outside both are plain processes; inside, the hog and the neighbour are two sandboxes,
 * and the row's `after` is a third, a plain process of the same user, while the hog still holds. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

enum {
	MOST = 300000, /* a bound on what a hog takes, whatever the host allows */
	ENOUGH = 4,
	TRIES = 5, /* others on the host may hog for a moment too */
	PAUSE_MS = 20,
};

static int take_inotify(void)
{
	return inotify_init1(IN_CLOEXEC);
}

/* Each holds one queued signal, of which there are RLIMIT_SIGPENDING. */
static int take_timer(void)
{
	int id;
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };

	return (int)syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id);
}

/* Without its name at once: what counts is held by the descriptor.  The large ones first. */
static int take_mqueue(void)
{
	static const struct mq_attr sizes[] = { { .mq_maxmsg = 10, .mq_msgsize = 8192 },
		{ .mq_maxmsg = 1, .mq_msgsize = 4096 }, { .mq_maxmsg = 1, .mq_msgsize = 1 } };
	char name[64];
	int fd = -1;

	(void)snprintf(name, sizeof name, "/bailey-escape-hog-%d", getpid());
	for (size_t i = 0; fd < 0 && i < sizeof sizes / sizeof *sizes; i++) {
		struct mq_attr attr = sizes[i];

		fd = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attr);
	}
	if (fd >= 0)
		(void)mq_unlink(name);
	return fd;
}

static int take_pty(void)
{
	return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

/* How much the neighbour (and the hog outside) may have at most.  The kernel compares that with what
 * all processes of the user hold together, so that the control takes no more than this from the
 * host; a sandbox must be held below it. */
static const struct {
	const char *name;
	int (*take)(void);
	__rlimit_resource_t what;
	rlim_t share;
} kinds[] = {
	{ "inotify", take_inotify, RLIMIT_NOFILE, RLIM_INFINITY },
	{ "timers", take_timer, RLIMIT_SIGPENDING, 4096 },
	{ "mqueues", take_mqueue, RLIMIT_MSGQUEUE, 400000 },
	{ "ptys", take_pty, RLIMIT_NOFILE, RLIM_INFINITY },
};

/* The control for ptys happens in mounts of its own, as a sandbox without a limit had them: the
 * host's own instance has a reserve that it must keep. */
static bool own_mounts(void)
{
	char map[32];
	FILE *f;

	if (geteuid() == 0)
		return unshare(CLONE_NEWNS) == 0;
	(void)snprintf(map, sizeof map, "%u %u 1", getuid(), getuid());
	if (unshare(CLONE_NEWNS | CLONE_NEWUSER) < 0)
		return false;
	f = fopen("/proc/self/uid_map", "we");
	if (!f)
		return false;
	(void)fputs(map, f);
	return fclose(f) == 0;
}

static void mount_ptys(void)
{
	if (own_mounts() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666") == 0)
		(void)mount("/dev/pts/ptmx", "/dev/ptmx", NULL, MS_BIND, NULL);
}

static void raise_limit(__rlimit_resource_t what, rlim_t most)
{
	struct rlimit r;

	if (getrlimit(what, &r) == 0) {
		r.rlim_cur = r.rlim_max < most ? r.rlim_max : most;
		(void)setrlimit(what, &r);
	}
}

/* KIND HOW -> how one is taken. */
static int (*prepare(char **arg))(void)
{
	raise_limit(RLIMIT_NOFILE, RLIM_INFINITY);
	if (strcmp(arg[1], "own-mounts") == 0)
		mount_ptys();
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(arg[0], kinds[i].name) != 0)
			continue;
		raise_limit(kinds[i].what,
			strcmp(arg[1], "share") == 0 ? kinds[i].share : RLIM_INFINITY);
		return kinds[i].take;
	}
	return NULL;
}

/* Goes on taking what others give back, until standard input ends. */
static struct verdict hold_all(char **arg)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	int (*take)(void) = prepare(arg);
	unsigned n = 0;

	if (!take)
		return broken("kind");
	while (n < MOST && take() >= 0)
		n++;
	if (n == 0)
		return broken("the hog got none");
	printf("hog ready\n");
	(void)fflush(stdout);
	for (int i = 0; i < PEER_SECONDS * 1000 / PAUSE_MS && poll(&in, 1, PAUSE_MS) == 0; i++)
		while (n < MOST && take() >= 0)
			n++;
	return done("held %u", n);
}

static struct verdict child_neighbour(char **arg)
{
	int (*take)(void) = prepare(arg), n = 0;
	const char *name;

	if (!take)
		return broken("kind");
	for (int i = 0; i < TRIES && n < ENOUGH; i++) {
		while (n < ENOUGH && take() >= 0)
			n++;
		if (n < ENOUGH)
			(void)poll(NULL, 0, PAUSE_MS);
	}
	name = strerrorname_np(errno);
	return n == ENOUGH ? blocked("unharmed")
			   : success("a neighbour gets %d: %s", n, name ? name : "?");
}

static struct verdict neighbour(char **arg)
{
	return in_child(child_neighbour, arg);
}

#define HOG(kind, hog_how, how) \
	.args = kind " " how, .expect = "unharmed", .peer = "hog " kind " " hog_how, \
	.after = "hog-" kind " " kind " " how, .flags = PEER_STAYS, .run = neighbour

const struct probe_case hogs_cases[] = {
	{ .name = "hog",
		.about = "Peer: holds all it can get",
		.args = "KIND HOW",
		.flags = HELPER,
		.run = hold_all },
	{ .name = "hog-inotify",
		.about = "Take all inotify instances of the user",
		HOG("inotify", "all", "all") },
	{ .name = "hog-timers",
		.about = "Take all queued signals of the user, by timers",
		HOG("timers", "<share|all>", "share") },
	{ .name = "hog-mqueues",
		.about = "Take all bytes in POSIX message queues of the user",
		HOG("mqueues", "<share|all>", "share") },
	{ .name = "hog-ptys",
		.about = "Take all pseudo-terminals that sandboxes can have",
		HOG("ptys", "<own-mounts|all>", "<own-mounts|all>") },
	{ .name = NULL },
};
