/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Appending chunks to a file, whole ones only; or to several files, the parts
 * of a trace
 */

#ifndef BTRAIL_STORE_H
#define BTRAIL_STORE_H

#include "lib/internal/index.h"

struct btrail_store;

/* A ring has this many parts, and deletes the oldest one. */
#define BTRAIL_STORE_RING_PARTS 8

/**
 * struct btrail_store_options - where and how to write
 * @path:     of the first file; see parts.h for the others
 * @replace:  replace existing files, including other parts of that name
 * @id:       of the trace; NULL for a random one
 * @part:     number of the first file, whose name is @path; if @path is the
 *            name of a part with this number, the next ones are named like it
 * @merged:   how many of the next parts this one also stands for
 * @continued: the trace continues in a file of another writer
 * @begin:    why records before the first chunk of a stream are in no file of
 *            this store, see struct btrail_file_header; 0 if there are none
 * @part_size: begin a new part before this one gets larger; 0 for never.  A
 *            part is larger if a single chunk is.
 * @ring_size: delete the oldest part before all of them together get larger;
 *            0 for never.  There should be room for several chunks: a chunk
 *            without room fails with ENOSPC.
 * @ring_records, @ring_ns: in a ring, delete the oldest part as soon as the
 *            others have this many records, or this much time; 0 for never.
 *            Each part then has at most its share.
 * @ring_held: NULL, or a flag that any thread can set atomically: while it is
 *            not 0, the ring deletes nothing, unless it would get larger than
 *            twice its size
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
 * Creates a file with its header.  Errors: IO (errno EEXIST if it exists, or a
 * part of that name, and must not be replaced; EBUSY if it must be replaced and
 * another store writes to it).
 */
int btrail_store_open(struct btrail_store **store,
                      const struct btrail_store_options *options);

/*
 * Locks a file for writing, until it is closed; false if another store writes
 * to it.  A file that cannot be locked counts as locked by the caller.
 */
bool btrail_store_lock(int fd);

/*
 * Continues an existing file, and cuts off what is after @offset.  The store
 * owns @fd from here on, also on failure.  btrail_store_adopt() then adds the
 * chunks before @offset to the index, in order.
 */
int btrail_store_resume(struct btrail_store **store,
                        const struct btrail_store_options *options, int fd,
                        uint64_t offset, uint64_t sequence);
void btrail_store_adopt(struct btrail_store *store,
                        const struct btrail_index_entry *entry,
                        const GArray *roots);

/*
 * Sets id and begin before there are chunks.  Errors: IO (errno ESPIPE if the
 * header cannot be rewritten, and stays; others are permanent).
 */
int btrail_store_identify(struct btrail_store *store, const uint8_t *id,
                          uint16_t begin);

/*
 * Appends a META chunk.  Those before the first DATA chunk are repeated in each
 * part.  After an IO error, here or below, the file ends with its last whole
 * chunk, and everything that is appended fails with the same error.
 */
int btrail_store_meta(struct btrail_store *store, const void *json,
                      size_t len);

/* Appends a DATA chunk; @header is that of the block in @payload. */
int btrail_store_data(struct btrail_store *store, const void *payload,
                      size_t len, const struct btrail_block_header *header);

/* Deletes the excess of a ring that was held. */
void btrail_store_trim(struct btrail_store *store);

/*
 * Appends a SIDEBAND chunk.  When a ring deletes the part, it copies the newest
 * SIDEBAND chunks to a newer part, at most half the size of a part.  Leaves out
 * a chunk that is larger than that.
 */
int btrail_store_sideband(struct btrail_store *store, const void *payload,
                          size_t len);

/*
 * With BTRAIL_SYNC_INTERVAL: syncs what was written to the disk when the
 * interval is over.  @next, unless NULL, gets the time of the next call, as of
 * g_get_monotonic_time(), or 0 if there is nothing to sync.
 */
int btrail_store_sync(struct btrail_store *store, gint64 *next);

/* Bytes written, including those in parts that were deleted */
uint64_t btrail_store_size(const struct btrail_store *store);

/*
 * Writes the index, unless there was an error; closes the file; frees @store.
 * @size, unless NULL, gets btrail_store_size() after that.
 */
int btrail_store_close(struct btrail_store *store, uint64_t *size);

#endif /* BTRAIL_STORE_H */
