/* Sandboxes that live, on the native engine alone: files over stop and start, layers that are sealed, shared and copied, what
 * a fork has of its own, what a hostile layer may not do.  Each test runs in a process of its own, as root and as a user. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "archive/archive.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/native/native.h"
#include "spec/profile.h"

enum { NOBODY = 65534, SKIPPED = 77, FAILED = 1, OUTPUT = 16 << 10 };

static char home[64];

struct box {
	struct engine *engine;
	struct sandbox *sb;
	struct err e;
};

/* What a test asks for beyond the usual. */
struct wish {
	bool read_only, limited;
	uid_t uid;
	uint64_t disk;
	const char *image, *cow, *rw, *socket;
};

#define NEED(x) \
	do { \
		if (!(x)) { \
			(void)fprintf(stderr, "%s:%d: %s: %s\n", __func__, __LINE__, #x, \
				b.e.message ?: ""); \
			return FAILED; \
		} \
	} while (0)

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

static int make_box(struct box *b, const struct wish *w)
{
	static char runs[128];
	const struct engine_io none = { { -1, -1, -1 } };
	struct run_request *r = xcalloc(1, sizeof *r);
	struct engine_env env = { .guest = TEST_GUEST,
		.home_hash = "0badcafe",
		.runs = runs,
		.ids_base = 0x70000000,
		.ids_count = 64 };
	struct sandbox_spec spec;
	char **strings = NULL, path[256];
	int result;

	FMT(runs, "%s/runs", home);
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

static bool says(struct box *b, const char *line, const char *want)
{
	static char out[OUTPUT];
	int status = inside(b, line, out);

	if (status == 0 && streq(out, want))
		return true;
	(void)fprintf(
		stderr, "'%s' ended with %d and said '%s', not '%s'\n", line, status, out, want);
	return false;
}

static bool stop(struct box *b)
{
	struct engine_facts f;

	return engine_native.halt(b->sb, &f, &b->e) == 0;
}

static bool start(struct box *b)
{
	return engine_native.boot(b->sb, &b->e) == 0;
}

static void drop(struct box *b)
{
	engine_native.free(b->sb);
	engine_native.close(b->engine);
	err_done(&b->e);
}

/* Runs f in a forked owner of a fork; its status. */
static int in_fork(struct box *b, bool copy, int (*f)(struct box *b))
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	char id[SPEC_ID_LEN], path[256];
	int status = -1;
	pid_t pid;

	if (spec_new_id(id, &ignored) < 0 || mkdir(FMT(path, "%s/runs/%s", home, id), 0700) < 0)
		return FAILED;
	pid = fork();
	if (pid == 0) {
		status = (copy && engine_native.copy(b->sb, NULL, NULL, &b->e) < 0) ||
				engine_native.adopt(b->sb, id, "forked", &b->e) < 0
			? FAILED
			: f(b);
		if (b->e.message)
			(void)fprintf(stderr, "fork: %s\n", b->e.message);
		drop(b);
		_exit(status);
	}
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

/* Collects what changes() writes. */
static int changes(struct box *b, uint32_t flags, struct buf *out)
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
		_exit(r < 0 ? FAILED : 0);
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

static bool changed(struct box *b, uint32_t flags, const char *want)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	int status = changes(b, flags, &out);
	char *got = list_records(&out);

	if (status == 0 && streq(got, want))
		return true;
	(void)fprintf(stderr, "changes ended with %d:\n%s", status, got);
	return false;
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static int files_outlive_a_stop(void)
{
	struct box b = { .e = ERR_INIT };
	struct engine_stats st;

	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0 && start(&b));
	NEED(says(
		&b, "id -u; pwd; echo a > f; cat f; hostname | cut -c1", "1000\n/workspace\na\nb"));
	NEED(says(&b,
		"echo x > /tmp/t; echo h > ~/h; mkdir -p d/e; ln -s /proc d/l; df -h / >/dev/null",
		""));
	NEED(engine_native.stats(b.sb, &st, &b.e) == 0 && st.disk_size == 16 << 20 &&
		st.disk_used > 0);
	NEED(stop(&b) && start(&b));
	NEED(says(&b, "cat f ~/h; ls -A /tmp; readlink d/l; stat -c %a:%U ~ . ; stat -c %a /tmp",
		"a\nh\n/proc\n700:agent\n755:agent\n1777"));
	drop(&b);
	return 0;
}

