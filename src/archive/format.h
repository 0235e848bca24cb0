/* Where the fields of a header lie.  Internal to the room. */
#pragma once

enum field {
	F_NAME = 0,
	F_MODE = 100,
	F_UID = 108,
	F_GID = 116,
	F_SIZE = 124,
	F_MTIME = 136,
	F_SUM = 148,
	F_TYPE = 156,
	F_LINK = 157,
	F_MAGIC = 257,
	F_MAJOR = 329,
	F_MINOR = 337,
	F_PREFIX = 345,
	/* GNU's own, where ustar has the prefix */
	F_SPARSE = 386,
	F_SPARSE_MORE = 482,
	F_REAL_SIZE = 483,
	F_MORE_MORE = 504, /* in a block that continues the map */
};

enum width {
	W_NAME = 100,
	W_ID = 8,
	W_SIZE = 12,
	W_SUM = 8,
	W_LINK = 100,
	W_MAGIC = 8,
	W_PREFIX = 155,
	W_SPARSE = 24, /* one piece: offset and length */
	N_SPARSE = 4,
	N_SPARSE_MORE = 21,
};
