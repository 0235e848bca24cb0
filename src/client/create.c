/* Owns making a sandbox: the request is filled here with the caller's rights, and an engine process of its own makes and keeps
 * what was asked for.  Called by users of the library. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"
#include "client/command.h"
#include "client/control.h"
#include "client/profile.h"
#include "client/request.h"
#include "launcher/launch_create.h"
#include "spec/pack.h"

enum {
	ANSWER_MS = 60000,     /* the engine has time-outs of its own, all shorter */
	ANSWER_MAX = 16 << 10, /* an id, or an error with two paths in it */
	RUN_SPARE_MS = 60000,
};

/* The RESULT frame, which may come in parts.  *ret points into data. */
static int read_answer(int fd, uint8_t *data, size_t cap, struct wire_result *ret, struct err *e)
{
	const uint64_t until = boottime_ms() + ANSWER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct wire_frame f;
	size_t n = 0, used;

	for (;;) {
		const uint64_t now = boottime_ms();
		enum wire_parsed parsed = wire_parse(data, n, WIRE_FROM_ENGINE, &f, &used);
		ssize_t got;

		if (parsed == WIRE_OK && wire_get_result(&f, ret))
			return 0;
		if (parsed != WIRE_SHORT || n == cap)
			return err_set(e, R_WIRE_MALFORMED, 0,
				"make a sandbox: the engine's answer is none");
		if (now >= until)
			return err_set(e, R_TIMEOUT, 0,
				"make a sandbox: no answer of the engine for %d ms", ANSWER_MS);
		if (poll(&p, 1, (int)(until - now)) <= 0)
			continue;
		got = read(fd, data + n, cap - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_set(e, R_ENGINE_LOST, got < 0 ? errno : 0,
				"make a sandbox: its engine ended");
		n += (size_t)got;
	}
}

static int take_id(const struct wire_result *m, char ret_id[BAILEY_ID_SIZE], struct err *e)
{
	char id[BAILEY_ID_SIZE];
	uint32_t n = m->rest_len;

	if (m->error || m->flags & WIRE_RESULT_REASON)
		return client_result_error(m, "make", "a sandbox", e);
	if (n && m->rest[n - 1] == '\0')
		n--;
	if (!n || n >= sizeof id)
		return err_set(e, R_WIRE_MALFORMED, 0, "make a sandbox: its id is none");
	memcpy(id, m->rest, n);
	id[n] = '\0';
	if (strlen(id) != n || !id_is_valid(id))
		return err_set(e, R_WIRE_MALFORMED, 0, "make a sandbox: its id is none");
	if (ret_id)
		memcpy(ret_id, id, sizeof id);
	return 0;
}

static int ask_engine(
	const struct bailey *b, const struct pack_request *pack, char *ret_id, struct err *e)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	_cleanup_err_ struct err broken = ERR_INIT;
	uint8_t data[ANSWER_MAX];
	struct wire_result m;
	int pair[2], sent;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, R_NO_MEMORY, errno, "make a sandbox");
	ours = pair[0];
	theirs = pair[1];
	if (engine_spawn(b, "run", theirs, e) < 0)
		return -1;
	theirs = close_fd(theirs);
	/* an engine that refuses at once hangs up, and has said why */
	sent = pack_send(ours, pack, &broken);
	if (read_answer(ours, data, sizeof data, &m, e) < 0) {
		if (sent < 0 && e->reason == R_ENGINE_LOST)
			return err_move(e, &broken);
		return -1;
	}
	return take_id(&m, ret_id, e);
}

/* A launcher makes it: what it is told is what may be said, not what it is built from. */
struct asked {
	const struct bailey *b;
	char *ret_id;
};

static int ask_launcher(void *arg, struct launch_out *o, struct err *e)
{
	const struct asked *a = arg;
	_cleanup_close_ int ours = -1, theirs = -1;
	uint8_t data[ANSWER_MAX];
	struct wire_result m;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, R_NO_MEMORY, errno, "make a sandbox");
	ours = pair[0];
	theirs = pair[1];
	if (launcher_create(a->b, o, theirs, e) < 0)
		return -1;
	theirs = close_fd(theirs);
	return read_answer(ours, data, sizeof data, &m, e) < 0 ? -1 : take_id(&m, a->ret_id, e);
}

