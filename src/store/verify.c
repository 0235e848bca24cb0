/* Reads the audit log and says whether each line follows from the one before it.  Called by `bailey audit verify`. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/home.h"
#include "base/str.h"
#include "store/chain.h"
#include "store/files.h"

static int by_number(const void *a, const void *b)
{
	const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

int audit_list_files(int dir, struct audit_files *ret, struct err *e)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(cleanup_closedir) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!d) {
		(void)close_fd(fd);
		return err_set(e, R_STATE_UNWRITABLE, errno, "list the audit log's files");
	}
	ret->n = 0;
	while ((entry = readdir(d))) {
		const unsigned number = audit_file_number(entry->d_name);

		if (!number)
			continue;
		if (ret->n == AUDIT_MAX_FILES)
			return err_set(e, R_AUDIT_BROKEN, 0,
				"list the audit log's files: there are over %d", AUDIT_MAX_FILES);
		ret->number[ret->n++] = number;
	}
	qsort(ret->number, ret->n, sizeof ret->number[0], by_number);
	return 0;
}

/* --- one file --- */

struct reading {
	struct audit_report *report;
	const char *name;
	uint64_t line; /* of this file */
	bool torn;     /* the line before is no whole one: the next must say so */
	bool cut;      /* the file ends in the middle of a line */
	uint64_t torn_bytes;
	const char *torn_why;
};

static int broken(const struct reading *r, const char *why, struct err *e)
{
	return err_set(e, R_AUDIT_BROKEN, 0, "verify '%s': line %llu: %s", r->name,
		(unsigned long long)r->line, why);
}

/* A line that was cut short counts only with the one that its next writer put behind it. */
static int take_bad(struct reading *r, size_t n, const char *why, struct err *e)
{
	if (r->torn)
		return broken(r, why, e);
	r->torn = true;
	r->torn_bytes = n;
	r->torn_why = why;
	return 0;
}

static bool owns_up(const struct reading *r, const char *line)
{
	char want[96];

	FMT(want, "\"event\":\"audit_recovered\",\"details\":{\"bytes\":%llu},",
		(unsigned long long)r->torn_bytes);
	return strstr(line, want) != NULL;
}

static int take_line(struct reading *r, const char *line, size_t n, struct err *e)
{
	struct audit_report *report = r->report;
	struct audit_place place;
	const char *wrong = audit_read_line(line, n, &place);

	r->line++;
	if (wrong)
		return take_bad(r, n, wrong, e);
	if (r->torn && !owns_up(r, line)) {
		r->line--;
		return broken(r, r->torn_why, e);
	}
	if (place.seq != report->last_seq + 1)
		return broken(r, "its number does not follow: lines are missing or were put in", e);
	if (memcmp(place.prev, report->last_hash, AUDIT_HASH) != 0)
		return broken(r, "it does not follow from the line before", e);
	report->recovered += r->torn;
	r->torn = false;
	report->last_seq = place.seq;
	memcpy(report->last_hash, place.hash, sizeof place.hash);
	report->lines++;
	return 0;
}

static int take_lines(struct reading *r, FILE *f, struct err *e)
{
	char line[2 * AUDIT_LINE];

	while (fgets(line, sizeof line, f)) {
		size_t n = strlen(line);
		const bool whole = n && line[n - 1] == '\n';

		if (whole)
			line[--n] = '\0';
		else if (!feof(f))
			return broken(r, "it is too long", e);
		if (take_line(r, line, n, e) < 0)
			return -1;
		if (!whole && !r->torn)
			return broken(r, "it has no end", e);
		r->cut = !whole;
	}
	if (ferror(f))
		return err_set(e, R_IO_FAILED, errno, "read '%s'", r->name);
	return 0;
}

static int take_file(
	int dir, const char *name, struct audit_report *report, bool last, struct err *e)
{
	struct reading r = { .report = report, .name = name };
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_(cleanup_fclose) FILE *f = NULL;
	struct stat st;

	if (fd < 0 && errno == ENOENT && last)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(f = fdopen(fd, "r"))) {
		(void)close_fd(fd);
		return err_set(e, R_AUDIT_BROKEN, errno, "open '%s'", name);
	}
	report->files++;
	if (take_lines(&r, f, e) < 0)
		return -1;
	/* the newest file may end in a line that is being written, or whose writer was stopped: the next one says so */
	if (r.torn && !(last && r.cut))
		return broken(&r, r.torn_why, e);
	return 0;
}

int audit_verify(struct audit_report *ret, struct err *e)
{
	struct audit_report report = { .files = 0 };
	_cleanup_free_ struct audit_files *files = xcalloc(1, sizeof *files);
	_cleanup_free_ char *home = NULL;
	_cleanup_close_ int dir = -1;
	char name[64];

	memcpy(report.last_hash, audit_no_hash, sizeof report.last_hash);
	if (home_path(&home, e) < 0)
		return -1;
	dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 && errno != ENOENT)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open '%s'", home);
	if (dir >= 0 && audit_list_files(dir, files, e) < 0)
		return -1;
	for (unsigned i = 0; i < files->n; i++)
		if (files->number[i] != files->number[0] + i)
			return err_set(e, R_AUDIT_BROKEN, 0,
				"verify the audit log: file '" AUDIT_FULL "' is missing",
				files->number[0] + i);
	for (unsigned i = 0; i < files->n; i++)
		if (take_file(dir, FMT(name, AUDIT_FULL, files->number[i]), &report, false, e) < 0)
			return -1;
	if (dir >= 0 && take_file(dir, AUDIT_NAME, &report, true, e) < 0)
		return -1;
	*ret = report;
	return 0;
}
