/* One sandbox that lives, on the native engine alone, as tests of layers and changes use it. */
#include "engine/native/box_for_test.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "spec/profile.h"

enum { NOBODY = 65534, OUTPUT = 16 << 10 };

char box_home[64], box_store[96];
static bool on_loop;

static int add_bind(struct run_request *r, const char *path, const char *target, bool cow)
{
	struct spec_bind *b = &r->binds[r->n_binds++];

	b->fd = open(path, O_PATH | O_CLOEXEC);
	b->cow = cow;
	b->writable = !cow;
	b->idmap = true;
	FMT(b->target, "%s", target);
	return b->fd < 0 ? -1 : 0;
}

int box_make(struct box *b, const struct wish *w)
{
	static char runs[128];
	const struct engine_io none = { { -1, -1, -1 } };
	struct run_request *r = xcalloc(1, sizeof *r);
	struct engine_env env = { .guest = TEST_GUEST,
		.home_hash = "0badcafe",
		.runs = runs,
		.ids_base = 0x70000000,
		.ids_count = 64,
		.layers = on_loop ? "loop" : NULL,
		.layer_store = on_loop ? box_store : NULL };
	struct sandbox_spec spec;
	char **strings = NULL, path[256];
	struct stat st;
	int result;

	FMT(runs, "%s/runs", box_home);
	if (on_loop && !*box_store && mkdir(FMT(box_store, "%s/layers", box_home), 0700) < 0 &&
		errno != EEXIST)
		abort();
	r->image_fd = w->image ? open(w->image, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	r->tmp_size = 1 << 20;
	r->uid = r->gid = w->uid;
	r->read_only = w->read_only;
	r->disk_bytes = w->disk ?: 16 << 20;
	r->limits = (struct spec_limits){
		.memory_bytes = 256 << 20, .cpu_millis = 2000, .pids = 64, .unlimited = !w->limited
	};
	if ((w->cow && add_bind(r, w->cow, "/workspace", true) < 0) ||
		(w->rw && add_bind(r, w->rw, "/shared", false) < 0) ||
		(w->socket && add_bind(r, w->socket, "/run/gw/llm.sock", false) < 0))
		abort();
	if (w->socket) {
		r->binds[r->n_binds - 1].kind = BIND_SOCKET;
		r->binds[r->n_binds - 1].idmap = false;
	}
	result = profile_create(&spec, r, &strings, &b->e);
	free(r);
	if (result < 0)
		return -1;
	spec.nofile = w->files;
	if (w->object && fstat(spec.binds[spec.n_binds - 1].fd, &st) == 0) {
		spec.binds[spec.n_binds - 1].has_object = true;
		spec.binds[spec.n_binds - 1].dev = st.st_dev;
		spec.binds[spec.n_binds - 1].ino = w->object;
	}
	if (mkdir(FMT(path, "%s/%s", runs, spec.id), 0700) < 0)
		abort();
	result = engine_native.open(&b->engine, &env, &b->e);
	if (result == 0)
		result = engine_native.create(b->engine, &spec, &none, &b->sb, &b->e);
	spec_done(&spec);
	free(strings);
	return result;
}

/* Runs a line inside; its status, with its output in `out`. */
static int inside(struct box *b, const char *line, char *out)
{
	static uint64_t epoch;
	int fd = -1;
	size_t n = 0, end;
	ssize_t r;

	if (engine_native.connect(b->sb, ++epoch, &fd, &b->e) < 0 ||
		write_all(fd, line, strlen(line)) < 0 || write_all(fd, "\n", 1) < 0)
		return -1;
	while ((r = read(fd, out + n, OUTPUT - 1 - n)) > 0)
		n += (size_t)r;
	close_fd(fd);
	out[n] = '\0';
	end = strlen(out);
	while (end && out[end - 1] == '\n')
		out[--end] = '\0';
	end = strnlen(out, n);
	for (size_t i = end; i < n; i++)
		if (out[i] == '\0' && i + 1 < n && out[i + 1] != '\0')
			return (int)strtoull(out + i + 1, NULL, 10);
	return -1;
}

bool box_says(struct box *b, const char *line, const char *want)
{
	static char out[OUTPUT];
	int status = inside(b, line, out);

	if (status == 0 && streq(out, want))
		return true;
	(void)fprintf(
		stderr, "'%s' ended with %d and said '%s', not '%s'\n", line, status, out, want);
	return false;
}

bool box_stop(struct box *b)
{
	struct engine_facts f;

	return engine_native.halt(b->sb, &f, &b->e) == 0;
}

bool box_start(struct box *b)
{
	return engine_native.boot(b->sb, &b->e) == 0;
}

void box_drop(struct box *b)
{
	engine_native.free(b->sb);
	engine_native.close(b->engine);
	err_done(&b->e);
}

/* Runs f in a forked owner of a fork; its status. */
int box_fork(struct box *b, bool copy, int (*f)(struct box *b))
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	char id[SPEC_ID_LEN], path[256];
	int status = -1;
	pid_t pid;

	if (spec_new_id(id, &ignored) < 0 || mkdir(FMT(path, "%s/runs/%s", box_home, id), 0700) < 0)
		return BOX_FAILED;
	pid = fork();
	if (pid == 0) {
		status = (copy && engine_native.copy(b->sb, NULL, NULL, &b->e) < 0) ||
				engine_native.adopt(b->sb, id, "forked", &b->e) < 0
			? BOX_FAILED
			: f(b);
		if (b->e.message)
			(void)fprintf(stderr, "fork: %s\n", b->e.message);
		box_drop(b);
		_exit(status);
	}
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : BOX_FAILED;
}

