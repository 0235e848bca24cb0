/* Sandboxes that live, on the native engine alone: files over stop and start, layers that are sealed, shared and copied, what
 * a fork has of its own.  Each test runs in a process of its own, as root and as a user. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "archive/archive.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/native/box_for_test.h"

/* --- tests --------------------------------------------------------------------------------------------------------- */

static int files_outlive_a_stop(void)
{
	struct box b = { .e = ERR_INIT };
	struct engine_stats st;

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(
		&b, "id -u; pwd; echo a > f; cat f; hostname | cut -c1", "1000\n/workspace\na\nb"));
	NEED(box_says(&b,
		"echo x > /tmp/t; echo h > ~/h; mkdir -p d/e; ln -s /proc d/l; df -h / >/dev/null",
		""));
	NEED(engine_native.stats(b.sb, &st, &b.e) == 0 && st.disk_size <= 16 << 20 &&
		st.disk_size > 14 << 20 && st.disk_used > 0);
	NEED(box_stop(&b) && box_start(&b));
	NEED(box_says(&b,
		"cat f ~/h; ls -A /tmp; readlink d/l; stat -c %a:%U ~ . ; stat -c %a /tmp",
		"a\nh\n/proc\n700:agent\n755:agent\n1777"));
	box_drop(&b);
	return 0;
}

static int a_root_can_be_written_to(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 0 }) == 0 && box_start(&b));
	NEED(box_says(&b, "echo 10.0.0.1 x >> /etc/hosts; mkdir /opt2; mkdir /srv", ""));
	NEED(box_says(&b,
		"touch /usr/x 2>/dev/null || echo refused; touch /dev/x 2>/dev/null || echo refused",
		"refused\nrefused"));
	NEED(box_says(&b, "rmdir /workspace", ""));
	NEED(box_stop(&b) && box_start(&b)); /* the working directory is gone */
	NEED(box_says(
		&b, "tail -n 1 /etc/hosts; ls -d /opt2 /srv; pwd", "10.0.0.1 x\n/opt2\n/srv\n/"));
	NEED(box_changed(&b, 0, "A opt2\nA srv\nD workspace\nM etc/hosts\n"));
	box_drop(&b);
	return 0;
}

static int the_disk_is_bounded(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000, .disk = 2 << 20 }) == 0 && box_start(&b));
	NEED(box_says(&b,
		"head -c 4m /dev/zero > big 2>/dev/null || echo full; test $(stat -c %s big) -le 2097152 && echo ok",
		"full\nok"));
	NEED(box_says(&b,
		"i=0; while mkdir d$i 2>/dev/null; do i=$((i+1)); test $i -lt 5000 || break; done; test $i -lt 2000 && echo bounded",
		"bounded"));
	box_drop(&b);
	return 0;
}

static int read_only_keeps_nothing(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000, .read_only = true }) == 0 && box_start(&b));
	NEED(box_says(&b, "touch /x 2>/dev/null || echo refused; echo a > f; echo b > ~/f; ls",
		"refused\nf"));
	NEED(box_stop(&b) && box_start(&b));
	NEED(box_says(&b, "ls; ls ~; cat /etc/hostname | cut -c1", "b"));
	box_drop(&b);
	return 0;
}

static int forked_alone(struct box *from)
{
	struct box b = *from;

	NEED(box_start(&b));
	NEED(box_says(&b, "cat f; hostname; cat /etc/hostname; stat -c %U f d/g; cat d/g; id -u",
		"origin\nforked\nforked\nagent\nagent\ndeep\n1000"));
	NEED(box_says(
		&b, "echo fork > f; rm d/g; rmdir d; mkdir d; echo new > n; ls d; cat f", "fork"));
	NEED(box_changed(&b, 0, "A workspace/d\nA workspace/f\nA workspace/keep\nA workspace/n\n"));
	NEED(box_stop(&b) && box_start(&b));
	NEED(box_says(&b, "cat f n; ls d; cat keep", "fork\nnew\nkept"));
	*from = b;
	return 0;
}

