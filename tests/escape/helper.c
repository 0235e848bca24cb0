/* The outsider: a host process of the same user with everything an escaped command would go for.
 * run.sh starts it once:
 *
 *     escape-probe --helper DIR TAG
 *
 * It prints NAME=VALUE words on one line, then serves until its standard input ends or SIGTERM.
 * It owns a secret in memory and one behind a descriptor, an abstract and a path socket, TCP and
 * UDP listeners on every address, a SysV segment and a message queue. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

static char memory_secret[] = "a secret in the helper's memory";
static char mq_name[64];

static int listen_unix(const char *name, bool abstract)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(a.sun_path + abstract, sizeof a.sun_path - 1, "%s", name);
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1 + abstract);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 16) < 0)
		return -1;
	return fd;
}

static int listen_inet(int type, int *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -1;
	if (type == SOCK_STREAM && listen(fd, 16) < 0)
		return -1;
	*port = ntohs(a.sin_port);
	return fd;
}

/* Marked for removal at once: it lives as long as somebody is attached, however this process ends.
 */
static int make_segment(void)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	char *p;

	if (id < 0)
		return -1;
	p = shmat(id, NULL, 0);
	if ((intptr_t)p == -1)
		return -1;
	(void)snprintf(p, 4096, "a secret in shared memory");
	(void)shmctl(id, IPC_RMID, NULL);
	return id;
}

static void on_term(int sig)
{
	(void)sig; /* it only has to interrupt poll */
}

static void serve(int *fds, int udp)
{
	struct pollfd p[5];

	for (int i = 0; i < 4; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	p[4] = (struct pollfd){ .fd = 0, .events = POLLIN };
	while (poll(p, 5, -1) >= 0 && !p[4].revents) {
		for (int i = 0; i < 3; i++) {
			int c = p[i].revents ? accept4(fds[i], NULL, NULL, SOCK_CLOEXEC) : -1;

			if (c >= 0) {
				(void)send(c, "hello", 5, MSG_NOSIGNAL);
				(void)close(c);
			}
		}
		if (p[3].revents) {
			struct sockaddr_in from;
			socklen_t len = sizeof from;
			char b[16];
			ssize_t n = recvfrom(udp, b, sizeof b, 0, (struct sockaddr *)&from, &len);

			if (n >= 0)
				(void)sendto(udp, b, (size_t)n, 0, (struct sockaddr *)&from, len);
		}
	}
}

int helper_main(char **arg)
{
	char path[108], abstract[64];
	int tcp_port = 0, udp_port = 0, fds[4], secret, shm;
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 16 };
	mqd_t mq;

	if (!arg[0] || !arg[1])
		return 2;
	(void)sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_term }, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	(void)snprintf(path, sizeof path, "%s/helper.sock", arg[0]);
	(void)snprintf(abstract, sizeof abstract, "bailey-escape-%s", arg[1]);
	(void)snprintf(mq_name, sizeof mq_name, "/bailey-escape-%s", arg[1]);
	fds[0] = listen_unix(abstract, true);
	fds[1] = listen_unix(path, false);
	fds[2] = listen_inet(SOCK_STREAM, &tcp_port);
	fds[3] = listen_inet(SOCK_DGRAM, &udp_port);
	secret = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	shm = make_segment();
	mq = mq_open(mq_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attr);
	if (mq != (mqd_t)-1)
		(void)mq_send(mq, "secret", 6, 0);
	printf("HELPER=%d HELPERFD=%d HELPERADDR=%p ABSTRACT=%s TCP=%d UDP=%d SHM=%d MQ=%s\n",
		getpid(), secret, (void *)memory_secret, abstract, tcp_port, udp_port, shm,
		mq_name);
	(void)fflush(stdout);
	serve(fds, fds[3]);
	if (mq != (mqd_t)-1)
		(void)mq_unlink(mq_name);
	return 0;
}
