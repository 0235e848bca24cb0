/* Owns writing tars: of a directory that is imported, of the layer that is exported, and the archive around that. */
#include "image/import/pack.h"

#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "image/walk.h"

enum { PACK_BUFFER = 256 << 10 };

static int failed(struct archive *a, struct err *e)
{
	return err_set(e, archive_errno(a) == ENOSPC ? R_DISK_FULL : R_OUTPUT_FAILED, 0,
		"write the archive: %.200s", archive_error_string(a) ?: "damaged");
}

struct archive *pack_open(int fd, struct err *e)
{
	struct archive *a = archive_write_new();

	if (!a) {
		(void)err_set(e, R_NO_MEMORY, ENOMEM, "write the archive");
		return NULL;
	}
	if (archive_write_set_format_pax_restricted(a) != ARCHIVE_OK ||
		archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
		archive_write_open_fd(a, fd) != ARCHIVE_OK) {
		(void)failed(a, e);
		(void)archive_write_free(a);
		return NULL;
	}
	return a;
}

int pack_close(struct archive *a, struct err *e)
{
	int r = archive_write_close(a) == ARCHIVE_OK ? 0 : failed(a, e);

	(void)archive_write_free(a);
	return r;
}

static int write_data(struct archive *a, const char *p, size_t n, struct err *e)
{
	while (n) {
		la_ssize_t w = archive_write_data(a, p, n);

		if (w <= 0)
			return failed(a, e);
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

/* Exactly `size` bytes, as the header said, if there are as many. */
static int copy_data(struct archive *a, int fd, uint64_t size, const char *name, struct err *e)
{
	_cleanup_free_ char *buffer = xcalloc(1, PACK_BUFFER);

	while (size) {
		ssize_t n = read(fd, buffer, size < PACK_BUFFER ? (size_t)size : PACK_BUFFER);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, R_IO_FAILED, errno, "read '%.256s'", name);
		if (n == 0)
			return err_set(
				e, R_BUSY, 0, "read '%.256s': it was cut while it was read", name);
		if (write_data(a, buffer, (size_t)n, e) < 0)
			return -1;
		size -= (uint64_t)n;
	}
	return 0;
}

/* Owned by the caller: skopeo chowns what it unpacks, even as a normal user. */
static int write_header(struct archive *a, const char *name, uint64_t size,
	struct archive_entry *entry, struct err *e)
{
	bool is_dir = name[strlen(name) - 1] == '/';

	archive_entry_set_pathname(entry, name);
	archive_entry_set_filetype(entry, is_dir ? AE_IFDIR : AE_IFREG);
	archive_entry_set_perm(entry, is_dir ? 0755 : 0644);
	archive_entry_set_uid(entry, geteuid());
	archive_entry_set_gid(entry, getegid());
	archive_entry_set_size(entry, (la_int64_t)size);
	archive_entry_set_mtime(entry, 0, 0);
	return archive_write_header(a, entry) < ARCHIVE_WARN ? failed(a, e) : 0;
}

int pack_member(struct archive *a, const char *name, const void *p, size_t n, struct err *e)
{
	struct archive_entry *entry = archive_entry_new();
	int r = write_header(a, name, n, entry, e);

	archive_entry_free(entry);
	return r < 0 ? -1 : write_data(a, p, n, e);
}

int pack_file(struct archive *a, const char *name, int fd, uint64_t size, struct err *e)
{
	struct archive_entry *entry = archive_entry_new();
	int r = write_header(a, name, size, entry, e);

	archive_entry_free(entry);
	return r < 0 ? -1 : copy_data(a, fd, size, name, e);
}

/* --- a tree --------------------------------------------------------------------------------------------------------- */

/* Files of several names, by their number: the first name carries the data. */
struct packing {
	struct archive *a;
	struct archive_entry_linkresolver *links;
	struct walk walk;
};

static void fill_stat(struct archive_entry *entry, const struct stat *st)
{
	archive_entry_copy_stat(entry, st);
	archive_entry_unset_atime(entry);
	archive_entry_unset_ctime(entry);
	archive_entry_unset_birthtime(entry);
}

static int fill_entry(struct packing *p, struct archive_entry *entry, struct err *e)
{
	const struct walk *w = &p->walk;
	char target[WALK_MAX_PATH];
	ssize_t n;

	fill_stat(entry, &w->st);
	archive_entry_set_pathname(entry, w->path.data);
	if (!S_ISLNK(w->st.st_mode))
		return 0;
	n = readlinkat(w->dirfd, w->name, target, sizeof target - 1);
	if (n < 0 && (errno == EINVAL || errno == ENOENT))
		return walk_changed(w, e);
	if (n < 0)
		return err_set(e, R_IO_FAILED, errno, "read the link '%.256s'", w->path.data);
	target[n] = '\0';
	archive_entry_set_symlink(entry, target);
	return 0;
}

static int write_entry(struct packing *p, struct archive_entry *entry, struct err *e)
{
	const struct walk *w = &p->walk;
	_cleanup_close_ int fd = -1;

	if (S_ISREG(w->st.st_mode) && archive_entry_size(entry) > 0 &&
		!archive_entry_hardlink(entry)) {
		if (walk_open_file(w, &fd, e) < 0)
			return -1;
		if (fd < 0) /* mounts are left out, as those of directories */
			archive_entry_set_size(entry, 0);
	}
	if (archive_write_header(p->a, entry) < ARCHIVE_WARN)
		return failed(p->a, e);
	return fd < 0 ? 0
		      : copy_data(p->a, fd, (uint64_t)archive_entry_size(entry), w->path.data, e);
}

static int pack_one(struct packing *p, struct err *e)
{
	struct archive_entry *entry, *spare = NULL;
	int r;

	if (p->walk.event == WALK_LEAVE || S_ISSOCK(p->walk.st.st_mode))
		return 0;
	entry = archive_entry_new();
	r = fill_entry(p, entry, e);
	if (r == 0) {
		/* for tars it turns the second name of a file into a link and keeps nothing back */
		archive_entry_linkify(p->links, &entry, &spare);
		if (entry)
			r = write_entry(p, entry, e);
	}
	archive_entry_free(entry);
	archive_entry_free(spare);
	return r;
}

/* The root has an owner and a mode too. */
static int pack_root(struct packing *p, int root_fd, struct err *e)
{
	struct archive_entry *entry;
	struct stat st;
	int r = 0;

	if (fstat(root_fd, &st) < 0)
		return err_set(e, R_IMAGE_INVALID, errno, "look at the tree");
	entry = archive_entry_new();
	fill_stat(entry, &st);
	archive_entry_set_pathname(entry, "./");
	if (archive_write_header(p->a, entry) < ARCHIVE_WARN)
		r = failed(p->a, e);
	archive_entry_free(entry);
	return r;
}

int pack_tree(int root_fd, int out_fd, struct err *e)
{
	_cleanup_free_ struct packing *p = xcalloc(1, sizeof *p);
	int r;

	p->a = pack_open(out_fd, e);
	if (!p->a) {
		(void)close_fd(root_fd);
		return -1;
	}
	p->links = archive_entry_linkresolver_new();
	archive_entry_linkresolver_set_strategy(p->links, archive_format(p->a));
	r = walk_open(&p->walk, root_fd, e);
	if (r == 0)
		r = pack_root(p, root_fd, e);
	while (r == 0 && (r = walk_next(&p->walk, e)) == 0 && p->walk.event != WALK_END)
		r = pack_one(p, e);
	walk_done(&p->walk);
	archive_entry_linkresolver_free(p->links);
	if (r < 0) {
		(void)archive_write_fail(p->a);
		(void)archive_write_free(p->a);
		return -1;
	}
	return pack_close(p->a, e);
}