static int a_fork_of_a_stopped_one_shares(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b, "echo origin > f; mkdir d; echo deep > d/g; echo kept > keep", ""));
	NEED(box_stop(&b));
	if (engine_native.seal(b.sb, &b.e) < 0) {
		NEED(b.e.reason == reason_by_name("layer_unsupported"));
		box_drop(&b);
		return BOX_SKIPPED;
	}
	NEED(box_fork(&b, false, forked_alone) == 0);
	NEED(box_start(&b));
	NEED(box_says(&b, "cat f d/g; test -e n || echo none; rm f; echo origin > f",
		"origin\ndeep\nnone"));
	NEED(box_stop(&b) && engine_native.seal(b.sb, &b.e) == 0);
	NEED(box_fork(&b, false, forked_alone) == 0);
	box_drop(&b);
	return 0;
}

static int a_fork_of_a_running_one_is_a_copy(void)
{
	struct box b = { .e = ERR_INIT };

	if (box_make(&b, &(struct wish){ .uid = 1000, .limited = true }) < 0) {
		NEED(b.e.reason == reason_by_name("resource_limits_unenforced"));
		box_drop(&b);
		return BOX_SKIPPED;
	}
	NEED(box_start(&b));
	NEED(box_says(&b,
		"echo origin > f; mkdir d; echo deep > d/g; echo kept > keep; sleep 1000 >/dev/null 2>&1 &",
		""));
	NEED(box_fork(&b, true, forked_alone) == 0);
	NEED(box_says(&b, "cat f d/g; test -e n || echo none", "origin\ndeep\nnone"));
	box_drop(&b);
	return 0;
}

static int copied_whole(struct box *from)
{
	struct box b = *from;

	NEED(box_start(&b));
	NEED(box_says(&b,
		"stat -c '%n %a %h %s %F' a b fifo link s; test a -ef b && echo same; du -k s | cut -f1;"
		"cat a; readlink link; stat -c '%a %U %Y' dir a; getfattr -n user.x --only-values a 2>/dev/null || echo v",
		"a 640 2 5 regular file\nb 640 2 5 regular file\nfifo 600 1 0 fifo\nlink 777 1 9 symbolic link\n"
		"s 644 1 8388608 regular file\nsame\n4\nhello/no/where\n700 agent 1000000001\n"
		"640 agent 1000000000\nv"));
	*from = b;
	return 0;
}

static int a_copy_is_whole(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b,
		"printf hello > a; chmod 640 a; ln a b; mkfifo -m 600 fifo; ln -s /no/where link; mkdir -m 700 dir;"
		"truncate -s 8m s; printf x | dd of=s bs=1 seek=5000000 conv=notrunc 2>/dev/null;"
		"setfattr -n user.x -v v a 2>/dev/null; touch -d @1000000000 a; touch -d @1000000001 dir",
		""));
	NEED(box_stop(&b));
	NEED(box_fork(&b, true, copied_whole) == 0);
	box_drop(&b);
	return 0;
}

static int deep_inside(struct box *from)
{
	struct box b = *from;

	NEED(box_start(&b));
	NEED(box_says(&b, "for i in $(seq 500); do cd d || exit 1; done; cat end", "deep"));
	*from = b;
	return 0;
}

static int deep_trees_are_copied_up_to_a_limit(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b, "for i in $(seq 500); do mkdir d; cd d; done; echo deep > end", ""));
	NEED(box_stop(&b) && box_fork(&b, true, deep_inside) == 0 && box_start(&b));
	NEED(box_says(&b,
		"for i in $(seq 500); do cd d; done; for i in $(seq 600); do mkdir d; cd d; done",
		""));
	NEED(box_stop(&b) && box_fork(&b, true, deep_inside) == BOX_FAILED);
	box_drop(&b);
	return 0;
}

