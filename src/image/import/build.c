/* Owns `bailey image build`: a Debian root tree made by mmdebstrap, which is read as it is written. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "image/import/digest.h"
#include "image/import/tool.h"
#include "image/import/verbs.h"

enum { MAX_PACKAGES = 16384, MAX_SOURCES = 1 << 20, MAX_FILES = 64, FIXED_ARGS = 12 };

struct build {
	const char *argv[FIXED_ARGS + MAX_FILES];
	unsigned n;
	char *owned[FIXED_ARGS + MAX_FILES];
	unsigned n_owned;
};

static void build_done(struct build *b)
{
	for (unsigned i = 0; i < b->n_owned; i++)
		free(b->owned[i]);
}
#define _cleanup_build_ _cleanup_(build_done)

/* Takes text. */
static void add(struct build *b, char *text)
{
	b->owned[b->n_owned++] = text;
	b->argv[b->n++] = text;
}

static bool only(const char *s, const char *others)
{
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p >= 0x80 ||
			(!isdigit((unsigned char)*p) && !islower((unsigned char)*p) &&
				!strchr(others, *p)))
			return false;
	return isalnum((unsigned char)*s);
}

/* Names only: apt's patterns and options are not for this. */
static int check(const struct arguments *a, struct err *e)
{
	if (!a->debian) {
		(void)err_set(e, R_USAGE, 0, "build an image: of which Debian release?");
		return err_remedy(e, "Give --debian and its name, such as 'bookworm'.");
	}
	if (!only(a->debian, "-"))
		return err_set(e, R_BAD_VALUE, 0, "read the Debian release '%.64s'", a->debian);
	if (a->packages && (strlen(a->packages) > MAX_PACKAGES || !only(a->packages, "+-.,:")))
		return err_set(e, R_BAD_VALUE, 0, "read the packages '%.128s'", a->packages);
	if (a->mirror &&
		(!isalpha((unsigned char)*a->mirror) || str_has_control(a->mirror) ||
			strpbrk(a->mirror, " []")))
		return err_set(e, R_BAD_VALUE, 0, "read the mirror '%.128s'", a->mirror);
	return 0;
}

/* Whether a file of apt's sources speaks of the release. */
static bool names_release(const char *path, const char *release)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_buf_ struct buf text = { .max = MAX_SOURCES };
	size_t n = strlen(release);

	if (fd < 0 || read_all(fd, &text) < 0)
		return false;
	for (const char *p = strstr(text.data, release); p; p = strstr(p + 1, release))
		if (p > text.data && isspace((unsigned char)p[-1]) &&
			(!p[n] || isspace((unsigned char)p[n]) || p[n] == '-'))
			return true;
	return false;
}

/* The host's own sources of this release, as apt has them. */
static void add_host_sources(struct build *b, const char *release)
{
	_cleanup_closedir_ DIR *d = opendir("/etc/apt/sources.list.d");
	struct dirent *entry;

	if (names_release("/etc/apt/sources.list", release))
		add(b, xstrdup("/etc/apt/sources.list"));
	while (d && (entry = readdir(d)) && b->n < FIXED_ARGS + MAX_FILES - 2) {
		_cleanup_free_ char *path = xasprintf("/etc/apt/sources.list.d/%s", entry->d_name);
		const char *end = strrchr(entry->d_name, '.');

		if (end && (streq(end, ".list") || streq(end, ".sources")) &&
			names_release(path, release))
			add(b, move_ptr(path));
	}
}

/* debian-bookworm, debian-bookworm-git-make; a long list is a short digest. */
static char *default_name(const struct arguments *a)
{
	char hex[IMAGE_HEX], *name;

	if (!a->packages)
		return xasprintf("debian-%s", a->debian);
	if (strlen(a->packages) + strlen(a->debian) < 60 && only(a->packages, "-.,")) {
		name = xasprintf("debian-%s-%s", a->debian, a->packages);
		for (char *p = name; *p; p++)
			if (*p == ',')
				*p = '-';
		return name;
	}
	digest_of(a->packages, strlen(a->packages), hex);
	return xasprintf("debian-%s-%.12s", a->debian, hex);
}

