/* Flags to options; the part of options_load() that needs neither files nor environment. */
#pragma once
#include "config/options.h"

/* As options_load(), for an initialised *o. */
int args_parse(struct options *o, enum verb v, int argc, char **argv, int *ret_rest, struct err *e);