static int chain_link(struct box *from)
{
	static int depth;
	struct box b = *from;
	struct engine_stats st;
	char line[256];

	depth++;
	NEED(box_start(&b));
	FMT(line,
		"echo %d >> log; touch f%d; rm -f f%d; rm -rf /srv2; mkdir /srv2; touch /srv2/%d; rm -rf e; mkdir e; touch e/%d",
		depth, depth, depth - 2, depth, depth);
	NEED(box_says(&b, line, ""));
	NEED(box_stop(&b));
	NEED(engine_native.seal(b.sb, &b.e) == 0 && engine_native.stats(b.sb, &st, &b.e) == 0);
	NEED(st.layers <= LAYERS_MAX_SEALED);
	*from = b;
	if (depth < 10)
		return box_fork(from, false, chain_link);
	NEED(box_start(&b));
	NEED(box_says(
		&b, "wc -l < log; ls; ls /srv2 e", "10\ne\nf10\nf9\nlog\n/srv2:\n10\n\ne:\n10"));
	NEED(st.layers < 10);
	return 0;
}

static int a_long_chain_is_made_flat(void)
{
	struct box b = { .e = ERR_INIT };
	int r;

	NEED(box_make(&b, &(struct wish){ .uid = 0 }) == 0);
	NEED(box_start(&b) && box_says(&b, "mkdir -m 777 e", "") && box_stop(&b));
	if (engine_native.seal(b.sb, &b.e) < 0) {
		box_drop(&b);
		return BOX_SKIPPED;
	}
	r = box_fork(&b, false, chain_link);
	box_drop(&b);
	return r;
}

