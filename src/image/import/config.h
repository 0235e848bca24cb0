/* What an image says of itself: its configuration. */
#pragma once
#include "image/import/manifest.h"

/* The digests of its layers before compression, in order. */
struct diff_ids {
	char (*hex)[IMAGE_HEX];
	unsigned n;
};

void diff_ids_done(struct diff_ids *d);
#define _cleanup_diff_ids_ _cleanup_(diff_ids_done)

/* Fills what the record takes from the configuration, and its id.  An image for another machine or system, or one whose
 * words are no use, is R_IMAGE_INVALID. */
int config_read(const struct buf *text, struct image *ret, struct diff_ids *ret_ids, struct err *e);

/* Writes a configuration for an image of one layer; i->cmd and so on may be empty. */
int config_write(const struct image *i, const char *diff_id, struct buf *ret, struct err *e);

/* i->user to ids by the tree's own etc/passwd and etc/group, which are as hostile as all of it. */
int config_find_user(struct image *i, int root_fd, struct err *e);
