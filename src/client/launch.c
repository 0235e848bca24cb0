/* Owns asking a launcher instead of starting an engine.  Called by create.c and record.c when there is one.
 *
 * What the request needs of the host was opened with the caller's own rights; the launcher gets the descriptors. */
#include <sys/socket.h>

#include "base/str.h"
#include "client/client.h"
#include "launcher/launch_create.h"

int launcher_find(const struct bailey_options *o, char **ret, struct err *e)
{
	const char *given = secure_getenv("BAILEY_LAUNCHER");

	*ret = NULL;
	/* who names a home means that one, unless he names a launcher too */
	if (!(given && *given) && (o->home || secure_getenv("BAILEY_HOME")))
		return 0;
	return launch_path(ret, e);
}

int launcher_home(const struct bailey *b, int *ret, struct err *e)
{
	_cleanup_launch_in_ struct launch_in m = { .memory = NULL };
	_cleanup_close_ int sock = -1;

	*ret = -1;
	if (launch_connect(b->launcher, &sock, e) < 0 || launch_ask(sock, LAUNCH_HOME, &m, e) < 0)
		return -1;
	if (m.n_fds)
		*ret = move_fd(&m.fds[0]);
	return 0;
}

int launcher_create(const struct bailey *b, struct launch_out *o, int answer, struct err *e)
{
	_cleanup_close_ int sock = -1;

	launch_put_fd(o, answer);
	if (launch_connect(b->launcher, &sock, e) < 0)
		return -1;
	if (launch_send(sock, LAUNCH_CREATE, o) == 0)
		return 0;
	if (errno == E2BIG)
		return err_set(e, R_OUT_OF_RANGE, 0,
			"ask the launcher: the request is over %d bytes", LAUNCH_MAX);
	return err_set(e, R_LAUNCHER_UNREACHABLE, errno, "ask the launcher");
}
