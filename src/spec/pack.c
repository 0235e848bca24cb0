/* Owns the form in which a request for a sandbox travels between two processes of one version.  Called by libbailey and by the
 * engine's process.
 *
 * One walk over the fields serves both directions.  Must hold: what comes out of pack_get() passed spec_check(), every string
 * ends inside its array, every descriptor has one owner. */
#include "spec/pack.h"

#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/str.h"

enum { MAGIC = 0x4b504c42, FORMAT = 2 };

struct walk {
	struct buf *out; /* packing; NULL: unpacking */
	const uint8_t *p;
	size_t left;
	int *fds;
	unsigned n_fds, at_fd;
	bool bad;
};

static void bytes(struct walk *w, void *p, size_t n)
{
	if (w->out) {
		(void)buf_add(w->out, p, n);
	} else if (w->left < n) {
		w->bad = true;
		memset(p, 0, n);
	} else {
		memcpy(p, w->p, n);
		w->p += n;
		w->left -= n;
	}
}

static void u64(struct walk *w, uint64_t *v)
{
	bytes(w, v, sizeof *v);
}

static void u32(struct walk *w, uint32_t *v)
{
	bytes(w, v, sizeof *v);
}

static void flag(struct walk *w, bool *v)
{
	uint8_t byte = *v;

	bytes(w, &byte, 1);
	w->bad = w->bad || byte > 1;
	*v = byte == 1;
}

/* A string in an array of cap bytes. */
static void text(struct walk *w, char *s, size_t cap)
{
	uint32_t n = (uint32_t)strnlen(s, cap);

	w->bad = w->bad || n == cap;
	u32(w, &n);
	if (w->bad || n >= cap) {
		w->bad = true;
		*s = '\0';
		return;
	}
	bytes(w, s, n);
	s[n] = '\0';
	w->bad = w->bad || strlen(s) != n;
}

static void descriptor(struct walk *w, int *fd)
{
	bool there = *fd >= 0;

	flag(w, &there);
	if (!there) {
		*fd = -1;
	} else if (w->at_fd == w->n_fds) {
		w->bad = true;
		*fd = -1;
	} else if (w->out) {
		w->fds[w->at_fd++] = *fd;
	} else {
		*fd = move_fd(&w->fds[w->at_fd++]);
	}
}

static void bind_fields(struct walk *w, struct spec_bind *b)
{
	uint32_t kind = b->kind;

	descriptor(w, &b->fd);
	u32(w, &kind);
	w->bad = w->bad || kind > BIND_SOCKET || b->fd < 0;
	b->kind = kind == BIND_SOCKET ? BIND_SOCKET : BIND_DIR;
	flag(w, &b->writable);
	flag(w, &b->cow);
	flag(w, &b->idmap);
	text(w, b->target, sizeof b->target);
	flag(w, &b->has_object);
	u64(w, &b->dev);
	u64(w, &b->ino);
}

static void tmpfs_fields(struct walk *w, struct spec_tmpfs *t)
{
	text(w, t->target, sizeof t->target);
	u64(w, &t->size);
	u64(w, &t->inodes);
	u32(w, &t->mode);
	flag(w, &t->owned);
}

static void limit_fields(struct walk *w, struct spec_limits *l)
{
	u64(w, &l->memory_bytes);
	u32(w, &l->cpu_millis);
	u32(w, &l->pids);
	u64(w, &l->timeout_ms);
	flag(w, &l->unlimited);
}

static void count(struct walk *w, unsigned *n, unsigned max)
{
	uint32_t v = *n;

	u32(w, &v);
	w->bad = w->bad || v > max;
	*n = w->bad ? 0 : v;
}

static void profile_fields(struct walk *w, struct sandbox_spec *s)
{
	uint32_t profile = s->profile;

	u32(w, &profile);
	w->bad = w->bad || profile >= SPEC_N_PROFILES;
	s->profile = w->bad ? SPEC_RUN : (enum spec_profile)profile;
	text(w, s->image_ref, sizeof s->image_ref);
	text(w, s->runtime, sizeof s->runtime);
	u32(w, &s->nofile);
	u32(w, &s->add_caps);
	flag(w, &s->init);
	u64(w, &s->log_bytes);
	u32(w, &s->log_files);
	text(w, s->tid, sizeof s->tid);
	text(w, s->model, sizeof s->model);
	u64(w, &s->deadline_ms);
}

