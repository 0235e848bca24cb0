/* Requests about files, as other parts of the library use them. */
#pragma once
#include "client/client.h"

int file_path(const char *path, struct err *e);

/* BAILEY_* to WIRE_FILE_* */
uint32_t file_flags(unsigned flags);

/* Checks path and connection and begins st; the caller sends the request and ends st. */
int file_begin(struct bailey_sandbox *s, struct stream *st, const struct stream_ops *ops,
	const char *path, struct err *e);
int file_stat(struct bailey_sandbox *s, const char *path, unsigned flags, struct bailey_stat *ret,
	struct err *e);

/* Sends TAR_IN or TAR_OUT; BAILEY_* flags. */
int put_tar(struct stream *st, bool in, const char *path, unsigned flags, struct err *e);

/* Sends n bytes as they find room; stops early, without an error, when the answer came already. */
int stream_send_all(struct stream *st, const void *data, size_t n, const char *what,
	const char *path, struct err *e);

/* A record of LIST or SEARCH; *ret points into *text.  path: the name may be one beneath the directory. */
struct entry_text {
	char name[WIRE_MAX_PATH + 1], more[WIRE_MAX_PATH + 1];
};
int entry_parse(const uint8_t *p, size_t n, bool path, struct entry_text *text,
	struct bailey_entry *ret, struct err *e);
