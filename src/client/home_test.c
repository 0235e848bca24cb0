#include <sys/inotify.h>

#include "base/clock.h"
#include "base/proc_for_test.h"
#include "client/engine_test.h"

static void dead_record(const char *home, const char *id, const char *more)
{
	char path[128], text[512];

	test_dir(home, FMT(path, "sandbox/runs/%s", id));
	test_file(home, FMT(path, "sandbox/runs/%s/meta", id),
		FMT(text, "id %s\nowner_pid %d\nowner_start 1\n%s", id, dead_pid(), more));
}

struct listed {
	char text[2048];
	size_t n;
	char image[64];
};

static int see_sandbox(void *arg, const struct bailey_info *info)
{
	struct listed *l = arg;

	l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s %s %s %d\n", info->id,
		info->name, info->state, info->live);
	if (bailey_info_get(info, "image"))
		str_format(l->image, sizeof l->image, "%s", bailey_info_get(info, "image"));
	return 0;
}

static void script_hello(struct peer *p)
{
	peer_hello(p);
	while (peer_read(p))
		;
}

static void who_is_there(void **state)
{
	struct listed l = { .n = 0 };
	struct bailey_error e;
	struct test t;

	(void)state;
	test_start(&t, script_hello);
	dead_record(t.home, "b00000000000000a1", "state running\nname old\ncreated_ms 4\n");
	dead_record(t.home, "b00000000000000a2", "state stopped\ncreated_ms 6\n");
	test_dir(t.home, "sandbox/runs/b00000000000000a3"); /* no record at all */
	test_dir(t.home, "sandbox/runs/not-an-id");
	assert_int_equal(bailey_list_sandboxes(t.b, see_sandbox, &l, &e), 0);
	assert_string_equal(l.text,
		"b00000000000000a3  lost 0\n"
		"b00000000000000a1 old lost 0\n" TEST_ID " box running 1\n"
		"b00000000000000a2  lost 0\n");
	assert_string_equal(l.image, "a\nb\\c");
	test_stop(&t);
}

static void script_mute(struct peer *p)
{
	while (peer_read(p))
		;
}

/* An engine that hangs must not make others hang. */
static void a_silent_engine(void **state)
{
	const uint64_t before = boottime_ms();
	struct listed l = { .n = 0 };
	struct bailey_error e;
	struct test t;

	(void)state;
	test_start(&t, script_mute);
	assert_int_equal(bailey_list_sandboxes(t.b, see_sandbox, &l, &e), 0);
	assert_string_equal(l.text, TEST_ID " box lost 0\n");
	assert_true(boottime_ms() - before < 4000);
	/* it lives: nothing of it is removed */
	l.n = 0;
	assert_int_equal(bailey_prune(t.b, 1, NULL, NULL, &e), 0);
	assert_int_equal(bailey_record(t.b, TEST_ID, see_sandbox, &l, &e), 0);
	test_stop(&t);
}

static void names_and_prefixes(void **state)
{
	char id[BAILEY_ID_SIZE];
	struct bailey_error e;
	struct test t;

	(void)state;
	test_start(&t, script_hello);
	dead_record(t.home, "b0123000000000000", "state running\n");
	dead_record(t.home, "b999900000000000f", "state running\nname beef\n");
	test_file(t.home, "sandbox/names/beef", "b999900000000000f\n");
	test_file(t.home, "sandbox/names/stale", "bffffffffffffffff\n");
	test_file(t.home, "sandbox/names/odd", "../../etc\n");
	assert_int_equal(bailey_find(t.b, "box", id, &e), 0);
	assert_string_equal(id, TEST_ID);
	assert_int_equal(bailey_find(t.b, TEST_ID, id, &e), 0);
	assert_string_equal(id, TEST_ID);
	assert_int_equal(bailey_find(t.b, "b01234", id, &e), 0);
	assert_string_equal(id, TEST_ID);
	/* a name may look like an id */
	assert_int_equal(bailey_find(t.b, "beef", id, &e), 0);
	assert_string_equal(id, "b999900000000000f");
	assert_int_equal(bailey_find(t.b, "b012", id, &e), -1);
	assert_string_equal(e.reason, "bad_value");
	static const char *const none[] = { "b99", "nobody", "stale", "odd", "", "..", "../box",
		"names/box", "Box", "b0123456789abcdef0123456789abcdef", "bffff" };
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		assert_int_equal(bailey_find(t.b, none[i], id, &e), -1);
		assert_string_equal(e.reason, "sandbox_not_found");
		assert_int_equal(bailey_connect(t.b, none[i], &t.s, &e), -1);
		assert_string_equal(e.reason, "sandbox_not_found");
	}
	assert_int_equal(bailey_connect(t.b, "beef", &t.s, &e), -1);
	assert_string_equal(e.reason, "sandbox_lost");
	assert_int_equal(bailey_connect(t.b, "box", &t.s, &e), 0);
	test_stop(&t);
}

