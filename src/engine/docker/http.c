/* Owns the curl handle of a daemon and one request at a time on it.  api*.c call it.
 * Must hold: no proxy, redirect, cookie, netrc or other protocol is ever used, whatever the environment says; TLS checks
 * the peer and its name; plain HTTP over TCP reaches loopback addresses only; every body has a bound. */
#include "engine/docker/http.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/http_inner.h"

/* One request under way. */
struct call {
	struct http *http;
	const struct http_request *q;
	struct http_reply *reply;
	struct http_head head;
	bool judged, failed;
	struct err err; /* when failed */
};

void http_reply_done(struct http_reply *r)
{
	buf_done(&r->body);
}

/* curl sees a callback fail; the error says why. */
static int call_failed(struct call *c, const char *why)
{
	if (!c->failed)
		err_set(&c->err, R_DOCKER_BAD_RESPONSE, 0, "%s: the daemon's answer: %s",
			c->q->what, why);
	c->failed = true;
	return -1;
}

static size_t take_line(char *p, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	const char *fault = http_head_line(&c->head, p, n * size, false);

	if (fault) {
		call_failed(c, fault);
		return 0;
	}
	return n * size;
}

static bool is_good(const struct call *c)
{
	return c->head.status >= 200 && c->head.status < 300;
}

static size_t body_max(const struct call *c)
{
	if (!is_good(c))
		return HTTP_REFUSAL;
	return c->q->max ? c->q->max : HTTP_BODY;
}

/* Before the first byte of a body is taken. */
static int judge(struct call *c)
{
	const char *type = c->head.type;

	c->judged = true;
	if (!is_good(c))
		return 0;
	/* Podman forgets it for some answers, which are read as strictly */
	if (c->q->want && streq(c->q->want, "json") && c->head.libpod && !*type)
		FMT(c->head.type, "application/json");
	if (c->q->want && streq(c->q->want, "json") && !streq(type, "application/json"))
		return call_failed(c, "it is not JSON by its content type");
	if (c->q->want && streq(c->q->want, "tar") && !streq(type, "application/x-tar") &&
		!streq(type, "application/octet-stream") && !streq(type, "application/octet"))
		return call_failed(c, "it is not a tar by its content type");
	if (!c->q->sink && c->head.has_length && c->head.length > body_max(c))
		return call_failed(c, "it is too long");
	return 0;
}

static size_t take_body(char *p, size_t size, size_t n, void *arg)
{
	struct call *c = arg;

	n *= size;
	if (!c->judged && judge(c) < 0)
		return 0;
	if (is_good(c) && c->q->sink) {
		if (c->q->sink(c->q->arg, p, n, &c->err) < 0) {
			c->failed = true;
			return 0;
		}
		return n;
	}
	c->reply->body.max = body_max(c);
	if (!buf_add(&c->reply->body, p, n)) {
		if (c->reply->body.too_large)
			call_failed(c, "it is too long");
		else if (!c->failed)
			err_set(&c->err, R_NO_MEMORY, 0, "%s: no memory for the answer",
				c->q->what);
		c->failed = true;
		return 0;
	}
	return n;
}

static size_t give_body(char *p, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	struct pollfd at = { .fd = *c->q->body_fd, .events = POLLIN };
	int wait = (int)(c->q->stall_ms ? c->q->stall_ms : c->q->timeout_ms);
	ssize_t got = 0;
	int ready;

	do {
		ready = poll(&at, 1, wait);
		if (ready > 0)
			got = read(at.fd, p, n * size);
	} while ((ready < 0 || got < 0) && (errno == EINTR || errno == EAGAIN));
	if (ready > 0 && got >= 0)
		return (size_t)got;
	c->failed = true;
	if (ready == 0)
		err_set(&c->err, R_IO_FAILED, 0, "%s: what is to be sent does not come",
			c->q->what);
	else
		err_set(&c->err, R_IO_FAILED, errno, "%s: can't read what is to be sent",
			c->q->what);
	return CURL_READFUNC_ABORT;
}