static int a_root_can_be_written_to(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(make_box(&b, &(struct wish){ .uid = 0 }) == 0 && start(&b));
	NEED(says(&b, "echo 10.0.0.1 x >> /etc/hosts; mkdir /opt2; mkdir /srv", ""));
	NEED(says(&b,
		"touch /usr/x 2>/dev/null || echo refused; touch /dev/x 2>/dev/null || echo refused",
		"refused\nrefused"));
	NEED(says(&b, "rmdir /workspace", ""));
	NEED(stop(&b) && start(&b)); /* the working directory is gone */
	NEED(says(&b, "tail -n 1 /etc/hosts; ls -d /opt2 /srv; pwd", "10.0.0.1 x\n/opt2\n/srv\n/"));
	NEED(changed(&b, 0, "A opt2\nA srv\nD workspace\nM etc/hosts\n"));
	drop(&b);
	return 0;
}

static int the_disk_is_bounded(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(make_box(&b, &(struct wish){ .uid = 1000, .disk = 2 << 20 }) == 0 && start(&b));
	NEED(says(&b,
		"head -c 4m /dev/zero > big 2>/dev/null || echo full; test $(stat -c %s big) -le 2097152 && echo ok",
		"full\nok"));
	NEED(says(&b,
		"i=0; while mkdir d$i 2>/dev/null; do i=$((i+1)); test $i -lt 5000 || break; done; test $i -lt 2000 && echo bounded",
		"bounded"));
	drop(&b);
	return 0;
}

static int read_only_keeps_nothing(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(make_box(&b, &(struct wish){ .uid = 1000, .read_only = true }) == 0 && start(&b));
	NEED(says(&b, "touch /x 2>/dev/null || echo refused; echo a > f; echo b > ~/f; ls",
		"refused\nf"));
	NEED(stop(&b) && start(&b));
	NEED(says(&b, "ls; ls ~; cat /etc/hostname | cut -c1", "b"));
	drop(&b);
	return 0;
}

static int forked_alone(struct box *b_)
{
	struct box b = *b_;

	NEED(start(&b));
	NEED(says(&b, "cat f; hostname; cat /etc/hostname; stat -c %U f d/g; cat d/g; id -u",
		"origin\nforked\nforked\nagent\nagent\ndeep\n1000"));
	NEED(says(
		&b, "echo fork > f; rm d/g; rmdir d; mkdir d; echo new > n; ls d; cat f", "fork"));
	NEED(changed(&b, 0, "A workspace/d\nA workspace/f\nA workspace/keep\nA workspace/n\n"));
	NEED(stop(&b) && start(&b));
	NEED(says(&b, "cat f n; ls d; cat keep", "fork\nnew\nkept"));
	*b_ = b;
	return 0;
}

static int a_fork_of_a_stopped_one_shares(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0 && start(&b));
	NEED(says(&b, "echo origin > f; mkdir d; echo deep > d/g; echo kept > keep", ""));
	NEED(stop(&b));
	if (engine_native.seal(b.sb, &b.e) < 0) {
		NEED(b.e.reason == reason_by_name("layer_unsupported"));
		drop(&b);
		return SKIPPED;
	}
	NEED(in_fork(&b, false, forked_alone) == 0);
	NEED(start(&b));
	NEED(says(&b, "cat f d/g; test -e n || echo none; rm f; echo origin > f",
		"origin\ndeep\nnone"));
	NEED(stop(&b) && engine_native.seal(b.sb, &b.e) == 0);
	NEED(in_fork(&b, false, forked_alone) == 0);
	drop(&b);
	return 0;
}