static int write_at(const char *dir, const char *name, const char *text)
{
	char path[256];
	_cleanup_close_ int fd =
		open(FMT(path, "%s/%s", dir, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : write_all(fd, text, strlen(text));
}

static int cow_forked(struct box *from)
{
	struct box b = *from;

	NEED(box_start(&b));
	NEED(box_says(&b, "cat file new; ls; test -e sub/x || echo gone; echo fork >> new",
		"changed\nnew\nfile\nkeep\nnew\nsub\ngone"));
	NEED(box_changed(&b, ENGINE_CHANGES_COW, "A new\nD old\nD sub/x\nM file\n"));
	*from = b;
	return 0;
}

static int a_copy_on_write_directory_stays_as_it_is(void)
{
	char dir[128], text[64] = "";
	struct box b = { .e = ERR_INIT };
	struct stat st;

	NEED(mkdir(FMT(dir, "%s/cow", box_home), 0755) == 0 &&
		write_at(dir, "file", "plain\n") == 0 && write_at(dir, "old", "old\n") == 0 &&
		write_at(dir, "keep", "keep\n") == 0);
	NEED(mkdir(FMT(dir, "%s/cow/sub", box_home), 0755) == 0 && write_at(dir, "x", "x\n") == 0);
	FMT(dir, "%s/cow", box_home);
	if (box_make(&b, &(struct wish){ .uid = 1000, .cow = dir }) < 0) {
		NEED(b.e.reason == reason_by_name("layer_unsupported"));
		box_drop(&b);
		return BOX_SKIPPED;
	}
	NEED(box_start(&b));
	NEED(box_says(&b,
		"stat -c %U . file; echo changed > file; rm old; echo new > new; rm -r sub; mkdir sub; ls",
		"agent\nagent\nfile\nkeep\nnew\nsub"));
	NEED(read_file_at(AT_FDCWD, FMT(text, "%s/file", dir), text, sizeof text) > 0 &&
		streq(text, "plain\n"));
	NEED(stat(FMT(text, "%s/old", dir), &st) == 0 && stat(FMT(text, "%s/new", dir), &st) < 0);
	NEED(box_changed(&b, ENGINE_CHANGES_COW, "A new\nD old\nD sub/x\nM file\n"));
	NEED(box_changed(&b, 0, ""));
	NEED(box_stop(&b) && box_start(&b) && box_says(&b, "cat file; ls sub", "changed") &&
		box_stop(&b));
	NEED(engine_native.seal(b.sb, &b.e) == 0 && box_fork(&b, false, cow_forked) == 0);
	NEED(box_fork(&b, true, cow_forked) == 0);
	box_drop(&b);
	return 0;
}

static int mounts_are_the_callers(void)
{
	char dir[128], path[160];
	struct box b = { .e = ERR_INIT };
	struct stat st;

	NEED(mkdir(FMT(dir, "%s/rw", box_home), 0755) == 0 &&
		write_at(dir, "file", "plain\n") == 0);
	NEED(box_make(&b, &(struct wish){ .uid = 1000, .rw = dir }) == 0 && box_start(&b));
	NEED(box_says(&b, "cat /shared/file; echo b > /shared/made; stat -c %U /shared/made",
		"plain\nagent"));
	NEED(stat(FMT(path, "%s/made", dir), &st) == 0 && st.st_uid == geteuid());
	NEED(box_stop(&b) && box_start(&b) && box_says(&b, "cat /shared/made", "b"));
	box_drop(&b);
	return 0;
}

static int a_socket_is_shown(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct box b = { .e = ERR_INIT };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	FMT(a.sun_path, "%s/sock", box_home);
	NEED(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	NEED(box_make(&b, &(struct wish){ .uid = 1000, .socket = a.sun_path }) == 0 &&
		box_start(&b));
	NEED(box_says(&b, "stat -c %F /run/gw/llm.sock; ls -A /run/empty", "socket"));
	box_drop(&b);
	return 0;
}

static int only_the_object_that_was_checked_is_mounted(void)
{
	struct box b = { .e = ERR_INIT };
	char dir[128];
	struct stat st;

	NEED(mkdir(FMT(dir, "%s/checked", box_home), 0755) == 0 && stat(dir, &st) == 0);
	NEED(box_make(&b, &(struct wish){ .uid = 1000, .rw = dir, .object = st.st_ino }) == 0);
	NEED(box_start(&b) && box_says(&b, "ls -d /shared", "/shared"));
	box_drop(&b);
	b = (struct box){ .e = ERR_INIT };
	NEED(box_make(&b, &(struct wish){ .uid = 1000, .rw = dir, .object = st.st_ino + 1 }) < 0);
	NEED(b.e.reason == reason_by_name("mount_source_changed"));
	box_drop(&b);
	return 0;
}

static int open_files_are_limited(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000, .files = 100 }) == 0 && box_start(&b));
	NEED(box_says(&b, "ulimit -n; ulimit -Hn", "100\n100"));
	box_drop(&b);
	return 0;
}

static int read_only_with_a_copy_on_write_directory(void)
{
	struct box b = { .e = ERR_INIT };
	char dir[128];

	NEED(mkdir(FMT(dir, "%s/cow", box_home), 0755) == 0 && write_at(dir, "f", "f\n") == 0);
	if (box_make(&b, &(struct wish){ .uid = 1000, .cow = dir, .read_only = true }) < 0) {
		NEED(b.e.reason == reason_by_name("layer_unsupported"));
		box_drop(&b);
		return BOX_SKIPPED;
	}
	NEED(box_start(&b) &&
		box_says(&b, "echo g > g; rm f; touch /x 2>/dev/null || echo refused", "refused"));
	NEED(box_changed(&b, ENGINE_CHANGES_COW, "A g\nD f\n") && box_stop(&b));
	NEED(engine_native.seal(b.sb, &b.e) == 0 && box_start(&b) && box_says(&b, "ls", "g"));
	box_drop(&b);
	return 0;
}