/* Collects what box_changes() writes. */
int box_changes(struct box *b, uint32_t flags, struct buf *out)
{
	int pipe_fd[2], status = -1;
	pid_t pid;

	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		_cleanup_err_ struct err e = ERR_INIT;
		int r = engine_native.changes(b->sb, pipe_fd[1], flags, &e);

		if (r < 0)
			(void)fprintf(stderr, "changes: %s\n", e.message);
		_exit(r < 0 ? BOX_FAILED : 0);
	}
	close_fd(pipe_fd[1]);
	if (read_all(pipe_fd[0], out) < 0)
		status = -1;
	close_fd(pipe_fd[0]);
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* "A path" of each record, sorted, in one string. */
static char *list_records(const struct buf *in)
{
	static char text[OUTPUT];
	char *lines[256], *save = NULL, raw[OUTPUT];
	size_t n = 0, at = 0, len = 0;

	raw[0] = '\0';
	while (at + 15 <= in->len && len < sizeof raw - 512) {
		const uint8_t *p = (const uint8_t *)in->data + at;
		size_t size = p[0] | (size_t)p[1] << 8;

		if (p[2] == 'Z')
			break;
		str_format(raw + len, sizeof raw - len, "%c %.*s\n", p[2], (int)(size - 15),
			(const char *)p + 15);
		len += strlen(raw + len);
		at += size;
	}
	for (char *l = strtok_r(raw, "\n", &save); l && n < 256; l = strtok_r(NULL, "\n", &save)) {
		size_t i = n++;

		for (; i > 0 && strcmp(lines[i - 1], l) > 0; i--)
			lines[i] = lines[i - 1];
		lines[i] = l;
	}
	text[0] = '\0';
	for (size_t i = 0, k = 0; i < n; i++) {
		str_format(text + k, sizeof text - k, "%s\n", lines[i]);
		k += strlen(text + k);
	}
	return text;
}

bool box_changed(struct box *b, uint32_t flags, const char *want)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	int status = box_changes(b, flags, &out);
	char *got = list_records(&out);

	if (status == 0 && streq(got, want))
		return true;
	(void)fprintf(stderr, "changes ended with %d:\n%s", status, got);
	return false;
}

/* --- as whom ------------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	(void)remove(path);
	return 0;
}

static int run_as(bool root, int (*f)(void))
{
	enum { NFTW_FDS = 16 };
	bool change = !root && geteuid() == 0;
	int status = -1;
	pid_t pid;

	FMT(box_home, "/tmp/bailey-box-XXXXXX");
	if (!mkdtemp(box_home) || (change && chown(box_home, NOBODY, NOBODY) < 0))
		return 99;
	pid = fork();
	if (pid == 0) {
		if (change &&
			(setgid(NOBODY) < 0 || setuid(NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
			_exit(99);
		if (chdir(box_home) < 0 || mkdir("runs", 0700) < 0)
			_exit(99);
		status = f();
		(void)fflush(stdout);
		_exit(status);
	}
	(void)waitpid(pid, &status, 0);
	(void)nftw(box_home, remove_one, NFTW_FDS, FTW_DEPTH | FTW_PHYS);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

bool box_can_loop(void)
{
	return geteuid() == 0 && access("/dev/loop-control", R_OK | W_OK) == 0 &&
		access("/sbin/mkfs.ext4", X_OK) == 0;
}

void box_test_loop(int (*f)(void))
{
	int status;

	if (!box_can_loop())
		return;
	on_loop = true;
	status = run_as(true, f);
	on_loop = false;
	if (status == BOX_SKIPPED)
		skip();
	assert_int_equal(status, 0);
}

void box_test(int (*f)(void))
{
	int user = run_as(false, f), root = geteuid() == 0 ? run_as(true, f) : BOX_SKIPPED;

	assert_true(user == 0 || user == BOX_SKIPPED);
	assert_true(root == 0 || root == BOX_SKIPPED);
	if (user == BOX_SKIPPED && root == BOX_SKIPPED)
		skip();
}
