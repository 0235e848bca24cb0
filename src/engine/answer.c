/* Owns the form of the answer to whoever asked for a sandbox.  Called by the owner and by a launcher. */
#include "engine/answer.h"

#include <string.h>
#include <sys/socket.h>

#include "base/str.h"
#include "engine/pair.h"
#include "wire/wire.h"

void answer_send(int sock, const struct err *e, const char *id)
{
	char text[4096];
	struct wire_result m = { .stream = 1 };
	uint8_t out[sizeof text + 64];
	size_t n;

	if (e) {
		m.error = e->sys_errno ? (uint32_t)e->sys_errno : EIO;
		m.flags = WIRE_RESULT_REASON;
		m.rest_len = pair_put_error(text, sizeof text, e);
	} else {
		str_format(text, sizeof text, "%s", id);
		m.rest_len = (uint32_t)strlen(text);
	}
	m.rest = (const uint8_t *)text;
	n = wire_put_result(out, sizeof out, &m);
	/* whoever asked may have handed over a socket that nobody reads: it is not waited for */
	(void)!send(sock, out, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}
