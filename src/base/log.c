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

#define NAME "bailey.jsonl"

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
	*ret = xasprintf("%s/" NAME, dir);
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
	int of_year = (int)(of_era - (365 * year + year / 4 - year / 100)),
	    month = (5 * of_year + 2) / 153;

	return (struct date){ .year = year + era * 400 + (month >= 10),
		.month = month < 10 ? month + 3 : month - 9,
		.day = of_year - (153 * month + 2) / 5 + 1 };
}

void json_time(struct json *j, const char *key)
{
	struct timespec now;
	char text[64];
	struct date d;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	d = date_of(now.tv_sec / 86400);
	json_string(j, key,
		FMT(text, "%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ", (long long)d.year, d.month,
			d.day, (int)(now.tv_sec / 3600 % 24), (int)(now.tv_sec / 60 % 60),
			(int)(now.tv_sec % 60), (int)(now.tv_nsec / 1000000)));
}

/* Renames a full log aside under a lock on the file itself; losing the race just means that another did it. */
static void rotate(int dir, int fd)
{
	struct stat st, now;

	if (fstat(fd, &st) < 0 || st.st_size < LOG_MAX_BYTES || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	if (fstatat(dir, NAME, &now, AT_SYMLINK_NOFOLLOW) < 0 || now.st_ino != st.st_ino ||
		now.st_dev != st.st_dev)
		return;
	(void)renameat(dir, NAME, dir, NAME ".1");
}

/* A sandbox may have had the directory: what somebody put in its place is not followed, and no file of another's gets a
 * line. */
static int open_dir(int *ret, char **ret_path, struct err *e)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_free_ char *home = NULL, *path = NULL;
	_cleanup_close_ int dir = -1;
	struct stat st;

	if (home_path(&home, e) < 0)
		return -1;
	path = xasprintf("%s/log", home);
	dir = open(path, flags);
	if (dir < 0 && errno == ENOENT) {
		free(move_ptr(path));
		if (home_subdir("log", &path, e) < 0)
			return -1;
		dir = open(path, flags);
	}
	if (dir < 0 || fstat(dir, &st) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open log directory '%s'", path);
	if (st.st_uid != geteuid())
		return err_set(e, R_STATE_UNWRITABLE, 0,
			"open log directory '%s': it belongs to uid '%u', not '%u'", path,
			st.st_uid, geteuid());
	*ret = move_fd(&dir);
	*ret_path = move_ptr(path);
	return 0;
}

static int append(const struct buf *line, struct err *e)
{
	_cleanup_close_ int dir = -1, fd = -1;
	_cleanup_free_ char *path = NULL;
	struct stat st;

	if (open_dir(&dir, &path, e) < 0)
		return -1;
	/* O_NONBLOCK: a pipe that nobody reads is refused, and a file doesn't care */
	fd = openat(dir, NAME, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, R_STATE_UNWRITABLE, errno, "open log '%s/" NAME "'", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1)
		return err_set(e, R_STATE_UNWRITABLE, 0,
			"open log '%s/" NAME "': not a file of ours with one name", path);
	if (write_all(fd, line->data, line->len) < 0)
		return err_set(e,
			errno == ENOSPC || errno == EDQUOT ? R_DISK_FULL : R_STATE_UNWRITABLE,
			errno, "write log '%s/" NAME "'", path);
	rotate(dir, fd);
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
	json_time(&j, "time");
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
			(void)fprintf(stderr, "bailey: log: %s [%s]\n",
				e.message ?: "line too long", reason_name(e.reason));
		complained = true;
	}
}
