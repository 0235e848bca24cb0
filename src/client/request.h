/* From the options of a new sandbox to the request that a profile takes: `bailey run` and bailey_create() share it. */
#pragma once
#include "bailey.h"
#include "image/image.h"
#include "spec/profile.h"

/* What the strings of a request point to; its declarer's, kept as long as the request and the spec made from it. */
struct request_strings {
	char **env;
	unsigned n_env;
	struct image image;
	uint8_t print[SPEC_PRINT_LEN];
};
void request_strings_done(struct request_strings *s);
#define _cleanup_request_strings_ _cleanup_(request_strings_done)

/* Both empty; needed before request_fill() and whatever releases them. */
void request_init(struct run_request *r, struct request_strings *own);

/* Sizes that are 0 become what the memory limit leaves room for, if that is less than the usual; for bailey_create() alone. */
void request_fit(struct bailey_create_options *o, bool layers_are_memory);

/* Opens every path of the host that the options name, once, with this process's own rights, and checks what may be shown.
 * home: where images are looked up.  Release both, also after a failure. */
int request_fill(struct run_request *r, const char *home, const struct bailey_create_options *o,
	struct request_strings *own, struct err *e);
void request_done(struct run_request *r);

/* Looks at a directory that is open already and gives a descriptor of its own, as admit_fd(); for one program at a time. */
struct admit;
int request_admit(const struct admit *a, int fd, int *ret_fd, struct err *e);

/* "host" (or NULL): *ret_fd stays; a path: its directory; else an image of the store in home, which *own then describes and
 * keeps from removal. */
int request_image(const char *home, const char *name, int *ret_fd, int *ret_lock_fd,
	struct image *own, struct err *e);

/* "UID" or "UID:GID", each up to 65534; one alone is both. */
int user_parse(const char *text, uint32_t *ret_uid, uint32_t *ret_gid, struct err *e);
