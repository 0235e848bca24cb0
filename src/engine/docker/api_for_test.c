/* usage: api_for_test [-H HOST] [-c CERTS] [-t MILLISECONDS] OP [ARGUMENT...]
 * Makes one call of the Docker API and prints what came of it; on failure "REASON<tab>message<tab>remedy" and status 1.
 * tests/docker/api.sh drives it against a hostile daemon and against real ones. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/api.h"

typedef int op_function(struct docker *d, char **a, struct err *e);

static int print_json(json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

	puts(text ? text : "(none)");
	free(text);
	json_decref(value);
	return 0;
}

static uint64_t number(const char *s)
{
	struct err e = ERR_INIT;
	uint64_t n = 0;

	if (parse_u64(s, 0, UINT32_MAX, "a number", &n, &e) < 0) {
		fprintf(stderr, "api_for_test: %s\n", e.message);
		exit(2);
	}
	return n;
}

static int op_open(struct docker *d, char **a, struct err *e)
{
	(void)a;
	(void)e;
	printf("api=%s podman=%d local=%d host=%s\n", docker_api(d), docker_is_podman(d),
		docker_is_local(d), docker_host(d));
	return 0;
}

static int op_info(struct docker *d, char **a, struct err *e)
{
	struct docker_info i;

	(void)a;
	if (docker_info(d, &i, e) < 0)
		return -1;
	printf("version=%s\nos=%s\narch=%s\nkernel=%s\ndriver=%s\nbacking=%s\ncgroup=%s/%s\n",
		i.version, i.os, i.arch, i.kernel, i.driver, i.backing_fs, i.cgroup_driver,
		i.cgroup_version);
	printf("runtimes=%s\ndefault=%s\nsecurity=%s\nroot=%s\nid=%s\nrootless=%d\nlimits=%d%d%d%d\n",
		i.runtimes, i.default_runtime, i.security, i.root_dir, i.id, i.rootless,
		i.memory_limit, i.swap_limit, i.pids_limit, i.cpu_quota);
	printf("cpus=%llu\nmemory=%llu\n", (unsigned long long)i.cpus,
		(unsigned long long)i.memory_bytes);
	return 0;
}

static int op_create(struct docker *d, char **a, struct err *e)
{
	_cleanup_json_ json_t *body = json_loads(a[1], 0, NULL);
	json_t *warnings = NULL;
	char id[DOCKER_ID];

	if (docker_create(d, a[0], body, id, &warnings, e) < 0)
		return -1;
	puts(id);
	return print_json(warnings);
}

static int op_start(struct docker *d, char **a, struct err *e)
{
	return docker_start(d, a[0], e);
}

static int op_kill(struct docker *d, char **a, struct err *e)
{
	return docker_kill(d, a[0], (int)number(a[1]), e);
}

static int op_stop(struct docker *d, char **a, struct err *e)
{
	return docker_stop(d, a[0], (unsigned)number(a[1]), e);
}

static int op_pause(struct docker *d, char **a, struct err *e)
{
	return docker_pause(d, a[0], e);
}

static int op_unpause(struct docker *d, char **a, struct err *e)
{
	return docker_unpause(d, a[0], e);
}

static int op_remove(struct docker *d, char **a, struct err *e)
{
	return docker_remove(d, a[0], streq(a[1], "force"), true, e);
}

static int op_wait(struct docker *d, char **a, struct err *e)
{
	int64_t code;

	if (docker_wait(d, a[0], number(a[1]), &code, e) < 0)
		return -1;
	printf("%lld\n", (long long)code);
	return 0;
}

static int op_inspect(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_inspect(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

static int op_size(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_inspect_size(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

static int op_list(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_list(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

static int op_stats(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_stats(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

static int op_changes(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_changes(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

static int op_commit(struct docker *d, char **a, struct err *e)
{
	char id[DOCKER_IMAGE_ID];

	if (docker_commit(d, a[0], a[1], a[2], true, "LABEL one=1\nLABEL two=2", id, e) < 0)
		return -1;
	puts(id);
	return 0;
}

static int to_stdout(void *arg, const void *p, size_t n, struct err *e)
{
	size_t *left = arg;

	if (n > *left)
		return err_set(e, R_OUTPUT_FAILED, 0, "that is enough");
	*left -= n;
	return write_all(1, p, n) < 0 ? err_set(e, R_OUTPUT_FAILED, errno, "can't write") : 0;
}

static int op_get(struct docker *d, char **a, struct err *e)
{
	size_t most = a[2] ? number(a[2]) : SIZE_MAX;

	return docker_archive_get(d, a[0], a[1], to_stdout, &most, e);
}

static int op_export(struct docker *d, char **a, struct err *e)
{
	size_t most = SIZE_MAX;

	return docker_export(d, a[0], to_stdout, &most, e);
}

static int op_put(struct docker *d, char **a, struct err *e)
{
	return docker_archive_put(d, a[0], a[1], 0, e);
}

/* Standard input to the command, its output to ours; at the end of the input "half" closes one
 * direction, "close" both; with an x before that the command is not asked about afterwards. */
