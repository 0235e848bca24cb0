/* One sandbox that lives, on the native engine alone: each test runs in a process of its own, as a user and as root. */
#pragma once
#include <stdio.h>

#include "engine/native/native.h"

enum { BOX_SKIPPED = 77, BOX_FAILED = 1 };

struct box {
	struct engine *engine;
	struct sandbox *sb;
	struct err e;
};

/* What a test asks for beyond the usual. */
struct wish {
	bool read_only, limited;
	uid_t uid;
	uint64_t disk;
	const char *image, *cow, *rw, *socket;
	unsigned long long object; /* of rw: only this inode may be mounted; 0: any */
	unsigned files;            /* limit on open files; 0: none */
};

#define NEED(x) \
	do { \
		if (!(x)) { \
			(void)fprintf(stderr, "%s:%d: %s: %s\n", __func__, __LINE__, #x, \
				b.e.message ?: ""); \
			return BOX_FAILED; \
		} \
	} while (0)

/* A directory of the present test's own, which is also where it is. */
extern char box_home[64];

/* Where layers lie that are files: made below the home when it is empty. */
extern char box_store[96];

int box_make(struct box *b, const struct wish *w);
bool box_start(struct box *b);
bool box_stop(struct box *b);
void box_drop(struct box *b);

/* Runs a line in a shell inside: true when it ended with 0 and wrote exactly `want` (newlines at the end aside). */
bool box_says(struct box *b, const char *line, const char *want);

/* Runs f in a new owner of a fork; copy: of the files as they are, else of the sealed layers.  f's result. */
int box_fork(struct box *b, bool copy, int (*f)(struct box *b));

/* What changes() writes, and its exit status. */
int box_changes(struct box *b, uint32_t flags, struct buf *out);

/* True when the records are these, sorted: "A path" and a newline each. */
bool box_changed(struct box *b, uint32_t flags, const char *want);

/* Asserts that f is 0 as a user and as root; BOX_SKIPPED from both skips. */
void box_test(int (*f)(void));

/* The same as root with layers that lie in files; nothing where box_can_loop() is false. */
void box_test_loop(int (*f)(void));
bool box_can_loop(void);

#define TEST(f) \
	static void test_##f(void **state) \
	{ \
		(void)state; \
		box_test(f); \
	}

/* Of whatever layers lie in. */
#define TEST_LAYERS(f) \
	static void test_##f(void **state) \
	{ \
		(void)state; \
		box_test(f); \
		box_test_loop(f); \
	}
