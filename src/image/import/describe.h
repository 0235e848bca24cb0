/* JSON that goes out. */
#pragma once
#include "image/image.h"

/* One object with the fields of record.def, and "name". */
void describe_image(const struct image *i, struct buf *ret);

/* An array of them. */
void describe_begin(struct buf *ret);
void describe_next(const struct image *i, bool first, struct buf *ret);
void describe_end(struct buf *ret);

/* {"error": {...}}, as every verb prints it. */

/* {KEY: [names]} */
void describe_names(const char *key, const struct image_list *names, struct buf *ret);
