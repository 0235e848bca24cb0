/* The two parts of options_load(), apart for the tests. */
#pragma once
#include "config/options.h"

/* Flags, into an initialised *o; as options_load(). */
int args_parse(struct options *o, enum verb v, int argc, char **argv, int *ret_rest, struct err *e);

/* Everything of lower precedence, behind that. */
int load_below_flags(struct options *o, const char *system_file, struct err *e);
