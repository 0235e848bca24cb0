/* Owns the verbs that need nothing but the store: import, ls, inspect, rm. */
#include "image/import/verbs.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "image/import/describe.h"

int verb_limits(const struct arguments *a, struct limits *ret, struct err *e)
{
	*ret = (struct limits){ .max_bytes = LIMIT_BYTES_DEFAULT };
	return a->max_size
		? parse_size(a->max_size, 1, (uint64_t)1 << 46, "--max-size", &ret->max_bytes, e)
		: 0;
}

void verb_say(const struct arguments *a, const struct image *i, struct buf *out)
{
	if (a->json)
		describe_image(i, out);
	else
		buf_printf(out, "%s\n", i->name);
}

int verb_flush(struct buf *out, struct err *e)
{
	if (out->failed)
		return err_set(e, R_NO_MEMORY, ENOMEM, "make room for the output");
	if (write_all(STDOUT_FILENO, out->data ?: "", out->len) < 0)
		return err_set(e, R_OUTPUT_FAILED, errno, "write to standard output");
	buf_clear(out);
	return 0;
}

int verb_import(const struct arguments *a, struct buf *out, struct err *e)
{
	_cleanup_store_ struct store store;
	_cleanup_source_ struct source source;
	_cleanup_image_ struct image image;
	_cleanup_free_ char *full = realpath(a->words[0], NULL); /* "." has a name too */
	struct import how = { .name = a->name, .reference = a->ref, .replace = a->replace };

	store_init(&store);
	source_init(&source);
	image_init(&image);
	how.fallback = streq(a->words[0], "-") ? NULL : full;
	if ((a->name && image_check_name(a->name, e) < 0) || verb_limits(a, &how.limits, e) < 0 ||
		store_open(&store, true, e) < 0 || source_open(&source, a->words[0], e) < 0 ||
		import_image(&store, &source, &how, &image, e) < 0)
		return -1;
	verb_say(a, &image, out);
	return 0;
}

/* "1.5 GiB"; exact bytes are in --json. */
static const char *show_size(uint64_t bytes, char ret[static 24])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	uint64_t tenths = bytes * 10;
	unsigned u = 0;

	if (bytes >> 50)
		return str_format(ret, 24, "%llu TiB", (unsigned long long)(bytes >> 40));
	for (; u < 4 && tenths >= 10240; u++)
		tenths /= 1024;
	return str_format(ret, 24, "%llu.%llu %s", (unsigned long long)(tenths / 10),
		(unsigned long long)(tenths % 10), units[u]);
}

static void show_time(uint64_t ms, char ret[static 24])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(ret, 24, "%Y-%m-%dT%H:%M:%SZ", &tm))
		str_format(ret, 24, "-");
}

static void add_row(struct buf *out, const struct image *i)
{
	char size[24], when[24];

	show_time(i->imported_ms, when);
	buf_printf(out, "%-32s %.12s  %10s  %s  %s\n", i->name, image_digest_hex(i->id),
		show_size(i->size_bytes, size), when, i->source ?: "-");
}

static int list(const struct arguments *a, const struct store *s, const struct image_list *names,
	struct buf *out, struct err *e)
{
	bool first = true;

	for (unsigned n = 0; n < names->n; n++) {
		_cleanup_image_ struct image i;

		image_init(&i);
		if (image_read(s->refs, names->v[n], &i, e) < 0) {
			if (e->reason != R_IMAGE_NOT_FOUND)
				return -1;
			err_done(e); /* removed meanwhile */
			continue;
		}
		if (a->json)
			describe_next(&i, first, out);
		else
			add_row(out, &i);
		first = false;
	}
	return 0;
}

int verb_ls(const struct arguments *a, struct buf *out, struct err *e)
{
	_cleanup_store_ struct store store;
	struct image_list names = { NULL, 0 };
	int r;

	store_init(&store);
	if (store_open(&store, false, e) < 0)
		return -1;
	r = store_names(&store, &names, e);
	if (a->json)
		describe_begin(out);
	else if (r == 0)
		buf_printf(out, "%-32s %-12s  %10s  %-20s  %s\n", "NAME", "ID", "SIZE", "IMPORTED",
			"FROM");
	if (r == 0)
		r = list(a, &store, &names, out, e);
	if (a->json)
		describe_end(out);
	image_list_done(&names);
	return r;
}

/* A value of a hostile image on a terminal: printable ASCII as it is, the rest by number. */
static void add_escaped(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		if ((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f && *p != '\\')
			buf_add(out, p, 1);
		else
			buf_printf(out, "\\x%02x", (unsigned char)*p);
	}
}

static void show_TEXT(struct buf *out, const char *key, const image_TEXT *v)
{
	if (!*v)
		return;
	buf_printf(out, "%-16s ", key);
	add_escaped(out, *v);
	buf_puts(out, "\n");
}

static void show_NUMBER(struct buf *out, const char *key, const image_NUMBER *v)
{
	buf_printf(out, "%-16s %llu\n", key, (unsigned long long)*v);
}

static void show_FLAG(struct buf *out, const char *key, const image_FLAG *v)
{
	buf_printf(out, "%-16s %s\n", key, *v ? "yes" : "no");
}

static void show_LIST(struct buf *out, const char *key, const image_LIST *v)
{
	for (unsigned i = 0; i < v->n; i++)
		show_TEXT(out, key, &v->v[i]);
}

static void show_image(struct buf *out, const struct image *i)
{
	show_TEXT(out, "name", &i->name);
#define FIELD(kind, member, meaning) show_##kind(out, #member, &i->member);
#include "image/record.def"
#undef FIELD
}

int verb_inspect(const struct arguments *a, struct buf *out, struct err *e)
{
	_cleanup_store_ struct store store;
	_cleanup_image_ struct image i;

	store_init(&store);
	image_init(&i);
	if (store_open(&store, false, e) < 0 || image_read(store.refs, a->words[0], &i, e) < 0)
		return -1;
	if (a->json)
		describe_image(&i, out);
	else
		show_image(out, &i);
	return 0;
}

/* Each of them; the first failure is the answer, and the others are removed all the same. */
int verb_rm(const struct arguments *a, struct buf *out, struct err *e)
{
	_cleanup_store_ struct store store;
	struct image_list removed = { NULL, 0 };
	int r = 0;

	store_init(&store);
	if (store_open(&store, true, e) < 0)
		return -1;
	for (int n = 0; n < a->n_words; n++) {
		_cleanup_err_ struct err why = ERR_INIT;

		if (store_remove(&store, a->words[n], &why) == 0)
			(void)image_list_add(&removed, a->words[n]);
		else if (r == 0)
			r = err_move(e, &why);
	}
	if (a->json && r == 0)
		describe_names("removed", &removed, out);
	image_list_done(&removed);
	return r;
}
