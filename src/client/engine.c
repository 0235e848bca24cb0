/* Owns starting the engine's program for a home.  Called by create.c and list.c.
 *
 * The engine gets what it needs of the environment and nothing more: it lives as long as the sandbox does, and the host's
 * variables often hold secrets. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/str.h"
#include "client/client.h"

/* Its programs and files; the user's systemd, which may have to delegate a cgroup. */
static const char *const passed[] = { "PATH", "HOME", "LANG", "XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS", "BAILEY_LIBEXEC", "BAILEY_IDS_BASE", "BAILEY_IDS_COUNT",
	"BAILEY_CGROUP_PARENT", "BAILEY_NATIVE_LAYERS", "BAILEY_NATIVE_LAYER_STORE", "ASAN_OPTIONS",
	"UBSAN_OPTIONS", "LSAN_OPTIONS", "BAILEY_DOCKER_HOST", "BAILEY_DOCKER_CERT_PATH",
	"BAILEY_DOCKER_DISK", "DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CERT_PATH",
	"DOCKER_TLS_VERIFY" };

enum { MAX_ENV = sizeof passed / sizeof *passed + 8, ADOPT_MS = 45000 };

struct environment {
	char *v[MAX_ENV];
	unsigned n;
};

static void environment_done(struct environment *env)
{
	for (unsigned i = 0; i < env->n; i++)
		free(env->v[i]);
}

/* Replaces what was passed on under the same name. */
static void put(struct environment *env, const char *name, char *entry)
{
	for (unsigned i = 0; i < env->n; i++) {
		const char *rest = str_after(env->v[i], name);

		if (rest && *rest == '=') {
			free(env->v[i]);
			env->v[i] = entry;
			return;
		}
	}
	env->v[env->n++] = entry;
}

static void fill(struct environment *env, const struct bailey *b)
{
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
		const char *value = secure_getenv(passed[i]);

		if (value)
			put(env, passed[i], xasprintf("%s=%s", passed[i], value));
	}
	put(env, "BAILEY_HOME", xasprintf("BAILEY_HOME=%s", b->home));
	if (b->libexec)
		put(env, "BAILEY_LIBEXEC", xasprintf("BAILEY_LIBEXEC=%s", b->libexec));
	if (b->cgroup_parent)
		put(env, "BAILEY_CGROUP_PARENT",
			xasprintf("BAILEY_CGROUP_PARENT=%s", b->cgroup_parent));
	if (b->ids_base)
		put(env, "BAILEY_IDS_BASE", xasprintf("BAILEY_IDS_BASE=%u", b->ids_base));
	if (b->ids_count)
		put(env, "BAILEY_IDS_COUNT", xasprintf("BAILEY_IDS_COUNT=%u", b->ids_count));
	if (b->layers)
		put(env, "BAILEY_NATIVE_LAYERS", xasprintf("BAILEY_NATIVE_LAYERS=%s", b->layers));
	if (b->layer_store)
		put(env, "BAILEY_NATIVE_LAYER_STORE",
			xasprintf("BAILEY_NATIVE_LAYER_STORE=%s", b->layer_store));
	if (b->docker_host)
		put(env, "BAILEY_DOCKER_HOST", xasprintf("BAILEY_DOCKER_HOST=%s", b->docker_host));
	if (b->docker_cert_path)
		put(env, "BAILEY_DOCKER_CERT_PATH",
			xasprintf("BAILEY_DOCKER_CERT_PATH=%s", b->docker_cert_path));
	if (b->docker_disk)
		put(env, "BAILEY_DOCKER_DISK", xasprintf("BAILEY_DOCKER_DISK=%s", b->docker_disk));
	env->v[env->n] = NULL;
}

static int spawn(const struct bailey *b, const char *engine, const char *verb, const char *id,
	int fd, struct err *e)
{
	_cleanup_(environment_done) struct environment env = { .n = 0 };
	_cleanup_free_ char *program = NULL, *word = xstrdup(verb);
	_cleanup_free_ char *object = id ? xstrdup(id) : NULL;
	_cleanup_free_ char *name = xasprintf("bailey-engine-%s", engine);
	char *argv[4];

	if (client_program(b, name, &program, e) < 0)
		return -1;
	argv[0] = program;
	argv[1] = word;
	argv[2] = object;
	argv[3] = NULL;
	fill(&env, b);
	if (spawn_detached(argv, env.v, fd, e) == 0)
		return 0;
	if (e->sys_errno == ENOENT)
		(void)err_remedy(e,
			"Reinstall Bailey, or name the directory of its programs with "
			"BAILEY_LIBEXEC.");
	return -1;
}

int engine_spawn(const struct bailey *b, const char *verb, int fd, struct err *e)
{
	return spawn(b, b->engine, verb, NULL, fd, e);
}

bool client_adopt(const struct bailey *b, int run, const struct record *r)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	const char *engine = record_get(r, "engine");
	_cleanup_close_ int ours = -1;
	int pair[2], n;
	char byte;

	/* of the others none outlives its owner */
	if (!engine || !streq(engine, "docker") ||
		faccessat(run, "kept", F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	ours = pair[0];
	n = spawn(b, engine, "adopt", r->id, pair[1], &ignored);
	(void)close_fd(pair[1]);
	if (n == 0) {
		struct pollfd p = { .fd = ours, .events = POLLIN };

		n = poll(&p, 1, ADOPT_MS) > 0 && recv(ours, &byte, 1, 0) == 1 ? 0 : -1;
	}
	return n == 0;
}

/* A home that never had a container doesn't trouble the daemon. */
static bool had_containers(const struct bailey *b)
{
	_cleanup_free_ char *path = xasprintf("%s/sandbox/docker", b->home);

	return access(path, F_OK) == 0;
}

int client_sweep(const struct bailey *b, struct err *e)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_set(e, R_SETUP_FAILED, errno, "open '/dev/null'");
	if (had_containers(b) && spawn(b, "docker", "sweep", NULL, null, e) < 0)
		return -1;
	return spawn(b, "native", "sweep", NULL, null, e);
}
