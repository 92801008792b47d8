/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that compresses and writes blocks
 */

#ifndef BTRAIL_OUTPUT_H
#define BTRAIL_OUTPUT_H

#include "lib/internal/store.h"
#include "lib/internal/stream.h"

struct btrail_output;

/**
 * btrail_output_new - start the thread
 * @store:  used by the thread alone until btrail_output_free()
 * @names:  likewise: where sideband goes, if not there; or NULL
 * @blocks: how many there may be at a time; more than there are streams.
 *          When all are in use, getting one waits.
 */
struct btrail_output *btrail_output_new(struct btrail_store *store,
                                        struct btrail_store *names,
                                        unsigned blocks);

/* Where streams hand their blocks; to be used by one thread. */
struct btrail_block_sink *btrail_output_sink(struct btrail_output *o);

/*
 * Would whoever has records have to wait for the disk?  By the thread that has
 * the streams.
 */
bool btrail_output_full(struct btrail_output *o);

/*
 * Write a piece of sideband; @data, @info->size bytes, is freed with g_free().
 * Waits while there is too much to be written.  To be used by the same thread.
 */
void btrail_output_sideband(struct btrail_output *o,
                            const struct btrail_sideband_info *info,
                            void *data);

/*
 * Write a piece of sideband that is packed already (see sideband.h), so that
 * the thread has little to do for it.  @payload is freed with g_free().  To be
 * used by any thread, and does not keep blocks waiting.
 */
void btrail_output_packed(struct btrail_output *o, void *payload, size_t size);

/*
 * Have the thread call a function once it has written all that it has, and wait
 * for that; before btrail_output_finish().  What @fn returns is where sideband
 * goes from then on, if it is not NULL.
 */
typedef struct btrail_store *btrail_output_fn(void *opaque);
void btrail_output_call(struct btrail_output *o, btrail_output_fn *fn,
                        void *opaque);

/* CPU time that the thread has taken so far */
uint64_t btrail_output_cpu_ns(const struct btrail_output *o);

/* Bytes written so far */
uint64_t btrail_output_bytes(const struct btrail_output *o);

/* Records written so far, and those that GAP events written so far count */
uint64_t btrail_output_records(const struct btrail_output *o);
uint64_t btrail_output_lost(const struct btrail_output *o);

/* errno of a failed write, or 0.  Everything is dropped after that. */
int btrail_output_error(const struct btrail_output *o);

/* Write what there is and end the thread. */
void btrail_output_finish(struct btrail_output *o);

/* After btrail_output_finish() */
void btrail_output_free(struct btrail_output *o);

#endif /* BTRAIL_OUTPUT_H */