/* As on kernels before 6.6, where tmpfs has no user.* attributes. */
static int without_marks_layers_are_not_shared(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0);
	b.sb->layers.marks = geteuid() == 0 ? MARKS_TRUSTED : MARKS_NONE;
	NEED(box_start(&b) &&
		box_says(&b, "echo origin > f; mkdir d; echo deep > d/g; echo kept > keep", ""));
	NEED(box_stop(&b));
	if (geteuid() == 0) {
		NEED(engine_native.seal(b.sb, &b.e) == 0 && box_fork(&b, false, forked_alone) == 0);
	} else {
		NEED(engine_native.seal(b.sb, &b.e) < 0 &&
			b.e.reason == reason_by_name("layer_unsupported"));
		err_done(&b.e);
		b.e = (struct err)ERR_INIT;
		NEED(box_fork(&b, true, forked_alone) == 0);
	}
	box_drop(&b);
	return 0;
}

/* Ended by SIGKILL, an owner takes its guest along, and a later sweep finds nothing of it. */
static int nothing_outlives_its_owner(void)
{
	int told[2], status;
	pid_t owner, guest = -1;

	if (pipe2(told, O_CLOEXEC) < 0)
		return BOX_FAILED;
	owner = fork();
	if (owner == 0) {
		struct box b = { .e = ERR_INIT };

		if (box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b) &&
			write(told[1], &b.sb->pid, sizeof b.sb->pid) == sizeof b.sb->pid)
			(void)pause();
		_exit(BOX_FAILED);
	}
	close_fd(told[1]);
	if (read(told[0], &guest, sizeof guest) != sizeof guest)
		return BOX_FAILED;
	close_fd(told[0]);
	if (kill(guest, 0) < 0 || kill(owner, SIGKILL) < 0 || waitpid(owner, &status, 0) != owner)
		return BOX_FAILED;
	for (int i = 0; i < 1000; i++) {
		if (kill(guest, 0) < 0 && errno == ESRCH)
			return 0;
		(void)usleep(10000);
	}
	return BOX_FAILED;
}

static int has_own_ids(struct box *b)
{
	uid_t other = b->sb->layers.n_sealed ? b->sb->layers.ids[0] : 0;

	if (geteuid() != 0)
		return engine_native.channel_uid(b->sb) == (uid_t)-1 ? 0 : BOX_FAILED;
	return b->sb->ids.base != other && other &&
			engine_native.channel_uid(b->sb) == b->sb->ids.base + 65535 &&
			!b->sb->layers.ids_shared
		? 0
		: BOX_FAILED;
}

static int a_fork_has_its_own_ids(void)
{
	struct box b = { .e = ERR_INIT };

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b, "echo x > f; tail -n 1 /proc/self/uid_map | tr -s ' ' | cut -d' ' -f4",
		geteuid() == 0 ? "65535" : "1"));
	NEED(box_stop(&b));
	if (engine_native.seal(b.sb, &b.e) < 0) {
		box_drop(&b);
		return BOX_SKIPPED;
	}
	NEED(!layers_can_map(b.sb) || box_fork(&b, false, has_own_ids) == 0);
	box_drop(&b);
	return 0;
}

