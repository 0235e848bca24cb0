/* Owns starting engines.  The one process of the launcher that has rights; it is forked before the launcher reads a client's
 * first byte, and trusts it as little as any client.
 *
 * It reads messages of a fixed size and packed requests, checks each against the ceiling that it read itself, and starts one of
 * two programs with one of three verbs.  Whatever is malformed ends it, and with it the launcher. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/answer.h"
#include "launcher/daemon/daemon.h"
#include "launcher/launch.h"

enum { REQUEST_FD = 3, ANSWER_FD = 4, PACK_WAIT_S = 10, MAX_ENV = 32 };

struct spawner {
	const struct daemon_options *options;
	const char *home;
	struct ceiling ceiling;
	char *programs[SPAWN_N_ENGINES];
};

/* --- messages --- */

int spawn_send(int sock, const struct spawn_message *m, int answer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct spawn_message copy = *m;
	struct iovec v = { &copy, sizeof copy };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };

	if (answer >= 0) {
		struct cmsghdr *c;

		h.msg_control = control.bytes;
		h.msg_controllen = sizeof control.bytes;
		c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof answer);
		memcpy(CMSG_DATA(c), &answer, sizeof answer);
	}
	return sendmsg(sock, &h, MSG_NOSIGNAL) == (ssize_t)sizeof copy ? 0 : -1;
}

static void take_answer(struct msghdr *h, int *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
			c->cmsg_len == CMSG_LEN(sizeof *ret))
			memcpy(ret, CMSG_DATA(c), sizeof *ret);
}

int spawn_receive(int sock, struct spawn_message *m, int *ret_answer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec v = { m, sizeof *m };
	struct msghdr h = { .msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	ssize_t n;

	*ret_answer = -1;
	do
		n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		take_answer(&h, ret_answer);
	if (n == (ssize_t)sizeof *m && !(h.msg_flags & MSG_CTRUNC) && m->magic == SPAWN_MAGIC &&
		m->engine < SPAWN_N_ENGINES && memchr(m->id, '\0', sizeof m->id) &&
		(m->op == SPAWN_RUN ? *ret_answer >= 0 : *ret_answer < 0))
		return 1;
	*ret_answer = close_fd(*ret_answer);
	return n == 0 ? 0 : -1;
}

/* --- starting --- */

/* What engines need of the operator's environment; a client has no say in any of it. */
static const char *const passed[] = { "PATH", "HOME", "LANG", "XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS", "BAILEY_LIBEXEC", "BAILEY_IDS_BASE", "BAILEY_IDS_COUNT",
	"BAILEY_CGROUP_PARENT", "BAILEY_NATIVE_LAYERS", "BAILEY_NATIVE_LAYER_STORE",
	"BAILEY_DOCKER_HOST", "BAILEY_DOCKER_CERT_PATH", "BAILEY_DOCKER_DISK", "DOCKER_HOST",
	"DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "ASAN_OPTIONS", "UBSAN_OPTIONS",
	"LSAN_OPTIONS" };

static void fill_env(char *env[static MAX_ENV], const char *home)
{
	unsigned n = 0;

	_Static_assert(
		sizeof passed / sizeof *passed + 2 < MAX_ENV, "room for BAILEY_HOME and NULL");
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
		const char *value = secure_getenv(passed[i]);

		if (value)
			env[n++] = xasprintf("%s=%s", passed[i], value);
	}
	env[n++] = xasprintf("BAILEY_HOME=%s", home);
	env[n] = NULL;
}

/* In the child: the two descriptors go where the engine looks for them, over whatever was there. */
static void put_fds(int request, int answer)
{
	const int r = fcntl(request, F_DUPFD_CLOEXEC, 10), a = fcntl(answer, F_DUPFD_CLOEXEC, 10);

	if ((request >= 0 && (r < 0 || dup2(r, REQUEST_FD) < 0)) ||
		(answer >= 0 && (a < 0 || dup2(a, ANSWER_FD) < 0)))
		_exit(127);
}

static int start(const struct spawner *s, const struct spawn_message *m, char *const *words,
	int request, int answer, struct err *e)
{
	_cleanup_free_ char *home = daemon_home(s->home, m->uid);
	char *env[MAX_ENV], *argv[4] = { s->programs[m->engine] };
	pid_t pid;

	for (unsigned i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	fill_env(env, home);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGCHLD, SIG_DFL);
		(void)prctl(PR_SET_PDEATHSIG, 0);
		put_fds(request, answer);
		(void)execve(argv[0], argv, env);
		_exit(127);
	}
	for (unsigned i = 0; env[i]; i++)
		free(env[i]);
	return pid < 0 ? err_set(e, R_PIDS_EXHAUSTED, errno, "start an engine") : 0;
}

/* The directories that a caller's engine works in: he gets a descriptor of the last one. */
static int make_home(const struct spawner *s, uid_t uid, struct err *e)
{
	_cleanup_free_ char *home = daemon_home(s->home, uid), *sandbox = NULL;

	if (make_dirs(home, e) < 0)
		return -1;
	sandbox = xasprintf("%s/sandbox", home);
	if (mkdir(sandbox, uid == geteuid() ? 0700 : 0755) < 0 && errno != EEXIST)
		return err_set(e, R_STATE_UNWRITABLE, errno, "make '%s'", sandbox);
	return 0;
}

