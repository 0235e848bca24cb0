/* One command in a sandbox of its own: its output comes to a callback, its status is ours.
 *
 *     cc run.c $(pkg-config --cflags --libs bailey) -o run && ./run python3 -c 'print(6 * 7)' */
#include <bailey.h>
#include <stdio.h>

static void output(void *arg, int stream, const void *data, size_t n)
{
	(void)arg;
	(void)fwrite(data, 1, n, stream == 2 ? stderr : stdout);
	(void)fflush(stdout);
}

static int failed(const struct bailey_error *e)
{
	(void)fprintf(stderr, "run: %s [%s]\n  try: %s\n", e->message, e->reason, e->remedy);
	return 125;
}

int main(int argc, char **argv)
{
	struct bailey_create_options create = BAILEY_CREATE_OPTIONS_INIT;
	struct bailey_exec_options exec = BAILEY_EXEC_OPTIONS_INIT;
	struct bailey_result result;
	struct bailey_error e;
	struct bailey *b;
	int r;

	if (argc < 2)
		return 2;
	create.memory = 512ull << 20;
	exec.argv = (const char *const *)&argv[1];
	exec.timeout_ms = 60000;
	exec.streams.on_output = output;
	if (bailey_open(NULL, &b, &e) < 0)
		return failed(&e);
	r = bailey_run(b, &create, &exec, &result, &e);
	bailey_close(b);
	return r < 0 ? failed(&e) : result.status;
}
