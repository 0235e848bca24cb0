/* Owns standard output for the verbs that print something of their own.  Called by every verb but `run`, whose output is
 * the command's. */
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "door/cli/verb.h"

int cli_write(const struct buf *b, struct err *e)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	int r, saved;

	if (b->failed)
		return err_set(e, R_NO_MEMORY, ENOMEM, "make room for the output");
	(void)sigaction(SIGPIPE, &ignore, &before);
	r = write_all(STDOUT_FILENO, b->data ?: "", b->len);
	saved = errno;
	(void)sigaction(SIGPIPE, &before, NULL);
	if (r < 0)
		return err_set(e, R_OUTPUT_FAILED, saved, "write to standard output");
	return 0;
}

void cli_take_interrupts(void)
{
	(void)signal(SIGINT, SIG_DFL);
}

int cli_wait(int ms, struct err *e)
{
	/* asks for nothing: a reader that goes away shows as POLLERR */
	struct pollfd out = { .fd = STDOUT_FILENO };

	if (poll(&out, 1, ms) > 0 && out.revents & (POLLERR | POLLNVAL))
		return err_set(
			e, R_OUTPUT_FAILED, 0, "write to standard output: its reader has gone");
	return 0;
}

/* Length of the sequence at s if it is well-formed and shown by terminals as itself, else 0. */
static size_t printable(const char *s, size_t n)
{
	size_t len = (unsigned char)*s < 0x80 ? 1
		: (unsigned char)*s < 0xe0    ? 2
		: (unsigned char)*s < 0xf0    ? 3
					      : 4;

	if ((unsigned char)*s < 0x20 || *s == 0x7f || len > n || !utf8_valid(s, len))
		return 0;
	/* C1 controls, which some terminals obey, and the marks that reverse the direction of what follows */
	if (len == 2 && !memcmp(s, "\xc2", 1) && (unsigned char)s[1] < 0xa0)
		return 0;
	if (len == 3 && !memcmp(s, "\xe2\x80", 2) && ((unsigned char)s[2] & 0x7f) >= 0x0e &&
		(unsigned char)s[2] <= 0xae)
		return (unsigned char)s[2] > 0x8f && (unsigned char)s[2] < 0xa8 ? len : 0;
	if (len == 3 && !memcmp(s, "\xe2\x81", 2) && (unsigned char)s[2] >= 0xa6 &&
		(unsigned char)s[2] <= 0xa9)
		return 0;
	return len;
}

void cli_escape(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		len = printable(text + i, n - i);
		if (len)
			buf_add(out, text + i, len);
		else
			buf_printf(out, "\\x%02x", (unsigned char)text[i]);
		len = len ?: 1;
	}
}
