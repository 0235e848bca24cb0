/* Owns the form of a record and the way from a name to a held tree.  Called by whatever starts a sandbox, and by
 * bailey-image, which writes the records.  A record is the user's own file, but a damaged one is an error, never a guess. */
#include "image/image.h"

#include <ctype.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

enum field_kind { FIELD_TEXT, FIELD_NUMBER, FIELD_FLAG, FIELD_LIST };

static const struct field {
	const char *key;
	enum field_kind kind;
	size_t offset;
} fields[] = {
#define FIELD(kind, member, meaning) { #member, FIELD_##kind, offsetof(struct image, member) },
#include "image/record.def"
#undef FIELD
};

enum { FIELDS = sizeof fields / sizeof *fields };

static void *member(const struct field *f, struct image *i)
{
	return (char *)i + f->offset;
}

static const void *value(const struct field *f, const struct image *i)
{
	return (const char *)i + f->offset;
}

void image_init(struct image *i)
{
	memset(i, 0, sizeof *i);
	i->root_fd = i->lock_fd = -1;
}

void image_list_done(struct image_list *l)
{
	for (unsigned i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct image_list){ NULL, 0 };
}

void image_done(struct image *i)
{
	free(i->name);
	for (unsigned f = 0; f < FIELDS; f++) {
		if (fields[f].kind == FIELD_TEXT)
			free(*(char **)member(&fields[f], i));
		else if (fields[f].kind == FIELD_LIST)
			image_list_done(member(&fields[f], i));
	}
	i->root_fd = close_fd(i->root_fd);
	i->lock_fd = close_fd(i->lock_fd);
	image_init(i);
}

bool image_list_add(struct image_list *l, const char *text)
{
	char **grown;

	if (l->n == IMAGE_MAX_LIST)
		return false;
	grown = realloc(l->v, (l->n + 2) * sizeof *grown);
	if (!grown)
		abort();
	l->v = grown;
	l->v[l->n++] = xstrdup(text);
	l->v[l->n] = NULL;
	return true;
}

bool image_is_ours(const char *name)
{
	return str_after(name, "bailey/") != NULL;
}

/* What is too long for a name becomes "", which is none. */
static void exchange(const char *from, char a, char b, char ret[static IMAGE_MAX_NAME])
{
	size_t n = strlen(from);

	if (n >= IMAGE_MAX_NAME)
		n = 0;
	for (size_t i = 0; i < n; i++)
		if (from[i] == a)
			ret[i] = b;
		else
			ret[i] = from[i];
	ret[n] = '\0';
}

void image_ref_file(const char *name, char ret[static IMAGE_MAX_NAME])
{
	exchange(name, '/', '%', ret);
}

void image_ref_name(const char *file, char ret[static IMAGE_MAX_NAME])
{
	exchange(file, '%', '/', ret);
}

int image_not_found(const char *name, struct err *e)
{
	(void)err_set(e, R_IMAGE_NOT_FOUND, 0, "find image '%s': no such image", name);
	if (!image_is_ours(name))
		return -1;
	return err_remedy(e, "Run 'bailey image build agent': it makes this image here.");
}

int image_check_name(const char *name, struct err *e)
{
	const char *own = str_after(name, "bailey/") ?: name;

	if (!isalnum((unsigned char)*own) || strlen(name) >= IMAGE_MAX_NAME || streq(name, "host"))
		goto bad;
	for (const char *p = own; *p; p++)
		if ((unsigned char)*p >= 0x80 ||
			(!isalnum((unsigned char)*p) && !strchr("._-:", *p)))
			goto bad;
	return 0;
bad:
	(void)err_set(e, R_BAD_VALUE, 0, "use the image name '%.64s'", name);
	return err_remedy(e,
		"Use letters, digits, '.', '_', '-' and ':', at most %d of them and not 'host'; a "
		"directory is given with a '/' in it.",
		IMAGE_MAX_NAME - 1);
}

const char *image_digest_hex(const char *digest)
{
	const char *hex = digest ? str_after(digest, "sha256:") : NULL;

	if (!hex || strlen(hex) != IMAGE_HEX - 1 ||
		strspn(hex, "0123456789abcdef") != IMAGE_HEX - 1)
		return NULL;
	return hex;
}