static int a_fork_of_a_running_one_is_a_copy(void)
{
	struct box b = { .e = ERR_INIT };

	if (make_box(&b, &(struct wish){ .uid = 1000, .limited = true }) < 0) {
		NEED(b.e.reason == reason_by_name("resource_limits_unenforced"));
		drop(&b);
		return SKIPPED;
	}
	NEED(start(&b));
	NEED(says(&b,
		"echo origin > f; mkdir d; echo deep > d/g; echo kept > keep; sleep 1000 >/dev/null 2>&1 &",
		""));
	NEED(in_fork(&b, true, forked_alone) == 0);
	NEED(says(&b, "cat f d/g; test -e n || echo none", "origin\ndeep\nnone"));
	drop(&b);
	return 0;
}

static int copied_whole(struct box *b_)
{
	struct box b = *b_;

	NEED(start(&b));
	NEED(says(&b,
		"stat -c '%n %a %h %s %F' a b fifo link s; test a -ef b && echo same; du -k s | cut -f1;"
		"cat a; readlink link; stat -c '%a %U %Y' dir a; getfattr -n user.x --only-values a 2>/dev/null || echo v",
		"a 640 2 5 regular file\nb 640 2 5 regular file\nfifo 600 1 0 fifo\nlink 777 1 9 symbolic link\n"
		"s 644 1 8388608 regular file\nsame\n4\nhello/no/where\n700 agent 1000000001\n"
		"640 agent 1000000000\nv"));
	*b_ = b;
	return 0;
}

static int a_copy_is_whole(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0 && start(&b));
	NEED(says(&b,
		"printf hello > a; chmod 640 a; ln a b; mkfifo -m 600 fifo; ln -s /no/where link; mkdir -m 700 dir;"
		"truncate -s 8m s; printf x | dd of=s bs=1 seek=5000000 conv=notrunc 2>/dev/null;"
		"setfattr -n user.x -v v a 2>/dev/null; touch -d @1000000000 a; touch -d @1000000001 dir",
		""));
	NEED(stop(&b));
	NEED(in_fork(&b, true, copied_whole) == 0);
	drop(&b);
	return 0;
}

static int chain_link(struct box *b_)
{
	static int depth;
	struct box b = *b_;
	struct engine_stats st;
	char line[256];

	depth++;
	NEED(start(&b));
	FMT(line,
		"echo %d >> log; touch f%d; rm -f f%d; rm -rf /srv2; mkdir /srv2; touch /srv2/%d; rm -rf e; mkdir e; touch e/%d",
		depth, depth, depth - 2, depth, depth);
	NEED(says(&b, line, ""));
	NEED(stop(&b));
	NEED(engine_native.seal(b.sb, &b.e) == 0 && engine_native.stats(b.sb, &st, &b.e) == 0);
	NEED(st.layers <= LAYERS_MAX_SEALED);
	*b_ = b;
	if (depth < 10)
		return in_fork(b_, false, chain_link);
	NEED(start(&b));
	NEED(says(&b, "wc -l < log; ls; ls /srv2 e", "10\ne\nf10\nf9\nlog\n/srv2:\n10\n\ne:\n10"));
	NEED(st.layers < 10);
	return 0;
}

static int a_long_chain_is_made_flat(void)
{
	struct box b = { .e = ERR_INIT };
	int r;

	NEED(make_box(&b, &(struct wish){ .uid = 0 }) == 0);
	NEED(start(&b) && says(&b, "mkdir -m 777 e", "") && stop(&b));
	if (engine_native.seal(b.sb, &b.e) < 0) {
		drop(&b);
		return SKIPPED;
	}
	r = in_fork(&b, false, chain_link);
	drop(&b);
	return r;
}

/* What the workload of a root that it owns could leave for the next boot: links where the sandbox's own mounts go. */
static int planted_links_are_refused(void)
{
	static const char *const plants[] = { "rm -rf /sys; ln -s /etc /sys",
		"rm -rf /sys; ln -s ../../../etc /sys", "rm -rf /sys; touch /sys" };

	for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
		struct box b = { .e = ERR_INIT };

		NEED(make_box(&b, &(struct wish){ .uid = 0 }) == 0 && start(&b));
		NEED(says(&b, plants[i], "") && stop(&b));
		NEED(!start(&b) && b.e.reason == reason_by_name("layer_refused"));
		NEED(strstr(b.e.message, "'/sys'") != NULL);
		drop(&b);
	}
	return 0;
}

