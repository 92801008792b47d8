/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that compresses and writes blocks
 */

#ifndef BTRAIL_OUTPUT_H
#define BTRAIL_OUTPUT_H

#include "lib/internal/store.h"
#include "lib/internal/budget.h"
#include "lib/internal/stream.h"

struct btrail_output;

/**
 * btrail_output_new - start the thread
 * @store:  only the thread may use it, until btrail_output_free()
 * @names:  likewise: for sideband, or NULL if that goes to @store, too
 * @blocks: how many there may be at a time; more than there are streams.
 *          When all are in use, a caller that needs one waits.
 */
struct btrail_output *btrail_output_new(struct btrail_store *store,
                                        struct btrail_store *names,
                                        unsigned blocks);

/* Where streams hand their blocks; for one thread */
struct btrail_block_sink *btrail_output_sink(struct btrail_output *o);

/*
 * Would a stream have to wait for the disk to add records?  For the thread that
 * has the streams
 */
bool btrail_output_full(struct btrail_output *o);

/*
 * Writes a piece of sideband; @data, @info->size bytes, is freed with g_free().
 * Waits while too much is queued.  For the same thread
 */
void btrail_output_sideband(struct btrail_output *o,
                            const struct btrail_sideband_info *info,
                            void *data);

/*
 * Writes a piece of sideband that is packed already (see sideband.h).  @payload
 * is freed with g_free(), and its bytes and entry are then given back to the
 * budget that they were taken from.  For any thread; blocks do not wait for it.
 */
void btrail_output_packed(struct btrail_output *o, void *payload, size_t size,
                          struct btrail_budget *budget);

/*
 * Has the thread call a function once it has written all that is queued, and
 * waits for that; before btrail_output_finish().  If @fn returns a store,
 * sideband goes there from then on.
 */
typedef struct btrail_store *btrail_output_fn(void *opaque);
void btrail_output_call(struct btrail_output *o, btrail_output_fn *fn,
                        void *opaque);

/* CPU time that the thread has used so far */
uint64_t btrail_output_cpu_ns(const struct btrail_output *o);

/* Bytes written so far, and those of them that chunks of records have */
uint64_t btrail_output_bytes(const struct btrail_output *o);
uint64_t btrail_output_record_bytes(const struct btrail_output *o);

/* Records written so far, and records whose loss was written as GAP events */
uint64_t btrail_output_records(const struct btrail_output *o);
uint64_t btrail_output_lost(const struct btrail_output *o);

/* errno of a failed write, or 0.  All that comes later is dropped. */
int btrail_output_error(const struct btrail_output *o);

/* Writes all that is queued and ends the thread. */
void btrail_output_finish(struct btrail_output *o);

/* After btrail_output_finish() */
void btrail_output_free(struct btrail_output *o);

#endif /* BTRAIL_OUTPUT_H */
