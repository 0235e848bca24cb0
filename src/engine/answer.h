/* The answer to a request for a sandbox: one RESULT frame (spec/pack.h). */
#pragma once
#include "base/err.h"

/* e: why there is none; NULL: id is its.  One that doesn't wait for the answer has ended, and its own process sees that. */
void answer_send(int sock, const struct err *e, const char *id);
