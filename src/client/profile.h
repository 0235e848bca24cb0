/* From a profile's name and parameters, as a user of the library gives them, to a request for an engine. */
#pragma once
#include "bailey.h"
#include "spec/pack.h"

/* Opens what the parameters name, once, with this process's own rights.  *ret is released by pack_done(). */
int client_profile(const struct bailey *b, const struct bailey_create_options *o,
	struct pack_request *ret, struct err *e);

/* The same for a launcher, which builds it: calls send() with what is to be asked, whose descriptors are closed afterwards. */
struct launch_out;
int client_profile_ask(const struct bailey *b, const struct bailey_create_options *o,
	int (*send)(void *arg, struct launch_out *out, struct err *e), void *arg, struct err *e);
