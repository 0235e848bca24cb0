#include "count.h"

#include <ctype.h>
#include <stdbool.h>

int count_stream(FILE *f, size_t chunk, struct count *c)
{
	static char buf[COUNT_MAX_CHUNK];
	size_t n;

	*c = (struct count){ 0 };
	if (chunk == 0 || chunk > sizeof buf)
		return -1;
	while ((n = fread(buf, 1, chunk, f)) > 0) {
		bool in_word = c->bytes > 0; /* behind the first read a word goes on */

		c->bytes += n;
		for (size_t i = 0; i < n; i++) {
			if (buf[i] == '\n')
				c->lines++;
			if (isspace((unsigned char)buf[i])) {
				in_word = false;
			} else if (!in_word) {
				in_word = true;
				c->words++;
			}
		}
	}
	return ferror(f) ? -1 : 0;
}