/* freezer: as the host has it; else as on v1 without a freezer hierarchy. */
static int pause_and_go_on(bool freezer)
{
	struct box b = { .e = ERR_INIT };
	struct engine_stats st;

	if (box_make(&b, &(struct wish){ .uid = 1000, .limited = true }) < 0) {
		NEED(b.e.reason == reason_by_name("resource_limits_unenforced"));
		box_drop(&b);
		return BOX_SKIPPED;
	}
	if (!freezer && b.engine->tree.kind == CGROUP_V2) {
		box_drop(&b);
		return BOX_SKIPPED;
	}
	b.engine->tree.n -= !freezer && b.engine->tree.has_freezer;
	b.engine->tree.has_freezer = freezer && b.engine->tree.has_freezer;
	NEED(box_start(&b));
	NEED(box_says(&b,
		"(while :; do date +%N > n; done) >/dev/null 2>&1 & (while :; do sleep 0.01; done) >/dev/null 2>&1 &"
		"while ! test -s n; do sleep 0.01; done",
		""));
	for (int i = 0; i < 3; i++) {
		_cleanup_close_ int upper = -1;
		char one[64] = "", two[64] = "";

		NEED(engine_native.pause(b.sb, true, &b.e) == 0 &&
			engine_native.pause(b.sb, true, &b.e) == 0);
		NEED(engine_native.stats(b.sb, &st, &b.e) == 0 && st.pause != ENGINE_PAUSE_NONE);
		NEED(freezer || st.pause == ENGINE_PAUSE_SIGNALS);
		upper = layers_open(&b.sb->layers, 0, "upper");
		NEED(read_file_at(upper, "workspace/n", one, sizeof one) >= 0);
		(void)usleep(50000);
		NEED(read_file_at(upper, "workspace/n", two, sizeof two) >= 0 && streq(one, two));
		NEED(engine_native.pause(b.sb, false, &b.e) == 0);
		NEED(box_says(&b, "echo alive", "alive"));
	}
	NEED(engine_native.stats(b.sb, &st, &b.e) == 0 && st.pids >= 3 && st.memory_bytes > 0 &&
		st.has_cpu && st.pause == ENGINE_PAUSE_NONE);
	NEED(engine_native.pause(b.sb, true, &b.e) == 0 && box_stop(&b));
	box_drop(&b);
	return 0;
}

static int a_pause_holds_everything(void)
{
	return pause_and_go_on(true);
}

static int a_pause_by_signals_holds_everything(void)
{
	return pause_and_go_on(false);
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
	FMT(image, "%s/image", box_home);
	if (access(tool, X_OK) < 0)
		return BOX_SKIPPED;
	pid = fork();
	if (pid == 0) {
		(void)execv("/bin/sh", argv);
		_exit(1);
	}
	NEED(waitpid(pid, &status, 0) == pid && status == 0);
	NEED(box_make(&b, &(struct wish){ .uid = 0, .image = image }) == 0 && box_start(&b));
	NEED(box_says(&b,
		"read a < /etc/passwd; read h < /etc/hostname; echo $a; case $h in b*) echo mine;; esac",
		"img\nmine"));
	NEED(box_says(&b,
		"echo up > /var/f; read a < /var/f; echo $a; echo n > /opt/a/y; echo t > /tmp/t",
		"up"));
	NEED(box_changed(&b, 0, "A opt/a/y\nM var/f\n"));
	NEED(box_stop(&b) && box_start(&b) && box_says(&b, "read a < /var/f; echo $a", "up"));
	box_drop(&b);
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

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	NEED(box_says(&b,
		"printf hello > a; ln -s a l; mkdir -p d; truncate -s 1m d/hole; echo secret > u; chmod 0 u; mkdir -m 0 v",
		""));
	NEED(box_changes(&b, ENGINE_CHANGES_CONTENT, &out) == 0);
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
	box_drop(&b);
	return 0;
}

static int ten_thousand_changes_are_quick(void)
{
	struct box b = { .e = ERR_INIT };
	_cleanup_buf_ struct buf out = BUF_INIT;
	uint64_t began, took;

	NEED(box_make(&b, &(struct wish){ .uid = 1000, .disk = 128 << 20 }) == 0 && box_start(&b));
	NEED(box_says(&b,
		"for d in $(seq 100); do mkdir d$d; cd d$d; for f in $(seq 100); do echo x > f$f; done; cd ..; done",
		""));
	began = monotonic_us();
	NEED(box_changes(&b, 0, &out) == 0);
	took = monotonic_us() - began;
	(void)printf("# 10,000 changed files: %llu us\n", (unsigned long long)took);
	NEED(took < 1000000); /* a loaded machine; alone it is far below 200 ms */
	box_drop(&b);
	return 0;
}