/* The places that are mounts inside can't be replaced from there: the layer is written to from out here, as a layer that came
 * another way might be. */
static int links_in_a_layer_are_refused(void)
{
	static const char *const names[] = { "dev", "proc", "run", "tmp", "etc", "home" };
	struct stat before, after;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct box b = { .e = ERR_INIT };
		char target[128];
		int upper;

		NEED(mkdir(FMT(target, "%s/victim%zu", home, i), 0777) == 0);
		NEED(stat(target, &before) == 0);
		NEED(make_box(&b, &(struct wish){ .uid = 0 }) == 0);
		upper = layers_open(&b.sb->layers, 0, "upper");
		NEED(upper >= 0 && symlinkat(target, upper, names[i]) == 0);
		NEED(!start(&b) && b.e.reason == reason_by_name("layer_refused"));
		close_fd(upper);
		NEED(stat(target, &after) == 0 && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
		drop(&b);
	}
	return 0;
}

static int a_mount_target_is_not_followed(void)
{
	char dir[128], victim[128];
	struct box b = { .e = ERR_INIT };
	struct stat st;

	NEED(mkdir(FMT(dir, "%s/rw", home), 0755) == 0 &&
		mkdir(FMT(victim, "%s/outside", home), 0777) == 0);
	NEED(make_box(&b, &(struct wish){ .uid = 0, .rw = dir }) == 0);
	{
		_cleanup_close_ int upper = layers_open(&b.sb->layers, 0, "upper");

		NEED(upper >= 0 && symlinkat(victim, upper, "shared") == 0);
	}
	NEED(!start(&b) && b.e.reason == reason_by_name("mount_target_invalid"));
	NEED(stat(FMT(dir, "%s/outside", home), &st) == 0 && st.st_nlink == 2);
	drop(&b);
	return 0;
}