/* In place: a value as it stands in a record becomes what it was. */
static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (*s == '\\' && s[1]) {
			s++;
			*out++ = (char)(*s == 'n' ? '\n' : *s);
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

static int set_field(struct image *i, const struct field *f, char *text, struct err *e)
{
	void *m = member(f, i);

	unescape(text);
	switch (f->kind) {
	case FIELD_TEXT:
		free(*(char **)m);
		*(char **)m = xstrdup(text);
		return 0;
	case FIELD_NUMBER:
		return parse_u64(text, 0, UINT64_MAX, f->key, m, e);
	case FIELD_FLAG:
		*(bool *)m = streq(text, "1");
		return 0;
	case FIELD_LIST:
		if (!image_list_add(m, text))
			return err_set(e, R_STATE_UNWRITABLE, 0, "too many lines '%s'", f->key);
		return 0;
	}
	return 0;
}

/* An unknown key is skipped: a later version may have written it. */
static int parse_line(struct image *i, char *line, struct err *e)
{
	char *text = strchr(line, ' ');

	if (!text)
		return err_set(e, R_STATE_UNWRITABLE, 0, "a line without a value");
	*text++ = '\0';
	for (unsigned f = 0; f < FIELDS; f++)
		if (streq(fields[f].key, line))
			return set_field(i, &fields[f], text, e);
	return 0;
}

static int damaged(const char *name, struct err *e)
{
	_cleanup_err_ struct err why = ERR_INIT;

	(void)err_move(&why, e);
	(void)err_set(e, R_STATE_UNWRITABLE, 0, "read the record of image '%s': %s", name,
		why.message ?: "damaged");
	return err_remedy(e, "Remove the image with 'bailey image rm' and import it again.");
}

int image_parse(const char *name, struct buf *text, struct image *ret, struct err *e)
{
	char *save = NULL;

	if (image_check_name(name, e) < 0)
		return -1;
	image_done(ret);
	ret->name = xstrdup(name);
	if (!text->data || strlen(text->data) != text->len)
		return damaged(name, e);
	for (char *line = strtok_r(text->data, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save))
		if (parse_line(ret, line, e) < 0)
			return damaged(name, e);
	if (!image_digest_hex(ret->chain) || !image_digest_hex(ret->id))
		return damaged(name, e);
	return 0;
}

int image_read(int refs_fd, const char *name, struct image *ret, struct err *e)
{
	_cleanup_close_ int fd = -1;
	_cleanup_buf_ struct buf text = { .max = IMAGE_MAX_RECORD };
	char file[IMAGE_MAX_NAME];

	if (image_check_name(name, e) < 0)
		return -1;
	image_ref_file(name, file);
	fd = openat(refs_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return image_not_found(name, e);
	if (fd < 0 || read_all(fd, &text) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "read the record of image '%s'", name);
	return image_parse(name, &text, ret, e);
}

static void add_line(struct buf *out, const char *key, const char *text)
{
	buf_printf(out, "%s ", key);
	for (const char *p = text; *p; p++) {
		if (*p == '\n')
			buf_puts(out, "\\n");
		else if (*p == '\\')
			buf_puts(out, "\\\\");
		else
			buf_add(out, p, 1);
	}
	buf_puts(out, "\n");
}

void image_format(const struct image *i, struct buf *out)
{
	for (unsigned f = 0; f < FIELDS; f++) {
		const void *m = value(&fields[f], i);
		const struct image_list *list = m;

		switch (fields[f].kind) {
		case FIELD_TEXT:
			if (*(char *const *)m)
				add_line(out, fields[f].key, *(char *const *)m);
			break;
		case FIELD_NUMBER:
			buf_printf(out, "%s %llu\n", fields[f].key,
				(unsigned long long)*(const uint64_t *)m);
			break;
		case FIELD_FLAG:
			buf_printf(out, "%s %d\n", fields[f].key, *(const bool *)m);
			break;
		case FIELD_LIST:
			for (unsigned n = 0; n < list->n; n++)
				add_line(out, fields[f].key, list->v[n]);
			break;
		}
	}
}

/* Holds the tree.  The directory is opened first and the lock looked at after it was taken: a remover moves the
 * directory away under an exclusive lock, so a tree that is still complete now stays. */
static int hold_tree(int images, struct image *i, struct err *e)
{
	_cleanup_close_ int tree = -1;
	char path[16 + IMAGE_HEX];

	FMT(path, "trees/%s", image_digest_hex(i->chain));
	tree = sys_openat2(images, path, O_PATH | O_DIRECTORY, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (tree >= 0)
		i->lock_fd = openat(tree, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (i->lock_fd >= 0 && flock(i->lock_fd, LOCK_SH | LOCK_NB) < 0)
		return err_set(e, R_BUSY, errno, "use image '%s': it is being removed", i->name);
	if (i->lock_fd >= 0)
		i->root_fd = openat(tree, "root", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (i->root_fd < 0) {
		(void)err_set(e, R_IMAGE_NOT_FOUND, errno, "open the tree of image '%s'", i->name);
		return err_remedy(
			e, "Remove the image with 'bailey image rm' and import it again.");
	}
	return 0;
}

/* A sandbox has its own of these, and what an image has there is not in it. */
static bool is_hidden(const char *path)
{
	static const char *const own[] = { "proc", "sys", "dev", "run", "tmp", "home",
		"workspace" };
	size_t n = strcspn(path, "/");

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (strlen(own[i]) == n && !memcmp(own[i], path, n))
			return true;
	return false;
}

/* A working directory that won't be there is as good as none. */
static void check_workdir(struct image *i)
{
	_cleanup_close_ int fd = -1;

	if (!i->workdir)
		return;
	if (*i->workdir == '/' && !is_hidden(i->workdir + 1))
		fd = sys_openat2(i->root_fd, i->workdir, O_PATH | O_DIRECTORY, 0,
			RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	if (fd >= 0)
		return;
	free(i->workdir);
	i->workdir = NULL;
}

int image_open(const char *home, const char *name, struct image *ret, struct err *e)
{
	_cleanup_free_ char *path = xasprintf("%s/images", home);
	_cleanup_close_ int images = -1, refs = -1;
	_cleanup_image_ struct image i;

	image_init(&i);
	if (image_check_name(name, e) < 0)
		return -1;
	images = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (images >= 0)
		refs = openat(images, "refs", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (refs < 0 && errno == ENOENT)
		return image_not_found(name, e);
	if (refs < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open the images in '%s'", path);
	if (image_read(refs, name, &i, e) < 0 || hold_tree(images, &i, e) < 0)
		return -1;
	check_workdir(&i);
	image_done(ret);
	*ret = i;
	image_init(&i);
	return 0;
}
