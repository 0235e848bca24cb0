/* A sandbox that goes on when this program has ended: prints its id.
 *
 *     ./create [NAME [WORKSPACE]]      (the workspace is shown copy-on-write at /workspace) */
#include <bailey.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	char id[BAILEY_ID_SIZE];
	struct bailey_error e;
	struct bailey *b;

	if (argc > 1)
		o.name = argv[1];
	if (argc > 2) {
		o.workspace = argv[2];
		o.workspace_mode = BAILEY_COW;
	}
	o.ttl_ms = 60ull * 60000;
	if (bailey_open(NULL, &b, &e) < 0 || bailey_create(b, &o, id, &e) < 0) {
		(void)fprintf(
			stderr, "create: %s [%s]\n  try: %s\n", e.message, e.reason, e.remedy);
		return e.exit;
	}
	(void)printf("%s\n", id);
	bailey_close(b);
	return 0;
}