static int write_at(const char *dir, const char *name, const char *text)
{
	char path[256];
	_cleanup_close_ int fd =
		open(FMT(path, "%s/%s", dir, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : write_all(fd, text, strlen(text));
}

static int cow_forked(struct box *b_)
{
	struct box b = *b_;

	NEED(start(&b));
	NEED(says(&b, "cat file new; ls; test -e sub/x || echo gone; echo fork >> new",
		"changed\nnew\nfile\nkeep\nnew\nsub\ngone"));
	NEED(changed(&b, ENGINE_CHANGES_COW, "A new\nD old\nD sub/x\nM file\n"));
	*b_ = b;
	return 0;
}

static int a_copy_on_write_directory_stays_as_it_is(void)
{
	char dir[128], text[64] = "";
	struct box b = { .e = ERR_INIT };
	struct stat st;

	NEED(mkdir(FMT(dir, "%s/cow", home), 0755) == 0 && write_at(dir, "file", "plain\n") == 0 &&
		write_at(dir, "old", "old\n") == 0 && write_at(dir, "keep", "keep\n") == 0);
	NEED(mkdir(FMT(dir, "%s/cow/sub", home), 0755) == 0 && write_at(dir, "x", "x\n") == 0);
	FMT(dir, "%s/cow", home);
	if (make_box(&b, &(struct wish){ .uid = 1000, .cow = dir }) < 0) {
		NEED(b.e.reason == reason_by_name("layer_unsupported"));
		drop(&b);
		return SKIPPED;
	}
	NEED(start(&b));
	NEED(says(&b,
		"stat -c %U . file; echo changed > file; rm old; echo new > new; rm -r sub; mkdir sub; ls",
		"agent\nagent\nfile\nkeep\nnew\nsub"));
	NEED(read_file_at(AT_FDCWD, FMT(text, "%s/file", dir), text, sizeof text) > 0 &&
		streq(text, "plain\n"));
	NEED(stat(FMT(text, "%s/old", dir), &st) == 0 && stat(FMT(text, "%s/new", dir), &st) < 0);
	NEED(changed(&b, ENGINE_CHANGES_COW, "A new\nD old\nD sub/x\nM file\n"));
	NEED(changed(&b, 0, ""));
	NEED(stop(&b) && start(&b) && says(&b, "cat file; ls sub", "changed") && stop(&b));
	NEED(engine_native.seal(b.sb, &b.e) == 0 && in_fork(&b, false, cow_forked) == 0);
	NEED(in_fork(&b, true, cow_forked) == 0);
	drop(&b);
	return 0;
}

static int mounts_are_the_callers(void)
{
	char dir[128], path[160];
	struct box b = { .e = ERR_INIT };
	struct stat st;

	NEED(mkdir(FMT(dir, "%s/rw", home), 0755) == 0 && write_at(dir, "file", "plain\n") == 0);
	NEED(make_box(&b, &(struct wish){ .uid = 1000, .rw = dir }) == 0 && start(&b));
	NEED(says(&b, "cat /shared/file; echo b > /shared/made; stat -c %U /shared/made",
		"plain\nagent"));
	NEED(stat(FMT(path, "%s/made", dir), &st) == 0 && st.st_uid == geteuid());
	NEED(stop(&b) && start(&b) && says(&b, "cat /shared/made", "b"));
	drop(&b);
	return 0;
}

static int a_socket_is_shown(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct box b = { .e = ERR_INIT };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	FMT(a.sun_path, "%s/sock", home);
	NEED(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	NEED(make_box(&b, &(struct wish){ .uid = 1000, .socket = a.sun_path }) == 0 && start(&b));
	NEED(says(&b, "stat -c %F /run/gw/llm.sock; ls -A /run/empty", "socket"));
	drop(&b);
	return 0;
}

static int read_only_with_a_copy_on_write_directory(void)
{
	struct box b = { .e = ERR_INIT };
	char dir[128];

	NEED(mkdir(FMT(dir, "%s/cow", home), 0755) == 0 && write_at(dir, "f", "f\n") == 0);
	if (make_box(&b, &(struct wish){ .uid = 1000, .cow = dir, .read_only = true }) < 0) {
		NEED(b.e.reason == reason_by_name("layer_unsupported"));
		drop(&b);
		return SKIPPED;
	}
	NEED(start(&b) &&
		says(&b, "echo g > g; rm f; touch /x 2>/dev/null || echo refused", "refused"));
	NEED(changed(&b, ENGINE_CHANGES_COW, "A g\nD f\n") && stop(&b));
	NEED(engine_native.seal(b.sb, &b.e) == 0 && start(&b) && says(&b, "ls", "g"));
	drop(&b);
	return 0;
}

/* As on kernels before 6.6, where tmpfs has no user.* attributes. */
static int without_marks_layers_are_not_shared(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0);
	b.sb->layers.marks = geteuid() == 0 ? MARKS_TRUSTED : MARKS_NONE;
	NEED(start(&b) &&
		says(&b, "echo origin > f; mkdir d; echo deep > d/g; echo kept > keep", ""));
	NEED(stop(&b));
	if (geteuid() == 0) {
		NEED(engine_native.seal(b.sb, &b.e) == 0 && in_fork(&b, false, forked_alone) == 0);
	} else {
		NEED(engine_native.seal(b.sb, &b.e) < 0 &&
			b.e.reason == reason_by_name("layer_unsupported"));
		err_done(&b.e);
		b.e = (struct err)ERR_INIT;
		NEED(in_fork(&b, true, forked_alone) == 0);
	}
	drop(&b);
	return 0;
}

/* Ended by SIGKILL, an owner takes its guest along, and a later sweep finds nothing of it. */
static int nothing_outlives_its_owner(void)
{
	int told[2], status;
	pid_t owner, guest = -1;

	if (pipe2(told, O_CLOEXEC) < 0)
		return FAILED;
	owner = fork();
	if (owner == 0) {
		struct box b = { .e = ERR_INIT };

		if (make_box(&b, &(struct wish){ .uid = 1000 }) == 0 && start(&b) &&
			write(told[1], &b.sb->pid, sizeof b.sb->pid) == sizeof b.sb->pid)
			(void)pause();
		_exit(FAILED);
	}
	close_fd(told[1]);
	if (read(told[0], &guest, sizeof guest) != sizeof guest)
		return FAILED;
	close_fd(told[0]);
	if (kill(guest, 0) < 0 || kill(owner, SIGKILL) < 0 || waitpid(owner, &status, 0) != owner)
		return FAILED;
	for (int i = 0; i < 200; i++) {
		if (kill(guest, 0) < 0 && errno == ESRCH)
			return 0;
		(void)usleep(10000);
	}
	return FAILED;
}

static int has_own_ids(struct box *b)
{
	uid_t other = b->sb->layers.n_sealed ? b->sb->layers.sealed_ids[0] : 0;

	if (geteuid() != 0)
		return engine_native.channel_uid(b->sb) == (uid_t)-1 ? 0 : FAILED;
	return b->sb->ids.base != other && other &&
			engine_native.channel_uid(b->sb) == b->sb->ids.base + 65535 &&
			!b->sb->layers.ids_shared
		? 0
		: FAILED;
}

static int a_fork_has_its_own_ids(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0 && start(&b));
	NEED(says(&b, "echo x > f; tail -n 1 /proc/self/uid_map | tr -s ' ' | cut -d' ' -f4",
		geteuid() == 0 ? "65535" : "1"));
	NEED(stop(&b));
	if (engine_native.seal(b.sb, &b.e) < 0) {
		drop(&b);
		return SKIPPED;
	}
	NEED(!layers_can_map(b.sb) || in_fork(&b, false, has_own_ids) == 0);
	drop(&b);
	return 0;
}

static int a_pause_holds_everything(void)
{
	struct box b = { .e = ERR_INIT };
	struct engine_stats st;

	if (make_box(&b, &(struct wish){ .uid = 1000, .limited = true }) < 0) {
		NEED(b.e.reason == reason_by_name("resource_limits_unenforced"));
		drop(&b);
		return SKIPPED;
	}
	NEED(start(&b));
	NEED(says(&b,
		"(while :; do date +%N > n; done) >/dev/null 2>&1 & (while :; do sleep 0.01; done) >/dev/null 2>&1 &",
		""));
	for (int i = 0; i < 3; i++) {
		_cleanup_close_ int upper = -1;
		char one[64] = "", two[64] = "";

		NEED(engine_native.pause(b.sb, true, &b.e) == 0 &&
			engine_native.pause(b.sb, true, &b.e) == 0);
		NEED(engine_native.stats(b.sb, &st, &b.e) == 0 && st.pause != ENGINE_PAUSE_NONE);
		upper = layers_open(&b.sb->layers, 0, "upper");
		NEED(read_file_at(upper, "workspace/n", one, sizeof one) >= 0);
		(void)usleep(50000);
		NEED(read_file_at(upper, "workspace/n", two, sizeof two) >= 0 && streq(one, two));
		NEED(engine_native.pause(b.sb, false, &b.e) == 0);
		NEED(says(&b, "echo alive", "alive"));
	}
	NEED(engine_native.stats(b.sb, &st, &b.e) == 0 && st.pids >= 3 && st.memory_bytes > 0 &&
		st.has_cpu && st.pause == ENGINE_PAUSE_NONE);
	NEED(engine_native.pause(b.sb, true, &b.e) == 0 && stop(&b));
	drop(&b);
	return 0;
}

static int image_root(void)
{
	static const char script[] =
		"mkdir -p $0/etc $0/usr/bin $0/var $0/opt/a; cp $1 $0/sh; ln -s /victim $0/tmp; ln -s usr/bin $0/bin;"
		"echo img > $0/etc/passwd; echo img > $0/etc/hostname; echo lower > $0/var/f; echo 1 > $0/opt/a/x";
	char command[1024], image[128], shell[] = "sh", flag[] = "-c", tool[] = BUSYBOX;
	char *const argv[] = { shell, flag, command, image, tool, NULL };
	struct box b = { .e = ERR_INIT };
	int status;
	pid_t pid;

	FMT(command, "%s", script);
	FMT(image, "%s/image", home);
	if (access(tool, X_OK) < 0)
		return SKIPPED;
	pid = fork();
	if (pid == 0) {
		(void)execv("/bin/sh", argv);
		_exit(1);
	}
	NEED(waitpid(pid, &status, 0) == pid && status == 0);
	NEED(make_box(&b, &(struct wish){ .uid = 0, .image = image }) == 0 && start(&b));
	NEED(says(&b,
		"read a < /etc/passwd; read h < /etc/hostname; echo $a; case $h in b*) echo own;; esac",
		"img\nown"));
	NEED(says(&b,
		"echo up > /var/f; read a < /var/f; echo $a; echo n > /opt/a/y; echo t > /tmp/t",
		"up"));
	NEED(changed(&b, 0, "A opt/a/y\nM var/f\n"));
	NEED(stop(&b) && start(&b) && says(&b, "read a < /var/f; echo $a", "up"));
	drop(&b);
	return 0;
}

static int the_archive_says_what_changed(void)
{
	struct box b = { .e = ERR_INIT };
	_cleanup_buf_ struct buf out = BUF_INIT, names = BUF_INIT;
	static struct archive_reader r;
	const uint8_t *p;
	enum archive_event ev;
	size_t n;

	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0 && start(&b));
	NEED(says(&b,
		"printf hello > a; ln -s a l; mkdir -p d; truncate -s 1m d/hole; echo secret > u; chmod 0 u; mkdir -m 0 v",
		""));
	NEED(changes(&b, ENGINE_CHANGES_CONTENT, &out) == 0);
	archive_reader_init(&r);
	p = (const uint8_t *)out.data;
	n = out.len;
	while ((ev = archive_next(&r, &p, &n)) != ARCHIVE_MORE && ev != ARCHIVE_REFUSED)
		if (ev == ARCHIVE_ENTRY)
			(void)buf_printf(&names, "%s %llu %u\n", r.entry.name,
				(unsigned long long)r.entry.size, r.entry.uid);
	NEED(archive_finish(&r));
	NEED(strstr(names.data, "workspace/a 5 1000\n") &&
		strstr(names.data, "workspace/u 7 1000\n") &&
		strstr(names.data, "workspace/v/ 0 1000\n"));
	NEED(strstr(names.data, "workspace/d/hole 1048576"));
	NEED(strstr(names.data, "workspace/l 0"));
	NEED(out.len < 64 << 10);
	drop(&b);
	return 0;
}