/* Nothing below the home is followed out of it. */
static void links_are_not_followed(void **state)
{
	char outside[] = "/tmp/bailey-outside-XXXXXX", path[256], id[BAILEY_ID_SIZE];
	struct bailey_error e;
	struct test t;

	(void)state;
	test_start(&t, script_hello);
	assert_non_null(mkdtemp(outside));
	dead_record(outside, "b00000000000000b1", "state running\n");
	FMT(path, "%s/sandbox/runs/b00000000000000b1", t.home);
	FMT(id, "%s", "b00000000000000b1");
	{
		char target[256];

		assert_int_equal(
			symlink(FMT(target, "%s/sandbox/runs/b00000000000000b1", outside), path),
			0);
		assert_int_equal(bailey_find(t.b, id, id, &e), -1);
		assert_string_equal(e.reason, "sandbox_not_found");
		assert_int_equal(bailey_remove_sandbox(t.b, "b00000000000000b1", 0, 1, &e), -1);
		assert_int_equal(
			access(FMT(target, "%s/sandbox/runs/b00000000000000b1/meta", outside),
				F_OK),
			0);
	}
	assert_int_equal(bailey_connect(t.b, "box", &t.s, &e), 0);
	test_stop(&t);
	str_format(t.home, sizeof t.home, "%s", outside);
	test_remove_home(&t);
}

static void what_is_left_of_the_dead(void **state)
{
	struct listed l = { .n = 0 };
	char path[256];
	struct bailey_error e;
	struct test t;

	(void)state;
	test_start(&t, script_hello);
	dead_record(t.home, "b00000000000000a1", "state running\nname old\n");
	dead_record(t.home, "b00000000000000a2", "state running\n");
	test_file(t.home, "sandbox/names/old", "b00000000000000a1\n");
	assert_int_equal(bailey_remove_sandbox(t.b, "old", 0, 0, &e), 0);
	assert_int_equal(access(FMT(path, "%s/sandbox/names/old", t.home), F_OK), -1);
	assert_int_equal(access(FMT(path, "%s/sandbox/runs/b00000000000000a1", t.home), F_OK), -1);
	assert_int_equal(bailey_prune(t.b, 0, NULL, NULL, &e), 0);
	assert_int_equal(access(FMT(path, "%s/sandbox/runs/b00000000000000a2", t.home), F_OK), -1);
	assert_int_equal(bailey_record(t.b, "box", see_sandbox, &l, &e), 0);
	assert_string_equal(l.text, TEST_ID " box running 1\n");
	/* the prune said HELLO to it and hung up: the engine's script is over */
	test_stop(&t);
}

