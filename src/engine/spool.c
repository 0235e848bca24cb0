/* Owns the files that keep what commands wrote.  Called by the channel process alone.
 *
 * Must hold: a record is whole or not there (a process killed while it wrote leaves a cut one behind, which is taken off);
 * the counters are exact whatever the disk does; nothing that stands in a file is trusted when it is read again. */
#include "engine/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

enum { SLOT_MAGIC = 0x544c5342, SEGMENT_MAGIC = 0x47455342, VERSION = 1, RECORD_MARK = 0xb5 };

_Static_assert(sizeof(struct spool_slot) + SPOOL_ARGS == SPOOL_SLOT, "a slot of the index");

struct head {
	uint32_t magic, version, id, seq;
	uint64_t start[2];
	uint32_t check, spare[7];
};

_Static_assert(sizeof(struct head) == SPOOL_HEAD, "the head of a segment");

struct record {
	uint8_t mark, lane;
	uint16_t check;
	uint32_t length;
};

_Static_assert(sizeof(struct record) == SPOOL_RECORD_HEAD, "the head of a record");

static uint32_t checksum(const void *p, size_t n)
{
	const uint8_t *b = p;
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 16777619u;
	return h;
}

static int open_file(const struct spool *s, const char *name, uint64_t flags)
{
	return sys_openat2(s->dir, name, flags | O_NOFOLLOW, flags & O_CREAT ? 0600 : 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* --- index --- */

int spool_open(struct spool *s, int dir, uint64_t max)
{
	struct stat st;

	*s = (struct spool){ .dir = dir, .max = max < SPOOL_MIN ? SPOOL_MIN : max };
	/* made when there is something to write: many sandboxes never run a command */
	s->index = open_file(s, "index", O_RDWR);
	if (s->index < 0)
		return errno == ENOENT ? 0 : -1;
	if (fstat(s->index, &st) == 0 && S_ISREG(st.st_mode))
		return 0;
	s->index = close_fd(s->index);
	errno = EINVAL;
	return -1;
}

void spool_close(struct spool *s)
{
	s->index = close_fd(s->index);
}

static uint32_t slot_check(const struct spool_slot *slot)
{
	const size_t from = offsetof(struct spool_slot, id);

	return checksum((const uint8_t *)slot + from, sizeof *slot - from);
}

unsigned spool_slots(const struct spool *s)
{
	struct stat st;
	uint64_t n;

	if (fstat(s->index, &st) < 0 || st.st_size <= 0)
		return 0;
	/* the last may lack its arguments' room */
	n = ((uint64_t)st.st_size + SPOOL_SLOT - 1) / SPOOL_SLOT;
	return n < SPOOL_SLOTS ? (unsigned)n : SPOOL_SLOTS;
}

int spool_read_slot(const struct spool *s, unsigned i, struct spool_slot *ret)
{
	return pread(s->index, ret, sizeof *ret, (off_t)i * SPOOL_SLOT) == (ssize_t)sizeof *ret &&
		ret->magic == SLOT_MAGIC && ret->check == slot_check(ret) && ret->id &&
		ret->args_len <= SPOOL_ARGS;
}

size_t spool_read_args(const struct spool *s, unsigned i, const struct spool_slot *slot,
	char ret[static SPOOL_ARGS])
{
	ssize_t n =
		pread(s->index, ret, slot->args_len, (off_t)i * SPOOL_SLOT + (off_t)sizeof *slot);

	return n > 0 ? (size_t)n : 0;
}

int spool_write_slot(struct spool *s, unsigned i, struct spool_slot *slot, const char *args)
{
	union {
		const char *in;
		void *out;
	} text = { .in = args };
	struct iovec iov[2] = { { slot, sizeof *slot }, { text.out, args ? slot->args_len : 0 } };
	ssize_t n;

	if (s->index < 0)
		s->index = open_file(s, "index", O_RDWR | O_CREAT);
	slot->magic = SLOT_MAGIC;
	slot->check = slot_check(slot);
	do
		n = pwritev(s->index, iov, 2, (off_t)i * SPOOL_SLOT);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)(iov[0].iov_len + iov[1].iov_len) ? 0 : -1;
}

/* --- segments --- */

void output_init(struct spool_output *o, uint32_t id)
{
	memset(o, 0, sizeof *o);
	o->id = id;
	o->segments[0].fd = o->segments[1].fd = -1;
}

static struct spool_segment *newest(struct spool_output *o)
{
	return &o->segments[o->current];
}

static struct spool_segment *other(struct spool_output *o)
{
	return &o->segments[!o->current];
}

static char *segment_name(char name[static 16], const struct spool_output *o, unsigned i)
{
	return str_format(name, 16, "%u.%u", o->id, i);
}

static void drop_segment(struct spool *s, struct spool_output *o, unsigned i)
{
	struct spool_segment *g = &o->segments[i];
	char name[16];

	if (g->fd >= 0 && !g->memory) {
		(void)unlinkat(s->dir, segment_name(name, o, i), 0);
		s->kept -= g->size < s->kept ? g->size : s->kept;
	}
	g->fd = close_fd(g->fd);
	*g = (struct spool_segment){ .fd = -1 };
}

static int write_head(const struct spool_output *o, const struct spool_segment *g)
{
	struct head h = { .magic = SEGMENT_MAGIC,
		.version = VERSION,
		.id = o->id,
		.seq = g->seq,
		.start = { g->start[0], g->start[1] } };

	h.check = checksum(&h, offsetof(struct head, check));
	return pwrite(g->fd, &h, sizeof h, 0) == (ssize_t)sizeof h ? 0 : -1;
}

/* A new segment in place of segments[i], which is dropped. */
static int begin_segment(
	struct spool *s, struct spool_output *o, unsigned i, uint32_t seq, bool memory)
{
	struct spool_segment *g = &o->segments[i];
	char name[16];

	drop_segment(s, o, i);
	g->seq = seq;
	g->memory = memory;
	g->start[0] = o->total[0];
	g->start[1] = o->total[1];
	g->fd = memory ? memfd_create("output", MFD_CLOEXEC)
		       : open_file(s, segment_name(name, o, i), O_RDWR | O_CREAT | O_TRUNC);
	if (g->fd < 0)
		return -1;
	if (write_head(o, g) < 0) {
		drop_segment(s, o, i);
		return -1;
	}
	g->size = SPOOL_HEAD;
	if (!memory)
		s->kept += SPOOL_HEAD;
	o->current = i;
	return 0;
}

static uint64_t segment_max(const struct spool *s, const struct spool_segment *g)
{
	return g->memory && s->max / 2 > SPOOL_MEMORY ? SPOOL_MEMORY : s->max / 2;
}

bool output_full(const struct spool *s, const struct spool_output *o)
{
	const struct spool_segment *g = &o->segments[o->current];

	return g->fd >= 0 && g->size >= segment_max(s, g);
}

/* The newest segment, off a disk that is full, where neither segment may be dropped: both are being read. */
static int move_to_memory(struct spool *s, struct spool_output *o)
{
	struct spool_segment *g = newest(o);
	int fd = memfd_create("output", MFD_CLOEXEC);
	char part[16 << 10], name[16];

	for (uint64_t at = 0; fd >= 0 && at < g->size;) {
		const uint64_t left = g->size - at;
		ssize_t n = pread(
			g->fd, part, left < sizeof part ? (size_t)left : sizeof part, (off_t)at);

		if (n <= 0 || pwrite(fd, part, (size_t)n, (off_t)at) != n)
			fd = close_fd(fd);
		else
			at += (uint64_t)n;
	}
	if (fd < 0)
		return -1;
	(void)unlinkat(s->dir, segment_name(name, o, o->current), 0);
	s->kept -= g->size < s->kept ? g->size : s->kept;
	(void)close_fd(g->fd);
	g->fd = fd;
	g->memory = true;
	return 0;
}

/* Room for another record: a new segment if need be.  Where the disk is full one in memory follows the last that is on disk,
 * and is begun anew by itself, so that the part on disk stays; where no part is on disk there are two in memory. */
static bool make_room(struct spool *s, struct spool_output *o, bool may_rotate)
{
	struct spool_segment *g = newest(o);
	const uint32_t seq = g->seq + 1;

	if (g->fd >= 0 && !output_full(s, o))
		return true;
	if (g->fd < 0)
		return begin_segment(s, o, o->current, seq, false) == 0 ||
			begin_segment(s, o, o->current, seq, true) == 0;
	if (other(o)->fd >= 0 && !may_rotate)
		return true;
	if (g->memory && other(o)->fd >= 0 && !other(o)->memory)
		return begin_segment(s, o, o->current, seq, true) == 0;
	if (g->memory)
		return begin_segment(s, o, !o->current, seq, true) == 0;
	return begin_segment(s, o, !o->current, seq, false) == 0 ||
		begin_segment(s, o, !o->current, seq, true) == 0;
}

static uint16_t record_check(unsigned lane, uint32_t length)
{
	return (uint16_t)((length * 40503u) >> 7 ^ lane ^ 0x5a17u);
}

static int write_record(
	struct spool *s, struct spool_segment *g, unsigned lane, const uint8_t *p, size_t n)
{
	struct record head = { .mark = RECORD_MARK,
		.lane = (uint8_t)lane,
		.check = record_check(lane, (uint32_t)n),
		.length = (uint32_t)n };
	union {
		const uint8_t *in;
		void *out;
	} bytes = { .in = p };
	struct iovec iov[2] = { { &head, sizeof head }, { bytes.out, n } };
	ssize_t r;

	do
		r = pwritev(g->fd, iov, 2, (off_t)g->size);
	while (r < 0 && errno == EINTR);
	if (r != (ssize_t)(sizeof head + n)) {
		/* what was written of it is in the way of the next one's head */
		(void)!ftruncate(g->fd, (off_t)g->size);
		return -1;
	}
	g->size += (uint64_t)r;
	g->kept[lane] += n;
	if (!g->memory)
		s->kept += (uint64_t)r;
	return 0;
}

void output_append(struct spool *s, struct spool_output *o, unsigned lane, const uint8_t *p,
	size_t n, bool may_rotate)
{
	if (make_room(s, o, may_rotate) && write_record(s, newest(o), lane, p, n) < 0 &&
		!newest(o)->memory) {
		const bool first = newest(o)->size == SPOOL_HEAD;
		const unsigned i = first ? o->current : !o->current;

		if (other(o)->fd < 0 || may_rotate || first
				? begin_segment(s, o, i, newest(o)->seq + 1, true) == 0
				: move_to_memory(s, o) == 0)
			(void)write_record(s, newest(o), lane, p, n);
	}
	o->total[lane] += n;
}

uint64_t output_pos(const struct spool_output *o)
{
	return o->total[0] + o->total[1];
}

uint64_t output_dropped(const struct spool_output *o)
{
	uint64_t kept = 0;

	for (unsigned i = 0; i < 2; i++)
		if (o->segments[i].fd >= 0)
			kept += o->segments[i].kept[0] + o->segments[i].kept[1];
	return output_pos(o) - kept;
}

bool output_in_memory(const struct spool_output *o)
{
	return o->segments[o->current].fd >= 0 && o->segments[o->current].memory;
}

void output_release(struct spool_output *o)
{
	/* memory can't be opened again */
	for (unsigned i = 0; i < 2; i++)
		if (o->segments[i].memory && o->segments[i].fd >= 0)
			return;
	for (unsigned i = 0; i < 2; i++)
		o->segments[i].fd = close_fd(o->segments[i].fd);
	o->loaded = false;
}

void output_remove(struct spool *s, struct spool_output *o)
{
	char name[16];
	struct stat st;

	for (unsigned i = 0; i < 2; i++) {
		if (o->segments[i].fd < 0 &&
			fstatat(s->dir, segment_name(name, o, i), &st, AT_SYMLINK_NOFOLLOW) == 0) {
			(void)unlinkat(s->dir, name, 0);
			s->kept -= (uint64_t)st.st_size < s->kept ? (uint64_t)st.st_size : s->kept;
		}
		drop_segment(s, o, i);
	}
}

/* --- finding it again --- */

static bool record_valid(const struct record *r)
{
	return r->mark == RECORD_MARK && r->lane < 2 && r->length &&
		r->length <= SPOOL_RECORD_MAX && r->check == record_check(r->lane, r->length);
}

/* Counts the records that are whole, up to the end of the file. */
static void scan(struct spool_segment *g, uint64_t file_size)
{
	uint8_t heads[16 << 10];
	uint64_t from = 0;
	ssize_t have = 0;
	struct record r;

	g->size = SPOOL_HEAD;
	for (;;) {
		const uint64_t at = g->size;

		if (file_size - at < sizeof r)
			return;
		if (at < from || at + sizeof r > from + (uint64_t)have) {
			from = at;
			have = pread(g->fd, heads, sizeof heads, (off_t)at);
			if (have < (ssize_t)sizeof r)
				return;
		}
		memcpy(&r, heads + (at - from), sizeof r);
		if (!record_valid(&r) || file_size - at - sizeof r < r.length)
			return;
		g->kept[r.lane] += r.length;
		g->size += sizeof r + r.length;
	}
}

static void load_segment(struct spool *s, struct spool_output *o, unsigned i)
{
	struct spool_segment *g = &o->segments[i];
	char name[16];
	struct head h;
	struct stat st;

	*g = (struct spool_segment){ .fd = open_file(s, segment_name(name, o, i), O_RDWR) };
	if (g->fd < 0)
		return;
	if (fstat(g->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= SPOOL_HEAD &&
		pread(g->fd, &h, sizeof h, 0) == (ssize_t)sizeof h && h.magic == SEGMENT_MAGIC &&
		h.version == VERSION && h.id == o->id && h.seq < UINT32_MAX / 2 &&
		h.check == checksum(&h, offsetof(struct head, check)) &&
		h.start[0] < UINT64_MAX / 4 && h.start[1] < UINT64_MAX / 4) {
		g->seq = h.seq;
		g->start[0] = h.start[0];
		g->start[1] = h.start[1];
		scan(g, (uint64_t)st.st_size);
		if ((uint64_t)st.st_size > g->size)
			(void)!ftruncate(g->fd, (off_t)g->size);
		return;
	}
	g->fd = close_fd(g->fd);
	*g = (struct spool_segment){ .fd = -1 };
	(void)unlinkat(s->dir, name, 0);
}

/* Both must tell one story: the newer one begins where the older ended, or behind. */
static bool fits(const struct spool_segment *a, const struct spool_segment *b)
{
	return a->seq < b->seq && a->start[0] + a->kept[0] <= b->start[0] &&
		a->start[1] + a->kept[1] <= b->start[1];
}

void output_load(struct spool *s, struct spool_output *o, const uint64_t came[2])
{
	if (o->loaded)
		return;
	o->loaded = true;
	load_segment(s, o, 0);
	load_segment(s, o, 1);
	o->current = o->segments[1].fd >= 0 &&
		(o->segments[0].fd < 0 || o->segments[1].seq > o->segments[0].seq);
	if (other(o)->fd >= 0 && !fits(other(o), newest(o)))
		drop_segment(s, o, !o->current);
	for (unsigned i = 0; i < 2; i++) {
		const struct spool_segment *g = newest(o);
		const uint64_t there = g->fd >= 0 ? g->start[i] + g->kept[i] : 0;

		o->total[i] = came[i] > there ? came[i] : there;
	}
}

/* --- reading --- */

static const struct spool_segment *segment_of(const struct spool_output *o, uint32_t seq)
{
	for (unsigned i = 0; i < 2; i++)
		if (o->segments[i].fd >= 0 && o->segments[i].seq == seq)
			return &o->segments[i];
	return NULL;
}

static const struct spool_segment *oldest(const struct spool_output *o)
{
	const struct spool_segment *a = &o->segments[!o->current], *b = &o->segments[o->current];

	return a->fd >= 0 ? a : b->fd >= 0 ? b : NULL;
}

static uint64_t start_pos(const struct spool_segment *g)
{
	return g->start[0] + g->start[1];
}

static void move_to(struct spool_cursor *c, const struct spool_segment *g)
{
	const uint64_t pos = start_pos(g);

	if (pos > c->pos)
		c->dropped += pos - c->pos;
	c->pos = pos > c->pos ? pos : c->pos;
	c->seq = g->seq;
	c->at = SPOOL_HEAD;
	c->part = 0;
}

void cursor_begin(const struct spool_output *o, struct spool_cursor *c)
{
	const struct spool_segment *g = oldest(o);

	*c = (struct spool_cursor){ .seq = UINT32_MAX };
	if (g)
		move_to(c, g);
}

/* The segment to read from: the cursor's, or the next one when that is used up or gone. */
static const struct spool_segment *find_place(const struct spool_output *o, struct spool_cursor *c)
{
	const struct spool_segment *g = segment_of(o, c->seq), *last = &o->segments[o->current];

	if (!g) {
		g = oldest(o);
		/* the older one was read, and what followed it is gone */
		if (g && c->seq != UINT32_MAX && g->seq < c->seq)
			g = last->seq > c->seq ? last : NULL;
		if (!g)
			return NULL;
		move_to(c, g);
	}
	if (c->at >= g->size && last->fd >= 0 && g != last) {
		g = last;
		move_to(c, g);
	}
	return g;
}

size_t cursor_read(const struct spool_output *o, struct spool_cursor *c, uint8_t *buf, size_t cap)
{
	const struct spool_segment *g = find_place(o, c);
	ssize_t n;

	if (!g || c->at >= g->size) {
		/* bytes that were never kept, behind all that were */
		const uint64_t end = output_pos(o);

		if (end > c->pos) {
			c->dropped += end - c->pos;
			c->pos = end;
		}
		return 0;
	}
	if (cap > g->size - c->at)
		cap = (size_t)(g->size - c->at);
	n = pread(g->fd, buf, cap, (off_t)c->at);
	return n > 0 ? (size_t)n : 0;
}

bool record_next(const struct spool_cursor *c, const uint8_t *buf, size_t n, size_t *at,
	unsigned *ret_lane, const uint8_t **ret_p, size_t *ret_n)
{
	struct record r;

	if (n - *at < sizeof r)
		return false;
	memcpy(&r, buf + *at, sizeof r);
	if (!record_valid(&r) || n - *at - sizeof r < r.length || c->part >= r.length)
		return false;
	*ret_lane = r.lane;
	*ret_p = buf + *at + sizeof r + c->part;
	*ret_n = r.length - c->part;
	*at += sizeof r + r.length;
	return true;
}

void cursor_skip(const struct spool_output *o, struct spool_cursor *c)
{
	const struct spool_segment *g = &o->segments[o->current];
	const uint64_t end = output_pos(o);

	if (g->fd >= 0) {
		c->seq = g->seq;
		c->at = g->size;
		c->part = 0;
	}
	c->dropped += end - c->pos;
	c->pos = end;
}

void cursor_used(struct spool_cursor *c, size_t n, size_t left)
{
	c->pos += n;
	if (left) {
		c->part += (uint32_t)n;
		return;
	}
	c->at += SPOOL_RECORD_HEAD + c->part + n;
	c->part = 0;
}
