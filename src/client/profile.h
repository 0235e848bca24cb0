/* From a profile's name and parameters, as a user of the library gives them, to a request for an engine. */
#pragma once
#include "bailey.h"
#include "spec/pack.h"

/* Opens what the parameters name, once, with this process's own rights.  *ret is released by pack_done(). */
int client_profile(const struct bailey *b, const struct bailey_create_options *o,
	struct pack_request *ret, struct err *e);