/* --- checks, whatever the launcher says --- */

/* His, or an agent's in a directory of his. */
static int check_owner(const struct spec_bind *b, uid_t uid, struct err *e)
{
	struct stat st;

	if (fstat(b->fd, &st) < 0)
		return err_set(
			e, R_MOUNT_SOURCE_MISSING, errno, "look at the mount for '%s'", b->target);
	if (!b->writable || st.st_uid == uid)
		return 0;
	if (daemon_is_handed_over(b->fd, uid))
		return 0;
	return err_set(e, R_WORKSPACE_NOT_OWNED, 0,
		"make the mount for '%s' writable: it belongs to uid '%u', not '%u'", b->target,
		st.st_uid, uid);
}

static int check(const struct spawner *s, const struct spawn_message *m,
	const struct pack_request *r, struct err *e)
{
	const struct sandbox_spec *spec = &r->spec;
	const bool other = m->uid != geteuid();

	if (!daemon_allows(s->options, m->uid))
		return err_set(e, R_NOT_ALLOWED, 0, "make a sandbox for uid '%u'", m->uid);
	if (m->engine == SPAWN_DOCKER && !s->ceiling.docker)
		return err_set(e, R_NOT_ALLOWED, 0,
			"make a sandbox of the Docker engine: the ceiling's engines are without it");
	if (ceiling_check(&s->ceiling, r, e) < 0)
		return -1;
	if (!spec->session || spec->has_caller != other ||
		(other && (spec->caller_uid != m->uid || spec->caller_gid != m->gid)))
		return err_set(e, R_NOT_ALLOWED, 0, "make a sandbox that is somebody else's");
	/* on an engine without ranges of ids, root inside is root */
	if (other && m->engine == SPAWN_DOCKER && spec->profile != SPEC_HANDOFF &&
		(spec->uid == 0 || spec->gid == 0))
		return err_set(e, R_NOT_ALLOWED, 0,
			"make a container that runs as root for uid '%u'", m->uid);
	for (unsigned i = 0; other && i < spec->n_binds; i++)
		if (check_owner(&spec->binds[i], m->uid, e) < 0)
			return -1;
	return 0;
}

/* --- what it is told --- */

static int run(const struct spawner *s, const struct spawn_message *m, const struct pack_request *r,
	int answer, struct err *e)
{
	static char verb[] = "run-for";
	char *words[] = { verb, NULL };
	_cleanup_close_ int ours = -1, theirs = -1;
	const struct timeval wait = { .tv_sec = PACK_WAIT_S };
	int pair[2];

	if (check(s, m, r, e) < 0 || make_home(s, m->uid, e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, R_NO_MEMORY, errno, "start an engine");
	ours = pair[0];
	theirs = pair[1];
	(void)setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
	if (start(s, m, words, theirs, answer, e) < 0)
		return -1;
	theirs = close_fd(theirs);
	return pack_send(ours, r, e);
}

/* False: the launcher speaks nonsense. */
static bool obey_run(const struct spawner *s, int sock, const struct spawn_message *m, int answer)
{
	_cleanup_err_ struct err e = ERR_INIT;
	struct pack_request r;

	if (pack_receive(sock, &r, &e) < 0)
		return false;
	if (run(s, m, &r, answer, &e) < 0)
		answer_send(answer, &e, NULL);
	pack_done(&r);
	return true;
}

static void obey(const struct spawner *s, struct spawn_message *m)
{
	static char kill_word[] = "kill", sweep_word[] = "sweep";
	char *words[] = { m->op == SPAWN_KILL ? kill_word : sweep_word,
		m->op == SPAWN_KILL ? m->id : NULL, NULL };
	_cleanup_err_ struct err e = ERR_INIT;

	if (!daemon_allows(s->options, m->uid))
		return;
	if (start(s, m, words, -1, -1, &e) < 0)
		log_event(LOG_ERROR, "launcher.spawn", "error", e.message, NULL);
}

/* An id goes into the arguments of a program. */
static bool is_sound(const struct spawn_message *m)
{
	switch (m->op) {
	case SPAWN_RUN:
	case SPAWN_SWEEP:
		return !*m->id;
	case SPAWN_KILL:
		return *m->id && strspn(m->id, "0123456789abcdef") == strlen(m->id);
	default:
		return false;
	}
}

static void prepare(struct spawner *s)
{
	static const char *const names[] = { "bailey-engine-native", "bailey-engine-docker" };
	_cleanup_err_ struct err e = ERR_INIT;

	/* engines are nobody's children for long; none is waited for */
	(void)signal(SIGCHLD, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	if (ceiling_read(&s->ceiling, s->options->ceiling, &e) < 0)
		_exit(1);
	for (unsigned i = 0; i < SPAWN_N_ENGINES; i++)
		if (libexec_path(names[i], &s->programs[i], &e) < 0)
			_exit(1);
}

_Noreturn void spawner_run(int sock, const struct daemon_options *o, const char *home)
{
	struct spawner s = { .options = o, .home = home };
	struct spawn_message m;
	int answer;

	prepare(&s);
	while (spawn_receive(sock, &m, &answer) > 0) {
		if (!is_sound(&m))
			break;
		if (m.op != SPAWN_RUN)
			obey(&s, &m);
		else if (!obey_run(&s, sock, &m, answer))
			break;
		answer = close_fd(answer);
	}
	_exit(0);
}
