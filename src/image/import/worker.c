/* Owns starting such a process and getting an answer out of it: a memory file that is read when it is dead. */
#include "image/import/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "image/image.h"

enum { MAX_REPLY = IMAGE_MAX_RECORD + 4096 };

/* A reply begins with 0, an error with its reason; then message and remedy, a NUL behind each. */
static void put_error(struct buf *out, const struct err *e)
{
	buf_clear(out);
	buf_printf(out, "%d", (int)e->reason);
	(void)buf_add(out, "", 1);
	buf_puts(out, e->message ?: "no memory for the message");
	(void)buf_add(out, "", 1);
	buf_puts(out, err_get_remedy(e));
	(void)buf_add(out, "", 1);
}

static void work(const struct guard *g, int reply_fd, worker_fn *fn, void *arg, pid_t parent)
{
	_cleanup_buf_ struct buf out = { .max = MAX_REPLY };
	_cleanup_err_ struct err e = ERR_INIT;
	struct guard with = *g;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	(void)signal(SIGPIPE, SIG_IGN);
	with.keep[with.n_keep++] = reply_fd;
	(void)buf_add(&out, "0", 2);
	if (guard_enter(&with, &e) < 0 || fn(arg, &out, &e) < 0)
		put_error(&out, &e);
	_exit(out.failed || write_all(reply_fd, out.data, out.len) < 0);
}

int worker_start(struct worker *w, const struct guard *g, worker_fn *fn, void *arg, struct err *e)
{
	_cleanup_close_ int reply = memfd_create("reply", MFD_CLOEXEC);
	pid_t parent = getpid(), pid = reply < 0 ? -1 : fork();

	if (pid < 0)
		return err_set(e, R_NO_MEMORY, errno, "start a process that reads the image");
	if (pid == 0)
		work(g, reply, fn, arg, parent);
	*w = (struct worker){ pid, move_fd(&reply) };
	return 0;
}

/* The next of the reply's texts, NULL when there is none. */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at;
	const char *nul = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;

	if (!nul)
		return NULL;
	*at = nul + 1;
	return text;
}

static int take_reply(int fd, struct buf *reply, struct err *e)
{
	_cleanup_buf_ struct buf all = { .max = MAX_REPLY };
	_cleanup_err_ struct err ignored = ERR_INIT;
	const char *at, *end, *text, *message, *remedy;
	uint64_t reason = 0;

	if (lseek(fd, 0, SEEK_SET) < 0 || read_all(fd, &all) < 0 || !all.data)
		return err_set(e, R_IO_FAILED, errno, "read what became of the image");
	at = all.data;
	end = at + all.len;
	text = next_text(&at, end);
	if (!text || parse_u64(text, 0, REASON_MAX - 1, "reason", &reason, &ignored) < 0)
		return err_set(e, R_IO_FAILED, 0, "read what became of the image: no answer");
	if (!reason)
		return !reply || buf_add(reply, at, (size_t)(end - at))
			? 0
			: err_set(e, R_NO_MEMORY, ENOMEM, "read what became of the image");
	message = next_text(&at, end);
	remedy = next_text(&at, end);
	(void)err_set(e, (enum reason)reason, 0, "%s", message ?: "no message");
	return remedy ? err_remedy(e, "%s", remedy) : -1;
}

static int died(int status, struct err *e)
{
	if (WIFEXITED(status))
		return err_set(e, R_IO_FAILED, 0, "read the image: its reader gave no answer");
	(void)err_set(e, R_IO_FAILED, 0, "read the image: its reader was ended by signal %d",
		WTERMSIG(status));
	return err_remedy(e,
		"Import it again; if that ends in the same way, the image is damaged or hostile.");
}

int worker_finish(struct worker *w, struct buf *reply, struct err *e)
{
	const bool unwanted = e->reason != REASON_NONE;
	int status = 0, r = -1;

	if (w->pid <= 0)
		return unwanted ? -1 : 0;
	if (unwanted)
		(void)kill(w->pid, SIGKILL);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!unwanted)
		r = WIFEXITED(status) && WEXITSTATUS(status) == 0
			? take_reply(w->reply_fd, reply, e)
			: died(status, e);
	w->pid = 0;
	w->reply_fd = close_fd(w->reply_fd);
	return r;
}