/* Nothing of a sandbox is left: no mount, no process, no descriptor. */
static int nothing_is_left(void)
{
	struct box b = { .e = ERR_INIT };
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC), after;
	char path[256];

	close_fd(before);
	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0 && box_start(&b));
	FMT(path, "%s", b.sb->layers.path);
	NEED(box_says(&b, "sleep 1000 >/dev/null 2>&1 &", ""));
	/* where its mounts lie can't be removed, until they are gone */
	NEED(rmdir(path) < 0 && errno == EBUSY);
	box_drop(&b);
	NEED(rmdir(path) == 0);
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

	NEED(box_make(&b, &(struct wish){ .uid = 1000 }) == 0);
	NEED(engine_native.connect(b.sb, 1, &fd, &b.e) < 0 &&
		b.e.reason == reason_by_name("guest_lost"));
	err_done(&b.e);
	b.e = (struct err)ERR_INIT;
	NEED(box_start(&b) && kill(b.sb->pid, SIGKILL) == 0);
	(void)usleep(20000);
	NEED(engine_native.connect(b.sb, 2, &fd, &b.e) < 0 &&
		b.e.reason == reason_by_name("guest_lost"));
	err_done(&b.e);
	b.e = (struct err)ERR_INIT;
	NEED(box_stop(&b) && box_start(&b) && box_says(&b, "echo back", "back"));
	box_drop(&b);
	return 0;
}

TEST_LAYERS(files_outlive_a_stop)
TEST_LAYERS(a_root_can_be_written_to)
TEST_LAYERS(the_disk_is_bounded)
TEST(read_only_keeps_nothing)
TEST_LAYERS(a_fork_of_a_stopped_one_shares)
TEST_LAYERS(a_fork_of_a_running_one_is_a_copy)
TEST_LAYERS(a_copy_is_whole)
TEST(deep_trees_are_copied_up_to_a_limit)
TEST_LAYERS(a_long_chain_is_made_flat)
TEST_LAYERS(a_copy_on_write_directory_stays_as_it_is)
TEST(mounts_are_the_callers)
TEST(a_socket_is_shown)
TEST(only_the_object_that_was_checked_is_mounted)
TEST(open_files_are_limited)
TEST_LAYERS(read_only_with_a_copy_on_write_directory)
TEST(without_marks_layers_are_not_shared)
TEST_LAYERS(nothing_outlives_its_owner)
TEST_LAYERS(a_fork_has_its_own_ids)
TEST(a_pause_holds_everything)
TEST(a_pause_by_signals_holds_everything)
TEST_LAYERS(image_root)
TEST_LAYERS(the_archive_says_what_changed)
TEST_LAYERS(ten_thousand_changes_are_quick)
TEST_LAYERS(nothing_is_left)
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
		cmocka_unit_test(test_deep_trees_are_copied_up_to_a_limit),
		cmocka_unit_test(test_a_long_chain_is_made_flat),
		cmocka_unit_test(test_a_copy_on_write_directory_stays_as_it_is),
		cmocka_unit_test(test_mounts_are_the_callers),
		cmocka_unit_test(test_a_socket_is_shown),
		cmocka_unit_test(test_only_the_object_that_was_checked_is_mounted),
		cmocka_unit_test(test_open_files_are_limited),
		cmocka_unit_test(test_read_only_with_a_copy_on_write_directory),
		cmocka_unit_test(test_without_marks_layers_are_not_shared),
		cmocka_unit_test(test_nothing_outlives_its_owner),
		cmocka_unit_test(test_a_fork_has_its_own_ids),
		cmocka_unit_test(test_a_pause_holds_everything),
		cmocka_unit_test(test_a_pause_by_signals_holds_everything),
		cmocka_unit_test(test_image_root),
		cmocka_unit_test(test_the_archive_says_what_changed),
		cmocka_unit_test(test_ten_thousand_changes_are_quick),
		cmocka_unit_test(test_nothing_is_left),
		cmocka_unit_test(test_a_guest_that_is_gone_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
