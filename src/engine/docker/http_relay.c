/* Owns the taking over of a connection (HTTP upgrade) and the relay process that lives on it.  docker_exec_stream() calls
 * http_hijack().
 * Must hold: the relay connects by itself, so that no TLS state is ever shared between two processes; it holds nothing but
 * its two connections; it ends with either of them. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/docker/http_inner.h"
#include "engine/docker/multiplex.h"

enum {
	RELAY_BUFFER = 64 << 10,
	RELAY_FLUSH_MS = 10000, /* for what the local side wrote before it closed */
	REFUSAL_MS = 2000,      /* for the body of a refusal */
	SPARE_MS = 5000,        /* that the caller waits longer than the relay may take */
};

/* What the relay tells its maker; one write, smaller than a pipe's atomic size. */
struct report {
	enum reason reason;
	unsigned status;
	bool libpod;
	size_t body_n;
	char type[64];
	char text[1024];
	char body[2048];
};

/* The connection that was taken over. */
struct line {
	struct http *http;
	CURL *curl;
	uint64_t deadline_ms; /* BOOTTIME */
	const char *what;
	char *data; /* read beyond the head: RELAY_BUFFER bytes */
	size_t n;
};

static int wait_for(const struct line *l, short events, uint64_t deadline_ms)
{
	struct pollfd at = { .fd = l->http->sock, .events = events };
	uint64_t now = boottime_ms();
	int r;

	if (now >= deadline_ms)
		return 0;
	r = poll(&at, 1, (int)(deadline_ms - now));
	return r < 0 && errno == EINTR ? 1 : r;
}

static int too_slow(const struct line *l, struct err *e)
{
	return http_failed(l->http, l->what, CURLE_OPERATION_TIMEDOUT, "", e);
}

static int send_all(struct line *l, const char *p, size_t n, struct err *e)
{
	while (n > 0) {
		size_t sent = 0;
		CURLcode code = curl_easy_send(l->curl, p, n, &sent);

		p += sent;
		n -= sent;
		if (code == CURLE_AGAIN) {
			if (wait_for(l, POLLOUT, l->deadline_ms) <= 0)
				return too_slow(l, e);
		} else if (code != CURLE_OK) {
			return http_failed(l->http, l->what, code, "", e);
		}
	}
	return 0;
}

/* More of the answer; *ret 0: it ended. */
static int receive(struct line *l, uint64_t deadline_ms, size_t *ret, struct err *e)
{
	for (;;) {
		CURLcode code = curl_easy_recv(l->curl, l->data + l->n, RELAY_BUFFER - l->n, ret);

		if (code == CURLE_OK) {
			l->n += *ret;
			return 0;
		}
		if (code != CURLE_AGAIN)
			return http_failed(l->http, l->what, code, "", e);
		if (wait_for(l, POLLIN, deadline_ms) <= 0)
			return too_slow(l, e);
	}
}

static int bad_answer(const struct line *l, const char *why, struct err *e)
{
	return err_set(e, R_DOCKER_BAD_RESPONSE, 0, "%s: the daemon's answer: %s", l->what, why);
}

static int read_head(struct line *l, struct http_head *head, struct err *e)
{
	while (!head->done || head->status == 100) {
		char *end = memchr(l->data, '\n', l->n);
		const char *fault;
		size_t got = 0, len;

		if (!end) {
			if (l->n == RELAY_BUFFER)
				return bad_answer(l, "its head is too long", e);
			if (receive(l, l->deadline_ms, &got, e) < 0)
				return -1;
			if (got == 0 && head->lines == 0 && l->n == 0)
				return http_failed(l->http, l->what, CURLE_GOT_NOTHING, "", e);
			if (got == 0)
				return bad_answer(l, "it is cut off in its head", e);
			continue;
		}
		len = (size_t)(end - l->data) + 1;
		fault = http_head_line(head, l->data, len, true);
		if (fault)
			return bad_answer(l, fault, e);
		l->n -= len;
		memmove(l->data, l->data + len, l->n);
	}
	return 0;
}