static int fill(struct build *b, const struct arguments *a, struct err *e)
{
	unsigned before;

	add(b, xstrdup("mmdebstrap"));
	add(b, xstrdup("--quiet"));
	add(b, xstrdup("--mode=auto"));
	add(b, xstrdup("--variant=minbase"));
	add(b, xstrdup("--format=tar"));
	if (a->packages)
		add(b, xasprintf("--include=%s", a->packages));
	add(b, xstrdup(a->debian));
	add(b, xstrdup("-"));
	before = b->n;
	if (a->mirror)
		add(b, xstrdup(a->mirror));
	else
		add_host_sources(b, a->debian);
	if (b->n == before) {
		(void)err_set(e, R_BAD_VALUE, 0,
			"find packages of Debian '%.64s': this host's apt has no source of it",
			a->debian);
		return err_remedy(
			e, "Give one with --mirror, such as http://deb.debian.org/debian.");
	}
	return 0;
}

static int run(
	struct build *b, struct store *store, struct import *how, struct image *ret, struct err *e)
{
	_cleanup_free_ char *tmp = geteuid() == 0 ? store_work_path(store, "") : NULL;
	/* SIGTERM lets it unmount and remove what it made under another uid */
	struct tool t = { .package = "mmdebstrap",
		.argv = b->argv,
		.tmpdir = tmp,
		.death_signal = SIGTERM,
		.lock_fd = store->work_lock,
		.mounts = true };
	struct running_tool running = { 0, -1, NULL };
	_cleanup_close_ int from = -1, to = -1;
	struct source tar = { .kind = SOURCE_TAR, .spool = -1 };
	_cleanup_err_ struct err why = ERR_INIT;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(e, R_NO_MEMORY, errno, "make a pipe");
	from = fds[0];
	to = t.out_fd = fds[1];
	if (tool_start(&t, &running, e) < 0)
		return -1;
	to = close_fd(to);
	tar.fd = from;
	r = import_image(store, &tar, how, ret, e);
	from = close_fd(from);
	/* an archive that ends early is what a tool that failed leaves */
	if (r < 0 && e->reason == R_ARCHIVE_REFUSED && tool_finish(&running, &why) < 0) {
		err_done(e);
		return err_move(e, &why);
	}
	return tool_finish(&running, e) < 0 ? -1 : r;
}

/* Said before minutes of work. */
static int check_free(const struct store *store, const char *name, bool replace, struct err *e)
{
	char file[IMAGE_MAX_NAME];

	image_ref_file(name, file);
	if (replace || faccessat(store->refs, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	(void)err_set(e, R_IMAGE_EXISTS, 0, "build the image '%s': an image has that name", name);
	return err_remedy(e, "Give another name with --name, or --replace to take this one.");
}

int verb_build(const struct arguments *a, struct buf *out, struct err *e)
{
	_cleanup_store_ struct store store;
	_cleanup_image_ struct image image;
	_cleanup_build_ struct build b = { .n = 0 };
	_cleanup_free_ char *fallback = NULL;
	struct import how = { .source = "build", .replace = a->replace };

	store_init(&store);
	image_init(&image);
	if (check(a, e) < 0)
		return -1;
	fallback = default_name(a);
	how.name = a->name ?: fallback;
	how.known_as = fallback;
	if (image_check_name(how.name, e) < 0 || verb_limits(a, &how.limits, e) < 0 ||
		fill(&b, a, e) < 0 || store_open(&store, true, e) < 0 ||
		check_free(&store, how.name, a->replace, e) < 0 ||
		run(&b, &store, &how, &image, e) < 0)
		return -1;
	verb_say(a, &image, out);
	return 0;
}