/* As seen from another pid namespace, which shares the home: the owner's number is nobody's, or somebody else's. */
static void an_owner_that_is_not_seen(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char path[128];
	struct bailey_error e;
	struct test t;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	test_start(&t, script_hello);
	dead_record(t.home, "b00000000000000a1", "state running\n");
	FMT(path, "%s/sandbox/runs/b00000000000000a1", t.home);
	FMT(a.sun_path, "%s/sock", path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(bailey_prune(t.b, 0, NULL, NULL, &e), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(bailey_remove_sandbox(t.b, "b00000000000000a1", 0, 0, &e), -1);
	assert_string_equal(e.reason, "engine_lost");
	assert_int_equal(access(path, F_OK), 0);
	(void)close(fd);
	assert_int_equal(bailey_prune(t.b, 0, NULL, NULL, &e), 0);
	assert_int_equal(access(path, F_OK), -1);
	test_stop(&t);
}

/* --- events --- */

struct events {
	char text[4096];
	size_t n;
};

static int see_event(void *arg, const struct bailey_event *event)
{
	struct events *s = arg;

	s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%llu|%s|%s|%s\n",
		(unsigned long long)event->time_ms, event->id, event->kind, event->rest);
	return 0;
}

static void append(const char *home, const char *text)
{
	char path[128];
	_cleanup_close_ int fd = open(FMT(path, "%s/sandbox/events", home),
		O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

static void events_are_followed(void **state)
{
	struct events s = { .n = 0 };
	char from[128], to[128];
	struct bailey_watch *all, *new;
	struct bailey_error e;
	struct test t;

	(void)state;
	test_start(&t, script_hello);
	append(t.home, "5 " TEST_ID " created image=host name=x\nrubbish\n6 " TEST_ID " started\n");
	assert_int_equal(bailey_watch(t.b, 1, &all, &e), 0);
	assert_int_equal(bailey_watch(t.b, 0, &new, &e), 0);
	assert_int_equal(bailey_watch_next(all, 0, see_event, &s, &e), 2);
	assert_string_equal(
		s.text, "5|" TEST_ID "|created|image=host name=x\n6|" TEST_ID "|started|\n");
	s.n = 0;
	assert_int_equal(bailey_watch_next(new, 50, see_event, &s, &e), 0);
	append(t.home, "7 " TEST_ID " sto");
	append(t.home, "pped\n");
	/* rotated meanwhile: the rest of the old file first */
	FMT(from, "%s/sandbox/events", t.home);
	FMT(to, "%s/sandbox/events.1", t.home);
	assert_int_equal(rename(from, to), 0);
	append(t.home, "8 " TEST_ID " removed\n");
	assert_int_equal(bailey_watch_next(new, 2000, see_event, &s, &e), 2);
	assert_string_equal(s.text, "7|" TEST_ID "|stopped|\n8|" TEST_ID "|removed|\n");
	bailey_watch_free(all);
	bailey_watch_free(new);
	assert_int_equal(bailey_connect(t.b, "box", &t.s, &e), 0);
	test_stop(&t);
}

/* --- options --- */

static void options_grow(void **state)
{
	struct {
		struct bailey_options o;
		uint64_t more;
	} later = { .o = BAILEY_OPTIONS_INIT };
	struct bailey_options o = BAILEY_OPTIONS_INIT;
	struct bailey_error e;
	struct bailey *b;

	(void)state;
	later.o.size = sizeof later;
	later.o.home = "/nowhere";
	assert_int_equal(bailey_open(&later.o, &b, &e), 0);
	assert_string_equal(bailey_home(b), "/nowhere");
	bailey_close(b);
	later.more = 1;
	assert_int_equal(bailey_open(&later.o, &b, &e), -1);
	assert_string_equal(e.reason, "bad_value");
	o.size = 0;
	assert_int_equal(bailey_open(&o, &b, &e), -1);
	o.size = offsetof(struct bailey_options, libexec);
	o.home = "/older";
	o.libexec = "not read";
	assert_int_equal(bailey_open(&o, &b, &e), 0);
	bailey_close(b);
	o.size = sizeof o;
	assert_int_equal(bailey_open(&o, &b, &e), -1);
	assert_string_equal(bailey_version(), BAILEY_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_there),
		cmocka_unit_test(a_silent_engine),
		cmocka_unit_test(names_and_prefixes),
		cmocka_unit_test(links_are_not_followed),
		cmocka_unit_test(what_is_left_of_the_dead),
		cmocka_unit_test(an_owner_that_is_not_seen),
		cmocka_unit_test(events_are_followed),
		cmocka_unit_test(options_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
