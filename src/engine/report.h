/* The report of probe() as JSON; shared by `bailey doctor` and the engines' own `probe` verb. */
#pragma once
#include "base/buf.h"
#include "engine/engine.h"

/* One object and a newline: engine, usable, checks[] of check, verdict, result, consequence, remedy. */
void engine_report_json(struct buf *out, const char *engine, const struct engine_report *r);