static bool is_loopback(const struct sockaddr *a)
{
	const struct sockaddr_in *four = (const void *)a;
	const struct sockaddr_in6 *six = (const void *)a;

	if (a->sa_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* curl connects a Unix socket without waiting, takes a full queue for success and keeps no errno: so one connection is tried
 * first. */
static bool answers(struct http *h)
{
	_cleanup_close_ int fd = -1;

	return docker_host_connect(&h->host, h->connect_ms, &fd, &h->connect_err) == 0;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct http *h = arg;

	(void)purpose;
	err_done(&h->connect_err);
	h->sock = CURL_SOCKET_BAD;
	if (h->host.is_unix && !answers(h))
		return CURL_SOCKET_BAD;
	if (!h->host.is_unix && !h->host.tls && !is_loopback(&to->addr)) {
		err_set(&h->connect_err, R_DOCKER_INSECURE_HOST, 0,
			"'%s' is not an address of this machine", h->host.shown);
		return CURL_SOCKET_BAD;
	}
	h->sock = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
	return h->sock;
}

static int close_socket(void *arg, curl_socket_t fd)
{
	struct http *h = arg;

	if (h->sock == fd)
		h->sock = -1;
	return close(fd);
}

void http_prepare(struct http *h, CURL *curl)
{
#define SET(option, value) (void)curl_easy_setopt(curl, CURLOPT_##option, value)
	SET(NOSIGNAL, 1L);
	SET(PROXY, "");
	SET(NOPROXY, "*");
	SET(FOLLOWLOCATION, 0L);
	SET(NETRC, (long)CURL_NETRC_IGNORED);
	SET(PROTOCOLS_STR, h->host.tls ? "https" : "http");
	SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(HTTP09_ALLOWED, 0L);
	SET(PATH_AS_IS, 1L);
	SET(MAXCONNECTS, 1L);
	SET(CONNECTTIMEOUT_MS, (long)h->connect_ms);
	SET(USERAGENT, "bailey/" BAILEY_VERSION);
	SET(BUFFERSIZE, 128L << 10);
	SET(UPLOAD_BUFFERSIZE, 128L << 10);
	SET(OPENSOCKETFUNCTION, open_socket);
	SET(OPENSOCKETDATA, h);
	SET(CLOSESOCKETFUNCTION, close_socket);
	SET(CLOSESOCKETDATA, h);
	if (h->host.is_unix)
		SET(UNIX_SOCKET_PATH, h->host.path);
	if (h->host.tls) {
		SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
		SET(SSL_VERIFYPEER, 1L);
		SET(SSL_VERIFYHOST, 2L);
		/* the named authority alone, none of the machine's */
		SET(CAPATH, NULL);
		SET(CAINFO, h->host.ca);
		SET(SSLCERT, h->host.cert);
		SET(SSLKEY, h->host.key);
		/* an encrypted key must not ask at the terminal */
		SET(KEYPASSWD, "");
	}
}

static struct curl_slist *request_headers(const struct http_request *q)
{
	char type[128];
	struct curl_slist *list = NULL, *more;
	const char *lines[] = { "Expect:", "Accept:", type };

	if (q->type)
		FMT(type, "Content-Type: %s", q->type);
	else
		FMT(type, "Content-Type:");
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		more = curl_slist_append(list, lines[i]);
		if (!more) {
			curl_slist_free_all(list);
			return NULL;
		}
		list = more;
	}
	return list;
}

static void set_body(CURL *curl, struct call *c)
{
	const struct http_request *q = c->q;
	struct stat st;
	off_t at;

	if (q->body_fd) {
		at = lseek(*q->body_fd, 0, SEEK_CUR);
		SET(UPLOAD, 1L);
		SET(READFUNCTION, give_body);
		SET(READDATA, c);
		/* what was read can't be sent again when a kept connection turns out to be dead */
		SET(FRESH_CONNECT, 1L);
		if (at >= 0 && fstat(*q->body_fd, &st) == 0 && S_ISREG(st.st_mode) &&
			st.st_size >= at)
			SET(INFILESIZE_LARGE, (curl_off_t)(st.st_size - at));
	} else if (streq(q->method, "POST") || q->body) {
		SET(POST, 1L);
		SET(POSTFIELDSIZE_LARGE, (curl_off_t)q->body_len);
		SET(POSTFIELDS, q->body ? q->body : "");
	} else {
		SET(HTTPGET, 1L);
	}
	SET(CUSTOMREQUEST, q->method);
}

static void set_times(CURL *curl, const struct http_request *q)
{
	SET(TIMEOUT_MS, (long)q->timeout_ms);
	if (q->stall_ms) {
		SET(LOW_SPEED_LIMIT, 1L);
		SET(LOW_SPEED_TIME, (long)((q->stall_ms + 999) / 1000));
	}
}

static bool is_tls_fault(const struct http *h, CURLcode code, const char *words)
{
	switch ((int)code) {
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_ENGINE_NOTFOUND:
	case CURLE_SSL_ENGINE_SETFAILED:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CRL_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_SSL_CLIENTCERT:
		return true;
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		/* TLS 1.3 tells the client that its certificate was refused only with the first answer */
		return h->host.tls && strstr(words, "alert");
	default:
		return false;
	}
}

int http_failed(
	const struct http *h, const char *what, CURLcode code, const char *words, struct err *e)
{
	char quoted[256];

	if (!*words)
		words = curl_easy_strerror(code);
	docker_quote(quoted, sizeof quoted, words, strlen(words));
	if (is_tls_fault(h, code, words))
		return err_set(e, R_DOCKER_TLS_FAILED, 0, "%s: TLS with '%s' failed: %s", what,
			h->host.shown, quoted);
	switch ((int)code) {
	case CURLE_OPERATION_TIMEDOUT:
		return err_set(e, R_DOCKER_TIMEOUT, 0, "%s: the daemon at '%s' took too long: %s",
			what, h->host.shown, quoted);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
		return err_set(e, R_DOCKER_UNREACHABLE, 0, "%s: can't reach '%s': %s", what,
			h->host.shown, quoted);
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		return err_set(e, R_DOCKER_UNREACHABLE, 0, "%s: the daemon at '%s' went away: %s",
			what, h->host.shown, quoted);
	case CURLE_PARTIAL_FILE:
		return err_set(e, R_DOCKER_BAD_RESPONSE, 0,
			"%s: the daemon's answer: it is cut off: %s", what, quoted);
	case CURLE_OUT_OF_MEMORY:
		return err_set(e, R_NO_MEMORY, 0, "%s: %s", what, quoted);
	default:
		return err_set(
			e, R_DOCKER_BAD_RESPONSE, 0, "%s: the daemon's answer: %s", what, quoted);
	}
}

/* With TLS 1.3 the server judges the client's certificate after the client thinks that all is well, and what it says may be
 * lost with the connection. */
static bool closed_after_handshake(const struct call *c, CURLcode code)
{
	curl_off_t shaken = 0;

	if (!c->q->first || !c->http->host.tls || c->head.bytes > 0)
		return false;
	if (code != CURLE_RECV_ERROR && code != CURLE_SEND_ERROR && code != CURLE_GOT_NOTHING)
		return false;
	(void)curl_easy_getinfo(c->http->curl, CURLINFO_APPCONNECT_TIME_T, &shaken);
	return shaken > 0;
}

static int finish(struct call *c, CURLcode code, const char *words, struct err *e)
{
	struct http *h = c->http;
	long sent = 0;

	(void)curl_easy_getinfo(h->curl, CURLINFO_REQUEST_SIZE, &sent);
	if (code == CURLE_OK && !c->failed && (!c->head.done || c->head.status < 200))
		call_failed(c, "it is cut off in its head");
	/* curl's word for a line that passes its own bound */
	if (code == CURLE_OUT_OF_MEMORY && !c->failed && sent > 0 && !c->head.done)
		call_failed(c, "its head is too long");
	if (code == CURLE_RECV_ERROR && c->head.done)
		code = CURLE_WEIRD_SERVER_REPLY;
	/* without a body nobody has looked yet */
	if (code == CURLE_OK && !c->failed && !c->judged && c->q->want && c->head.status != 204)
		(void)judge(c);
	if (c->failed)
		return err_move(e, &c->err);
	if (code == CURLE_COULDNT_CONNECT && h->connect_err.reason != REASON_NONE) {
		err_move(e, &h->connect_err);
		return err_wrap(e, "%s", c->q->what);
	}
	if (closed_after_handshake(c, code) && !is_tls_fault(h, code, words))
		return err_set(e, R_DOCKER_TLS_FAILED, 0,
			"%s: '%s' closed the connection behind the TLS handshake, as a daemon does that refuses the "
			"client's certificate",
			c->q->what, h->host.shown);
	if (code != CURLE_OK)
		return http_failed(h, c->q->what, code, words, e);
	c->reply->status = c->head.status;
	c->reply->libpod = c->head.libpod;
	FMT(c->reply->type, "%s", c->head.type);
	return 0;
}

int http_call(struct http *h, const struct http_request *q, struct http_reply *ret, struct err *e)
{
	_cleanup_http_reply_ struct http_reply reply = { .status = 0 };
	struct call c = { .http = h, .q = q, .reply = &reply };
	_cleanup_free_ char *url = xasprintf("%s%s", h->host.url, q->path);
	struct curl_slist *headers = request_headers(q);
	char words[CURL_ERROR_SIZE] = "";
	CURL *curl = h->curl;
	CURLcode code = CURLE_OUT_OF_MEMORY;
	int r;

	if (headers) {
		curl_easy_reset(curl);
		http_prepare(h, curl);
		SET(URL, url);
		SET(HTTPHEADER, headers);
		SET(ERRORBUFFER, words);
		SET(HEADERFUNCTION, take_line);
		SET(HEADERDATA, &c);
		SET(WRITEFUNCTION, take_body);
		SET(WRITEDATA, &c);
		set_body(curl, &c);
		set_times(curl, q);
		code = curl_easy_perform(curl);
	}
	r = finish(&c, code, words, e);
	/* what it was given lies on this stack */
	curl_easy_reset(curl);
	http_prepare(h, curl);
	curl_slist_free_all(headers);
	err_done(&c.err);
	if (r == 0) {
		*ret = reply;
		reply.body = (struct buf)BUF_INIT;
	}
	return r;
}

int http_open(struct http **ret, struct docker_host *host, struct err *e)
{
	struct http *h = xcalloc(1, sizeof *h);

	h->host = *host;
	host->ca = host->cert = host->key = NULL;
	h->sock = -1;
	h->connect_ms = DOCKER_CONNECT_MS;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == 0)
		h->curl = curl_easy_init();
	if (!h->curl) {
		http_free(h, false);
		return err_set(e, R_NO_MEMORY, 0, "can't set up libcurl");
	}
	*ret = h;
	return 0;
}

void http_free(struct http *h, bool forked)
{
	if (!h)
		return;
	if (forked && h->sock >= 0) {
		/* TLS says goodbye when curl closes: into the void, since the parent goes on with it */
		_cleanup_close_ int nowhere = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (nowhere >= 0)
			(void)dup3(nowhere, h->sock, O_CLOEXEC);
	}
	if (h->curl)
		curl_easy_cleanup(h->curl);
	docker_host_done(&h->host);
	err_done(&h->connect_err);
	free(h);
}

const struct docker_host *http_host(const struct http *h)
{
	return &h->host;
}
