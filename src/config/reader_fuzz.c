/* Feeds any bytes to the check of bailey-toml's answer. */
#include "config/reader.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int take(void *context, const struct config_item *item, struct err *e)
{
	size_t *total = context;

	(void)e;
	/* reads all of it, so that a string without an end is seen */
	*total += strlen(item->key) + strlen(item->type) + strlen(item->value) + item->line;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	_cleanup_err_ struct err e = ERR_INIT;
	size_t total = 0;

	(void)reader_parse((const char *)data, n, "/x", take, &total, &e);
	return 0;
}
