/* Small requests about files, reading, and what all file requests share.  Called by the link.  Paths are taken as a process of
 * the workload would: links in them are followed, rights are the workload's.  Must hold: opening never waits, so only regular
 * files and directories are opened. */
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>

#include "guest/session.h"

static void close_source(struct stream *s);
static bool read_step(struct stream *s);
static void work(struct stream *s);

static const struct stream_ops plain_ops = { .lanes = 0 };
static const struct stream_ops read_ops = {
	.lanes = 1, .step = read_step, .room = work, .close = close_source
};

/* --- shared --- */

struct stream *request_new(const struct wire_frame *f, const struct stream_ops *ops)
{
	struct stream *s = stream_new(f->stream, ops);

	if (!s)
		link_refuse(f->stream, false, EMFILE);
	return s;
}

void path_copy(char *out, const uint8_t *p, uint32_t n)
{
	memcpy(out, p, n);
	out[n] = 0;
}

long stat_at(int dir, const char *name, struct stat *ret)
{
	return sys4(SYS_newfstatat, dir, name, ret, AT_SYMLINK_NOFOLLOW);
}

uint64_t stat_mtime(const struct stat *st)
{
	if (st->st_mtim.tv_sec < 0)
		return 0;
	return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

void temp_name(char *out)
{
	static const char prefix[] = ".bailey-", digits[] = "0123456789abcdef";
	uint8_t random[8];
	char *p = out + sizeof prefix - 1;

	if (sys3(SYS_getrandom, random, sizeof random, 0) != (long)sizeof random)
		memset(random, 0, sizeof random);
	memcpy(out, prefix, sizeof prefix - 1);
	for (size_t i = 0; i < sizeof random; i++) {
		*p++ = digits[random[i] >> 4];
		*p++ = digits[random[i] & 15];
	}
	*p = 0;
}

long path_make(char *path)
{
	long r = 0;

	for (char *p = path + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = 0;
		r = sys3(SYS_mkdirat, AT_FDCWD, path, 0755);
		*p = c;
		if (!c)
			break;
	}
	return r == -EEXIST ? 0 : r;
}

static size_t trim(char *path)
{
	size_t n = text_len(path);

	while (n > 1 && path[n - 1] == '/')
		path[--n] = 0;
	return n;
}

long path_parent(char *path, bool make, const char **ret_name)
{
	static const char root[] = "/";
	size_t n = trim(path), at = n;
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	const char *dir = path;
	long fd;

	while (path[at - 1] != '/')
		at--;
	*ret_name = path + at;
	if (!**ret_name || text_is_dots(*ret_name))
		return -EINVAL;
	if (n - at > 255)
		return -ENAMETOOLONG;
	if (at == 1)
		dir = root;
	path[at - 1] = 0;
	fd = sys4(SYS_openat, AT_FDCWD, dir, flags, 0);
	if (fd == -ENOENT && make) {
		fd = path_make(path);
		if (fd == 0)
			fd = sys4(SYS_openat, AT_FDCWD, dir, flags, 0);
	}
	return fd;
}

static uint8_t *put_number(uint8_t *out, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++, v >>= 8)
		*out++ = (uint8_t)v;
	return out;
}

uint32_t record_put(uint8_t *out, const struct stat *st, const struct record *r)
{
	uint8_t *p = out + 2;

	p = put_number(p, st->st_mode, 4);
	p = put_number(p, st->st_uid, 4);
	p = put_number(p, st->st_gid, 4);
	p = put_number(p, r->size, 8);
	p = put_number(p, stat_mtime(st), 8);
	p = put_number(p, r->name_len, 2);
	memcpy(p, r->name, r->name_len);
	p += r->name_len;
	memcpy(p, r->target, r->target_len);
	p += r->target_len;
	(void)put_number(out, (uint64_t)(p - out), 2);
	return (uint32_t)(p - out);
}

/* --- small requests --- */

static void answer_stat(struct stream *s, const char *path, const struct stat *st)
{
	struct wire_stated *m = stream_memory(s, sizeof *m + WIRE_MAX_PATH);
	long n = 0;

	if (!m) {
		stream_result(s, ENOMEM, 0);
		return;
	}
	if (S_ISLNK(st->st_mode)) {
		n = sys4(SYS_readlinkat, AT_FDCWD, path, m + 1, WIRE_MAX_PATH);
		if (n < 0) {
			stream_result(s, (uint32_t)-n, 0);
			return;
		}
	}
	*m = (struct wire_stated){ .stream = s->number,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.links = (uint32_t)min_u64(st->st_nlink, UINT32_MAX),
		.size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
		.mtime_ns = stat_mtime(st),
		.inode = st->st_ino,
		.rest = (const uint8_t *)(m + 1),
		.rest_len = (uint32_t)n };
	stream_answer(s, ANSWER_STATED);
	stream_result(s, 0, 0);
}

