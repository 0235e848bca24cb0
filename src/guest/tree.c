/* Finds and signals all processes of a command.  Called by its runner, and by the guest when that is dead.  Must hold: no new
 * process and no descriptor table of its own is needed beyond one descriptor, so that it works when the process limit is
 * full; and what forks meanwhile is found too: all are stopped before any is killed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "guest/exec.h"

enum {
	MAX_PROCESSES = 64 << 10,
	LISTING = 32 << 10,
	STOP_ROUNDS = 16,
	KILL_ROUNDS = 40,
	MAX_PAUSE_MS = 64,
};

struct process {
	int pid, parent;
	bool below, zombie;
	uint64_t mark; /* see exec.h */
};

struct scan {
	int proc;
	uint32_t n;
	bool unsorted;
	struct process all[MAX_PROCESSES]; /* by pid: the order of /proc */
	uint8_t listing[LISTING];
};

struct dirent64 {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* The soft RLIMIT_RSS, as far behind the parent's number as it stands. */
static uint64_t read_mark(char *at)
{
	enum { FIELDS = 21 };
	uint64_t v;
	size_t n = 0;

	for (unsigned i = 0; i < FIELDS; i++) {
		while (*at && *at != ' ')
			at++;
		while (*at == ' ')
			at++;
	}
	while (at[n] >= '0' && at[n] <= '9')
		n++;
	at[n] = 0;
	return text_parse(at, UINT64_MAX, &v) ? v : 0;
}

/* "PID (NAME) STATE PARENT ...", where NAME may hold anything. */
static bool read_stat(struct scan *s, const char *name, struct process *p)
{
	char path[32], stat[256];
	size_t n = text_len(name);
	char *at;
	uint64_t v;
	long fd, got;

	if (n > 10)
		return false;
	memcpy(path, name, n);
	memcpy(path + n, "/stat", 6);
	fd = sys4(SYS_openat, s->proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	got = sys3(SYS_read, fd, stat, sizeof stat - 1);
	close_quietly((int)fd);
	if (got <= 0)
		return false;
	stat[got] = 0;
	for (at = stat + got; at > stat && *at != ')';)
		at--;
	if (at == stat || at + 4 >= stat + got)
		return false;
	p->zombie = at[2] == 'Z' || at[2] == 'X';
	at += 4;
	p->mark = read_mark(at);
	for (n = 0; at[n] >= '0' && at[n] <= '9';)
		n++;
	at[n] = 0;
	if (!text_parse(at, INT32_MAX, &v))
		return false;
	p->parent = (int)v;
	return true;
}

static void take_names(struct scan *s, long bytes)
{
	uint64_t pid;

	for (long at = 0; at < bytes;) {
		const struct dirent64 *d = (const void *)(s->listing + at);
		struct process *p = &s->all[s->n];

		at += d->reclen;
		if (s->n == MAX_PROCESSES || !text_parse(d->name, INT32_MAX, &pid) ||
			!read_stat(s, d->name, p))
			continue;
		p->pid = (int)pid;
		p->below = false;
		s->n++;
	}
}

static struct process *find(struct scan *s, int pid)
{
	uint32_t lo = 0, hi = s->n;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (s->all[mid].pid == pid)
			return &s->all[mid];
		if (s->all[mid].pid < pid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* Whatever lost its parent is PID 1's. */
static void mark_orphans(struct scan *s, uint64_t mark)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->all[i].parent == 1 && s->all[i].mark == mark)
			s->all[i].below = true;
}

/* Parents mostly stand before their children: one pass more than the depth at which that is not so. */
static void mark_below(struct scan *s, int root)
{
	bool again = true;

	while (again) {
		again = false;
		for (uint32_t i = 0; i < s->n; i++) {
			struct process *p = &s->all[i], *parent;

			if (p->below)
				continue;
			parent = p->parent == root ? NULL : find(s, p->parent);
			if (p->parent != root && !(parent && parent->below))
				continue;
			p->below = again = true;
		}
	}
}

static bool look(struct scan *s, int root, uint64_t mark)
{
	long n;

	s->n = 0;
	if (sys3(SYS_lseek, s->proc, 0, SEEK_SET) < 0)
		return false;
	while ((n = sys3(SYS_getdents64, s->proc, s->listing, sizeof s->listing)) > 0)
		take_names(s, n);
	if (n < 0)
		return false;
	if (mark)
		mark_orphans(s, mark);
	mark_below(s, root);
	return true;
}

static uint32_t signal_all(struct scan *s, int sig)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const struct process *p = &s->all[i];

		if (!p->below || p->zombie)
			continue;
		if (sig)
			(void)sys2(SYS_kill, p->pid, sig);
		n++;
	}
	return n;
}

static struct scan *begin(void)
{
	struct scan *s = map_memory(sizeof *s);

	if (!s)
		return NULL;
	s->proc = (int)sys4(SYS_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (s->proc >= 0)
		return s;
	unmap_memory(s, sizeof *s);
	return NULL;
}

static void done(struct scan *s)
{
	close_quietly(s->proc);
	unmap_memory(s, sizeof *s);
}

uint32_t tree_count(int root, uint64_t mark)
{
	struct scan *s = begin();
	uint32_t n = 0;

	if (!s)
		return 0;
	if (look(s, root, mark))
		n = signal_all(s, 0);
	done(s);
	return n;
}

static void pause_ms(unsigned ms)
{
	struct {
		int64_t sec, nsec;
	} t = { 0, (int64_t)ms * 1000000 };

	(void)sys2(SYS_nanosleep, &t, 0);
}

/* A stopped process makes no others: when two looks find the same number, these are all. */
static void stop_all(struct scan *s, int root, uint64_t mark)
{
	uint32_t before = 0, n;

	for (int i = 0; i < STOP_ROUNDS && look(s, root, mark); i++) {
		n = signal_all(s, SIGSTOP);
		if (n <= 1 || n == before)
			return;
		before = n;
	}
}

static uint32_t kill_all(
	struct scan *s, int root, uint64_t mark, void (*reap)(void *arg), void *arg)
{
	unsigned wait = 1;
	uint32_t n = 0;

	stop_all(s, root, mark);
	for (int i = 0; i < KILL_ROUNDS; i++) {
		n = signal_all(s, SIGKILL);
		if (!n)
			return 0;
		pause_ms(wait);
		wait = wait < MAX_PAUSE_MS ? wait * 2 : MAX_PAUSE_MS;
		if (reap)
			reap(arg);
		if (!look(s, root, mark))
			break;
	}
	return n;
}

uint32_t tree_signal(int root, uint64_t mark, int sig, void (*reap)(void *arg), void *arg)
{
	struct scan *s = begin();
	uint32_t n = 0;

	if (!s)
		return 0;
	if (sig == SIGKILL)
		n = kill_all(s, root, mark, reap, arg);
	else if (look(s, root, mark))
		n = signal_all(s, sig);
	done(s);
	return n;
}
