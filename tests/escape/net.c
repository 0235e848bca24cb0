/* Network and sockets: the host's listeners, other sandboxes, and address families that a sandbox
 * has no use for. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

#ifndef AF_ALG
#define AF_ALG 38
#endif

static struct verdict connect_unix(char **arg)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	bool abstract = arg[0][0] == '@';
	int n = snprintf(a.sun_path, sizeof a.sun_path, "%s", arg[0]);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || n < 0 || (size_t)n >= sizeof a.sun_path)
		return broken("socket");
	if (abstract)
		a.sun_path[0] =
			0; /* the length holds the final NUL, which is part of an abstract name */
	return by_errno(connect(fd, (struct sockaddr *)&a,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1)));
}

static int inet_address(const char *host, const char *port, struct sockaddr_in *a)
{
	*a = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons((uint16_t)number(port)) };
	return inet_pton(AF_INET, host, &a->sin_addr) == 1 ? 0 : -1;
}

static struct verdict connect_tcp(char **arg)
{
	struct sockaddr_in a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (inet_address(arg[0], arg[1], &a) < 0)
		return blocked("no-address");
	return fd < 0 ? by_errno(-1) : by_errno(connect(fd, (struct sockaddr *)&a, sizeof a));
}

static struct verdict echo_udp(char **arg)
{
	struct sockaddr_in a;
	struct pollfd p = { .fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), .events = POLLIN };
	char b[8];

	if (inet_address(arg[0], arg[1], &a) < 0)
		return blocked("no-address");
	if (p.fd < 0 || connect(p.fd, (struct sockaddr *)&a, sizeof a) < 0 ||
		send(p.fd, "ping", 4, 0) < 0)
		return by_errno(-1);
	if (poll(&p, 1, 1000) == 0)
		return blocked("silence");
	return by_errno(recv(p.fd, b, sizeof b, 0));
}

/* To an address that nothing needs to answer: getting a route is the leak. */
static struct verdict route_out(char **arg)
{
	struct sockaddr_in a;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || inet_address(arg[0], "9", &a) < 0)
		return broken("socket");
	return by_errno(connect(fd, (struct sockaddr *)&a, sizeof a));
}

static struct verdict make_socket(char **arg)
{
	int fd = socket(
		(int)number(arg[0]), (int)number(arg[1]) | SOCK_CLOEXEC, (int)number(arg[2]));

	if (fd >= 0)
		(void)close(fd);
	return by_errno(fd);
}

static struct verdict peer_tcp(char **arg)
{
	struct sockaddr_in a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || inet_address("127.0.0.1", arg[0], &a) < 0 ||
		bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 4) < 0)
		return broken("listen");
	return wait_as_peer("peer-tcp");
}

static struct verdict peer_abstract(char **arg)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s", arg[0]);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 2);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 4) < 0)
		return broken("listen");
	return wait_as_peer("peer-abstract");
}

/* Families and types by number, as the row's arguments. */
#define SOCKET(n, text, numbers) \
	{ .name = n, .about = text, .args = numbers, .expect = "EAFNOSUPPORT", .run = make_socket }

const struct probe_case net_cases[] = {
	{ .name = "unix-path",
		.about = "Connect to a Unix socket of the host by its path",
		.args = "@SCRATCH@/helper.sock",
		.expect = "ENOENT",
		.run = connect_unix },
	{ .name = "unix-abstract",
		.about = "CVE-2020-15257: connect to an abstract Unix socket of the host",
		.args = "@@ABSTRACT@",
		.expect = "ECONNREFUSED",
		.run = connect_unix },
	{ .name = "tcp-loopback",
		.about = "Connect to a listener on the host's loopback",
		.args = "127.0.0.1 @TCP@",
		.expect = "ECONNREFUSED",
		.run = connect_tcp },
	{ .name = "tcp-host",
		.about = "Connect to a listener on the host's own address",
		.args = "@HOSTIP@ @TCP@",
		.expect = "ENETUNREACH",
		.run = connect_tcp },
	{ .name = "udp-loopback",
		.about = "Send a datagram to the host's loopback",
		.args = "127.0.0.1 @UDP@",
		.expect = "ECONNREFUSED",
		.run = echo_udp },
	{ .name = "udp-host",
		.about = "Send a datagram to the host's own address",
		.args = "@HOSTIP@ @UDP@",
		.expect = "ENETUNREACH",
		.run = echo_udp },
	{ .name = "route-out",
		.about = "Have a route to the outside",
		.args = "192.0.2.77",
		.expect = "ENETUNREACH",
		.run = route_out },
	{ .name = "metadata-address",
		.about = "Have a route to the cloud's metadata address",
		.args = "169.254.169.254",
		.expect = "ENETUNREACH",
		.run = route_out },
	{ .name = "other-sandbox-tcp",
		.about = "Connect to another sandbox's loopback",
		.args = "127.0.0.1 @PORT@",
		.peer = "peer-tcp @PORT@",
		.expect = "ECONNREFUSED",
		.run = connect_tcp },
	{ .name = "other-sandbox-unix",
		.about = "Connect to another sandbox's abstract socket",
		.args = "@peer-@TAG@",
		.peer = "peer-abstract peer-@TAG@",
		.expect = "ECONNREFUSED",
		.run = connect_unix },
	SOCKET("netlink-uevent", "AF_NETLINK: kernel events of the host", "16 2 15"),
	SOCKET("netlink-netfilter", "AF_NETLINK: netfilter, a source of kernel CVEs", "16 3 12"),
	SOCKET("netlink-generic", "AF_NETLINK: generic families", "16 3 16"),
	SOCKET("netlink-audit", "AF_NETLINK: the audit log", "16 3 9"),
	SOCKET("af-packet", "AF_PACKET: raw frames", "17 3 768"),
	SOCKET("af-alg", "AF_ALG: the kernel's cryptography", "38 5 0"),
	SOCKET("af-vsock", "AF_VSOCK: the hypervisor's side door (namespaced only from Linux 7.0)",
		"40 1 0"),
	{ .name = "mptcp",
		.about = "A protocol beside TCP and UDP: MPTCP",
		.args = "2 1 262",
		.expect = "EPROTONOSUPPORT",
		.run = make_socket },
	{ .name = "mptcp-ipv6",
		.about = "The same over IPv6",
		.args = "10 1 262",
		.expect = "EPROTONOSUPPORT",
		.run = make_socket },
	{ .name = "udplite",
		.about = "UDP-Lite",
		.args = "2 2 136",
		.expect = "EPROTONOSUPPORT",
		.run = make_socket },
	{ .name = "sctp",
		.about = "SCTP, for which a host loads a module",
		.args = "2 1 132",
		.expect = "EPROTONOSUPPORT",
		.run = make_socket },
	{ .name = "raw-icmp",
		.about = "A raw socket",
		.args = "2 3 1",
		.expect = "EPERM",
		.run = make_socket },
	SOCKET("af-key", "AF_KEY: IPsec keys", "15 3 2"),
	SOCKET("af-xdp", "AF_XDP: packets past the stack", "44 3 0"),
	{ .name = "peer-tcp",
		.about = "Peer: listen on loopback",
		.args = "PORT",
		.flags = HELPER,
		.run = peer_tcp },
	{ .name = "peer-abstract",
		.about = "Peer: listen on an abstract name",
		.args = "NAME",
		.flags = HELPER,
		.run = peer_abstract },
	{ .name = NULL },
};
