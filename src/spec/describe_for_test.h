/* For tests: all of a spec as text; a field that is added to the spec belongs here. */
#pragma once
#include "base/buf.h"
#include "spec/spec.h"

void describe(const struct sandbox_spec *s, struct buf *out);