static void pump(int fd, bool half)
{
	static char p[1 << 16];
	struct pollfd at[2] = { { .fd = 0, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
	ssize_t n;

	for (;;) {
		(void)poll(at, 2, -1);
		if (at[0].revents) {
			n = read(0, p, sizeof p);
			if (n > 0 && write_all(fd, p, (size_t)n) < 0)
				return;
			if (n <= 0 && !half)
				return;
			if (n <= 0) {
				(void)shutdown(fd, SHUT_WR);
				at[0].fd = -1;
				at[0].revents = 0;
			}
		}
		if (at[1].revents) {
			n = read(fd, p, sizeof p);
			if (n <= 0 || write_all(1, p, (size_t)n) < 0)
				return;
		}
	}
}

static int op_exec(struct docker *d, char **a, struct err *e)
{
	struct docker_exec state = { .running = true };
	char id[DOCKER_ID];
	uint64_t until;
	int fd;

	if (docker_exec_stream(d, a[1], a + 2, NULL, &fd, id, e) < 0)
		return -1;
	(void)fflush(stdout);
	pump(fd, strstr(a[0], "half") != NULL);
	(void)close(fd);
	/* there is no child of ours: it lives on by itself, or has ended */
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		return err_set(e, R_BUSY, 0, "a child is left to be reaped");
	if (a[0][0] == 'x')
		return 0;
	for (until = boottime_ms() + 5000; state.running && boottime_ms() < until; usleep(20000))
		if (docker_exec_inspect(d, id, &state, e) < 0)
			return -1;
	printf("\nrunning=%d exit=%lld\n", state.running, (long long)state.exit_code);
	return 0;
}

static int op_image_inspect(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_image_inspect(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

static int op_image_list(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_image_list(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

static int op_image_tag(struct docker *d, char **a, struct err *e)
{
	return docker_image_tag(d, a[0], a[1], a[2], e);
}

static int op_image_remove(struct docker *d, char **a, struct err *e)
{
	return docker_image_remove(d, a[0], a[1] != NULL, e);
}

static int op_image_load(struct docker *d, char **a, struct err *e)
{
	char ref[DOCKER_REF];

	(void)a;
	if (docker_image_load(d, 0, ref, e) < 0)
		return -1;
	puts(ref);
	return 0;
}

static int op_image_import(struct docker *d, char **a, struct err *e)
{
	char id[DOCKER_IMAGE_ID];

	if (docker_image_import(d, 0, a[0], a[1], "LABEL one=1", id, e) < 0)
		return -1;
	puts(id);
	return 0;
}

static int op_volume_create(struct docker *d, char **a, struct err *e)
{
	_cleanup_json_ json_t *labels = json_pack("{s:s}", "bailey.test", "1");

	return docker_volume_create(d, a[0], labels, e);
}

static int op_volume_remove(struct docker *d, char **a, struct err *e)
{
	return docker_volume_remove(d, a[0], false, e);
}

static int op_volume_inspect(struct docker *d, char **a, struct err *e)
{
	json_t *v;

	return docker_volume_inspect(d, a[0], &v, e) < 0 ? -1 : print_json(v);
}

/* PREFIX COUNT: inspects PREFIX-0 to PREFIX-(COUNT-1) and counts the outcomes. */
static int op_each(struct docker *d, char **a, struct err *e)
{
	unsigned count[REASON_MAX] = { 0 };
	uint64_t n = number(a[1]);

	for (uint64_t i = 0; i < n; i++) {
		_cleanup_free_ char *name = xasprintf("%s-%llu", a[0], (unsigned long long)i);
		json_t *v = NULL;

		(void)docker_inspect(d, name, &v, e);
		if (v)
			printf("fine: %s\n", name);
		json_decref(v);
		count[e->reason]++;
		err_done(e);
	}
	for (int r = 0; r < REASON_MAX; r++)
		if (count[r])
			printf("%s=%u\n", reason_name((enum reason)r), count[r]);
	return 0;
}

/* COUNT: so many calls over one handle, and what one of a forked child's does to it. */
static int op_again(struct docker *d, char **a, struct err *e)
{
	struct docker_info info;
	int status;
	pid_t pid;

	for (uint64_t i = number(a[0]); i > 0; i--) {
		if (docker_info(d, &info, e) < 0)
			return -1;
		pid = fork();
		if (pid == 0) {
			docker_free_forked(d);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return err_set(e, R_BUSY, 0, "the child failed");
	}
	puts("fine");
	return 0;
}

static const struct {
	const char *name;
	op_function *function;
	int least;
} ops[] = {
	{ "open", op_open, 0 },
	{ "info", op_info, 0 },
	{ "create", op_create, 2 },
	{ "start", op_start, 1 },
	{ "kill", op_kill, 2 },
	{ "stop", op_stop, 2 },
	{ "pause", op_pause, 1 },
	{ "unpause", op_unpause, 1 },
	{ "remove", op_remove, 2 },
	{ "wait", op_wait, 2 },
	{ "inspect", op_inspect, 1 },
	{ "size", op_size, 1 },
	{ "list", op_list, 1 },
	{ "stats", op_stats, 1 },
	{ "changes", op_changes, 1 },
	{ "commit", op_commit, 3 },
	{ "get", op_get, 2 },
	{ "put", op_put, 2 },
	{ "export", op_export, 1 },
	{ "exec", op_exec, 3 },
	{ "image-inspect", op_image_inspect, 1 },
	{ "image-list", op_image_list, 0 },
	{ "image-tag", op_image_tag, 3 },
	{ "image-remove", op_image_remove, 1 },
	{ "image-load", op_image_load, 0 },
	{ "image-import", op_image_import, 2 },
	{ "volume-create", op_volume_create, 1 },
	{ "volume-remove", op_volume_remove, 1 },
	{ "volume-inspect", op_volume_inspect, 1 },
	{ "each", op_each, 2 },
	{ "again", op_again, 1 },
};

static int run(const struct docker_config *c, int argc, char **argv, struct err *e)
{
	struct docker *d;
	int r;

	for (size_t i = 0; argc > 0 && i < sizeof ops / sizeof ops[0]; i++) {
		if (!streq(ops[i].name, argv[0]) || argc <= ops[i].least)
			continue;
		if (docker_open(&d, c, e) < 0)
			return -1;
		r = ops[i].function(d, argv + 1, e);
		docker_free(d);
		return r;
	}
	fprintf(stderr, "api_for_test: no such call, or too few arguments\n");
	exit(2);
}

int main(int argc, char **argv)
{
	struct docker_config c = { .host = NULL };
	struct err e = ERR_INIT;
	int option;

	while ((option = getopt(argc, argv, "+H:c:t:")) != -1) {
		switch (option) {
		case 'H':
			c.host = optarg;
			break;
		case 'c':
			c.cert_path = optarg;
			break;
		case 't':
			c.timeout_ms = number(optarg);
			break;
		default:
			return 2;
		}
	}
	if (run(&c, argc - optind, argv + optind, &e) == 0)
		return fflush(stdout) == 0 ? 0 : 1;
	printf("%s\t%s\t%s\n", reason_name(e.reason), e.message, err_get_remedy(&e));
	err_done(&e);
	return 1;
}