static int ten_thousand_changes_are_quick(void)
{
	struct box b = { .e = ERR_INIT };
	_cleanup_buf_ struct buf out = BUF_INIT;
	uint64_t began, took;

	NEED(make_box(&b, &(struct wish){ .uid = 1000, .disk = 128 << 20 }) == 0 && start(&b));
	NEED(says(&b,
		"for d in $(seq 100); do mkdir d$d; cd d$d; for f in $(seq 100); do echo x > f$f; done; cd ..; done",
		""));
	began = monotonic_us();
	NEED(changes(&b, 0, &out) == 0);
	took = monotonic_us() - began;
	(void)printf("# 10,000 changed files: %llu us\n", (unsigned long long)took);
	NEED(took < 1000000); /* a loaded machine; alone it is far below 200 ms */
	drop(&b);
	return 0;
}

/* Nothing of a sandbox is left: no directory of its mounts, no process, no descriptor. */
static int nothing_is_left(void)
{
	struct box b = { .e = ERR_INIT };
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC), after;
	char path[256];

	close_fd(before);
	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0 && start(&b));
	FMT(path, "%s", b.sb->layers.path);
	NEED(says(&b, "sleep 1000 >/dev/null 2>&1 &", ""));
	drop(&b);
	NEED(access(path, F_OK) < 0);
	NEED(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	NEED(before == after);
	close_fd(after);
	return 0;
}

