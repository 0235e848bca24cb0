/* Owns reading tars through libarchive.  Two readers behind each other, one for the compression and one for the tar, so
 * that the bytes between them can be digested (the diff id of a layer) and a bomb is seen where it unfolds. */
#include "image/import/stream.h"

#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "image/import/digest.h"

enum { STREAM_BUFFER = 256 << 10 };

struct stream {
	int fd;
	const struct limits *limits;
	struct archive *raw, *tar;
	struct digest packed, plain;
	uint64_t packed_bytes, plain_bytes;
	bool plain_end, pad;
	struct err e; /* of a callback: libarchive carries only text */
	char buffer[STREAM_BUFFER];
};

/* libarchive's own words say where; ours say why it was ended. */
static int failed(struct stream *s, struct archive *a, const char *what, struct err *e)
{
	const char *text = archive_error_string(a);

	if (s->e.reason)
		return err_move(e, &s->e);
	return err_set(e, archive_errno(a) == ENOMEM ? R_NO_MEMORY : R_ARCHIVE_REFUSED, 0,
		"%s: %.200s", what, text ?: "damaged");
}

static la_ssize_t read_packed(struct archive *a, void *arg, const void **ret)
{
	struct stream *s = arg;
	ssize_t n;

	do
		n = read(s->fd, s->buffer, sizeof s->buffer);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		(void)err_set(&s->e, R_ARCHIVE_REFUSED, errno, "read the archive");
		archive_set_error(a, EIO, "read");
		return ARCHIVE_FATAL;
	}
	digest_add(&s->packed, s->buffer, (size_t)n);
	s->packed_bytes += (uint64_t)n;
	*ret = s->buffer;
	return n;
}

static int check_limits(struct stream *s)
{
	if (s->plain_bytes > s->limits->max_bytes)
		return err_set(&s->e, R_ARCHIVE_TOO_LARGE, 0, "unpack the archive: over %llu bytes",
			(unsigned long long)s->limits->max_bytes);
	if (s->plain_bytes > LIMIT_RATIO_FREE && s->plain_bytes / LIMIT_RATIO > s->packed_bytes) {
		(void)err_set(&s->e, R_ARCHIVE_TOO_LARGE, 0,
			"unpack the archive: it grows by more than %d times", LIMIT_RATIO);
		return err_remedy(
			&s->e, "Unpack the archive yourself, look at it, and import the result.");
	}
	return 0;
}

static la_ssize_t read_plain(struct archive *a, void *arg, const void **ret)
{
	static const char zeros[512];
	struct stream *s = arg;
	la_int64_t offset;
	size_t n = 0;
	int r;

	if (s->plain_end)
		return 0;
	do /* an empty block would be taken for the end */
		r = archive_read_data_block(s->raw, ret, &n, &offset);
	while (r == ARCHIVE_OK && !n);
	if (r == ARCHIVE_EOF) {
		s->plain_end = true;
		*ret = zeros;
		return s->pad ? (la_ssize_t)(-s->plain_bytes % sizeof zeros) : 0;
	}
	if (r < ARCHIVE_WARN) {
		if (!s->e.reason)
			(void)failed(s, s->raw, "unpack the archive", &s->e);
		archive_set_error(a, EIO, "unpack");
		return ARCHIVE_FATAL;
	}
	digest_add(&s->plain, *ret, n);
	s->plain_bytes += n;
	if (check_limits(s) < 0) {
		archive_set_error(a, EFBIG, "too large");
		return ARCHIVE_FATAL;
	}
	return (la_ssize_t)n;
}

