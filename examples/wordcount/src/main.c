#include <stdio.h>

#include "count.h"

int main(void)
{
	struct count c;

	if (count_stream(stdin, COUNT_MAX_CHUNK, &c) != 0) {
		perror("wordcount");
		return 1;
	}
	printf("%lu %lu %lu\n", c.lines, c.words, c.bytes);
	return 0;
}
