/* Owns `bailey image pull`: skopeo gets the image from a registry, only when asked; what it wrote is then read as
 * anybody's layout is. */
#include <arpa/inet.h>
#include <ctype.h>
#include <signal.h>
#include <string.h>

#include "base/str.h"
#include "image/import/manifest.h"
#include "image/import/tool.h"
#include "image/import/verbs.h"

enum { MAX_ARGS = 12 };

/* The part of a reference before its first '/'. */
static bool is_loopback(const char *reference)
{
	char host[64];
	size_t n = strcspn(reference, "/");
	struct in_addr address;
	char *colon;

	if (n >= sizeof host)
		return false;
	memcpy(host, reference, n);
	host[n] = '\0';
	if (str_after(host, "[::1]"))
		return host[5] == '\0' || host[5] == ':';
	colon = strchr(host, ':');
	if (colon)
		*colon = '\0';
	return streq(host, "localhost") ||
		(inet_pton(AF_INET, host, &address) == 1 && (ntohl(address.s_addr) >> 24) == 127);
}

static int check_reference(const struct arguments *a, struct err *e)
{
	const char *r = a->words[0];

	if (!isalnum((unsigned char)*r) && *r != '[')
		return err_set(e, R_BAD_VALUE, 0, "read the reference '%.128s'", r);
	for (const char *p = r; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._:/@-[]", *p))
			return err_set(e, R_BAD_VALUE, 0, "read the reference '%.128s'", r);
	if (a->insecure_registry && !is_loopback(r)) {
		(void)err_set(e, R_BAD_VALUE, 0,
			"use '--insecure-registry' with '%.128s': only for this machine's own "
			"loopback addresses",
			r);
		return err_remedy(e, "Give the registry a certificate, and leave the flag out.");
	}
	return 0;
}

static int run_skopeo(const struct store *store, const struct arguments *a, struct err *e)
{
	_cleanup_free_ char *from = xasprintf("docker://%s", a->words[0]);
	_cleanup_free_ char *path = store_work_path(store, "pull");
	_cleanup_free_ char *to = xasprintf("oci:%s:image", path);
	_cleanup_free_ char *tmp = store_work_path(store, "");
	const char *argv[MAX_ARGS] = { "skopeo", "--override-os", "linux", "--override-arch",
		manifest_machine(), "copy", "--quiet" };
	struct tool t = { .package = "skopeo",
		.argv = argv,
		.tmpdir = tmp,
		.death_signal = SIGKILL,
		.lock_fd = store->work_lock,
		.out_fd = -1 };
	struct running_tool running = { 0, -1, NULL };
	unsigned n = 7;

	if (a->insecure_registry)
		argv[n++] = "--src-tls-verify=false";
	argv[n++] = from;
	argv[n++] = to;
	if (tool_start(&t, &running, e) < 0)
		return -1;
	if (tool_finish(&running, e) < 0)
		return err_wrap(e, "pull '%.128s'", a->words[0]);
	return 0;
}

int verb_pull(const struct arguments *a, struct buf *out, struct err *e)
{
	_cleanup_store_ struct store store;
	_cleanup_source_ struct source source;
	_cleanup_image_ struct image image;
	_cleanup_free_ char *path = NULL;
	struct import how = { .name = a->name,
		.fallback = a->words[0],
		.source = "pull",
		.known_as = a->words[0],
		.replace = a->replace };

	store_init(&store);
	source_init(&source);
	image_init(&image);
	if ((a->name && image_check_name(a->name, e) < 0) || check_reference(a, e) < 0 ||
		verb_limits(a, &how.limits, e) < 0 || store_open(&store, true, e) < 0 ||
		run_skopeo(&store, a, e) < 0)
		return -1;
	path = store_work_path(&store, "pull");
	if (source_open(&source, path, e) < 0 || import_image(&store, &source, &how, &image, e) < 0)
		return -1;
	verb_say(a, &image, out);
	return 0;
}
