/* Owns the log file: opened per line, so that rotation by any process is safe and nothing is held by idle ones. */
#include "base/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/json.h"
#include "base/str.h"

static const char *const levels[] = { "debug", "info", "warning", "error" };

const char *log_level_name(enum log_level level)
{
	return levels[level];
}

int log_path(char **ret, struct err *e)
{
	_cleanup_free_ char *dir = NULL;

	if (home_subdir("log", &dir, e) < 0)
		return -1;
	*ret = xasprintf("%s/bailey.jsonl", dir);
	return 0;
}

struct date {
	int64_t year;
	int month, day;
};

/* Days since 1970-01-01 to a date of the Gregorian calendar, with years that begin in March so that the leap day comes
 * last.  Not gmtime_r: it reads the host's time zone file, 40 us of every run. */
static struct date date_of(int64_t days)
{
	int64_t z = days + 719468, era = z / 146097, of_era = z % 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int of_year = (int)(of_era - (365 * year + year / 4 - year / 100)), month = (5 * of_year + 2) / 153;

	return (struct date){ .year = year + era * 400 + (month >= 10), .month = month < 10 ? month + 3 : month - 9,
		.day = of_year - (153 * month + 2) / 5 + 1 };
}

static void put_time(struct json *j)
{
	struct timespec now;
	char text[64];
	struct date d;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	d = date_of(now.tv_sec / 86400);
	json_string(j, "time",
		FMT(text, "%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ", (long long)d.year, d.month, d.day,
			(int)(now.tv_sec / 3600 % 24), (int)(now.tv_sec / 60 % 60), (int)(now.tv_sec % 60),
			(int)(now.tv_nsec / 1000000)));
}

/* Renames a full log aside under a lock on the file itself; losing the race just means that another did it. */
static void rotate(int fd, const char *path)
{
	_cleanup_free_ char *old = NULL;
	struct stat st, now;

	if (fstat(fd, &st) < 0 || st.st_size < LOG_MAX_BYTES || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	if (stat(path, &now) < 0 || now.st_ino != st.st_ino || now.st_dev != st.st_dev)
		return;
	old = xasprintf("%s.1", path);
	(void)rename(path, old);
}

static int append(const struct buf *line, struct err *e)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
	_cleanup_free_ char *home = NULL, *path = NULL;
	_cleanup_close_ int fd = -1;

	if (home_path(&home, e) < 0)
		return -1;
	path = xasprintf("%s/log/bailey.jsonl", home);
	fd = open(path, flags, 0600);
	if (fd < 0 && errno == ENOENT) {
		free(move_ptr(path));
		if (log_path(&path, e) < 0)
			return -1;
		fd = open(path, flags, 0600);
	}
	if (fd < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open log '%s'", path);
	if (write_all(fd, line->data, line->len) < 0)
		return err_set(e, errno == ENOSPC || errno == EDQUOT ? R_DISK_FULL : R_STATE_UNWRITABLE, errno,
			"write log '%s'", path);
	rotate(fd, path);
	return 0;
}

void log_event(enum log_level level, const char *event, ...)
{
	static bool complained;
	_cleanup_err_ struct err e = ERR_INIT;
	_cleanup_buf_ struct buf line = BUF_INIT;
	struct json j;
	va_list ap;

	json_init(&j, &line);
	json_object_begin(&j, NULL);
	put_time(&j);
	json_string(&j, "level", levels[level]);
	json_string(&j, "event", event);
	json_int(&j, "pid", getpid());
	va_start(ap, event);
	for (unsigned n = 0; n < LOG_MAX_FIELDS; n++) {
		const char *name = va_arg(ap, const char *);

		if (!name)
			break;
		json_string(&j, name, va_arg(ap, const char *));
	}
	va_end(ap);
	json_object_end(&j);
	buf_puts(&line, "\n");
	if (line.failed || append(&line, &e) < 0) {
		if (!complained)
			(void)fprintf(stderr, "bailey: log: %s [%s]\n", e.message ?: "line too long", reason_name(e.reason));
		complained = true;
	}
}