static int a_guest_that_is_gone_is_said(void)
{
	struct box b = { .e = ERR_INIT };
	int fd = -1;

	NEED(make_box(&b, &(struct wish){ .uid = 1000 }) == 0);
	NEED(engine_native.connect(b.sb, 1, &fd, &b.e) < 0 &&
		b.e.reason == reason_by_name("guest_lost"));
	err_done(&b.e);
	b.e = (struct err)ERR_INIT;
	NEED(start(&b) && kill(b.sb->pid, SIGKILL) == 0);
	(void)usleep(20000);
	NEED(engine_native.connect(b.sb, 2, &fd, &b.e) < 0 &&
		b.e.reason == reason_by_name("guest_lost"));
	err_done(&b.e);
	b.e = (struct err)ERR_INIT;
	NEED(stop(&b) && start(&b) && says(&b, "echo back", "back"));
	drop(&b);
	return 0;
}

/* --- as whom ------------------------------------------------------------------------------------------------------- */

static int run_as(bool root, int (*f)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		FMT(home, "/tmp/bailey-layers-XXXXXX");
		if (!root && geteuid() == 0 &&
			(setgid(NOBODY) < 0 || setuid(NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
			_exit(99);
		if (!mkdtemp(home) || chdir(home) < 0 || mkdir("runs", 0700) < 0)
			_exit(99);
		status = f();
		(void)fflush(stdout);
		_exit(status);
	}
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void run_both(int (*f)(void))
{
	int user = run_as(false, f), root = geteuid() == 0 ? run_as(true, f) : SKIPPED;

	assert_true(user == 0 || user == SKIPPED);
	assert_true(root == 0 || root == SKIPPED);
	if (user == SKIPPED && root == SKIPPED)
		skip();
}

#define TEST(f) \
	static void test_##f(void **state) \
	{ \
		(void)state; \
		run_both(f); \
	}
TEST(files_outlive_a_stop)
TEST(a_root_can_be_written_to)
TEST(the_disk_is_bounded)
TEST(read_only_keeps_nothing)
TEST(a_fork_of_a_stopped_one_shares)
TEST(a_fork_of_a_running_one_is_a_copy)
TEST(a_copy_is_whole)
TEST(a_long_chain_is_made_flat)
TEST(planted_links_are_refused)
TEST(links_in_a_layer_are_refused)
TEST(a_mount_target_is_not_followed)
TEST(a_copy_on_write_directory_stays_as_it_is)
TEST(mounts_are_the_callers)
TEST(a_socket_is_shown)
TEST(read_only_with_a_copy_on_write_directory)
TEST(without_marks_layers_are_not_shared)
TEST(nothing_outlives_its_owner)
TEST(a_fork_has_its_own_ids)
TEST(a_pause_holds_everything)
TEST(image_root)
TEST(the_archive_says_what_changed)
TEST(ten_thousand_changes_are_quick)
TEST(nothing_is_left)
TEST(a_guest_that_is_gone_is_said)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_outlive_a_stop),
		cmocka_unit_test(test_a_root_can_be_written_to),
		cmocka_unit_test(test_the_disk_is_bounded),
		cmocka_unit_test(test_read_only_keeps_nothing),
		cmocka_unit_test(test_a_fork_of_a_stopped_one_shares),
		cmocka_unit_test(test_a_fork_of_a_running_one_is_a_copy),
		cmocka_unit_test(test_a_copy_is_whole),
		cmocka_unit_test(test_a_long_chain_is_made_flat),
		cmocka_unit_test(test_planted_links_are_refused),
		cmocka_unit_test(test_links_in_a_layer_are_refused),
		cmocka_unit_test(test_a_mount_target_is_not_followed),
		cmocka_unit_test(test_a_copy_on_write_directory_stays_as_it_is),
		cmocka_unit_test(test_mounts_are_the_callers),
		cmocka_unit_test(test_a_socket_is_shown),
		cmocka_unit_test(test_read_only_with_a_copy_on_write_directory),
		cmocka_unit_test(test_without_marks_layers_are_not_shared),
		cmocka_unit_test(test_nothing_outlives_its_owner),
		cmocka_unit_test(test_a_fork_has_its_own_ids),
		cmocka_unit_test(test_a_pause_holds_everything),
		cmocka_unit_test(test_image_root),
		cmocka_unit_test(test_the_archive_says_what_changed),
		cmocka_unit_test(test_ten_thousand_changes_are_quick),
		cmocka_unit_test(test_nothing_is_left),
		cmocka_unit_test(test_a_guest_that_is_gone_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