static int upgrade(
	struct line *l, const struct http_request *q, struct http_head *head, struct err *e)
{
	const struct docker_host *host = &l->http->host;
	_cleanup_free_ char *url = xasprintf("%s%s", host->url, q->path);
	_cleanup_free_ char *text = xasprintf(
		"POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bailey/" BAILEY_VERSION
		"\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: Upgrade\r\n"
		"Upgrade: tcp\r\n\r\n",
		q->path, strstr(host->url, "://") + 3, q->body_len);
	char words[CURL_ERROR_SIZE] = "";
	CURL *curl = l->curl;
	CURLcode code;

	http_prepare(l->http, curl);
	(void)curl_easy_setopt(curl, CURLOPT_URL, url);
	(void)curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
	(void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)q->timeout_ms);
	(void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
	code = curl_easy_perform(curl);
	(void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
	if (code == CURLE_COULDNT_CONNECT && l->http->connect_err.reason != REASON_NONE) {
		err_move(e, &l->http->connect_err);
		return err_wrap(e, "%s", q->what);
	}
	if (code != CURLE_OK)
		return http_failed(l->http, q->what, code, words, e);
	if (send_all(l, text, strlen(text), e) < 0 || send_all(l, q->body, q->body_len, e) < 0)
		return -1;
	return read_head(l, head, e);
}

/* What a refusal says, as far as it comes soon. */
static void take_refusal(struct line *l, const struct http_head *head, struct report *r)
{
	uint64_t deadline = boottime_ms() + REFUSAL_MS;
	size_t want = sizeof r->body, got = 1;
	struct err ignored = ERR_INIT;

	if (head->has_length && head->length < want)
		want = (size_t)head->length;
	while (l->n < want && got > 0 && receive(l, deadline, &got, &ignored) == 0)
		;
	err_done(&ignored);
	r->body_n = l->n < want ? l->n : want;
	memcpy(r->body, l->data, r->body_n);
	FMT(r->type, "%s", head->type);
}

static int agree(struct line *l, const struct http_request *q, struct report *r, struct err *e)
{
	struct http_head head = { .status = 0 };

	if (upgrade(l, q, &head, e) < 0)
		return -1;
	r->status = head.status;
	r->libpod = head.libpod;
	if (head.status >= 400) {
		take_refusal(l, &head, r);
		return 0;
	}
	if (head.status != 101 && head.status != 200)
		return bad_answer(l, "it does not give the stream", e);
	if (head.has_length || head.chunked || !str_after(head.type, "application/vnd.docker."))
		return bad_answer(l, "it is not a stream by its head", e);
	return 0;
}

/* --- the relay itself ------------------------------------------------------------------------------------------------ */

struct relay {
	struct line *line;
	int local;
	struct multiplex frames;
	uint8_t *in;  /* from the daemon, decoded */
	uint8_t *out; /* from the local side */
	size_t in_at, in_n, out_at, out_n;
	bool dry; /* the daemon has nothing more just now */
	bool local_eof, daemon_eof, half_closed;
	uint64_t gone_ms; /* when the local side was closed for good; 0: it is there */
};

/* What is no frame ends the stream as its end does; the bytes before it count. */
static void decode(struct relay *r, size_t n)
{
	r->in_at = 0;
	r->in_n = multiplex_decode(&r->frames, r->in, n);
	r->daemon_eof = r->frames.bad;
}

/* This and the others that return a truth: false when the relay is over. */
static bool pull_daemon(struct relay *r)
{
	while (r->in_n == 0 && !r->daemon_eof) {
		size_t got = 0;
		CURLcode code = curl_easy_recv(r->line->curl, r->in, RELAY_BUFFER, &got);

		r->dry = code == CURLE_AGAIN;
		if (r->dry)
			return true;
		if (code != CURLE_OK)
			return false;
		if (got == 0)
			r->daemon_eof = true;
		else
			decode(r, got);
	}
	return true;
}

static void local_is_gone(struct relay *r)
{
	if (r->gone_ms == 0)
		r->gone_ms = boottime_ms();
}

static void push_local(struct relay *r)
{
	while (r->in_n > 0 && r->gone_ms == 0) {
		ssize_t k = send(r->local, r->in + r->in_at, r->in_n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN)
			return;
		if (k < 0) {
			local_is_gone(r);
			break;
		}
		r->in_at += (size_t)k;
		r->in_n -= (size_t)k;
	}
	if (r->gone_ms)
		r->in_n = 0;
}

static bool move_in(struct relay *r)
{
	/* a bound, so that a flood does not keep the other direction waiting */
	for (int i = 0; i < 16; i++) {
		if (!pull_daemon(r))
			return false;
		push_local(r);
		if (r->in_n > 0 || r->daemon_eof || r->dry)
			break;
	}
	return !r->daemon_eof || r->in_n > 0;
}

static void pull_local(struct relay *r)
{
	ssize_t k;

	if (r->out_n > 0 || r->local_eof)
		return;
	k = recv(r->local, r->out, RELAY_BUFFER, MSG_DONTWAIT);
	if (k > 0) {
		r->out_at = 0;
		r->out_n = (size_t)k;
	} else if (k == 0 || (errno != EAGAIN && errno != EINTR)) {
		r->local_eof = true;
	}
}

static bool push_daemon(struct relay *r)
{
	while (r->out_n > 0) {
		size_t sent = 0;
		CURLcode code = curl_easy_send(r->line->curl, r->out + r->out_at, r->out_n, &sent);

		r->out_at += sent;
		r->out_n -= sent;
		if (code == CURLE_AGAIN)
			return true;
		if (code != CURLE_OK)
			return false;
	}
	if (r->local_eof && !r->half_closed) {
		/* TLS has no half of a connection that libcurl could close */
		if (!r->line->http->host.tls)
			(void)shutdown(r->line->http->sock, SHUT_WR);
		r->half_closed = true;
	}
	/* what the local side wrote before it was closed has been sent on */
	return r->gone_ms == 0 || !r->local_eof;
}

static int wait_ms(const struct relay *r)
{
	uint64_t now = boottime_ms();

	if (!r->dry && r->in_n == 0)
		return 0;
	if (r->gone_ms == 0)
		return -1;
	return now >= r->gone_ms + RELAY_FLUSH_MS ? 0 : (int)(r->gone_ms + RELAY_FLUSH_MS - now);
}

static bool wait_both(struct relay *r)
{
	/* a side that has hung up would wake poll(2) for ever */
	struct pollfd at[2] = { { .fd = r->gone_ms ? -1 : r->local },
		{ .fd = r->line->http->sock } };

	if (r->out_n == 0 && !r->local_eof)
		at[0].events |= POLLIN;
	if (r->in_n > 0)
		at[0].events |= POLLOUT;
	else
		at[1].events |= POLLIN;
	if (r->out_n > 0)
		at[1].events |= POLLOUT;
	if (at[1].events == 0)
		at[1].fd = -1;
	if (poll(at, 2, wait_ms(r)) < 0)
		return errno == EINTR;
	if (at[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		local_is_gone(r);
	return r->gone_ms == 0 || boottime_ms() < r->gone_ms + RELAY_FLUSH_MS;
}

static void relay(struct relay *r)
{
	if (r->line->n > 0) {
		memcpy(r->in, r->line->data, r->line->n);
		decode(r, r->line->n);
	}
	while (move_in(r)) {
		pull_local(r);
		if (!push_daemon(r) || !wait_both(r))
			return;
	}
}

/* --- making it ------------------------------------------------------------------------------------------------------- */

static void close_others(int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a;

	if (low > 3)
		(void)close_range(3, (unsigned)low - 1, 0);
	if (high > low + 1)
		(void)close_range((unsigned)low + 1, (unsigned)high - 1, 0);
	(void)close_range((unsigned)high + 1, ~0u, 0);
}

static void become_relay(int local, int report)
{
	static const struct rlimit no_core = { 0, 0 };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)setsid();
	(void)prctl(PR_SET_NAME, "bailey-relay");
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &no_core);
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		(void)dup2(null, fd);
	close_others(local, report);
}

/* Runs in the relay process and never returns. */
static _Noreturn void relay_main(
	struct http *h, const struct http_request *q, int local, int report)
{
	struct report said = { .reason = REASON_NONE };
	struct err e = ERR_INIT;
	struct line l = { .http = h, .curl = curl_easy_init(), .what = q->what };
	struct relay r = { .line = &l, .local = local };
	bool failed;

	/* the maker's connection was closed with the other descriptors */
	h->sock = -1;
	l.deadline_ms = boottime_ms() + q->timeout_ms;
	l.data = xcalloc(1, RELAY_BUFFER);
	r.in = xcalloc(1, RELAY_BUFFER);
	r.out = xcalloc(1, RELAY_BUFFER);
	failed = !l.curl || agree(&l, q, &said, &e) < 0;
	if (failed) {
		said.reason = l.curl ? e.reason : R_NO_MEMORY;
		docker_quote(said.text, sizeof said.text, e.message ? e.message : "",
			e.message ? strlen(e.message) : 0);
	}
	if (write_all(report, &said, sizeof said) < 0 || failed || said.status >= 400)
		_exit(1);
	(void)close(report);
	relay(&r);
	_exit(0);
}

static int read_report(int fd, uint64_t wait_ms, struct report *ret)
{
	uint64_t deadline = boottime_ms() + wait_ms;
	size_t n = 0;

	while (n < sizeof *ret) {
		struct pollfd at = { .fd = fd, .events = POLLIN };
		uint64_t now = boottime_ms();
		ssize_t k;
		int r = now >= deadline ? 0 : poll(&at, 1, (int)(deadline - now));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		k = read(fd, (char *)ret + n, sizeof *ret - n);
		if (k == 0 || (k < 0 && errno != EINTR))
			return -1;
		n += k > 0 ? (size_t)k : 0;
	}
	return 0;
}

/* The relay as a grandchild: nobody has to reap it. */
static int fork_relay(struct http *h, const struct http_request *q, int local, int report)
{
	pid_t pid = fork();

	if (pid == 0) {
		pid = fork();
		if (pid != 0)
			_exit(pid < 0);
		become_relay(local, report);
		relay_main(h, q, local, report);
	}
	if (pid > 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	return pid < 0 ? -1 : 0;
}

static int take_report(const struct http *h, const struct http_request *q, struct report *said,
	struct http_reply *refusal, struct err *e)
{
	said->text[sizeof said->text - 1] = said->type[sizeof said->type - 1] = '\0';
	if (said->reason != REASON_NONE)
		return err_set(e, said->reason, 0, "%s", said->text);
	if (said->status < 400)
		return 0;
	refusal->status = said->status;
	refusal->libpod = said->libpod;
	FMT(refusal->type, "%s", said->type);
	if (!buf_add(&refusal->body, said->body, said->body_n))
		return err_set(e, R_NO_MEMORY, 0, "%s: no memory for the answer of '%s'", q->what,
			h->host.shown);
	return 0;
}

int http_hijack(struct http *h, const struct http_request *q, int *ret_fd,
	struct http_reply *refusal, struct err *e)
{
	_cleanup_close_ int ours = -1, theirs = -1, report_in = -1, report_out = -1;
	struct report said;
	int pair[2], ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, R_DOCKER_UNREACHABLE, errno, "%s: can't make a socket", q->what);
	ours = pair[0];
	theirs = pair[1];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, R_DOCKER_UNREACHABLE, errno, "%s: can't make a pipe", q->what);
	report_in = ends[0];
	report_out = ends[1];
	if (fork_relay(h, q, theirs, report_out) < 0)
		return err_set(e, R_DOCKER_UNREACHABLE, errno, "%s: can't start a relay", q->what);
	theirs = close_fd(theirs);
	report_out = close_fd(report_out);
	if (read_report(report_in, q->timeout_ms + SPARE_MS, &said) < 0)
		return err_set(e, R_DOCKER_UNREACHABLE, 0, "%s: the relay ended", q->what);
	refusal->status = 0;
	if (take_report(h, q, &said, refusal, e) < 0)
		return -1;
	if (refusal->status == 0)
		*ret_fd = move_fd(&ours);
	return 0;
}
