/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Appending chunks to a file, whole ones only; or to several files, the parts
 * of a trace
 */

#ifndef BTRAIL_STORE_H
#define BTRAIL_STORE_H

#include "lib/internal/index.h"

struct btrail_store;

/* A ring has so many parts, of which the oldest is deleted. */
#define BTRAIL_STORE_RING_PARTS 8

/**
 * struct btrail_store_options - where to and how
 * @path:     of the first file; see parts.h for the others
 * @replace:  what is there, other parts of that name included
 * @id:       of the trace; NULL for a random one
 * @part:     number of the first file, whose name is @path; if that is one of
 *            a part of this number the next ones are named like it
 * @merged:   how many parts that follow it this one stands for, too
 * @continued: the trace goes on in a file that somebody else writes
 * @begin:    why records before the first chunk of a stream are in no file of
 *            this store, see struct btrail_file_header; 0 if there are none
 * @part_size: begin a new part before this one gets larger; 0 for never.  A
 *            part is larger if a single chunk is.
 * @ring_size: delete the oldest part before all of them take more than this;
 *            0 for never.  It should have room for some chunks: for those
 *            that it has not, the error is ENOSPC.
 * @ring_records, @ring_ns: in a ring, delete the oldest part as soon as the
 *            others have so many records, or so much time; 0 for never.  A part
 *            has no more than its share then.
 * @ring_held: NULL, or what any thread can set, atomically: while it is not 0
 *            nothing of a ring is deleted, but it gets no larger than twice
 *            its size
 * @sync:     enum btrail_sync
 * @sync_interval: nanoseconds, with BTRAIL_SYNC_INTERVAL
 */
struct btrail_store_options {
    const char *path;
    bool replace;
    const uint8_t *id;
    uint32_t part;
    uint32_t merged;
    bool continued;
    uint16_t begin;
    uint64_t part_size;
    uint64_t ring_size;
    uint64_t ring_records;
    uint64_t ring_ns;
    const unsigned *ring_held;
    enum btrail_sync sync;
    uint64_t sync_interval;
};

/*
 * Create a file with its header.  Errors: IO (errno EEXIST if it is there, or
 * a part of that name, and is not to be replaced; EBUSY if it is to be, and
 * another store writes to it).
 */
int btrail_store_open(struct btrail_store **store,
                      const struct btrail_store_options *options);

/*
 * Lock a file that is to be written to, until it is closed; false if another
 * store writes to it.  Where files cannot be locked, nobody has locked them.
 */
bool btrail_store_lock(int fd);

/*
 * Go on with a file that is there: what is behind @offset is cut off.  @fd is
 * owned from here on, also on failure.  Chunks before it that are to be in the
 * index are named by btrail_store_adopt(), in order.
 */
int btrail_store_resume(struct btrail_store **store,
                        const struct btrail_store_options *options, int fd,
                        uint64_t offset, uint64_t sequence);
void btrail_store_adopt(struct btrail_store *store,
                        const struct btrail_index_entry *entry,
                        const GArray *roots);

/*
 * Tell id and begin after all, before there are chunks.  Errors: IO (errno
 * ESPIPE if the header cannot be written anew, and stays; others are for good).
 */
int btrail_store_identify(struct btrail_store *store, const uint8_t *id,
                          uint16_t begin);

/*
 * Append a META chunk.  Those that come before the first DATA chunk are
 * repeated in each part.  After an IO error, here or below, the file ends with
 * its last whole chunk and nothing can be appended any more: the same error
 * comes again.
 */
int btrail_store_meta(struct btrail_store *store, const void *json,
                      size_t len);

/* Append a DATA chunk; @header is that of the block in @payload. */
int btrail_store_data(struct btrail_store *store, const void *payload,
                      size_t len, const struct btrail_block_header *header);

/* Delete what a ring that was held has too much. */
void btrail_store_trim(struct btrail_store *store);

/*
 * Append a SIDEBAND chunk.  In a ring it is carried on when its part is
 * deleted; but no more than half of what a part has room for, the newest.  One
 * that is larger than that is left out.
 */
int btrail_store_sideband(struct btrail_store *store, const void *payload,
                          size_t len);

/*
 * With BTRAIL_SYNC_INTERVAL: have what was written reach the disk, if it is
 * time to.  @next gets when to call it again, by g_get_monotonic_time(), or 0
 * if there is nothing to wait for.
 */
int btrail_store_sync(struct btrail_store *store, gint64 *next);

/* Bytes written, those in parts that were deleted included */
uint64_t btrail_store_size(const struct btrail_store *store);

/* Write the index, unless there was an error; close the file, free @store. */
int btrail_store_close(struct btrail_store *store);

#endif /* BTRAIL_STORE_H */