static int open_raw(struct stream *s, struct err *e)
{
	struct archive_entry *entry;
	int r;

	s->raw = archive_read_new();
	if (!s->raw)
		return err_set(e, R_NO_MEMORY, ENOMEM, "read the archive");
	if (archive_read_support_filter_gzip(s->raw) < ARCHIVE_WARN ||
		archive_read_support_filter_zstd(s->raw) < ARCHIVE_WARN ||
		archive_read_support_format_raw(s->raw) != ARCHIVE_OK ||
		archive_read_support_format_empty(s->raw) != ARCHIVE_OK ||
		archive_read_open2(s->raw, s, NULL, read_packed, NULL, NULL) != ARCHIVE_OK)
		return failed(s, s->raw, "read the archive", e);
	r = archive_read_next_header(s->raw, &entry);
	if (r == ARCHIVE_EOF)
		return err_set(e, R_ARCHIVE_REFUSED, 0, "read the archive: it is empty");
	return r < ARCHIVE_WARN ? failed(s, s->raw, "read the archive", e) : 0;
}

static int open_tar(struct stream *s, struct err *e)
{
	s->tar = archive_read_new();
	if (!s->tar)
		return err_set(e, R_NO_MEMORY, ENOMEM, "read the archive");
	if (archive_read_support_format_tar(s->tar) != ARCHIVE_OK ||
		archive_read_open2(s->tar, s, NULL, read_plain, NULL, NULL) != ARCHIVE_OK)
		return failed(s, s->tar, "read the archive", e);
	return 0;
}

int stream_open(struct stream **ret, int fd, const struct limits *limits, struct err *e)
{
	struct stream *s = xcalloc(1, sizeof *s);

	s->fd = fd;
	s->limits = limits;
	digest_init(&s->packed);
	digest_init(&s->plain);
	if (open_raw(s, e) < 0 || open_tar(s, e) < 0) {
		stream_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void stream_allow_short(struct stream *s)
{
	s->pad = true;
}

int stream_next(struct stream *s, struct archive_entry **ret, struct err *e)
{
	int r = archive_read_next_header(s->tar, ret);

	if (r == ARCHIVE_EOF) {
		*ret = NULL;
		return 0;
	}
	/* a damaged header could be skipped (ARCHIVE_RETRY), but then something would be missing */
	return r < ARCHIVE_WARN ? failed(s, s->tar, "read the archive", e) : 0;
}

int stream_data(
	struct stream *s, const void **ret, size_t *ret_n, uint64_t *ret_offset, struct err *e)
{
	la_int64_t offset = 0;
	int r = archive_read_data_block(s->tar, ret, ret_n, &offset);

	if (r == ARCHIVE_EOF) {
		*ret_n = 0;
		return 0;
	}
	if (r < ARCHIVE_WARN || offset < 0)
		return failed(s, s->tar, "read the archive", e);
	*ret_offset = (uint64_t)offset;
	return 0;
}

static enum compression compression_of(struct stream *s)
{
	/* the last filter is always 'none' */
	int code = archive_filter_count(s->raw) > 1 ? archive_filter_code(s->raw, 0)
						    : ARCHIVE_FILTER_NONE;

	return code == ARCHIVE_FILTER_GZIP    ? COMPRESSION_GZIP
		: code == ARCHIVE_FILTER_ZSTD ? COMPRESSION_ZSTD
					      : COMPRESSION_NONE;
}

int stream_finish(struct stream *s, struct stream_end *ret, struct err *e)
{
	const void *p;
	la_ssize_t n;

	while ((n = read_plain(s->tar, s, &p)) > 0)
		;
	/* what the compression left unread still counts for the digest */
	while (n == 0 && (n = read_packed(s->raw, s, &p)) > 0)
		n = 0;
	if (n < 0)
		return failed(s, s->tar, "read the archive", e);
	digest_hex(&s->packed, ret->packed);
	digest_hex(&s->plain, ret->plain);
	ret->packed_bytes = s->packed_bytes;
	ret->compression = compression_of(s);
	return 0;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	if (s->tar)
		(void)archive_read_free(s->tar);
	if (s->raw)
		(void)archive_read_free(s->raw);
	err_done(&s->e);
	free(s);
}
