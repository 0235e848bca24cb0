/* Feeds any bytes as the files of an image: index, manifest and configuration, or what `docker save` writes, and the image's
 * passwd.  Digests can't be guessed, so a file may name a later one: '@3' stands for the digest of part 3, '#3' for its size.
 * Parts have a byte 0xff between them; the first byte chooses the form. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "image/import/config.h"
#include "image/import/describe.h"
#include "image/import/digest.h"
#include "image/import/parse.h"
#include "image/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 8, PASSWD = 6, GROUP = 7, DOCKER = 1, CHOOSE = 2 };

struct part {
	struct buf text;
	char hex[IMAGE_HEX];
};

static int top = -1, spool = -1, root = -1;

static void must(bool ok)
{
	if (!ok)
		abort();
}

static char path[] = "/dev/shm/bailey-json-fuzz-XXXXXX";

static void remove_dirs(void)
{
	_cleanup_err_ struct err ignored = ERR_INIT;

	(void)remove_at(AT_FDCWD, path, &ignored);
}

static void open_dirs(void)
{
	must(mkdtemp(path) && (top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
	must(mkdirat(top, "spool", 0700) == 0 && mkdirat(top, "root", 0700) == 0 &&
		mkdirat(top, "root/etc", 0700) == 0);
	spool = openat(top, "spool", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(spool >= 0 && root >= 0 && atexit(remove_dirs) == 0);
}

static void put_file(int at, const char *name, const struct buf *text)
{
	const int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	must(fd >= 0 && write(fd, text->data ?: "", text->len) == (ssize_t)text->len);
	(void)close(fd);
}

/* From the last to the first, so that each may name those behind it. */
static void fill_part(struct part *parts, unsigned n, const uint8_t *p, size_t size)
{
	struct part *own = &parts[n];

	for (size_t i = 0; i < size; i++) {
		const unsigned other = i + 1 < size ? (unsigned)p[i + 1] - '0' : PARTS;

		if (p[i] == '@' && other > n && other < PARTS) {
			buf_puts(&own->text, parts[other].hex);
			i++;
		} else if (p[i] == '#' && other > n && other < PARTS) {
			buf_printf(&own->text, "%zu", parts[other].text.len);
			i++;
		} else {
			buf_add(&own->text, &p[i], 1);
		}
	}
	digest_of(own->text.data ?: "", own->text.len, own->hex);
}

static void split(struct part *parts, const uint8_t *data, size_t size)
{
	const uint8_t *begin[PARTS] = { NULL };
	size_t len[PARTS] = { 0 };

	for (unsigned n = 0; n < PARTS; n++) {
		const uint8_t *end = size ? memchr(data, 0xff, size) : NULL;

		begin[n] = data;
		len[n] = end ? (size_t)(end - data) : size;
		data += len[n] + (end != NULL);
		size -= len[n] + (end != NULL);
	}
	for (unsigned n = PARTS; n-- > 0;)
		fill_part(parts, n, begin[n], len[n]);
}

static void add_file(struct source *s, char *name, unsigned number)
{
	s->files[s->n_files++] = (struct spooled){ name, NULL, number };
}

static void fill_source(struct source *s, const struct part *parts, bool docker)
{
	char name[16];

	s->kind = docker ? SOURCE_DOCKER : SOURCE_LAYOUT;
	s->spool = spool;
	s->files = xcalloc(2 * PARTS + 1, sizeof *s->files);
	add_file(s, xstrdup(docker ? "manifest.json" : "index.json"), 0);
	for (unsigned n = 0; n < PASSWD; n++) {
		put_file(spool, FMT(name, "in.%u", n), &parts[n].text);
		add_file(s, xasprintf("blobs/sha256/%s", parts[n].hex), n);
		add_file(s, xasprintf("%s.json", parts[n].hex), n);
	}
	put_file(root, "etc/passwd", &parts[PASSWD].text);
	put_file(root, "etc/group", &parts[GROUP].text);
}

/* A part that is '..'; one that only begins so is a name. */
static bool has_dots(const char *name)
{
	for (const char *p = name; (p = strstr(p, "..")); p++)
		if ((p == name || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return true;
	return false;
}

static void check_blob(const struct blob *b)
{
	must(*b->name && *b->name != '/' && !strstr(b->name, "//"));
	must(!has_dots(b->name));
	must(!*b->digest || strspn(b->digest, "0123456789abcdef") == IMAGE_HEX - 1);
}

/* What is kept of an image is read back as it was, and what is printed of it is JSON. */
static void check_image(struct image *i)
{
	_cleanup_buf_ struct buf one = BUF_INIT, text = BUF_INIT, two = BUF_INIT, shown = BUF_INIT;
	_cleanup_image_ struct image back;
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_json_ json_t *j = NULL;

	image_init(&back);
	must(image_digest_hex(i->id) != NULL);
	must(!i->workdir || *i->workdir == '/');
	must(!i->workdir || !has_dots(i->workdir));
	must(i->uid <= 65534 && i->gid <= 65534);
	for (unsigned n = 0; n < i->env.n; n++)
		must(strchr(i->env.v[n], '=') > i->env.v[n]);
	i->name = xstrdup("name");
	i->chain = xstrdup(i->id);
	image_format(i, &one);
	must(buf_add(&text, one.data, one.len) && image_parse("name", &text, &back, &e) == 0);
	image_format(&back, &two);
	must(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
	must(i->env.n == back.env.n && i->cmd.n == back.cmd.n);
	for (unsigned n = 0; n < i->env.n; n++)
		must(streq(i->env.v[n], back.env.v[n]));
	describe_image(i, &shown);
	must(parse_json(&shown, "it", &j, &e) == 0);
}

static int read_image(const struct source *s, const char *reference, struct image *i, struct err *e)
{
	_cleanup_manifest_ struct manifest m = { .layers = NULL };
	_cleanup_diff_ids_ struct diff_ids ids = { NULL, 0 };
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (manifest_read(s, reference, &m, e) < 0)
		return -1;
	must(m.n_layers > 0 && m.n_layers <= MANIFEST_MAX_LAYERS);
	check_blob(&m.config);
	for (unsigned n = 0; n < m.n_layers; n++)
		check_blob(&m.layers[n]);
	if (manifest_load(s, &m.config, &text, e) < 0)
		return -1;
	must(!*m.config.digest || text.len == m.config.size);
	if (config_read(&text, i, &ids, e) < 0)
		return -1;
	must(ids.n > 0 && ids.n <= MANIFEST_MAX_LAYERS);
	return config_find_user(i, root, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct part parts[PARTS] = { { .hex = "" } };
	struct source s;
	_cleanup_image_ struct image i;
	_cleanup_err_ struct err e = ERR_INIT;

	if (top < 0)
		open_dirs();
	if (size < 2)
		return 0;
	split(parts, data + 1, size - 1);
	source_init(&s);
	image_init(&i);
	fill_source(&s, parts, data[0] & DOCKER);
	if (read_image(&s, data[0] & CHOOSE ? "a" : NULL, &i, &e) == 0)
		check_image(&i);
	else
		must(e.reason != REASON_NONE && e.message);
	s.spool = -1; /* not its own */
	source_done(&s);
	for (unsigned n = 0; n < PARTS; n++)
		buf_done(&parts[n].text);
	return 0;
}
