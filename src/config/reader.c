/* Owns the run of bailey-toml and the check of its answer.  Called by load.c, only when a config.toml exists: TOML needs
 * C++ and its library, which would cost every start of bailey a few milliseconds.  The file goes in as an open descriptor,
 * so that the program that parses it opens no path. */
#include "config/reader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/home.h"
#include "base/str.h"

#define READER_PROGRAM "bailey-toml"

/* The strings of an answer, one after the other. */
struct cursor {
	const char *at, *end;
};

static const char *next(struct cursor *c, size_t max)
{
	const char *s = c->at, *nul = s < c->end ? memchr(s, '\0', (size_t)(c->end - s)) : NULL;

	if (!nul || (size_t)(nul - s) > max)
		return NULL;
	c->at = nul + 1;
	return s;
}

static int malformed(const char *path, struct err *e)
{
	err_set(e, R_WIRE_MALFORMED, 0, "read config '%s': %s gave a malformed answer", path,
		READER_PROGRAM);
	return err_remedy(e, "Reinstall Bailey: %s must be of the same version.", READER_PROGRAM);
}

static int parse_number(const char *s, unsigned *ret)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	uint64_t v;

	if (!s || parse_u64(s, 0, READER_MAX_FILE, "line", &v, &ignored) < 0)
		return -1;
	*ret = (unsigned)v;
	return 0;
}

static int parse_item(
	struct cursor *c, const char *path, config_item_fn *fn, void *context, struct err *e)
{
	struct config_item item = { .key = next(c, READER_MAX_KEY), .type = next(c, 16) };

	if (!item.key || !item.type || parse_number(next(c, 16), &item.line) < 0)
		return malformed(path, e);
	item.value = next(c, READER_MAX_ANSWER);
	if (!item.value || str_has_control(item.key))
		return malformed(path, e);
	return fn(context, &item, e);
}

static int parse_error(struct cursor *c, const char *path, struct err *e)
{
	unsigned line, column;
	const char *message;

	if (parse_number(next(c, 16), &line) < 0 || parse_number(next(c, 16), &column) < 0)
		return malformed(path, e);
	message = next(c, 1024);
	if (!message || str_has_control(message))
		return malformed(path, e);
	return err_set(
		e, R_CONFIG_INVALID, 0, "read config '%s:%u:%u': %s", path, line, column, message);
}

int reader_parse(const char *answer, size_t n, const char *path, config_item_fn *fn, void *context,
	struct err *e)
{
	struct cursor c = { answer, answer + n };
	const char *s = next(&c, 16);

	if (!s || !streq(s, "bailey-toml 1"))
		return malformed(path, e);
	for (unsigned items = 0; items <= READER_MAX_ITEMS; items++) {
		s = next(&c, 1);
		if (!s)
			return malformed(path, e);
		if (streq(s, "."))
			return c.at == c.end ? 0 : malformed(path, e);
		if (streq(s, "e"))
			return parse_error(&c, path, e);
		if (!streq(s, "k"))
			return malformed(path, e);
		if (parse_item(&c, path, fn, context, e) < 0)
			return -1;
	}
	return err_set(e, R_CONFIG_INVALID, 0, "read config '%s': more than %d keys", path,
		READER_MAX_ITEMS);
}

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int fd, int out)
{
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawn_file_actions_adddup2(actions, fd, 0);
	r = r ?: posix_spawn_file_actions_adddup2(actions, out, 1);
	r = r ?: posix_spawn_file_actions_addclosefrom_np(actions, 3);
	r = r ?: posix_spawnattr_setsigmask(attr, &none);
	r = r ?: posix_spawnattr_setsigdefault(attr, &all);
	return r ?: posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* Starts the program with fd as its input and out as its output and an empty environment. */
static int start(const char *program, int fd, int out, pid_t *ret, struct err *e)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char *argv[] = { (char[]){ READER_PROGRAM }, NULL }, *env[] = { NULL };
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return err_set(e, R_SETUP_FAILED, r, "start '%s'", program);
	r = posix_spawnattr_init(&attr);
	if (!r) {
		r = prepare(&actions, &attr, fd, out);
		r = r ?: posix_spawn(ret, program, &actions, &attr, argv, env);
		(void)posix_spawnattr_destroy(&attr);
	}
	(void)posix_spawn_file_actions_destroy(&actions);
	if (!r)
		return 0;
	err_set(e, R_CONFIG_INVALID, r, "start '%s', which reads config files", program);
	return err_remedy(
		e, "Reinstall Bailey with its reader of config files, or remove the file.");
}

/* Takes the answer until the program closes its end, all within the deadline. */
static int collect(int in, const char *path, struct buf *answer, struct err *e)
{
	uint64_t deadline = boottime_ms() + READER_DEADLINE_MS, now;

	while ((now = boottime_ms()) < deadline) {
		struct pollfd p = { .fd = in, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, (int)(deadline - now)) <= 0)
			continue;
		if (!buf_reserve(answer, 16384))
			return err_set(e, R_CONFIG_INVALID, 0,
				"read config '%s': its content passes %d bytes", path,
				READER_MAX_ANSWER);
		n = read(in, answer->data + answer->len, 16384);
		if (!n)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_set(e, R_CONFIG_INVALID, errno, "read config '%s' through %s",
				path, READER_PROGRAM);
		if (n > 0)
			answer->len += (size_t)n;
	}
	return err_set(e, R_CONFIG_INVALID, 0, "read config '%s': %s took more than %d seconds",
		path, READER_PROGRAM, READER_DEADLINE_MS / 1000);
}

/* A program that ended badly has not answered, whatever it wrote before. */
static int finish(pid_t pid, const char *path, struct err *e)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, R_CONFIG_INVALID, errno, "wait for %s on '%s'",
				READER_PROGRAM, path);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		return err_set(e, R_CONFIG_INVALID, 0,
			"read config '%s': %s was ended by signal %d", path, READER_PROGRAM,
			WTERMSIG(status));
	return err_set(e, R_CONFIG_INVALID, 0, "read config '%s': %s ended with status %d", path,
		READER_PROGRAM, WEXITSTATUS(status));
}

int reader_run(int fd, const char *path, config_item_fn *fn, void *context, struct err *e)
{
	_cleanup_free_ char *program = NULL;
	_cleanup_buf_ struct buf answer = { .max = READER_MAX_ANSWER + 16384 };
	_cleanup_close_ int in = -1, out = -1;
	struct err ignored = ERR_INIT;
	int ends[2] = { -1, -1 };
	pid_t pid = -1;

	if (libexec_path(READER_PROGRAM, &program, e) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, R_CONFIG_INVALID, errno, "make a pipe to read config '%s'", path);
	in = ends[0];
	out = ends[1];
	if (start(program, fd, out, &pid, e) < 0)
		return err_wrap(e, "read config '%s'", path);
	(void)close_fd(move_fd(&out)); /* else the end of the answer would never come */
	if (collect(in, path, &answer, e) < 0) {
		(void)kill(pid, SIGKILL);
		(void)finish(pid, path, &ignored);
		err_done(&ignored);
		return -1;
	}
	if (finish(pid, path, e) < 0)
		return -1;
	return reader_parse(answer.data ?: "", answer.len, path, fn, context, e);
}
