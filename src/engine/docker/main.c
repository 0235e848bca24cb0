/* bailey-engine-docker: sandboxes as containers of a Docker daemon or of Podman's service. */
#include "engine/docker/docker.h"
#include "engine/engine_main.h"

int main(int argc, char **argv)
{
	return engine_main(&engine_docker, argc, argv);
}
