/* Functions whose use is a compile error anywhere in the tree; the build force-includes this file.
 * Each has a bounded or descriptor-based replacement in base/. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* clang's fortified headers make macros of some */
#undef sprintf
#undef vsprintf
#undef strtok
#undef strncpy
#undef strncat
#undef strcpy
#undef strcat

#pragma GCC poison strcpy strcat strncpy strncat strtok sprintf vsprintf gets
#pragma GCC poison system popen mktemp tmpnam tempnam
#pragma GCC poison gmtime localtime asctime ctime
#pragma GCC poison atoi atol atoll strtol strtoul strtoll
