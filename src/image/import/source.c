/* Owns telling what was given: an OCI layout, an archive of `docker save`, a tar of a root tree, or such a tree.  An
 * archive of images is unpacked into numbered files of the work directory, so that no name in it ever becomes one of ours. */
#include "image/import/source.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "image/walk.h"

enum { MAX_FILES = 16384, COPY_BYTES = 1 << 20, MAX_LINKS = 8 };

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

void source_init(struct source *s)
{
	memset(s, 0, sizeof *s);
	s->fd = s->spool = -1;
}

void source_done(struct source *s)
{
	for (unsigned i = 0; i < s->n_files; i++) {
		free(s->files[i].name);
		free(s->files[i].link);
	}
	free(s->files);
	(void)close_fd(s->fd);
	(void)close_fd(s->spool);
	source_init(s);
}

static const struct spooled *find(const struct source *s, const char *name)
{
	for (unsigned i = 0; i < s->n_files; i++)
		if (streq(s->files[i].name, name))
			return &s->files[i];
	return NULL;
}

/* Follows links among the spooled files themselves; docker writes one for a layer that it has written before. */
static const struct spooled *find_file(const struct source *s, const char *name)
{
	const struct spooled *f = find(s, name);

	for (unsigned i = 0; f && f->link; i++)
		f = i < MAX_LINKS ? find(s, f->link) : NULL;
	return f;
}

bool source_has(const struct source *s, const char *name)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	_cleanup_close_ int fd = -1;

	return source_file(s, name, &fd, &ignored) == 0;
}

int source_file(const struct source *s, const char *name, int *ret_fd, struct err *e)
{
	const struct spooled *f;
	char number[16];
	struct stat st;

	if (s->spool >= 0) {
		f = find_file(s, name);
		*ret_fd = f ? openat(s->spool, FMT(number, "in.%u", f->number),
				      O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
			    : -1;
		if (!f)
			errno = ENOENT;
	} else {
		*ret_fd = sys_openat2(s->fd, name, O_RDONLY | O_NONBLOCK, 0, BENEATH);
	}
	if (*ret_fd >= 0 && (fstat(*ret_fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		*ret_fd = close_fd(*ret_fd);
		errno = EINVAL;
	}
	if (*ret_fd < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "open '%.128s' of the image", name);
	return 0;
}

static bool is_hex_name(const char *s, size_t n)
{
	return n >= 64 && strspn(s, "0123456789abcdef") >= 64 && (n == 64 || s[64] == '.');
}

/* Names that only an archive of images begins with. */
static bool belongs_to_archive(const char *name)
{
	static const char *const known[] = { "oci-layout", "index.json", "manifest.json",
		"repositories", "blobs" };
	size_t n = strcspn(name, "/");

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i]) == n && !memcmp(name, known[i], n))
			return true;
	return n == 0 || is_hex_name(name, n);
}

static int spool_data(
	struct source *s, struct stream *in, unsigned number, struct limits *limits, struct err *e)
{
	char name[16];
	_cleanup_close_ int fd = openat(s->spool, FMT(name, "in.%u", number),
		O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	uint64_t end = 0;

	for (;;) {
		const void *p;
		uint64_t at = 0;
		size_t n;

		if (stream_data(in, &p, &n, &at, e) < 0)
			return -1;
		if (!n)
			return 0;
		if (at != end)
			return err_set(
				e, R_ARCHIVE_REFUSED, 0, "read the image: a file of it has holes");
		end += n;
		limits->bytes += n;
		if (limits->bytes > limits->max_bytes)
			return err_set(e, R_ARCHIVE_TOO_LARGE, 0, "read the image: over %llu bytes",
				(unsigned long long)limits->max_bytes);
		if (fd < 0 || write_all(fd, p, n) < 0)
			return store_failed(e, errno, "write into the image store");
	}
}

static int add_spooled(
	struct source *s, const char *name, const char *link, unsigned *ret, struct err *e)
{
	struct spooled *grown;

