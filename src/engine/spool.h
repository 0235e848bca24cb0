/* The output of commands, kept on disk: what any client can read again from the first byte on, and what outlives the process
 * that writes it.
 *
 * Files of the directory: `index`, a slot of SPOOL_SLOT bytes per command; and per command that wrote anything `ID.0` and
 * `ID.1`, two segments of records in the order in which they came.  When a segment is full the other is begun anew: between
 * half and all of the maximum is kept.  Counters count what came, kept or not. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SPOOL_SLOT = 512,
	SPOOL_SLOTS = 1280, /* commands that run, and those that ended */
	SPOOL_ARGS = 424,   /* bytes of arguments kept to tell commands apart */
	SPOOL_RECORD_MAX = 64 << 10,
	SPOOL_HEAD = 64, /* of a segment */
	SPOOL_RECORD_HEAD = 8,
	SPOOL_MIN = 64 << 10,
	SPOOL_DEFAULT = 16 << 20,
	SPOOL_MEMORY = 256 << 10, /* a segment where the disk is full */
};

/* One command in the index, without its arguments. */
struct spool_slot {
	uint32_t magic, check;
	uint32_t id; /* 0: free */
	uint32_t state, how, status, flags, pid;
	uint32_t left, closed;
	uint64_t started_ms, ended_ms;
	uint64_t bytes[2]; /* of standard output and standard error that came */
	uint64_t dropped;
	uint32_t args_len, spare;
};

struct spool {
	int dir;
	int index;     /* -1: nothing was written yet */
	uint64_t max;  /* bytes kept of one command */
	uint64_t kept; /* of all */
};

struct spool_segment {
	int fd; /* -1: there is none */
	bool memory;
	uint32_t seq;
	uint64_t start[2]; /* bytes that came before it */
	uint64_t kept[2];
	uint64_t size; /* of the file, as far as it is whole */
};

/* The output of one command. */
struct spool_output {
	uint32_t id;
	bool loaded;       /* the files were looked at */
	uint64_t total[2]; /* bytes that came */
	struct spool_segment segments[2];
	unsigned current; /* index of the newest */
};

/* A reader's place.  pos counts the bytes of both streams that came before it. */
struct spool_cursor {
	uint32_t seq;
	uint64_t at;   /* of the record in the segment's file */
	uint32_t part; /* bytes of that record that were read */
	uint64_t pos;
	uint64_t dropped; /* passed over, since they were no longer kept */
};

/* dir stays the caller's.  -1 with errno. */
int spool_open(struct spool *s, int dir, uint64_t max);
void spool_close(struct spool *s);

/* How many slots the index has. */
unsigned spool_slots(const struct spool *s);

/* Slot i of the index: 1 when it is a command, 0 when free or damaged. */
int spool_read_slot(const struct spool *s, unsigned i, struct spool_slot *ret);

/* The arguments behind it: a NUL behind each, args_len bytes. */
size_t spool_read_args(const struct spool *s, unsigned i, const struct spool_slot *slot,
	char ret[static SPOOL_ARGS]);

/* args NULL: those that stand there stay.  -1 with errno: the disk is full, and the command will be forgotten with this
 * process. */
int spool_write_slot(struct spool *s, unsigned i, struct spool_slot *slot, const char *args);

void output_init(struct spool_output *o, uint32_t id);

/* Finds what an earlier process wrote; a record that was cut is taken off.  came: bytes that are known to have come. */
void output_load(struct spool *s, struct spool_output *o, const uint64_t came[2]);

/* Appends at most SPOOL_RECORD_MAX bytes.  Never fails: what can't be kept is counted.  may_rotate false: rather grow beyond
 * the maximum than drop the older segment. */
void output_append(struct spool *s, struct spool_output *o, unsigned lane, const uint8_t *p,
	size_t n, bool may_rotate);

/* The next append would want to drop the older segment. */
bool output_full(const struct spool *s, const struct spool_output *o);
uint64_t output_dropped(const struct spool_output *o);
uint64_t output_pos(const struct spool_output *o);

/* Bytes that come without waiting for disk are gone with this process: the index must know of them before they are
 * acknowledged. */
bool output_in_memory(const struct spool_output *o);

/* Closes the descriptors; the files stay. */
void output_release(struct spool_output *o);
/* Removes the files. */
void output_remove(struct spool *s, struct spool_output *o);

/* At the oldest byte that is kept. */
void cursor_begin(const struct spool_output *o, struct spool_cursor *c);

/* Reads from the cursor into buf (at least SPOOL_RECORD_MAX + SPOOL_RECORD_HEAD bytes): whole records.  0 at the end. */
size_t cursor_read(const struct spool_output *o, struct spool_cursor *c, uint8_t *buf, size_t cap);

/* The record at *at of what cursor_read() gave; false behind the last.  The cursor's part is left out. */
bool record_next(const struct spool_cursor *c, const uint8_t *buf, size_t n, size_t *at,
	unsigned *ret_lane, const uint8_t **ret_p, size_t *ret_n);

/* To the end: what lies between is counted as dropped. */
void cursor_skip(const struct spool_output *o, struct spool_cursor *c);

/* n bytes of the record at the cursor were used, of `left`. */
void cursor_used(struct spool_cursor *c, size_t n, size_t left);
