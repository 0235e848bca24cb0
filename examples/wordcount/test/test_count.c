#include <stdio.h>

#include "count.h"

static int failed;

static void check(const char *name, const char *text, size_t chunk, struct count want)
{
	struct count got;
	FILE *f = tmpfile();

	if (!f || fputs(text, f) == EOF || fseek(f, 0, SEEK_SET) != 0 ||
		count_stream(f, chunk, &got) != 0) {
		printf("FAIL %s: could not be run\n", name);
		failed++;
	} else if (got.lines != want.lines || got.words != want.words || got.bytes != want.bytes) {
		printf("FAIL %s: expected %lu lines, %lu words, %lu bytes, got %lu, %lu, %lu\n",
			name, want.lines, want.words, want.bytes, got.lines, got.words, got.bytes);
		failed++;
	} else {
		printf("ok %s\n", name);
	}
	if (f)
		fclose(f);
}

int main(void)
{
	check("empty input", "", 16, (struct count){ 0, 0, 0 });
	check("two lines", "one two\nthree\n", 64, (struct count){ 2, 3, 14 });
	check("spaces only", " \t \n", 64, (struct count){ 1, 0, 4 });
	check("a word across two reads", "sandbox yard\n", 4, (struct count){ 1, 2, 13 });
	check("one byte a read", "a bc\n", 1, (struct count){ 1, 2, 5 });
	if (failed == 0)
		printf("all tests passed\n");
	return failed != 0;
}