	if (find(s, name))
		return err_set(
			e, R_ARCHIVE_REFUSED, 0, "read the image: it holds '%.128s' twice", name);
	if (s->n_files == MAX_FILES)
		return err_set(
			e, R_ARCHIVE_TOO_LARGE, 0, "read the image: over %d files", MAX_FILES);
	if (s->n_files == s->cap_files) {
		s->cap_files = s->cap_files ? s->cap_files * 2 : 64;
		grown = reallocarray(s->files, s->cap_files, sizeof *grown);
		if (!grown)
			return err_set(e, R_NO_MEMORY, errno, "read the image");
		s->files = grown;
	}
	*ret = s->n_files;
	s->files[s->n_files] =
		(struct spooled){ xstrdup(name), link ? xstrdup(link) : NULL, s->n_files };
	s->n_files++;
	return 0;
}

static int spool_entry(struct source *s, struct stream *in, struct archive_entry *entry,
	const char *name, struct limits *limits, struct err *e)
{
	const char *link = archive_entry_symlink(entry), *hard = archive_entry_hardlink(entry);
	char target[NAME_MAX_PATH];
	unsigned number;

	if (hard || archive_entry_filetype(entry) == AE_IFLNK) {
		if (hard ? name_clean(hard, target, e) < 0
			 : name_resolve(name, link ?: "", target, e) < 0)
			return -1;
		return add_spooled(s, name, target, &number, e);
	}
	if (archive_entry_filetype(entry) != AE_IFREG)
		return 0;
	if (add_spooled(s, name, NULL, &number, e) < 0)
		return -1;
	return spool_data(s, in, number, limits, e);
}

/* 1: it is a root tree after all. */
static int spool_all(struct source *s, struct stream *in, struct limits *limits, struct err *e)
{
	char name[NAME_MAX_PATH];
	struct archive_entry *entry;
	uint64_t entries = 0;

	for (;;) {
		if (stream_next(in, &entry, e) < 0)
			return -1;
		if (!entry)
			break;
		if (++entries > LIMIT_ENTRIES)
			return err_set(e, R_ARCHIVE_TOO_LARGE, 0, "read the image: over %d entries",
				LIMIT_ENTRIES);
		if (name_clean(archive_entry_pathname(entry), name, e) < 0)
			return -1;
		if (!belongs_to_archive(name))
			return 1;
		if (*name && archive_entry_filetype(entry) != AE_IFDIR &&
			spool_entry(s, in, entry, name, limits, e) < 0)
			return -1;
	}
	if (source_has(s, "oci-layout") && source_has(s, "index.json"))
		s->kind = SOURCE_LAYOUT;
	else if (source_has(s, "manifest.json"))
		s->kind = SOURCE_DOCKER;
	else
		return 1;
	return 0;
}

/* A pipe can't be read twice, and what it holds is known only after a first look. */
static int make_seekable(
	struct source *s, struct store *store, struct limits *limits, struct err *e)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *buffer = NULL;
	uint64_t total = 0;
	ssize_t n;

	if (lseek(s->fd, 0, SEEK_CUR) >= 0)
		return 0;
	fd = openat(store->work, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = openat(store->work, "pipe", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return store_failed(e, errno, "write into the image store");
	buffer = xcalloc(1, COPY_BYTES);
	while ((n = read(s->fd, buffer, COPY_BYTES)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, R_ARCHIVE_REFUSED, errno, "read the archive");
		total += (uint64_t)n;
		if (total > limits->max_bytes)
			return err_set(e, R_ARCHIVE_TOO_LARGE, 0,
				"read the archive: over %llu bytes",
				(unsigned long long)limits->max_bytes);
		if (write_all(fd, buffer, (size_t)n) < 0)
			return store_failed(e, errno, "write into the image store");
	}
	if (lseek(fd, 0, SEEK_SET) < 0)
		return store_failed(e, errno, "read from the image store");
	(void)close_fd(s->fd);
	s->fd = move_fd(&fd);
	return 0;
}

static int open_archive(struct source *s, struct store *store, struct limits *limits, struct err *e)
{
	_cleanup_stream_ struct stream *in = NULL;
	struct limits spool_limits = *limits;
	off_t start;
	int r;

	if (make_seekable(s, store, limits, e) < 0)
		return -1;
	start = lseek(s->fd, 0, SEEK_CUR);
	s->spool = fcntl(store->work, F_DUPFD_CLOEXEC, 3);
	if (stream_open(&in, s->fd, &spool_limits, e) < 0)
		return -1;
	r = spool_all(s, in, &spool_limits, e);
	if (r < 0)
		return -1;
	if (r == 0) {
		s->fd = close_fd(s->fd);
		return 0;
	}
	s->kind = SOURCE_TAR;
	s->spool = close_fd(s->spool);
	return lseek(s->fd, start, SEEK_SET) < 0
		? err_set(e, R_ARCHIVE_REFUSED, errno, "read the archive")
		: 0;
}

int source_look(struct source *s, struct store *store, struct limits *limits, struct err *e)
{
	return s->kind == SOURCE_FILE ? open_archive(s, store, limits, e) : 0;
}

int source_open(struct source *s, const char *path, struct err *e)
{
	struct stat st;

	s->fd = streq(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &st) < 0) {
		(void)err_set(e, R_IMAGE_MISSING, errno, "open '%.256s'", path);
		return err_remedy(e, "Give an archive, a directory, or '-' for standard input.");
	}
	if (S_ISDIR(st.st_mode)) {
		s->kind = SOURCE_LAYOUT;
		if (!source_has(s, "oci-layout") || !source_has(s, "index.json"))
			s->kind = SOURCE_TREE;
		return 0;
	}
	/* standard input is the caller's: its flags are left alone */
	if (!streq(path, "-") && set_nonblocking(s->fd, false) < 0)
		return err_set(e, R_ARCHIVE_REFUSED, errno, "read '%.256s'", path);
	s->kind = SOURCE_FILE;
	return 0;
}