static int ask_launcher_create(const struct bailey *b, const struct run_request *request,
	const struct pack_request *rest, char *ret_id, struct err *e)
{
	_cleanup_launch_out_ struct launch_out o = LAUNCH_OUT_INIT;
	struct asked a = { b, ret_id };

	return launch_create_put(&o, request, rest, NULL, e) < 0 ? -1 : ask_launcher(&a, &o, e);
}

static int put_text(char *out, size_t cap, const char *text, const char *what, struct err *e)
{
	if (text && strlen(text) >= cap)
		return err_set(e, R_OUT_OF_RANGE, 0, "use %s '%.64s...': too long", what, text);
	str_format(out, cap, "%s", text ? text : "");
	return 0;
}

/* What the profile doesn't know of. */
static int fill_rest(struct pack_request *p, const struct bailey_create_options *o, struct err *e)
{
	/* packing only reads */
	union {
		const char *const *given;
		char *const *packed;
	} command;

	if (o->name && !name_is_valid(o->name))
		return err_set(e, R_BAD_VALUE, 0,
			"use name '%.64s': not of [a-z0-9][a-z0-9._-]{0,62}", o->name);
	if (put_text(p->name, sizeof p->name, o->name, "name", e) < 0 ||
		put_text(p->image, sizeof p->image, o->image ? o->image : "host", "image", e) < 0 ||
		put_text(p->workspace, sizeof p->workspace, o->workspace, "workspace", e) < 0)
		return -1;
	if (o->hostname &&
		put_text(p->spec.hostname, sizeof p->spec.hostname, o->hostname, "host name", e) <
			0)
		return -1;
	p->keep = o->flags & BAILEY_KEEP || !o->command;
	p->spool_max = o->spool_max;
	command.given = o->command;
	p->command = command.packed;
	return 0;
}

/* An engine with images of its own finds them itself: nothing of the host is opened for it. */
static bool has_images(const struct bailey *b)
{
	return streq(b->engine, "docker");
}

static int put_engine(const struct bailey *b, const struct bailey_create_options *o,
	struct pack_request *p, struct err *e)
{
	const char *image = o->image && !streq(o->image, "host") ? o->image : "";

	if (!has_images(b))
		return 0;
	if (put_text(p->spec.runtime, sizeof p->spec.runtime, b->runtime, "runtime", e) < 0 ||
		put_text(p->spec.image_ref, sizeof p->spec.image_ref, image, "image", e) < 0)
		return -1;
	return put_text(
		p->image, sizeof p->image, *image ? image : PROFILE_AGENT_IMAGE, "image", e);
}

/* All but what the profile has built. */
static int create_profile(
	const struct bailey *b, const struct bailey_create_options *o, char *ret_id, struct err *e)
{
	struct asked a = { b, ret_id };
	struct pack_request pack;
	int r;

	if (b->launcher)
		return client_profile_ask(b, o, ask_launcher, &a, e);
	if (o->name && !name_is_valid(o->name))
		return err_set(e, R_BAD_VALUE, 0,
			"use name '%.64s': not of [a-z0-9][a-z0-9._-]{0,62}", o->name);
	memset(&pack, 0, sizeof pack);
	spec_init(&pack.spec);
	r = client_profile(b, o, &pack, e);
	if (r == 0)
		r = put_text(pack.image, sizeof pack.image,
			has_images(b)      ? pack.spec.image_ref
				: o->image ? o->image
					   : "host",
			"image", e);
	if (r == 0) {
		str_format(pack.name, sizeof pack.name, "%s", o->name ? o->name : "");
		pack.keep = o->flags & BAILEY_KEEP;
		pack.spool_max = o->spool_max;
		r = ask_engine(b, &pack, ret_id, e);
	}
	pack_done(&pack);
	return r;
}

