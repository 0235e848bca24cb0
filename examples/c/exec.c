/* Commands in a sandbox that lives: streams to descriptors, input, a detached command that is attached to later, ps, kill.
 *
 *     ./exec SANDBOX */
#include <bailey.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bailey_error e;

static int must(int r)
{
	if (r >= 0)
		return r;
	(void)fprintf(stderr, "exec: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
	exit(1);
}

/* Output straight to a descriptor of ours: nothing passes through this program's memory twice. */
static void by_descriptors(struct bailey_sandbox *s)
{
	static const char *const argv[] = { "sh", "-c", "echo to a descriptor; exit 3", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_result r;

	o.argv = argv;
	o.streams.out = 1;
	o.streams.err = 2;
	must(bailey_exec_run(s, &o, &r, &e));
	(void)printf("status %d\n", r.status);
}

static void shout(void *arg, int stream, const void *data, size_t n)
{
	(void)arg;
	(void)stream;
	(void)printf("it said: %.*s", (int)n, (const char *)data);
}

/* Input from memory, output to a callback. */
static void with_input(struct bailey_sandbox *s)
{
	static const char *const argv[] = { "tr", "a-z", "A-Z", NULL };
	static const char text[] = "quiet words\n";
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_command *c;
	size_t done = 0;

	o.argv = argv;
	o.flags = BAILEY_STDIN;
	o.streams.on_output = shout;
	must(bailey_exec(s, &o, &c, &e));
	while (done < strlen(text)) {
		ssize_t n = bailey_command_write(c, text + done, strlen(text) - done, &e);

		must((int)n);
		done += (size_t)n;
		if (!n)
			must(bailey_dispatch(s, -1, &e));
	}
	must(bailey_command_close_input(c, &e));
	must(bailey_command_wait(c, -1, NULL, &e));
	bailey_command_free(c);
}

static int print_command(void *arg, const struct bailey_command_info *info)
{
	(void)arg;
	(void)printf("command %u: %s, %s\n", info->id, info->argc ? info->argv[0] : "?",
		info->how == BAILEY_RUNNING ? "runs" : "ended");
	return 0;
}

/* Started now, looked at later, by this program or any other. */
static void detached(struct bailey_sandbox *s)
{
	static const char *const argv[] = { "sh", "-c", "echo early; sleep 1000", NULL };
	struct bailey_exec_options o = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_streams streams = BAILEY_STREAMS_INIT;
	struct bailey_command *c, *again;
	struct bailey_result r;
	uint64_t left;
	uint32_t id;

	o.argv = argv;
	o.flags = BAILEY_DETACHED;
	must(bailey_exec(s, &o, &c, &e));
	id = bailey_command_id(c);
	bailey_command_free(c);
	must(bailey_ps(s, print_command, NULL, &e));
	streams.on_output = shout;
	must(bailey_attach(s, id, 0, &streams, &again, &e));
	if (must(bailey_command_wait(again, 300, &r, &e)) == 1)
		(void)printf("it goes on\n");
	must(bailey_kill(s, id, SIGKILL, 1, &left, &e));
	must(bailey_command_wait(again, -1, &r, &e));
	(void)printf("signal %d, %llu left\n", r.signal, (unsigned long long)left);
	bailey_command_free(again);
	must(bailey_wait(s, id, 0, &r, &e));
}

int main(int argc, char **argv)
{
	struct bailey_sandbox *s;
	struct bailey *b;

	if (argc != 2)
		return 2;
	(void)setvbuf(stdout, NULL, _IONBF, 0);
	must(bailey_open(NULL, &b, &e));
	must(bailey_connect(b, argv[1], &s, &e));
	by_descriptors(s);
	with_input(s);
	detached(s);
	bailey_disconnect(s);
	bailey_close(b);
	return 0;
}