static void spec_fields(struct walk *w, struct sandbox_spec *s)
{
	uint32_t workspace = (uint32_t)s->workspace;

	u32(w, &s->version);
	profile_fields(w, s);
	text(w, s->id, sizeof s->id);
	text(w, s->hostname, sizeof s->hostname);
	descriptor(w, &s->image_fd);
	descriptor(w, &s->image_lock_fd);
	limit_fields(w, &s->limits);
	count(w, &s->n_binds, SPEC_MAX_BINDS);
	for (unsigned i = 0; i < s->n_binds; i++)
		bind_fields(w, &s->binds[i]);
	count(w, &s->n_tmpfs, SPEC_MAX_TMPFS);
	for (unsigned i = 0; i < s->n_tmpfs; i++)
		tmpfs_fields(w, &s->tmpfs[i]);
	flag(w, &s->has_caller);
	u32(w, &s->caller_uid);
	u32(w, &s->caller_gid);
	u32(w, &s->uid);
	u32(w, &s->gid);
	text(w, s->home, sizeof s->home);
	text(w, s->workdir, sizeof s->workdir);
	flag(w, &s->session);
	flag(w, &s->read_only);
	u64(w, &s->disk_bytes);
	u64(w, &s->ttl_ms);
	u32(w, &workspace);
	s->workspace = (int)workspace;
	flag(w, &s->has_workspace_print);
	bytes(w, s->workspace_print, sizeof s->workspace_print);
	flag(w, &s->allow_setgid);
	flag(w, &s->terminal);
	flag(w, &s->model_relay);
}

static void request_fields(struct walk *w, struct pack_request *r)
{
	spec_fields(w, &r->spec);
	text(w, r->name, sizeof r->name);
	text(w, r->image, sizeof r->image);
	text(w, r->workspace, sizeof r->workspace);
	flag(w, &r->keep);
	u64(w, &r->spool_max);
}

void pack_done(struct pack_request *r)
{
	spec_done(&r->spec);
	free(r->memory);
	r->memory = NULL;
	r->spec.env = r->command = NULL;
}