static int create_sandbox(const struct bailey *b, const struct bailey_create_options *given,
	char *ret_id, struct err *e)
{
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	_cleanup_request_strings_ struct request_strings strings;
	struct pack_request pack = { .command = NULL };
	struct run_request request;
	_cleanup_free_ char **env = NULL;
	const char *given_image;
	int r;

	request_init(&request, &strings);
	if (client_options(&o, sizeof o, given, "create", e) < 0)
		return -1;
	if (o.command && !o.command[0])
		return err_set(e, R_BAD_VALUE, 0, "make a sandbox for a command: none is given");
	if (o.profile)
		return create_profile(b, &o, ret_id, e);
	if (o.n_params)
		return err_set(e, R_BAD_VALUE, 0, "make a sandbox: parameters are for profiles");
	spec_init(&pack.spec);
	given_image = o.image;
	if (has_images(b))
		o.image = NULL;
	request_fit(&o, !has_images(b) && (!b->layers || streq(b->layers, "tmpfs")));
	r = request_fill(&request, b->home, &o, &strings, e);
	o.image = given_image;
	if (r == 0 && b->launcher) {
		r = fill_rest(&pack, &o, e);
		if (r == 0)
			r = ask_launcher_create(b, &request, &pack, ret_id, e);
		request_done(&request);
		return r;
	}
	if (r == 0)
		r = profile_create(&pack.spec, &request, &env, e);
	if (r == 0)
		r = fill_rest(&pack, &o, e);
	if (r == 0)
		r = put_engine(b, &o, &pack, e);
	if (r == 0)
		r = ask_engine(b, &pack, ret_id, e);
	spec_done(&pack.spec);
	request_done(&request);
	return r;
}

int bailey_create(struct bailey *b, const struct bailey_create_options *o,
	char ret_id[BAILEY_ID_SIZE], struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(create_sandbox(b, o, ret_id, &err), e, &err);
}

static int run_in(const struct bailey *b, const char *id, const struct bailey_exec_options *exec,
	struct bailey_result *ret, struct err *e)
{
	_cleanup_err_ struct err ignored = ERR_INIT;
	struct bailey_sandbox *s = NULL;
	struct bailey_command *c = NULL;
	int r = connect_sandbox(b, id, &s, e);

	if (r == 0)
		r = command_exec(s, exec, &c, e);
	if (r == 0)
		r = command_wait(c, -1, ret, e);
	bailey_command_free(c);
	if (s && control_remove(s, 0, true, &ignored) < 0 && r == 0)
		r = err_move(e, &ignored);
	conn_free(s);
	return r;
}

static int run_once(const struct bailey *b, const struct bailey_create_options *create,
	const struct bailey_exec_options *given, struct bailey_result *ret, struct err *e)
{
	struct bailey_create_options o = BAILEY_CREATE_OPTIONS_INIT;
	struct bailey_exec_options exec = BAILEY_EXEC_OPTIONS_INIT;
	char id[BAILEY_ID_SIZE];

	if (client_options(&o, sizeof o, create, "create", e) < 0 ||
		client_options(&exec, sizeof exec, given, "exec", e) < 0)
		return -1;
	o.size = sizeof o;
	exec.size = sizeof exec;
	if (o.command || exec.flags & BAILEY_DETACHED)
		return err_set(e, R_BAD_VALUE, 0,
			"run a command: it can't be detached, nor a second one be started");
	/* should this program die first, the sandbox has an end all the same */
	if (!o.ttl_ms && exec.timeout_ms)
		o.ttl_ms = exec.timeout_ms + RUN_SPARE_MS;
	if (create_sandbox(b, &o, id, e) < 0)
		return -1;
	return run_in(b, id, &exec, ret, e);
}

int bailey_run(struct bailey *b, const struct bailey_create_options *create,
	const struct bailey_exec_options *exec, struct bailey_result *ret, struct bailey_error *e)
{
	struct err err = ERR_INIT;

	return client_give(run_once(b, create, exec, ret, &err), e, &err);
}