bool files_stat(const struct wire_frame *f)
{
	char path[WIRE_MAX_PATH];
	struct wire_stat m;
	struct stream *s;
	struct stat st;
	long r;

	if (!wire_get_stat(f, &m))
		return false;
	if (!(s = request_new(f, &plain_ops)))
		return true;
	path_copy(path, m.rest, m.rest_len);
	r = sys4(SYS_newfstatat, AT_FDCWD, path, &st,
		m.flags & WIRE_FILE_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
	if (r < 0)
		stream_result(s, (uint32_t)-r, 0);
	else
		answer_stat(s, path, &st);
	return true;
}

static void answer(struct stream *s, long r)
{
	stream_result(s, r < 0 ? (uint32_t)-r : 0, 0);
}

static long make_dir(char *path, uint32_t mode, bool parents)
{
	const char *name;
	long dir = path_parent(path, parents, &name), r;
	struct stat st;

	if (dir < 0)
		return dir;
	r = sys3(SYS_mkdirat, dir, name, mode);
	/* a link to a directory is one, as mkdir -p has it */
	if (r == -EEXIST && parents && sys4(SYS_newfstatat, dir, name, &st, 0) == 0 &&
		S_ISDIR(st.st_mode))
		r = 0;
	close_quietly((int)dir);
	return r;
}

bool files_mkdir(const struct wire_frame *f)
{
	char path[WIRE_MAX_PATH];
	struct wire_mkdir m;
	struct stream *s;
	long r;

	if (!wire_get_mkdir(f, &m))
		return false;
	if (!(s = request_new(f, &plain_ops)))
		return true;
	path_copy(path, m.rest, m.rest_len);
	if (trim(path) == 1)
		r = m.flags & WIRE_FILE_PARENTS ? 0 : -EEXIST;
	else
		r = make_dir(path, m.mode, m.flags & WIRE_FILE_PARENTS);
	answer(s, r);
	return true;
}

static long rename_paths(char *from, char *to, bool exclusive)
{
	const char *from_name, *to_name;
	long a = path_parent(from, false, &from_name), b, r;

	if (a < 0)
		return a;
	b = path_parent(to, false, &to_name);
	if (b >= 0) {
		r = sys5(SYS_renameat2, a, from_name, b, to_name, exclusive ? 1 : 0);
		if (r == -ENOSYS && !exclusive)
			r = sys4(SYS_renameat, a, from_name, b, to_name);
		close_quietly((int)b);
	} else {
		r = b;
	}
	close_quietly((int)a);
	return r;
}

bool files_rename(const struct wire_frame *f)
{
	char from[WIRE_MAX_PATH], to[WIRE_MAX_PATH];
	struct wire_rename m;
	struct stream *s;
	uint32_t n = 0;

	if (!wire_get_rename(f, &m))
		return false;
	if (!(s = request_new(f, &plain_ops)))
		return true;
	while (m.rest[n])
		n++;
	path_copy(from, m.rest, n);
	path_copy(to, m.rest + n + 1, m.rest_len - n - 1);
	answer(s, rename_paths(from, to, m.flags & WIRE_FILE_EXCLUSIVE));
	return true;
}

/* --- reading --- */

static void close_source(struct stream *s)
{
	stream_close_source(s, 0);
}

static void work(struct stream *s)
{
	stream_work(s);
}

/* Looks before it opens: an open of a FIFO or a device does something to it. */
static long open_regular(const char *path)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	long r = sys4(SYS_newfstatat, AT_FDCWD, path, &st, 0), fd;

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	fd = sys4(SYS_openat, AT_FDCWD, path, flags, 0);
	if (fd < 0)
		return fd;
	if (sys2(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close_quietly((int)fd);
	return -EINVAL;
}

static void end_read(struct stream *s, uint32_t error)
{
	stream_close_source(s, 0);
	stream_result(s, error, lane_written(&s->out[0]));
}

static bool read_step(struct stream *s)
{
	for (uint32_t moved = 0; moved < STEP_BYTES;) {
		uint8_t *to;
		uint32_t n = min_u32(lane_space(&s->out[0], &to), STEP_BYTES - moved);
		long r;

		n = (uint32_t)min_u64(n, s->left);
		if (!n && s->left)
			return false;
		r = n ? sys4(SYS_pread64, s->source[0], to, n, s->position) : 0;
		if (r <= 0) {
			end_read(s, (uint32_t)-r);
			return false;
		}
		lane_filled(s, 0, (uint32_t)r);
		s->position += (uint64_t)r;
		s->left -= (uint64_t)r;
		moved += (uint32_t)r;
	}
	return true;
}

bool files_read(const struct wire_frame *f)
{
	char path[WIRE_MAX_PATH];
	struct wire_read m;
	struct stream *s;
	long fd;

	if (!wire_get_read(f, &m))
		return false;
	if (!(s = request_new(f, &read_ops)))
		return true;
	path_copy(path, m.rest, m.rest_len);
	fd = open_regular(path);
	if (fd < 0) {
		stream_result(s, (uint32_t)-fd, 0);
		return true;
	}
	s->source[0] = (int)fd;
	s->position = m.offset;
	s->left = m.length ? m.length : UINT64_MAX;
	stream_work(s);
	return true;
}
