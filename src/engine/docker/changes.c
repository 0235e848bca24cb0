/* Says what a container's files have beside its image.  Called in a worker that the owner forked for it. */
#include "engine/docker/docker.h"

int docker_session_changes(struct sandbox *sb, int out_fd, uint32_t flags, struct err *e)
{
	(void)out_fd;
	(void)flags;
	return err_set(e, R_LAYER_UNSUPPORTED, 0, "list the changes of sandbox '%s'", sb->id);
}