bool pack_name_is_valid(const char *name)
{
	const size_t n = strlen(name);

	return n > 0 && n < PACK_NAME && !strchr("._-", *name) &&
		strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

/* --- lists of strings: their number, then each with its NUL --- */

static int put_list(struct walk *w, char *const *list, struct err *e)
{
	uint32_t n = 0;

	while (list && list[n])
		if (++n > PACK_MAX_STRINGS)
			return err_set(e, R_OUT_OF_RANGE, 0,
				"pass arguments or environment: over %d strings", PACK_MAX_STRINGS);
	u32(w, &n);
	for (char *const *s = list; s && *s; s++)
		(void)buf_add(w->out, *s, strlen(*s) + 1);
	return 0;
}

/* Fills *at, which has room for the pointers; the strings stay where they were copied to. */
static char *const *get_list(struct walk *w, char ***at)
{
	char **list = *at;
	uint32_t n = 0;

	u32(w, &n);
	w->bad = w->bad || n > PACK_MAX_STRINGS;
	for (uint32_t i = 0; !w->bad && i < n; i++) {
		union {
			const uint8_t *in;
			char *out;
		} s = { .in = w->p };
		const size_t len = strnlen((const char *)w->p, w->left);

		if (len == w->left) {
			w->bad = true;
			break;
		}
		*(*at)++ = s.out;
		w->p += len + 1;
		w->left -= len + 1;
	}
	*(*at)++ = NULL;
	return list;
}

int pack_put(const struct pack_request *r, struct buf *out, int ret_fds[static PACK_MAX_FDS],
	unsigned *ret_n, struct err *e)
{
	struct walk w = { .out = out, .fds = ret_fds, .n_fds = PACK_MAX_FDS };
	uint32_t magic = MAGIC, format = FORMAT;
	struct pack_request *copy = malloc(sizeof *copy);
	int result;

	if (!copy)
		return err_set(e, R_NO_MEMORY, ENOMEM, "ask for a sandbox");
	*copy = *r;
	u32(&w, &magic);
	u32(&w, &format);
	request_fields(&w, copy);
	free(copy);
	result = put_list(&w, r->spec.env, e);
	if (result == 0)
		result = put_list(&w, r->command, e);
	if (result == 0 && (w.bad || out->failed || out->len > PACK_MAX))
		result = err_set(e, R_OUT_OF_RANGE, 0,
			"ask for a sandbox: its description is over %d bytes, or a string is too long",
			PACK_MAX);
	*ret_n = w.at_fd;
	return result;
}

/* The strings are moved into memory of the request's own, behind room for the pointers to them. */
static void get_lists(struct walk *w, struct pack_request *r)
{
	/* each string takes a byte at least */
	const size_t pointers =
		(w->left < 2 * PACK_MAX_STRINGS ? w->left : 2 * PACK_MAX_STRINGS) + 2;
	char **at = xcalloc(1, pointers * sizeof *at + w->left + 1);
	uint8_t *copy = (uint8_t *)(at + pointers);

	r->memory = at;
	memcpy(copy, w->p, w->left);
	w->p = copy;
	r->spec.env = get_list(w, &at);
	r->command = get_list(w, &at);
	if (!r->command[0])
		r->command = NULL;
}

static int check(const struct pack_request *r, struct err *e)
{
	if (*r->name && !pack_name_is_valid(r->name))
		return err_set(e, R_BAD_VALUE, 0, "use name '%s': not of [a-z0-9][a-z0-9._-]{0,62}",
			r->name);
	if (str_has_control(r->image))
		return err_set(e, R_BAD_VALUE, 0, "use an image: its name has a control character");
	if (r->spool_max > PACK_MAX_SPOOL)
		return err_set(e, R_OUT_OF_RANGE, 0, "keep '%llu' bytes of output: over 1t",
			(unsigned long long)r->spool_max);
	if (!r->spec.session)
		return err_set(e, R_BAD_VALUE, 0, "create a sandbox: it is for one command");
	return spec_check(&r->spec, e);
}

int pack_get(
	const void *p, size_t n, int *fds, unsigned n_fds, struct pack_request *ret, struct err *e)
{
	struct walk w = { .p = p, .left = n, .fds = fds, .n_fds = n_fds };
	uint32_t magic = 0, format = 0;
	int r = 0;

	memset(ret, 0, sizeof *ret);
	spec_init(&ret->spec);
	u32(&w, &magic);
	u32(&w, &format);
	w.bad = w.bad || magic != MAGIC || format != FORMAT;
	if (!w.bad)
		request_fields(&w, ret);
	if (!w.bad)
		get_lists(&w, ret);
	if (w.bad || w.left || w.at_fd != n_fds)
		r = err_set(e, R_WIRE_MALFORMED, 0, "read what a sandbox is to be made from");
	else
		r = check(ret, e);
	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = close_fd(fds[i]);
	if (r < 0)
		pack_done(ret);
	return r;
}

/* --- over a socket --- */

int pack_send(int sock, const struct pack_request *r, struct err *e)
{
	_cleanup_buf_ struct buf out = { .max = PACK_MAX + 64 };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PACK_MAX_FDS * sizeof(int))];
	} control = { .bytes = { 0 } };
	int fds[PACK_MAX_FDS];
	uint32_t length = 0;
	struct iovec iov = { &length, sizeof length };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	unsigned n;

	if (pack_put(r, &out, fds, &n, e) < 0)
		return -1;
	length = (uint32_t)out.len;
	if (n) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
	}
	if (sendmsg(sock, &m, MSG_NOSIGNAL) != sizeof length)
		return err_set(e, R_ENGINE_LOST, errno, "ask the engine for a sandbox");
	for (size_t done = 0; done < out.len;) {
		ssize_t w = send(sock, out.data + done, out.len - done, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return err_set(e, R_ENGINE_LOST, errno, "ask the engine for a sandbox");
		done += (size_t)w;
	}
	return 0;
}

static int take_fds(struct msghdr *m, int fds[static PACK_MAX_FDS], unsigned *n)
{
	bool too_many = m->msg_flags & MSG_CTRUNC;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const size_t have = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < have; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (*n < PACK_MAX_FDS) {
				fds[(*n)++] = fd;
			} else {
				(void)close_fd(fd);
				too_many = true;
			}
		}
	}
	return too_many ? -1 : 0;
}

static int receive_all(int sock, void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = recv(sock, (uint8_t *)p + done, n - done, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		done += (size_t)r;
	}
	return 0;
}

int pack_receive(int sock, struct pack_request *ret, struct err *e)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PACK_MAX_FDS * sizeof(int))];
	} control;
	uint32_t length = 0;
	struct iovec iov = { &length, sizeof length };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes };
	_cleanup_free_ uint8_t *data = NULL;
	int fds[PACK_MAX_FDS];
	unsigned n = 0;
	bool good;

	good = recvmsg(sock, &m, MSG_WAITALL | MSG_CMSG_CLOEXEC) == sizeof length;
	good = take_fds(&m, fds, &n) == 0 && good && length <= PACK_MAX;
	if (good) {
		data = malloc(length + 1u);
		good = data && receive_all(sock, data, length) == 0;
	}
	if (good)
		return pack_get(data, length, fds, n, ret, e);
	for (unsigned i = 0; i < n; i++)
		(void)close_fd(fds[i]);
	return err_set(e, R_WIRE_MALFORMED, 0, "read what a sandbox is to be made from");
}
