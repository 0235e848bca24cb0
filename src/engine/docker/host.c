/* Owns the choice of the daemon: the text of a host, what of it is refused, where certificates lie, and the connection to a
 * Unix socket.  docker_open() calls it.
 * Must hold: plain HTTP goes to loopback addresses only, and a name is one only when it is exactly "localhost". */
#include "engine/docker/host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/str.h"

enum { PORT_PLAIN = 2375, PORT_TLS = 2376, LONGEST = 400 };

static const char name_chars[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";

void docker_host_done(struct docker_host *h)
{
	free(h->ca);
	free(h->cert);
	free(h->key);
	h->ca = h->cert = h->key = NULL;
}

static int bad_host(struct err *e, const char *text, const char *why)
{
	err_set(e, R_BAD_VALUE, 0, "the Docker host '%s': %s", text, why);
	return err_remedy(e, "Give unix:///PATH, https://HOST:PORT, or http://127.0.0.1:PORT.");
}

static int parse_unix(struct docker_host *h, const char *text, const char *path, struct err *e)
{
	if (path[0] != '/')
		return bad_host(e, text, "the socket's path must be absolute");
	if (strlen(path) >= sizeof h->path) {
		err_set(e, R_BAD_VALUE, 0,
			"the Docker host '%s': a socket's path has at most %zu bytes", text,
			sizeof h->path - 1);
		return err_remedy(e, "Use a shorter path, for example through a symbolic link.");
	}
	h->is_unix = true;
	FMT(h->path, "%s", path);
	FMT(h->url, "http://localhost");
	FMT(h->shown, "unix://%s", path);
	return 0;
}

/* The literal, not what a resolver makes of it: 127.1 and 0x7f000001 are names here. */
static bool is_loopback(const char *name)
{
	struct in6_addr six;
	struct in_addr four;

	if (streq(name, "localhost"))
		return true;
	if (inet_pton(AF_INET, name, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, name, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* HOST, HOST:PORT, [IPV6] or [IPV6]:PORT, and at most one slash behind it. */
static int parse_address(struct docker_host *h, const char *text, const char *s, struct err *e)
{
	bool six = s[0] == '[';
	const char *name = s + six;
	size_t n = strcspn(name, six ? "]" : ":/"), port_n;
	struct in6_addr addr;
	char port[8] = "";
	uint64_t value;

	if (n == 0 || n >= sizeof h->name)
		return bad_host(e, text, "it names no machine");
	memcpy(h->name, name, n);
	h->name[n] = '\0';
	s = name + n;
	if (six && (*s++ != ']' || inet_pton(AF_INET6, h->name, &addr) != 1))
		return bad_host(e, text, "what stands in brackets must be an IPv6 address");
	if (!six && (strspn(h->name, name_chars) != n || h->name[0] == '-'))
		return bad_host(e, text, "the name of the machine is none");
	if (*s == ':') {
		port_n = strcspn(++s, "/");
		if (port_n == 0 || port_n >= sizeof port)
			return bad_host(e, text, "the port must be a number");
		memcpy(port, s, port_n);
		s += port_n;
		if (parse_u64(port, 1, UINT16_MAX, "the port of the Docker host", &value, e) < 0)
			return -1;
		h->port = (uint16_t)value;
	}
	if (*s && !streq(s, "/"))
		return bad_host(e, text, "nothing may follow the port");
	return 0;
}

static int find_certificate(
	const char *dir, const char *name, bool secret, char **ret, struct err *e)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return err_set(e, R_DOCKER_TLS_FAILED, errno, "can't read '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, R_DOCKER_TLS_FAILED, 0, "'%s' is not a file", path);
	if (st.st_mode & (secret ? S_IWGRP | S_IWOTH | S_IROTH : S_IWGRP | S_IWOTH)) {
		err_set(e, R_DOCKER_TLS_FAILED, 0, "'%s' may be %s by other users", path,
			secret ? "read or written" : "written");
		return err_remedy(e, "Run: chmod %s %s", secret ? "600" : "644", path);
	}
	*ret = move_ptr(path);
	return 0;
}

static int find_certificates(
	struct docker_host *h, const char *text, const char *dir, struct err *e)
{
	_cleanup_free_ char *usual = NULL;
	const char *home = getenv("HOME");

	if (!dir && home && home[0] == '/')
		dir = usual = xasprintf("%s/.docker", home);
	if (!dir)
		return err_set(
			e, R_DOCKER_TLS_FAILED, 0, "no certificates are named for '%s'", text);
	if (find_certificate(dir, "ca.pem", false, &h->ca, e) < 0 ||
		find_certificate(dir, "cert.pem", false, &h->cert, e) < 0 ||
		find_certificate(dir, "key.pem", true, &h->key, e) < 0)
		return err_wrap(e, "the certificates for '%s'", text);
	return 0;
}

static int parse_tcp(struct docker_host *h, const char *text, const char *address,
	const char *cert_path, struct err *e)
{
	bool six;

	if (parse_address(h, text, address, e) < 0)
		return -1;
	if (!h->tls && !is_loopback(h->name))
		return err_set(e, R_DOCKER_INSECURE_HOST, 0,
			"the Docker host '%s' is another machine, and plain HTTP has no protection",
			text);
	if (h->tls && find_certificates(h, text, cert_path, e) < 0)
		return -1;
	if (h->port == 0)
		h->port = h->tls ? PORT_TLS : PORT_PLAIN;
	six = strchr(h->name, ':') != NULL;
	FMT(h->url, "%s://%s%s%s:%u", h->tls ? "https" : "http", six ? "[" : "", h->name,
		six ? "]" : "", h->port);
	FMT(h->shown, "%s", h->url);
	return 0;
}

int docker_host_parse(struct docker_host *ret, const char *text, const char *cert_path, bool verify,
	struct err *e)
{
	_cleanup_docker_host_ struct docker_host h = { .is_unix = false };
	const char *rest;
	int r;

	if (strlen(text) > LONGEST)
		return err_set(
			e, R_BAD_VALUE, 0, "the Docker host is longer than %d bytes", LONGEST);
	if (str_after(text, "ssh://")) {
		err_set(e, R_BAD_VALUE, 0, "the Docker host is one over ssh, which is not spoken");
		return err_remedy(e,
			"Forward the socket with 'ssh -L /run/user/UID/d.sock:/var/run/docker.sock HOST', "
			"then name unix:///run/user/UID/d.sock.");
	}
	if (str_has_control(text) || strpbrk(text, " '\"\\%?#@"))
		return err_set(
			e, R_BAD_VALUE, 0, "the Docker host holds a byte that none can have");
	if ((rest = str_after(text, "unix://"))) {
		r = parse_unix(&h, text, rest, e);
	} else if (text[0] == '/') {
		r = parse_unix(&h, text, text, e);
	} else if ((rest = str_after(text, "http://"))) {
		r = parse_tcp(&h, text, rest, NULL, e);
	} else if ((rest = str_after(text, "https://"))) {
		h.tls = true;
		r = parse_tcp(&h, text, rest, cert_path, e);
	} else if ((rest = str_after(text, "tcp://"))) {
		h.tls = cert_path || verify;
		r = parse_tcp(&h, text, rest, cert_path, e);
	} else {
		r = bad_host(e, text, "it must begin with unix://, http://, https:// or tcp://");
	}
	if (r < 0)
		return -1;
	*ret = h;
	h.ca = h.cert = h.key = NULL;
	return 0;
}

static const char *env_text(const char *name)
{
	const char *s = getenv(name);

	return s && *s ? s : NULL;
}

/* The first socket that may be used; else one that is there, so that the refusal says what is wrong with it. */
static int find_socket(char **ret, struct err *e)
{
	const char *run = env_text("XDG_RUNTIME_DIR");
	const char *form[] = { "/var/run/docker.sock", "%/docker.sock", "%/podman/podman.sock",
		"/run/podman/podman.sock" };
	_cleanup_free_ char *closed = NULL;
	struct stat st;

	if (run && run[0] != '/')
		run = NULL;
	for (size_t i = 0; i < sizeof form / sizeof form[0]; i++) {
		_cleanup_free_ char *path = NULL;

		if (form[i][0] == '%' && !run)
			continue;
		path = form[i][0] == '%' ? xasprintf("%s%s", run, form[i] + 1) : xstrdup(form[i]);
		if (stat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
			continue;
		if (access(path, R_OK | W_OK) == 0) {
			*ret = move_ptr(path);
			return 0;
		}
		if (!closed)
			closed = move_ptr(path);
	}
	if (!closed)
		return err_set(e, R_DOCKER_UNREACHABLE, 0,
			"there is no socket of a Docker daemon or of Podman's service at its usual places");
	*ret = move_ptr(closed);
	return 0;
}

int docker_host_find(
	struct docker_host *ret, const char *host, const char *cert_path, struct err *e)
{
	_cleanup_free_ char *found = NULL;
	const char *from = NULL;

	if (!cert_path || !*cert_path)
		cert_path = env_text("DOCKER_CERT_PATH");
	if (!host || !*host) {
		from = "DOCKER_HOST";
		host = env_text(from);
	}
	if (!host) {
		from = "CONTAINER_HOST";
		host = env_text(from);
	}
	if (!host) {
		from = NULL;
		if (find_socket(&found, e) < 0)
			return -1;
		host = found;
	}
	if (docker_host_parse(ret, host, cert_path, env_text("DOCKER_TLS_VERIFY") != NULL, e) == 0)
		return 0;
	return from ? err_wrap(e, "the environment variable %s", from) : -1;
}

static int connect_failed(const struct docker_host *h, int error, struct err *e)
{
	switch (error) {
	case EAGAIN:
	case EINPROGRESS:
	case ETIMEDOUT:
		err_set(e, R_DOCKER_TIMEOUT, 0, "'%s' takes no connection: its queue is full",
			h->shown);
		return err_remedy(e, "Look whether the daemon hangs, and restart it.");
	case EACCES:
	case EPERM:
		err_set(e, R_DOCKER_UNREACHABLE, error, "can't use '%s'", h->shown);
		return err_remedy(e,
			"Run as a user who may use the socket (see its group), or name a daemon of your own.");
	case ECONNREFUSED:
		return err_set(e, R_DOCKER_UNREACHABLE, 0, "nobody listens at '%s'", h->shown);
	default:
		return err_set(e, R_DOCKER_UNREACHABLE, error, "can't connect to '%s'", h->shown);
	}
}

int docker_host_connect(
	const struct docker_host *h, uint64_t timeout_ms, int *ret_fd, struct err *e)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	/* a full queue makes connect(2) wait so long */
	struct timeval wait = { .tv_sec = (time_t)(timeout_ms / 1000),
		.tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000) };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_set(e, R_DOCKER_UNREACHABLE, errno, "can't make a socket");
	FMT(to.sun_path, "%s", h->path);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) < 0)
		return err_set(e, R_DOCKER_UNREACHABLE, errno, "can't set up a socket");
	if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0)
		return connect_failed(h, errno, e);
	*ret_fd = move_fd(&fd);
	return 0;
}
