/* The program bailey-launcher: `bailey launcher` becomes it.  Makes the socket, forks the spawner, gives up rights, serves.
 * What an operator says comes by flags and the ceiling file; what clients say never reaches this file. */
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "launcher/daemon/daemon.h"

enum { BACKLOG = 64, FIRST_FD = 3 };

/* --- what the operator says --- */

static int take_uid(struct daemon_options *o, const char *text, struct err *e)
{
	uint64_t uid;

	if (geteuid() != 0)
		return err_set(
			e, R_USAGE, 0, "use --allow-uid: only root's launcher serves others");
	if (o->n_uids == DAEMON_MAX_UIDS)
		return err_set(e, R_OUT_OF_RANGE, 0, "use --allow-uid: over %d", DAEMON_MAX_UIDS);
	if (parse_u64(text, 0, UINT32_MAX - 1, "--allow-uid", &uid, e) < 0)
		return -1;
	o->uids[o->n_uids++] = (uid_t)uid;
	return 0;
}

static int parse(struct daemon_options *o, int argc, char **argv, struct err *e)
{
	static const struct option flags[] = { { "socket", required_argument, NULL, 's' },
		{ "allow-uid", required_argument, NULL, 'u' },
		{ "ceiling", required_argument, NULL, 'c' }, { NULL, 0, NULL, 0 } };
	int flag;

	opterr = 0;
	while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		if (flag == 's')
			o->socket = optarg;
		else if (flag == 'c')
			o->ceiling = optarg;
		else if (flag != 'u')
			return err_set(e, R_USAGE, 0, "use '%s': unknown, or without its value",
				argv[optind - 1]);
		else if (take_uid(o, optarg, e) < 0)
			return -1;
	}
	return optind == argc
		? 0
		: err_set(e, R_USAGE, 0, "use '%s': no argument is taken", argv[optind]);
}

static int check_env(const char *name, struct err *e)
{
	const char *text = secure_getenv(name);
	uint64_t id;

	return text && *text ? parse_u64(text, 1, 65534, name, &id, e) : 0;
}

/* --- the socket --- */

static int default_socket(char **ret, struct err *e)
{
	const char *dir = secure_getenv("XDG_RUNTIME_DIR");
	_cleanup_free_ char *parent = NULL;

	if (geteuid() == 0)
		parent = xstrdup(LAUNCH_ROOT_DIR);
	else if (!dir || *dir != '/')
		return err_set(e, R_USAGE, 0,
			"find a place for the launcher's socket: XDG_RUNTIME_DIR is not set");
	else
		parent = xasprintf("%s/bailey", dir);
	if (mkdir(parent, geteuid() == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
		return err_set(e, R_STATE_UNWRITABLE, errno, "make '%s'", parent);
	*ret = xasprintf("%s/" LAUNCH_SOCKET, parent);
	return 0;
}

/* False only when it is certain that nobody does. */
static bool listens(const char *path)
{
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_close_ int sock = -1;

	return launch_connect(path, &sock, &e) == 0 || e.sys_errno != ECONNREFUSED;
}

/* One at a time; what a dead one left is taken away. */
static int clear(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT
			? 0
			: err_set(e, R_STATE_UNWRITABLE, errno, "look at '%s'", path);
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		return err_set(
			e, R_STATE_UNWRITABLE, 0, "listen at '%s': something else is there", path);
	if (listens(path))
		return err_set(e, R_BUSY, 0, "listen at '%s': another launcher does", path);
	return unlink(path) < 0 ? err_set(e, R_STATE_UNWRITABLE, errno, "remove '%s'", path) : 0;
}

static int open_socket(const struct daemon_options *o, char **ret_path, int *ret, struct err *e)
{
	_cleanup_free_ char *path = o->socket ? xstrdup(o->socket) : NULL;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

	if (!path && default_socket(&path, e) < 0)
		return -1;
	if (*path != '/' || strlen(path) >= sizeof a.sun_path || str_has_control(path))
		return err_set(e, R_BAD_VALUE, 0,
			"listen at '%.128s': not an absolute path of at most %zu bytes", path,
			sizeof a.sun_path - 1);
	if (clear(path, e) < 0)
		return -1;
	FMT(a.sun_path, "%s", path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* whom it serves is asked of the kernel, not of the file's mode */
	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ||
		chmod(path, o->n_uids ? 0666 : 0600) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "listen at '%s'", path);
	*ret_path = move_ptr(path);
	*ret = move_fd(&fd);
	return 0;
}

/* --- the two processes --- */

static int fork_spawner(struct launcher *l, struct err *e)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, R_SETUP_FAILED, errno, "make the spawner's channel");
	pid = fork();
	if (pid < 0)
		return err_set(e, R_SETUP_FAILED, errno, "fork the spawner");
	if (pid == 0) {
		(void)close_fd(pair[0]);
		(void)close_fd(l->listener);
		(void)prctl(PR_SET_NAME, "bailey-spawner");
		(void)prctl(PR_SET_DUMPABLE, 0);
		spawner_run(pair[1], l->options, l->home);
	}
	(void)close_fd(pair[1]);
	l->spawner = pair[0];
	return 0;
}

static char *socket_path;

/* Only what is safe in a handler. */
static void end(int sig)
{
	(void)sig;
	_exit(0);
}

static int start(struct launcher *l, struct err *e)
{
	_cleanup_free_ char *home = NULL;

	if (home_path(&home, e) < 0 || make_dirs(home, e) < 0)
		return -1;
	l->home = move_ptr(home);
	if (ceiling_read(&l->ceiling, l->options->ceiling, e) < 0 ||
		check_env("BAILEY_AGENT_UID", e) < 0 || check_env("BAILEY_AGENT_GID", e) < 0 ||
		open_socket(l->options, &socket_path, &l->listener, e) < 0 ||
		fork_spawner(l, e) < 0)
		return -1;
	(void)signal(SIGTERM, end);
	(void)signal(SIGINT, end);
	(void)signal(SIGPIPE, SIG_IGN);
	return guard(l->home, e);
}

int main(int argc, char **argv)
{
	static struct daemon_options options;
	static struct launcher l = { .options = &options, .spawner = -1, .listener = -1 };
	_cleanup_err_ struct err e = ERR_INIT;

	(void)umask(022);
	(void)!chdir("/");
	if (parse(&options, argc, argv, &e) == 0 && start(&l, &e) == 0) {
		(void)fprintf(stderr, "bailey launcher: listening at %s\n", socket_path);
		serve_run(&l);
	}
	(void)fprintf(stderr, "bailey launcher: %s [%s]\n  try: %s\n", e.message ?: "",
		reason_name(e.reason), err_get_remedy(&e));
	return reason_exit(e.reason);
}
