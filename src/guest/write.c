/* Writes a file for the host: into a temporary file beside it, which a rename puts in its place when all has arrived.  Called
 * by the link.  Must hold: nobody sees half a file under its name, and a request that is given up leaves nothing. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>

#include "guest/session.h"

struct writing {
	int dir, fd;
	bool exclusive;
	char temp[TEMP_NAME];
	char name[256];
};

static size_t take(struct stream *s, const uint8_t *p, size_t n);
static void take_end(struct stream *s);
static void give_up(struct stream *s);

static const struct stream_ops write_ops = {
	.lanes = 0, .take = take, .take_end = take_end, .close = give_up
};

static void give_up(struct stream *s)
{
	struct writing *w = s->memory;

	if (!w || w->fd < 0)
		return;
	close_quietly(w->fd);
	if (w->temp[0])
		(void)sys3(SYS_unlinkat, w->dir, w->temp, 0);
	close_quietly(w->dir);
	w->fd = -1;
}

static void end(struct stream *s, uint32_t error)
{
	give_up(s);
	stream_result(s, error, error ? 0 : s->in.received);
}

static size_t take(struct stream *s, const uint8_t *p, size_t n)
{
	const struct writing *w = s->memory;

	for (size_t at = 0; at < n;) {
		long r = sys3(SYS_write, w->fd, p + at, n - at);

		if (r == -EINTR)
			continue;
		if (r <= 0) {
			end(s, r ? (uint32_t)-r : EIO);
			break;
		}
		at += (size_t)r;
	}
	return n;
}

/* A file system without RENAME_NOREPLACE has links. */
static long put_in_place(const struct writing *w)
{
	long r;

	if (!w->exclusive)
		return sys4(SYS_renameat, w->dir, w->temp, w->dir, w->name);
	r = sys5(SYS_renameat2, w->dir, w->temp, w->dir, w->name, RENAME_NOREPLACE);
	if (r != -EINVAL && r != -ENOSYS)
		return r;
	r = sys5(SYS_linkat, w->dir, w->temp, w->dir, w->name, 0);
	if (r == 0)
		(void)sys3(SYS_unlinkat, w->dir, w->temp, 0);
	return r;
}

static void take_end(struct stream *s)
{
	struct writing *w = s->memory;
	long r = put_in_place(w);

	if (r == 0)
		w->temp[0] = 0;
	end(s, (uint32_t)-r);
}

/* What is replaced gives the mode; only files and links are. */
static long choose_mode(const struct writing *w, uint32_t *mode)
{
	struct stat st;
	long r = stat_at(w->dir, w->name, &st);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (w->exclusive)
		return -EEXIST;
	if (S_ISREG(st.st_mode))
		*mode = st.st_mode & 0777;
	else if (!S_ISLNK(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	return 0;
}

static long begin(struct writing *w, char *path, const struct wire_write *m)
{
	uint32_t mode = m->mode;
	const char *name;
	long r = path_parent(path, m->flags & WIRE_FILE_PARENTS, &name);

	if (r < 0)
		return r;
	w->dir = (int)r;
	memcpy(w->name, name, text_len(name) + 1);
	w->exclusive = m->flags & WIRE_FILE_EXCLUSIVE;
	r = choose_mode(w, &mode);
	if (r == 0) {
		temp_name(w->temp);
		r = sys4(SYS_openat, w->dir, w->temp,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	}
	if (r < 0) {
		close_quietly(w->dir);
		return r;
	}
	w->fd = (int)r;
	return 0;
}

bool files_write(const struct wire_frame *f)
{
	char path[WIRE_MAX_PATH];
	struct wire_write m;
	struct writing *w;
	struct stream *s;
	long r;

	if (!wire_get_write(f, &m))
		return false;
	if (!(s = request_new(f, &write_ops)))
		return true;
	w = stream_memory(s, sizeof *w);
	if (!w) {
		stream_result(s, ENOMEM, 0);
		return true;
	}
	w->fd = -1;
	path_copy(path, m.rest, m.rest_len);
	r = begin(w, path, &m);
	if (r < 0)
		stream_result(s, (uint32_t)-r, 0);
	return true;
}
